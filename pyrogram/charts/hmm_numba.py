# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for hidden Markov chains: into lanes and out, and when the result may be trusted.

Sentences are sorted by length, eight of them share a block, and blocks are dealt to threads. Real space flushes
what is smaller than ``tiny`` to zero, which changes Z by at most ``tiny`` times the adjoint of its cell. So a sentence
is trusted if neither a cell nor an adjoint exceeds ``GREATEST``; where only log Z is wanted, the adjoints are
bounded by the row sums of the transitions. What fails is done again with its adjoints, then in log space.

The arguments are those of :mod:`.hmm`.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.charts.runtime.threads import run_workers

from .hmm_kernels import (
    LOG_Z,
    PARTS,
    POSTERIORS,
    SUM,
    best_sentences,
    log_sentences,
    sample_blocks,
    sample_logs,
    sum_parts,
)
from .hmm_lanes import WIDTH, make_lanes, pitch_of


def log_partition(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
) -> Float[Tensor, "B"]:
    """log Z of each sentence, without a graph."""
    chain = _Chain(initial, transition, emission, words)
    chain.run(LOG_Z)
    return torch.from_numpy(chain.log_z).to(initial.dtype)


def posteriors(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B K K+1"], Float[Tensor, "B n K"]]:
    """log Z, expected numbers of transitions and probabilities of states, without a graph."""
    chain = _Chain(initial, transition, emission, words)
    chain.run(POSTERIORS)
    found = chain.log_z, chain.move_out, chain.state_out
    log_z, moves, states = (torch.from_numpy(x).to(initial.dtype) for x in found)
    return log_z, moves, states


def expected_counts(
    initial: Float[Tensor, "1 K"],
    transition: Float[Tensor, "1 K K+1"],
    emission: Float[Tensor, "1 K V"],
    words: Int[Tensor, "B n"],
    sentence_weights: Float[Tensor, "B"] | None = None,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "K"], Float[Tensor, "K K+1"], Float[Tensor, "K V"]]:
    """log Z of each sentence, and the weighted sums of all expected counts."""
    chain = _Chain(initial, transition, emission, words)
    if sentence_weights is not None:
        chain.weights = np.ascontiguousarray(sentence_weights.detach().to(torch.float64).numpy())
    chain.run(SUM)
    found = chain.log_z, chain.initial_sum, chain.move_sum, chain.emission_sum
    log_z, starts, moves, emitted = (torch.from_numpy(x).to(initial.dtype) for x in found)
    return log_z, starts, moves, emitted


def sample(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B n"]:
    """Independent draws of state sequences, padded with -1.

    :raises ValueError: if a sentence has none of positive weight.
    """
    chain = _Chain(initial, transition, emission, words)
    return torch.from_numpy(chain.sample(num_samples, int(torch.randint(2**63 - 1, (), generator=generator))))


def top_k(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    k: int,
) -> tuple[Int[Tensor, "k B n"], Float[Tensor, "k B"]]:
    """The k best state sequences and their log weights; -1 and -inf where there are fewer."""
    chain = _Chain(initial, transition, emission, words)
    states, totals = chain.top_k(k)
    return torch.from_numpy(states), torch.from_numpy(totals).to(initial.dtype)


class _Chain:
    """Tables as arrays, and what the kernels write.

    Emissions are rows of one table, by word if all sentences share them, else by sentence and position; ``rows`` (B, n)
    says which.
    """

    def __init__(self, initial: Tensor, transition: Tensor, emission: Tensor, words: Tensor):
        self.logs = [
            np.ascontiguousarray(t.detach().to(torch.float64).numpy()) for t in (initial, transition, emission)
        ]
        self.words = w = np.ascontiguousarray(words.numpy())
        K, V = self.logs[2].shape[1:]
        self.K, self.V, self.lengths = K, V, (w >= 0).sum(1)
        self.order = np.argsort(-self.lengths, kind="stable")
        self.weights = np.ones(len(w))
        if len(self.logs[2]) == 1:
            self.rows, self.scores = np.maximum(w, 0), np.ascontiguousarray(self.logs[2][0].T)
        else:
            self.rows = np.arange(w.size).reshape(w.shape)
            picked = np.take_along_axis(self.logs[2], np.maximum(w, 0)[:, None, :], 2)
            self.scores = np.ascontiguousarray(picked.transpose(0, 2, 1)).reshape(-1, K)

    def _real(self) -> tuple[Any, ...]:
        """Weights in real space, of the kernels' pitch: initial, moves, end, emissions, and the emissions' shifts."""
        P, K = pitch_of(self.K), self.K
        shift = self.scores.max(1)
        shift[~np.isfinite(shift)] = 0
        initial, transition, _ = self.logs
        moves = np.zeros((len(transition), P, P))
        tables = [np.zeros((len(t), P)) for t in (initial, transition, self.scores)]
        with np.errstate(under="ignore", over="ignore"):
            moves[:, :K, :K] = np.exp(transition[..., :K])
            tables[0][:, :K] = np.exp(initial)
            tables[1][:, :K] = np.exp(transition[..., K])
            tables[2][:, :K] = np.exp(self.scores - shift[:, None])
        return tables[0], moves, tables[1], tables[2], shift

    def _table(self, moves: Any) -> Any:
        """The one table of transitions, or lanes for those of eight sentences."""
        return moves.reshape(-1) if len(moves) == 1 else np.zeros((pitch_of(self.K) ** 2, WIDTH))

    def _cost(self, by_state: float) -> float:
        return float(by_state * self.K**2 * self.lengths.sum())

    def run(self, wanted: int) -> None:
        B, n = self.words.shape
        K, V, P = self.K, self.V, pitch_of(self.K)
        real = self._real()
        self.log_z, failed = np.zeros(B), np.zeros(B, np.bool_)
        self.move_out = np.zeros((B if wanted == POSTERIORS else 0, K, K + 1))
        self.state_out = np.zeros((B if wanted == POSTERIORS else 0, n, K))
        parts = PARTS if wanted == SUM else 0
        sums = np.zeros((parts, P)), np.zeros((parts, K, K + 1)), np.zeros((parts, V if wanted == SUM else 0, P))
        longest = int(self.lengths.max(initial=1))
        todo = self.order
        for adjoints in dict.fromkeys((wanted != LOG_Z, True)):

            def in_lanes(turns: Any, todo: Any = todo, adjoints: bool = adjoints) -> None:
                args = (
                    make_lanes(longest, K),
                    self._table(real[1]),
                    *real,
                    self.rows,
                    self.lengths,
                    self.weights,
                    todo,
                    turns,
                    adjoints,
                    wanted,
                )
                sum_parts(*args, self.log_z, failed, self.move_out, self.state_out, *sums)

            run_workers(in_lanes, self._cost(6.0 if adjoints else 2.0))
            todo = todo[failed[todo]]
            if len(todo) == 0:
                break
            failed[:] = False
        else:
            self._run_log(todo, wanted, sums)
        if wanted == SUM:
            self.initial_sum, self.move_sum = sums[0].sum(0)[:K], sums[1].sum(0)
            self.emission_sum = np.ascontiguousarray(sums[2].sum(0)[:, :K].T)

    def _run_log(self, todo: Any, wanted: int, sums: Any) -> None:
        initial, transition, _ = self.logs
        log_sentences(
            initial, transition, self.scores, self.rows, self.lengths, self.weights, todo, wanted,
            self.log_z, self.move_out, self.state_out, *sums,
        )  # fmt: skip

    def sample(self, num_samples: int, seed: int) -> Any:
        B, n = self.words.shape
        states = np.full((num_samples, B, n), -1, np.int64)
        if num_samples == 0 or B == 0:
            return states
        real, failed = self._real(), np.zeros(B, np.bool_)

        def in_lanes(turns: Any) -> None:
            c, table = make_lanes(int(self.lengths.max()), self.K), self._table(real[1])
            sample_blocks(c, table, *real, self.rows, self.lengths, self.order, turns, self.K, seed, states, failed)

        run_workers(in_lanes, self._cost(2.0) + 20.0 * num_samples * self.K * self.lengths.sum())
        sample_logs(
            self.logs[0], self.logs[1], self.scores, self.rows, self.lengths, failed.nonzero()[0], seed, states, failed
        )
        if failed.any():
            raise ValueError(f"sentence {int(failed.argmax())} has no states of positive weight to sample")
        return states

    def top_k(self, k: int) -> tuple[Any, Any]:
        B, n = self.words.shape
        states, totals = np.full((k, B, n), -1, np.int64), np.full((k, B), -np.inf)

        def work(turns: Any) -> None:
            initial, transition, _ = self.logs
            best_sentences(initial, transition, self.scores, self.rows, self.lengths, turns, states, totals)

        run_workers(work, self._cost(10.0 * k))
        return states, totals
