# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where the events of annotated rules lie in cells of eight, for sweeps over trees.

A rule's table has a *row* for each subtype a of its parent, the events of all (b, c), c running fastest, padded to
cells of eight numbers. A rule of a word has one row, the events of all a. A tree's *own* counts are a table for each
distinct rule that it has, one after the other; its nodes that have the same rule are a *group*.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel

from .annotation_numba import grouped
from .annotation_rules import AnnotationRules, LinkedTrees, Tables


class Cells(NamedTuple):
    """Tables of rules, in cells; shapes are ``(R0,)``."""

    start: Any
    """The first cell of each rule in what all trees share."""
    rows: Any
    each: Any
    """Cells of a row."""
    size: int
    """Cells of all rules."""
    width: int
    """Cells of a vector over subtypes."""


class Groups(NamedTuple):
    """The groups of all trees, one tree after the other."""

    start: Any
    """The groups of a tree, shape ``(B + 1,)``."""
    rule: Any
    """(G,)"""
    own: Any
    """The first cell of each group's own counts, shape ``(G + 1,)``."""
    members: Any
    """Nodes, group by group."""
    first: Any
    """The members of a group, shape ``(G + 1,)``."""
    of_node: Any
    """The group of each node."""


class Layout(NamedTuple):
    """Where own counts lie."""

    rules: AnnotationRules
    trees: LinkedTrees
    cells: Cells
    groups: Groups

    @property
    def size(self) -> int:
        """Numbers in the own counts of all trees."""
        return 8 * int(self.groups.own[-1])

    @property
    def arrays(self) -> tuple[LinkedTrees, Tables, Cells, Groups]:
        """What compiled code is given."""
        return self.trees, self.rules.tables, self.cells, self.groups


def make_layout(rules: AnnotationRules, trees: LinkedTrees) -> Layout:
    lexical = rules.left < 0
    above = rules.subtypes[rules.parent]
    rows = np.where(lexical, 1, above)
    each = (np.where(lexical, above, rules.left_subtypes * rules.right_subtypes) + 7) // 8
    ends = np.cumsum(rows * each)
    cells = Cells(ends - rows * each, rows, each, int(ends[-1]), (rules.width + 7) // 8)
    of_tree = np.repeat(np.arange(len(trees.lengths)), trees.lengths)
    members, first, keys = grouped(of_tree * len(rules.parent) + trees.rule)
    rule = keys % len(rules.parent)
    own = np.concatenate([[0], np.cumsum((rows * each)[rule])])
    of_node = np.empty(len(members), np.int64)
    of_node[members] = np.repeat(np.arange(len(keys)), np.diff(first))
    start = np.searchsorted(keys // len(rules.parent), np.arange(len(trees.lengths) + 1))
    groups = Groups(start, rule, own, members, first, of_node)
    return Layout(rules, trees, cells, groups)


def to_cells(layout: Layout, events: Any, padding: float) -> Any:
    """Numbers of all events, shape ``(R,)``, in cells."""
    out = np.full(8 * layout.cells.size, padding)
    _move(layout.rules.tables, layout.cells, np.ascontiguousarray(events, np.float64), out, True)
    return out


def from_cells(layout: Layout, cells: Any) -> Any:
    """The reverse."""
    out = np.zeros(layout.rules.num_events)
    _move(layout.rules.tables, layout.cells, out, cells, False)
    return out


def sums_in_cells(layout: Layout, cells: Any, padding: float) -> Any:
    """Sums over the multinomials of (A, a), shape ``(S * width * 8,)``."""
    subtypes, width = layout.rules.subtypes, 8 * layout.cells.width
    out = np.zeros((len(subtypes), width))
    _add_rows(layout.rules.tables, layout.cells, cells, out)
    out[np.arange(width) >= subtypes[:, None]] = padding
    return out.reshape(-1)


def total(layout: Layout, own: Any) -> Any:
    """Own counts of all trees, shape ``(R,)``."""
    out = np.zeros(8 * layout.cells.size)
    _add_trees(layout.cells, layout.groups, np.arange(len(layout.trees.lengths)), own, out)
    return from_cells(layout, out)


def of_trees(layout: Layout, own: Any, trees: Any) -> Any:
    """Own counts of some trees, shape ``(len(trees), R)``."""
    out = np.zeros((len(trees), layout.rules.num_events))
    for k, b in enumerate(trees):
        cells = np.zeros(8 * layout.cells.size)
        _add_trees(layout.cells, layout.groups, np.array([b]), own, cells)
        out[k] = from_cells(layout, cells)
    return out


@njit(nogil=True)
def event_at(r, a, x, tables, cells):
    """Number x of the events of a rule for a, and its place in cells."""
    event = tables.offset[r] + a * tables.stride[tables.parent[r]] + x
    return event, 8 * cells.start[r] + (a if tables.left[r] < 0 else a * 8 * cells.each[r] + x)


@njit(nogil=True)
def events_of(r, tables):
    """How many events a rule has for each a."""
    _, left, right, _, _, subtypes = tables
    return (subtypes[left[r]] if left[r] >= 0 else 1) * (subtypes[right[r]] if right[r] >= 0 else 1)


@kernel
def _move(tables, cells, events, out, forth):
    for r in range(len(tables.parent)):
        for a in range(tables.subtypes[tables.parent[r]]):
            e, y = event_at(r, a, 0, tables, cells)
            for x in range(events_of(r, tables)):
                if forth:
                    out[y + x] = events[e + x]
                else:
                    events[e + x] = out[y + x]


@kernel
def _add_rows(tables, cells, numbers, out):
    for r in range(len(tables.parent)):
        for a in range(tables.subtypes[tables.parent[r]]):
            _, y = event_at(r, a, 0, tables, cells)
            for x in range(events_of(r, tables)):
                out[tables.parent[r], a] += numbers[y + x]


@kernel
def _add_trees(cells, groups, chosen, own, out):
    for b in chosen:
        for g in range(groups.start[b], groups.start[b + 1]):
            y, at = 8 * groups.own[g], 8 * cells.start[groups.rule[g]]
            for x in range(8 * groups.own[g + 1] - y):
                out[at + x] += own[y + x]
