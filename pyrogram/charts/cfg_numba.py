# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for context-free grammars: who computes what, and when the result may be trusted.

Sentences are sorted by length, eight share a block, and blocks are dealt to threads. Counts are summed in a fixed
number of parts, so that they do not depend on the number of threads. What a sentence costs depends on its own matches,
not on the number of lexical rules.

Real space flushes what is smaller than ``tiny``, 2**-1022, to zero. That changes log Z, or a posterior, by at most
``tiny`` times an adjoint and products of at most two cells; so it cannot matter where all cells are below ``GREATEST``
and all adjoints below its square. Where only log Z is wanted (or draws), it is enough that nothing that is not zero
comes near ``tiny``; where something does, the adjoints are formed after all. A sentence that fails is done again in log
space.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing, inlined, kernel
from pyrogram.charts.runtime.lanes import fill, store
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import run_workers, take
from pyrogram.recursion.running.program import longest_first

from .cfg_draw import draw_from_lanes, real_of
from .cfg_lanes import inside, make_chart
from .cfg_log import grammar_of
from .cfg_outside import outside
from .cfg_plan import Plan, plan_of
from .cfg_rules import Matches, RuleTable
from .cfg_sentences import sentence_counts, sentence_samples

GREATEST = 2.0**200
LEAST = 2.0**-300
PARTS = 8
# What is wanted of a block: log Z alone, or with counts: summed, or a row for each sentence.
LOG_Z, SUM, ROWS = range(3)


def run(weights: Any, rules: RuleTable, matches: Matches, scale: Any, mode: int) -> tuple[Any, Any]:
    """log Z (B,), and expected counts (0 or 1 or B, R) times ``scale`` (B,).

    :param weights: log weights, float64, (1, R) or (B, R).
    """
    B, R = len(matches), rules.num_events
    log_z, failed = np.full(B, -np.inf), np.zeros(B, np.bool_)
    counts = np.zeros((PARTS if mode == SUM else B if mode == ROWS else 0, R + 2))
    real, tables, safe = real_weights(weights, plan_of(rules, matches))
    order = longest_first(matches.lengths)

    def work(turns: Any) -> None:
        plan = plan_of(rules, matches)
        mem, chart = make_chart(matches.max_length, plan, mode != LOG_Z or not safe)
        arrays = matches.lengths, matches.offsets, matches.table
        _count_blocks(mem, chart, plan, real, tables(), *arrays, order, turns, mode, safe, scale, log_z, failed, counts)

    if B:
        run_workers(work, cost=float(block_cost(plan_of(rules, matches), matches.lengths).sum()) * 3)
    found = counts.sum(0, keepdims=True) if mode == SUM else counts
    found = np.ascontiguousarray(found[:, :R])
    if failed.any():
        chosen = failed.nonzero()[0]
        sentence_counts(weights, rules, matches, chosen, log_z, found, scale)
    return log_z, found


def draw(weights: Any, rules: RuleTable, matches: Matches, seed: int, ids: Any) -> Any:
    """Draws into ``ids`` (S, B, L), which is -1; returns (B,) where there is no derivation."""
    failed = np.zeros(len(matches), np.bool_)
    plan, g = plan_of(rules, matches), grammar_of(rules)
    real, tables, safe = real_weights(weights, plan)
    order = longest_first(matches.lengths)
    n = matches.max_length

    def work(turns: Any) -> None:
        mem, chart = make_chart(n, plan, True)
        stack = np.empty((n + 2, 3), np.int64)
        arrays = matches.lengths, matches.offsets, matches.in_order
        _sample_blocks(mem, chart, plan, g, real, tables(), *arrays, order, turns, safe, seed, stack, ids, failed)

    if len(order):
        costs = block_cost(plan, matches.lengths) + len(ids) * matches.lengths * (200.0 + len(rules.binary))
        run_workers(work, cost=float(costs.sum()))
    rest = failed.nonzero()[0]
    sentence_samples(weights, rules, matches, rest, seed, ids, failed)
    return failed


def real_weights(weights: Any, plan: Plan) -> tuple[Any, Any, bool]:
    """Weights in real space by event (R + 2,), or log weights (B, R + 2); a maker of the plan's; whether all are small.

    The last two are those of no event, one, and of rules that do not exist, zero.
    """
    B = len(weights)
    extended = np.concatenate([weights, np.broadcast_to([0.0, -np.inf], (B, 2))], 1)
    with np.errstate(invalid="ignore"):
        safe = bool(((weights >= np.log(LEAST)) & (weights <= -np.log(LEAST)) | (weights == -np.inf)).all())
    if B > 1:
        return extended, lambda: np.empty((plan.num_weights, 8)), safe
    with np.errstate(under="ignore", over="ignore"):
        real = np.exp(extended[0])
    chosen = real[plan.source]
    return real, lambda: chosen, safe


def block_cost(plan: Plan, lengths: Any) -> Any:
    """Rough number of vector operations of the inside pass, of each sentence."""
    n = lengths.astype(np.float64)
    return n**2 / 16 * (n / 3 * plan.num_pairs + plan.num_weights + 3 * plan.S + 20)


@kernel
def _count_blocks(
    mem, c, p, real, weights, lengths, offsets, table, order, turns, mode, safe, scale, log_z, failed, counts
):
    for _ in range(PARTS):
        part = take(turns)
        if part >= PARTS:
            break
        for block in range(part, (len(order) + 7) // 8, PARTS):
            sentences = order[block * 8 : block * 8 + 8]
            feed(mem, c, p, real, weights, lengths, offsets, table, sentences)
            trusted = fill_chart(mem, c, p, weights, lengths, sentences, safe, mode != LOG_Z)
            for lane in range(len(sentences)):
                b = sentences[lane]
                log_z[b] = log_z_of(mem, c, p, lane, lengths[b])
                if not trusted & (1 << lane):
                    failed[b] = True
            if mode == ROWS:
                for lane in range(len(sentences)):
                    if trusted & (1 << lane):
                        b = sentences[lane]
                        _drain_row(mem, c, p, weights, lane, scale[b], counts[b])
                        drain_matches(mem, c, real, b, lane, table[offsets[b] : offsets[b + 1]], scale[b], counts[b])
            elif mode == SUM:
                for lane in range(8):
                    good = lane < len(sentences) and trusted & (1 << lane) != 0
                    mem[c.scale * 8 + lane] = scale[sentences[lane]] if good else 0.0
                    if not good:
                        _clear_counts(mem, c, p, lane)
                _drain_sum(mem, c, p, weights, counts[part])
                for lane in range(len(sentences)):
                    if trusted & (1 << lane):
                        b = sentences[lane]
                        found = table[offsets[b] : offsets[b + 1]]
                        drain_matches(mem, c, real, b, lane, found, scale[b], counts[part])


@borrowing
def feed(mem, c, p, real, weights, lengths, offsets, table, sentences):
    """Matches and, if every sentence has its own, weights into lanes."""
    n = lengths[sentences[0]]
    zero = fill(mem, 0.0)
    for i in range(n):
        for k in range(i + 1, n + 1):
            here = c.inner + (i * c.pitch + k) * c.S
            for A in range(c.S):
                store(mem, here + A, zero)
    for k in range(n + 1):
        store(mem, c.ends + k, zero)
        store(mem, c.factors + k, zero)
    for lane in range(len(sentences)):
        b = sentences[lane]
        mem[(c.ends + lengths[b]) * 8 + lane] = 1.0
        for m in range(offsets[b], offsets[b + 1]):
            cell = c.inner + (table[m, 0] * c.pitch + table[m, 1]) * c.S + table[m, 2]
            mem[cell * 8 + lane] += real_of(real, b, table[m, 3])
        if weights.ndim == 2:
            for q in range(len(p.source)):
                weights[q, lane] = real_of(real, b, p.source[q])
    if weights.ndim == 2:
        for lane in range(len(sentences), 8):
            for q in range(len(p.source)):
                weights[q, lane] = 0.0


@borrowing
def fill_chart(mem, c, p, weights, lengths, sentences, safe, posteriors):
    """Inside and, if posteriors are wanted or digits may have been lost, outside; which lanes are right, as bits."""
    n = lengths[sentences[0]]
    inside(mem, c, p, weights, n, safe and not posteriors)
    trusted, sure = 0, safe
    for lane in range(len(sentences)):
        z = mem[(c.inner + lengths[sentences[lane]] * c.S + p.start) * 8 + lane]
        # Written so that NaN fails.
        if mem[c.bound * 8 + lane] <= GREATEST and 0 < z <= GREATEST:
            trusted |= 1 << lane
        if not (mem[c.least * 8 + lane] >= LEAST and mem[c.bound * 8 + lane] <= GREATEST):
            sure = False
    if trusted == 0 or (sure and not posteriors):
        return trusted
    if c.outer == c.X:  # no room for adjoints
        return 0
    zero = fill(mem, 0.0)
    for i in range(n):
        for k in range(i + 1, n + 1):
            here = c.outer + (i * c.pitch + k) * c.S
            for A in range(c.S):
                store(mem, here + A, zero)
    for lane in range(len(sentences)):
        cell = lengths[sentences[lane]] * c.S + p.start
        if trusted & (1 << lane):
            mem[(c.outer + cell) * 8 + lane] = 1 / mem[(c.inner + cell) * 8 + lane]
    outside(mem, c, p, weights, n)
    for lane in range(len(sentences)):
        if not mem[c.outer_bound * 8 + lane] <= GREATEST * GREATEST:
            trusted &= ~(1 << lane)
    return trusted


@inlined
def log_z_of(mem, c, p, lane, n):
    z = mem[(c.inner + n * c.S + p.start) * 8 + lane]
    return np.log(z) - mem[c.exponents * 8 + lane] * np.log(2.0)


@borrowing
def _clear_counts(mem, c, p, lane):
    """A lane that failed may hold NaN."""
    for q in range(p.num_weights):
        mem[(c.counts + q) * 8 + lane] = 0.0


@borrowing
def _drain_sum(mem, c, p, weights, out):
    """Add the counts of all lanes, times ``scale``."""
    scale = mem[c.scale * 8 : c.scale * 8 + 8]
    for q in range(p.num_weights):
        at = (c.counts + q) * 8
        total = 0.0
        if weights.ndim == 1:
            for lane in range(8):
                total += mem[at + lane] * scale[lane]
            if total != 0:  # the weight may be infinite
                total *= weights[q]
        else:
            for lane in range(8):
                count = mem[at + lane] * scale[lane]
                if count != 0:
                    total += count * weights[q, lane]
        out[p.source[q]] += total


@borrowing
def _drain_row(mem, c, p, weights, lane, scale, out):
    """Add the counts of one lane."""
    for q in range(p.num_weights):
        count = mem[(c.counts + q) * 8 + lane] * scale
        if count != 0:
            out[p.source[q]] += count * (weights[q] if weights.ndim == 1 else weights[q, lane])


@borrowing
def drain_matches(mem, c, real, b, lane, table, scale, out):
    """Add the posteriors of the matches of one lane."""
    for m in range(len(table)):
        i, k, event = table[m, 0], table[m, 1], table[m, 3]
        if event < 0:
            continue
        adjoint = mem[(c.outer + (i * c.pitch + k) * c.S + table[m, 2]) * 8 + lane]
        if adjoint != 0:
            value = real_of(real, b, event)
            for t in range(i + 1, k + 1):
                value *= mem[(c.factors + t) * 8 + lane]
            out[event] += adjoint * value * scale


@kernel
def _sample_blocks(mem, c, p, g, real, weights, lengths, offsets, table, order, turns, safe, seed, stack, ids, failed):
    state = np.zeros(1, np.uint64)
    for _ in order:
        block = take(turns)
        if block * 8 >= len(order):
            break
        sentences = order[block * 8 : block * 8 + 8]
        feed(mem, c, p, real, weights, lengths, offsets, table, sentences)
        trusted = fill_chart(mem, c, p, weights, lengths, sentences, safe, False)
        for lane in range(len(sentences)):
            b = sentences[lane]
            if not trusted & (1 << lane):
                failed[b] = True
                continue
            seed_stream(state, seed, b)
            for s in range(len(ids)):
                found = table[offsets[b] : offsets[b + 1]]
                draw_from_lanes(mem, c, p, g, real, b, lane, lengths[b], found, state, stack, ids[s, b])


__all__ = ["LOG_Z", "ROWS", "SUM", "draw", "run"]
