# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where the events of annotated rules lie in cells of eight, for sums over trees and for sweeps.

A rule's table has a *row* for each subtype a of its parent, the events of all (b, c), c running fastest, padded to
cells of eight numbers. A rule of a word has one row, the events of all a. A tree's *own* counts are a table for each
distinct rule that it has, one after the other; its nodes that have the same rule are a *group*.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel

from .annotation_log import Places
from .annotation_rules import AnnotationRules, LinkedTrees


class Cells(NamedTuple):
    """Rules, and their tables in cells; shapes are ``(R0,)``, that of ``subtypes`` is ``(S,)``."""

    parent: Any
    left: Any
    right: Any
    subtypes: Any
    offset: Any
    """The first event of each rule, and from one a to the next."""
    stride: Any
    start: Any
    """The first cell of each rule's table."""
    rows: Any
    each: Any
    """Cells of a row."""
    step: Any
    """Numbers from one a to the next."""
    size: int
    """Cells of all rules."""
    width: int
    """Cells of a vector over subtypes."""


class Groups(NamedTuple):
    """The groups of all trees, one tree after the other."""

    start: Any
    """The groups of a tree, shape ``(B + 1,)``."""
    begin: Any
    """Where the own counts of a tree begin, as a number, shape ``(B + 1,)``."""
    rule: Any
    """(G,)"""
    place: Any
    """The first cell of each group's table among the own counts of its tree, shape ``(G,)``."""
    members: Any
    """Nodes, group by group."""
    first: Any
    """The members of a group, shape ``(G + 1,)``."""
    of_node: Any
    """The place of each node's table."""


class Layout(NamedTuple):
    """Where own counts lie."""

    rules: AnnotationRules
    trees: LinkedTrees
    cells: Cells
    groups: Groups

    @property
    def size(self) -> int:
        """Numbers in the own counts of all trees."""
        return int(self.groups.begin[-1])

    @property
    def places(self) -> Places:
        """Where own counts of nodes are."""
        return Places(8 * self.groups.of_node, self.cells.step)


def make_cells(rules: AnnotationRules) -> Cells:
    """Where the tables of rules lie."""
    lexical = rules.left < 0
    above, below = rules.subtypes[rules.parent], rules.left_subtypes * rules.right_subtypes
    rows = np.where(lexical, 1, above)
    each = (np.where(lexical, above, below) + 7) // 8
    ends = np.cumsum(rows * each)
    tables = rules.parent, rules.left, rules.right, rules.subtypes, rules.offset, rules.stride[rules.parent]
    step = np.where(lexical, 1, 8 * each)
    return Cells(*tables, ends - rows * each, rows, each, step, int(ends[-1]), (rules.width + 7) // 8)


def make_layout(rules: AnnotationRules, trees: LinkedTrees) -> Layout:
    """Where the own counts of trees lie."""
    cells = make_cells(rules)
    of_tree = np.repeat(np.arange(len(trees.lengths)), trees.lengths)
    members, first, keys = grouped(of_tree * len(rules.parent) + trees.rule)
    rule = keys % len(rules.parent)
    end = np.concatenate([[0], np.cumsum((cells.rows * cells.each)[rule])])
    start = np.searchsorted(keys // len(rules.parent), np.arange(len(trees.lengths) + 1))
    place = end[:-1] - np.repeat(end[start[:-1]], np.diff(start))
    of_node = np.empty(len(members), np.int64)
    of_node[members] = np.repeat(place, np.diff(first))
    groups = Groups(start, 8 * end[start], rule, place, members, first, of_node)
    return Layout(rules, trees, cells, groups)


def grouped(keys: Any) -> tuple[Any, Any, Any]:
    """Equal keys together: an order, where groups begin and end in it (G + 1), and the key of each."""
    order = np.argsort(keys, kind="stable")
    unique, first = np.unique(keys[order], return_index=True)
    return order, np.append(first, len(order)), unique


def to_cells(layout: Layout, events: Any, padding: float) -> Any:
    """Numbers of all events, shape ``(R,)``, in cells."""
    out = np.full(8 * layout.cells.size, padding)
    _move(layout.cells, np.ascontiguousarray(events, np.float64), out, True)
    return out


def from_cells(layout: Layout, cells: Any) -> Any:
    """The reverse."""
    out = np.zeros(layout.rules.num_events)
    _move(layout.cells, out, cells, False)
    return out


def sums_in_cells(layout: Layout, cells: Any, padding: float) -> Any:
    """Sums over the multinomials of (A, a), shape ``(S * width * 8,)``."""
    subtypes, width = layout.rules.subtypes, 8 * layout.cells.width
    out = np.zeros((len(subtypes), width))
    _add_rows(layout.cells, cells, out)
    out[np.arange(width) >= subtypes[:, None]] = padding
    return out.reshape(-1)


def total(layout: Layout, tree_counts: Any) -> Any:
    """Counts of all trees, shape ``(R,)``."""
    out = np.zeros(8 * layout.cells.size)
    _add_trees(layout.cells, layout.groups, np.arange(len(layout.trees.lengths)), tree_counts, out)
    return from_cells(layout, out)


def of_trees(layout: Layout, tree_counts: Any, trees: Any) -> Any:
    """Counts of some trees, shape ``(len(trees), R)``."""
    out = np.zeros((len(trees), layout.rules.num_events))
    for k, b in enumerate(trees):
        cells = np.zeros(8 * layout.cells.size)
        _add_trees(layout.cells, layout.groups, np.array([b]), tree_counts, cells)
        out[k] = from_cells(layout, cells)
    return out


@njit(nogil=True)
def event_at(r, a, cells):
    """The first event of a rule for a, and its place in cells."""
    return cells.offset[r] + a * cells.stride[r], 8 * cells.start[r] + a * cells.step[r]


@njit(nogil=True)
def events_of(r, cells):
    """How many events a rule has for each a."""
    left, right, subtypes = cells.left, cells.right, cells.subtypes
    return (subtypes[left[r]] if left[r] >= 0 else 1) * (subtypes[right[r]] if right[r] >= 0 else 1)


@kernel
def _move(cells, events, out, forth):
    for r in range(len(cells.parent)):
        for a in range(cells.subtypes[cells.parent[r]]):
            e, y = event_at(r, a, cells)
            for x in range(events_of(r, cells)):
                if forth:
                    out[y + x] = events[e + x]
                else:
                    events[e + x] = out[y + x]


@kernel
def _add_rows(cells, numbers, out):
    for r in range(len(cells.parent)):
        for a in range(cells.subtypes[cells.parent[r]]):
            _, y = event_at(r, a, cells)
            for x in range(events_of(r, cells)):
                out[cells.parent[r], a] += numbers[y + x]


@kernel
def _add_trees(cells, groups, chosen, tree_counts, out):
    for b in chosen:
        for g in range(groups.start[b], groups.start[b + 1]):
            r = groups.rule[g]
            y, at = groups.begin[b] + 8 * groups.place[g], 8 * cells.start[r]
            for x in range(8 * cells.rows[r] * cells.each[r]):
                out[at + x] += tree_counts[y + x]
