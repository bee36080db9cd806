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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.blocks import PackedBlock
from pyrogram.event_map import NEVER, EventMap
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.rewrites import bonus_name, with_bonus
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram

from .annotation_rules import AnnotationRules, Forest

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
def program(*, with_nodes: bool = False, forest: bool = False) -> TensorProgram:
    """The code of all grammars.

    :param with_nodes: whether items have a bonus, whose expected count is the posterior of a node's subtype.
    :param forest: see :func:`subtypes`.
    """
    page = subtypes(forest)
    return TensorProgram(with_bonus(page, ["X"]) if with_nodes else page)


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
        block = PackedBlock(torch.Size([rules.num_events]), tuple(rules.sizes.tolist()))
        return EventMap({BLOCK: block}, tables)

    @cached_property
    def _subtype(self) -> Any:
        """The subtype of the parent, for each element of all tables, and -1."""
        tables = self.events.tables.values()
        axes = [np.broadcast_to(np.arange(t.shape[1]).reshape(-1, *[1] * (t.ndim - 2)), t.shape) for t in tables]
        return np.concatenate([*(x.reshape(-1) for x in axes), [-1]])

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
        flat = np.concatenate([table.reshape(-1) for table in self.events.tables.values()])
        subtypes = np.zeros(self.rules.num_events, np.int64)
        subtypes[flat[flat >= 0]] = self._subtype[:-1][flat >= 0]
        return subtypes

    def of_rows(self, rows: Tensor) -> Tensor:
        """Subtypes of nodes in leftmost order, of derivations as elements of tables, both padded with -1."""
        return torch.from_numpy(self._subtype[rows.cpu().numpy()]).to(rows.device)


def positions(trees: Forest) -> tuple[Any, Any]:
    """The tree of each branch, and its place in the order of the page, from 0 on; of a node the first one is last."""
    tree = np.repeat(np.arange(len(trees.lengths)), np.diff(trees.first[trees.start]))
    return tree, trees.first[trees.start[1:]][tree] - 1 - np.arange(len(tree))


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of some trees under W grammars.

    :param annotations: the grammar.
    :param log_weights: shape ``(W, R)``, differentiable.
    :param sentences: the nodes of B trees, see :meth:`Annotations.nodes`.
    :param model: the grammar of each tree, int64, shape ``(B,)``.
    """

    annotations: Annotations
    log_weights: Tensor
    sentences: tuple[Any, Mapping[str, Any]]
    model: Any

    def _inputs(self, chosen: Any, grammar: int) -> TensorInputs:
        n, words = self.sentences
        device, some = self.log_weights.device, slice(None) if len(chosen) == len(n) else chosen
        tensors = {name: torch.from_numpy(rows[some]).to(device) for name, rows in words.items()}
        tables = self.annotations.events.gathered({BLOCK: self.log_weights[grammar : grammar + 1]})
        lengths = torch.from_numpy(n[some]).to(device)
        return TensorInputs(tables, lengths, tensors, self.annotations.sizes, {}, checked=True, doubles=True)

    def _by_grammar(self) -> list[tuple[Any, TensorInputs]]:
        """The trees of each grammar that has some; of no trees, those of the first grammar."""
        chosen = [np.flatnonzero(self.model == g) for g in range(len(self.log_weights))]
        is_empty = not len(self.model)
        return [(x, self._inputs(x, g)) for g, x in enumerate(chosen) if len(x) or (is_empty and g == 0)]

    def _joined(self, parts: list[tuple[Any, Tensor]], dim: int = 0) -> Tensor:
        """Results of some trees each, in the order of all."""
        order = torch.from_numpy(np.argsort(np.concatenate([trees for trees, _ in parts]), kind="stable"))
        joined = torch.cat([x for _, x in parts], dim)
        return joined if len(parts) == 1 else joined.index_select(dim, order.to(joined.device))

    def log_partition(self) -> Tensor:
        """log Z of each tree, shape ``(B,)``, in nats; -inf where there is no derivation. Differentiable."""
        return self._joined([(trees, program().log_partition(x)) for trees, x in self._by_grammar()])

    def expected_counts(self) -> tuple[Tensor, Tensor]:
        """log Z of each tree, and expected counts summed over the trees of each grammar, shape ``(W, R)``; no graph."""
        log_z, counts = [], torch.zeros_like(self.log_weights)
        for trees, inputs in self._by_grammar():
            z, tables = program().log_counts(inputs)
            log_z.append((trees, z))
            counts[self.model[trees[0]] if len(trees) else 0] = self.annotations.events.summed(tables, 1)[BLOCK][0]
        return self._joined(log_z), counts

    def tree_counts(self) -> tuple[Tensor, Tensor]:
        """log Z and expected counts of each tree, shapes ``(B,)`` and ``(B, R)``; no graph."""
        if not len(self.model):
            return self.log_partition().detach(), self.log_weights.new_zeros(0, self.log_weights.shape[-1])
        found = [(trees, program().log_counts(x, by_sentence=True)) for trees, x in self._by_grammar()]
        summed = self.annotations.events.summed
        counts = self._joined([(trees, summed(tables, len(trees))[BLOCK]) for trees, (_, tables) in found])
        log_z = self._joined([(trees, z) for trees, (z, _) in found])
        return log_z, counts.reshape(len(log_z), -1)

    def node_marginals(self) -> Tensor:
        """p(subtype of each node | tree), shape ``(B, n + 1, K)``, by position; no graph."""
        found, name = [], bonus_name("X")
        for trees, inputs in self._by_grammar():
            n, K = next(iter(inputs.words.values())).shape[1], self.annotations.rules.width
            bonus = self.log_weights.new_zeros(len(trees), n + 1, K)
            inputs = replace(inputs, weights={**inputs.weights, name: bonus})
            found.append((trees, program(with_nodes=True).log_counts(inputs)[1][name]))
        return self._joined(found)

    def sample(self, number: int) -> Tensor:
        """Subtypes of nodes in leftmost order, shape ``(number, B, n)``; -1 where a tree has no derivation."""
        found = []
        for trees, inputs in self._by_grammar():
            seed = int(torch.randint(2**62, ()))
            width, strides = inputs.words["r"].shape[1], self.annotations.events.strides
            found.append((trees, program().drawn(inputs, number, seed, strides, width)[1]))
        return self.annotations.of_rows(self._joined(found, 1))

    def best(self, k: int) -> tuple[Tensor, Tensor]:
        """Scores of the k best annotations, shape ``(k, B)``, and subtypes in leftmost order, ``(k, B, n)``."""
        found = []
        for trees, inputs in self._by_grammar():
            width, strides = inputs.words["r"].shape[1], self.annotations.events.strides
            found.append((trees, program().best(inputs, k, strides, width)))
        rows = self._joined([(trees, x) for trees, (_, x) in found], 1)
        return self._joined([(trees, x) for trees, (x, _) in found], 1), self.annotations.of_rows(rows)
