# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""log Z and expected counts of many sentences under one DMV, in one compiled pass.

The weight tables are exponentiated once; arcs are gathered from them in real space, and posteriors are scattered
to counts as soon as a block of sentences is done. What cannot be trusted in real space (see
:mod:`.projective_numba`) goes through the scores of :mod:`.dmv`.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import fill, store
from pyrogram.charts.runtime.threads import run_workers, take

from . import dmv, projective_numba
from .checks import check_sentence_weights, checked_words
from .eisner_lanes import inside, make_chart
from .eisner_outside import outside
from .eisner_scaling import SCALED_FROM
from .projective_numba import GREATEST, longest_first

# Sums of counts are formed in this many parts whatever the number of threads, so that they do not depend on it.
PARTS = 8


def log_partition(
    root: Float[Tensor, "V"],
    attach: Float[Tensor, "..."],
    stop: Float[Tensor, "V 2 2 2"],
    words: Int[Tensor, "B n"],
) -> Float[Tensor, "B"]:
    """log Z of each sentence, from log weights; -inf where there is no derivation."""
    log_z: Tensor = _run(root, attach, stop, words, None, with_counts=False)[0]
    return log_z


def expected_counts(
    root: Float[Tensor, "V"],
    attach: Float[Tensor, "..."],
    stop: Float[Tensor, "V 2 2 2"],
    words: Int[Tensor, "B n"],
    sentence_weights: Float[Tensor, "B"] | None = None,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "V"], Float[Tensor, "..."], Float[Tensor, "V 2 2 2"]]:
    """log Z of each sentence and the weighted sum of the expected counts of all, from log weights.

    Sentences without any derivation have log Z = -inf and count nothing.
    """
    log_z, (root_counts, arc_counts, stop_counts) = _run(root, attach, stop, words, sentence_weights, with_counts=True)
    attach_counts = arc_counts if attach.dim() == 4 else arc_counts.sum(2)
    stop_counts = np.stack([arc_counts.sum(-1), stop_counts], -1)
    out = [torch.from_numpy(x).to(root.dtype) for x in (root_counts, attach_counts, stop_counts)]
    return log_z, out[0], out[1], out[2]


def _run(
    root: Tensor,
    attach: Tensor,
    stop: Tensor,
    words: Tensor,
    sentence_weights: Tensor | None,
    with_counts: bool,
) -> Any:
    V = root.shape[-1] if root.dim() else 0
    if (root.dim(), stop.shape) != (1, (V, 2, 2, 2)) or attach.shape not in ((V, 2, V), (V, 2, 2, V)):
        raise ValueError(
            "root, attach and stop must have shapes (V,), (V, 2, V) or (V, 2, 2, V), and (V, 2, 2, 2), not "
            f"{tuple(root.shape)}, {tuple(attach.shape)} and {tuple(stop.shape)}"
        )
    # Compiled code does not check bounds: a wrong word would read and write beyond the tables.
    words = checked_words(words, V)
    check_sentence_weights(sentence_weights, len(words))
    tables = [t.detach().to(torch.float64).numpy() for t in (root, attach, stop)]
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        log_arcs = tables[2][..., 0][..., None] + (tables[1] if attach.dim() == 4 else tables[1][:, :, None])
        real = np.exp(tables[0]), np.exp(log_arcs), np.exp(tables[2][..., 1])
    w = np.ascontiguousarray(words.numpy())
    m = (w >= 0).sum(1)
    order = longest_first(m)
    weights = np.ones(len(w)) if sentence_weights is None else sentence_weights.detach().to(torch.float64).numpy()
    log_z = np.zeros(len(w))
    failed = np.zeros(len(w), np.bool_)
    root_out, arc_out, stop_out = (
        np.zeros((PARTS, V)),
        np.zeros((PARTS, V, 2, 2, V)),
        np.zeros((PARTS, V, 2, 2)),
    )
    n = int(m.max()) if len(m) else 0

    def work(turns: Any) -> None:
        mem, chart = make_chart(max(n, 1), np.float64, False, False)
        out = root_out, arc_out, stop_out
        _count_blocks(mem, chart, *real, w, m, weights, order, turns, with_counts, log_z, failed, *out)

    run_workers(work, cost=float(np.sum(4.0 * m**3 + 40.0 * m**2)))
    counts = root_out.sum(0), arc_out.sum(0), stop_out.sum(0)
    if failed.any():
        _count_by_scores(root, attach, stop, words, weights, failed, log_z, counts)
    return torch.from_numpy(log_z).to(root.dtype), counts


def _count_by_scores(
    root: Tensor,
    attach: Tensor,
    stop: Tensor,
    words: Tensor,
    weights: Any,
    failed: Any,
    log_z: Any,
    counts: Any,
) -> None:
    """The sentences that failed in real space, through log scores; adds to ``counts``."""
    chosen = torch.from_numpy(failed.nonzero()[0])
    tables = [t.detach().to(torch.float64) for t in (root, attach, stop)]
    few = words[chosen]
    arcs, stops = dmv.scores(tables[0], tables[1], tables[2], few)
    lengths = (few >= 0).sum(1)
    values, arc_marginals, stop_marginals = projective_numba.marginals(arcs, stops, lengths, False)
    assert stop_marginals is not None
    log_z[failed] = values.numpy()
    scale = torch.from_numpy(weights[failed])[:, None, None, None]
    r, a, s = dmv.counts(arc_marginals * scale, stop_marginals * scale, few, len(root), True)
    counts[0][:] += r.sum(0).numpy()
    counts[1][:] += a.sum(0).numpy()
    counts[2][:] += s[..., 1].sum(0).numpy()


@kernel
def _count_blocks(
    mem,
    c,
    root,
    arcs,
    stops,
    words,
    lengths,
    weights,
    order,
    turns,
    with_counts,
    log_z,
    failed,
    root_parts,
    arc_parts,
    stop_parts,
):
    """Do the parts (every PARTS-th block) that come this thread's way."""
    for _ in range(PARTS):
        part = take(turns)
        if part >= PARTS:
            break
        out = root_parts[part], arc_parts[part], stop_parts[part]
        _count_part(mem, c, root, arcs, stops, words, lengths, weights, order, part, with_counts, log_z, failed, out)


@njit(nogil=True)
def _count_part(
    mem,
    c,
    root,
    arcs,
    stops,
    words,
    lengths,
    weights,
    order,
    part,
    with_counts,
    log_z,
    failed,
    out,
):
    width = 64 // mem.itemsize
    for block in range(part, (len(order) + width - 1) // width, PARTS):
        sentences = order[block * width : (block + 1) * width]
        n = lengths[sentences[0]]
        _feed_tables(mem, c, root, arcs, stops, words, lengths, sentences)
        inside(mem, c, n)
        for lane in range(len(sentences)):
            b = sentences[lane]
            log_z[b] = np.log(mem[c.z * width + lane])
            if n > SCALED_FROM:
                for j in range(1, lengths[b] + 1):
                    log_z[b] -= np.log(mem[(c.factors + j) * width + lane])
        outside(mem, c, n)
        for lane in range(len(sentences)):
            b = sentences[lane]
            # Written so that NaN fails.
            if not (mem[c.bound * width + lane] <= GREATEST[8] and np.isfinite(log_z[b])):
                failed[b] = True
            elif with_counts:
                _drain_counts(mem, c, words[b], lengths[b], lane, weights[b], *out)


@njit(nogil=True, forceinline=True)
def _feed_tables(mem, c, root, arcs, stops, words, lengths, sentences):
    """Gather weights into lanes. Tables: root [child], arcs [head, direction, valence, child], stops."""
    width = 64 // mem.itemsize
    n = lengths[sentences[0]]
    p = c.pitch
    zero = fill(mem, mem.dtype.type(0))
    for m in range(n + 1):
        store(mem, c.ends + m, zero)
    if len(sentences) < width or lengths[sentences[-1]] < n:
        for h in range(n + 1):
            for x in range(1, n + 1):
                store(mem, c.a0 + h * p + x, zero)
                store(mem, c.a1 + h * p + x, zero)
            for x in range(4):
                store(mem, c.s + 4 * h + x, zero)
    for lane in range(len(sentences)):
        mem[(c.ends + lengths[sentences[lane]]) * width + lane] = 1
    for h in range(1, n + 1):
        for lane in range(len(sentences)):
            b = sentences[lane]
            m = lengths[b]
            if h > m:
                continue
            head = words[b, h - 1]
            mem[(c.a0 + h) * width + lane] = root[head]
            for d in range(2):
                for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                    child = words[b, x - 1]
                    mem[(c.a0 + h * p + x) * width + lane] = arcs[head, d, 0, child]
                    mem[(c.a1 + h * p + x) * width + lane] = arcs[head, d, 1, child]
                for v in range(2):
                    mem[(c.s + 4 * h + 2 * d + v) * width + lane] = stops[head, d, v]


@njit(nogil=True, forceinline=True)
def _drain_counts(mem, c, sentence, m, lane, weight, root_out, arc_out, stop_out):
    """Add one lane's posteriors to the tables of counts."""
    width = 64 // mem.itemsize
    p = c.pitch
    for h in range(1, m + 1):
        head = sentence[h - 1]
        root_out[head] += weight * mem[(c.a0 + h) * width + lane]
        for d in range(2):
            for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                child = sentence[x - 1]
                arc_out[head, d, 0, child] += weight * mem[(c.a0 + h * p + x) * width + lane]
                arc_out[head, d, 1, child] += weight * mem[(c.a1 + h * p + x) * width + lane]
            for v in range(2):
                stop_out[head, d, v] += weight * mem[(c.ms + 4 * h + 2 * d + v) * width + lane]
