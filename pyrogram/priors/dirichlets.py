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
    own = outcomes_of(block, outcomes)
    alpha0 = number(base_concentration, 1)
    base = pyro.sample(f"base.{name}", dist.Dirichlet(alpha0.expand(*alpha0.shape[:-1], int(own.max()) + 1)))
    alpha = number(concentration, len(block.shape)) * by_event(block, base, own)  # the same for all multinomials
    alpha = alpha.expand(*alpha.shape[: -len(block.shape)], *block.shape)
    found: Tensor = pyro.sample(name, dirichlet_prior(block, alpha))
    return found


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
    packed = isinstance(block, PackedBlock)
    sizes = torch.tensor(block.sizes) if isinstance(block, PackedBlock) else torch.tensor([block.shape[-1]])
    ends = sizes.cumsum(0)
    broken = torch.ones(block.shape[-1], dtype=torch.bool).index_fill(0, ends - 1, False)
    shape = torch.Size([*block.shape[:-1], int(broken.sum())])
    gamma = number(concentration, len(shape))
    if not shape.numel():  # nothing to break: one event for each multinomial
        return gamma.new_ones(*gamma.shape[: gamma.dim() - len(shape)], *block.shape)
    beta = dist.Beta(torch.ones_like(gamma), gamma).expand(gamma.shape[: gamma.dim() - len(shape)] + shape)
    pieces: Tensor = pyro.sample(f"{name}.pieces", beta.to_event(len(shape)))
    eps = torch.finfo(pieces.dtype).eps
    pieces = pieces.clamp(torch.finfo(pieces.dtype).tiny, 1 - eps)  # draws are rounded to 0 and 1
    # In logarithms, where a packed block's sums begin anew for each multinomial.
    log_left = _spread(pieces.neg().log1p(), broken, 0.0)
    before = log_left.cumsum(-1) - log_left
    if packed:
        before = before - block.broadcast(before[..., (ends - sizes).to(before.device)])
    return (before + _spread(pieces.log(), broken, 0.0)).exp()


def _spread(values: Tensor, places: Tensor, other: float) -> Tensor:
    """Values in the places that are true along the last dimension, and another value elsewhere."""
    full = values.new_full((*values.shape[:-1], len(places)), other)
    return full.index_copy(-1, places.nonzero()[:, 0].to(values.device), values)
