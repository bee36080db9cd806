# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The subtypes of the nodes of observed trees as a Pyro distribution."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.kl import register_kl

from pyrogram.charts import annotation as chart
from pyrogram.charts.checks import broadcast_shapes, check_shape, check_size, checked_words
from pyrogram.distributions.charted import ChartDistribution, Recipe, conditional, differ, traceable
from pyrogram.distributions.constraints import Scores
from pyrogram.operators import captured, object_of
from pyrogram.printable import plural

if TYPE_CHECKING:
    from .annotations import LatentAnnotations

MOST_ENUMERATED = 100_000


class SubtypeDerivation(ChartDistribution):
    """p(subtypes of all nodes | tree): what a grammar with latent annotations hides.

    A value is a tensor of subtypes, shape ``(L,)``, of the nodes in leftmost order, the order of the tree's base rules:

    1. a node of symbol A has one of 0 .. K_A - 1; the root has 0;
    2. the padding, after the last node, has -1.

    ``log_prob`` is conditional on the tree, log p(subtypes | tree, w), in nats, never above 0.

    Time O(K^3) a node. Weights that are one grammar for all trees cost no more memory than themselves, except in
    :meth:`expected_counts`, :meth:`counts` and :meth:`entropy`, which hold R numbers a tree: for whole corpora use the
    grammar's own ``expected_counts``.

    :param grammar: the grammar with latent annotations.
    :param log_weights: shape ``(*batch, R)``.
    :param words: trees as rows of base rules, shape ``(*batch, L)``, padded with -1.
    """

    arg_constraints: dict[str, Any] = {}
    has_enumerate_support = True

    def __init__(
        self, grammar: LatentAnnotations, log_weights: Tensor, words: Tensor, validate_args: bool | None = None
    ):
        words = checked_words(words, grammar.num_words)
        self.grammar, self.log_weights, self.words = grammar, log_weights, words
        validate = self._validate_args if validate_args is None else validate_args
        if validate:
            if not Scores().holds(log_weights):
                raise ValueError("log_weights must be real numbers or -inf, but some are NaN or +inf")
        self._cache: dict[str, Any] = {}
        batch = broadcast_shapes(words.shape[:-1], log_weights.shape[:-1])
        super().__init__(batch, words.shape[-1:], validate_args=validate_args)

    @property
    def support(self) -> Subtypes:
        """Subtypes of the nodes of the trees."""
        return Subtypes(self._kinds())

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return self.log_weights, self.words

    # ------------------------------------------------------------------ the tree

    def _kinds(self) -> Tensor:
        """Number of subtypes of each node, shape ``words.shape``, -1 in the padding and where there is no tree."""
        rules, words = self.grammar.rules, self.words.long()
        table = torch.from_numpy(rules.subtypes[rules.parent]).to(words.device)
        return torch.where((words >= 0) & self._is_tree()[..., None], table[words.clamp_min(0)], -1)

    def _is_tree(self) -> Tensor:
        trees = self.grammar.trees(self.words.long().reshape(-1, self.words.shape[-1]))
        good = torch.from_numpy(trees.lengths > 0).to(self.words.device)
        return good.reshape(self.words.shape[:-1])

    def _linked(self, batch: torch.Size) -> tuple[Tensor, Any, Any]:
        """Grammars (W, R), linked trees and the grammar of each, for all of a batch."""
        words = self.words.long().expand(*batch, self.words.shape[-1]).reshape(-1, self.words.shape[-1])
        own_shape = self.log_weights.shape[:-1]
        numbers = torch.arange(own_shape.numel()).reshape(own_shape).expand(batch).reshape(-1)
        weights = self.log_weights.reshape(-1, self.log_weights.shape[-1])
        return weights, self.grammar.trees(words), np.ascontiguousarray(numbers.numpy())

    @property
    def _own_batch(self) -> torch.Size:
        """The batch shape before :meth:`expand`."""
        return broadcast_shapes(self.words.shape[:-1], self.log_weights.shape[:-1])

    def _unflatten(self, nodes: Any, trees: Any, batch: torch.Size, fill: float) -> Tensor:
        """Values of nodes (..., M, *rest) in place: (..., *batch, L, *rest); ``nodes`` has its M first."""
        L = self.event_shape[0]
        rows = np.repeat(np.arange(len(trees.lengths)), trees.lengths)
        columns = np.arange(len(trees.rule)) - np.repeat(trees.start[:-1], trees.lengths)
        out: Tensor = nodes.new_full((len(trees.lengths), L, *nodes.shape[1:]), fill)
        out[torch.from_numpy(rows), torch.from_numpy(columns)] = nodes
        return out.reshape(*batch, *out.shape[1:])

    def _events(self, value: Tensor) -> Tensor:
        """The event at each node, shape ``(*sample, *batch, L)``; 0 in the padding."""
        rules, words = self.grammar.rules, self.words.long()
        trees = self.grammar.trees(words.reshape(-1, words.shape[-1]))
        starts = torch.from_numpy(np.repeat(trees.start[:-1], trees.lengths))
        children = []
        for child in (trees.left, trees.right):
            place = torch.from_numpy(child) - starts
            place = torch.where(torch.from_numpy(child) >= 0, place, -1)
            children.append(self._unflatten(place, trees, words.shape[:-1], -1).to(words.device))
        value = value.long()
        shape = broadcast_shapes(value.shape, words.shape)
        value = value.expand(shape)
        b, c = (torch.where(p >= 0, value.gather(-1, p.clamp_min(0).expand(shape)), 0) for p in children)
        rule = words.clamp_min(0)
        offset, stride, width = (
            torch.from_numpy(t).to(words.device)[rule]
            for t in (rules.offset, rules.stride[rules.parent], rules.right_subtypes)
        )
        events = offset + value * stride + b * width + c
        return torch.where((words >= 0) & self._is_tree()[..., None], events, 0).clamp(0, rules.num_events - 1)

    # ------------------------------------------------------------------ probabilities

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        recipe = _derivation, (self.grammar.handle(), self._validate_args), (("log_weights", 1), ("words", 1))
        return recipe, [self.log_weights, self.words]

    def _log_partition(self) -> Tensor:
        """log p(tree | w) summed over subtypes, in nats; -inf for what is no tree."""
        batch = self._own_batch
        if self.log_weights.dim() == 1:
            weights, trees, model = self._linked(self.words.shape[:-1])
        else:
            weights, trees, model = self._linked(batch)
        return chart.log_partition(weights, self.grammar.rules, trees, model).reshape(batch)

    def _score(self, value: Tensor) -> Tensor:
        if captured():
            return self._traced_scalar("_score", value)
        events = self._events(value)
        if self.log_weights.dim() == 1:
            terms = self.log_weights[events]
        else:
            shape = broadcast_shapes(events.shape[:-1], self.log_weights.shape[:-1])
            weights = self.log_weights.expand(*shape, self.log_weights.shape[-1])
            terms = weights.gather(-1, events.expand(*shape, events.shape[-1]))
        return torch.where(self._kinds() > 0, terms, torch.zeros_like(terms)).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(subtypes | tree), in nats.

        :param value: shape ``(*sample, *batch, L)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        log_z = self.log_partition
        score = self._score(value)
        return conditional(score, log_z)

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """How often each event occurs with given subtypes, shape ``(*value.shape[:-1], R)``."""
        if self._validate_args:
            self._validate_sample(value)
        events = self._events(value)
        real = (self._kinds() > 0).expand(events.shape).to(self.log_weights.dtype)
        empty = torch.zeros(
            *events.shape[:-1], self.grammar.rules.num_events, dtype=real.dtype, device=self.log_weights.device
        )
        return {"rules": empty.scatter_add_(-1, events, real)}

    def expected_counts(self) -> dict[str, Tensor]:
        """E[f | tree, w] of every event, shape ``(*batch_shape, R)``."""
        batch = self._own_batch
        weights, trees, _ = self._linked(batch)
        B = batch.numel()
        each = self.log_weights.expand(*batch, weights.shape[-1]).reshape(B, -1)
        counts = chart.expected_counts(each, self.grammar.rules, trees, np.arange(B))[1].reshape(*batch, -1)
        return {"rules": counts.expand(*self.batch_shape, -1)}

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``."""
        log_z, expected = self._expected_score(self.log_weights)
        return (log_z - expected).expand(self.batch_shape)

    def _expected_score(self, of: Tensor) -> tuple[Tensor, Tensor]:
        """log Z, and the mean of the score under other log weights, as a function of these."""
        if captured():
            return self._traced_log_partition(), self._traced_scalar("_mean_score", of)
        batch = broadcast_shapes(self._own_batch, of.shape[:-1])
        R, rules = of.shape[-1], self.grammar.rules
        each = self.log_weights.expand(*batch, R).reshape(-1, R)
        _, trees, _ = self._linked(batch)
        model = np.arange(len(each))
        if torch.is_grad_enabled() and each.requires_grad:
            log_z = chart.log_partition(each, rules, trees, model)
            (counts,) = torch.autograd.grad(log_z.sum(), each, create_graph=True)
        else:
            log_z, counts = chart.expected_counts(each, rules, trees, model)
        other = of.expand(*batch, R).reshape(-1, R)
        terms = torch.where(counts > 0, counts * torch.where(counts > 0, other, 0.0), 0.0)
        return log_z.reshape(batch), terms.sum(-1).reshape(batch)

    def _mean_score(self, of: Tensor) -> Tensor:
        return self._expected_score(of)[1]

    def marginals(self) -> Tensor:
        """p(node has subtype), shape ``(*batch_shape, L, K)``, K the most that a symbol has; 0 in the padding."""
        batch = self._own_batch
        weights, trees, model = self._linked(batch)
        nodes = chart.node_marginals(weights, self.grammar.rules, trees, model)[1]
        shares = self._unflatten(nodes, trees, batch, 0.0)
        return shares.expand(*self.batch_shape, *shares.shape[-2:])

    @traceable
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent draws, exact, shape ``(*sample_shape, *batch_shape, L)``; -1 for what has no derivation."""
        sample_shape = check_shape("sample_shape", sample_shape)
        weights, trees, model = self._linked(self.batch_shape)
        nodes = chart.sample(weights, self.grammar.rules, trees, model, sample_shape.numel())
        subtypes = self._unflatten(nodes.T, trees, self.batch_shape, -1).movedim(-1, 0)
        return subtypes.reshape(*sample_shape, *self.batch_shape, self.event_shape[0])

    # ------------------------------------------------------------------ decoding

    @traceable
    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable annotations, best first, ``(k, *batch_shape, L)``, and log probabilities.

        Where there are fewer, subtypes are -1 and log probabilities -inf.
        """
        k = check_size("k", k)
        batch = self._own_batch
        weights, trees, model = self._linked(batch)
        nodes, scores = chart.top_k(weights, self.grammar.rules, trees, model, k)
        subtypes = self._unflatten(nodes.T.contiguous(), trees, batch, -1).movedim(-1, 0)
        log_z = self.log_partition.detach()
        # Ranks come first, and a batch that was expanded has more dimensions than what was computed.
        scores = torch.stack([row.reshape(batch).expand(self.batch_shape) for row in scores])
        subtypes = torch.stack([row.expand(*self.batch_shape, -1) for row in subtypes])
        return subtypes, torch.where(scores == -torch.inf, scores, scores - log_z)

    @traceable
    def argmax(self) -> Tensor:
        """The most probable subtypes of all nodes together (Viterbi), shape ``(*batch_shape, L)``."""
        return self.top_k(1)[0][0]

    @property
    def mode(self) -> Tensor:
        """The most probable subtypes of all nodes together."""
        return self.argmax()

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
        return hot.to(self.log_weights.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All annotations, shape ``(T, *batch_shape, L)``, or ``(T, 1, .., 1, L)`` if not ``expand``.

        :raises NotImplementedError: for more than 100,000 of them, or if the trees of a batch differ in shape.
        """
        kinds = self._kinds().reshape(-1, self.event_shape[0])
        if not bool((kinds == kinds[:1]).all()) or not len(kinds) or bool((kinds[0] < 1).any()):
            raise NotImplementedError("trees of different shapes have no common support to enumerate")
        T = int(kinds[0].double().prod())
        if T > MOST_ENUMERATED:
            raise NotImplementedError(
                f"there are {plural(T, 'annotation')} to enumerate; the limit is {MOST_ENUMERATED}"
            )
        rows = torch.tensor(list(itertools.product(*(range(int(k)) for k in kinds[0]))), device=self.words.device)
        rows = rows.reshape(T, *(1 for _ in self.batch_shape), -1)
        return rows.expand(T, *self.batch_shape, -1).clone() if expand else rows


def _derivation(handle: int, validate: bool) -> Callable[..., SubtypeDerivation]:
    """From log weights and words to the distribution, for a grammar of that number."""
    return lambda log_weights, words: SubtypeDerivation(object_of(handle), log_weights, words, validate)


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
        integral = value == value.long()
        fits = torch.where(self.kinds > 0, (value >= 0) & (value < self.kinds), value == -1)
        return (integral & fits).all(-1)


@register_kl(SubtypeDerivation, SubtypeDerivation)
def _kl(p: SubtypeDerivation, q: SubtypeDerivation) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q."""
    if p.event_shape != q.event_shape or differ(p.words, q.words):
        raise NotImplementedError("p and q are about different trees, so there is no divergence")
    batch = broadcast_shapes(p.batch_shape, q.batch_shape)
    log_z, score = p._expected_score(p.log_weights)
    _, other = p._expected_score(q.log_weights)
    return (score - log_z - other + q.log_partition).expand(batch)
