# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass of :mod:`.cfg_tiles`: adjoints of log Z, and the posteriors of all rules."""

# mypy: disable-error-code="no-untyped-def"

from pyrogram.charts.runtime.compiling import borrowing, joined
from pyrogram.charts.runtime.lanes import any_lane, fill, fma, load, store

from .cfg_tiles import GREATEST, form_products, splits, unary_spans, weight
from .lanes_tiles import MOST, open_rules, push_pairs


@joined
def outside(mem, c, p, weights, lengths, sentences, good):
    """Adjoints of all cells and, in ``counts``, of the weights (that is, posteriors without them).

    :param good: the lanes whose inside chart can be trusted, as bits; in others all is zero, or nonsense.
    :returns: the lanes of these whose posteriors can be trusted.
    """
    zero = fill(mem, 0.0)
    n = 0
    for b in sentences:
        n = max(n, lengths[b])
    for q in range(p.num_weights):
        store(mem, c.counts + q, zero)
    for i in range(n):
        for place in range(c.outer + (i * c.pitch + i + 1) * c.S, c.outer + (i * c.pitch + n + 1) * c.S):
            store(mem, place, zero)
    for lane in range(len(sentences)):
        cell = lengths[sentences[lane]] * c.S + p.start
        if good & (1 << lane):
            mem[(c.outer + cell) * 8 + lane] = 1 / mem[(c.inner + cell) * 8 + lane]
    _open_spans(mem, c, p, weights, n)
    bound = zero
    for i in range(n):
        for place in range(c.outer + (i * c.pitch + i + 1) * c.S, c.outer + (i * c.pitch + n + 1) * c.S):
            bound = bound + load(mem, place)
    store(mem, c.outer_bound, bound)
    for lane in range(len(sentences)):
        if not mem[c.outer_bound * 8 + lane] < GREATEST:
            good &= ~(1 << lane)
    return good


@joined
def _open_spans(mem, c, p, weights, n):
    """From the greatest width to the least: adjoints from parents to products, from those to their symbols."""
    step, beyond = (c.pitch + 1) * c.S, c.outer - c.inner
    zero = fill(mem, 0.0)
    for width in range(n, 0, -1):
        ends = any_lane(load(mem, c.ends + width))
        _open_unary(mem, c, p, weights, n, width, ends)
        for piece in range(len(p.pieces) if width > 1 else 0):
            low, high = splits(p.pieces[piece], width)
            top = p.pieces[piece, 8] == 1
            spans = n - width + 1 if not top else 1 if ends else 0
            tiles = (spans + MOST - 1) // MOST if low <= high else 0
            for tile in range(tiles):
                i = spans * tile // tiles
                columns = spans * (tile + 1) // tiles - i
                form_products(mem, c, p, p.pieces[piece], i, width, columns, low, high)
                for x in range(p.pieces[piece, 9]):
                    store(mem, c.dX + x, zero)
                here = c.outer + (i * c.pitch + i + width) * c.S
                for g in range(p.pieces[piece, 2], p.pieces[piece, 3]):
                    open_rules(mem, p.groups, g, columns, here, step, c.X, c.dX, c.counts, p.entries, weights)
                for span in range(columns):
                    left = c.inner + ((i + span) * c.pitch + i + span + low) * c.S
                    right = c.inner + ((i + span + low) * c.pitch + i + span + width) * c.S
                    for b in range(p.pieces[piece, 0], p.pieces[piece, 1]):
                        push_pairs(
                            mem, p.blocks, b, left, right, c.S, c.pitch * c.S, high - low + 1, beyond, c.dX + span
                        )


@borrowing
def _open_unary(mem, c, p, weights, n, width, ends):
    first = len(p.source) - len(p.unary)
    for u in range(len(p.unary) - 1, -1, -1):
        w, count = weight(mem, weights, first + u), load(mem, c.counts + first + u)
        for i in range(unary_spans(p, u, n, width, ends)):
            here = (i * c.pitch + i + width) * c.S
            child = here + p.unary[u, 1]
            adjoint = load(mem, c.outer + here + p.unary[u, 0])
            count = fma(adjoint, load(mem, c.inner + child), count)
            store(mem, c.outer + child, fma(adjoint, w, load(mem, c.outer + child)))
        store(mem, c.counts + first + u, count)
