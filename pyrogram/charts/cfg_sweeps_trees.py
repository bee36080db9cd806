# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings sweeps for context-free grammars, eight sentences at a time in lanes.

Proposals for a batch come from the counts without any derivation of the batch: all its sentences share their weights,
which are made once for a batch. Then they are accepted or not one after the other, see
:meth:`pyrogram.collapsed.CollapsedUpdates.hastings`.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing, inlined, joined, kernel
from pyrogram.charts.runtime.lanes_memory import aligned
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform

from .cfg_rules import RuleTable, grammar_of, longest
from .cfg_sweeps import table_of
from .cfg_sweeps_layout import Layout
from .cfg_sweeps_rows import LANES
from .cfg_tiles import LEAST, LEAST_WEIGHT, TileChart, fill_chart, make_memory, watch
from .cfg_tiles_draw import draw_from_lanes
from .cfg_tiles_outside import outside
from .cfg_tiles_plan import TilePlan


class _Scratch(NamedTuple):
    """Memory for a batch."""

    real: Any  # (R + 2,), weights of events, as far as they can occur in the batch; of no event; of no rule
    weights: Any  # of the plan
    match: Any  # weights of matches, lane by lane
    inverse: Any  # one over the sum of a multinomial's pseudo-counts
    proposed: Any  # (batch_size, L)
    log_q: Any  # (batch_size, 2), of the old and the proposed derivation
    states: Any  # (batch_size, 1), of the generators
    stack: Any


def hastings(
    layout: Layout,
    plan: TilePlan,
    chart: TileChart,
    rules: RuleTable,
    counts: Any,
    alpha: Any,
    trees: Any,
    order: Any,
    batch_size: int,
    seed: int,
    temperature: float,
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.hastings`.

    :param counts: shape (R,), changed.
    :param trees: shape (N, L), changed.
    :returns: whose proposals were accepted, and which sentences failed, which keep their trees.
    """
    N, n = len(layout.lengths), int(layout.lengths.max(initial=1))
    accepted, failed = np.zeros(N, np.bool_), np.zeros(N, np.bool_)
    table, sums = table_of(layout, counts, alpha)
    members, most = min(batch_size, max(N, 1)), -(-layout.most_matches // LANES) * LANES
    scratch = _Scratch(
        real=np.concatenate([np.zeros(len(counts)), [1.0, 0.0]]),
        weights=np.zeros(plan.num_weights),
        match=aligned(most * LANES),
        inverse=np.zeros(layout.multinomials),
        proposed=np.full((members, longest(rules, n)), -1, np.int64),
        log_q=np.zeros((members, 2)),
        states=np.zeros((members, 1), np.uint64),
        stack=np.zeros((n + 2, 3), np.int64),
    )
    arrays = table, sums, trees, order, batch_size, seed, 1 / temperature
    _hastings_sweep(make_memory(chart), chart, plan, grammar_of(rules), layout, scratch, *arrays, accepted, failed)
    counts[:] = table[:, 0]
    return accepted, failed


@kernel
def _hastings_sweep(mem, c, p, g, layout, x, table, sums, trees, order, batch_size, seed, power, accepted, failed):
    shift = 0.0
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            _add(layout, table, sums, trees[b], -1.0)
        least = _weigh(p, layout, x, members, table, sums, power)
        for start in range(0, len(members), LANES):
            some = members[start : start + LANES]
            good, shift = _fill(mem, c, p, layout, x, some, least, shift)
            for lane in range(len(some)):
                b, k = some[lane], start + lane
                failed[b] = not good & (1 << lane)
                if failed[b]:
                    continue
                seed_stream(x.states[k], seed, b)
                found = layout.table[layout.offsets[b] : layout.offsets[b + 1]]
                draw_from_lanes(
                    mem, c, p, g, x.real, lane, layout.lengths[b], found, x.states[k], x.stack, x.proposed[k]
                )
                x.log_q[k, 0] = _log_weight(x.real, trees[b])
                x.log_q[k, 1] = _log_weight(x.real, x.proposed[k])
        for b in members:
            _add(layout, table, sums, trees[b], 1.0)
        for k in range(len(members)):
            b = members[k]
            if not failed[b]:
                ratio = power, x.log_q[k, 1] - x.log_q[k, 0]
                accepted[b] = _accept(layout, table, sums, trees[b], x.proposed[k], ratio, x.states[k])


@borrowing
def _weigh(p, layout, x, members, table, sums, power):
    """Weights from the counts as they are, of all events that can occur in a batch; returns the least."""
    for A in range(len(sums)):
        x.inverse[A] = 1 / (max(sums[A, 0], 0.0) + sums[A, 1])
    least = 1.0
    for event in layout.rules:
        x.real[event] = _weight(layout, x, table, event, power)
        least = min(least, x.real[event])
    for q in range(len(p.source)):
        x.weights[q] = x.real[p.source[q]]
    for b in members:
        for i in range(layout.starts[b], layout.starts[b + 1]):
            event = layout.events[i]
            x.real[event] = _weight(layout, x, table, event, power)
    return least


@inlined
def _weight(layout, x, table, event, power):
    w = (max(table[event, 0], 0.0) + table[event, 1]) * x.inverse[layout.owner[event]]
    return w if power == 1 else w**power


@joined
def _fill(mem, c, p, layout, x, sentences, least, shift):
    """The inside chart; which lanes can be trusted, as bits, and a shift for the next sentences."""
    room, n = len(x.match) // 8, 0
    for lane in range(len(sentences)):
        b = sentences[lane]
        n = max(n, layout.lengths[b])
        for m in range(layout.offsets[b], layout.offsets[b + 1]):
            event = layout.table[m, 3]
            x.match[lane * room + m - layout.offsets[b]] = x.real[event] if event >= 0 else 1.0
    good, shift = fill_chart(mem, c, p, layout, x.weights, x.match, sentences, shift)
    watch(mem, c, n)
    sure = least >= LEAST_WEIGHT
    for lane in range(len(sentences)):
        sure = sure and mem[c.least * 8 + lane] >= LEAST
    if not sure:
        good = outside(mem, c, p, x.weights, layout.lengths, sentences, good)
    return good, shift


@borrowing
def _log_weight(real, ids):
    """log of the weight of a derivation under the weights of the proposal."""
    total, product = 0.0, 1.0
    for event in ids:
        if event < 0:
            break
        if product < 1e-200:
            total += np.log(product)
            product = 1.0
        product *= real[event]
    return total + np.log(product)


@inlined
def _add(layout, table, sums, ids, sign):
    for event in ids:
        if event < 0:
            break
        table[event, 0] += sign
        sums[layout.owner[event], 0] += sign


@borrowing
def _accept(layout, table, sums, tree, proposed, ratio, state):
    """Replace a derivation and its counts by what is proposed, or leave them."""
    width = min(len(tree), len(proposed))
    k = 0
    while k < width and proposed[k] == tree[k]:
        k += 1
    if k == width:  # then so are all probabilities
        return True
    power, log_q = ratio
    old = _predict(layout, table, sums, tree, -1.0)
    new = _predict(layout, table, sums, proposed, 1.0)
    if np.log(uniform(state)) < power * (new - old) - log_q:
        for k in range(len(tree)):
            tree[k] = proposed[k] if k < width else -1
        return True
    _add(layout, table, sums, proposed, -1.0)
    _add(layout, table, sums, tree, 1.0)
    return False


@borrowing
def _predict(layout, table, sums, ids, sign):
    """log P(t | t^-i), and t's events added to the counts or, if ``sign`` is -1, taken out of them."""
    total, product = 0.0, 1.0
    for event in ids:
        if event < 0:
            break
        owner = layout.owner[event]
        if sign < 0:
            table[event, 0] -= 1
            sums[owner, 0] -= 1
        product *= (max(table[event, 0], 0.0) + table[event, 1]) / (max(sums[owner, 0], 0.0) + sums[owner, 1])
        if sign > 0:
            table[event, 0] += 1
            sums[owner, 0] += 1
        if product < 1e-200:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)
