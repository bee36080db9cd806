# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The recursion of latent annotations: sums over the subtypes of all nodes of observed trees.

A position is a node; children come before their parents, and the root is the last one: the order of
:class:`.AnnotationRules` from its end. The words at a node are its base rule, by kind: a row of the table of binary, of
unary or of lexical rules. Row 0 of each is none.

All parses of a sentence are a *forest*, in which a node has several *branches*: a rule with the nodes of its children.
Then a position is a branch, and what a node weighs is at the last one, which is linked to the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from pyrogram.blocks import PackedBlock
from pyrogram.event_map import NEVER, EventMap
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.rules.rewrites import with_bonus
from pyrogram.recursion.run.on_tensors import TensorProgram

from .annotations_rules import AnnotationRules, Forest

BLOCK = "rules"
KINDS = ("binary", "unary", "lexical")


@recursion
def subtypes(p: Any, forest: bool = False) -> None:
    """X[v, a] is the weight of all annotations of the tree below v, whose own subtype is a.

    :param forest: whether a node may be made in several ways, its branches: each has a position and a weight of its
        own, and the last position of a node is linked to the one before it.
    """
    v = p.positions("v")
    a, b, c = p.symbols("a b c", "K")
    r, u, x = p.words("r"), p.words("u"), p.words("x")
    l, m, o = p.links("l m o")  # the left, the right, and the only child
    X, Z = p.items("X", "K"), p.items("Z")
    binary, unary = p.weights("binary", "binary", "K", "K", "K"), p.weights("unary", "unary", "K", "K")
    lexical = p.weights("lexical", "lexical", "K")
    branch = p.weights("branch")[v] if forest else 1
    X[v, a] += branch * binary[r[v], a, b, c] * X[l[v], b] * X[m[v], c]
    X[v, a] += branch * unary[u[v], a, b] * X[o[v], b]
    X[v, a] += branch * lexical[x[v], a]
    if forest:
        X[v, a] += X[p.links("q")[v], a]
    Z[()] += X[p.n, 0]


@cache
def page(forest: bool) -> Recursion:
    """The recursion, see :func:`subtypes`."""
    return subtypes(forest)


@cache
def program(*, names: tuple[str, ...] = (), forest: bool = False) -> TensorProgram:
    """The code of all grammars.

    :param names: ``("X",)``, if items have a further factor, whose expected count is the posterior of a node's subtype.
    :param forest: see :func:`subtypes`.
    """
    return TensorProgram(with_bonus(page(forest), names) if names else page(forest))


@dataclass(frozen=True, eq=False)
class Annotations:
    """Base rules as tables of the page.

    :param rules: the base rules and their events.
    """

    rules: AnnotationRules

    @cached_property
    def kinds(self) -> Any:
        """Of each base rule: 0 binary, 1 unary, 2 lexical, shape ``(R0,)``."""
        return np.where(self.rules.left < 0, 2, np.where(self.rules.right < 0, 1, 0))

    @cached_property
    def row(self) -> Any:
        """The row of each base rule in the table of its kind, shape ``(R0,)``."""
        rows = np.zeros(len(self.kinds), np.int64)
        for kind in range(len(KINDS)):
            rows[self.kinds == kind] = np.arange(1, 1 + (self.kinds == kind).sum())
        return rows

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Numbers of symbols, by the names of sizes."""
        rows = {name: 1 + int((self.kinds == kind).sum()) for kind, name in enumerate(KINDS)}
        return {"K": self.rules.width, **rows}

    @cached_property
    def blocks(self) -> dict[str, PackedBlock]:
        """The only block."""
        return {BLOCK: PackedBlock(torch.Size([self.rules.num_events]), tuple(self.rules.sizes.tolist()))}

    @cached_property
    def events(self) -> EventMap:
        """Which events the elements of tables are."""
        rules, K = self.rules, self.rules.width
        tables = {}
        for kind, name in enumerate(KINDS):
            chosen = np.flatnonzero(self.kinds == kind)
            KA, KB, KC, offset, step = (
                x[chosen].reshape(-1, 1, 1, 1)
                for x in (
                    rules.subtypes[rules.parent],
                    rules.left_subtypes,
                    rules.right_subtypes,
                    rules.offset,
                    rules.stride[rules.parent],
                )
            )
            a, b, c = (x[None] for x in np.ogrid[:K, : K if kind < 2 else 1, : K if kind < 1 else 1])
            events = np.where((a < KA) & (b < KB) & (c < KC), offset + a * step + b * KC + c, NEVER)
            shape = [K] * (3 - kind)
            tables[name] = np.concatenate([np.full((1, *shape), NEVER), events.reshape(-1, *shape)])
        return EventMap(self.blocks, tables)

    def nodes(self, trees: Forest) -> tuple[Any, dict[str, Any]]:
        """The branches of the nodes of B trees as sentences: their numbers, ``(B,)``, and words and links ``(B, n)``.

        What is no tree is a node that no rule makes.
        """
        tree, place = positions(trees)
        n = np.maximum(np.bincount(tree, minlength=len(trees.lengths)), 1)
        words = {name: np.zeros((len(n), int(n.max(initial=1))), np.int64) for name in "rux"}
        words |= {name: np.full_like(words["r"], -1) for name in "lmoq"}
        kinds, rows = self.kinds[trees.rule], self.row[trees.rule]
        left, right = (np.where(x >= 0, 1 + place[trees.first[:-1][x]], -1) for x in (trees.left, trees.right))
        for kind, name in enumerate("rux"):
            words[name][tree, place] = np.where(kinds == kind, rows, 0)
        for name in "ru":  # where there are no children any row will do: one that the tree has
            words[name] = np.where(words[name] > 0, words[name], words[name].max(1, keepdims=True))
        for name, child, kind in (("l", left, 0), ("m", right, 0), ("o", left, 1)):
            words[name][tree, place] = np.where(kinds == kind, child, -1)
        others = np.delete(np.arange(len(tree)), trees.first[1:] - 1)  # all but the last branch of each node
        words["q"][tree[others], place[others]] = place[others]
        return n, words

    @cached_property
    def subtype(self) -> Any:
        """The subtype of the parent in each event, shape ``(R,)``."""
        subtypes = np.zeros(self.rules.num_events, np.int64)
        for table in self.events.tables.values():
            of_elements = np.broadcast_to(np.arange(table.shape[1]).reshape(-1, *[1] * (table.ndim - 2)), table.shape)
            subtypes[table[table >= 0]] = of_elements[table >= 0]
        return subtypes


def positions(trees: Forest) -> tuple[Any, Any]:
    """The tree of each branch, and its place in the order of the page, from 0 on; of a node the first one is last."""
    tree = np.repeat(np.arange(len(trees.lengths)), np.diff(trees.first[trees.start]))
    return tree, trees.first[trees.start[1:]][tree] - 1 - np.arange(len(tree))
