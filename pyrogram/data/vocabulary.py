# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Symbols and their numbers: what turns a sentence into a row of integers and back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from pyrogram.printable import plural, quoted, shown

_HALF_PAIR = re.compile("[\ud800-\udfff]")
Unknown = Literal["most_frequent", "error"]


@dataclass(frozen=True)
class Vocabulary:
    """An ordered set of symbols with how often each was seen. Immutable; equal if symbols and counts are.

    :param symbols: the symbols; the index of each is its id.
    :param counts: as many non-negative integers.
    :raises ValueError: if a symbol comes twice or is no Unicode text, or the numbers of symbols and counts differ.
    """

    symbols: tuple[str, ...]
    counts: tuple[int, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", tuple(self.symbols))
        object.__setattr__(self, "counts", tuple(self.counts))
        object.__setattr__(self, "_ids", {s: i for i, s in enumerate(self.symbols)})
        if len(self.counts) != len(self.symbols):
            raise ValueError(f"expected {len(self.symbols)} counts, one per symbol, actual {len(self.counts)}.")
        if len(self._ids) != len(self.symbols):
            twice = next(s for s, c in Counter(self.symbols).items() if c > 1)
            raise ValueError(f"expected symbols that differ, actual {quoted(twice)} twice.")
        for symbol in self.symbols:
            if _HALF_PAIR.search(symbol):
                raise ValueError(
                    f"expected symbols of Unicode text, actual {quoted(symbol)}, half of a surrogate pair."
                )
        if any(c < 0 for c in self.counts):
            raise ValueError("expected counts of at least 0, actual a negative one.")

    @staticmethod
    def count(symbols: Iterable[str]) -> Vocabulary:
        """The vocabulary of a text: most frequent first, ties in alphabetical order."""
        return Vocabulary.of_counts(Counter(symbols))

    @staticmethod
    def of_counts(counts: Mapping[str, int]) -> Vocabulary:
        """The same of a text whose symbols are counted already."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return Vocabulary(tuple(s for s, _ in ranked), tuple(c for _, c in ranked))

    def __len__(self) -> int:
        return len(self.symbols)

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __getitem__(self, index: int) -> str:
        return self.symbols[index]

    @property
    def most_frequent(self) -> str:
        """The symbol with the highest count, the first of several."""
        if not self.symbols:
            raise ValueError("expected a vocabulary with symbols, actual an empty one.")
        return self.symbols[max(range(len(self)), key=self.counts.__getitem__)]

    def index(self, symbol: str) -> int:
        """The id of a symbol.

        :raises KeyError: if the vocabulary lacks it.
        """
        try:
            return self._ids[symbol]
        except KeyError:
            raise KeyError(f"the vocabulary of {plural(len(self), 'symbol')} has no {quoted(symbol)}") from None

    def encode(self, symbols: Iterable[str], unknown: Unknown = "error") -> list[int]:
        """The ids of symbols.

        :param unknown: what becomes of a symbol that the vocabulary lacks: ``"error"``, or the id of the
            ``"most_frequent"`` symbol.
        :raises KeyError: with ``unknown="error"``.
        """
        if unknown == "error":
            return [self.index(s) for s in symbols]
        if unknown != "most_frequent":
            raise ValueError(f"expected unknown to be 'most_frequent' or 'error', actual {unknown!r}.")
        default = self._ids[self.most_frequent]
        return [self._ids.get(s, default) for s in symbols]

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        """The symbols of ids, a list or a tensor of one dimension; padding (-1) is left out.

        :raises IndexError: if an id is out of range.
        """
        numbers = [int(i) for i in ids]
        for i in numbers:
            if not -1 <= i < len(self):
                raise IndexError(f"expected ids from 0 to {len(self) - 1} (or -1, padding), actual {i}.")
        return [self.symbols[i] for i in numbers if i >= 0]

    def to_list(self) -> list[list[str | int]]:
        """Pairs [symbol, count] in order of ids, ready for JSON."""
        return [[s, c] for s, c in zip(self.symbols, self.counts, strict=True)]

    @staticmethod
    def from_list(pairs: Iterable[Sequence[Any]]) -> Vocabulary:
        """The vocabulary that :meth:`to_list` wrote.

        :raises ValueError: if an item is no pair of a string and an integer.
        """
        items = list(pairs)
        for item in items:
            well = isinstance(item, (list, tuple)) and [type(part) for part in item] == [str, int]
            if not well:
                raise ValueError(f"expected pairs [symbol, count], actual {shown(repr(item))}.")
        return Vocabulary(tuple(item[0] for item in items), tuple(item[1] for item in items))

    def __repr__(self) -> str:
        shown = ", ".join(self.symbols[:5]) + (", ..." if len(self) > 5 else "")
        return f"Vocabulary({plural(len(self), 'symbol')}: {shown})"
