# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Priors of logits, real numbers of which softmax makes weights: processes, factors and features with Normals."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.grammar import Block

from .outcomes import inner_products, multinomials, number, outcomes_of


def gaussian_process(
    name: str,
    block: Block,
    covariances: Mapping[int, Tensor],
    *,
    loc: Tensor | float = 0.0,
    scale: Tensor | float = 1.0,
) -> Tensor:
    """Softmax of logits that covary where their tags, or whatever indexes the block, are similar.

    The logits are normal with mean μ, and their covariance is separable, a product over the dimensions of the block
    (Rasmussen and Williams 2006, section 9.1):

        cov(η[h, d, c], η[h', d', c']) = scale^2 K0[h, h'] K1[d, d'] K2[c, c'].

    Kernels of :mod:`pyro.contrib.gp.kernels` give such matrices of points. The latent site is ``"<name>.z"``, standard
    normals of the block's shape, which Cholesky factors turn into logits.

    :param covariances: by dimension of the block, 0 the first, -1 the last one: a positive semi-definite matrix, shape
        ``(N, N)`` or ``(*batch, N, N)``; a dimension without one has the identity. A packed block has one dimension,
        of R events: its matrix ties multinomials, too. Added to the diagonal is its mean times the square root of the
        machine epsilon.
    :param loc: μ, broadcast to ``block.shape``.
    :param scale: a number.
    :returns: weights, shape ``block.shape``.
    :raises ValueError: if a dimension is named twice or not the block's, or if a matrix has another shape.
    """
    event_dim = len(block.shape)
    like = next(iter(covariances.values()), number(scale, 0))
    z = dist.Normal(like.new_zeros(block.shape), like.new_ones(())).to_event(event_dim)
    eta = pyro.sample(f"{name}.z", z)
    seen = set()
    for dim, covariance in covariances.items():
        if not -event_dim <= dim < event_dim or dim % event_dim in seen:
            raise ValueError(
                f"covariances of {name!r} must be given once for each of the dimensions 0..{event_dim - 1} at most, "
                f"not for {list(covariances)}"
            )
        seen.add(dim % event_dim)
        N = block.shape[dim]
        if covariance.shape[-2:] != (N, N):
            raise ValueError(
                f"the covariance of dimension {dim} of {name!r} must have shape (..., {N}, {N}), not "
                f"{tuple(covariance.shape)}"
            )
        eta = _along(eta, dim % event_dim - event_dim, event_dim, _cholesky(covariance))
    return block.softmax(loc + number(scale, event_dim).to(eta) * eta)


def low_rank(
    name: str,
    block: Block,
    rank: int,
    *,
    scale: Tensor | float = 1.0,
    outcomes: Tensor | None = None,
) -> Tensor:
    """Softmax of logits of low rank: vectors of multinomials times vectors of outcomes, all drawn.

        η[k, i] = scale <a[k], b[i]> / √r,    a[k] ~ N(0, I),  b[i] ~ N(0, I)

    As in probabilistic matrix factorisation (Salakhutdinov and Mnih 2007), multinomials whose vectors are close are
    similar. The sites are ``"<name>.rows"``, shape ``(*multinomials, r)``, and ``"<name>.columns"``, ``(O, r)``.

    :param rank: r, the size of a vector.
    :param scale: the standard deviation of a logit, a number.
    :param outcomes: of a packed block, the outcome of each event, shape ``(R,)``; all different by default.
    :returns: weights, shape ``block.shape``.
    :raises ValueError: if ``outcomes`` do not fit to the block.
    """
    outcomes = outcomes_of(block, outcomes)
    sigma = number(scale, len(block.shape))

    def vectors(site: str, *shape: int) -> Tensor:
        zeros = sigma.new_zeros(*shape, rank)
        drawn: Tensor = pyro.sample(f"{name}.{site}", dist.Normal(zeros, zeros.new_ones(())).to_event(zeros.dim()))
        return drawn

    rows, columns = vectors("rows", *multinomials(block)), vectors("columns", int(outcomes.max()) + 1)
    return block.softmax(sigma / sqrt(rank) * inner_products(block, rows, columns, outcomes))


def log_linear(name: str, block: Block, features: Tensor, *, scale: Tensor | float | None = 1.0) -> Tensor:
    """Softmax of sums of features: log-linear multinomials (Berg-Kirkpatrick et al. 2010, section 2).

        w[k, i] in proportion to exp <θ, f(k, i)>,    θ[j] ~ N(0, scale^2) for each feature j

    θ is the site ``name``, shape ``(F,)``.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'b' S | 'a'")
    >>> features = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # has an a; goes on
    >>> log_linear("rules", grammar.blocks["rules"], features).shape
    torch.Size([3])

    :param features: values of features, shape ``(*block.shape, F)``; or, as integers, the numbers of the
        features that each event has, shape ``(*block.shape, A)``, padded with -1; F is one more than the greatest.
    :param scale: a number; None makes θ a ``pyro.param`` that starts at zero, for maximum likelihood.
    :returns: weights, shape ``block.shape``.
    :raises ValueError: if ``features`` do not fit to the block.
    """
    if features.shape[:-1] != block.shape:
        raise ValueError(
            f"features of {name!r} must have shape (*block.shape, F), where block.shape is {tuple(block.shape)}, not "
            f"{tuple(features.shape)}"
        )
    numbers = not features.is_floating_point()
    F = int(features.max()) + 1 if numbers else features.shape[-1]
    like = number(1.0 if scale is None else scale, 0) if numbers else features
    zeros = like.new_zeros(F, device=features.device)
    theta: Tensor
    if scale is None:
        theta = pyro.param(name, zeros)
    else:
        sigma = number(scale, 1).to(zeros)
        theta = pyro.sample(name, dist.Normal(zeros, sigma).to_event(1))
    if numbers:
        logits = (theta[..., features.clamp_min(0)] * (features >= 0)).sum(-1)
    else:
        logits = (features @ theta.reshape(*theta.shape[:-1], *(1 for _ in block.shape[:-1]), F, 1))[..., 0]
    return block.softmax(logits)


def _cholesky(covariance: Tensor) -> Tensor:
    """The Cholesky factor of a matrix that may be singular but for rounding."""
    jitter = sqrt(torch.finfo(covariance.dtype).eps) * covariance.diagonal(dim1=-2, dim2=-1).mean(-1)
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    factor: Tensor = torch.linalg.cholesky(covariance + jitter[..., None, None] * identity)
    return factor


def _along(values: Tensor, dim: int, event_dim: int, factor: Tensor) -> Tensor:
    """Vectors along one dimension of an event, times a matrix ``(*batch, N, N)``.

    :param dim: negative.
    """
    others = factor.reshape(*factor.shape[:-2], *(1 for _ in range(event_dim - 1)), *factor.shape[-2:])
    return (others @ values.movedim(dim, -1)[..., None])[..., 0].movedim(-1, dim)
