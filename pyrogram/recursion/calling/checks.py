# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a recursion is run on, checked: compiled code looks at no bounds and believes the order of lists of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..rules.cells import Cells, may_read_own_cell
from ..rules.language import Constant, Entry, InvalidRecursion, Rule, Size, Word
from .layout import Layout

Numbers = Any  # a numpy array


def check_lists(cells: Cells, sizes: Mapping[str, int], lists: Mapping[str, Sequence[int]]) -> None:
    """
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules, by name.
    :raises InvalidRecursion: if a size or a column is missing, a column has another length than its list, an entry is
        no symbol of the axis that it is an index of, or rules that read their own cell are not in topological order,
        children first.
    """
    layout = Layout(cells)
    for name in layout.sizes:
        if sizes.get(name, 0) < 1:
            raise InvalidRecursion(f"size {name} is missing, or not positive: {sizes.get(name)}")
    for name in layout.lists:
        if name not in lists:
            raise InvalidRecursion(f"column {name} of a list of rules is missing")

    def number(size: Size) -> int:
        return size if isinstance(size, int) else sizes[size]

    for rule in cells.recursion.rules:
        for ref in (rule.head, *rule.factors):
            for x, size in zip(ref.symbols, cells.recursion.tables[ref.table].sizes, strict=True):
                if isinstance(x, Constant) and x.value >= number(size):
                    raise InvalidRecursion(f"{rule}: symbol {x} of {ref} is not below size {size}, {number(size)}")
                if isinstance(x, Entry):
                    _check_column(lists[x.column], x, number(x.row.size), number(size))
    for head, factor, written in may_read_own_cell(cells):
        _check_order(head, factor, written, lists)


def check_words(cells: Cells, sizes: Mapping[str, int], words: Mapping[str, Numbers], lengths: Numbers) -> None:
    """
    :param words: by name, shape ``(B, n)``.
    :param lengths: of the sentences, shape ``(B,)``.
    :raises InvalidRecursion: if words are missing, too few, or no symbols of an axis that they are an index of.
    """
    for rule in cells.recursion.rules:
        for ref in (rule.head, *rule.factors):
            for x, size in zip(ref.symbols, cells.recursion.tables[ref.table].sizes, strict=True):
                if isinstance(x, Word):
                    number = size if isinstance(size, int) else sizes[size]
                    _check_sentences(x.words, words, lengths, number, f"{ref} in {rule}")


def check_weights(
    cells: Cells, sizes: Mapping[str, int], weights: Mapping[str, Numbers], lengths: Numbers, dtype: Numbers
) -> None:
    """
    :param weights: by table, shape ``(B, *axes)`` or ``(1, *axes)``, positions first: 0 .. n at least.
    :param lengths: of the sentences, shape ``(B,)``.
    :param dtype: what all of them are.
    :raises InvalidRecursion: if a table is missing, or of another shape or kind.
    """
    positions = int(lengths.max(initial=1)) + 1
    for w in Layout(cells).weights:
        if w.name not in weights:
            raise InvalidRecursion(f"weights {w.name} are missing")
        table = weights[w.name]
        symbols = tuple(s if isinstance(s, int) else sizes[s] for s in w.sizes)
        wanted = (f"1 or {len(lengths)}", *(f"{positions} or more",) * w.num_positions, *symbols)
        fits = table.ndim == len(wanted) and len(table) in (1, len(lengths))
        fits = fits and all(size >= positions for size in table.shape[1 : 1 + w.num_positions])
        if not fits or table.shape[1 + w.num_positions :] != symbols:
            wanted_text = ", ".join(map(str, wanted))
            raise InvalidRecursion(f"weights {w.name} have shape {tuple(table.shape)}, and ({wanted_text}) is wanted")
        if table.dtype != dtype:
            raise InvalidRecursion(f"weights {w.name} are {table.dtype}, and {dtype} is wanted")


def _check_column(column: Sequence[int], entry: Entry, rows: int, size: int) -> None:
    if len(column) != rows:
        raise InvalidRecursion(f"column {entry.column} has {len(column)} rows, and its list {rows}")
    numbers = np.asarray(column)
    for row in np.flatnonzero((numbers < 0) | (numbers >= size)):
        raise InvalidRecursion(
            f"column {entry.column} has {numbers[row]} in row {row}, which is not in 0 .. {size - 1}"
        )


def _check_order(
    head: tuple[Any, ...], factor: tuple[Any, ...], rule: Rule, lists: Mapping[str, Sequence[int]]
) -> None:
    """No row reads what it adds to itself, or a later row does."""
    pairs = [(x, y) for x, y in zip(head, factor, strict=True) if isinstance(x, Entry) and isinstance(y, Entry)]
    pairs = [(x, y) for x, y in pairs if x.row == y.row == pairs[0][0].row]
    written = zip(*(lists[x.column] for x, _ in pairs), strict=True)
    read = zip(*(lists[y.column] for _, y in pairs), strict=True)
    last = {tuple(int(v) for v in key): row for row, key in enumerate(written)}
    for row, key in enumerate(read):
        later = last.get(tuple(int(v) for v in key), -1)
        if later >= row:
            raise InvalidRecursion(
                f"{rule}: row {row} of the list reads what row {later} adds to; "
                "rows stand in topological order, children first, and never in a circle"
            )


def _check_sentences(name: str, words: Mapping[str, Numbers], lengths: Numbers, size: int, place: str) -> None:
    if name not in words:
        raise InvalidRecursion(f"words {name} are missing")
    table = words[name]
    if table.ndim != 2 or len(table) != len(lengths) or table.shape[1] < lengths.max(initial=0):
        raise InvalidRecursion(f"words {name} of {len(lengths)} sentences have shape {tuple(table.shape)}")
    inside = np.arange(table.shape[1]) < lengths[:, None]
    if (inside & ((table < 0) | (table >= size))).any():
        raise InvalidRecursion(f"words {name} are not all in 0 .. {size - 1}, the symbols of {place}")
