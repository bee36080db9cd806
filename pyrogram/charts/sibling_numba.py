# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for projective trees with sibling scores: who computes what, and when the result may be trusted.

As in :mod:`.projective_numba`, whose bounds hold here word for word: W sentences of about the same length share a
block, and a sentence that fails is done again in float64 lanes, then in log space.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import run_workers, take

from .projective_lanes import log_z_of
from .projective_numba import GREATEST, longest_first
from .sibling_best import fill_best, fill_first, make_best_chart, read_best
from .sibling_lanes import inside, make_chart
from .sibling_log import Scores, log_inside, log_posteriors, make_log_chart
from .sibling_outside import outside
from .sibling_rows import drain_arcs, feed_scores
from .sibling_sample import draw_tree

_NO_STOPS = {t: np.zeros((0, 0, 2, 0), t) for t in (np.float32, np.float64)}


def log_partition(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> Float[Tensor, "B"]:
    """log Z of each sentence, without a graph."""
    return torch.from_numpy(_run(_as_arrays(arcs, siblings, stops), lengths, multiroot, posteriors=False)[0])


def marginals(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """log Z and the posteriors of arcs, siblings and stops, without a graph."""
    log_z, out = _run(_as_arrays(arcs, siblings, stops), lengths, multiroot, posteriors=True)
    by_arcs, by_siblings, by_stops = (torch.from_numpy(x) for x in out)
    return torch.from_numpy(log_z), by_arcs, by_siblings, None if stops is None else by_stops


def sample(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B N-1"]:
    """Independent draws of trees, padded with -1.

    :raises ValueError: if some sentence has no tree of positive weight.
    """
    scores = _as_arrays(arcs, siblings, stops)
    m = np.ascontiguousarray(lengths.numpy())
    B, N = scores.arcs.shape[:2]
    heads = np.full((num_samples, B, N - 1), -1, np.int64)
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    order = longest_first(m)
    if num_samples == 0 or len(order) == 0:
        return torch.from_numpy(heads)
    n = int(m[order[0]])
    failed = np.zeros(B, np.bool_)
    dtype = np.float64 if n > 24 else scores.arcs.dtype.type

    def in_lanes(turns: Any) -> None:
        mem, chart = make_chart(n, dtype, len(scores.stops) == 0, multiroot)
        _sample_blocks(mem, chart, scores, m, order, turns, seed, heads, failed)

    run_workers(in_lanes, cost=len(order) * (15.0 * n**3 + num_samples * 1000.0 * n))
    rest = order[failed[order]]

    def in_logs(turns: Any) -> None:
        _sample_logs(make_log_chart(int(m[rest[0]])), scores, m, rest, turns, multiroot, seed, heads, failed)

    if len(rest):
        run_workers(in_logs, cost=len(rest) * 200.0 * int(m[rest[0]]) ** 3)
    if failed.any():
        raise ValueError(f"sentence {int(failed.argmax())} has no tree of positive weight to sample")
    return torch.from_numpy(heads)


def top_k(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    k: int,
) -> tuple[Int[Tensor, "k B N-1"], Float[Tensor, "k B"]]:
    """The k best trees, best first, and their scores; heads -1 and score -inf where there are fewer trees."""
    s = _as_arrays(arcs, siblings, stops)
    m = np.ascontiguousarray(lengths.numpy())
    B, N = s.arcs.shape[:2]
    heads = np.full((k, B, N - 1), -1, np.int64)
    scores = np.full((k, B), -np.inf, s.arcs.dtype)
    order = longest_first(m)

    def work(turns: Any) -> None:
        chart = make_best_chart(int(m[order[0]]), k)
        _best_sentences(chart, s, m, order, turns, multiroot, heads, scores)

    if len(order):
        run_workers(work, cost=len(order) * 60.0 * k * int(m[order[0]]) ** 3)
    return torch.from_numpy(heads), torch.from_numpy(scores)


def _as_arrays(arcs: Tensor, siblings: Tensor, stops: Tensor | None) -> Scores:
    """Contiguous arrays of what may be strided tensors that require gradients."""
    a, s = (np.ascontiguousarray(x.detach().numpy()) for x in (arcs, siblings))
    return Scores(a, s, _NO_STOPS[a.dtype.type] if stops is None else np.ascontiguousarray(stops.detach().numpy()))


def _run(s: Scores, lengths: Tensor, multiroot: bool, posteriors: bool) -> Any:
    m = np.ascontiguousarray(lengths.numpy())
    log_z = np.empty(len(m), s.arcs.dtype)
    # Zeros that nobody writes cost nothing: two thirds of all siblings cannot be.
    out = Scores(*(np.zeros(x.shape if posteriors else (0,) * x.ndim, x.dtype) for x in s))
    todo = longest_first(m)
    # log Z alone has a bound that long sentences in float32 cannot meet.
    widest = np.float64 if not posteriors and len(m) and m.max() > 24 else s.arcs.dtype.type
    # From the fastest to the surest: what fails one goes on to the next.
    for dtype, adjoints in dict.fromkeys([(widest, posteriors), (np.float64, posteriors), (np.float64, True)]):
        failed = np.zeros(len(m), np.bool_)
        _run_lanes(dtype, s, m, todo, multiroot, adjoints, log_z, out, failed)
        todo = todo[failed[todo]]
    if len(todo):
        _run_log(s, m, todo, multiroot, posteriors, log_z, out)
    return log_z, out


def _run_lanes(dtype: Any, s: Scores, m: Any, order: Any, multiroot: bool, adjoints: bool, *out: Any) -> None:
    if len(order) == 0:
        return
    n = int(m[order[0]])

    def work(turns: Any) -> None:
        mem, chart = make_chart(n, dtype, len(s.stops) == 0, multiroot)
        _score_blocks(mem, chart, s, m, order, turns, adjoints, *out)

    run_workers(work, cost=len(order) * (15.0 * n**3 + 40.0 * n**2) * np.dtype(dtype).itemsize / 8)


def _run_log(s: Scores, m: Any, order: Any, multiroot: bool, posteriors: bool, *out: Any) -> None:
    def work(turns: Any) -> None:
        _log_sentences(make_log_chart(int(m[order[0]])), s, m, order, turns, multiroot, posteriors, *out)

    run_workers(work, cost=len(order) * 200.0 * int(m[order[0]]) ** 3)


@njit(nogil=True)
def _block(order, block, width):
    """Sentences of all lanes, and how many there are; those that are too few are filled up with the last."""
    count = min(width, len(order) - block * width)
    sentences = np.empty(width, np.int64)
    for lane in range(width):
        sentences[lane] = order[block * width + min(lane, count - 1)]
    return sentences, count


@kernel
def _score_blocks(mem, c, scores, lengths, order, turns, adjoints, log_z, out, failed):
    width = 64 // mem.itemsize
    N = scores.arcs.shape[1]
    for _ in order:
        block = take(turns)
        if block * width >= len(order):
            break
        sentences, count = _block(order, block, width)
        n = lengths[sentences[0]]
        offsets = sentences * (N * N * N)
        feed_scores(mem, c, scores.arcs, scores.stops, scores.siblings, lengths, sentences)
        inside(mem, c, n, scores.siblings, offsets)
        for lane in range(count):
            b = sentences[lane]
            log_z[b], least = log_z_of(mem, c, lane, lengths[b])
            failed[b] = not (adjoints or least)
        if adjoints:
            outside(mem, c, n, scores.siblings, offsets, out.siblings)
            if len(out.arcs):
                drain_arcs(mem, c, n, out.arcs, out.stops, sentences)
        for lane in range(count):
            # Written so that NaN fails.
            if not (mem[c.bound * width + lane] <= GREATEST[mem.itemsize] and np.isfinite(log_z[sentences[lane]])):
                failed[sentences[lane]] = True


@kernel
def _sample_blocks(mem, c, scores, lengths, order, turns, seed, heads, failed):
    width = 64 // mem.itemsize
    N = scores.arcs.shape[1]
    state = np.zeros(1, np.uint64)
    terms = np.zeros(lengths[order[0]] + 1)
    agenda = np.zeros((2 * lengths[order[0]] + 2, 3), np.int64)
    for _ in order:
        block = take(turns)
        if block * width >= len(order):
            break
        sentences, count = _block(order, block, width)
        feed_scores(mem, c, scores.arcs, scores.stops, scores.siblings, lengths, sentences)
        inside(mem, c, lengths[sentences[0]], scores.siblings, sentences * (N * N * N))
        for lane in range(count):
            b = sentences[lane]
            n = lengths[b]
            log_z, trusted = log_z_of(mem, c, lane, n)
            if not (trusted and mem[c.bound * width + lane] <= GREATEST[mem.itemsize] and np.isfinite(log_z)):
                failed[b] = True
                continue
            for sample in range(len(heads)):
                seed_stream(state, seed, sample * len(lengths) + b)
                source = (mem, c, lane, scores.siblings[b])
                draw_tree(source, n, c.multiroot, state, terms, agenda, heads[sample, b])


@njit(nogil=True)
def _sentence(scores, b):
    """The scores of one sentence."""
    stops = scores.stops[b] if len(scores.stops) > 0 else np.zeros((0, 2, 0), scores.stops.dtype)
    return Scores(scores.arcs[b], scores.siblings[b], stops)


@kernel
def _log_sentences(c, scores, lengths, order, turns, multiroot, posteriors, log_z, out):
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        s = _sentence(scores, b)
        value = log_inside(c, s, n, multiroot)
        log_z[b] = value
        if posteriors:
            o = _sentence(out, b)
            o.siblings[:] = 0
            o.stops[:] = 0
            log_posteriors(c, s, n, multiroot, value, o)
            _sum_siblings(o, n)


@njit(nogil=True)
def _sum_siblings(out, n):
    """Posteriors of arcs: sums of those with all their siblings."""
    for h in range(n + 1):
        for m in range(1, n + 1):
            total = 0.0
            for r in range(h, m) if m > h else range(m + 1, h + 1):
                total += out.siblings[h, m, r]
            out.arcs[h, m] = total


@kernel
def _sample_logs(c, scores, lengths, order, turns, multiroot, seed, heads, failed):
    state = np.zeros(1, np.uint64)
    terms = np.zeros(len(c.terms))
    agenda = np.zeros((2 * len(c.terms) + 2, 3), np.int64)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        s = _sentence(scores, b)
        failed[b] = not np.isfinite(log_inside(c, s, n, multiroot))
        if failed[b]:
            continue
        for sample in range(len(heads)):
            seed_stream(state, seed, sample * len(lengths) + b)
            draw_tree((c, s), n, multiroot, state, terms, agenda, heads[sample, b])


@kernel
def _best_sentences(c, scores, lengths, order, turns, multiroot, heads, values):
    agenda = np.zeros((2 * c.score.shape[2] + 2, 4), np.int64)
    for _ in order:
        turn = take(turns)
        if turn >= len(order):
            break
        b = order[turn]
        n = lengths[b]
        s = _sentence(scores, b)
        if len(values) == 1:
            fill_first(c, s, n, multiroot)
        else:
            fill_best(c, s, n, multiroot)
        for rank in range(len(values)):
            value = c.score[0, 0, n, rank]
            if value == -np.inf:
                break
            values[rank, b] = value
            read_best(c, n, multiroot, rank, agenda, heads[rank, b])
