# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The language of recursions: items, weights, and rules that are sums of products.

A recursion is a Python function that adds rules to the :class:`.Recursion` it is given. They read as in a paper:

    IR[i, j] += arc[i, j] * RC[i, k] * LC[k + 1, j]

says that for all i and j the value of the item IR over i .. j grows by the sum over k of a product. Positions are the
words 1 .. n of a sentence, or the fence posts 0 .. n between them. An index that stands on the right alone is summed
over; its range is found from the rules. Python's own loops and functions serve as macros.

Nothing is computed here. A mistake that can be seen without numbers is an :class:`InvalidRecursion` in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .recursions import Recursion

Size = int | str  # of an axis of symbols: a number, or the name of one that is given with the weights
Columns = Mapping[str, Sequence[int]]  # of lists of rules, or words, by name


class InvalidRecursion(ValueError):
    """A rule that means nothing, or rules that cannot be evaluated in any order."""


def whole_numbers(values: Any, place: str) -> Any:
    """Symbols or words as an array.

    :raises InvalidRecursion: if they are no integers: what reads them would cut them off.
    """
    numbers = np.asarray(values)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise InvalidRecursion(f"{place} must be integers, not {numbers.dtype}")
    return numbers


def check_links(name: str, links: Any, lengths: Any) -> None:
    """
    :param links: of B sentences, shape ``(B, n)``: positions, below the first one where there is none.
    :param lengths: of sentences, shape ``(B,)``.
    :raises InvalidRecursion: if they are missing, or lead to a position that does not come before their own.
    """
    lengths = np.asarray(lengths)
    table = whole_numbers(links, f"links {name}")
    if table.ndim != 2 or len(table) != len(lengths) or table.shape[1] < lengths.max(initial=0):
        raise InvalidRecursion(
            f"links {name} have shape {table.shape}, and one is wanted for each position of each "
            f"of {len(lengths)} sentences"
        )
    at = np.arange(1, table.shape[1] + 1)
    for b, v in np.argwhere((table >= at) & (at <= lengths[:, None]))[:1]:
        raise InvalidRecursion(
            f"links {name} lead from {v + 1} to {table[b, v]} in sentence {b}, "
            "and a link leads to a position before its own"
        )


class _Written:
    """Operators that rules lack, refused in the language's own words."""

    def _refused(self, *other: object) -> Any:
        raise InvalidRecursion(f"{self}: rules know +, * and comparisons of positions by <, <=, > and >=, and no other")

    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = _refused
    __and__ = __rand__ = __or__ = __ror__ = __neg__ = __invert__ = _refused


class _Factor(_Written):
    """What products and sums are made of."""

    def __mul__(self, other: Any) -> Any:
        return _times(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _times(other, self)

    def __add__(self, other: Any) -> Sum:
        return Sum(_sum(self).products + _sum(other).products)

    def __radd__(self, other: Any) -> Sum:
        return Sum(_sum(other).products + _sum(self).products)


# ---------------------------------------------------------------------- indices


@dataclass(frozen=True)
class Position(_Written):
    """A variable, the length (``n``) or nothing (a constant), plus an offset."""

    name: str
    offset: int = 0

    def __add__(self, steps: int) -> Position:
        return replace(self, offset=self.offset + _whole(steps, self))

    def __sub__(self, steps: int) -> Position:  # type: ignore[override]
        return replace(self, offset=self.offset - _whole(steps, self))

    __radd__ = __add__

    def __mul__(self, other: object) -> Any:
        return self._refused()

    __rmul__ = __mul__

    def value(self, at: Mapping[str, int]) -> int:
        """The position where variables, the length and nothing are at some places."""
        return at[self.name] + self.offset

    def __le__(self, other: Position | int) -> Bracket:
        other = _position(other)
        return Bracket(bounds=(Bound(self.name, other.name, other.offset - self.offset),))

    def __lt__(self, other: Position | int) -> Bracket:
        return self + 1 <= other

    def __ge__(self, other: Position | int) -> Bracket:
        return _position(other).__le__(self)  # not <=, which would ask a link first

    def __gt__(self, other: Position | int) -> Bracket:
        return _position(other).__lt__(self)

    def __str__(self) -> str:
        if not self.name:
            return str(self.offset)
        sign = "-" if self.offset < 0 else "+"
        return f"{self.name} {sign} {abs(self.offset)}" if self.offset else self.name


@dataclass(frozen=True)
class Link(Position):
    """A position that is data: the one that ``at`` is linked to, which comes before it. Its name is ``l[v]``.

    Where there is none, an instance of a rule does not exist.
    """

    links: str = ""
    at: Position = Position("")

    def target(self, words: Columns, at: Mapping[str, int]) -> int:
        """Where it leads in a sentence; before all positions, if it leads nowhere."""
        return int(words[self.links][self.at.value(at) - 1])


@dataclass(frozen=True)
class Bound:
    """``x - y <= most`` for two names; the name of a constant is empty."""

    x: str
    y: str
    most: int

    def __str__(self) -> str:
        if self.most < 0:
            return f"{Position(self.x, -self.most - 1)} < {Position(self.y)}"
        return f"{Position(self.x)} <= {Position(self.y, self.most)}"

    def negated(self) -> Bound:
        return Bound(self.y, self.x, -self.most - 1)


@dataclass(frozen=True)
class Product(_Factor):
    """Items, weights and comparisons."""

    factors: tuple[Ref, ...] = ()
    bounds: tuple[Bound, ...] = ()

    def __str__(self) -> str:
        return " * ".join([*map(str, self.factors), *(f"({b})" for b in self.bounds)]) or "1"


@dataclass(frozen=True)
class Bracket(Product):
    """Iverson's bracket of a comparison: one where its bound holds, else zero."""

    def __bool__(self) -> bool:
        raise InvalidRecursion(
            "a comparison of positions has no truth value while rules are written: "
            "write (i < k) * (k < j) for i < k < j, and two rules for an if"
        )


def between(low: Position, x: Position, high: Position) -> tuple[Bound, ...]:
    """Of positions: low <= x <= high."""
    return (*(low <= x).bounds, *(x <= high).bounds)


@dataclass(frozen=True)
class _Named:
    name: str

    __iter__ = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Variable(_Named):
    """A symbol that runs over ``size`` values."""

    size: Size

    def number(self, lists: Columns, words: Columns, at: Mapping[str, int], rows: Mapping[Variable, int]) -> int:
        """Which symbol it is, of a sentence, with variables of positions and of symbols at some values."""
        return rows[self]


@dataclass(frozen=True)
class Constant:
    """A symbol that is given by its number."""

    value: int

    def __str__(self) -> str:
        return str(self.value)

    def number(self, lists: Columns, words: Columns, at: Mapping[str, int], rows: Mapping[Variable, int]) -> int:
        return self.value


@dataclass(frozen=True)
class Entry:
    """A symbol that a list of rules names: the entry of one of its columns in row ``row``."""

    column: str
    row: Variable

    def __str__(self) -> str:
        return f"{self.column}[{self.row}]"

    def number(self, lists: Columns, words: Columns, at: Mapping[str, int], rows: Mapping[Variable, int]) -> int:
        return int(lists[self.column][rows[self.row]])


@dataclass(frozen=True)
class Word:
    """A symbol that the sentence names: its word at a position."""

    words: str
    position: Position

    def __str__(self) -> str:
        return f"{self.words}[{self.position}]"

    def number(self, lists: Columns, words: Columns, at: Mapping[str, int], rows: Mapping[Variable, int]) -> int:
        return int(words[self.words][self.position.value(at) - 1])


@dataclass(frozen=True)
class Place(Word):
    """A symbol that is a position, whatever words a sentence has: ``words`` is empty."""

    def __str__(self) -> str:
        return str(self.position)

    def number(self, lists: Columns, words: Columns, at: Mapping[str, int], rows: Mapping[Variable, int]) -> int:
        return self.position.value(at)


Symbol = Variable | Constant | Entry | Word


@dataclass(frozen=True)
class Column(_Named):
    """A column of a list of rules, whose entries are symbols."""

    rows: Size

    def __getitem__(self, row: Any) -> Entry:
        if not isinstance(row, Variable) or row.size != self.rows:
            raise InvalidRecursion(f"{self.name}[{row}]: the index of a column is a symbol of size {self.rows!r}")
        return Entry(self.name, row)


@dataclass(frozen=True)
class Words(_Named):
    """The words of the sentence, as symbols."""

    def __getitem__(self, position: Any) -> Word:
        if not isinstance(position, (Position, int)):
            raise InvalidRecursion(f"{self.name}[{position}]: the index of a word is a position")
        return Word(self.name, _position(position))


@dataclass(frozen=True)
class Links(_Named):
    """Positions that are data: to which earlier position each one is linked."""

    def __getitem__(self, position: Any) -> Link:
        if not isinstance(position, Position) or isinstance(position, Link) or not position.name or position.offset:
            raise InvalidRecursion(
                f"{self.name}[{position}]: the index of a link is a variable, the position of the item"
            )
        return Link(f"{self.name}[{position}]", 0, self.name, position)


# ---------------------------------------------------------------------- references, sums, rules


@dataclass(frozen=True)
class Ref(_Factor):
    """An item or a weight at its indices: positions first, then symbols."""

    table: str
    is_item: bool
    positions: tuple[Position, ...]
    symbols: tuple[Any, ...]  # of Symbol; of Bracket while a rule is written
    page: Recursion | None = field(default=None, compare=False, repr=False)  # that it is written on

    def __iadd__(self, other: Any) -> Pending:  # type: ignore[override]
        pending = Pending(self, _sum(other))
        if self.page is not None:
            self.page._pending.append(pending)
        return pending

    def __str__(self) -> str:
        return f"{self.table}[{', '.join(map(str, (*self.positions, *self.symbols))) or '()'}]"


@dataclass(eq=False)
class Table(_Written):
    """A family of items or of weights; its elements are written ``table[positions, symbols]``. By itself no factor.

    :param source: of a weight that compiled code finds by itself: what it follows from.
    """

    page: Recursion = field(repr=False)
    name: str
    is_item: bool
    sizes: tuple[Size, ...]
    source: str = ""

    __iter__ = None

    def _refused(self, *other: object) -> Any:
        raise InvalidRecursion(
            f"{self.name} stands without indices: write {self.name}[...], or {self.name}[()] if it has none"
        )

    __add__ = __radd__ = __mul__ = __rmul__ = __iadd__ = _refused

    def __getitem__(self, index: Any) -> Ref:
        index = index if isinstance(index, tuple) else (index,)
        count = len(index) - len(self.sizes)
        written = f"{self.name}[{', '.join(repr(x) if isinstance(x, str) else str(x) for x in index) or '()'}]"
        if count < 0:
            raise InvalidRecursion(f"{written} has fewer indices than {self.name} has symbols, {len(self.sizes)}")
        for x in index[:count]:
            if not isinstance(x, (Position, int)) or isinstance(x, bool):
                raise InvalidRecursion(f"{written}: {x!s} stands where {self.name} has a position")
        symbols = tuple(_symbol(x, size, written) for x, size in zip(index[count:], self.sizes, strict=True))
        return Ref(self.name, self.is_item, tuple(_position(x) for x in index[:count]), symbols, self.page)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, Pending):
            raise InvalidRecursion(f"a rule for {self[index]} is written with +=, not with =")
        self.page._add(value)


@dataclass(frozen=True)
class Sum(_Factor):
    """Products that are added up: the right side of a rule."""

    products: tuple[Product, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.products)) or "0"


@dataclass(frozen=True, eq=False)
class Pending(_Written):
    """The right side of ``+=``, on its way to the table on the left."""

    head: Ref
    body: Sum

    def __str__(self) -> str:
        return f"{self.head} += {self.body}"


@dataclass(frozen=True)
class Rule:
    """The head grows by the product of the factors, summed over all indices that the head lacks."""

    head: Ref
    factors: tuple[Ref, ...]
    bounds: tuple[Bound, ...] = ()
    is_case: bool = field(default=False, compare=False)  # of a comparison as an index: it need not occur
    written: Rule | None = field(default=None, compare=False, repr=False)  # as it stands on the page

    @property
    def items(self) -> tuple[Ref, ...]:
        return tuple(f for f in self.factors if f.is_item)

    @property
    def weights(self) -> tuple[Ref, ...]:
        return tuple(f for f in self.factors if not f.is_item)

    @property
    def positions(self) -> tuple[str, ...]:
        """Names of all position variables."""
        names = [x.name for f in (self.head, *self.factors) for x in _positions(f)]
        names += [x for b in self.bounds for x in (b.x, b.y)]
        return tuple(dict.fromkeys(x for x in names if x not in ("", "n")))

    @property
    def links(self) -> dict[str, Link]:
        """Positions that are links, by name."""
        return {x.name: x for f in self.items for x in f.positions if isinstance(x, Link)}

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All symbol variables."""
        return symbols_in((self.head, *self.factors))

    def __str__(self) -> str:
        return f"{self.head} += {Product(self.factors, self.bounds)}"


# ---------------------------------------------------------------------- what is written becomes what is meant


def symbols_in(refs: Iterable[Ref]) -> tuple[Variable, ...]:
    """The symbol variables that references know, each once."""
    symbols = [x.row if isinstance(x, Entry) else x for ref in refs for x in ref.symbols]
    return tuple(dict.fromkeys(x for x in symbols if isinstance(x, Variable)))


def _positions(ref: Ref) -> Iterator[Position]:
    yield from ref.positions
    yield from (x.position for x in ref.symbols if isinstance(x, Word))


def _position(x: Any) -> Position:
    if isinstance(x, Position):
        return x
    if isinstance(x, int) and not isinstance(x, bool):
        return Position("", x)
    raise InvalidRecursion(f"{x} is not a position")


def _whole(x: Any, position: Position) -> int:
    if isinstance(x, bool) or not isinstance(x, int):
        raise InvalidRecursion(f"only whole numbers are added to position {position}, not {x}")
    return x


def _symbol(x: Any, size: Size, written: str) -> Any:
    if isinstance(x, Position):
        return Place("", x)
    if isinstance(x, bool) or not isinstance(x, (int, Variable, Entry, Word, Bracket)):
        raise InvalidRecursion(f"{written}: {x} stands where the table has a symbol")
    if isinstance(x, int):
        if x < 0 or (isinstance(size, int) and x >= size):
            last = size - 1 if isinstance(size, int) else f"{size} - 1"
            raise InvalidRecursion(f"{written}: symbol {x} is not in 0 .. {last}")
        return Constant(x)
    if isinstance(x, Variable) and x.size != size:
        raise InvalidRecursion(f"{written}: {x} runs over {x.size} symbols, and the table has {size} there")
    if isinstance(x, Bracket) and size != 2:
        raise InvalidRecursion(f"{written}: a comparison is an index of an axis of size 2, and a single one")
    return x


def _product(x: Any) -> Product:
    if isinstance(x, Product):
        return x
    if isinstance(x, Ref):
        return Product((x,))
    if isinstance(x, bool):
        raise InvalidRecursion(
            f"{x} is no factor of a rule: positions are compared by <, <=, > and >=, "
            "and i == j is (i <= j) * (j <= i), or one index for both"
        )
    if isinstance(x, int) and x == 1:
        return Product()
    if isinstance(x, Table):
        return x._refused()  # type: ignore[no-any-return]
    if isinstance(x, Pending):
        raise InvalidRecursion(f"{x} is no factor of a rule: a sum in a variable grows by x = x + y, not by x += y")
    raise InvalidRecursion(
        f"{x!s} is no factor of a rule: factors are items, weights, comparisons of positions and 1; "
        "another number is a weight"
    )


def _times(a: Any, b: Any) -> Product | Sum:
    if isinstance(a, Sum) or isinstance(b, Sum):
        return Sum(tuple(_joined(x, y) for x in _sum(a).products for y in _sum(b).products))
    return _joined(_product(a), _product(b))


def _joined(a: Product, b: Product) -> Product:
    return Product(a.factors + b.factors, a.bounds + b.bounds)


def _sum(x: Any) -> Sum:
    if isinstance(x, int) and not isinstance(x, bool) and x == 0:
        return Sum(())
    return x if isinstance(x, Sum) else Sum((_product(x),))
