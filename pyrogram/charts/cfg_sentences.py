# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the sentences of a batch, one at a time in log space, with :mod:`.cfg_log` and :mod:`.cfg_best`.

Weights are logarithms, float64, shape (1, R) for all sentences or (B, R) for each its own.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import run_workers, take

from .cfg_best import SPANS, WEIGHT, fill_best, read_best
from .cfg_draw import draw_from_logs
from .cfg_log import grammar_of, log_counts, log_inside, log_outside
from .cfg_rules import Matches, RuleTable, longest


def sentence_counts(
    weights: Any, rules: RuleTable, matches: Matches, order: Any, log_z: Any, counts: Any, scale: Any
) -> None:
    """log Z of the sentences in ``order``, and their expected counts, times ``scale``, into ``counts`` (B, R).

    :param counts: of no rows if only log Z is wanted; of one row for the sum over sentences, which are then done on a
        single thread.
    """
    g = grammar_of(rules)
    n = int(matches.lengths[order].max(initial=1))

    def work(turns: Any) -> None:
        cells = (n + 1) ** 2 * g.S
        memory = np.empty(cells), np.empty(cells if len(counts) else 0), np.empty(len(g.pairs)), np.empty(len(g.pairs))
        arrays = matches.lengths, matches.offsets, matches.in_order
        _count_sentences(g, weights, *arrays, order, turns, scale, *memory, log_z, counts)

    if len(order):
        run_workers(work, cost=0.0 if len(counts) == 1 else 50.0 * len(order) * _cost(rules, n))


def sentence_marginals(weights: Any, rules: RuleTable, matches: Matches, log_z: Any, out: Any) -> None:
    """log Z, and the posterior probability of every cell in ``out`` (B, N, N, K), of the first K symbols."""
    g = grammar_of(rules)
    order = np.arange(len(matches))
    n = matches.max_length

    def work(turns: Any) -> None:
        cells = (n + 1) ** 2 * g.S
        memory = np.empty(cells), np.empty(cells), np.empty(len(g.pairs)), np.empty(len(g.pairs))
        arrays = matches.lengths, matches.offsets, matches.in_order
        _mark_sentences(g, weights, *arrays, order, turns, *memory, log_z, out)

    run_workers(work, cost=50.0 * len(order) * _cost(rules, n))


def sentence_samples(
    weights: Any, rules: RuleTable, matches: Matches, order: Any, seed: int, ids: Any, failed: Any
) -> None:
    """Draws of the sentences in ``order``, into ``ids`` (S, B, L); ``failed`` where there is none."""
    g = grammar_of(rules)
    n = int(matches.lengths[order].max(initial=1))

    def work(turns: Any) -> None:
        memory = np.empty((n + 1) ** 2 * g.S), np.empty(len(g.pairs)), np.empty((n + 2, 3), np.int64)
        arrays = matches.lengths, matches.offsets, matches.in_order
        _draw_sentences(g, weights, *arrays, order, turns, seed, *memory, ids, failed)

    if len(order):
        run_workers(work, cost=50.0 * len(order) * _cost(rules, n))


def sentence_best(weights: Any, rules: RuleTable, matches: Matches, k: int, mode: int) -> tuple[Any, Any]:
    """The k best derivations (k, B, L), best first, and their scores (k, B); -1 and -inf where there are fewer."""
    g = grammar_of(rules)
    B, n = len(matches), matches.max_length
    ids = np.full((k, B, longest(rules, n)), -1, np.int64)
    scores = np.full((k, B), -np.inf)
    order = np.arange(B)

    def work(turns: Any) -> None:
        cells = (n + 1) ** 2 * g.S
        both = cells if mode != WEIGHT else 0
        memory = np.empty(both), np.empty(both), np.empty(len(g.pairs)), np.empty(len(g.pairs))
        lists = np.empty(cells * k), np.empty((cells * k, 5), np.int32), np.empty((n + 2, 4), np.int64)
        arrays = matches.lengths, matches.offsets, matches.in_order
        _best_sentences(g, weights, *arrays, order, turns, mode, k, *memory, *lists, ids, scores)

    run_workers(work, cost=20.0 * k * B * _cost(rules, n))
    return ids, scores


def new_seed(generator: torch.Generator | None) -> int:
    return int(torch.randint(2**63 - 1, (), generator=generator))


def _cost(rules: RuleTable, n: int) -> float:
    return n**2 / 2 * (n / 3 * len(rules.pairs[0]) + len(rules.binary) + len(rules.unary))


@kernel
def _count_sentences(
    g, weights, lengths, offsets, table, order, turns, scale, chart, outer, products, adjoints, log_z, counts
):
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        own = weights[b if len(weights) > 1 else 0]
        found = table[offsets[b] : offsets[b + 1]]
        n = lengths[b]
        log_z[b] = log_inside(g, own, n, found, chart, products)
        if len(counts) and log_z[b] > -np.inf:
            row = counts[b if len(counts) > 1 else 0]
            log_outside(g, own, n, chart, outer, products, adjoints)
            log_counts(g, own, n, found, chart, outer, products, log_z[b], scale[b], row)


@kernel
def _mark_sentences(g, weights, lengths, offsets, table, order, turns, chart, outer, products, adjoints, log_z, out):
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        own = weights[b if len(weights) > 1 else 0]
        n = lengths[b]
        log_z[b] = log_inside(g, own, n, table[offsets[b] : offsets[b + 1]], chart, products)
        if log_z[b] == -np.inf:
            continue
        log_outside(g, own, n, chart, outer, products, adjoints)
        for i in range(n):
            for k in range(i + 1, n + 1):
                here = (i * (n + 1) + k) * g.S
                for A in range(out.shape[3]):
                    out[b, i, k, A] = np.exp(chart[here + A] + outer[here + A] - log_z[b])


@kernel
def _draw_sentences(g, weights, lengths, offsets, table, order, turns, seed, chart, products, stack, ids, failed):
    state = np.zeros(1, np.uint64)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        own = weights[b if len(weights) > 1 else 0]
        found = table[offsets[b] : offsets[b + 1]]
        if log_inside(g, own, lengths[b], found, chart, products) == -np.inf:
            failed[b] = True
            continue
        failed[b] = False
        seed_stream(state, seed, b)
        for s in range(len(ids)):
            draw_from_logs(g, own, lengths[b], found, chart, state, stack, ids[s, b])


@kernel
def _best_sentences(
    g, weights, lengths, offsets, table, order, turns, mode, K, chart, outer, products, adjoints, lists, back, stack,
    ids, scores,
):  # fmt: skip
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        own = weights[b if len(weights) > 1 else 0]
        found = table[offsets[b] : offsets[b + 1]]
        n = lengths[b]
        log_z = 0.0
        if mode != WEIGHT:
            log_z = log_inside(g, own, n, found, chart, products)
            if log_z == -np.inf:
                continue
            log_outside(g, own, n, chart, outer, products, adjoints)
        fill_best(g, own, n, found, mode, K, chart, outer, log_z, lists, back)
        top = (n * g.S + g.start) * K
        for rank in range(K):
            if lists[top + rank] > -np.inf:
                scores[rank, b] = lists[top + rank]
                read_best(g, n, found, K, rank, back, stack, ids[rank, b])


__all__ = ["SPANS", "WEIGHT", "new_seed", "sentence_best", "sentence_counts", "sentence_marginals", "sentence_samples"]
