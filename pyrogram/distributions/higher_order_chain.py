# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Markov chains of any order, by scores of each position, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_size, check_tensors
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram

from .charted import traceable
from .constraints import States
from .scored_structure import ScoredStructure


@recursion
def chain(p: Any, order: int = 2, by_word: bool = True) -> None:
    """Chains of order m: a state is scored together with the m states before it, at each word anew or everywhere alike.

    F: the last m states, a tuple of symbols; Fa: the first a of them, a < m. The scores of word a <= m, which has fewer
    states before it, are of the table ``start`` a. Where they are alike at all words, each word has a score ``word`` of
    its state alone. Those of word t are in row t - 1 of a table.
    """
    m = order
    t = p.positions("t")
    x = p.symbols(" ".join(f"x{a}" for a in range(m + 1)), "K")
    F, Z = p.items("F", *["K"] * m), p.items("Z")
    score = p.weights("score", *["K"] * (m + 1))
    word = None if by_word else p.weights("word", "K")
    before = None
    for a in range(1, m + 1):  # the first words
        here = F if a == m else p.items(f"F{a}", *["K"] * a)
        start, states = p.weights(f"start{a}", *["K"] * a), x[:a]
        cell, last = (a, *states), (p.n, *states)
        weight = start[states] if word is None else word[a - 1, states[-1]] * start[states]
        here[cell] += weight if before is None else before * weight
        if a < m:
            Z[()] += here[last]
        before = here[cell]
    previous, cell, last = (t - 1, *x[:-1]), (t, *x[1:]), (p.n, *x[:-1])
    step = (t - 1, *x)
    F[cell] += F[previous] * (score[step] if word is None else score[x] * word[t - 1, x[-1]])
    Z[()] += F[last]


@cache
def program(order: int, by_word: bool) -> TensorProgram:
    """The chains.

    Weights are ``score``, shape ``(B, n, K, .., K)``, or ``(1 or B, K, .., K)`` and ``word``, ``(B, n, K)``; and
    ``start1 .. startm``, ``(1 or B, K, .., K)``.
    """
    return TensorProgram(chain(order=order, by_word=by_word), "state sequence")


class Chain(ScoredStructure):
    """States of the words of given sentences: for every word an integer in 0 .. K-1, then padding, -1."""

    _labels_are_independent = False

    @property
    def support(self) -> States:
        """States of the sentences' lengths."""
        return States(self.lengths, self.num_labels)

    @property
    def _sizes(self) -> dict[str, int]:
        return {"K": self.num_labels}

    def _inside(self, lengths: Tensor) -> Tensor:
        return torch.arange(self.event_shape[0], device=lengths.device) < lengths[..., None]

    @traceable
    def mbr(self) -> Tensor:
        """The sequence with the most expected right states (posterior decoding), shape ``(*batch_shape, n)``.

        Each word gets its own most probable state; the sequence as a whole may be impossible. States are -1 where no
        sequence is possible.
        """
        with torch.no_grad():
            real = self._inside(self.lengths) & (self.log_partition[..., None] != -torch.inf)
            return torch.where(real, self.marginals().argmax(-1), -1)


class HigherOrderChain(Chain):
    r"""States of the words of given sentences, :math:`p(y) = \exp(\sum_t \mathrm{score}_t(y_{t-m}, .., y_t)) / Z`.

    A value is a tensor of states, shape ``(n,)``: for every word an integer in 0 .. K-1, then padding, -1. Each word's
    state is scored together with the m states before it; m is the order. ``log_prob`` is normalised: log p(states |
    scores), in nats, never above 0. It is a linear-chain conditional random field [1] of order m, or, if the scores are
    log probabilities, a Markov chain with the emissions of its words; then ``log_prob + log_partition`` is the joint.

    Scores come in two forms: those of words and their states, beside those of m + 1 states in a row, wherever they are;
    or those of m + 1 states in a row for each word.

    >>> chain = HigherOrderChain(torch.zeros(5, 3), torch.zeros(4, 4, 3))  # five words, three states, order two
    >>> round(float(chain.log_partition.exp()), 2), 3**5
    (243.0, 243)
    >>> chain.marginals().shape
    torch.Size([5, 3])
    >>> HigherOrderChain(torch.zeros(5, 4, 4, 3)).sample((2,)).shape
    torch.Size([2, 5])

    Time O(n K^(m+1)), memory O(n K^m + K^(m+1)) a sentence; in the second form also O(n K^(m+1)).

    :param scores: of words and states, shape ``(*batch, n, K)``; without ``transition_scores``, shape
        ``(*batch, n, K+1, .., K+1, K)`` [word, the m states before it, the earliest first, its state]. -inf forbids.
    :param transition_scores: of states in a row, shape ``(*batch, K+1, .., K+1, K)``. In both forms, K stands for a
        state before the first word; an entry with a K after another state is not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param order: m, from one on.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Lafferty, J., McCallum, A. and Pereira, F. (2001). Conditional random fields: probabilistic models for
    segmenting and labeling sequence data. ICML, section 3.
    """

    transition_scores: Tensor | None
    _part = "state"

    def __init__(
        self,
        scores: Tensor,
        transition_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        order: int = 2,
        validate_args: bool | None = None,
    ):
        check_tensors({"scores": scores}, transition_scores=transition_scores, lengths=lengths)
        self.order = m = check_size("order", order)
        K, in_a_row = scores.shape[-1] if scores.dim() else 0, ["K+1"] * m + ["K"]
        tables = {"scores": (scores, ["n", "K"] if transition_scores is not None else ["n", *in_a_row])}
        if transition_scores is not None:
            tables["transition_scores"] = (transition_scores, in_a_row)
        for name, (x, wanted) in tables.items():
            sizes = {"K": K, "K+1": K + 1, "n": x.shape[-len(wanted)] if x.dim() >= len(wanted) else 0}
            if 0 in sizes.values() or tuple(x.shape[-len(wanted) :]) != tuple(sizes[size] for size in wanted):
                raise ValueError(
                    f"{name} of order {m} must have shape (..., {', '.join(wanted)}), K = {K}, not {tuple(x.shape)}"
                )
        by_name = {"scores": scores, "transition_scores": transition_scores}
        dims = {"scores": len(tables["scores"][1]), "transition_scores": m + 1}
        n = scores.shape[-dims["scores"]]
        super().__init__(by_name, dims, (n,), K, lengths, {"order": order}, validate_args)

    @property
    def _program(self) -> TensorProgram:
        return program(self.order, self.transition_scores is None)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        x, K, m, n = scores["state"], self.num_labels, self.order, self.event_shape[0]
        full, states = slice(None), slice(K)
        shared = scores.get("transition")
        if shared is not None and len(shared) == len(lengths) and not self._all_full:
            # A sentence's own scores of more states than it has words may be anything.
            is_start = torch.arange(K + 1, device=shared.device) == K
            words = m + 1 - sum(is_start.long().reshape(-1, *[1] * a) for a in range(m))
            real = words <= lengths.reshape(-1, *[1] * m)
            shared = torch.where(real[..., None], shared, -torch.inf)
        table = x if shared is None else shared
        rest: tuple[Any, ...] = (full, full) if shared is None else (full,)
        tables = {"score": table[rest + (states,) * m]}
        for a in range(1, m + 1):  # m + 1 - a states are before the first word
            rest = (full, min(a, n) - 1) if shared is None else (full,)  # of word a, which may not be there
            rest += (K,) * (m + 1 - a) + (states,) * (a - 1)
            tables[f"start{a}"] = table[rest]
        return tables if shared is None else tables | {"word": x}

    @property
    def _trace(self) -> Trace:
        K, m = self.num_labels, self.order
        if self.transition_scores is not None:
            return {"word": (0, K, 1)}
        return {"score": (0, K, *[0] * m, 1)} | {f"start{a}": ((a - 1) * K, *[0] * (a - 1), 1) for a in range(1, m + 1)}

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        K, n = self.num_labels, self.event_shape[0]
        padded = torch.nn.functional.pad(value, (self.order, 0), value=K)
        in_a_row = torch.zeros_like(value)
        for a in range(self.order + 1):
            in_a_row = in_a_row * (K + 1 if a < self.order else K) + padded[..., a : a + n]
        words = torch.arange(n, device=value.device)
        if self.transition_scores is not None:
            tables = {"state": words * K + value, "transition": in_a_row}
        else:
            tables = {"state": words * (K + 1) ** self.order * K + in_a_row}
        return {name: torch.where(value >= 0, index, -1) for name, index in tables.items()}

    def _by_part(self, table: Tensor) -> Tensor:
        """Sums over the states before each word."""
        return table if self.transition_scores is not None else table.flatten(-1 - self.order, -2).sum(-2)
