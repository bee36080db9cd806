# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Leftmost derivations of a context-free grammar as a Pyro distribution."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes

from .charted import traceable
from .constraints import LeftmostDerivations
from .leftmost_spans import add_spans, has_spans
from .row_derivation import RowDerivation


class PCFGDerivation(RowDerivation):
    r"""p(y | x, w), the leftmost derivations y of given words x.

    A value is a tensor of rules, shape ``(L,)``: indices in 0 .. R - 1 in the order in which they rewrite the
    leftmost nonterminal, from the start symbol on, until the words are there; padded with -1 on the right. L is the
    length that no derivation of n words exceeds, 2n - 1 for a grammar in Chomsky normal form.

    See :class:`.RowDerivation` for arguments. Evidence is ``crossing``, shape ``(*batch, n+1, n+1)``, bool: true at
    [i, k] where no nonterminal may span words i .. k - 1.

    Time O(n^3) times the number of binary rules, memory O(n^2) times the number of symbols, a sentence.
    """

    grammar: Any

    @property
    def support(self) -> LeftmostDerivations:
        """Leftmost derivations of the words."""
        return LeftmostDerivations(self.grammar.flat, self.words)

    def _num_axes(self, name: str) -> int:
        if name != "crossing":
            raise ValueError(
                f"derivations of a context-free grammar have evidence on 'crossing' alone, not on {name!r}"
            )
        return 2

    # ------------------------------------------------------------------ probabilities

    def _refusal(self, first: int, row: list[float], words: Tensor) -> str:
        return f"values must be leftmost derivations of the words, but value {first}, {row}, is not"

    def _log_factors(self, value: Tensor) -> Tensor:
        """Minus infinity for derivations that have a nonterminal over a forbidden span."""
        crossing = self.evidence["crossing"]
        batch = broadcast_shapes(value.shape[:-1], crossing.shape[:-2], self.words.shape[:-1])
        N, fits = crossing.shape[-1], self.support.check(value).expand(batch).reshape(-1).cpu()
        ids = value.long().expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1]).cpu()[fits]
        spans = crossing.expand(*batch, N, N).reshape(-1, N, N).cpu()[fits]
        forbidden = torch.zeros(len(fits), dtype=torch.bool)
        forbidden[fits] = has_spans(ids, spans, self.grammar.flat, len(self.grammar.nonterminals))
        return torch.where(forbidden.reshape(batch), -torch.inf, 0.0).to(value.device)

    def _is_alike(self, other: Any) -> bool:
        return bool(self.grammar.flat.same(other.grammar.flat))

    def _divergence(self, other: Any, total: Tensor) -> Tensor:
        if "crossing" not in other.evidence:
            return total
        spans = self.marginals().sum(-1) > 0
        return torch.where((spans & other.evidence["crossing"].to(spans.device)).flatten(-2).any(-1), torch.inf, total)

    def _listed(self, words: Tensor) -> Tensor:
        ones = {name: torch.zeros(1, *b.shape, dtype=torch.float64) for name, b in self.grammar.blocks.items()}
        number = round(float(self.grammar.log_partition({n: w[0] for n, w in ones.items()}, words.cpu()).exp()))
        listed: Tensor = self.grammar.best(ones, words.cpu(), number)[1][:, 0] if number else words.new_zeros(0, 1)
        return listed

    def marginals(self) -> Tensor:
        """p(nonterminal A spans words i .. k - 1), shape ``(*batch_shape, n+1, n+1, K)`` [i, k, A]."""
        K, n = len(self.grammar.nonterminals), self.words.shape[-1]

        def compute() -> Tensor:
            flat, words = self.grammar.expanded(self.log_weights, self._own_batch), self._sentences(self._own_batch)
            with torch.no_grad():
                spans: Tensor = self.grammar.spans(flat, words, evidence=self._evidence(self._own_batch))
            return spans.reshape(*self._own_batch, n + 1, n + 1, K)

        spans: Tensor = self._kept("spans", compute)
        return spans.expand(*self.batch_shape, n + 1, n + 1, K).clone()

    def parts(self, value: Tensor) -> Tensor:
        """The labelled spans of given derivations, how often each occurs, in the shape of :meth:`marginals`."""
        self._validate_sample(value)  # compiled code takes them for derivations
        batch = value.shape[:-1]
        N, S = self.words.shape[-1] + 1, len(self.grammar.nonterminals)
        total = torch.zeros(batch.numel(), N, N, S, dtype=self._logs.dtype)
        add_spans(total, value.long().cpu().reshape(-1, value.shape[-1]), self.grammar.flat)
        return total.reshape(*batch, N, N, S).to(value.device)

    # ------------------------------------------------------------------ decoding

    @traceable
    def mbr(self, criterion: Literal["spans", "rules"] = "spans") -> Tensor:
        """The derivation of least expected loss (minimum Bayes risk), shape ``(*batch_shape, L)``; -1 where none is.

        :param criterion: ``"spans"`` for the most expected right labelled spans (labelled recall), ``"rules"`` for the
            most expected right rules in their places (max-rule).
        """
        with torch.no_grad():
            flat, words = self.grammar.expanded(self.log_weights, self._own_batch), self._sentences(self._own_batch)
            evidence = self._evidence(self._own_batch)
            return self._wide(self.grammar.most_expected(flat, words, criterion, evidence=evidence), ())
