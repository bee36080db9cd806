# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules of a grammar with latent annotations, and the trees that lists of rules spell out.

A *base rule* is A -> B C, A -> B or A -> w; annotated, A[a] -> B[b] C[c], it is one event for each (a, b, c). A tree is
written as its base rules in leftmost order: a node comes before its children, and all of the left child's nodes before
the right child's.
"""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pyrogram.runtime.compiling import kernel


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

    @cached_property
    def stride(self) -> Any:
        """Events of one multinomial of each symbol, shape ``(S,)``."""
        return np.bincount(self.parent, self.cells, len(self.subtypes)).astype(np.int64)

    @cached_property
    def offset(self) -> Any:
        """Where the events of each rule for a = 0 begin, shape ``(R0,)``."""
        order = np.argsort(self.parent, kind="stable")
        parent, cells = self.parent[order], self.cells[order]
        before = np.cumsum(self.subtypes * self.stride) - (self.subtypes * self.stride) - np.cumsum(self.stride)
        offset = np.empty(len(order), np.int64)
        offset[order] = (before + self.stride)[parent] + np.cumsum(cells) - cells
        return offset

    @property
    def num_events(self) -> int:
        """R, the events of all rules."""
        return int(self.subtypes @ self.stride)

    @property
    def left_subtypes(self) -> Any:
        """K_B of each rule, 1 where there is no B."""
        return np.where(self.left >= 0, self.subtypes[self.left], 1)

    @property
    def right_subtypes(self) -> Any:
        """K_C of each rule, 1 where there is no C."""
        return np.where(self.right >= 0, self.subtypes[self.right], 1)

    @cached_property
    def cells(self) -> Any:
        """Events of each rule for one a, shape ``(R0,)``."""
        return self.left_subtypes * self.right_subtypes

    @property
    def width(self) -> int:
        """The most subtypes that a symbol has."""
        return int(self.subtypes.max())

    @property
    def sizes(self) -> Any:
        """Events of each multinomial (A, a), shape (number of pairs,)."""
        return np.repeat(self.stride, self.subtypes)[np.repeat(self.stride, self.subtypes) > 0]

    @cached_property
    def _rows(self) -> tuple[Any, Any]:
        """Where the events of each rule for one a begin, in their order, and the rule."""
        rule = np.repeat(np.arange(len(self.parent)), self.subtypes[self.parent])
        a = np.arange(len(rule)) - np.searchsorted(rule, rule)
        start = self.offset[rule] + a * self.stride[self.parent[rule]]
        order = np.argsort(start)
        return start[order], rule[order]

    def reduced(self, ufunc: Any, events: Any) -> Any:
        """The sum, say, of each rule's events, shape ``(*batch, R)`` to ``(*batch, R0)``."""
        start, rule = self._rows
        by_rule = np.argsort(rule, kind="stable")
        rows = ufunc.reduceat(events, start, -1)[..., by_rule]
        return ufunc.reduceat(rows, np.searchsorted(rule[by_rule], np.arange(len(self.parent))), -1)

    def spread(self, values: Any) -> Any:
        """A value of each rule for each of its events, shape ``(*batch, R0)`` to ``(*batch, R)``."""
        rule = self._rows[1]
        return np.repeat(values[..., rule], self.cells[rule], -1)

    def events(self, rule: Any) -> Any:
        """Positions of all events of one rule, shape ``(K_A, K_B, K_C)``."""
        A, below = self.parent[rule], (self.left_subtypes[rule], self.right_subtypes[rule])
        rows = self.offset[rule] + np.arange(self.subtypes[A]) * self.stride[A]
        return rows[:, None, None] + np.arange(self.cells[rule]).reshape(below)


class Forest(NamedTuple):
    """Nodes of many trees, or of all parses of sentences, one tree or sentence after the other, its root first.

    A node has *branches*: a rule with the nodes of its children. A tree's nodes are in leftmost order and have one
    each. Elsewhere parents are before their children, and branches with one rule side by side.
    """

    start: Any
    """Where each tree's nodes begin, shape ``(B + 1,)``. A row that is no tree has no nodes."""
    first: Any
    """Where each node's branches begin, shape ``(M + 1,)``."""
    rule: Any
    """The base rule of each branch, shape ``(X,)``."""
    left: Any
    """The left or only child, as an index of a node, or -1."""
    right: Any
    """The right child, or -1."""

    @property
    def lengths(self) -> Any:
        """Number of nodes of each tree, 0 for what is no tree."""
        return np.diff(self.start)

    @staticmethod
    def joined(parts: Sequence["Forest"]) -> "Forest":
        """Those of several, one after the other."""
        nodes = np.cumsum([0, *(int(x.start[-1]) for x in parts)])
        branches = np.cumsum([0, *(len(x.rule) for x in parts)])
        children = [
            np.concatenate([np.where(child >= 0, child + by, -1) for child, by in zip(x, nodes, strict=False)])
            for x in ([part.left for part in parts], [part.right for part in parts])
        ]
        starts, firsts = ([getattr(x, name) for x in parts] for name in ("start", "first"))
        return Forest(
            np.concatenate([[0], *(x[1:] + by for x, by in zip(starts, nodes, strict=False))]),
            np.concatenate([[0], *(x[1:] + by for x, by in zip(firsts, branches, strict=False))]),
            np.concatenate([x.rule for x in parts]),
            *children,
        )


def replace_subtypes(rules: AnnotationRules, subtypes: Any) -> AnnotationRules:
    """The same base rules with other numbers of subtypes."""
    return AnnotationRules(rules.parent, rules.left, rules.right, rules.word, subtypes, rules.start)


def link(rules: AnnotationRules, words: Any) -> Forest:
    """The trees of rows of base rules, shape ``(B, n)``, padded with -1 on the right.

    :raises ValueError: if something is not a rule or padding; a row of rules that is no tree is none.
    """
    words = np.ascontiguousarray(words, np.int64)
    real = words >= 0
    if words.size and (words.max() >= len(rules.parent) or words.min() < -1 or (real[:, 1:] & ~real[:, :-1]).any()):
        raise ValueError(f"trees must be base rules in 0..{len(rules.parent) - 1}, then padding of -1")
    start, rule, left, right = _link(words, rules.parent, rules.left, rules.right, rules.start)
    return Forest(start, np.arange(len(rule) + 1), rule, left, right)


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
