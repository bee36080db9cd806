# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and posteriors of one sentence in log space, float64: slow, and exact wherever doubles are.

The fallback of :mod:`.projective_numba` for sentences whose scores are too extreme for real space. The recursion
and its letters are those of :mod:`.eisner_lanes`. The way down needs no logarithms: the posterior of a cell is
divided among its derivations in proportion to their weights, which are conditional probabilities.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit


class LogChart(NamedTuple):
    """Cells [i, j] in nats, and their posteriors (v...), for sentences of up to ``len(RO) - 1`` words."""

    RO: Any
    RC: Any
    LO: Any
    LC: Any
    IR: Any
    IL: Any
    vRC: Any
    vRO: Any
    vLC: Any
    vLO: Any
    vIR: Any
    vIL: Any
    terms: Any


def make_log_chart(n: int) -> LogChart:
    """Allocate for sentences of up to n words."""
    tables = [np.full((n + 1, n + 1), -np.inf) for _ in range(12)]
    return LogChart._make([*tables, np.zeros(n + 1)])


@njit(nogil=True)
def _log_sum(terms, count):
    """log sum exp of terms[:count]; -inf if all are."""
    top = -np.inf
    for t in range(count):
        if terms[t] > top or np.isnan(terms[t]):
            top = terms[t]
    if top == -np.inf or np.isnan(top) or top == np.inf:
        return top
    total = 0.0
    for t in range(count):
        total += np.exp(terms[t] - top)
    return top + np.log(total)


@njit(nogil=True)
def right_tree_terms(c, i, j):
    """Log weights of the derivations of RO(i, j), one for each outermost child k = i + 1 .. j."""
    for k in range(i + 1, j + 1):
        c.terms[k - i - 1] = c.IR[i, k] + c.RC[k, j]
    return j - i


@njit(nogil=True)
def left_tree_terms(c, i, j):
    """Log weights of the derivations of LO(i, j), one for each outermost child k = i .. j - 1."""
    for k in range(i, j):
        c.terms[k - i] = c.LC[i, k] + c.IL[k, j]
    return j - i


@njit(nogil=True)
def right_arc_terms(c, arcs, i, j):
    """Log weights of the derivations of IR(i, j), one for each end k = i .. j - 1 of what i has so far."""
    last = arcs.shape[2] - 1
    for k in range(i, j):
        c.terms[k - i] = arcs[i, j, 0 if k == i else last] + c.RO[i, k] + c.LC[k + 1, j]
    return j - i


@njit(nogil=True)
def left_arc_terms(c, arcs, i, j):
    """Log weights of the derivations of IL(i, j), one for each k = i .. j - 1 at which the two halves meet."""
    last = arcs.shape[2] - 1
    for k in range(i, j):
        c.terms[k - i] = arcs[j, i, 0 if k + 1 == j else last] + c.RC[i, k] + c.LO[k + 1, j]
    return j - i


@njit(nogil=True)
def root_terms(c, arcs, n):
    """Log weights of the single roots r = 1 .. n."""
    for r in range(1, n + 1):
        c.terms[r - 1] = arcs[0, r, 0] + c.LC[1, r] + c.RC[r, n]
    return n


@njit(nogil=True)
def log_inside(c, arcs, stops, has_stops, n, multiroot):
    """Fill the cells and return log Z. ``arcs`` (n+1, n+1, V), ``stops`` (n+1, 2, 2), read if ``has_stops``."""
    for j in range(n + 1):
        c.RO[j, j] = 0.0
        c.LO[j, j] = 0.0
        c.RC[j, j] = stops[j, 1, 0] if has_stops and j > 0 else 0.0
        c.LC[j, j] = stops[j, 0, 0] if has_stops and j > 0 else 0.0
        for i in range(j - 1, -1, -1):
            if i == 0 and not multiroot:
                continue
            c.IR[i, j] = _log_sum(c.terms, right_arc_terms(c, arcs, i, j))
            if i > 0:
                c.IL[i, j] = _log_sum(c.terms, left_arc_terms(c, arcs, i, j))
                c.LO[i, j] = _log_sum(c.terms, left_tree_terms(c, i, j))
                c.LC[i, j] = c.LO[i, j] + (stops[j, 0, 1] if has_stops else 0.0)
            c.RO[i, j] = _log_sum(c.terms, right_tree_terms(c, i, j))
            c.RC[i, j] = c.RO[i, j] + (stops[i, 1, 1] if has_stops and i > 0 else 0.0)
    if multiroot:
        return c.RC[0, n]
    return _log_sum(c.terms, root_terms(c, arcs, n))


@njit(nogil=True)
def _share(terms, t, total, mass):
    """Posterior of derivation t of a cell with the given log weight and posterior."""
    return mass * np.exp(terms[t] - total) if mass > 0 else 0.0


@njit(nogil=True)
def log_posteriors(c, arcs, has_stops, n, multiroot, log_z, arc_out, stop_out):
    """Posteriors of arcs and stops, added to ``arc_out`` and ``stop_out``; call :func:`log_inside` first."""
    if log_z == -np.inf:
        return
    for table in (c.vRC, c.vRO, c.vLC, c.vLO, c.vIR, c.vIL):
        table[: n + 1, : n + 1] = 0.0
    if multiroot:
        c.vRC[0, n] = 1.0
    else:
        for t in range(root_terms(c, arcs, n)):
            mass = _share(c.terms, t, log_z, 1.0)
            c.vLC[1, t + 1] += mass
            c.vRC[t + 1, n] += mass
            arc_out[0, t + 1, 0] += mass
    last = arcs.shape[2] - 1
    for j in range(n, 0, -1):
        for i in range(0 if multiroot else 1, j):
            _divide_trees(c, has_stops, i, j, stop_out)
            mass = c.vIR[i, j]
            for t in range(right_arc_terms(c, arcs, i, j)):
                share = _share(c.terms, t, c.IR[i, j], mass)
                c.vRO[i, i + t] += share
                c.vLC[i + t + 1, j] += share
                arc_out[i, j, 0 if t == 0 else last] += share
            mass = c.vIL[i, j]
            if i == 0:
                continue
            for t in range(left_arc_terms(c, arcs, i, j)):
                share = _share(c.terms, t, c.IL[i, j], mass)
                c.vRC[i, i + t] += share
                c.vLO[i + t + 1, j] += share
                arc_out[j, i, 0 if i + t + 1 == j else last] += share
        if has_stops:
            stop_out[j, 0, 0] += c.vLC[j, j]
            stop_out[j, 1, 0] += c.vRC[j, j]


@njit(nogil=True)
def _divide_trees(c, has_stops, i, j, stop_out):
    if has_stops:
        if i > 0:
            stop_out[i, 1, 1] += c.vRC[i, j]
        stop_out[j, 0, 1] += c.vLC[i, j]
    mass = c.vRC[i, j] + c.vRO[i, j]
    for t in range(right_tree_terms(c, i, j)):
        share = _share(c.terms, t, c.RO[i, j], mass)
        c.vIR[i, i + 1 + t] += share
        c.vRC[i + 1 + t, j] += share
    mass = c.vLC[i, j] + c.vLO[i, j]
    if i == 0:
        return
    for t in range(left_tree_terms(c, i, j)):
        share = _share(c.terms, t, c.LO[i, j], mass)
        c.vLC[i, i + t] += share
        c.vIL[i + t, j] += share
