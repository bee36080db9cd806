# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes for context-free grammars, one sentence at a time in real space.

Each sentence has its own weights, those of the corpus without itself, so what counts is to touch nothing but the events
that can occur in it: those of its matches and of the rules that are not lexical. Its *own* counts are a list over them
(:class:`.Layout`); a grammar of half a million lexical rules costs no more than one of a hundred.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from .cfg_log import grammar_of
from .cfg_plan import plan_of
from .cfg_rules import Matches, RuleTable
from .cfg_sweeps_chart import GREATEST, Layout, make_memory, outside, trusted_inside
from .compiling import kernel


def make_layout(rules: RuleTable, matches: Matches, owner: Any) -> Layout:
    g, plan = grammar_of(rules), plan_of(rules, matches)
    table, lengths = matches.in_order, matches.lengths
    own = matches.sentence
    cell = (table[:, 0] * (lengths[own] + 1) + table[:, 1]) * rules.num_symbols + table[:, 2]
    events = np.concatenate([g.event, g.unary[:, 2]])
    first = np.unique(events[events >= 0])  # the rules' events, which all sentences have
    lexical = table[:, 3] >= 0
    R = rules.num_events
    keys, inverse = np.unique(own[lexical] * R + table[lexical, 3], return_inverse=True)
    sizes = np.bincount(keys // R, minlength=len(lengths))
    starts = np.concatenate([[0], np.cumsum(sizes + len(first))])
    local = np.full(len(table), -1, np.int32)
    before = np.concatenate([[0], np.cumsum(sizes)])
    local[lexical] = len(first) + inverse - before[own[lexical]]
    found = np.empty(starts[-1], np.int64)
    place = np.arange(len(keys)) + (keys // R + 1) * len(first)
    found[place] = keys % R
    found[(starts[:-1, None] + np.arange(len(first))).reshape(-1)] = np.tile(first, len(lengths))
    child = np.zeros(rules.num_symbols, np.bool_)
    child[rules.binary[:, 1:3].reshape(-1)] = True
    child[rules.unary[:, 1]] = True
    top = np.ones(len(g.pairs), np.bool_)
    np.logical_and.at(top, g.pair, ~child[g.parent])
    return Layout(
        owner=np.ascontiguousarray(owner, np.int64),
        lengths=lengths,
        offsets=matches.offsets,
        cell=cell.astype(np.int32),
        width=(table[:, 1] - table[:, 0]).astype(np.int32),
        event=table[:, 3].astype(np.int32),
        local=local,
        starts=starts,
        events=found.astype(np.int32),
        of_binary=_places(first, g.event),
        of_unary=_places(first, g.unary[:, 2]),
        low=plan.low,
        high=plan.high,
        top=top,
    )


def collapsed_vb(
    layout: Layout, rules: RuleTable, counts: Any, alpha: Any, own: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any, Any]:
    """One sweep; see :meth:`pyrogram.sweeps.Sweeps.collapsed_vb`.

    A sentence that cannot be trusted fails: its counts stay as they are, in ``counts`` and in ``out``.

    :param counts: shape (R,), changed.
    :param alpha: shape (R,).
    :param own: own counts of all sentences.
    :param out: the new ones.
    :returns: log Z and entropy of each sentence, and which failed.
    """
    N = len(layout.lengths)
    log_z, entropies, failed = np.full(N, -np.inf), np.full(N, -np.inf), np.zeros(N, np.bool_)
    g, num = grammar_of(rules), int(layout.owner.max()) + 1
    memory = make_memory(layout, g, num)
    table, sums = table_of(layout, counts, alpha, num)
    _vb_sweep(g, layout, memory, table, sums, own, out, order, batch_size, log_z, entropies, failed)
    counts[:] = table[:, 0]
    return log_z, entropies, failed


def expect(layout: Layout, rules: RuleTable, weights: Any, out: Any) -> tuple[Any, Any, Any]:
    """log Z and entropy of each sentence under given weights (R,), normalised or not, and which failed.

    Expected counts go to ``out``.
    """
    N = len(layout.lengths)
    log_z, entropies, failed = np.full(N, -np.inf), np.full(N, -np.inf), np.zeros(N, np.bool_)
    g, num = grammar_of(rules), int(layout.owner.max()) + 1
    # Nothing is counted yet, and sums of one leave the weights as they are. In one batch, nothing ever is.
    table, sums = np.stack([np.zeros_like(weights), weights], 1), np.tile([0.0, 1.0], (num, 1))
    own, order = np.zeros_like(out), np.arange(N)
    memory = make_memory(layout, g, num)
    _vb_sweep(g, layout, memory, table, sums, own, out, order, max(N, 1), log_z, entropies, failed)
    return log_z, entropies, failed


def total(layout: Layout, own: Any, num_events: int) -> Any:
    """Own counts of all sentences, shape (R,)."""
    return np.bincount(layout.events, weights=own, minlength=num_events)


def table_of(layout: Layout, counts: Any, alpha: Any, num: int) -> tuple[Any, Any]:
    """Counts and α side by side, and their sums by multinomial."""
    table = np.stack([counts, alpha], 1)
    sums = [np.bincount(layout.owner, weights=x, minlength=num) for x in (counts, alpha)]
    return table, np.stack(sums, 1)


def _places(first: Any, events: Any) -> Any:
    """Where events stand in a sorted list; -1 for no event."""
    return np.where(events >= 0, np.searchsorted(first, events), -1)


@njit(nogil=True)
def _weigh_without(g, layout, x, b, table, sums, own):
    """Weights from the counts of all other sentences."""
    first, end = layout.starts[b], layout.starts[b + 1]
    x.sums[:] = 0
    for e in range(first, end):
        x.sums[layout.owner[layout.events[e]]] += own[e]
    for A in range(len(sums)):
        x.inverse[A] = 1 / (max(sums[A, 0] - x.sums[A], 0.0) + sums[A, 1])
    for e in range(first, end):
        event = layout.events[e]
        x.local[e - first] = (max(table[event, 0] - own[e], 0.0) + table[event, 1]) * x.inverse[layout.owner[event]]
    _spread(layout, x, b)


@njit(nogil=True)
def _spread(layout, x, b):
    """Weights of events to the matches and rules that bear them."""
    for r in range(len(x.binary)):
        x.binary[r] = x.local[layout.of_binary[r]] if layout.of_binary[r] >= 0 else 1.0
    for u in range(len(x.unary)):
        x.unary[u] = x.local[layout.of_unary[u]] if layout.of_unary[u] >= 0 else 1.0
    first = layout.offsets[b]
    for m in range(layout.offsets[b + 1] - first):
        e = layout.local[first + m]
        x.match[m] = x.local[e] if e >= 0 else 1.0


@njit(nogil=True)
def _count(layout, x, b, out):
    """Expected counts of the sentence's events; returns the sum of counts times log weights."""
    start, end = layout.starts[b], layout.starts[b + 1]
    out[start:end] = 0
    for r in range(len(x.binary)):
        if layout.of_binary[r] >= 0:
            out[start + layout.of_binary[r]] += x.binary_counts[r]
    for u in range(len(x.unary)):
        if layout.of_unary[u] >= 0:
            out[start + layout.of_unary[u]] += x.unary_counts[u]
    first = layout.offsets[b]
    for m in range(layout.offsets[b + 1] - first):
        if layout.local[first + m] >= 0:
            power = x.power[layout.width[first + m]]
            out[start + layout.local[first + m]] += x.outer[layout.cell[first + m]] * x.match[m] * power
    score = 0.0
    for e in range(start, end):
        if out[e] > 0:
            score += out[e] * np.log(x.local[e - start])
    return score


@kernel
def _vb_sweep(g, layout, x, table, sums, own, out, order, batch_size, log_z, entropies, failed):
    c = 1.0
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            start, end = layout.starts[b], layout.starts[b + 1]
            _weigh_without(g, layout, x, b, table, sums, own)
            z, c = trusted_inside(g, layout, x, b, c)
            failed[b] = not (z > 0 and outside(g, layout, x, b, z) < GREATEST)
            if failed[b]:
                out[start:end] = own[start:end]
                continue
            log_z[b] = np.log(z) - layout.lengths[b] * np.log(c)
            entropies[b] = log_z[b] - _count(layout, x, b, out)
        for b in members:
            for e in range(layout.starts[b], layout.starts[b + 1]):
                event, gain = layout.events[e], out[e] - own[e]
                table[event, 0] = max(table[event, 0] + gain, 0.0)
                sums[layout.owner[event], 0] += gain
