# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings sweeps for context-free grammars: proposals from the counts of all others, one sentence after the other."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from .cfg_log import grammar_of
from .cfg_rules import RuleTable, longest
from .cfg_sweeps import table_of
from .cfg_sweeps_chart import Layout, draw, make_memory, trusted_inside
from .compiling import kernel
from .eisner_sample import seed_stream, uniform


def hastings(
    layout: Layout,
    rules: RuleTable,
    counts: Any,
    alpha: Any,
    trees: Any,
    order: Any,
    batch_size: int,
    seed: int,
    temperature: float,
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.sweeps.Sweeps.hastings`.

    :param counts: shape (R,), changed.
    :param trees: shape (N, L), changed.
    :returns: whose proposals were accepted, and which sentences failed, which keep their trees.
    """
    N = len(layout.lengths)
    accepted, failed = np.zeros(N, np.bool_), np.zeros(N, np.bool_)
    g, num = grammar_of(rules), int(layout.owner.max()) + 1
    memory = make_memory(layout, g, num)
    table, sums = table_of(layout, counts, alpha, num)
    members = min(batch_size, max(N, 1))
    proposed = np.full((members, longest(rules, int(layout.lengths.max(initial=1)))), -1, np.int64)
    log_q, states = np.zeros((members, 2)), np.zeros((members, 1), np.uint64)
    scratch = proposed, log_q, states
    _hastings_sweep(
        g, layout, memory, table, sums, trees, order, batch_size, seed, 1 / temperature, *scratch, accepted, failed
    )
    counts[:] = table[:, 0]
    return accepted, failed


@njit(nogil=True)
def _weigh(g, layout, x, b, table, sums, power):
    """Weights from the counts as they are."""
    for A in range(len(sums)):
        x.inverse[A] = 1 / (max(sums[A, 0], 0.0) + sums[A, 1])
    for r in range(len(g.parent)):
        x.binary[r] = _weight(layout, x, table, g.event[r], power)
    for u in range(len(g.unary)):
        x.unary[u] = _weight(layout, x, table, g.unary[u, 2], power)
    first = layout.offsets[b]
    for m in range(layout.offsets[b + 1] - first):
        x.match[m] = _weight(layout, x, table, layout.event[first + m], power)


@njit(nogil=True, forceinline=True)
def _weight(layout, x, table, event, power):
    if event < 0:
        return 1.0
    w = (max(table[event, 0], 0.0) + table[event, 1]) * x.inverse[layout.owner[event]]
    return w if power == 1 else w**power


@njit(nogil=True)
def _log_weight(layout, x, table, ids, power):
    """log of the weight of a derivation under the weights of the proposal."""
    score = 0.0
    for event in ids:
        if event < 0:
            break
        score += np.log(_weight(layout, x, table, event, 1.0))
    return score * power


@njit(nogil=True, forceinline=True)
def _add(layout, table, sums, ids, sign):
    for event in ids:
        if event < 0:
            break
        table[event, 0] += sign
        sums[layout.owner[event], 0] += sign


@njit(nogil=True)
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


@kernel
def _hastings_sweep(
    g, layout, x, table, sums, trees, order, batch_size, seed, power, proposed, log_q, states, accepted, failed
):
    c = 1.0
    width = min(trees.shape[1], proposed.shape[1])
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            _add(layout, table, sums, trees[b], -1.0)
        for k in range(len(members)):
            b = members[k]
            _weigh(g, layout, x, b, table, sums, power)
            z, c = trusted_inside(g, layout, x, b, c)
            failed[b] = not z > 0
            seed_stream(states[k], seed, b)
            if not failed[b]:
                draw(g, layout, x, b, states[k], proposed[k])
                log_q[k, 0] = _log_weight(layout, x, table, trees[b], power)
                log_q[k, 1] = _log_weight(layout, x, table, proposed[k], power)
        for b in members:
            _add(layout, table, sums, trees[b], 1.0)
        for k in range(len(members)):
            b = members[k]
            if failed[b]:
                continue
            if (proposed[k, :width] == trees[b, :width]).all():  # then so are all probabilities
                accepted[b] = True
                continue
            old = _predict(layout, table, sums, trees[b], -1.0)
            new = _predict(layout, table, sums, proposed[k], 1.0)
            if np.log(uniform(states[k])) < power * (new - old) - (log_q[k, 1] - log_q[k, 0]):
                accepted[b] = True
                trees[b, :] = -1
                trees[b, :width] = proposed[k, :width]
            else:
                _add(layout, table, sums, proposed[k], -1.0)
                _add(layout, table, sums, trees[b], 1.0)
