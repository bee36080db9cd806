# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The weights that a derivation is made of, as numbers: how compiled code writes them.

A caller chooses a number for each element of the tables that it wants: ``trace`` gives, by table, a number to begin
with and the strides of the axes. Elements of other tables are not written. A derivation is a row of such numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..code.expressions import Array, Expression, Name
from ..code.statements import Code
from ..rules.language import Ref
from .layout import Layout

Trace = Mapping[str, Sequence[int]]


def trace_parameters(layout: Layout, rows: str = "trace") -> list[Array | Name]:
    """Of a function that writes derivations, or other ``rows``."""
    parameters: list[Array | Name] = [Array(rows, "int"), Name(f"{rows}_width", "int")]
    for w in layout.weights:
        parameters += [Name(f"{rows}.{w.name}{axis}", "int") for axis in ("", *(f".{a}" for a in range(w.num_axes)))]
    return parameters


def trace_values(layout: Layout, trace: Trace, table: Any, rows: str = "trace") -> dict[str, Any]:
    """The parameters.

    :param table: of whole numbers, -1, in an array or a tensor; its rows are written into.
    """
    values: dict[str, Any] = {rows: table, f"{rows}_width": table.shape[-1]}
    for w in layout.weights:
        first, *strides = trace.get(w.name, (-1, *(0,) * w.num_axes))
        values |= {f"{rows}.{w.name}": first} | {f"{rows}.{w.name}.{axis}": s for axis, s in enumerate(strides)}
    return values


def write_weight(layout: Layout, code: Code, ref: Ref) -> None:
    """Append the number of a weight to the row at hand, if the caller wants its table and there is room."""
    append_number(code, ref, "trace", Name("row", "int"), dict(enumerate(layout.axis_values(ref))))


def append_number(code: Code, ref: Ref, rows: str, row: Name, indices: Mapping[int, Expression]) -> None:
    """The same of other rows.

    :param indices: by axis of the weight.
    """
    index: Expression = Name(f"{rows}.{ref.table}", "int")
    at, width = Name(f"{rows}_length", "int"), Name(f"{rows}_width", "int")
    with code.when(index >= 0):
        for axis, x in indices.items():
            index = index + x * Name(f"{rows}.{ref.table}.{axis}", "int")
        with code.when(at < width):
            code.put(Array(rows, "int"), row * width + at, index)
        code.set(at.name, at + 1)
