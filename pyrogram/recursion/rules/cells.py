# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From rules to cells: in which order a chart is filled, and what each cell is the sum of.

Before, for plain projective trees:

    IR[i, j] += arc[i, j] * RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]

After:

    spans of width 1 and more
        IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
        RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])

A *cell* is all items at the same positions: (i, j), j, or none. Cells are filled column by column: j upwards, i
downwards from j, then the point j; the goal comes last. A class of cells holds those that are filled alike. The
factors of a term that know no summed position stand outside of its sum, which is what makes a dense grammar cubic in
its symbols and not in symbols times length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from .domains import Domain, N
from .language import Bound, Link, Position, Ref, Rule, Size, Variable, Word, _positions, between
from .language import symbols_in as symbols_in
from .recursions import Recursion

I, J = Position("i"), Position("j")
Kind = Literal["span", "point", "goal"]
KINDS: dict[int, Kind] = {2: "span", 1: "point", 0: "goal"}


@dataclass(frozen=True)
class Loop:
    """A summed position: from the greatest of ``low`` to the least of ``high``, both included.

    :param link: if it is one, there is this position alone, if it lies between them.
    """

    name: str
    low: tuple[Position, ...]
    high: tuple[Position, ...]
    link: Link | None = None

    def __str__(self) -> str:
        if self.link is not None:
            return self.name
        low, high = (", ".join(map(str, x)) for x in (self.low, self.high))
        low = f"max({low})" if len(self.low) > 1 else low
        return f"{self.name} = {low} .. {f'min({high})' if len(self.high) > 1 else high}"


@dataclass(frozen=True)
class Inner:
    """A sum over positions, and over the symbols that occur in it alone, of a product."""

    loops: tuple[Loop, ...]
    symbols: tuple[Variable, ...]
    factors: tuple[Ref, ...]
    free: tuple[Variable, ...]  # symbols that are not summed here

    def __str__(self) -> str:
        over = ", ".join([*map(str, self.loops), *(f"all {x}" for x in self.symbols)])
        return f"sum({over}: {' * '.join(map(str, self.factors)) or '1'})"


@dataclass(frozen=True)
class Term:
    """A product of factors and of an inner sum, summed over symbols.

    :param guard: what must hold for the cell's own positions; most rules hold in all cells of their class.
    """

    factors: tuple[Ref, ...]
    inner: Inner | None
    symbols: tuple[Variable, ...]
    rule: Rule
    guard: tuple[Bound, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether an inner sum is multiplied by other factors."""
        return self.inner is not None and bool(self.factors)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.inner.loops if self.inner else ()

    @property
    def all_factors(self) -> tuple[Ref, ...]:
        return self.factors + (self.inner.factors if self.inner else ())

    @property
    def items(self) -> tuple[Ref, ...]:
        return tuple(f for f in self.all_factors if f.is_item)

    @property
    def weights(self) -> tuple[Ref, ...]:
        return tuple(f for f in self.all_factors if not f.is_item)

    @property
    def all_symbols(self) -> tuple[Variable, ...]:
        return self.symbols + (self.inner.symbols if self.inner else ())

    def __str__(self) -> str:
        inner = [str(self.inner)] if self.inner else []
        product = " * ".join([*map(str, self.factors), *inner, *(f"({b})" for b in self.guard)]) or "1"
        return f"sum(all {', all '.join(map(str, self.symbols))}: {product})" if self.symbols else product


@dataclass
class Head:
    """An item at a cell: the sum of its terms."""

    ref: Ref
    terms: list[Term] = field(default_factory=list)


@dataclass
class CellClass:
    """Cells that are filled alike: spans or points of one width, or of all from ``least`` on; or the goal.

    The width of a span is j - i, that of a point j.
    """

    kind: Kind
    width: int | None
    least: int
    heads: list[Head] = field(default_factory=list)

    @property
    def terms(self) -> list[Term]:
        """Those of all heads."""
        return [t for head in self.heads for t in head.terms]

    @property
    def positions(self) -> tuple[Position, ...]:
        return {"span": (I, J), "point": (J,), "goal": ()}[self.kind]

    @property
    def widths(self) -> tuple[Bound, ...]:
        """What says which cells these are."""
        if self.kind == "goal":
            return ()
        low = I if self.kind == "span" else Position("")
        return (low + self.least <= J).bounds + (() if self.width is None else (low + self.width >= J).bounds)

    def limits(self, first: int) -> list[Bound]:
        """All that holds for their positions.

        :param first: the first position.
        """
        within = [b for x in self.positions for b in between(Position("", first), x, N)]
        return [Bound("", "n", -1), *within, *self.widths]

    def __str__(self) -> str:
        what = {"span": "spans of width", "point": "points at", "goal": "goal"}[self.kind]
        title = what if self.kind == "goal" else f"{what} {self.least}{' and more' if self.width is None else ''}"
        return "\n".join([title, *(f"    {h.ref} += {t}" for h in self.heads for t in h.terms)])


@dataclass
class Cells:
    """A recursion in the order of its evaluation.

    :param classes: spans by width, then points, then the goal.
    :param domains: of all items.
    :param arity: number of positions of all tables.
    :param sizes: the sizes of the symbols of all items.
    """

    recursion: Recursion
    classes: list[CellClass]
    domains: dict[str, Domain]
    arity: dict[str, int]
    sizes: dict[str, tuple[Size, ...]]

    @property
    def first(self) -> int:
        return self.recursion.first

    @property
    def goal(self) -> str:
        return self.recursion.goal

    @property
    def terms(self) -> list[tuple[CellClass, Head, Term]]:
        """All terms, each with its head and the class of its cells."""
        return [(c, h, t) for c in self.classes for h in c.heads for t in h.terms]

    def num_symbols(self, item: str, sizes: Mapping[str, int]) -> int:
        """How many elements an item has at its positions.

        :param sizes: numbers of symbols, by their names.
        """
        return math.prod(s if isinstance(s, int) else sizes[s] for s in self.sizes[item])

    def of(self, kind: Kind) -> list[CellClass]:
        return [c for c in self.classes if c.kind == kind]

    def __str__(self) -> str:
        return "\n".join(map(str, self.classes))


def renamed(ref: Ref, names: Mapping[str, Position]) -> Ref:
    """The reference, with positions for names of positions."""

    def at(x: Position) -> Position:
        if isinstance(x, Link):  # its name stays
            return replace(x, at=at(x.at))
        return names[x.name] + x.offset if x.name in names else x

    symbols = tuple(replace(x, position=at(x.position)) if isinstance(x, Word) else x for x in ref.symbols)
    return replace(ref, positions=tuple(map(at, ref.positions)), symbols=symbols)


def renamed_bounds(bounds: Iterable[Bound], names: Mapping[str, Position]) -> tuple[Bound, ...]:
    """The bounds, with positions for names of positions."""
    pairs = ((names.get(b.x, Position(b.x)), names.get(b.y, Position(b.y)) + b.most) for b in bounds)
    return tuple(b for x, y in pairs for b in (x <= y).bounds)


def names_in(ref: Ref) -> set[str]:
    """Names of the positions that a reference knows."""
    return {x.name for x in _positions(ref)} - {""}
