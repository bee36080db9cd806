# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logistic normal and shared logistic normal weights, as Pyro primitives.

Logistic normal (Cohen, Gimpel and Smith 2008, section 2):  eta ~ N(mu, Sigma),  theta = softmax(eta).
Shared logistic normal (Cohen and Smith 2009, Definition 1): softmax of means of segments of Gaussian vectors, the
experts; see :mod:`.partition`.

Softmax is many to one, so theta has no density of its own: the Gaussians are the latent sites, theta is deterministic.
Called inside a plate of sentences, weights are drawn for each sentence, as in the papers; outside it, once for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.grammar import Block

from .gaussian import Gaussian
from .partition import PartitionStructure, unexpanded

__all__ = ["Gaussian", "LogisticNormalWeights", "logistic_normal", "shared_logistic_normal"]


@dataclass(frozen=True, eq=False)
class LogisticNormalWeights:
    """What the deterministic site of a block's weights is made of; its ``infer["logistic_normal"]``.

    :param structure: the partition structure.
    :param block: the block of the structure that the site is.
    :param sites: family of experts to the name of its Gaussian site.
    """

    structure: PartitionStructure
    block: str
    sites: Mapping[str, str]


def logistic_normal(
    name: str,
    loc: Tensor | float | Gaussian,
    covariance: Tensor | None = None,
    *,
    variance: Tensor | float | None = None,
    shape: Sequence[int] | Block | None = None,
) -> Tensor:
    """Draw multinomials from logistic normals: softmax of a Gaussian, over the last dimension.

    The Gaussian is the latent site ``"<name>.eta"``, the weights are the deterministic site ``name``. All dimensions
    are dimensions of one event, so that plates come to the left.

    >>> attach = logistic_normal("attach", torch.zeros(3, 2, 3), torch.eye(3))
    >>> attach.shape, bool(torch.allclose(attach.sum(-1), torch.ones(3, 2)))
    (torch.Size([3, 2, 3]), True)

    Multinomials of different sizes, a :class:`~pyrogram.grammar.PackedBlock` of R events, have one Gaussian for all
    events, and softmax is taken over each multinomial: pass the block for ``shape``. With a variance they are
    independent; with a covariance, of shape ``(R, R)``, they are so only if it is zero between them.

    :param loc: mu, shape ``(*batch, N)``: N events of each multinomial; or mu and Sigma in one, a :class:`Gaussian`.
    :param covariance: Sigma, positive definite, shape ``(*batch, N, N)``; one ``(N, N)`` serves all multinomials.
    :param variance: in place of covariance, the diagonal of Sigma, shape ``(*batch, N)``.
    :param shape: the block, or its shape ``(*batch, N)``, to which loc and covariance are broadcast; where they have
        more dimensions, those are batch dimensions for enclosing plates. By default, the shape that they broadcast to.
    :returns: the weights, shape ``(*plates, *batch, N)``.
    :raises ValueError: if both covariance and variance are given or neither (or one besides a Gaussian), or if shapes
        do not fit together.
    """
    if isinstance(loc, Gaussian):
        if covariance is not None or variance is not None:
            raise ValueError(f"logistic normal {name!r} has a Gaussian, so it takes neither covariance nor variance")
        gaussian = loc
    else:
        gaussian = Gaussian(_tensor(loc), covariance, None if variance is None else _tensor(variance))
    block = shape if isinstance(shape, Block) else Block(gaussian.shape if shape is None else torch.Size(shape))
    structure = _untied(name, block)
    return _draw({name: f"{name}.eta"}, {name: name}, {name: gaussian}, structure)[name]


def shared_logistic_normal(
    name: str, experts: Mapping[str, Gaussian], structure: PartitionStructure
) -> dict[str, Tensor]:
    """Draw multinomials from a shared logistic normal: softmax of mixed experts (2009, Definition 1).

    Families of experts are the latent sites ``"<name>.<family>.eta"``, blocks of weights the deterministic sites
    ``"<name>.<block>"``. The dimensions of experts and blocks are dimensions of one event; plates come to the left.

    :param experts: by family, parameters that broadcast to the family's shape.
    :param structure: which experts make up which multinomials.
    :returns: for each block of the structure its weights, shape ``(*plates, *block.shape)``.
    :raises ValueError: if a family is missing or unknown, or if shapes do not fit together.
    """
    if set(experts) != set(structure.experts):
        raise ValueError(f"experts must be given for {list(structure.experts)}, not for {list(experts)}")
    families = {family: f"{name}.{family}.eta" for family in structure.experts}
    blocks = {block: f"{name}.{block}" for block in structure.blocks}
    return _draw(families, blocks, experts, structure)


def _draw(
    families: Mapping[str, str],
    blocks: Mapping[str, str],
    experts: Mapping[str, Gaussian],
    structure: PartitionStructure,
) -> dict[str, Tensor]:
    """Sample the experts at the sites ``families`` and give the weights at the sites ``blocks``."""
    values = {}
    for family, site in families.items():
        try:
            function = experts[family].distribution(structure.experts[family].shape)
        except ValueError as error:
            raise ValueError(f"experts {family!r} of site {site!r}: {error}") from error
        infer: Any = {"gaussian": experts[family]}
        values[family] = pyro.sample(site, function, infer=infer)
    weights = {}
    for block, site in blocks.items():
        multinomials = structure.blocks[block]
        event_dim = multinomials.batch_dim + 1
        mixed = structure.average(block, values)
        value = multinomials.softmax(unexpanded(mixed, event_dim)).expand(mixed.shape)
        # What pyro.deterministic does, which takes no infer.
        infer = {"_deterministic": True, "logistic_normal": LogisticNormalWeights(structure, block, dict(families))}
        weights[block] = pyro.sample(site, dist.Delta(value, event_dim=event_dim).mask(False), obs=value, infer=infer)
    return weights


@lru_cache(maxsize=256)
def _untied(name: str, block: Block) -> PartitionStructure:
    """One structure for all calls with one name and block: models are run many times."""
    return PartitionStructure.untied({name: block})


def _tensor(value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.get_default_dtype())
