# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which elements of a weight rules speak of: regions, as loops over its axes.

``arc[i, j]`` in ``IR[i, j] += arc[i, j] * ...`` is

    arc[axis0, axis1]   for axis0 in 1 .. n - 1, axis1 in axis0 + 1 .. n

Only these elements are read, and only these have posteriors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..rules.bounds import Bounds
from ..rules.cells import Cells, Loop, Term
from ..rules.domains import constraints
from ..rules.language import Entry, Position, Ref, Variable, Word
from .weights import WeightCells, axes, weight_cells


@dataclass(frozen=True)
class Region:
    """Elements of a weight that a rule speaks of, in loops over its axes: variables axis0, axis1, ..."""

    ref: Ref
    loops: tuple[Loop, ...]


def by_axes(ref: Ref) -> Ref:
    """The reference with the variables axis0, axis1, ... for its positions."""
    count = itertools.count()

    def named(x: Position) -> Position:
        return Position(f"axis{next(count)}") if x.name else x

    positions = tuple(map(named, ref.positions))
    symbols = tuple(Word(s.words, Position(f"axis{next(count)}")) if isinstance(s, Word) else s for s in ref.symbols)
    return replace(ref, positions=positions, symbols=symbols)


def regions_of(cells: Cells, w: WeightCells) -> Iterator[Region]:
    """The elements of a table of lanes that rules speak of, each in one region."""
    names = [f"axis{x}" for x in range(w.num_axes)]
    regions: list[tuple[Ref, Bounds]] = []
    for _, _, term in cells.terms:
        for f in (f for f in term.all_factors if not f.is_item and weight_cells(f) == w):
            bounds = _axis_bounds(cells, term, f)
            for old in [x for x in regions if x[1].meets(bounds)]:
                regions.remove(old)
                bounds = bounds.hull(old[1])
            regions.append((_over_all(cells, f), bounds))
    for f, bounds in regions:
        yield Region(f, tuple(Loop(x, *bounds.limits(x, ["", "n", *names[:a]])) for a, x in enumerate(names)))


def _over_all(cells: Cells, f: Ref) -> Ref:
    """The weight with a variable of its own for each symbol that is neither a constant nor a word."""
    sizes = cells.recursion.tables[f.table].sizes
    symbols = [
        Variable(f"axis{a}", size) if isinstance(x, (Variable, Entry)) else x
        for a, (x, size) in enumerate(zip(f.symbols, sizes, strict=True))
    ]
    return replace(f, symbols=tuple(symbols))


def _axis_bounds(cells: Cells, term: Term, f: Ref) -> Bounds:
    """What holds for the axes of a weight in a term, whatever the length is: in a block there are several."""
    known = list(constraints(term.rule, cells.first, cells.domains) or [])
    names = [f"axis{x}" for x in range(len(axes(f)))]
    for name, x in zip(names, axes(f), strict=True):
        here = Position(name)
        known += [*(here <= x).bounds, *(x <= here).bounds]
    return Bounds([*term.rule.positions, "i", "j", *names], known).among(names).of_any_length()
