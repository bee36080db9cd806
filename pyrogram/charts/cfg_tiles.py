# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside of context-free grammars for eight sentences at a time, width by width, in scaled real space.

The recursion is that of :mod:`.cfg_page`. Every sentence has weights of its own, so that to fetch them is most of the
work. Therefore up to four spans of the same width are done at once, in tiles of four parents or left symbols
(:mod:`.lanes_tiles`), so that a weight that is fetched serves four spans.

Cells (i, k) carry the factors f of the words i + 1 .. k: powers of two, such that the greatest weight of a word alone
is about one, times a power of two for all words of a sentence, such that Z is a comfortable number. So no digit
depends on the factors.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.bounds import guarded, room
from pyrogram.charts.runtime.compiling import borrowing, inlined, joined
from pyrogram.charts.runtime.lanes import any_lane, exponent_of, fill, fma, load, maximum, power_of_two, store
from pyrogram.charts.runtime.lanes_memory import aligned

from .cfg_tiles_plan import TilePlan
from .lanes_tiles import MOST, apply_rules, least_positive, multiply_pairs

# Bounds on cells and adjoints that are trusted: what is flushed to zero is below 2**-1022, and times that harmless.
GREATEST = 2.0**600
# Weights and cells whose products cannot be flushed to zero.
LEAST_WEIGHT, LEAST = 2.0**-100, 2.0**-450
# If Z is out of range, the next factors make it so many powers of two greater or less; so often.
_STEP, _TRIES = 1000.0, 12
_MOST_SHIFT = 800.0  # with the greatest exponent of a word, 144, still that of a number


class TileChart(NamedTuple):
    """Where the tables of one block of eight sentences lie in memory, as cell numbers.

    Cell (i, k, A) is ``(i * pitch + k) * S + A``, in ``inner`` and, for adjoints of log Z, in ``outer``. ``X`` and
    ``dX`` are the products of the pairs of a piece and their adjoints, for four spans; ``counts`` the adjoints of
    the plan's weights; ``factors`` + k is f_k; ``exponents`` sums the parts of their binary logarithms that are of one
    word, ``shift`` is the part of each that all words of a sentence share; ``ends`` + k is one in the lanes of
    sentences of k words; ``bound`` and ``outer_bound`` sum all cells (NaN sticks to a sum), ``least`` is the least
    inner cell that is not zero; ``end`` is the number of all cells.
    """

    S: int  # symbols, one to spare, made odd so that columns do not fall into the same cache sets
    pitch: int
    inner: int
    outer: int
    X: int
    dX: int
    counts: int
    factors: int
    ends: int
    exponents: int
    shift: int
    bound: int
    outer_bound: int
    least: int
    end: int


def chart_of(n: int, plan: TilePlan) -> TileChart:
    """The layout for sentences of at most n words."""
    S, pitch = (plan.S + 1) | 1, (n + 1) | 1
    table, products = (n + 1) * pitch * S, plan.num_products * MOST
    sizes = {"inner": table, "outer": table, "X": products, "dX": products, "counts": plan.num_weights}
    sizes |= {"factors": n + 1, "ends": n + 1}
    places: dict[str, int] = {}
    end = 0
    for name in TileChart._fields[2:]:
        places[name] = end
        end += room(sizes.get(name, 1))
    return TileChart(S, pitch, **places)


def make_memory(chart: TileChart) -> Any:
    """Memory for the tables of a chart."""
    return guarded(aligned(chart.end * 8), chart[2:])


@joined
def fill_chart(mem, c, p, layout, weights, match, sentences, shift):
    """The inside chart of up to eight sentences, with factors such that all Z are in range, if there are such.

    :param layout: has the ``lengths``, ``offsets`` and places of matches (``cell``) of a corpus.
    :param weights: shape (W,), or (W, 8) if each lane has its own.
    :param match: weights of the matches of each lane, from a multiple of ``len(match) // 8`` on.
    :param shift: binary logarithm of a factor of all words, to begin with.
    :returns: the lanes that can be trusted, as bits, and a shift for sentences like these.
    """
    n = 0
    for b in sentences:
        n = max(n, layout.lengths[b])
    store(mem, c.shift, fill(mem, shift))
    good = 0
    for _ in range(_TRIES):
        _place_matches(mem, c, layout.lengths, layout.offsets, layout.cell, match, sentences, n)
        _scale_matches(mem, c, p, n)
        inside(mem, c, p, weights, n)
        good, again = 0, False
        for lane in range(len(sentences)):
            size = layout.lengths[sentences[lane]]
            z = mem[(c.inner + size * c.S + p.start) * 8 + lane]
            bound = mem[c.bound * 8 + lane]
            if 1 / GREATEST < z and bound < GREATEST:  # NaN is not
                good |= 1 << lane
                shift = mem[c.shift * 8 + lane] - np.rint(np.log2(z) / size)
            else:
                old = mem[c.shift * 8 + lane]
                step = min(np.ceil(_STEP / size), _MOST_SHIFT)
                new = old + step if bound < GREATEST else old - step
                mem[c.shift * 8 + lane] = min(max(new, -_MOST_SHIFT), _MOST_SHIFT)
                again = again or mem[c.shift * 8 + lane] != old
        if not again:
            break
    return good, min(max(shift, -_MOST_SHIFT), _MOST_SHIFT)


@borrowing
def log_z_of(mem, c, p, lane, n):
    exponents = mem[c.exponents * 8 + lane] + n * mem[c.shift * 8 + lane]
    return np.log(mem[(c.inner + n * c.S + p.start) * 8 + lane]) - exponents * np.log(2.0)


@borrowing
def _place_matches(mem, c, lengths, offsets, cell, match, sentences, n):
    """Matches into empty cells."""
    zero = fill(mem, 0.0)
    for k in range(n + 1):
        store(mem, c.ends + k, zero)
    for i in range(n):
        for place in range(c.inner + (i * c.pitch + i + 1) * c.S, c.inner + (i * c.pitch + n + 1) * c.S):
            store(mem, place, zero)
    room = len(match) // 8
    for lane in range(len(sentences)):
        b = sentences[lane]
        mem[(c.ends + lengths[b]) * 8 + lane] = 1.0
        first = offsets[b]
        for m in range(offsets[b + 1] - first):
            mem[(c.inner + cell[first + m]) * 8 + lane] += match[lane * room + m]


@borrowing
def _scale_matches(mem, c, p, n):
    """Find factors, and multiply the matches by them."""
    one = fill(mem, 1.0)
    total = fill(mem, 0.0)
    for k in range(1, n + 1):
        here = c.inner + ((k - 1) * c.pitch + k) * c.S
        top = fill(mem, 0.0)
        for A in range(p.S):
            top = maximum(load(mem, here + A), top)
        factor, exponents = one, fill(mem, 0.0)
        for _ in range(6):  # exponents are clamped
            exponents = exponents - exponent_of(top * factor)
            factor = power_of_two(exponents)
        total = total + exponents
        factor = power_of_two(exponents + load(mem, c.shift))
        store(mem, c.factors + k, factor)
        for A in range(p.S):
            store(mem, here + A, load(mem, here + A) * factor)
        for i in range(k - 2, -1, -1):
            if len(p.multi) == 0:
                break
            factor = factor * load(mem, c.factors + i + 1)
            here = c.inner + (i * c.pitch + k) * c.S
            for s in range(len(p.multi)):
                place = here + p.multi[s]
                store(mem, place, load(mem, place) * factor)
    store(mem, c.exponents, total)


@joined
def inside(mem, c, p, weights, n):
    """Fill the chart, in which the matches are."""
    step = (c.pitch + 1) * c.S
    for width in range(1, n + 1):
        ends = any_lane(load(mem, c.ends + width))
        for piece in range(len(p.pieces) if width > 1 else 0):
            low, high = splits(p.pieces[piece], width)
            top = p.pieces[piece, 8] == 1
            spans = n - width + 1 if not top else 1 if ends else 0
            tiles = (spans + MOST - 1) // MOST if low <= high else 0
            for tile in range(tiles):
                i = spans * tile // tiles
                columns = spans * (tile + 1) // tiles - i
                form_products(mem, c, p, p.pieces[piece], i, width, columns, low, high)
                here = c.inner + (i * c.pitch + i + width) * c.S
                for g in range(p.pieces[piece, 2], p.pieces[piece, 3]):
                    apply_rules(mem, p.groups, g, columns, here, step, c.X, p.entries, weights)
        _apply_unary(mem, c, p, weights, n, width, ends)
    bound = fill(mem, 0.0)
    for i in range(n):
        for place in range(c.inner + (i * c.pitch + i + 1) * c.S, c.inner + (i * c.pitch + n + 1) * c.S):
            bound = bound + load(mem, place)
    store(mem, c.bound, bound)


@borrowing
def watch(mem, c, n):
    """Find the least cell that is not zero, of every lane."""
    least = fill(mem, 1.0)
    for i in range(n):
        for place in range(c.inner + (i * c.pitch + i + 1) * c.S, c.inner + (i * c.pitch + n + 1) * c.S):
            least = least_positive(load(mem, place), least)
    store(mem, c.least, least)


@inlined
def splits(piece, width):
    """The least and the greatest number of words of the left symbols of a piece."""
    return max(piece[4], width - piece[7]), min(piece[5], width - piece[6])


@borrowing
def form_products(mem, c, p, piece, i, width, columns, low, high):
    """X of the pairs of a piece, for some spans from i on."""
    for span in range(columns):
        left = c.inner + ((i + span) * c.pitch + i + span + low) * c.S
        right = c.inner + ((i + span + low) * c.pitch + i + span + width) * c.S
        for b in range(piece[0], piece[1]):
            multiply_pairs(mem, p.blocks, b, left, right, c.S, c.pitch * c.S, high - low + 1, c.X + span)


@inlined
def weight(mem, weights, q):
    """Weight q in all lanes."""
    if weights.ndim == 1:
        return fill(mem, weights[q])
    return load(weights, q)


@inlined
def unary_spans(p, u, n, width, ends):
    """How many spans of a width unary rule u is applied to."""
    if width < p.unary[u, 2] or width > p.unary[u, 3]:
        return 0
    if p.unary[u, 4]:
        return 1 if ends else 0
    return n - width + 1


@borrowing
def _apply_unary(mem, c, p, weights, n, width, ends):
    first = len(p.source) - len(p.unary)
    for u in range(len(p.unary)):
        w = weight(mem, weights, first + u)
        for i in range(unary_spans(p, u, n, width, ends)):
            here = c.inner + (i * c.pitch + i + width) * c.S
            parent = here + p.unary[u, 0]
            store(mem, parent, fma(load(mem, here + p.unary[u, 1]), w, load(mem, parent)))
