# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the multinomials of a block have in common: their outcomes, and numbers for each element of a batch.

In a plain block an event's outcome is its index in the last dimension, as the dependent is in ``attach``. In a packed
one all R events have outcomes of their own, unless the outcome of each is given: the rules of a context-free grammar
that have one right side may be one outcome of several left-hand sides (:attr:`.CFG.right_sides`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.grammar import Block, PackedBlock
from pyrogram.printable import plural


def outcomes_of(block: Block, outcomes: Tensor | None) -> Tensor:
    """The outcome of each event along the last dimension, shape ``(N,)``; checked, if given.

    :raises ValueError: if they are given for a plain block, or are not R whole numbers from 0.
    """
    if outcomes is None:
        return torch.arange(block.shape[-1])
    if not isinstance(block, PackedBlock):
        raise ValueError("outcomes are given for a plain block, whose last dimension has them already; leave them out")
    if outcomes.shape != block.shape or outcomes.dtype != torch.int64 or bool((outcomes < 0).any()):
        raise ValueError(
            f"outcomes must be whole numbers from 0, one for each of "
            f"{plural(block.shape[-1], 'event')}, not a tensor of "
            f"{outcomes.dtype} of shape {tuple(outcomes.shape)}"
        )
    return outcomes


def multinomials(block: Block) -> torch.Size:
    """The shape that indexes multinomials: ``block.shape[:-1]``, of a packed block ``(K,)``."""
    return torch.Size([len(block.sizes)]) if isinstance(block, PackedBlock) else block.shape[:-1]


def by_event(block: Block, values: Tensor, outcomes: Tensor) -> Tensor:
    """Values of outcomes, ``(*batch, O)``, for all their events; broadcasts to ``(*batch, *block.shape)``."""
    table = values[..., outcomes.to(values.device)]
    return table.reshape(*table.shape[:-1], *(1 for _ in block.shape[:-1]), table.shape[-1])


def inner_products(block: Block, rows: Tensor, columns: Tensor, outcomes: Tensor) -> Tensor:
    """A score for each event: the inner product of its multinomial's vector and its outcome's.

    :param rows: shape ``(*batch, *multinomials, r)``.
    :param columns: shape ``(*batch, O, r)``.
    :returns: shape ``(*batch, *block.shape)``.
    """
    batch = rows.shape[: rows.dim() - 1 - len(multinomials(block))]
    table = rows.reshape(*batch, -1, rows.shape[-1]) @ columns.mT
    if isinstance(block, PackedBlock):
        return table[..., block.owner.to(table.device), outcomes.to(table.device)]
    return table.reshape(*table.shape[:-2], *block.shape)


def number(value: Tensor | float, event_dim: int) -> Tensor:
    """A number, or one for each element of a batch, as ``(*batch, 1, .., 1)``: it has ``event_dim`` dimensions more."""
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=torch.get_default_dtype())
    return value.reshape((*value.shape, *(1 for _ in range(event_dim))))
