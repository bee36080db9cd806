# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""log Z and expected counts of the DMV when every sentence has weights of its own.

Only the heads that occur in a sentence have weights there. A *pair* p is a sentence and one of its distinct tags;
pairs are sorted by sentence, then by tag. From log weights

* ``root`` (B, V) [sentence, child];
* ``attach`` (P, 2, A, V) [pair, direction, valence, child], A = 1 if valence plays no part, else 2;
* ``stop`` (P, 2, 2, 2) [pair, direction, valence, 0 = continue or 1 = stop]

the kernel takes only what the arcs of the sentence need, in lanes, and exponentiates it there, shifted as in
:mod:`.eisner_scaling`. A pair belongs to one sentence and a sentence to one thread, so that results do not depend
on the number of threads. What cannot be trusted in real space is left to the caller, who has :func:`scores`.

The tables of weights and counts do not fit into a cache, and sentences of the same length lie all over them. So what
a block of sentences reads and writes is asked for in advance: otherwise half of the time would go by in waiting.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import exp, fill, load, maximum, store
from pyrogram.charts.runtime.lanes_memory import prefetch_between
from pyrogram.charts.runtime.threads import run_workers, take
from pyrogram.recursion.running.program import longest_first

from .eisner_lanes import inside, make_chart
from .eisner_outside import outside
from .eisner_scaling import GREATEST, LEAST, add_shift, log_z_of


def scores(
    root: Float[Tensor, "B V"],
    attach: Float[Tensor, "P 2 A V"],
    stop: Float[Tensor, "P 2 2 2"],
    pairs: Int[Tensor, "B n"],
    words: Int[Tensor, "B n"],
) -> tuple[Float[Tensor, "B N N 2"], Float[Tensor, "B N 2 2"]]:
    """Arc and stop scores of the sentences (see :mod:`.dmv`), differentiable; padding gets scores of some word.

    :param pairs: the pair of each word.
    """
    B, n = words.shape
    w, p = words.clamp_min(0), pairs.clamp_min(0)
    arc_table = (stop[..., 0, None] + attach).transpose(-1, -2)  # [pair, direction, child, valence]
    positions = torch.arange(n, device=words.device)
    direction = (positions > positions[:, None]).long()
    inner = arc_table[p[:, :, None], direction, w[:, None, :]]
    wall = root.gather(1, w)[:, None, :, None].expand(B, 1, n, 2)
    arcs = torch.nn.functional.pad(torch.cat([wall, inner], 1), (0, 0, 1, 0))
    return arcs, torch.nn.functional.pad(stop[..., 1][p], (0, 0, 0, 0, 1, 0))


def expected_counts(
    root: Float[Tensor, "B V"],
    attach: Float[Tensor, "P 2 A V"],
    stop: Float[Tensor, "P 2 2 2"],
    starts: Int[Tensor, "B+1"],
    pairs: Int[Tensor, "B n"],
    words: Int[Tensor, "B n"],
    sentences: Int[Tensor, "S"] | None = None,
    out: tuple[Float[Tensor, "B V"], Float[Tensor, "P 2 A V"], Float[Tensor, "P 2 2 2"]] | None = None,
) -> tuple[
    Float[Tensor, "B"],
    tuple[Float[Tensor, "B V"], Float[Tensor, "P 2 A V"], Float[Tensor, "P 2 2 2"]],
    Int[Tensor, "F"],
]:
    """log Z of each sentence, the expected counts in the shapes of the weights, and the sentences that failed.

    What failed, and what is not wanted, has log Z = 0 and counts nothing. All is float64, on the CPU.

    :param starts: the first pair of each sentence, and P.
    :param pairs: the pair of each word; not checked, nor are the words.
    :param sentences: those wanted, each once; None: all.
    :param out: float64 arrays for the counts, of which the rows of other sentences stay as they are.
    """
    tables = [np.ascontiguousarray(t.detach().to(torch.float64).numpy()) for t in (root, attach, stop)]
    w, p, first = (np.ascontiguousarray(t.numpy()) for t in (words, pairs, starts))
    m = (w >= 0).sum(1)
    wanted = np.arange(len(w)) if sentences is None else sentences.numpy().astype(np.int64)
    order = wanted[longest_first(m[wanted])]
    log_z, failed = np.zeros(len(w)), np.zeros(len(w), np.bool_)
    # The kernel writes all rows of the sentences that it does.
    if out is not None:
        counts = [t.numpy() for t in out]
    else:
        counts = [np.empty(t.shape) if sentences is None else np.zeros(t.shape) for t in tables]

    def work(turns: Any) -> None:
        mem, chart = make_chart(int(m[order[0]]), np.float64, False, False)
        _count_blocks(mem, chart, *tables, first, p, w, m, order, turns, log_z, failed, *counts)

    if len(order):
        # Rows are read and counts written once: a few operations' worth of time for each number.
        moved = 8.0 * sum(t.size for t in tables) * len(order) / len(w)
        run_workers(work, cost=float(np.sum(4.0 * m[order] ** 3 + 60.0 * m[order] ** 2)) + moved)
    found = [torch.from_numpy(c) for c in counts]
    return torch.from_numpy(log_z), (found[0], found[1], found[2]), torch.from_numpy(failed.nonzero()[0])


@kernel
def _count_blocks(
    mem,
    c,
    root,
    attach,
    stop,
    starts,
    pairs,
    words,
    lengths,
    order,
    turns,
    log_z,
    failed,
    root_out,
    attach_out,
    stop_out,
):
    width = 64 // mem.itemsize
    for _ in order:
        block = take(turns)
        if block * width >= len(order):
            break
        sentences = order[block * width : (block + 1) * width]
        n = lengths[sentences[0]]
        _feed_rows(mem, c, root, attach, stop, pairs, words, lengths, sentences)
        _prefetch_rows(root, attach, stop, starts, order[(block + 1) * width : (block + 2) * width])
        for x in range(1, n + 1):
            _exponentiate(mem, c, n, x)
        inside(mem, c, n)
        _prefetch_rows(root_out, attach_out, stop_out, starts, sentences)
        for lane in range(len(sentences)):
            log_z[sentences[lane]] = log_z_of(mem, c, lane, lengths[sentences[lane]])[0]
        outside(mem, c, n)
        for lane in range(len(sentences)):
            b = sentences[lane]
            _clear(root_out, b, b + 1)
            _clear(attach_out, starts[b], starts[b + 1])
            _clear(stop_out, starts[b], starts[b + 1])
            # Written so that NaN fails.
            if mem[c.bound * width + lane] <= GREATEST[8] and np.isfinite(log_z[b]):
                _drain_rows(mem, c, pairs[b], words[b], lengths[b], lane, root_out[b], attach_out, stop_out)
            else:
                failed[b] = True
                log_z[b] = 0


@njit(nogil=True, forceinline=True)
def _prefetch_rows(root, attach, stop, starts, sentences):
    for b in sentences:
        _prefetch_blocks(root, b, b + 1)
        _prefetch_blocks(attach, starts[b], starts[b + 1])
        _prefetch_blocks(stop, starts[b], starts[b + 1])


@njit(nogil=True, forceinline=True)
def _prefetch_blocks(table, start, end):
    each = table[0].size
    prefetch_between(table.reshape(-1), start * each, end * each)


@njit(nogil=True, forceinline=True)
def _clear(table, start, end):
    numbers, each = table.reshape(-1), table[0].size
    for i in range(start * each, end * each):
        numbers[i] = 0


@njit(nogil=True)
def _feed_rows(mem, c, root, attach, stop, pairs, words, lengths, sentences):
    """Log weights into lanes; -inf where there is none."""
    width = 64 // mem.itemsize
    n = lengths[sentences[0]]
    p = c.pitch
    nothing = fill(mem, mem.dtype.type(-np.inf))
    zero = fill(mem, mem.dtype.type(0))
    for m in range(n + 1):
        store(mem, c.ends + m, zero)
    store(mem, c.shift, zero)
    store(mem, c.shift_rest, zero)
    if len(sentences) < width or lengths[sentences[-1]] < n:
        for h in range(n + 1):
            for x in range(1, n + 1):
                store(mem, c.a0 + h * p + x, nothing)
                store(mem, c.a1 + h * p + x, nothing)
            for x in range(4):
                store(mem, c.s + 4 * h + x, nothing)
    for x in range(1, n + 1):
        store(mem, c.a0 + x * p + x, nothing)
        store(mem, c.a1 + x * p + x, nothing)
    last = attach.shape[2] - 1
    for lane in range(len(sentences)):
        b = sentences[lane]
        m = lengths[b]
        mem[(c.ends + m) * width + lane] = 1
        for h in range(1, m + 1):
            pair = pairs[b, h - 1]
            mem[(c.a0 + h) * width + lane] = root[b, words[b, h - 1]]
            for d in range(2):
                first, later = stop[pair, d, 0, 0], stop[pair, d, 1, 0]
                for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                    child = words[b, x - 1]
                    mem[(c.a0 + h * p + x) * width + lane] = attach[pair, d, 0, child] + first
                    mem[(c.a1 + h * p + x) * width + lane] = attach[pair, d, last, child] + later
                for v in range(2):
                    mem[(c.s + 4 * h + 2 * d + v) * width + lane] = stop[pair, d, v, 1]


@njit(nogil=True, forceinline=True)
def _exponentiate(mem, c, n, x):
    """Weights of the arcs to x and of its stops, the greatest of each kind one."""
    p = c.pitch
    least = fill(mem, mem.dtype.type(LEAST))
    top = maximum(load(mem, c.a0 + x), least)
    for h in range(1, n + 1):
        top = maximum(top, maximum(load(mem, c.a0 + h * p + x), load(mem, c.a1 + h * p + x)))
    add_shift(mem, c, top)
    store(mem, c.a0 + x, exp(load(mem, c.a0 + x) - top))
    for h in range(1, n + 1):
        store(mem, c.a0 + h * p + x, exp(load(mem, c.a0 + h * p + x) - top))
        store(mem, c.a1 + h * p + x, exp(load(mem, c.a1 + h * p + x) - top))
    for d in range(2):
        first, later = load(mem, c.s + 4 * x + 2 * d), load(mem, c.s + 4 * x + 2 * d + 1)
        top = maximum(maximum(first, later), least)
        add_shift(mem, c, top)
        store(mem, c.s + 4 * x + 2 * d, exp(first - top))
        store(mem, c.s + 4 * x + 2 * d + 1, exp(later - top))


@njit(nogil=True, forceinline=True)
def _drain_rows(mem, c, pairs, sentence, m, lane, root_out, attach_out, stop_out):
    """Add one lane's posteriors to its rows of counts."""
    width = 64 // mem.itemsize
    p = c.pitch
    by_valence = attach_out.shape[2] == 2
    for h in range(1, m + 1):
        pair = pairs[h - 1]
        root_out[sentence[h - 1]] += mem[(c.a0 + h) * width + lane]
        for d in range(2):
            total_first, total_later = 0.0, 0.0
            for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                child = sentence[x - 1]
                first, later = mem[(c.a0 + h * p + x) * width + lane], mem[(c.a1 + h * p + x) * width + lane]
                if by_valence:
                    attach_out[pair, d, 0, child] += first
                    attach_out[pair, d, 1, child] += later
                else:
                    attach_out[pair, d, 0, child] += first + later
                total_first += first
                total_later += later
            stop_out[pair, d, 0, 0] += total_first
            stop_out[pair, d, 1, 0] += total_later
            for v in range(2):
                stop_out[pair, d, v, 1] += mem[(c.ms + 4 * h + 2 * d + v) * width + lane]
