# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a Pyro model says about a grammar, read off a run of it, and a few at random points (:mod:`.selection`).

A loop needs to know which observed sites are sentences, and what each block of weights is made of. Multinomials that
are weights, and nothing else, are set apart: values of a ``pyro.param``, of a Dirichlet or Beta site, or of a logistic
normal, whole or entry by entry. These have closed forms. All else, parameters and latent values, is
moved by the gradient of the log joint, in which sentences are replaced by tangents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer.autoguide.initialization import init_to_median
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyrogram.checks import broadcast_shapes, checked_words
from pyrogram.distributions import Gaussian, Sentence, simplex_of
from pyrogram.distributions.charted import ChartDistribution
from pyrogram.event_map import first_events, num_events
from pyrogram.grammar import Block, Grammar, PackedBlock, Weights
from pyrogram.random_state import random_state_kept
from pyrogram.sentences import Sentences

from .composed import TiedGrammar
from .selection import Computed, LatentMessenger, Selection, leaves_of, selections
from .sites import (
    MULTINOMIALS,
    base_distribution,
    concentration_of,
    constraint_of,
    distribution_name,
    expanded_mean,
    is_latent,
    is_learnt,
    is_left_out,
    multinomials,
    no_sentences,
    observed_sentence,
)
from .structure import Hyperparameter, ModelError, SentenceSite, TracedModel, WeightSource, leaf_of

ELSEWHERE = "VariationalEM, TreeGibbs, or pyro.infer.SVI with a guide, can"


def read(
    model: Callable[[], Any],
    loop: str,
    *,
    unconstrained: bool = False,
    opened: Collection[str] = (),
    logistic_normals: bool = False,
) -> TracedModel:
    """Run the model, without disturbing the random number generator, and say what it is.

    Latent values and parameters that are no sources of weights are the result's ``hyperparameters``. They begin near
    the medians of their priors.

    :param loop: name of the loop, for messages.
    :param unconstrained: see :func:`coordinates`.
    :param opened: latent sites that are not to be sources, though they could be.
    :param logistic_normals: whether these may be sources, and their Gaussian sites the result's ``gaussians``: they
        are, if all of them can be.
    :raises ModelError: for a discrete latent site, a minibatch, or weights whose origin cannot be followed.
    :raises ValueError: if there are no sentences, or words that a grammar does not have.
    """
    reader = _Reader(model, loop, opened, logistic_normals)
    sites = [reader.site(name) for name in reader.sentences]
    reader.check_sources()
    points = {}
    for name, site in reader.nodes.items():
        if name in reader.used or name in reader.gaussians:
            continue
        if is_learnt(site):
            points[name] = Hyperparameter(site["value"], leaf_of(site["value"]), constraint_of(site))
        elif is_latent(site):
            points[name] = _point(site, unconstrained)
    if not any(len(site.words) for site in sites):
        raise ValueError("the corpus has no sentences; give one at least")
    for corpus in sites:
        checked_words(corpus.words, corpus.grammar.num_words)
    if not points and all(source.is_constant for source in reader.used.values()):
        raise ModelError(f"{loop} has nothing to learn: all weights of the model are constants")
    return TracedModel(sites, reader.used, reader.gaussians, points)


def coordinates(unconstrained: bool) -> Callable[[Any], Any]:
    """The map from a support to the transform that gives its values coordinates.

    :param unconstrained: whether these are as many as the support has dimensions, so that densities can be transformed.
        Otherwise a multinomial has logits, one more than it needs, up which it is easier to climb.
    """
    return biject_to if unconstrained else transform_to


def computed_blocks(site: str, function: Sentence, traced: TracedModel) -> Weights:
    """Log weights of those blocks of one site that are computed, by source."""
    named = {f"{site}.{block}": block for block in function.grammar.blocks}
    computed = {n: b for n, b in named.items() if n in traced.weight_sources and traced.weight_sources[n].is_computed}
    log_weights = function.log_weights if computed else {}
    blocks = function.grammar.blocks
    return {name: of_each(log_weights[block], blocks[block], function) for name, block in computed.items()}


def log_density(trace: Any, traced: TracedModel) -> Tensor:
    """The log density of all sites of a trace but sentences, weights that are sources, and normal experts; float64.

    That of an observed multinomial with a weight of zero is left out where it is infinite: it would hide all else.
    """
    total = torch.zeros((), dtype=torch.float64)
    for name, site in trace.nodes.items():
        if site["type"] != "sample" or is_left_out(site) or name in traced.weight_sources or name in traced.gaussians:
            continue
        if observed_sentence(site) is not None:
            continue
        density = scale_and_mask(site["fn"].log_prob(site["value"]), site["scale"], site["mask"])
        if site["is_observed"] and isinstance(base_distribution(site["fn"]), MULTINOMIALS):
            density = density[density.isfinite()]
        total = total + density.sum().to("cpu", torch.float64)
    return total


class _Reader:
    """A run of a model, with the sources of the weights of its sentences: whole sites, their entries, constants.

    :param loop: the name of the loop, for messages.
    :param opened: see :func:`read`, as ``logistic_normals``.
    """

    def __init__(self, model: Callable[[], Any], loop: str, opened: Collection[str], logistic_normals: bool) -> None:
        self.loop = loop
        with random_state_kept(), torch.enable_grad(), LatentMessenger(partial(_begin, at_mean=logistic_normals)):
            self.nodes: dict[str, Any] = dict(poutine.trace(model).get_trace().nodes)
        self.samples = {n: s for n, s in self.nodes.items() if s["type"] == "sample" and not is_left_out(s)}
        self.sentences = {n: f for n, s in self.samples.items() if (f := observed_sentence(s)) is not None}
        if not self.sentences:
            raise no_sentences(loop, self.nodes)
        for name, site in self.samples.items():
            self._check(name, site)
        self.origins = selections(model)
        self._blocks = [block for by_block in self.origins.values() for block in by_block.values()]
        others = {n: s for n, s in self.samples.items() if n not in self.sentences}
        #: by site, the ids of the leaves that its density depends on
        self.reached = {n: set(leaves_of(s["fn"].log_prob(s["value"]).sum())) for n, s in others.items()}
        self._check_known()
        every = multinomials(self.nodes)
        normals = {source.name: source for source in every if source.logistic_normal is not None}
        candidates = {source.name: source for source in every if source.logistic_normal is None}
        #: of multinomials that are no candidates, why not, in words
        self.reasons = self._open(candidates, opened) | dict.fromkeys(normals, ", a logistic normal")
        #: what weights may come from
        self.candidates = {name: source for name, source in candidates.items() if name not in self.reasons}
        self.gaussians = self._held_normals(normals) if logistic_normals else {}
        if self.gaussians:
            self.candidates |= normals
        self.used: dict[str, WeightSource] = {}

    def _check(self, name: str, site: Any) -> None:
        if any(frame.full_size not in (None, frame.size) for frame in site["cond_indep_stack"]):
            raise ModelError(
                f"{self.loop} needs the whole corpus, but site {name!r} is in a subsampled plate; give the plate no "
                "subsample_size, or use pyro.infer.SVI"
            )
        scale = torch.as_tensor(site["scale"])
        if isinstance(base_distribution(site["fn"]), Sentence) and not bool((scale == scale.max()).all()):
            raise ModelError(
                f"{self.loop} needs one scale for all sentences of site {name!r}; pyro.infer.SVI takes any"
            )
        if not site["is_observed"] and site["fn"].support.is_discrete:
            kind = distribution_name(base_distribution(site["fn"]))
            raise ModelError(
                f"{self.loop} cannot handle the discrete latent site {name!r} ({kind}); pyro.infer.SVI with "
                "TraceEnum_ELBO can"
            )

    def _check_known(self) -> None:
        """Densities must depend on nothing that would be left as it is."""
        nodes = self.nodes
        known = {id(leaf_of(s["value"])) for s in nodes.values() if s["type"] == "param"}
        known |= {id(s["value"]) for s in nodes.values() if s["type"] == "sample"}
        for name, leaves in self.reached.items():
            if leaves - known:
                raise ModelError(
                    f"{self.loop} cannot learn what the density of site {name!r} depends on: a tensor that requires a "
                    "gradient, and that Pyro does not know; make it a pyro.param, or detach it"
                )

    def _open(self, candidates: Mapping[str, WeightSource], opened: Collection[str]) -> dict[str, str]:
        """Candidates that are not weights alone, each with the reason, in words, or none of use.

        Other sites depend on them, or weights that are computed; or they are no weights at all.

        :param opened: others that are to be treated so.
        """
        blocks = self._blocks
        selected = {name for block in blocks if not isinstance(block, Computed) for name in block.sources}
        result = {name: "" for block in blocks if isinstance(block, Computed) for name in block.sources}
        result |= dict.fromkeys((candidates.keys() - selected) | (candidates.keys() & opened), "")
        for name, leaves in self.reached.items():
            function = base_distribution(self.samples[name]["fn"])
            known = "; give derivations that are known to Sentence, as known=" * isinstance(function, ChartDistribution)
            for other, source in candidates.items():
                if other != name and id(source.leaf) in leaves:
                    result[other] = f", on which site {name!r} ({distribution_name(function)}) depends, too{known}"
            if math.isnan(_factor(self.samples[name])):
                result.setdefault(name, "")
        size = -1
        while len(result) > size:  # a block that is made of such a one is computed, too
            size = len(result)
            for block in blocks:
                if not isinstance(block, Computed) and not candidates.keys() - result.keys() >= set(block.sources):
                    result = {**dict.fromkeys(block.sources, ""), **result}
        return {name: reason for name, reason in result.items() if name in candidates}

    def _held_normals(self, normals: Mapping[str, WeightSource]) -> dict[str, Gaussian]:
        """The Gaussian sites of the logistic normals, if all can have a q that Newton's method moves; none otherwise.

        All weights then are made of logistic normals and other multinomials. Nothing else is latent, scaled or masked;
        only priors have densities that depend on something, which is a parameter; and there are no parameters but
        these.
        """
        nodes, multinomials = self.nodes, self.candidates.keys()
        latent = {n: s for n, s in nodes.items() if is_latent(s)}
        gaussians = {n: s for n, s in latent.items() if "gaussian" in s["infer"]}
        structures = {n: s.logistic_normal for n, s in normals.items() if s.logistic_normal is not None}
        needed = {name for normal in structures.values() for name in normal.sites.values()}
        selected = {name for block in self._blocks for name in block.sources}
        computed = any(isinstance(block, Computed) for block in self._blocks)
        if not normals or computed or not normals.keys() <= selected <= {*normals, *multinomials}:
            return {}
        untied = {block.whole for block in self._blocks if isinstance(block, Selection)}
        for name in normals.keys() - untied:  # its entries are tied, which those of each sentence cannot be
            if normals[name].value.shape != normals[name].block.shape:
                return {}
        if gaussians.keys() != needed or latent.keys() - gaussians.keys() - multinomials:
            return {}
        if any(s["mask"] is not None or bool((torch.as_tensor(s["scale"]) != 1).any()) for s in self.samples.values()):
            return {}
        parameters = {id(leaf_of(s["value"])) for n, s in nodes.items() if is_learnt(s) and n not in multinomials}
        priors = {n: leaves - {id(nodes[n]["value"])} for n, leaves in self.reached.items()}
        if any(leaves - parameters if n in latent else leaves for n, leaves in priors.items()):
            return {}
        if parameters - set().union(*priors.values()):
            return {}
        for normal in structures.values():
            for family, name in normal.sites.items():
                if len(gaussians[name]["infer"]["gaussian"].shape) > len(normal.structure.experts[family].shape):
                    return {}  # a mean for each element of a plate
        return {name: site["infer"]["gaussian"] for name, site in gaussians.items()}

    def site(self, name: str) -> SentenceSite:
        """Sentences with the sources of their weights, each as often as ``log_prob`` has it; those that are masked not.

        :raises ModelError: if the weights, a bias or evidence cannot be learnt, but should.
        """
        site, function = self.samples[name], self.sentences[name]
        shape = broadcast_shapes(function.batch_shape, site["value"].shape[:-1])
        sentences = Sentences.of(function.observed(site["value"].long())).flat(shape)
        corpus = self._with_sources(name, function, sentences)
        if site["mask"] is not None:
            inner = len(function.batch_shape) - len(site["fn"].batch_shape)  # dimensions of one event, under to_event
            outer = torch.as_tensor(site["mask"], device=sentences.words.device).expand(shape[: len(shape) - inner])
            kept = outer.reshape(*outer.shape, *(1,) * inner).expand(shape).reshape(-1)
            is_own = any(self.used[source].per_sentence for source in corpus.source_of_block.values())
            if is_own and not bool(kept.all()):
                raise ModelError(
                    f"{self.loop} cannot handle the mask on site {name!r}, whose sentences have weights of their own; "
                    "leave out those sentences instead"
                )
            corpus = replace(corpus, sentences=sentences[kept])
        return replace(corpus, scale=float(torch.as_tensor(site["scale"]).max()))

    def _with_sources(self, name: str, function: Sentence, sentences: Sentences) -> SentenceSite:
        """A site of all sentences with the sources of its blocks."""
        for kind, learnt in ("bias", function.grammar.bias.is_learnt), ("evidence", sentences.is_learnt):
            if learnt:
                raise ModelError(f"{self.loop} cannot learn the {kind} of site {name!r}; detach it, or {ELSEWHERE}")
        origins = {block: self._source(name, block, function) for block in function.grammar.blocks}
        whole = {block: source for block, source in origins.items() if isinstance(source, WeightSource)}
        if len(whole) == len(origins):
            whole = {block: self._whole(name, block, s, function, len(sentences)) for block, s in whole.items()}
            is_each_once = len({source.name for source in whole.values()}) == len(whole)
            if is_each_once or any(source.per_sentence and not source.is_computed for source in whole.values()):
                self.used.update({source.name: source for source in whole.values()})
                names = {block: source.name for block, source in whole.items()}
                return SentenceSite(name, function.observed_grammar, sentences, names)
        return self._tied(name, function.observed_grammar, sentences, {**origins, **whole})

    def _source(self, site: str, name: str, function: Sentence) -> WeightSource | Selection:
        """The source that a block is, if it is the whole of one, constants, or computed."""
        block, origin = function.grammar.blocks[name], self.origins[site][name]
        if isinstance(origin, Computed) or not self.candidates.keys() >= set(origin.sources):
            return self._computed(site, name, function, origin)
        if not origin.sources:
            return WeightSource(f"{site}.{name}", block, origin.constants, is_constant=True)
        source = None if origin.whole is None else self.candidates[origin.whole]
        return source if source is not None and source.block.shape == block.shape else origin

    def _computed(self, site: str, name: str, function: Sentence, origin: Selection | Computed) -> WeightSource:
        """The source that a block is whose weights are computed, or made of entries of no candidates."""
        cause = origin.cause if isinstance(origin, Computed) else f"made of {' and '.join(map(repr, origin.sources))}"
        if isinstance(origin, Computed) and not origin.is_followed:
            raise ModelError(
                f"{self.loop} cannot learn block {name!r} of site {site!r}, which is {cause}; make parameters known by "
                "pyro.module or pyro.param, and let gradients through"
            )
        block = function.grammar.blocks[name]
        value = of_each(function.log_weights[name].detach(), block, function).exp()
        if isinstance(origin, Selection):
            cause = "".join([cause, *dict.fromkeys(self.reasons.get(x, "") for x in origin.sources)])
        per_sentence = value.dim() > len(block.shape)
        return WeightSource(f"{site}.{name}", block, value, per_sentence=per_sentence, computed_from=cause)

    def _whole(
        self, site: str, name: str, source: WeightSource, function: Sentence, num_sentences: int
    ) -> WeightSource:
        """A source that is a block as it stands.

        :raises ModelError: if its multinomials are not those of the block, or if they are some sentences' own.
        """
        if source.is_computed or source.is_constant:
            return source
        block, per_sentence = function.grammar.blocks[name], False
        weights = function.weights or function.log_weights  # no logarithms of what is expanded over sentences
        shape = weights[name].shape
        batch = tuple(shape[: len(shape) - len(block.shape)])
        if batch and source.value.dim() >= len(shape):  # otherwise one grammar may be expanded over sentences
            per_sentence = source.logistic_normal is not None and batch == (num_sentences,)
            if not per_sentence:
                raise ModelError(
                    f"{self.loop} needs one grammar for all sentences, or a logistic normal for each, but block "
                    f"{name!r} of site {site!r} has the batch shape {batch}; {ELSEWHERE}"
                )
        if source.logistic_normal is not None and _sizes(source.block) != _sizes(block):
            raise ModelError(
                f"{self.loop} needs a logistic normal for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; draw it with shape=grammar.blocks[{name!r}]"
            )
        if source.concentration is not None and _sizes(source.block) != _sizes(block):
            raise ModelError(
                f"{self.loop} needs a Dirichlet for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; make it by dirichlet_prior(grammar.blocks[{name!r}], concentration)"
            )
        return replace(source, block=block, per_sentence=per_sentence)

    def _tied(
        self, name: str, grammar: Grammar, sentences: Sentences, origins: Mapping[str, WeightSource | Selection]
    ) -> SentenceSite:
        """A site some of whose blocks are selections: its grammar is one over the sources."""
        sources: dict[str, WeightSource] = {}
        for origin in origins.values():
            of_block = [origin] if isinstance(origin, WeightSource) else [self.candidates[x] for x in origin.sources]
            sources.update({source.name: source for source in of_block})
        for source in sources.values():
            if source.value.dim() > len(source.block.shape) and not source.is_computed:
                raise ModelError(
                    f"{self.loop} cannot tie {source.name!r}, which each sentence has of its own; {ELSEWHERE}"
                )
        blocks, entries = {name: source.block for name, source in sources.items()}, Weights()
        first, following = first_events(blocks), num_events(blocks)
        constants: list[Tensor] = []
        for block, origin in origins.items():
            if isinstance(origin, WeightSource):
                shape = origin.block.shape
                entries[block] = first[origin.name] + torch.arange(shape.numel()).reshape(shape)
                continue
            offsets = torch.tensor([first[source] for source in origin.sources] + [0])  # the last is that of constants
            entries[block], fixed = offsets[origin.source] + origin.entry, origin.source < 0
            constants.append(origin.constants[fixed])
            entries[block][fixed] = following + torch.arange(len(constants[-1]))
            following += len(constants[-1])
        if following > num_events(blocks):
            values = torch.cat(constants)
            sources[f"{name}.constants"] = WeightSource(
                f"{name}.constants", Block(values.shape), values, is_constant=True
            )
        self.used.update(sources)
        tied = TiedGrammar(grammar, {n: s.block for n, s in sources.items()}, entries)
        return SentenceSite(name, tied, sentences, {source: source for source in sources})

    def check_sources(self) -> None:
        """
        :raises ModelError: if a site has the name of a block that is no site; if concentrations are not positive, which
            Pyro refuses only where it validates; if weights are parameters of another constraint.
        """
        for name in self.used.keys() & self.samples.keys():
            self.used[name] = replace(self.used[name], scale=_factor(self.samples[name]))
        for name, source in self.used.items():
            if source.is_computed and name in self.nodes:
                raise ModelError(
                    f"{self.loop} needs another name for site {name!r}, which is that of a block of a Sentence site"
                )
            alpha = source.concentration
            if alpha is not None and not bool((alpha > 0).all()):
                raise ModelError(
                    f"{self.loop} needs positive concentrations, but that of site {name!r} goes down to "
                    f"{float(alpha.min()):g}; make it positive, be it by little"
                )
            if not source.is_param:
                continue
            actual, needed = constraint_of(self.nodes[name]), simplex_of(source.block)
            if type(actual) is not type(needed) or getattr(actual, "sizes", None) != getattr(needed, "sizes", None):
                code = "constraints.simplex" if needed is constraints.simplex else "simplex_of(block)"
                raise ModelError(
                    f"{self.loop} needs pyro.param {name!r} to have constraint={code}, for it is estimated as "
                    f"probabilities; its constraint is {repr(actual).strip('()')}"
                )


def _begin(site: Any, at_mean: bool) -> Tensor:
    """Where a latent value begins: at the median of its prior, if it is a number; real vectors at a draw.

    Where all begin at zero, symmetry is never broken.

    :param at_mean: whether Gaussian sites of logistic normals begin at their means.
    """
    if at_mean and "gaussian" in site["infer"]:
        return expanded_mean(site)
    support = site["fn"].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support.is_discrete or (support is constraints.real and base_distribution(site["fn"]).event_shape):
        drawn: Tensor = site["fn"].sample()
        return drawn
    return init_to_median(site)  # type: ignore[no-any-return]


def _point(site: Any, unconstrained: bool) -> Hyperparameter:
    """Where a latent value begins."""
    support, function = site["fn"].support, base_distribution(site["fn"])
    leaf = coordinates(unconstrained)(support).inv(site["value"]).detach().clone().requires_grad_()
    alpha = concentration_of(function).detach() if isinstance(function, MULTINOMIALS) and _factor(site) != 0 else None
    return Hyperparameter(site["value"].detach(), leaf, support, is_latent=True, concentration=alpha)


def _factor(site: Any) -> float:
    """What the log density of a site is multiplied by, its mask included; NaN where elements have others."""
    one = torch.ones((), dtype=torch.float64)
    factors = one * site["scale"] * (one if site["mask"] is None else torch.as_tensor(site["mask"]))
    return float(factors.max()) if bool((factors == factors.max()).all()) else math.nan


def of_each(log_weights: Tensor, block: Block, function: Sentence) -> Tensor:
    """Weights of each of N sentences, in any plates, as ``(N, *block.shape)``; shared ones as ``block.shape``."""
    batch = log_weights.shape[: log_weights.dim() - len(block.shape)]
    if batch.numel() == 1:
        return log_weights.reshape(block.shape)
    return log_weights.expand(*function.batch_shape, *block.shape).reshape(-1, *block.shape)


def _sizes(block: Block) -> tuple[int, ...] | None:
    return block.sizes if isinstance(block, PackedBlock) else None
