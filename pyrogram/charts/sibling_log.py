# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and posteriors of one sentence with sibling scores in log space, float64: slow, exact wherever doubles are.

The fallback of :mod:`.sibling_numba` for sentences whose scores are too extreme for real space; its recursion and
letters are those of :mod:`.sibling_lanes`. The way down needs no logarithms: the posterior of a cell is divided
among its derivations in proportion to their weights, which are conditional probabilities.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .eisner_log import _log_sum, _share


class Scores(NamedTuple):
    """One sentence: ``arcs`` (N, N), ``siblings`` (N, N, N), and ``stops`` (N, 2, N), or (0, 2, 0) for none."""

    arcs: Any
    siblings: Any
    stops: Any


class LogChart(NamedTuple):
    """Cells [i, j] in nats, and their posteriors (v...), for sentences of up to ``len(RC) - 1`` words."""

    RC: Any
    LC: Any
    IR: Any
    IL: Any
    B: Any
    vRC: Any
    vLC: Any
    vIR: Any
    vIL: Any
    vB: Any
    terms: Any


def make_log_chart(n: int) -> LogChart:
    """Allocate for sentences of up to n words."""
    tables = [np.full((n + 1, n + 1), -np.inf) for _ in range(10)]
    return LogChart._make([*tables, np.zeros(n + 1)])


@njit(nogil=True)
def event(s, h, m, r):
    """Score of the arc from h to m after the sibling r."""
    return s.arcs[h, m] + np.float64(s.siblings[h, m, r])


@njit(nogil=True)
def stop(s, h, direction, last):
    """Score of having no child after ``last``; the wall has none."""
    return np.float64(s.stops[h, direction, last]) if len(s.stops) > 0 and h > 0 else 0.0


@njit(nogil=True)
def right_tree_terms(c, s, i, j):
    """Log weights of the derivations of RC(i, j), one for each last child m = i + 1 .. j."""
    for m in range(i + 1, j + 1):
        c.terms[m - i - 1] = c.IR[i, m] + stop(s, i, 1, m) + c.RC[m, j]
    return j - i


@njit(nogil=True)
def left_tree_terms(c, s, i, j):
    """Log weights of the derivations of LC(i, j), one for each last child m = i .. j - 1."""
    for m in range(i, j):
        c.terms[m - i] = c.LC[i, m] + c.IL[m, j] + stop(s, j, 0, m)
    return j - i


@njit(nogil=True)
def right_arc_terms(c, s, i, j):
    """Log weights of the derivations of IR(i, j), one for each sibling r = i .. j - 1, where i stands for none."""
    c.terms[0] = c.LC[i + 1, j] + event(s, i, j, i)
    for r in range(i + 1, j):
        c.terms[r - i] = c.IR[i, r] + c.B[r, j] + event(s, i, j, r)
    return j - i


@njit(nogil=True)
def left_arc_terms(c, s, i, j):
    """Log weights of the derivations of IL(i, j), one for each sibling r = i + 1 .. j, where j stands for none."""
    for r in range(i + 1, j):
        c.terms[r - i - 1] = c.B[i, r] + c.IL[r, j] + event(s, j, i, r)
    c.terms[j - i - 1] = c.RC[i, j - 1] + event(s, j, i, j)
    return j - i


@njit(nogil=True)
def between_terms(c, i, j):
    """Log weights of the derivations of B(i, j), one for each end k = i .. j - 1 of what descends from i."""
    for k in range(i, j):
        c.terms[k - i] = c.RC[i, k] + c.LC[k + 1, j]
    return j - i


@njit(nogil=True)
def root_terms(c, s, n):
    """Log weights of the single roots r = 1 .. n."""
    for r in range(1, n + 1):
        c.terms[r - 1] = event(s, 0, r, 0) + c.LC[1, r] + c.RC[r, n]
    return n


@njit(nogil=True)
def log_inside(c, s, n, multiroot):
    """Fill the cells and return log Z."""
    for j in range(n + 1):
        c.RC[j, j] = stop(s, j, 1, j)
        c.LC[j, j] = stop(s, j, 0, j)
        for i in range(j - 1, -1, -1):
            if i == 0 and not multiroot:
                continue
            c.IR[i, j] = _log_sum(c.terms, right_arc_terms(c, s, i, j))
            c.RC[i, j] = _log_sum(c.terms, right_tree_terms(c, s, i, j))
            if i > 0:
                c.B[i, j] = _log_sum(c.terms, between_terms(c, i, j))
                c.IL[i, j] = _log_sum(c.terms, left_arc_terms(c, s, i, j))
                c.LC[i, j] = _log_sum(c.terms, left_tree_terms(c, s, i, j))
    if multiroot:
        return c.RC[0, n]
    return _log_sum(c.terms, root_terms(c, s, n))


@njit(nogil=True)
def log_posteriors(c, s, n, multiroot, log_z, out):
    """Posteriors of siblings and stops into ``out`` (of which arcs are the sums); call :func:`log_inside` first."""
    if log_z == -np.inf:
        return
    for table in (c.vRC, c.vLC, c.vIR, c.vIL, c.vB):
        table[: n + 1, : n + 1] = 0.0
    if multiroot:
        c.vRC[0, n] = 1.0
    else:
        for t in range(root_terms(c, s, n)):
            mass = _share(c.terms, t, log_z, 1.0)
            c.vLC[1, t + 1] += mass
            c.vRC[t + 1, n] += mass
            out.siblings[0, t + 1, 0] += mass
    has_stops = len(s.stops) > 0
    for j in range(n, 0, -1):
        for i in range(0 if multiroot else 1, j):
            _divide_trees(c, s, i, j, out)
            if i > 0:
                mass = c.vB[i, j]
                for t in range(between_terms(c, i, j)):
                    share = _share(c.terms, t, c.B[i, j], mass)
                    c.vRC[i, i + t] += share
                    c.vLC[i + t + 1, j] += share
        if has_stops:
            out.stops[j, 0, j] += c.vLC[j, j]
            out.stops[j, 1, j] += c.vRC[j, j]


@njit(nogil=True)
def _divide_trees(c, s, i, j, out):
    has_stops = len(s.stops) > 0
    mass = c.vRC[i, j]
    for t in range(right_tree_terms(c, s, i, j)):
        m = i + 1 + t
        share = _share(c.terms, t, c.RC[i, j], mass)
        c.vIR[i, m] += share
        c.vRC[m, j] += share
        if has_stops and i > 0:
            out.stops[i, 1, m] += share
    mass = c.vIR[i, j]
    for t in range(right_arc_terms(c, s, i, j)):
        share = _share(c.terms, t, c.IR[i, j], mass)
        out.siblings[i, j, i + t] += share
        if t == 0:
            c.vLC[i + 1, j] += share
        else:
            c.vIR[i, i + t] += share
            c.vB[i + t, j] += share
    if i == 0:
        return
    mass = c.vLC[i, j]
    for t in range(left_tree_terms(c, s, i, j)):
        m = i + t
        share = _share(c.terms, t, c.LC[i, j], mass)
        c.vLC[i, m] += share
        c.vIL[m, j] += share
        if has_stops:
            out.stops[j, 0, m] += share
    mass = c.vIL[i, j]
    for t in range(left_arc_terms(c, s, i, j)):
        r = i + 1 + t
        share = _share(c.terms, t, c.IL[i, j], mass)
        out.siblings[j, i, r] += share
        if r == j:
            c.vRC[i, j - 1] += share
        else:
            c.vB[i, r] += share
            c.vIL[r, j] += share
