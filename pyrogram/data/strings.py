# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Columns of strings in little memory: by reference to those that differ, or as one piece of text.

Integers are of the narrowest type that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class Strings:
    """Strings by reference.

    :param ids: of every string its place in the table.
    :param table: strings that differ; there may be some that no id refers to.
    """

    ids: Ints
    table: Sequence[str]

    @staticmethod
    def of(strings: Sequence[str]) -> Strings:
        """The column of a list."""
        table = {string: i for i, string in enumerate(dict.fromkeys(strings))}
        return Strings(narrow(np.array([table[string] for string in strings], dtype=np.int64)), list(table))

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: Ints | Bools | slice) -> Strings:
        """Some of them."""
        return Strings(self.ids[index], self.table)

    def to_list(self) -> list[str]:
        """All of them."""
        table = self.table
        return [table[i] for i in self.ids.tolist()]

    def mapped(self, images: Sequence[str]) -> Strings:
        """Other strings in their places.

        :param images: one for every entry of the table; several may be alike.
        """
        new = Strings.of(images)
        return Strings(new.ids[self.ids], new.table)

    def where(self, holds: Mapping[str, bool], otherwise: bool = False) -> Bools:
        """What a property of strings is of each of them.

        :param otherwise: of those that ``holds`` lacks.
        """
        return np.array([holds.get(string, otherwise) for string in self.table], dtype=np.bool_)[self.ids]

    def counts(self) -> dict[str, int]:
        """How often each string occurs, of those that do."""
        counts = np.zeros(len(self.table), np.int64)
        for start in range(0, len(self.ids), _AT_A_TIME):  # bincount makes 64 bits of every id
            counts += np.bincount(self.ids[start : start + _AT_A_TIME], minlength=len(counts))
        return {string: count for string, count in zip(self.table, counts.tolist(), strict=True) if count}


class Table:
    """A table of strings that grows by those of columns."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def ids(self, column: Strings) -> Ints:
        """The ids of a column in this table, which has all of its strings from now on."""
        numbers, known = np.zeros(len(column.table), np.int64), self._ids
        used = np.flatnonzero(np.bincount(column.ids, minlength=len(column.table))).tolist()
        numbers[used] = [known.setdefault(column.table[i], len(known)) for i in used]
        return narrow(numbers)[column.ids]

    def to_list(self) -> list[str]:
        """The strings in the order of their ids."""
        return list(self._ids)


@dataclass(frozen=True)
class Names:
    """Strings that hardly ever come twice, or None, as one piece of UTF-8.

    :param text: all bytes, one string after the other.
    :param offsets: where each string begins, and the end of the last.
    :param given: which of them are strings; the others are None.
    """

    text: NDArray[np.uint8]
    offsets: Ints
    given: Bools

    @staticmethod
    def of(names: Sequence[str | None]) -> Names:
        """The column of a list."""
        parts = [b"" if name is None else name.encode("utf-8", "surrogatepass") for name in names]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        given = np.array([name is not None for name in names], dtype=np.bool_)
        return Names(np.frombuffer(b"".join(parts), np.uint8), offsets_of(lengths), given)

    def take(self, chosen: Ints) -> Names:
        """Some of them."""
        lengths = np.diff(self.offsets)[chosen]
        return Names(self.text[ranges(self.offsets[chosen], lengths)], offsets_of(lengths), self.given[chosen])

    def to_list(self, start: int, stop: int) -> list[str | None]:
        """Some that stand side by side."""
        at = self.offsets[start : stop + 1].tolist()
        text = self.text[at[0] : at[-1]].tobytes()
        rows = zip(at, at[1:], self.given[start:stop].tolist(), strict=False)
        return [text[a - at[0] : b - at[0]].decode("utf-8", "surrogatepass") if given else None for a, b, given in rows]


def narrow(numbers: Ints) -> Ints:
    """The same numbers in the narrowest type for them, with a sign only if one is negative."""
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    return numbers.astype(np.min_scalar_type(high if low >= 0 else -max(high + 1, -low)), copy=False)


def offsets_of(lengths: Ints) -> NDArray[np.int64]:
    """Where parts of these lengths begin if they lie one after the other, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(begins: Ints, lengths: Ints) -> NDArray[np.int64]:
    """The numbers from each of ``begins`` on, as many as ``lengths`` says, one after the other."""
    ends = np.cumsum(lengths, dtype=np.int64)
    number = int(ends[-1]) if len(ends) else 0
    within: NDArray[np.int64] = np.arange(number) + np.repeat(begins.astype(np.int64) - (ends - lengths), lengths)
    return within
