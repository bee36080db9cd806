# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Means and covariances of logistic normals: where they start, and as parameters.

Used by :mod:`.logistic_normal`, :mod:`.shared_logistic_normal` and :mod:`.bilingual`, the pages
that say what is random. An *expert* is one Gaussian vector (Cohen and Smith 2009, section 3.2); a logistic normal has
one for each multinomial. Experts that start with variances in place of covariances keep a diagonal covariance.
"""

from collections.abc import Callable, Collection, Mapping

import pyro
import torch
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Gaussian, PartitionStructure
from pyrogram.grammar import Grammar

#: Weights start at no less, for an event whose mean is minus infinity could never come back.
LEAST_WEIGHT = 1e-4

Normals = Mapping[str, Gaussian]


def initial_experts(
    words: Tensor,
    grammar: Grammar,
    initial_weights: Mapping[str, Tensor] | None = None,
    covariance: Mapping[str, Tensor] | None = None,
    *,
    diagonal: bool = False,
) -> dict[str, Gaussian]:
    """One expert for each multinomial, by block: its mean is the logarithm of initial weights.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param initial_weights: raised to 1e-4 where they are less; by default the grammar's own starting point.
    :param covariance: by block, shape ``(*batch, N, N)``, broadcast over multinomials, as
        :func:`pyrogram.grammars.start_covariances` gives them; a block without one has the identity.
    :param diagonal: have variances alone; of given covariances the diagonals are used.
    :raises ValueError: if ``covariance`` has a name that is no block's.
    """
    check_names("covariance", covariance, grammar.blocks)
    weights = grammar.initial_weights(words) if initial_weights is None else initial_weights
    dtype = torch.get_default_dtype()
    experts = {}
    for name, block in grammar.blocks.items():
        loc = weights[name].to(words.device, dtype).clamp_min(LEAST_WEIGHT).log()
        matrix = (covariance or {}).get(name)
        if diagonal:
            variance = loc.new_ones(block.shape[-1]) if matrix is None else matrix.to(loc).diagonal(dim1=-2, dim2=-1)
            experts[name] = Gaussian(loc, variance=variance)
        else:
            experts[name] = Gaussian(loc, (torch.eye(block.shape[-1]) if matrix is None else matrix).to(loc))
    return experts


def initial_tied_experts(
    words: Tensor,
    grammar: Grammar,
    structure: PartitionStructure,
    initial_weights: Mapping[str, Tensor] | None = None,
    covariance: Mapping[str, Tensor] | None = None,
    *,
    diagonal: bool = False,
) -> dict[str, Gaussian]:
    """The experts of a partition structure, by family: softmax of their mixed means is the initial weights.

    :param covariance: by family of experts; a family without one has the identity.
    :raises ValueError: if ``covariance`` has a name that is no family's.
    """
    check_names("covariance", covariance, structure.experts)
    of_blocks = {name: matrix for name, matrix in (covariance or {}).items() if name in grammar.blocks}
    experts = initial_experts(words, grammar, initial_weights, of_blocks, diagonal=diagonal)
    return structure.tied_start(experts, covariance)


def experts_of_blocks(words: Tensor, grammar: Grammar, start: Normals | None, prior: Normals | None) -> Normals:
    """N(mu, Sigma) of each block: given, or learnt from a start."""
    shapes = {name: block.shape for name, block in grammar.blocks.items()}
    return given_or_learnt(shapes, "", start, prior, lambda: initial_experts(words, grammar))


def experts_of_families(
    words: Tensor, grammar: Grammar, structure: PartitionStructure, start: Normals | None, prior: Normals | None
) -> Normals:
    """N(mu, Sigma) of each family of experts: given, or learnt from a start."""
    shapes = {name: family.shape for name, family in structure.experts.items()}
    return given_or_learnt(shapes, "experts.", start, prior, lambda: initial_tied_experts(words, grammar, structure))


def given_or_learnt(
    shapes: Mapping[str, torch.Size],
    prefix: str,
    start: Normals | None,
    prior: Normals | None,
    default: Callable[[], Normals],
) -> Normals:
    """``prior``, or parameters that start at ``start`` or, where they are made for the first time, at ``default()``.

    :param prefix: of the parameters' names, after their kind and a dot.
    """
    if start is not None and prior is not None:
        raise ValueError("start is where a prior that is learnt begins, so give either start or prior, not both")
    for argument, normals in (("start", start), ("prior", prior)):
        if normals is not None and set(normals) != set(shapes):
            raise ValueError(f"{argument} must be given for {list(shapes)}, not for {list(normals)}")
    if prior is not None:
        return prior
    parameters = [f"{kind}.{prefix}{name}" for kind in ("loc", "covariance") for name in shapes]
    if start is None and any(name not in pyro.get_param_store() for name in parameters):
        start = default()
    return {name: learnt(f"{prefix}{name}", shape, start[name] if start else None) for name, shape in shapes.items()}


def learnt(name: str, shape: torch.Size, start: Gaussian | None) -> Gaussian:
    """N(mu, Sigma) of a family of experts as parameters.

    :param name: of the parameters, after their kind and a dot.
    :param shape: of the family.
    :param start: None if the parameters, with a covariance, are there already.
    """
    if start is None:
        return Gaussian(pyro.param(f"loc.{name}"), pyro.param(f"covariance.{name}"))
    loc = pyro.param(f"loc.{name}", start.loc.detach().expand(shape).clone)
    if start.covariance is not None:
        matrices = start.covariance.detach().expand(*shape, shape[-1])
        Sigma = pyro.param(f"covariance.{name}", matrices.clone, constraint=constraints.positive_definite)
        return Gaussian(loc, Sigma)
    assert start.variance is not None
    variances = start.variance.detach().expand(shape)
    return Gaussian(loc, variance=pyro.param(f"variance.{name}", variances.clone, constraint=constraints.positive))


def check_names(argument: str, given: Mapping[str, object] | None, known: Collection[str]) -> None:
    """Refuse what would be ignored.

    :raises ValueError: if ``given`` has a name that is not ``known``.
    """
    unknown = sorted(set(given or ()) - set(known))
    if unknown:
        raise ValueError(f"{argument} has no use for {unknown}; there are {list(known)}")
