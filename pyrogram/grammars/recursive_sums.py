# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion with all that it needs besides weights and words; factors of its items and events, and expected items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from pyrogram.checks import lengths_of_checked
from pyrogram.recursion.emit.inputs import Numbers
from pyrogram.recursion.emit.layout import WeightTable
from pyrogram.recursion.rules.language import Size
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.rules.rewrites import bonus_name, with_bonus
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, tensor_program
from pyrogram.sentences import Factors, factors_of

from .recursive_sizes import Fitted


@dataclass(frozen=True)
class Sums:
    """A recursion that fits the blocks of a grammar."""

    recursion: Recursion
    fitted: Fitted
    #: Whether sums are float64, whatever the type of the weights.
    doubles = False

    def __getstate__(self) -> dict[str, object]:
        # Programs are made again where they are wanted.
        return {name: x for name, x in self.__dict__.items() if name != "_programs"}

    @property
    def program(self) -> TensorProgram:
        """What computes."""
        return tensor_program(self.recursion)

    def with_factors(self, names: Sequence[str]) -> TensorProgram:
        """The program that also has a log bonus for each item or use of a weight of these names.

        :raises ValueError: if there is no such item or weight.
        """
        key = tuple(sorted(names))
        if key not in self._programs:
            self._programs[key] = tensor_program(with_bonus(self.recursion, key)) if key else self.program
        return self._programs[key]

    def summing(self, names: Sequence[str]) -> TensorProgram:
        """The same, if nobody asks for derivations: another recursion may have the same sums."""
        return self.with_factors(names)

    @cached_property
    def _programs(self) -> dict[tuple[str, ...], TensorProgram]:
        """By the names of factors: a recursion takes long to be told from others."""
        return {}

    def factor_table(self, name: str) -> str:
        """The name of the table of factors of an item or a weight."""
        return bonus_name(name)

    def inputs(self, log_weights: Mapping[str, Tensor], words: Tensor) -> TensorInputs:
        """What it computes on.

        :param log_weights: by block, shape ``(B, *shape)``, or ``(1, *shape)`` for all sentences alike.
        :param words: shape ``(B, n)``, padded with -1, known to be words.
        """
        rows = dict.fromkeys(self.fitted.words, words)
        sizes, lists = self.fitted.sizes, self.fitted.lists
        lengths = lengths_of_checked(words)
        return TensorInputs(log_weights, lengths, rows, sizes, lists, checked=True, doubles=self.doubles)

    def evident(
        self, inputs: TensorInputs, evidence: Mapping[str, Tensor], batch: torch.Size, *, sums_only: bool = False
    ) -> tuple[TensorProgram, TensorInputs]:
        """The program with factors, and what it is run on.

        :param inputs: the B sentences of a batch.
        :param evidence: by name, shape ``(*batch, n + 1, ..., *sizes)``: positions, those of words, then other symbols.
        :param sums_only: whether nobody asks for derivations.
        :raises ValueError: if there is no such item or weight, or its evidence has another shape.
        """
        program = self.checked(inputs, evidence, sums_only=sums_only)
        weights, B = dict(inputs.weights), batch.numel()
        for name, bonus in evidence.items():
            positions, sizes = self.axes(name)
            shape = bonus.shape[bonus.dim() - positions - len(sizes) :]
            weights[self.factor_table(name)] = bonus.to(inputs.dtype).expand(*batch, *shape).reshape(B, *shape)
        return program, replace(inputs, weights=weights) if evidence else inputs

    def checked(
        self, inputs: TensorInputs, evidence: Mapping[str, Tensor], *, sums_only: bool = False
    ) -> TensorProgram:
        """The program with factors of these shapes.

        :param sums_only: whether nobody asks for derivations.
        :raises ValueError: see :meth:`evident`.
        """
        program = self.summing([*evidence]) if sums_only else self.with_factors([*evidence])
        shapes = self._shapes(program, inputs) if evidence else {}
        for name, bonus in evidence.items():
            shape = shapes[self.factor_table(name)]
            if bonus.dim() < len(shape) or bonus.shape[bonus.dim() - len(shape) :] != shape:
                wanted = ", ".join(map(str, shape))
                raise ValueError(f"evidence on {name} must have shape (*batch, {wanted}), not {tuple(bonus.shape)}")
        return program

    def item_counts(
        self, inputs: TensorInputs, names: Sequence[str], evidence: Mapping[str, Tensor], batch: torch.Size
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """log Z, ``(B,)``; how often items are expected in a derivation, by name, ``(*batch, n + 1, ..., *sizes)``.

        Differentiable.
        """
        shapes = self._shapes(self.summing([*{*names, *evidence}]), inputs)
        zero = torch.zeros((), dtype=inputs.dtype, device=inputs.lengths.device)
        none = {name: zero.expand(shapes[self.factor_table(name)]) for name in names}
        program, wide = self.evident(inputs, {**none, **evidence}, batch, sums_only=True)
        log_z, counts = program.marginals(wide)
        return log_z, {n: counts[self.factor_table(n)].reshape(*batch, *shapes[self.factor_table(n)]) for n in names}

    def axes(self, name: str) -> tuple[int, tuple[int, ...]]:
        """How many positions the evidence on an item or a weight has in one sentence, and the sizes of its symbols.

        :raises ValueError: if there is no such item or weight.
        """
        (table,) = (w for w in self.with_factors([name]).program.tables if w.name == self.factor_table(name))
        return table.num_positions, self._sizes(table)

    def _shapes(self, program: TensorProgram, inputs: TensorInputs) -> dict[str, torch.Size]:
        """Of the tables of one sentence."""
        n = self._width(inputs)
        return {w.name: torch.Size([n + 1] * w.num_positions + [*self._sizes(w)]) for w in program.program.tables}

    def _width(self, inputs: TensorInputs) -> int:
        """The positions of a sentence, 0 aside."""
        return max([1, *(w.shape[-1] for w in inputs.words.values())])

    def _sizes(self, table: WeightTable) -> tuple[int, ...]:
        return tuple(map(self._size, table.sizes))

    def _size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.fitted.sizes[size]


def kept_numbers(factors: Mapping[str, Tensor], name: str, dtype: torch.dtype) -> Numbers | None:
    """Factors as compiled code takes them, made once for many calls; None, if they are not in the range of numbers."""

    def compute() -> Numbers | None:
        return factors_of(factors[name], dtype)

    return factors.kept((name, dtype), compute) if isinstance(factors, Factors) else compute()
