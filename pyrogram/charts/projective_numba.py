# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for projective trees: how scores get into lanes, and when the result may be trusted.

Sentences are sorted by length, W of them share a block, and blocks are dealt to threads. Scores are shifted per
dependent (and per stop decision), so that the best is one, and exponentiated in lanes.

Real space flushes what is smaller than ``tiny`` to zero. That cannot matter as long as no cell and no adjoint
of log Z exceeds a bound M with ``n**3 * tiny * M`` below the rounding error, because a flushed quantity changes
Z (or a posterior) by at most ``tiny`` times the adjoint (or the cell) that it meets. Where only log Z is wanted,
the adjoints are bounded instead by the number of trees, (27/4)**n, for no shifted weight exceeds one. A
sentence that fails is done again in float64 lanes, then in log space.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from .compiling import kernel
from .eisner_best import fill_best, fill_first, make_best_chart, read_best
from .eisner_lanes import SCALED_FROM, inside, make_chart, outside
from .eisner_log import log_inside, log_posteriors, make_log_chart
from .eisner_sample import draw_tree, seed_stream
from .lanes import exp, fill, gather_cells, load, maximum, scatter_cells, store
from .threads import run_workers, take

# M by element size, see above (a tuple, for compiled code reads no dictionaries).
GREATEST = (0.0, 0.0, 0.0, 0.0, 2.0**60, 0.0, 0.0, 0.0, 2.0**900)
_NO_STOPS = {t: np.zeros((0, 0, 2, 2), t) for t in (np.float32, np.float64)}


def log_partition(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> Float[Tensor, "B"]:
    """log Z of each sentence, without a graph."""
    return torch.from_numpy(_run(arcs, stops, lengths, multiroot, posteriors=False)[0])


def marginals(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B N N V"], Float[Tensor, "B N 2 2"] | None]:
    """log Z and the posteriors of arcs and stops, without a graph."""
    log_z, arc_out, stop_out = _run(arcs, stops, lengths, multiroot, posteriors=True)
    return (
        torch.from_numpy(log_z),
        torch.from_numpy(arc_out),
        None if stops is None else torch.from_numpy(stop_out),
    )


def sample(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B N-1"]:
    """Independent draws of trees, padded with -1.

    :raises ValueError: if some sentence has no tree of positive weight.
    """
    a, s, m = as_arrays(arcs, stops, lengths)
    heads = np.full((num_samples, len(a), a.shape[1] - 1), -1, np.int64)
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    todo = longest_first(m)
    if num_samples == 0 or len(todo) == 0:
        return torch.from_numpy(heads)
    dtype = np.float64 if m.max() > 24 else a.dtype.type
    plain = a.shape[3] == 1 and len(s) == 0
    failed = np.zeros(len(a), np.bool_)

    def in_lanes(turns: Any) -> None:
        mem, chart = make_chart(int(m[todo[0]]), dtype, plain, multiroot)
        _sample_blocks(mem, chart, a, s, m, todo, turns, seed, heads, failed)

    run_workers(in_lanes, cost=len(todo) * (2.0 * m.max() ** 3 + num_samples * 1000.0 * m.max()))
    rest = todo[failed[todo]]

    def in_logs(turns: Any) -> None:
        chart = make_log_chart(int(m[rest[0]]))
        _sample_logs(chart, a, s, m, rest, turns, multiroot, seed, heads, failed)

    if len(rest):
        run_workers(in_logs, cost=len(rest) * 100.0 * int(m[rest[0]]) ** 3)
        failed[rest[heads[0, rest, 0] >= 0]] = False
    if failed.any():
        raise ValueError(f"sentence {int(failed.argmax())} has no tree of positive weight to sample")
    return torch.from_numpy(heads)


def top_k(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    k: int,
) -> tuple[Int[Tensor, "k B N-1"], Float[Tensor, "k B"]]:
    """The k best trees, best first, and their scores; heads -1 and score -inf where there are fewer trees."""
    a, s, m = as_arrays(arcs, stops, lengths)
    heads = np.full((k, len(a), a.shape[1] - 1), -1, np.int64)
    scores = np.full((k, len(a)), -np.inf, a.dtype)
    order = longest_first(m)

    def work(turns: Any) -> None:
        chart = make_best_chart(int(m[order[0]]), k)
        _best_sentences(chart, a, s, m, order, turns, multiroot, heads, scores)

    if len(order):
        run_workers(work, cost=len(order) * 60.0 * k * int(m[order[0]]) ** 3)
    return torch.from_numpy(heads), torch.from_numpy(scores)


def as_arrays(arcs: Tensor, stops: Tensor | None, lengths: Tensor) -> tuple[Any, Any, Any]:
    """Contiguous arrays of what may be strided tensors that require gradients."""
    a = np.ascontiguousarray(arcs.detach().numpy())
    s = _NO_STOPS[a.dtype.type] if stops is None else np.ascontiguousarray(stops.detach().numpy().astype(a.dtype))
    return a, s, np.ascontiguousarray(lengths.numpy())


def longest_first(lengths: Any) -> Any:
    """The order in which sentences fill the lanes."""
    if len(lengths) == 0 or lengths.min() == lengths.max():
        return np.arange(len(lengths))
    return np.argsort(-lengths, kind="stable")


def _run(arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool, posteriors: bool) -> Any:
    a, s, m = as_arrays(arcs, stops, lengths)
    log_z = np.zeros(len(a), a.dtype)
    arc_out = np.zeros(a.shape if posteriors else (0, 0, 0, a.shape[3]), a.dtype)
    stop_out = np.zeros(s.shape if posteriors else (0, 0, 2, 2), a.dtype)
    todo = longest_first(m)
    # log Z alone has a bound that long sentences in float32 cannot meet.
    widest = np.float64 if not posteriors and len(m) and m.max() > 24 else a.dtype.type
    # From the fastest to the surest: what fails one goes on to the next.
    attempts = dict.fromkeys([(widest, posteriors), (np.float64, posteriors), (np.float64, True)])
    for dtype, adjoints in attempts:
        failed = np.zeros(len(a), np.bool_)
        _run_lanes(dtype, a, s, m, todo, multiroot, adjoints, log_z, arc_out, stop_out, failed)
        todo = todo[failed[todo]]
        if len(todo) == 0:
            break
    else:
        _run_log(a, s, m, todo, multiroot, posteriors, log_z, arc_out, stop_out)
    return log_z, arc_out, stop_out


def _run_lanes(dtype: Any, a: Any, s: Any, m: Any, order: Any, multiroot: bool, adjoints: bool, *out: Any) -> None:
    if len(order) == 0:
        return
    n = int(m[order[0]])
    plain = a.shape[3] == 1 and len(s) == 0

    def work(turns: Any) -> None:
        mem, chart = make_chart(n, dtype, plain, multiroot)
        _score_blocks(mem, chart, a, s, m, order, turns, adjoints, *out)

    # In float32 a lane is half as wide.
    run_workers(work, cost=len(order) * (4.0 * n**3 + 40.0 * n**2) * np.dtype(dtype).itemsize / 8)


def _run_log(a: Any, s: Any, m: Any, order: Any, multiroot: bool, posteriors: bool, *out: Any) -> None:
    def work(turns: Any) -> None:
        _log_sentences(make_log_chart(int(m[order[0]])), a, s, m, order, turns, multiroot, posteriors, *out)

    run_workers(work, cost=len(order) * 100.0 * int(m[order[0]]) ** 3)


@kernel
def _log_sentences(c, arcs, stops, lengths, order, turns, multiroot, posteriors, log_z, arc_out, stop_out):
    has_stops = len(stops) > 0
    no_stops = np.zeros((0, 2, 2), stops.dtype)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        stop = stops[b] if has_stops else no_stops
        value = log_inside(c, arcs[b], stop, has_stops, n, multiroot)
        log_z[b] = value
        if posteriors:
            arc_out[b] = 0
            if has_stops:
                stop_out[b] = 0
            out = stop_out[b] if has_stops else no_stops
            log_posteriors(c, arcs[b], has_stops, n, multiroot, value, arc_out[b], out)


@kernel
def _score_blocks(mem, c, arcs, stops, lengths, order, turns, adjoints, log_z, arc_out, stop_out, failed):
    width = 64 // mem.itemsize
    for _ in order:
        block = take(turns)
        if block * width >= len(order):
            break
        sentences = order[block * width : (block + 1) * width]
        n = lengths[sentences[0]]
        feed_scores(mem, c, arcs, stops, lengths, sentences)
        inside(mem, c, n)
        for lane in range(len(sentences)):
            b = sentences[lane]
            log_z[b], least = log_z_of(mem, c, lane, lengths[b], n)
            failed[b] = not (adjoints or least)
        if adjoints:
            outside(mem, c, n)
            if len(arc_out):
                drain_posteriors(mem, c, lengths, sentences, arc_out, stop_out)
        for lane in range(len(sentences)):
            # Written so that NaN fails.
            if not (mem[c.bound * width + lane] <= GREATEST[mem.itemsize] and np.isfinite(log_z[sentences[lane]])):
                failed[sentences[lane]] = True


@njit(nogil=True)
def feed_scores(mem, c, arcs, stops, lengths, sentences):
    """Scores to shifted weights in lanes."""
    width = 64 // mem.itemsize
    n = lengths[sentences[0]]
    p = c.pitch
    nothing = fill(mem, mem.dtype.type(-np.inf))
    zero = fill(mem, mem.dtype.type(0))
    for m in range(n + 1):
        store(mem, c.ends + m, zero)
    if len(sentences) < width or lengths[sentences[-1]] < n:
        for h in range(n + 1):
            for x in range(1, n + 1):
                store(mem, c.a0 + h * p + x, nothing)
                store(mem, c.a1 + h * p + x, nothing)
            for x in range(4):
                store(mem, c.s + 4 * h + x, nothing)
    last = arcs.shape[3] - 1
    for lane in range(len(sentences)):
        mem[(c.ends + lengths[sentences[lane]]) * width + lane] = 1
    uniform = _fills_lanes(mem, lengths, sentences) and last == 0
    offsets = sentences * (arcs.shape[1] * arcs.shape[2])
    for h in range(n + 1):  # row by row, so that the lanes of a row are written while it is in the cache
        if uniform:
            for t in range(0, n, 8):
                x = min(1 + t, n - 7)  # the last eight may overlap those before
                gather_cells(mem, c.a0 + h * p + x, arcs, offsets, h * arcs.shape[2] + x)
                if not c.plain:
                    gather_cells(mem, c.a1 + h * p + x, arcs, offsets, h * arcs.shape[2] + x)
        for lane in range(0 if uniform and c.plain else len(sentences)):
            b = sentences[lane]
            m = lengths[b]
            if h > m:
                continue
            cell = h * p
            if not uniform:
                for x in range(1, m + 1):
                    mem[(c.a0 + cell + x) * width + lane] = arcs[b, h, x, 0]
            if not uniform and not c.plain:
                for x in range(1, m + 1):
                    mem[(c.a1 + cell + x) * width + lane] = arcs[b, h, x, last]
            if not c.plain:
                for d in range(2):
                    for v in range(2):
                        score = stops[b, h, d, v] if len(stops) else 0
                        mem[(c.s + 4 * h + 2 * d + v) * width + lane] = score
    for x in range(1, n + 1):
        store(mem, c.a0 + x * p + x, nothing)
        store(mem, c.a1 + x * p + x, nothing)
        if not c.multiroot and not c.plain:
            store(mem, c.a1 + x, nothing)
        _exponentiate(mem, c, n, x)


@njit(nogil=True, forceinline=True)
def _fills_lanes(mem, lengths, sentences):
    """Whether there is a sentence for every lane, all of one length, of at least eight words."""
    n = lengths[sentences[0]]
    return n >= 8 and len(sentences) == 64 // mem.itemsize and lengths[sentences[-1]] == n


@njit(nogil=True, forceinline=True)
def _exponentiate(mem, c, n, x):
    """Weights of the arcs to x and of its stops, each at most one, and the shifts that made them so."""
    p = c.pitch
    least = fill(mem, mem.dtype.type(-1e30))
    top = least
    for h in range(n + 1):
        top = maximum(top, load(mem, c.a0 + h * p + x))
        if not c.plain:
            top = maximum(top, load(mem, c.a1 + h * p + x))
    store(mem, c.shifts + 3 * x, top)
    for h in range(n + 1):
        store(mem, c.a0 + h * p + x, exp(load(mem, c.a0 + h * p + x) - top))
        if not c.plain:
            store(mem, c.a1 + h * p + x, exp(load(mem, c.a1 + h * p + x) - top))
    if not c.plain:
        for d in range(2):
            first, later = load(mem, c.s + 4 * x + 2 * d), load(mem, c.s + 4 * x + 2 * d + 1)
            top = maximum(maximum(first, later), least)
            store(mem, c.shifts + 3 * x + 1 + d, top)
            store(mem, c.s + 4 * x + 2 * d, exp(first - top))
            store(mem, c.s + 4 * x + 2 * d + 1, exp(later - top))


@njit(nogil=True)
def log_z_of(mem, c, lane, m, n):
    """log Z of the sentence of m words in a lane of a block of up to n, and whether the bound on log Z holds."""
    width = 64 // mem.itemsize
    log_z = np.log(np.float64(mem[c.z * width + lane]))
    grown = 0.0
    if n > SCALED_FROM:
        for j in range(1, m + 1):
            factor = np.log(np.float64(mem[(c.factors + j) * width + lane]))
            log_z -= factor
            grown += max(factor, 0.0)
    scaled = np.log2(np.float64(mem[c.z * width + lane]))
    # log2 of tiny * n**3 / rounding error, plus log2(27 / 4) per word: the adjoint of no cell is greater.
    least = -126.0 + 24.0 + 24.0 if mem.itemsize == 4 else -1022.0 + 53.0 + 24.0
    trusted = scaled >= least + 2.7549 * m + grown / np.log(2.0)
    for x in range(1, m + 1):
        log_z += mem[(c.shifts + 3 * x) * width + lane]
        if not c.plain:
            log_z += (
                np.float64(mem[(c.shifts + (3 * x + 1)) * width + lane]) + mem[(c.shifts + (3 * x + 2)) * width + lane]
            )
    return log_z, trusted


@njit(nogil=True)
def drain_posteriors(mem, c, lengths, sentences, arc_out, stop_out):
    """Posteriors of all lanes into the arrays of their sentences, which are zero so far."""
    if _fills_lanes(mem, lengths, sentences) and c.plain:
        n = lengths[sentences[0]]
        offsets = sentences * (arc_out.shape[1] * arc_out.shape[2])
        for h in range(n + 1):
            for t in range(0, n, 8):
                x = min(1 + t, n - 7)
                scatter_cells(mem, c.a0 + h * c.pitch + x, arc_out, offsets, h * arc_out.shape[2] + x)
    else:
        for lane in range(len(sentences)):
            _drain_lane(mem, c, lane, lengths[sentences[lane]], sentences[lane], arc_out, stop_out)


@njit(nogil=True, forceinline=True)
def _drain_lane(mem, c, lane, m, b, arc_out, stop_out):
    width = 64 // mem.itemsize
    p = c.pitch
    for h in range(m + 1):
        cell = h * p
        for x in range(1, m + 1):
            arc_out[b, h, x, 0] = mem[(c.a0 + cell + x) * width + lane]
        if arc_out.shape[3] == 2:
            for x in range(1, m + 1):
                arc_out[b, h, x, 1] = mem[(c.a1 + cell + x) * width + lane]
        elif not c.plain:
            for x in range(1, m + 1):
                arc_out[b, h, x, 0] += mem[(c.a1 + cell + x) * width + lane]
    for h in range(1, m + 1):
        arc_out[b, h, h] = 0
    if len(stop_out) > 0:
        for h in range(1, m + 1):
            for d in range(2):
                for v in range(2):
                    stop_out[b, h, d, v] = mem[(c.ms + 4 * h + 2 * d + v) * width + lane]


@kernel
def _sample_blocks(mem, c, arcs, stops, lengths, order, turns, seed, heads, failed):
    width = 64 // mem.itemsize
    state = np.zeros(1, np.uint64)
    terms = np.zeros(lengths[order[0]] + 1)
    agenda = np.zeros((2 * lengths[order[0]] + 2, 3), np.int64)
    for _ in order:
        block = take(turns)
        if block * width >= len(order):
            break
        sentences = order[block * width : (block + 1) * width]
        feed_scores(mem, c, arcs, stops, lengths, sentences)
        inside(mem, c, lengths[sentences[0]])
        for lane in range(len(sentences)):
            b = sentences[lane]
            n = lengths[b]
            log_z, trusted = log_z_of(mem, c, lane, n, lengths[sentences[0]])
            if not (trusted and mem[c.bound * width + lane] <= GREATEST[mem.itemsize] and np.isfinite(log_z)):
                failed[b] = True
                continue
            for sample in range(len(heads)):
                seed_stream(state, seed, sample * len(arcs) + b)
                source = (mem, c, lane)
                draw_tree(source, n, c.multiroot, state, terms, agenda, heads[sample, b])


@kernel
def _sample_logs(c, arcs, stops, lengths, order, turns, multiroot, seed, heads, failed):
    state = np.zeros(1, np.uint64)
    terms = np.zeros(len(c.terms))
    agenda = np.zeros((2 * len(c.terms) + 2, 3), np.int64)
    has_stops = len(stops) > 0
    no_stops = np.zeros((0, 2, 2), stops.dtype)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        stop = stops[b] if has_stops else no_stops
        if not np.isfinite(log_inside(c, arcs[b], stop, has_stops, n, multiroot)):
            continue
        for sample in range(len(heads)):
            seed_stream(state, seed, sample * len(arcs) + b)
            draw_tree((c, arcs[b]), n, multiroot, state, terms, agenda, heads[sample, b])


@kernel
def _best_sentences(c, arcs, stops, lengths, order, turns, multiroot, heads, scores):
    agenda = np.zeros((2 * c.score.shape[2] + 2, 4), np.int64)
    no_stops = np.zeros((0, 2, 2), stops.dtype)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        if len(scores) == 1:
            fill_first(c, arcs[b], stops[b] if len(stops) > 0 else no_stops, n, multiroot)
        else:
            fill_best(c, arcs[b], stops[b] if len(stops) > 0 else no_stops, n, multiroot)
        for rank in range(len(scores)):
            value = c.score[0, 0, n, rank]
            if value == -np.inf:
                break
            scores[rank, b] = value
            read_best(c, n, multiroot, rank, agenda, heads[rank, b])
