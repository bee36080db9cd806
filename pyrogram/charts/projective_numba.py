# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for projective trees: who computes what, and when the result may be trusted.

Sentences are sorted by length, W of them share a block, and blocks are dealt to threads. Scores are shifted, so that
the best weight is one, and go into lanes (:mod:`.projective_lanes`).

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
from torch import Tensor

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import run_workers, take

from .eisner_best import fill_best, fill_first, make_best_chart, read_best
from .eisner_lanes import inside, make_chart
from .eisner_log import log_inside, log_posteriors, make_log_chart
from .eisner_outside import outside
from .eisner_sample import draw_tree
from .projective_lanes import drain_posteriors, feed_scores, log_z_of

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
    if len(lengths) == 0 or (lengths == lengths[0]).all():
        return np.arange(len(lengths))
    return np.argsort(-lengths, kind="stable")


def _run(arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool, posteriors: bool) -> Any:
    a, s, m = as_arrays(arcs, stops, lengths)
    log_z = np.empty(len(a), a.dtype)
    arc_out = np.empty(a.shape if posteriors else (0, 0, 0, a.shape[3]), a.dtype)
    stop_out = np.empty(s.shape if posteriors else (0, 0, 2, 2), a.dtype)
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
            log_z[b], least = log_z_of(mem, c, lane, lengths[b])
            failed[b] = not (adjoints or least)
        if adjoints:
            outside(mem, c, n)
            if len(arc_out):
                drain_posteriors(mem, c, lengths, sentences, arc_out, stop_out)
        for lane in range(len(sentences)):
            # Written so that NaN fails.
            if not (mem[c.bound * width + lane] <= GREATEST[mem.itemsize] and np.isfinite(log_z[sentences[lane]])):
                failed[sentences[lane]] = True


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
            log_z, trusted = log_z_of(mem, c, lane, n)
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
