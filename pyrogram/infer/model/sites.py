# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the sites of a Pyro model are: distributions without their wrappers, and multinomials in one form.

The prior of multinomials is a Dirichlet, plain or packed, or a Beta: of a probability p, whose multinomial is
[p, 1 - p].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import MaskedDistribution
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Sentence
from pyrogram.distributions.packed_dirichlet import DIRICHLETS, PackedDirichlet
from pyrogram.distributions.ragged import RaggedSimplex, packed
from pyrogram.grammar import Block, PackedBlock

from .structure import ModelError, WeightSource, leaf_of

MULTINOMIALS = (*DIRICHLETS, dist.Beta)
"""Priors of multinomials."""


def base_distribution(function: Any) -> Any:
    """A distribution without its ``to_event``s."""
    while isinstance(function, torch.distributions.Independent):
        function = function.base_dist
    return function


def no_sentences(loop: str, nodes: Mapping[str, Any]) -> ModelError:
    """What is wrong with a model without observed sentences that can be seen."""
    for name, site in nodes.items():
        function = base_distribution(site["fn"]) if site["type"] == "sample" else None
        if isinstance(function, MaskedDistribution) and isinstance(base_distribution(function.base_dist), Sentence):
            return ModelError(
                f"{loop} cannot see through the mask of site {name!r}; leave sentences out by "
                "`with pyro.poutine.mask(mask=...)` in the place of Sentence(...).mask(...)"
            )
    return ModelError(f"{loop} found no observed Sentence site in the model; pass obs=words to pyro.sample")


class ObsMaskRefused(Messenger):
    """Sentences that ``pyro.sample(..., obs_mask=...)`` would draw are no latent variables that a loop has.

    :raises ModelError: in place of Pyro's error of shapes, for draws have not the corpus's width.
    """

    def _pyro_sample(self, msg: Any) -> None:
        name, is_rest, _ = msg["name"].rpartition("_unobserved")
        if is_rest and not msg["is_observed"] and isinstance(base_distribution(msg["fn"]), Sentence):
            raise ModelError(
                f"site {name!r} has an obs_mask=, for which Pyro draws the sentences that it leaves out; leave "
                "them out by `with pyro.poutine.mask(mask=...)` in its place"
            )


def observed_sentence(site: Any) -> Sentence | None:
    """The distribution of an observed site of sentences, without its ``to_event``s; None of any other site."""
    function = base_distribution(site["fn"]) if site["type"] == "sample" and site["is_observed"] else None
    return function if isinstance(function, Sentence) else None


def distribution_name(function: Any) -> str:
    """A distribution's name, for messages."""
    return type(function).__name__


def is_left_out(site: Any) -> bool:
    """Whether a sample site has no value of its own: a deterministic one, a Delta, a subsample, or an intervention.

    Under ``poutine.do`` a site is still drawn, but its value goes nowhere.
    """
    deterministic = site["infer"].get("_deterministic", False) or isinstance(base_distribution(site["fn"]), dist.Delta)
    return deterministic or site_is_subsample(site) or site.get("_intervener_id") is not None


def is_latent(site: Any) -> bool:
    """Whether a site is drawn, and has a value of its own."""
    return site["type"] == "sample" and not site["is_observed"] and not is_left_out(site)


def is_logistic_normal(site: Any) -> bool:
    """Whether a site's value is the softmax of normal experts."""
    return site["type"] == "sample" and "logistic_normal" in site["infer"]


def is_learnt(site: Any) -> bool:
    """Whether a site is a ``pyro.param`` that is not frozen."""
    return site["type"] == "param" and leaf_of(site["value"]).requires_grad


def multinomials(nodes: Mapping[str, Any]) -> list[WeightSource]:
    """Multinomials that may be weights: of parameters, of latent Dirichlet and Beta sites, and logistic normals."""
    sources = []
    for name, site in nodes.items():
        value = site.get("value")
        if is_learnt(site) and (block := block_of_param(site)) is not None:
            sources.append(WeightSource(name, block, value))
        elif is_logistic_normal(site):
            normal = site["infer"]["logistic_normal"]
            block = normal.structure.blocks[normal.block]
            sources.append(WeightSource(name, block, value, logistic_normal=normal))
        elif is_latent(site) and isinstance(function := base_distribution(site["fn"]), MULTINOMIALS):
            block, probability = block_of_site(function, value.shape), None
            if isinstance(function, dist.Beta):
                value, probability = torch.stack([value, 1 - value], -1), value
            alpha = concentration_of(function)
            sources.append(WeightSource(name, block, value, alpha, probability=probability))
    return sources


def concentration_of(prior: Any) -> Tensor:
    """Concentrations by event: those of p and of 1 - p, for a Beta, shape ``(*shape, 2)``."""
    if isinstance(prior, dist.Beta):
        return torch.stack([prior.concentration1, prior.concentration0], -1)
    concentration: Tensor = prior.concentration
    return concentration


def block_of_site(prior: Any, shape: torch.Size) -> Block:
    """The multinomials of a site.

    :param prior: the site's distribution, without ``to_event``s.
    :param shape: that of the site's value.
    """
    if isinstance(prior, PackedDirichlet):
        return PackedBlock(shape, prior.sizes)
    return Block(torch.Size([*shape, 2]) if isinstance(prior, dist.Beta) else shape)


def block_of_param(site: Any) -> Block | None:
    """The multinomials of a ``pyro.param``, if its constraint says that it has some."""
    constraint = constraint_of(site)
    if isinstance(constraint, RaggedSimplex):
        return packed(constraint.sizes)
    return Block(site["value"].shape) if constraint is constraints.simplex else None


def constraint_of(site: Any) -> Any:
    """The constraint of a ``pyro.param``."""
    constraint = site["kwargs"].get("constraint", constraints.real)
    if constraint is constraints.real:
        # PyroModule and pyro.param("name") leave it to the store, which makes its constraints public nowhere else.
        constraint = pyro.get_param_store()._constraints.get(site["name"], constraint)
    return constraint


def depends_on(result: Tensor, on: Tensor) -> bool:
    """Whether autograd's graph leads from ``on`` to ``result``."""
    if not (result.requires_grad and on.requires_grad):
        return False
    return torch.autograd.grad(result.sum(), on, retain_graph=True, allow_unused=True)[0] is not None


def expanded_mean(site: Any) -> Tensor:
    """The mean of a Gaussian site, in the shape of a draw: a view, however many sentences there are."""
    loc: Tensor = site["infer"]["gaussian"].loc
    return loc.expand(site["fn"].batch_shape + site["fn"].event_shape)
