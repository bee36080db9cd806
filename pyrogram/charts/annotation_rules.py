# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules of a grammar with latent annotations, and the trees that lists of rules spell out.

A *base rule* is A -> B C, A -> B or A -> w; annotated, A[a] -> B[b] C[c], it is one event for each (a, b, c). A tree is
written as its base rules in leftmost order: a node comes before its children, and all of the left child's nodes before
the right child's.
"""

# mypy: disable-error-code="no-untyped-def"
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import kernel


@dataclass(frozen=True, eq=False)
class AnnotationRules:
    """Base rules as arrays, and where the events of each are in a packed block.

    A multinomial is a pair (A, a); its events are those of A's base rules, one after the other, each with b major and
    c minor. So event (r, a, b, c) is at ``offset[r] + a * stride[A] + b * subtypes[C] + c``.

    :param parent: the symbol A of each rule, shape ``(R0,)``.
    :param left: B, or -1 if the rule emits a word.
    :param right: C, or -1 if there is none.
    :param word: w, or -1.
    :param subtypes: number of subtypes of each symbol, shape ``(S,)``; 1 for the start symbol.
    :param start: the symbol of every root.
    """

    parent: Any
    left: Any
    right: Any
    word: Any
    subtypes: Any
    start: int

    def __post_init__(self) -> None:
        if self.subtypes[self.start] != 1:
            raise ValueError(f"the start symbol must have one subtype, not {self.subtypes[self.start]}")
        cells = self.left_subtypes * self.right_subtypes  # events of a rule for each a
        stride = np.zeros(len(self.subtypes), np.int64)
        np.add.at(stride, self.parent, cells)
        first = np.concatenate([[0], np.cumsum(self.subtypes * stride)])
        order = np.argsort(self.parent, kind="stable")
        before = np.cumsum(cells[order]) - cells[order]
        of_symbol = np.cumsum(stride) - stride
        offset = np.empty(len(self.parent), np.int64)
        offset[order] = first[self.parent[order]] + before - of_symbol[self.parent[order]]
        object.__setattr__(self, "stride", stride)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "num_events", int(first[-1]))

    stride: Any = None
    """Events of one multinomial of each symbol, shape ``(S,)``."""
    offset: Any = None
    """Where the events of each rule for a = 0 begin, shape ``(R0,)``."""
    num_events: int = 0

    @property
    def left_subtypes(self) -> Any:
        """K_B of each rule, 1 where there is no B."""
        return np.where(self.left >= 0, self.subtypes[self.left], 1)

    @property
    def right_subtypes(self) -> Any:
        """K_C of each rule, 1 where there is no C."""
        return np.where(self.right >= 0, self.subtypes[self.right], 1)

    @property
    def width(self) -> int:
        """The most subtypes that a symbol has."""
        return int(self.subtypes.max())

    @property
    def sizes(self) -> Any:
        """Events of each multinomial (A, a), shape (number of pairs,)."""
        return np.repeat(self.stride, self.subtypes)[np.repeat(self.stride, self.subtypes) > 0]

    @property
    def tables(self) -> "Tables":
        """What compiled code is given."""
        return Tables(self.parent, self.left, self.right, self.offset, self.stride, self.subtypes)

    def events(self, rule: Any) -> Any:
        """Positions of all events of one rule, shape ``(K_A, K_B, K_C)``."""
        a, b, c = (
            int(self.subtypes[self.parent[rule]]),
            int(self.left_subtypes[rule]),
            int(self.right_subtypes[rule]),
        )
        grid = np.arange(a)[:, None, None] * int(self.stride[self.parent[rule]]) + np.arange(b * c).reshape(b, c)
        return int(self.offset[rule]) + grid


class Tables(NamedTuple):
    """:class:`AnnotationRules` for compiled code."""

    parent: Any
    left: Any
    right: Any
    offset: Any
    stride: Any
    subtypes: Any


class LinkedTrees(NamedTuple):
    """The nodes of many trees, one after the other, each tree in leftmost order."""

    start: Any
    """Where each tree's nodes begin, shape ``(B + 1,)``. A row that is no tree has no nodes."""
    rule: Any
    """The base rule at each node, shape ``(M,)``."""
    left: Any
    """The node's left or only child, as an index of a node, or -1."""
    right: Any
    """Its right child, or -1."""

    @property
    def lengths(self) -> Any:
        """Number of nodes of each tree, 0 for what is no tree."""
        return np.diff(self.start)

    def heights(self) -> Any:
        """0 for a node without children, else one more than the highest child's, shape ``(M,)``."""
        return _heights(self.left, self.right)


def replace_subtypes(rules: AnnotationRules, subtypes: Any) -> AnnotationRules:
    """The same base rules with other numbers of subtypes."""
    return AnnotationRules(rules.parent, rules.left, rules.right, rules.word, subtypes, rules.start)


def link(rules: AnnotationRules, words: Any) -> LinkedTrees:
    """The trees of rows of base rules, shape ``(B, n)``, padded with -1 on the right.

    :raises ValueError: if something is not a rule or padding; a row of rules that is no tree is none.
    """
    words = np.ascontiguousarray(words, np.int64)
    real = words >= 0
    if words.size and (words.max() >= len(rules.parent) or words.min() < -1 or (real[:, 1:] & ~real[:, :-1]).any()):
        raise ValueError(f"trees must be base rules in 0..{len(rules.parent) - 1}, then padding of -1")
    return LinkedTrees(*_link(words, rules.parent, rules.left, rules.right, rules.start))


@kernel
def _link(words, parent, left, right, start):
    B, n = words.shape
    starts = np.zeros(B + 1, np.int64)
    rule = np.empty(words.size, np.int64)
    children = np.full((2, words.size), -1, np.int64)
    wanted = np.empty(n + 2, np.int64)  # symbols that are still to be spelt out, the next one on top
    asked = np.empty((n + 2, 2), np.int64)  # by which node, as which child
    for b in range(B):
        base = starts[b]
        top, i, good = 1, 0, True
        wanted[0], asked[0, 0], asked[0, 1] = start, -1, 0
        while i < n and words[b, i] >= 0:
            r = words[b, i]
            if top == 0 or parent[r] != wanted[top - 1]:
                good = False
                break
            top -= 1
            v = base + i
            rule[v] = r
            children[0, v], children[1, v] = -1, -1
            if asked[top, 0] >= 0:
                children[asked[top, 1], asked[top, 0]] = v
            if right[r] >= 0:
                wanted[top], asked[top, 0], asked[top, 1] = right[r], v, 1
                top += 1
            if left[r] >= 0:
                wanted[top], asked[top, 0], asked[top, 1] = left[r], v, 0
                top += 1
            i += 1
        starts[b + 1] = base + i if good and top == 0 else base
    M = starts[B]
    return starts, rule[:M].copy(), children[0, :M].copy(), children[1, :M].copy()


@kernel
def _heights(left, right):
    height = np.zeros(len(left), np.int64)
    for v in range(len(left) - 1, -1, -1):
        if left[v] >= 0:
            height[v] = height[left[v]] + 1
        if right[v] >= 0:
            height[v] = max(height[v], height[right[v]] + 1)
    return height
