# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a loop knows of a model: where each block of weights comes from, and which priors are to be learnt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pyrogram.distributions import Gaussian, Mixture
from pyrogram.grammar import Block, Grammar


class ModelError(NotImplementedError):
    """A model that a loop cannot handle; the message names the site and says what can."""


@dataclass(frozen=True)
class SentenceSite:
    """An observed site of sentences, shape ``(N, n)``, and what site each of its grammar's blocks is the value of."""

    name: str
    grammar: Grammar
    words: Tensor
    sources: dict[str, str]


@dataclass(frozen=True)
class Source:
    """A site that weights come from: a ``pyro.param``, a Dirichlet (with a concentration), or a logistic normal.

    ``per_sentence`` is true of logistic normals inside the plate of sentences: every sentence has its own weights.
    """

    name: str
    block: Block
    value: Tensor
    concentration: Tensor | None = None
    mixture: Mixture | None = None
    per_sentence: bool = False

    @property
    def is_param(self) -> bool:
        """Whether the weights are a ``pyro.param``, to be estimated themselves."""
        return self.concentration is None and self.mixture is None

    @property
    def learns_prior(self) -> bool:
        """Whether the concentration depends on some ``pyro.param``."""
        return self.concentration is not None and self.concentration.requires_grad


@dataclass(frozen=True)
class GaussianSite:
    """A latent site of normal experts: one family of a logistic normal, drawn once or once a sentence."""

    name: str
    gaussian: Gaussian
    value: Tensor


@dataclass(frozen=True)
class Hyperparameter:
    """A ``pyro.param`` that priors depend on."""

    value: Tensor
    unconstrained: Tensor
    constraint: Any


@dataclass(frozen=True)
class Reading:
    """Sentences, sources of weights, normal experts, and the parameters that priors depend on."""

    sentences: list[SentenceSite]
    sources: dict[str, Source]
    gaussians: dict[str, GaussianSite] = field(default_factory=dict)
    parameters: dict[str, Hyperparameter] = field(default_factory=dict)

    @property
    def hyperparameters(self) -> dict[str, Tensor]:
        """The unconstrained parameters that priors depend on."""
        return {name: parameter.unconstrained for name, parameter in self.parameters.items()}

    def priors(self) -> dict[str, Tensor | Gaussian]:
        """Concentrations of Dirichlet sites, means and covariances of Gaussian sites, as the model had them."""
        found: dict[str, Tensor | Gaussian] = {n: site.gaussian for n, site in self.gaussians.items()}
        found.update({n: s.concentration for n, s in self.sources.items() if s.concentration is not None})
        return found

    def prior_tensors(self) -> Iterator[tuple[str, str, Tensor]]:
        """Every tensor that a prior has: the name of its site, what it is, the tensor."""
        for name, source in self.sources.items():
            if source.concentration is not None:
                yield name, "concentration", source.concentration
        for name, site in self.gaussians.items():
            for kind in ("loc", "covariance", "variance"):
                tensor = getattr(site.gaussian, kind)
                if tensor is not None:
                    yield name, kind, tensor
