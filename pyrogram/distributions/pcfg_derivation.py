# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Leftmost derivations of a context-free grammar as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts import cfg as chart
from pyrogram.charts.cfg_batch import Batch
from pyrogram.charts.cfg_rules import Matches, RuleTable
from pyrogram.charts.checks import broadcast_shapes, checked_words
from pyrogram.charts.leftmost import FlatRules
from pyrogram.charts.leftmost_spans import add_spans, has_spans
from pyrogram.grammar import PackedBlock, Weights
from pyrogram.operators import captured, object_of

from .charted import Recipe, Summed, conditional, differ, expected_score, traceable
from .constraints import LeftmostDerivations, Scores
from .row_derivation import RowDerivation
from .sentence import safe_log


class Rules(Protocol):
    """What a derivation needs of a grammar; :class:`pyrogram.CFG` has it."""

    nonterminals: tuple[str, ...]
    words: tuple[str, ...]
    table: RuleTable

    @property
    def flat(self) -> FlatRules: ...
    @property
    def num_words(self) -> int: ...
    @property
    def blocks(self) -> Mapping[str, PackedBlock]: ...
    def matches(self, words: Tensor, batch: torch.Size | None = None) -> Matches: ...
    def longest(self, n: int) -> int: ...
    def handle(self) -> int: ...


class PCFGDerivation(RowDerivation):
    r"""p(y | x, w), the leftmost derivations y of given words x.

    A value is a tensor of rules, shape ``(L,)``: indices in 0 .. R - 1 in the order in which they rewrite the
    leftmost nonterminal, from the start symbol on, until the words are there; padded with -1 on the right. L is the
    length that no derivation of n words exceeds, 2n - 1 for a grammar in Chomsky normal form.

    ``log_prob`` is conditional on the words, log p(y | x, w), in nats, never above 0; the joint is
    ``log_prob + log_partition``. Weights need not be normalised.

    Time O(n^3) times the number of binary rules, memory O(n^2) times the number of symbols, a sentence.

    :param cfg: the grammar.
    :param weights: non-negative, ``{"rules": (*batch, R)}``; batch dimensions give one grammar per sentence.
    :param words: shape ``(*batch, n)``, padded with -1.
    :param log_weights: their logarithms, in place of ``weights``.
    :param forbidden: shape ``(*batch, n+1, n+1)``, bool: true at [i, k] where no nonterminal may span words i .. k - 1,
        by evidence; None: nothing is forbidden.
    :raises ValueError: if shapes do not fit or, with validation, if a weight is negative, NaN or infinite.
    """

    def __init__(
        self,
        cfg: Rules,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        forbidden: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if (weights is None) == (log_weights is None):
            raise ValueError("give either weights or log_weights")
        (name,) = cfg.blocks
        table = (weights if weights is not None else log_weights or {}).get(name)
        R = cfg.table.num_events
        if table is None or table.shape[-1:] != (R,):
            raise ValueError(
                f"weights must have {name!r} of shape (..., {R}), not {None if table is None else tuple(table.shape)}"
            )
        words = checked_words(words, cfg.num_words)
        self.grammar, self.words, self.forbidden = cfg, words, forbidden
        self.weights = None if weights is None else table
        self._log_weights = None if weights is not None else table
        forbidden_batch = () if forbidden is None else forbidden.shape[:-2]
        self._own_batch = broadcast_shapes(table.shape[:-1], words.shape[:-1], forbidden_batch)
        self._cache: dict[str, Any] = {}
        L = cfg.longest(words.shape[-1])
        super().__init__(self._own_batch, torch.Size([L]), validate_args=validate_args)
        if self._validate_args and not captured():
            logs = self.log_weights.detach()
            if not bool(Scores().check(logs).all()) or (weights is not None and not bool((table >= 0).all())):
                raise ValueError("weights must be non-negative and finite, but some are not")

    @property
    def log_weights(self) -> Tensor:
        """Log weights of the rules, shape ``(*batch, R)``; the gradient of a weight of zero is zero."""
        if self._log_weights is not None:
            return self._log_weights
        assert self.weights is not None
        return safe_log(self.weights)

    @property
    def support(self) -> LeftmostDerivations:
        """Leftmost derivations of the words."""
        return LeftmostDerivations(self.grammar.flat, self.words)

    # ------------------------------------------------------------------ charts

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return self.weights, self._log_weights, self.words, self.forbidden

    def _flat(self, batch: torch.Size | None = None) -> tuple[Tensor, RuleTable, Matches]:
        """What charts take: log weights, (R,) or (B, R), rules, and matches of B sentences."""
        batch = self._own_batch if batch is None else batch
        w = self.log_weights
        if w.dim() > 1:
            w = w.expand(*batch, w.shape[-1]).reshape(-1, w.shape[-1])
        matches = self.grammar.matches(self.words, batch)
        if self.forbidden is not None:
            shape = self.forbidden.shape[-2:]
            forbidden = self.forbidden.expand(*batch, *shape).reshape(-1, *shape)
            matches = replace(matches, forbidden=forbidden.cpu().numpy())
        return w, self.grammar.table, matches

    def _summed(self) -> Summed:
        w, rules, matches = self._flat()
        batch = Batch(rules, matches)
        rows = self.words.expand(*self._own_batch, self.words.shape[-1]).reshape(len(matches), -1).tolist()
        texts = {}
        for b, (i, k, symbol, _) in zip(matches.sentence, matches.table, strict=True):
            texts[int(symbol)] = repr(" ".join(self.grammar.words[x] for x in rows[b][i:k]))
        inputs = batch.inputs(w.reshape(-1, w.shape[-1]))
        return Summed(batch.program.recursion, inputs, self._own_batch, batch.names(self.grammar.nonterminals, texts))

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        tensors = {"log_weights": self.log_weights, "words": self.words}
        tensors |= {} if self.forbidden is None else {"forbidden": self.forbidden}
        dims = {"log_weights": 1, "words": 1, "forbidden": 2}
        recipe = _derivation, (self.grammar.handle(), self._validate_args), tuple((n, dims[n]) for n in tensors)
        return recipe, list(tensors.values())

    def _posterior(self) -> tuple[Tensor, Tensor]:
        """log Z and expected counts ``(*own batch, R)``, with a graph where gradients are wanted."""
        if captured():
            log_z, by_name = self._traced_gradient()
            return log_z, by_name["log_weights"]

        def compute() -> tuple[Tensor, Tensor]:
            w, rules, matches = self._flat()
            if torch.is_grad_enabled() and w.requires_grad:
                wide = w.expand(len(matches), w.shape[-1])
                log_z = chart.log_partition(wide, rules, matches)
                (counts,) = torch.autograd.grad(log_z.sum(), wide, create_graph=True)
            else:
                log_z, counts = chart.posterior_counts(w, rules, matches)
            return log_z.reshape(self._own_batch), counts.reshape(*self._own_batch, counts.shape[-1])

        posterior: tuple[Tensor, Tensor] = self._kept("posterior", compute)
        return posterior

    def _log_partition(self) -> Tensor:
        return chart.log_partition(*self._flat()).reshape(self._own_batch)

    # ------------------------------------------------------------------ probabilities

    def _validate_sample(self, value: Tensor) -> None:
        if captured():
            return
        valid = self.support.check(value)
        if not bool(valid.all()):
            first = int((~valid).flatten().nonzero()[0])
            row = value.expand(*valid.shape, value.shape[-1]).reshape(-1, value.shape[-1])[first].tolist()
            raise ValueError(f"values must be leftmost derivations of the words, but value {first}, {row}, is not")

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(y | x, w), in nats.

        :param value: shape ``(*sample, *batch, L)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        score, log_z = self._score_of(value), self.log_partition
        if self.forbidden is not None:
            score = score.masked_fill(self._is_forbidden(value), -torch.inf)
        return conditional(score, log_z)

    def _is_forbidden(self, value: Tensor) -> Tensor:
        """Whether derivations have a nonterminal over a forbidden span; of what is no derivation, no."""
        assert self.forbidden is not None
        batch = broadcast_shapes(value.shape[:-1], self.forbidden.shape[:-2], self.words.shape[:-1])
        N, fits = self.forbidden.shape[-1], self.support.check(value).expand(batch).reshape(-1).cpu()
        ids = value.long().expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1]).cpu()[fits]
        spans = self.forbidden.expand(*batch, N, N).reshape(-1, N, N).cpu()[fits]
        forbidden = torch.zeros(len(fits), dtype=torch.bool)
        forbidden[fits] = has_spans(ids, spans, self.grammar.flat, len(self.grammar.nonterminals))
        return forbidden.reshape(batch).to(value.device)

    def _draw(self, batch: torch.Size, number: int) -> Tensor:
        return chart.sample(*self._flat(batch), num_samples=number)

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        rows, scores = chart.top_k(*self._flat(), k=k)
        return scores, rows

    def _listed(self, words: Tensor) -> Tensor:
        listed = chart.derivations(self.grammar.table, self.grammar.matches(words))
        return torch.as_tensor(np.asarray(listed), dtype=torch.long)

    def marginals(self) -> Tensor:
        """p(nonterminal A spans words i .. k - 1), shape ``(*batch_shape, n+1, n+1, K)`` [i, k, A]."""
        K, n = len(self.grammar.nonterminals), self.words.shape[-1]

        def compute() -> Tensor:
            spans = chart.span_marginals(*self._flat(), num_symbols=K)
            missing = n + 1 - spans.shape[1]
            spans = torch.nn.functional.pad(spans, (0, 0, 0, missing, 0, missing))
            return spans.reshape(*self._own_batch, n + 1, n + 1, K)

        spans: Tensor = self._kept("spans", compute)
        return spans.expand(*self.batch_shape, n + 1, n + 1, K).clone()

    def parts(self, value: Tensor) -> Tensor:
        """The labelled spans of given derivations, how often each occurs, in the shape of :meth:`marginals`."""
        self._validate_sample(value)  # compiled code takes them for derivations
        batch = value.shape[:-1]
        N, S = self.words.shape[-1] + 1, len(self.grammar.nonterminals)
        total = torch.zeros(batch.numel(), N, N, S, dtype=self.log_weights.dtype)
        add_spans(total, value.long().cpu().reshape(-1, value.shape[-1]), self.grammar.flat)
        return total.reshape(*batch, N, N, S).to(value.device)

    def expected_counts(self) -> Weights:
        """E[f | x, w] of every rule, ``{"rules": (*batch_shape, R)}``."""
        counts = self._posterior()[1]
        (name,) = self.grammar.blocks
        return {name: counts.clone().expand(*self.batch_shape, counts.shape[-1])}

    def counts(self, value: Tensor) -> Weights:
        """f(x, y): how often each rule is in given derivations, ``{"rules": (*value.shape[:-1], R)}``."""
        if self._validate_args:
            self._validate_sample(value)
        return self._counts_of(value)

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 for a sentence without any derivation."""
        log_z, counts = self._posterior()
        score = expected_score(counts, self.log_weights)
        return torch.where(log_z == -torch.inf, 0.0, log_z - score).expand(self.batch_shape)

    # ------------------------------------------------------------------ decoding

    @traceable
    def mbr(self, criterion: Literal["spans", "rules"] = "spans") -> Tensor:
        """The derivation of least expected loss (minimum Bayes risk), shape ``(*batch_shape, L)``; -1 where none is.

        :param criterion: ``"spans"`` for the most expected right labelled spans (labelled recall), ``"rules"`` for the
            most expected right rules in their places (max-rule).
        """
        with torch.no_grad():
            return self._wide(chart.mbr(*self._flat(), criterion=criterion), ())


def _derivation(handle: int, validate: bool) -> Callable[..., PCFGDerivation]:
    """From log weights, words and what is forbidden to the distribution, for a grammar of that number."""

    def build(log_weights: Tensor, words: Tensor, forbidden: Tensor | None = None) -> PCFGDerivation:
        cfg = object_of(handle)
        (name,) = cfg.blocks
        weights = {name: log_weights}
        return PCFGDerivation(cfg, None, words, log_weights=weights, forbidden=forbidden, validate_args=validate)

    return build


@register_kl(PCFGDerivation, PCFGDerivation)
def _kl(p: PCFGDerivation, q: PCFGDerivation) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if not p.grammar.flat.same(q.grammar.flat):
        raise NotImplementedError("p and q are over derivations of different grammars")
    if p.words.shape[-1] != q.words.shape[-1] or differ(p.words, q.words):
        raise NotImplementedError("p and q are over derivations of different sentences, so the divergence is infinite")
    total = q.log_partition - p.log_partition + expected_score(p._posterior()[1], p.log_weights - q.log_weights)
    if q.forbidden is not None:
        spans = p.marginals().sum(-1) > 0
        total = torch.where((spans & q.forbidden.to(spans.device)).flatten(-2).any(-1), torch.inf, total)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
