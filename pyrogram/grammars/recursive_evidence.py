# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence on the items and events of a recursion, expected items, and the derivation with most of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pyrogram.recursion.emit.layout import WeightTable
from pyrogram.recursion.rules.bonus import bonus_name, with_bonus
from pyrogram.recursion.run.on_tensors import Given, TensorProgram, tensor_program

from .recursive_sums import Sums


def with_evidence(
    sums: Sums, given: Given, evidence: Mapping[str, Tensor], batch: torch.Size
) -> tuple[TensorProgram, Given]:
    """The program that also has a log bonus for each item or use of a weight, and what it is run on.

    :param given: the B sentences of a batch.
    :param evidence: by name, shape ``(*batch, n + 1, ..., *sizes)``: positions, those of words, then other symbols.
    :raises ValueError: if there is no such item or weight, or its evidence has another shape.
    """
    if not evidence:
        return sums.program, given
    program = tensor_program(with_bonus(sums.recursion, sorted(evidence)))
    axes = _axes(sums, program, given)
    weights = dict(given.weights)
    for name, bonus in evidence.items():
        shape = axes[bonus_name(name)]
        if bonus.dim() < len(shape) or bonus.shape[bonus.dim() - len(shape) :] != shape:
            raise ValueError(
                f"evidence on {name} must have shape (*batch, {', '.join(map(str, shape))}), not {tuple(bonus.shape)}"
            )
        weights[bonus_name(name)] = bonus.to(given.dtype).expand(*batch, *shape).reshape(batch.numel(), *shape)
    return program, replace(given, weights=weights)


def item_counts(
    sums: Sums, given: Given, names: Sequence[str], evidence: Mapping[str, Tensor], batch: torch.Size
) -> dict[str, Tensor]:
    """How often items are expected in a derivation, shape ``(*batch, n + 1, ..., *sizes)`` by name. Differentiable."""
    program = tensor_program(with_bonus(sums.recursion, sorted({*names, *evidence})))
    axes = _axes(sums, program, given)
    zero = torch.zeros((), dtype=given.dtype, device=given.lengths.device)
    no_bonus = {name: zero.expand(axes[bonus_name(name)]) for name in names}
    program, wide = with_evidence(sums, given, {**no_bonus, **evidence}, batch)
    counts = program.marginals(wide)[1]
    return {name: counts[bonus_name(name)].reshape(*batch, *axes[bonus_name(name)]) for name in names}


def axes_of_evidence(sums: Sums, name: str) -> tuple[int, tuple[int, ...]]:
    """How many positions the evidence on an item or a weight has in one sentence, and the sizes of its symbols.

    :raises ValueError: if there is no such item or weight.
    """
    program = tensor_program(with_bonus(sums.recursion, [name])).program
    (table,) = (w for w in program.tables if w.name == bonus_name(name))
    return table.num_positions, _sizes(sums, table)


def _axes(sums: Sums, program: TensorProgram, given: Given) -> dict[str, torch.Size]:
    """The shapes of the tables of one sentence."""
    positions = max([1, *(w.shape[-1] for w in given.words.values())]) + 1

    def shape(w: WeightTable) -> torch.Size:
        return torch.Size([positions] * w.num_positions + list(_sizes(sums, w)))

    return {w.name: shape(w) for w in program.program.tables}


def _sizes(sums: Sums, table: WeightTable) -> tuple[int, ...]:
    return tuple(s if isinstance(s, int) else sums.fitted.sizes[s] for s in table.sizes)
