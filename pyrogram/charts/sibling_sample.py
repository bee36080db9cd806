# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of projective trees with sibling scores, top down through an inside chart.

A cell's derivations are drawn in proportion to their weights, then those of the cells that they are made of.
The charts are those of :mod:`.sibling_lanes` (one lane of it) or :mod:`.sibling_log`.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit
from numba.extending import overload

from pyrogram.charts.runtime.random_numbers import choose

from .sibling_log import (
    between_terms,
    left_arc_terms,
    left_tree_terms,
    right_arc_terms,
    right_tree_terms,
    root_terms,
)

# What is on the agenda: a half tree or a trapezoid, to the right or to the left; what is between siblings; the root.
RIGHT_TREE, LEFT_TREE, RIGHT_ARC, LEFT_ARC, BETWEEN, ROOT = range(6)


@njit(nogil=True)
def real_terms(source, terms, kind, i, j):
    """Weights of the derivations of a cell in one lane; ``source`` is (mem, chart, lane, the sentence's siblings)."""
    mem, c, lane, siblings = source
    width = 64 // mem.itemsize
    p = c.pitch
    if kind == ROOT:
        for r in range(1, j + 1):
            tree = np.float64(mem[(c.LCr + p + r) * width + lane]) * mem[(c.RCc + j * p + r) * width + lane]
            terms[r - 1] = tree * mem[(c.root + r) * width + lane]
        return j
    count = j - i
    if kind == RIGHT_TREE:
        a, b = c.JR + i * p + i + 1, c.RCc + j * p + i + 1
    elif kind == LEFT_TREE:
        a, b = c.LCr + i * p + i, c.JL + j * p + i
    elif kind == RIGHT_ARC:
        a, b = c.IR + i * p + i, c.Bc + j * p + i
    elif kind == LEFT_ARC:
        a, b = c.Br + i * p + i + 1, c.IL + j * p + i + 1
    else:
        a, b = c.RCr + i * p + i, c.LCc + j * p + i + 1
    for t in range(count):
        terms[t] = np.float64(mem[(a + t) * width + lane]) * mem[(b + t) * width + lane]
    if kind == RIGHT_ARC:
        terms[0] = mem[(c.LCc + j * p + i + 1) * width + lane]
        _weigh(source, terms, i, j, i, count)
    elif kind == LEFT_ARC:
        terms[count - 1] = mem[(c.RCr + i * p + j - 1) * width + lane]
        _weigh(source, terms, j, i, i + 1, count)
    return count


@njit(nogil=True)
def _weigh(source, terms, h, m, first, count):
    """Multiply terms with the weights of the arc from h to m after the siblings ``first``, ``first + 1``, ..."""
    mem, c, lane, siblings = source
    width = 64 // mem.itemsize
    arc = mem[(c.a + h * c.pitch + m) * width + lane]
    shift = np.float64(mem[(c.shifts + m) * width + lane])
    for t in range(count):
        if terms[t] > 0:
            terms[t] *= np.exp((siblings[h, m, first + t] + arc) - shift)


@njit(nogil=True)
def log_terms(source, terms, kind, i, j):
    """Weights of the derivations of a cell of a chart in log space; ``source`` is (chart, scores)."""
    c, s = source
    if kind == ROOT:
        count = root_terms(c, s, j)
    elif kind == RIGHT_TREE:
        count = right_tree_terms(c, s, i, j)
    elif kind == LEFT_TREE:
        count = left_tree_terms(c, s, i, j)
    elif kind == RIGHT_ARC:
        count = right_arc_terms(c, s, i, j)
    elif kind == LEFT_ARC:
        count = left_arc_terms(c, s, i, j)
    else:
        count = between_terms(c, i, j)
    top = c.terms[:count].max()
    for t in range(count):
        terms[t] = np.exp(c.terms[t] - top)
    return count


def _fill_terms(source, terms, kind, i, j):
    raise NotImplementedError("compiled code only")


@overload(_fill_terms)
def _(source, terms, kind, i, j):
    return real_terms.py_func if len(source) == 4 else log_terms.py_func


@njit(nogil=True)
def draw_tree(source, n, multiroot, state, terms, agenda, heads):
    """Write one tree of n words into ``heads``; ``agenda`` (2n + 2, 3) and ``terms`` (n + 1,) are scratch."""
    agenda[0] = (RIGHT_TREE if multiroot else ROOT, 0, n)
    size = 1
    while size > 0:
        size -= 1
        kind, i, j = agenda[size, 0], agenda[size, 1], agenda[size, 2]
        if i == j:
            continue
        t = choose(terms, _fill_terms(source, terms, kind, i, j), state)
        if kind == ROOT:
            heads[t] = 0
            agenda[size] = (LEFT_TREE, 1, t + 1)
            agenda[size + 1] = (RIGHT_TREE, t + 1, n)
        elif kind == RIGHT_TREE:
            agenda[size] = (RIGHT_ARC, i, i + 1 + t)
            agenda[size + 1] = (RIGHT_TREE, i + 1 + t, j)
        elif kind == LEFT_TREE:
            agenda[size] = (LEFT_TREE, i, i + t)
            agenda[size + 1] = (LEFT_ARC, i + t, j)
        elif kind == BETWEEN:
            agenda[size] = (RIGHT_TREE, i, i + t)
            agenda[size + 1] = (LEFT_TREE, i + t + 1, j)
        elif kind == RIGHT_ARC:
            heads[j - 1] = i
            agenda[size] = (RIGHT_ARC, i, i + t)
            agenda[size + 1] = (BETWEEN, i + t, j) if t > 0 else (LEFT_TREE, i + 1, j)
        else:
            r = i + 1 + t
            heads[i - 1] = j
            agenda[size] = (BETWEEN, i, r) if r < j else (RIGHT_TREE, i, j - 1)
            agenda[size + 1] = (LEFT_ARC, r, j)
        size += 2
