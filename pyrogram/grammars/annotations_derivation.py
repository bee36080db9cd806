# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The subtypes of the nodes of observed trees as a Pyro distribution."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from pyrogram.checks import broadcast_shapes
from pyrogram.distributions.charted import traceable
from pyrogram.distributions.row_derivation import RowDerivation
from pyrogram.operators import captured
from pyrogram.sentences import Known, Sentences, Structure
from pyrogram.sweeps.plain import check_trees, parts_of

from .annotations_page import positions

if TYPE_CHECKING:
    from .annotations import LatentAnnotations


class SubtypeDerivation(RowDerivation):
    """p(subtypes of all nodes | tree): what a grammar with latent annotations hides.

    A value is a tensor of subtypes, shape ``(L,)``, of the nodes in leftmost order, the order of the tree's base rules:

    1. a node of symbol A has one of 0 .. K_A - 1; the root has 0;
    2. the padding, after the last node, has -1.

    See :class:`.RowDerivation` for arguments; words are trees as rows of base rules, shape ``(*batch, L)``, padded with
    -1, and ``log_prob`` is conditional on the tree.

    Time O(K^3) a node. Weights that are one grammar for all trees cost no more memory than themselves, except in
    :meth:`expected_counts`, :meth:`counts` and :meth:`entropy`, which hold R numbers a tree: for whole corpora use the
    grammar's own ``expected_counts``.
    """

    grammar: LatentAnnotations

    @property
    def support(self) -> Subtypes:
        """Subtypes of the nodes of the trees."""
        return Subtypes(self._kinds())

    def _length(self, n: int) -> int:
        return n

    def _num_axes(self, name: str) -> int:
        raise ValueError(f"subtypes of nodes have no evidence, but some is given, on {name!r}; leave it out")

    def _is_alike(self, other: Any) -> bool:
        return bool(self.grammar.identity == other.grammar.identity)

    def _refusal(self, first: int, row: list[float], words: Tensor) -> str:
        return f"values must be subtypes of the nodes of the trees, and then -1, but value {first}, {row}, is not"

    # ------------------------------------------------------------------ the tree

    def _kinds(self) -> Tensor:
        """Number of subtypes of each node, shape ``words.shape``, -1 in the padding and where there is no tree."""
        rules, words = self.grammar.rules, self.words.long()
        trees = self.grammar.trees(words.reshape(-1, words.shape[-1]))
        is_tree = torch.from_numpy(trees.lengths > 0).to(words.device).reshape(*words.shape[:-1], 1)
        table = torch.from_numpy(rules.subtypes[rules.parent]).to(words.device)
        return torch.where((words >= 0) & is_tree, table[words.clamp_min(0)], -1)

    def _in_rows(self, nodes: Tensor, trees: Any, padding: float) -> Tensor:
        """Values of the nodes of B trees, shape ``(M, *rest)``, in place: ``(B, L, *rest)``."""
        rows = np.repeat(np.arange(len(trees.lengths)), trees.lengths)
        columns = np.arange(len(trees.rule)) - np.repeat(trees.start[:-1], trees.lengths)
        out: Tensor = nodes.new_full((len(trees.lengths), self.words.shape[-1], *nodes.shape[1:]), padding)
        out[torch.from_numpy(rows), torch.from_numpy(columns)] = nodes
        return out

    def events(self, value: Tensor) -> Tensor:
        """The event at each node of given subtypes, shape ``(*sample, *batch, L)``; -1 in the padding."""
        rules, words = self.grammar.rules, self.words.long()
        trees = self.grammar.trees(words.reshape(-1, words.shape[-1]))
        starts = np.repeat(trees.start[:-1], trees.lengths)
        shape = broadcast_shapes(value.shape, words.shape)
        value, children = value.long().expand(shape), []
        for child in (trees.left, trees.right):
            place = self._in_rows(torch.from_numpy(np.where(child >= 0, child - starts, -1)), trees, -1)
            place = place.reshape(words.shape).to(words.device)
            children.append(torch.where(place >= 0, value.gather(-1, place.clamp_min(0).expand(shape)), 0))
        offset, stride, width = (
            torch.from_numpy(t).to(words.device)[words.clamp_min(0)]
            for t in (rules.offset, rules.stride[rules.parent], rules.right_subtypes)
        )
        events = offset + value * stride + children[0] * width + children[1]
        return torch.where(self._kinds() > 0, events.clamp(0, rules.num_events - 1), -1)

    # ------------------------------------------------------------------ probabilities

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        (block,) = self.grammar.blocks
        return {block: self.events(value)}

    def _log_weight(self, value: Tensor) -> Tensor:
        return self._traced_scalar("_log_weight", value) if captured() else super()._log_weight(value)

    def marginals(self) -> Tensor:
        """p(node has subtype), shape ``(*batch_shape, L, K)``, K the most that a symbol has; 0 in the padding."""
        batch, L = self._own_batch, self.words.shape[-1]
        flat = self.grammar.expanded(self.log_weights, batch)
        shares = self.grammar.node_marginals(flat, self._sentences(batch))
        trees = self.grammar.trees(self.words.long().expand(*batch, L).reshape(-1, L))
        row, place = map(torch.from_numpy, positions(trees))
        shares = self._in_rows(shares[row, 1 + place], trees, 0.0)
        return shares.reshape(*batch, *shares.shape[1:]).expand(*self.batch_shape, *shares.shape[1:])

    # ------------------------------------------------------------------ values

    def _draw(self, batch: torch.Size, number: int) -> Tensor:
        return self._subtypes(super()._draw(batch, number))

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        scores, rows = super()._best(k)
        return scores, self._subtypes(rows)

    def _subtypes(self, rows: Tensor) -> Tensor:
        """Of the nodes in leftmost order, from rows of events."""
        subtypes = torch.from_numpy(self.grammar.annotations.subtype).to(rows.device)
        return torch.where(rows >= 0, subtypes[rows.clamp_min(0)], -1)

    def _listed(self, words: Tensor) -> Tensor:
        law = SubtypeDerivation(self.grammar, None, words, log_weights=self.log_weights, validate_args=False)
        kinds = law._kinds()[0]
        if not bool((kinds > 0).any()):  # no tree
            return kinds.new_zeros(0, 0)
        return torch.tensor(list(itertools.product(*(range(int(kind)) for kind in kinds[kinds > 0]))))

    @traceable
    def mbr(self) -> Tensor:
        """The most probable subtype of each node by itself, shape ``(*batch_shape, L)``; -1 in the padding."""
        possible = (self._kinds() > 0) & (self.log_partition != -torch.inf)[..., None]
        return torch.where(possible, self.marginals().argmax(-1), -1)

    def parts(self, value: Tensor) -> Tensor:
        """Which subtype each node has, as zeros and ones in the shape of :meth:`marginals`."""
        if self._validate_args:
            self._validate_sample(value)
        K = self.grammar.rules.width
        hot = torch.nn.functional.one_hot(value.long().clamp_min(0), K) * (value >= 0)[..., None]
        return hot.to(self._logs.dtype)


class SubtypeStructure(Structure):
    """Rows of subtypes, of which there is no evidence."""

    derivation = "subtypes"

    def __init__(self, grammar: LatentAnnotations) -> None:
        self.grammar = grammar

    def kinds(self, known: Known) -> Mapping[str, int]:
        return {}

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(tables)

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        """There is nothing to check."""

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        return {}

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        fits = self._law(sentences.words).support.check(derivations)
        return torch.where(fits, 0.0, -torch.inf).double()

    def num_events(self, n: int) -> int:
        return n

    def _law(self, words: Tensor) -> SubtypeDerivation:
        zeros = torch.zeros(self.grammar.rules.num_events, dtype=torch.float64)
        return SubtypeDerivation(self.grammar, None, words, log_weights={"rules": zeros}, validate_args=False)

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        check_trees(derivations, words.shape)
        if not bool(self._law(words).support.check(derivations).all()):
            raise ValueError("trees must be subtypes of the nodes of the trees, and then -1, but some are not")

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        return self._law(words).events(derivations)

    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        subtypes = np.where(events < 0, -1, self.grammar.annotations.subtype[events])
        derivations.numpy()[accepted] = subtypes[accepted, : derivations.shape[1]]

    def add_parts(self, total: Tensor | None, words: Tensor, derivations: Tensor) -> Tensor:
        counts = parts_of(self.grammar, words, derivations).to(torch.float32)
        return counts if total is None else total.add_(counts)


class Subtypes(constraints.Constraint):
    """Integers below the number of subtypes of each node, and -1 in the padding."""

    is_discrete = True
    event_dim = 1

    def __init__(self, kinds: Tensor):
        self.kinds = kinds
        super().__init__()

    def __repr__(self) -> str:
        return "Subtypes"

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-1] != self.kinds.shape[-1]:
            return torch.zeros(broadcast_shapes(value.shape[:-1], self.kinds.shape[:-1]), dtype=torch.bool)
        integral = value == value.long()
        fits = torch.where(self.kinds > 0, (value >= 0) & (value < self.kinds), value == -1)
        return (integral & fits).all(-1)
