# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Straight-line code over cells: each is loaded once, and adjoints stay in registers until the end.

Before, as products of cells:

    IR[i, j] = arc[i, j] * S0;  RC[i, j] = S1 + IR[i, j] * RC[j, j]

After:

    t1 = memory[arc + (i * pitch + j)];  t2 = t1 * S0;  memory[IR.row + (i * pitch + j)] = t2
    t3 = memory[RC.column + (j * pitch + j)];  t4 = fma(t2, t3, S1);  memory[RC.row + ...] = t4

Two references may be the same cell at run time, RC[i, i] and RC[i, j - 1] when j is i + 1. So before an adjoint is
added to, whatever else may be that cell is written back first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..machine.statements import Code
from ..rules.language import Position, Ref
from .numbers import Number, Numbers
from .tables import Side, Tables, axes, weight_cells

Key = tuple[str, Side, tuple[Position, ...]]


@dataclass
class Block:
    """Code for cells whose positions do not change.

    :param distinct: whether two tuples of positions are different for sure.
    """

    tables: Tables
    code: Code
    distinct: Callable[[tuple[Position, ...], tuple[Position, ...]], bool]
    numbers: Numbers
    values: dict[str, Number] = field(default_factory=dict)
    pending: dict[Key, tuple[Ref, Number]] = field(default_factory=dict)

    def value(self, ref: Ref) -> Number:
        """The value of a cell or of a weight."""
        key = str(ref)
        if key not in self.values:
            self.values[key] = self.numbers.let(self.numbers.load(self.tables.cell(ref)))
        return self.values[key]

    def store(self, ref: Ref, value: Number) -> None:
        """The value of an item, into all of its tables."""
        self.values[str(ref)] = value
        for side in self.tables.sides[ref.table]:
            self.numbers.put(self.tables.cell(ref, side), value)

    def product(self, factors: Sequence[Ref | Number], total: Number | None = None) -> Number:
        """The product of cells, added to a total if there is one; an empty product is None or the total."""
        values = [self.value(f) if isinstance(f, Ref) else f for f in factors]
        if len(values) == 1:
            return values[0] if total is None else self.numbers.plus(total, values[0])
        first: Number = values[0]
        for v in values[1:-1]:
            first = self.numbers.times(first, v)
        if total is None:
            return self.numbers.times(first, values[-1])
        return self.numbers.add_product(total, first, values[-1])

    # ------------------------------------------------------------------ adjoints

    def add(self, ref: Ref, adjoint: Number, others: Sequence[Ref | Number]) -> None:
        """Add the adjoint times the product of other factors to the adjoint of a cell."""
        key = self._key(ref, self.tables.side(ref) if ref.is_item else "")
        self._write_aliases(key)
        if key in self.pending:
            old: Number = self.pending[key][1]
        else:
            old = self._adjoint(ref, key[1] or None)
        self.pending[key] = ref, self.numbers.let(self.product([*others, adjoint], old))

    def total(self, ref: Ref) -> Number:
        """The adjoint of an item to which nothing is added any more."""
        parts: list[Number] = []
        for side in self.tables.sides[ref.table]:
            key = self._key(ref, side)
            self._write_aliases(key)
            if key in self.pending:
                parts.append(self.pending.pop(key)[1])
            else:
                parts.append(self._adjoint(ref, side))
        return self.numbers.let(parts[0] if len(parts) == 1 else self.numbers.plus(parts[0], parts[1]))

    def _adjoint(self, ref: Ref, side: Side | None) -> Number:
        cell = self.tables.cell(ref, side, adjoint=True)
        return self.numbers.let(self.numbers.load_adjoint(cell, self.tables.cell(ref, side)))

    def flush(self) -> None:
        """Write all adjoints back."""
        for key in list(self.pending):
            self._write(key)

    def _key(self, ref: Ref, side: Side) -> Key:
        table = ref.table if ref.is_item else weight_cells(ref).name
        return table, side, ref.positions if ref.is_item else axes(ref)

    def _write_aliases(self, key: Key) -> None:
        for other in [o for o in self.pending if o[:2] == key[:2] and o != key]:
            if not self.distinct(other[2], key[2]):
                self._write(other)

    def _write(self, key: Key) -> None:
        ref, value = self.pending.pop(key)
        self.numbers.put_adjoint(self.tables.cell(ref, key[1] or None, adjoint=True), value)
