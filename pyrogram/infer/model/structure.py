# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a loop knows of a model: where each block of weights comes from, and which priors are to be learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import Gaussian, LogisticNormalWeights
from pyrogram.grammar import Block, Grammar, Weights
from pyrogram.sentences import Sentences

from .composed import MixtureGrammar, TiedGrammar


class ModelError(NotImplementedError):
    """A model that a loop cannot handle; the message names the site and says what can."""


def leaf_of(value: Tensor) -> Tensor:
    """The tensor that a ``pyro.param`` is learnt by; with ``module_local_params`` it is the module's own."""
    leaf: Tensor = value.unconstrained() if hasattr(value, "unconstrained") else value
    return leaf


@dataclass(frozen=True)
class SentenceSite:
    """An observed site of N sentences, and what site each of its grammar's blocks is the value of.

    Where weights are tied, the grammar is a :class:`.TiedGrammar`, whose blocks are the sources.

    :param sentences: words of shape ``(N, n)``, and what is known of their derivations.
    :param scale: what the log-likelihood of the sentences is multiplied by.
    :param rows: of a share of the sentences, their numbers among all that the model has.
    """

    name: str
    grammar: Grammar
    sentences: Sentences
    source_of_block: dict[str, str]
    scale: float = 1.0
    rows: Tensor | None = None

    @property
    def words(self) -> Tensor:
        """Words of the sentences, shape ``(N, n)``."""
        return self.sentences.words

    def number(self, sentence: int) -> int:
        """The number of a sentence among all that the model has."""
        return sentence if self.rows is None else int(self.rows[sentence])

    @property
    def _ties(self) -> TiedGrammar | None:
        return self.grammar if isinstance(self.grammar, TiedGrammar) else None

    @property
    def model_grammar(self) -> Grammar:
        """The grammar that the model has, of weights that are tied or not."""
        return self.grammar if self._ties is None else self._ties.base

    def by_event(self, by_source: Mapping[str, Tensor]) -> Weights:
        """Values by block of :attr:`model_grammar`, from those by source."""
        by_block = {block: by_source[source] for block, source in self.source_of_block.items()}
        return by_block if self._ties is None else self._ties.by_event(by_block)

    def by_entry(self, counts: Mapping[str, Tensor]) -> Weights:
        """Counts by block of :attr:`grammar`, from those by block of :attr:`model_grammar`."""
        return dict(counts) if self._ties is None else self._ties.by_entry(counts)

    def sources_of_blocks(self) -> dict[str, list[str]]:
        """By block of :attr:`model_grammar`, the sources of its weights."""
        if self._ties is not None:
            return self._ties.sources_of_blocks()
        return {block: [source] for block, source in self.source_of_block.items()}

    def derivation(self) -> Any:
        """The distribution over derivations in which all derivations of a sentence have one weight."""
        blocks = self.grammar.blocks.items()
        zeros = {n: self.words.new_zeros(b.shape, dtype=torch.float64) for n, b in blocks}
        return self.grammar.derivation(None, self.sentences, log_weights=zeros)

    @property
    def mixture(self) -> MixtureGrammar | None:
        """The grammar that the model has, if it is a mixture."""
        return self.model_grammar if isinstance(self.model_grammar, MixtureGrammar) else None

    def weights(self, by_source: Mapping[str, Tensor]) -> Weights:
        """The same of weights, in memory of their own."""
        return self.by_event({source: by_source[source].clone() for source in self.source_of_block.values()})

    def check_derivable(self, log_z: Tensor) -> None:
        """Raise a ValueError that names the first sentence without a derivation."""
        impossible = (log_z == -torch.inf).nonzero()
        if len(impossible):
            first = int(impossible[0])
            number = self.number(first)
            others = ", and with a bias that does not forbid all derivations" if self.grammar.bias.events else ""
            if self.sentences.known and not self._agrees(first):
                raise ValueError(
                    f"sentence {number} of site {self.name!r} has evidence that no derivation agrees with, such as two "
                    "roots, a cycle of heads, or brackets that cross; correct what is known of it, or say that it is "
                    "unknown"
                )
            raise ValueError(
                f"sentence {number} of site {self.name!r} has probability zero under the current weights; "
                f"start from weights without zeros{others}"
            )

    def _agrees(self, sentence: int) -> bool:
        """Whether some derivation agrees with what is known of a sentence, if it has any, whatever the weights are."""
        blocks, alone = self.grammar.blocks.items(), self.sentences[sentence : sentence + 1]
        zeros = {n: torch.zeros(block.shape, dtype=torch.float64, device=alone.words.device) for n, block in blocks}
        agrees, derivable = (self.grammar.log_partition(zeros, x) > -torch.inf for x in (alone, alone.words))
        return bool(agrees) or not bool(derivable)


@dataclass(frozen=True)
class WeightSource:
    """A site that weights come from: a ``pyro.param``, a Dirichlet (with a concentration), or a logistic normal.

    A Beta is a Dirichlet whose multinomials are pairs [p, 1 - p].

    :param per_sentence: of logistic normals inside the plate of sentences: every sentence has its own weights.
    :param probability: the p of pairs, which is the site's own value.
    :param is_constant: whether it is no site, but numbers that the model has written down.
    :param computed_from: what the model's code computes it from, in words, if it is no site.
    :param scale: what the log density of its prior is multiplied by.
    """

    name: str
    block: Block
    value: Tensor
    concentration: Tensor | None = None
    logistic_normal: LogisticNormalWeights | None = None
    per_sentence: bool = False
    probability: Tensor | None = None
    is_constant: bool = False
    computed_from: str = ""
    scale: float = 1.0

    @property
    def is_computed(self) -> bool:
        """Whether it is no site, but computed by the model's code from parameters and latent values."""
        return bool(self.computed_from)

    @property
    def leaf(self) -> Tensor:
        """What autograd's graph of the model begins with."""
        return leaf_of(self.value if self.probability is None else self.probability)

    @cached_property
    def is_param(self) -> bool:
        """Whether the weights are a ``pyro.param``, to be estimated themselves."""
        has_prior = self.concentration is not None or self.logistic_normal is not None
        return not (has_prior or self.is_constant or self.is_computed)

    def at_site(self, weights: Tensor) -> Tensor:
        """Weights as the site has them: of pairs, p."""
        return weights if self.probability is None else weights[..., 0]

    def of_site(self, value: Tensor) -> Tensor:
        """A value of the site as weights."""
        return value if self.probability is None else torch.stack([value, 1 - value], -1)

    @property
    def learns_prior(self) -> bool:
        """Whether the concentration depends on some ``pyro.param``."""
        return self.concentration is not None and self.concentration.requires_grad


@dataclass(frozen=True)
class Hyperparameter:
    """A ``pyro.param`` that priors depend on, or computed weights; or a latent value.

    :param unconstrained: its coordinates, a leaf of autograd's graph.
    :param concentration: of latent multinomials, as the model had it.
    """

    value: Tensor
    unconstrained: Tensor
    constraint: Any
    is_latent: bool = False
    concentration: Tensor | None = None


@dataclass(frozen=True)
class TracedModel:
    """Sentences, sources of weights, normal experts, and the parameters that priors depend on.

    :param gaussians: of latent sites of normal experts: one family of a logistic normal, drawn once or once a sentence.
    :param reference: numbers that tell this model from others whose sites have the same names and shapes.
    """

    sentences: list[SentenceSite]
    weight_sources: dict[str, WeightSource]
    gaussians: dict[str, Gaussian] = field(default_factory=dict)
    hyperparameters: dict[str, Hyperparameter] = field(default_factory=dict)
    reference: str = ""

    @property
    def unconstrained(self) -> dict[str, Tensor]:
        """The unconstrained parameters that priors depend on."""
        return {name: parameter.unconstrained for name, parameter in self.hyperparameters.items()}

    def priors(self) -> dict[str, Tensor | Gaussian]:
        """Concentrations of Dirichlet sites, means and covariances of Gaussian sites, as the model had them."""
        alpha = {n: s.concentration for n, s in self.weight_sources.items() if s.concentration is not None}
        return {**self.gaussians, **alpha}

    def prior_tensors(self) -> Iterator[tuple[str, str, Tensor]]:
        """Every tensor that a prior has: the name of its site, what it is, the tensor."""
        for name, source in self.weight_sources.items():
            if source.concentration is not None:
                yield name, "concentration", source.concentration
        for name, gaussian in self.gaussians.items():
            for kind in ("loc", "covariance", "variance"):
                tensor = getattr(gaussian, kind)
                if tensor is not None:
                    yield name, kind, tensor

    def fingerprint(self, loop: str) -> str:
        """A hash of weights and parameters by name and shape, priors, grammars and sentences, and of a loop's name."""
        digest = hashlib.sha256(f"{loop}{self.reference}".encode())
        for source in self.weight_sources.values():
            kind = f"{source.name}{tuple(source.block.shape)}{source.value.dtype}{source.is_param}"
            digest.update(kind.encode() if source.scale == 1 else f"{kind}{source.scale}".encode())
            if source.is_constant:
                digest.update(source.value.to("cpu", torch.float64).contiguous().numpy().tobytes())
        for name, kind, tensor in self.prior_tensors():
            digest.update(f"{name}{kind}{tuple(tensor.shape)}".encode())
            if not tensor.requires_grad:
                digest.update(tensor.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
        for name, parameter in self.unconstrained.items():
            digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
        for site in self.sentences:
            scale = "" if site.scale == 1 else str(site.scale)
            known = site.sentences.digest
            digest.update(f"{site.name}{tuple(site.words.shape)}{site.grammar.identity}{known}{scale}".encode())
            digest.update(site.words.to("cpu", torch.long).contiguous().numpy().tobytes())
        return digest.hexdigest()

    def site(self, name: str | None) -> SentenceSite:
        """The Sentence site of this name; None stands for the only one."""
        names = [s.name for s in self.sentences]
        if name is None and len(names) > 1:
            raise ValueError(f"say which of the Sentence sites {names} is meant, as in site={names[0]!r}")
        if name is not None and name not in names:
            raise ModelError(f"the model has no Sentence site {name!r}, only {names}")
        return self.sentences[0 if name is None else names.index(name)]

    def of_each(self, site: SentenceSite) -> bool:
        """Whether the sentences of a site have weights of their own."""
        return any(self.weight_sources[source].per_sentence for source in site.source_of_block.values())

    def computed_blocks(self) -> Iterator[tuple[str, str, WeightSource]]:
        """Sites, and the blocks of their grammars that are computed, with their sources."""
        for site in self.sentences:
            for block, names in site.sources_of_blocks().items():
                for source in (self.weight_sources[name] for name in names):
                    if source.is_computed:
                        yield site.name, block, source

    def parameter_values(self) -> dict[str, Tensor]:
        """Copies of the unconstrained parameters that priors depend on."""
        return {name: p.detach().clone() for name, p in self.unconstrained.items()}

    def begin_at(self, values: Mapping[str, Tensor]) -> None:
        """:meth:`set_parameters` of those values that have the name and the shape of a parameter of this model."""
        parameters = self.unconstrained
        self.set_parameters({n: v for n, v in values.items() if n in parameters and v.shape == parameters[n].shape})

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Put unconstrained values into the parameters that priors depend on, which live in Pyro's store."""
        with torch.no_grad():
            for name, value in values.items():
                self.hyperparameters[name].unconstrained.copy_(value)


@dataclass
class Problem:
    """What the steps of a loop are about, besides their state: a model, with its arguments, and what was read of it."""

    traced: TracedModel
    model: Callable[[], Any]


def most_likely(traced: TracedModel, counts: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> Weights:
    """The M-step of weights that are ``pyro.param`` sites: normalised counts, or as before where there are none.

    :param old: the weights by source, of those alone that have no prior; constants stay.
    """
    weights = {}
    for name, w in old.items():
        if traced.weight_sources[name].is_constant:
            weights[name] = w
            continue
        block, f = traced.weight_sources[name].block, counts[name]
        weights[name] = torch.where(block.totals(f) >= torch.finfo(f.dtype).tiny, block.normalize(f).to(w), w)
    return weights
