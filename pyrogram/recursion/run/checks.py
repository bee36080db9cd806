# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a recursion is run on, checked: compiled code looks at no bounds and believes the order of lists of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..emit.inputs import Inputs
from ..emit.layout import Layout
from ..rules.cells import Cells
from ..rules.language import Constant, Entry, InvalidRecursion, Rule, Size, Word, check_links, whole_numbers
from ..rules.lowering import may_read_own_cell

Numbers = Any  # a numpy array


class Checks:
    """What there is to check of a recursion: found once, for sentences may be few and short."""

    def __init__(self, cells: Cells) -> None:
        self._layout = Layout(cells)
        #: Constants and entries of columns, with the sizes of their axes and the places where they stand.
        self._symbols: list[tuple[Constant | Entry, Size, str]] = []
        #: Places by names of words, empty for positions, and sizes of the axes that they are indices of.
        self._words: dict[tuple[str, Size], str] = {}
        #: Symbols of heads that a list names, and of the items that they read at their own cell.
        self._orders = list(may_read_own_cell(cells))
        self._links = sorted(cells.recursion.linked)
        for rule in cells.recursion.rules:
            for ref in (rule.head, *rule.factors):
                for x, size in zip(ref.symbols, cells.recursion.tables[ref.table].sizes, strict=True):
                    if isinstance(x, Word):
                        self._words.setdefault((x.words, size), f"{ref} in {rule}")
                    elif isinstance(x, Constant | Entry):
                        self._symbols.append((x, size, f"{rule}: symbol {x} of {ref}"))

    def check(self, inputs: Inputs, dtype: Numbers) -> None:
        """
        :param dtype: of all weights.
        :raises InvalidRecursion: if something is missing, or of another shape or kind, or words are no symbols of an
            axis that they are an index of.
        """
        self.check_lists(inputs.sizes, inputs.lists)
        self.check_names(inputs)
        self.check_words(inputs)
        self._check_weights(inputs, dtype)

    def check_names(self, inputs: Inputs) -> None:
        """
        :raises InvalidRecursion: if a table of weights is missing.
        """
        for w in self._layout.weights:
            if w.name not in inputs.weights:
                raise InvalidRecursion(f"weights {w.name} are missing")

    def check_words(self, inputs: Inputs) -> None:
        """
        :raises InvalidRecursion: if words are missing, too few, or no symbols of an axis that they are an index of.
        """
        for name in self._links:
            if name not in inputs.words:
                raise InvalidRecursion(f"links {name} are missing")
            check_links(name, inputs.words[name], inputs.lengths)
        for (name, size), place in self._words.items():
            number = _number(size, inputs.sizes)
            if name:
                _check_sentences(name, inputs.words, inputs.lengths, number, place)
            elif number < inputs.pitch:
                raise InvalidRecursion(
                    f"size {size} is {number}, and positions, the symbols of {place}, go to {inputs.pitch - 1}"
                )

    def check_lists(self, sizes: Mapping[str, int], lists: Mapping[str, Sequence[int]]) -> None:
        """
        :param sizes: numbers of symbols, by the names of sizes.
        :param lists: columns of lists of rules, by name.
        :raises InvalidRecursion: if a size or a column is missing, a column has another length than its list, an entry
            is no symbol of the axis that it is an index of, or rules that read their own cell are not in topological
            order, children first.
        """
        for name in self._layout.sizes:
            if sizes.get(name, 0) < 1:
                raise InvalidRecursion(f"size {name} is missing, or not positive: {sizes.get(name)}")
        for name in self._layout.lists:
            if name not in lists:
                raise InvalidRecursion(f"column {name} of a list of rules is missing")
        for x, size, place in self._symbols:
            if isinstance(x, Entry):
                _check_column(lists[x.column], x, _number(x.row.size, sizes), _number(size, sizes))
            elif x.value >= _number(size, sizes):
                raise InvalidRecursion(f"{place} is not below size {size}, {_number(size, sizes)}")
        for head, factor, written in self._orders:
            _check_order(head, factor, written, lists)

    def _check_weights(self, inputs: Inputs, dtype: Numbers) -> None:
        weights, B, positions = inputs.weights, len(inputs.lengths), inputs.pitch
        for w in self._layout.weights:
            table, end = weights[w.name], 1 + w.num_positions
            symbols = tuple(_number(s, inputs.sizes) for s in w.sizes)
            shape = table.shape
            fits = table.ndim == end + len(symbols) and shape[0] in (1, B) and shape[end:] == symbols
            least = [positions + last for last in w.last]
            if not fits or any(size < wanted for size, wanted in zip(shape[1:end], least, strict=True)):
                wanted = (f"1 or {B}", *(f"{size} or more" for size in least), *map(str, symbols))
                raise InvalidRecursion(f"weights {w.name} have shape {shape}, and ({', '.join(wanted)}) is wanted")
            if table.dtype != dtype:
                raise InvalidRecursion(f"weights {w.name} are {table.dtype}, and {dtype} is wanted")


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else sizes[size]


def _check_column(column: Sequence[int], entry: Entry, rows: int, size: int) -> None:
    if len(column) != rows:
        raise InvalidRecursion(f"column {entry.column} has length {len(column)}, and its list {rows}")
    numbers = whole_numbers(column, f"column {entry.column}")
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
        raise InvalidRecursion(f"words {name} have shape {tuple(table.shape)}, and the batch has size {len(lengths)}")
    whole_numbers(table, f"words {name}")
    if table.size and table.min() >= 0 and table.max() < size:  # the rule, and soon seen
        return
    inside = np.arange(table.shape[1]) < lengths[:, None]
    if (inside & ((table < 0) | (table >= size))).any():
        raise InvalidRecursion(f"words {name} are not all in 0 .. {size - 1}, the symbols of {place}")
