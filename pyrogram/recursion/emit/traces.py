# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The weights that a derivation is made of, as numbers: how compiled code writes them.

A caller chooses a number for each element of the tables that it wants: ``trace`` gives, by table, a number to begin
with and the strides of the axes. Elements of other tables are not written. A derivation is a row of such numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..code.expressions import Array, Expression, Name, value
from ..code.statements import Code
from ..rules.language import Ref, Word
from .layout import Layout

Trace = Mapping[str, Sequence[int]]


def trace_parameters(layout: Layout) -> list[Array | Name]:
    """Of a function that writes derivations."""
    found: list[Array | Name] = [Array("trace", "int"), Name("trace_width", "int")]
    for w in layout.weights:
        found.append(Name(f"trace.{w.name}", "int"))
        found += [Name(f"trace.{w.name}.{axis}", "int") for axis in range(w.num_axes)]
    return found


def trace_values(layout: Layout, trace: Trace, shape: tuple[int, ...]) -> dict[str, Any]:
    """The parameters; rows of -1 of this shape are to be written into."""
    values: dict[str, Any] = {"trace": np.full(shape, -1, np.int64), "trace_width": shape[-1]}
    for w in layout.weights:
        numbers = trace.get(w.name, (-1, *(0,) * w.num_axes))
        values |= {f"trace.{w.name}": numbers[0]}
        values |= {f"trace.{w.name}.{axis}": s for axis, s in enumerate(numbers[1:])}
    return values


def write_positions(layout: Layout, code: Code, ref: Ref) -> None:
    """Append a number to the ``positions`` of the sentence ``b``: of the positions of a weight's words, from 0."""
    number = Name(f"positions.{ref.table}", "int")
    with code.when(number >= 0):
        index: Expression = number
        for axis, x in enumerate(ref.symbols):
            if isinstance(x, Word):
                index = index + (layout.position(x.position) - 1) * Name(f"positions.{ref.table}.{axis}", "int")
        at = Name("positions_length", "int")
        with code.when(at < Name("positions_width", "int")):
            code.put(Array("positions", "int"), Name("b", "int") * Name("positions_width", "int") + at, index)
        code.set("positions_length", at + 1)


def write_weight(layout: Layout, code: Code, ref: Ref) -> None:
    """Append the number of a weight to the row at hand, if the caller wants its table and there is room."""
    number = Name(f"trace.{ref.table}", "int")
    with code.when(number >= 0):
        index: Expression = value(0)
        for axis, x in enumerate(layout.axis_values(ref)):
            index = index + x * Name(f"trace.{ref.table}.{axis}", "int")
        at = Name("length", "int")
        with code.when(at < Name("trace_width", "int")):
            code.put(Array("trace", "int"), Name("row", "int") * Name("trace_width", "int") + at, index + number)
        code.set("length", at + 1)
