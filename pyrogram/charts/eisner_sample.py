# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of projective trees, top down through an inside chart.

A cell's derivations are drawn in proportion to their weights, then those of the cells that they are made of.
The chart is one lane of :mod:`.eisner_lanes`.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from .runtime.random_numbers import choose

# What is on the agenda: a half tree or a trapezoid, to the right or to the left; or the choice of the root.
RIGHT_TREE, LEFT_TREE, RIGHT_ARC, LEFT_ARC, ROOT = range(5)


@njit(nogil=True)
def real_terms(source, terms, kind, i, j):
    """Weights of the derivations of a cell in one lane; ``source`` is (mem, chart, lane)."""
    mem, c, lane = source
    width = 64 // mem.itemsize
    p = c.pitch
    count = j - i
    a, b, first, later = 0, 0, np.float64(1), np.float64(1)
    first_at = 0
    if kind == ROOT:
        for r in range(1, j + 1):
            left, right = mem[(c.LCr + p + r) * width + lane], mem[(c.RCc + j * p + r) * width + lane]
            terms[r - 1] = np.float64(mem[(c.a0 + r) * width + lane]) * left * right
        return j
    if kind == RIGHT_TREE:
        a, b = c.IR + i * p + i + 1, c.RCc + j * p + i + 1
    elif kind == LEFT_TREE:
        a, b = c.LCr + i * p + i, c.IL + j * p + i
    elif kind == RIGHT_ARC:
        a, b = c.RO + i * p + i, c.LCc + j * p + i + 1
        first, later = mem[(c.a0 + i * p + j) * width + lane], mem[(c.a1 + i * p + j) * width + lane]
    else:
        a, b = c.RCr + i * p + i, c.LO + j * p + i + 1
        first, later = mem[(c.a0 + j * p + i) * width + lane], mem[(c.a1 + j * p + i) * width + lane]
        first_at = count - 1
    for t in range(count):
        terms[t] = np.float64(mem[(a + t) * width + lane]) * mem[(b + t) * width + lane] * later
    if kind >= RIGHT_ARC and not c.plain:
        t = first_at
        terms[t] = np.float64(mem[(a + t) * width + lane]) * mem[(b + t) * width + lane] * first
    return count


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
        t = choose(terms, real_terms(source, terms, kind, i, j), state)
        if kind == ROOT:
            heads[t] = 0
            agenda[size] = (LEFT_TREE, 1, t + 1)
            agenda[size + 1] = (RIGHT_TREE, t + 1, n)
        elif kind == RIGHT_TREE:
            k = i + 1 + t
            agenda[size] = (RIGHT_ARC, i, k)
            agenda[size + 1] = (RIGHT_TREE, k, j)
        elif kind == LEFT_TREE:
            k = i + t
            agenda[size] = (LEFT_TREE, i, k)
            agenda[size + 1] = (LEFT_ARC, k, j)
        else:
            if kind == RIGHT_ARC:
                heads[j - 1] = i
            else:
                heads[i - 1] = j
            agenda[size] = (RIGHT_TREE, i, i + t)
            agenda[size + 1] = (LEFT_TREE, i + t + 1, j)
        size += 2
