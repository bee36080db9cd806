# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Priors that are built of Dirichlets and Betas: hierarchies, and sticks that are broken."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.distributions import dirichlet_prior
from pyrogram.grammar import Block, PackedBlock

from .outcomes import by_event, number, outcomes_of


def hierarchical_dirichlet(
    name: str,
    block: Block,
    concentration: Tensor | float,
    *,
    base_concentration: Tensor | float = 1.0,
    outcomes: Tensor | None = None,
) -> Tensor:
    """Multinomials that are similar: Dirichlets around one base, which is drawn, too (MacKay and Peto 1995).

        m ~ Dirichlet(α0, .., α0),    w[k] ~ Dirichlet(α m)    for each multinomial k.

    The base m is the site ``"base.<name>"`` over the outcomes, shape ``(O,)``, the weights are the site ``name``.

    :param concentration: α, a number: how close the multinomials are to the base. If each has all outcomes, it is the
        sum of a Dirichlet's parameters.
    :param base_concentration: α0, a number.
    :param outcomes: of a packed block, the outcome of each event, shape ``(R,)``; all different by default.
    :returns: weights, shape ``block.shape``.
    :raises ValueError: if ``outcomes`` do not fit to the block.
    """
    outcomes = outcomes_of(block, outcomes)
    alpha0 = number(base_concentration, 1)
    if isinstance(concentration, Tensor):
        alpha0 = alpha0.to(concentration)
    base = pyro.sample(f"base.{name}", dist.Dirichlet(alpha0.expand(*alpha0.shape[:-1], int(outcomes.max()) + 1)))
    alpha = number(concentration, len(block.shape)).to(base) * by_event(block, base, outcomes)  # of all multinomials
    alpha = alpha.expand(*alpha.shape[: -len(block.shape)], *block.shape)
    weights: Tensor = pyro.sample(name, dirichlet_prior(block, alpha))
    return weights


def stick_breaking(name: str, block: Block, concentration: Tensor | float) -> Tensor:
    """Multinomials whose events are fewer than they might be: truncated stick-breaking (Ishwaran and James 2001).

        v[i] ~ Beta(1, γ),    w[i] = v[i] (1 - v[1]) .. (1 - v[i-1]),    and v = 1 for the last event.

    It is the Griffiths-Engen-McCloskey distribution (Sethuraman 1994), cut off: the first event leaves γ / (1 + γ) of
    the stick on average, the second as much of the rest. As the base of :func:`.dirichlet_prior` it makes a
    hierarchical Dirichlet process. The sticks' pieces v are the site ``"<name>.pieces"``, shape
    ``(*multinomials, N-1)``, of a packed block of K multinomials ``(R-K,)``.

    >>> stick_breaking("beta", pyrogram.Block(torch.Size([4])), 1.0).sum()
    tensor(1.)

    :param concentration: γ, a number.
    :returns: weights, shape ``block.shape``.
    """
    sizes = torch.tensor(block.sizes if isinstance(block, PackedBlock) else block.shape[-1:])
    ends = sizes.cumsum(0)
    broken = torch.ones(block.shape[-1], dtype=torch.bool).index_fill(0, ends - 1, False).nonzero()[:, 0]
    event = torch.Size([*block.shape[:-1], len(broken)])
    gamma = number(concentration, len(event))
    batch = gamma.shape[: gamma.dim() - len(event)]
    if not len(broken):  # one event for each multinomial
        return gamma.new_ones(*batch, *block.shape)
    beta = dist.Beta(torch.ones_like(gamma), gamma).expand(batch + event)
    pieces: Tensor = pyro.sample(f"{name}.pieces", beta.to_event(len(event)))
    limits = torch.finfo(pieces.dtype)
    pieces = pieces.clamp(limits.tiny, 1 - limits.eps)  # draws are rounded to 0 and 1
    # In logarithms; the sums of a packed block begin anew with each multinomial, in double precision as R may be large.
    zeros, places = pieces.new_zeros(*pieces.shape[:-1], block.shape[-1]), broken.to(pieces.device)
    log_left = zeros.index_copy(-1, places, pieces.neg().log1p())
    before = log_left.cumsum(-1, dtype=torch.float64) - log_left
    if isinstance(block, PackedBlock):
        before = before - block.broadcast(before[..., (ends - sizes).to(before.device)])
    return (before.to(zeros) + zeros.index_copy(-1, places, pieces.log())).exp()
