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
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_MIX, _SLOTS = np.uint64(0x9E3779B97F4A7C15), 14  # the golden ratio of 64 bits; bits of the number of a slot


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
        # The table of the last column; of its strings the ids here, -1 of those that no column had.
        self._other: Sequence[str] = ()
        self._numbers = np.empty(0, np.int64)

    def ids(self, column: Strings) -> Ints:
        """The ids of a column in this table, which has all of its strings from now on."""
        table, known = column.table, self._ids
        before = self._numbers if table is self._other else self._numbers[:0]
        numbers = np.concatenate([before, np.full(len(table) - len(before), -1)])
        new = np.flatnonzero((np.bincount(column.ids, minlength=len(table)) > 0) & (numbers < 0)).tolist()
        numbers[new] = [known.setdefault(table[i], len(known)) for i in new]
        self._other, self._numbers = table, numbers
        return narrow(numbers[column.ids])

    def to_list(self) -> list[str]:
        """The strings in the order of their ids."""
        return list(self._ids)


class _Pieces(dict[bytes, int]):
    """The ids of pieces of text, which come into a table when they are asked for first."""

    def __init__(self) -> None:
        self.table: list[str] = []

    def __missing__(self, piece: bytes) -> int:
        number = self[piece] = len(self.table)
        self.table.append(piece.decode())
        return number


class Pieces:
    """Strings that are pieces of texts in UTF-8 without NUL, in one table that grows from text to text.

    A short piece is a number, by which it is told apart. A number has one slot, and each slot the id of the last number
    that was looked up there; so most pieces are known without a look at their text.
    """

    def __init__(self) -> None:
        self._ids = _Pieces()
        self._ids[b""]  # whose number is 0
        self._held, self._held_ids = np.zeros(1 << _SLOTS, np.uint64), np.zeros(1 << _SLOTS, np.int32)

    def of(self, text: bytes, begins: Ints, lengths: Ints) -> Strings:
        """Pieces of one text.

        :param begins: where each begins, shape ``(N,)``.
        :param lengths: bytes of each, shape ``(N,)``.
        """
        numbers, long = eights(text)[begins] & _MASKS[np.minimum(lengths, 8)], np.flatnonzero(lengths > 8)
        numbers[long] = 0
        slots = ((numbers * _MIX) >> np.uint64(64 - _SLOTS)).astype(np.int64)
        ids, rest = self._held_ids[slots], np.flatnonzero(self._held[slots] != numbers)
        ids[long] = self._looked_up(text, begins[long], lengths[long])
        latest = np.empty(1 << _SLOTS, np.int32)
        while len(rest):  # in each slot at least one number is done
            latest[slots[rest]] = rest
            new = rest[latest[slots[rest]] == rest]
            self._held[slots[new]] = numbers[new]
            self._held_ids[slots[new]] = self._looked_up(text, begins[new], lengths[new])
            ids[rest] = self._held_ids[slots[rest]]
            rest = rest[self._held[slots[rest]] != numbers[rest]]
        return Strings(narrow(ids), self._ids.table)

    def _looked_up(self, text: bytes, begins: Ints, lengths: Ints) -> list[int]:
        known, rows = self._ids, zip(begins.tolist(), (begins + lengths).tolist(), strict=True)
        return [known[text[a:b]] for a, b in rows]


def eights(text: bytes) -> NDArray[np.uint64]:
    """The eight bytes from each place of a text on as a number, the first byte the lowest; NUL after the end."""
    numbers: NDArray[np.uint64] = np.ndarray(len(text) + 1, "<u8", text + bytes(8), strides=(1,))
    return numbers


@dataclass(frozen=True)
class Names:
    """Strings that hardly ever come twice, or None, as one piece of UTF-8.

    :param text: all bytes, one string after the other.
    :param offsets: where each string begins, and the end of the last.
    :param present: which of them are strings; the others are None.
    """

    text: NDArray[np.uint8]
    offsets: Ints
    present: Bools

    @staticmethod
    def of(names: Sequence[str | None]) -> Names:
        """The column of a list."""
        encoded = [b"" if name is None else name.encode("utf-8", "surrogatepass") for name in names]
        lengths = np.array([len(part) for part in encoded], dtype=np.int64)
        present = np.array([name is not None for name in names], dtype=np.bool_)
        return Names(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(lengths), present)

    def take(self, chosen: Ints) -> Names:
        """Some of them."""
        lengths = np.diff(self.offsets)[chosen]
        return Names(self.text[ranges(self.offsets[chosen], lengths)], offsets_of(lengths), self.present[chosen])

    def to_list(self, start: int, stop: int) -> list[str | None]:
        """Some that stand side by side."""
        at = self.offsets[start : stop + 1].tolist()
        text = self.text[at[0] : at[-1]].tobytes()
        rows = zip(at, at[1:], self.present[start:stop].tolist(), strict=False)
        return [
            text[a - at[0] : b - at[0]].decode("utf-8", "surrogatepass") if present else None for a, b, present in rows
        ]


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
