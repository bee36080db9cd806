# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Binary trees whose rules have low rank: inside and outside in rank space (Yang, Liu and Tu 2022), by matrix products.

A nonterminal chooses one of R ranks, and a rank chooses its left and its right child, independently. M is what a span
comes to below its rank, L and R are what it comes to as the left, or the right, child of each rank:

    M[i, j] = sum_k L[i, k] R[k, j]                  rank by rank
    (L, R)[i, j] = rules M[i, j]                     rules (2R, R): the ranks above, by the ranks below
    (L, R)[j - 1, j] = words[w_j],    Z = top M[0, n]

All spans of a width of some sentences are one product of matrices. L and R of a cell are scaled: the greatest of them
is one, times exp(e) with an e of its own. The outside pass is written out. A sentence that is not sure to have lost no
digits, because numbers were too small for the dtype, is left to the caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .runtime.compiling import kernel
from .runtime.threads import run_workers, take

Array = Any

# What adjoints may come to: times the least number of the dtype, it must be negligible.
GREATEST = {torch.float32: 2.0**60, torch.float64: 2.0**500}
_NUMBERS = 2**22  # of the charts of the sentences that are done at a time


class RankSpace(NamedTuple):
    """Weights of rules between ranks, non-negative; or what is added up for them.

    :param top: of a whole sentence, by its rank, shape ``(R,)``.
    :param rules: shape ``(2R, R)`` [rank above, as left child and then as right child; rank].
    :param words: of V words as children, shape ``(V, 2R)``.
    :param single: of sentences of one word, shape ``(V,)``.
    """

    top: Tensor
    rules: Tensor
    words: Tensor
    single: Tensor


def log_counts(
    given: RankSpace, words: Array, lengths: Array, scale: Array | None = None, *, counts: bool = True
) -> tuple[Array, RankSpace | None, Array]:
    """Log Z, shape ``(B,)``, float64; its derivatives with respect to the weights; and which sentences failed.

    Sentences that failed add nothing to the derivatives.

    :param words: rows of the tables of words, shape ``(B, n)``; what follows the last word of a sentence is not read.
    :param lengths: shape ``(B,)``, at least one.
    :param scale: what the derivatives of each sentence are multiplied by, shape ``(B,)``.
    """
    with torch.no_grad():
        B = len(lengths)
        log_z, failed = np.zeros(B), np.zeros(B, np.bool_)
        total = RankSpace(*(torch.zeros_like(table) for table in given)) if counts else None
        size = given.words.amax(-1, keepdim=True)
        size = torch.where(size > 0, size, 1.0)
        scaled = (given.words / size).numpy(), np.where(given.words.amax(-1) > 0, size[:, 0].double().log(), -np.inf)
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < B:
            n, R = int(lengths[order[start]]), len(given.top)
            chosen = order[start : start + max(1, _NUMBERS // (4 * n * n * R))]
            start += len(chosen)
            chunk = _Chunk(given, scaled, words[chosen, :n], lengths[chosen])
            log_z[chosen] = chunk.inside()
            failed[chosen] = ~chunk.outside()
            if total is not None:
                own = np.where(failed[chosen], 0.0, 1.0 if scale is None else scale[chosen])
                chunk.count(own, total)
        if total is not None:
            total.words.div_(size)
        return log_z, total, failed


class _Charts(NamedTuple):
    """Of some sentences, what compiled code reads and writes.

    Products have a row for each span of two words or more: by width, then by sentence, then by its first word. Of the
    words i + 1 .. j, L are the cell [i, j] and R the cell [j, i], so that what the splits of a span need lies side by
    side.

    :param lengths: shape ``(B,)``, the longest first.
    :param first: the first row of a width and a sentence, shape ``(n + 1, B)``.
    :param cells: shape ``(B, n + 1, n + 1, R)``, and their ``adjoints``.
    :param e: what cells are scaled by, ``(B, n + 1, n + 1)``, in logarithms, in [i, j].
    :param products: M, a row for each span, and what it is scaled by, ``e_rows``.
    :param inverse: of each row, what its cell was multiplied by.
    :param opened: of each row the adjoints of its cell, before that.
    :param top: see :class:`RankSpace`; ``seed``, its factor in the adjoint of a whole sentence.
    """

    lengths: Array
    first: Array
    cells: Array
    adjoints: Array
    e: Array
    products: Array
    e_rows: Array
    inverse: Array
    opened: Array
    top: Array
    seed: Array


class _Chunk:
    """Some sentences, the longest first.

    :param scaled: the tables of words, the greatest number of each one, and the logarithms of their divisors.
    """

    def __init__(self, given: RankSpace, scaled: tuple[Array, Array], words: Array, lengths: Array) -> None:
        self.given, self.words = given, words
        (B, n), R, dtype = words.shape, len(given.top), given.top.numpy().dtype
        sizes = np.maximum(lengths - np.arange(n + 1)[:, None] + 1, 0)
        sizes[:2] = 0
        self.sentences = np.repeat(np.tile(np.arange(B), n + 1), sizes.reshape(-1))  # of rows
        ends = sizes.reshape(-1).cumsum()
        self.ends = ends.reshape(n + 1, B)[:, -1]  # of the rows of each width
        cells, adjoints = (np.zeros((B, n + 1, n + 1, R), dtype) for _ in range(2))
        e, rows = np.full((B, n + 1, n + 1), -np.inf), len(self.sentences)
        table, logs = scaled
        for j in range(1, n + 1):
            w = words[:, j - 1]
            cells[:, j - 1, j], cells[:, j, j - 1], e[:, j - 1, j] = table[w, :R], table[w, R:], logs[w]
        self.charts = _Charts(
            lengths,
            (ends - sizes.reshape(-1)).reshape(n + 1, B),
            cells,
            adjoints,
            e,
            np.empty((rows, R), dtype),
            np.empty(rows),
            np.zeros(rows, dtype),
            np.empty((rows, 2 * R), dtype),
            given.top.numpy(),
            np.zeros(B),
        )
        self.several = np.nonzero(lengths > 1)[0]
        self.whole = self.charts.first[lengths[self.several], self.several]  # the rows of their tops

    def _run(self, function: Any, w: int, found: Array) -> None:
        """Call a compiled function of the spans of a width on every thread."""
        (B, n), R = self.words.shape, len(self.given.top)
        run_workers(lambda turns: function(turns, w, self.charts, found), 8.0 * w * B * (n - w + 1) * R)

    def _times(self, rows: Array, w: int, matrix: Tensor) -> Array:
        """The rows of a width, times a matrix."""
        return (torch.from_numpy(rows[self.charts.first[w, 0] : self.ends[w]]) @ matrix).numpy()

    def inside(self) -> Array:
        """Log Z of each sentence."""
        products, top = self.charts.products, self.charts.top.astype(np.float64)
        found = products[:0]
        for w in range(2, self.words.shape[1] + 1):
            self._run(_fill, w, found)
            found = self._times(products, w, self.given.rules.mT)
        self.z, e = self.given.single.numpy().astype(np.float64)[self.words[:, 0]], np.zeros(len(self.words))
        self.z[self.several] = products[self.whole].astype(np.float64) @ top
        e[self.several] = self.charts.e_rows[self.whole]
        with np.errstate(divide="ignore"):
            log_z: Array = np.log(self.z) + e
        return log_z

    def outside(self) -> Array:
        """Adjoints of log Z with respect to all cells; and which sentences are sure to have lost no digits."""
        charts, rules = self.charts, self.given.rules
        with np.errstate(over="ignore"):  # then the sentence fails
            np.divide(1.0, self.z, out=charts.seed, where=self.z > 0)
        found = charts.products[:0]
        for w in range(self.words.shape[1], 0, -1):
            self._run(_open, w, found)
            found = self._times(charts.opened, w, rules)
        # All adjoints: of the cells before they were scaled, of the sums over splits, and of words.
        by_row = (torch.from_numpy(charts.opened) @ (1 + rules.sum(1))).double().numpy()
        bound = np.bincount(self.sentences, by_row, len(self.words)) + charts.seed * (1.0 + float(charts.top.sum()))
        bound += sum(part.astype(np.float64).sum((1, 2)) for part in self._word_adjoints())
        good: Array = (bound <= GREATEST[rules.dtype]) & (self.z > 0) & (self.z < np.inf)
        return good

    def _word_adjoints(self) -> tuple[Array, Array]:
        """Of words as left and as right children, each ``(B, n, R)``."""
        j = np.arange(1, self.words.shape[1] + 1)
        return self.charts.adjoints[:, j - 1, j], self.charts.adjoints[:, j, j - 1]

    def count(self, scale: Array, total: RankSpace) -> None:
        """Add the derivatives of log Z, times the scale of each sentence; those of scale zero may have failed."""
        charts, lengths = self.charts, self.charts.lengths
        products, opened = charts.products, charts.opened
        if (scale != 1).any():
            left_out = (scale == 0)[self.sentences]
            products[left_out] = opened[left_out] = 0.0  # they may be infinite
            opened *= scale[self.sentences, None].astype(opened.dtype)
        total.rules.addmm_(torch.from_numpy(opened).mT, torch.from_numpy(products))
        own = scale * np.where(scale == 0, 0.0, charts.seed)
        total.top.add_(torch.from_numpy(own[self.several] @ products[self.whole]))
        left, right = self._word_adjoints()
        here = (np.arange(left.shape[1]) < lengths[:, None]) & (scale != 0)[:, None]
        rows = np.concatenate([left[here], right[here]], -1) * scale[np.nonzero(here)[0], None]
        total.words.index_add_(0, torch.from_numpy(self.words[here]), torch.from_numpy(rows).to(total.words))
        alone = torch.from_numpy(lengths == 1)
        first, seeds = torch.from_numpy(self.words[:, 0]), torch.from_numpy(own).to(total.single)
        total.single.index_add_(0, first[alone], seeds[alone])


@kernel
def _fill(turns: Array, w: int, charts: _Charts, found: Array) -> None:
    """The cells of the spans that are one word shorter, from what was ``found`` for their rows; then the rows of w."""
    lengths, first, cells, e = charts.lengths, charts.first, charts.cells, charts.e
    R = cells.shape[3]
    c = np.empty(1, cells.dtype)
    b = take(turns)
    while b < len(lengths) and lengths[b] >= w:
        n = lengths[b]
        for i in range(n - w + 2 if w > 2 else 0):
            j, row = i + w - 1, first[w - 1, b] + i
            values = found[row - first[w - 1, 0]]
            greatest = values.max()
            c[0] = 1 / greatest if greatest > 0 else 0.0
            charts.inverse[row] = c[0]
            e[b, i, j] = charts.e_rows[row] + np.log(greatest) if greatest > 0 else -np.inf
            factor, left, right = c[0], cells[b, i, j], cells[b, j, i]
            for r in range(R):
                left[r] = values[r] * factor
            for r in range(R):
                right[r] = values[R + r] * factor
        for i in range(n - w + 1):
            j, row = i + w, first[w, b] + i
            top = -np.inf
            for k in range(i + 1, j):
                top = max(top, e[b, i, k] + e[b, k, j])
            charts.e_rows[row] = top
            products = charts.products[row]
            products[:] = 0
            for k in range(i + 1, j if top > -np.inf else i + 1):
                c[0] = np.exp(e[b, i, k] + e[b, k, j] - top)
                factor, left, right = c[0], cells[b, i, k], cells[b, j, k]
                for r in range(R):
                    products[r] += factor * left[r] * right[r]
        b = take(turns)


@kernel
def _open(turns: Array, w: int, charts: _Charts, found: Array) -> None:
    """Adjoints of parts, from those ``found`` for the rows that are one word longer; then those of the rows of w."""
    lengths, first, cells, e = charts.lengths, charts.first, charts.cells, charts.e
    R = cells.shape[3]
    c = np.empty(1, cells.dtype)
    b = take(turns)
    while b < len(lengths) and lengths[b] >= w:
        n = lengths[b]
        for i in range(n - w):
            j, row = i + w + 1, first[w + 1, b] + i
            above = found[row - first[w + 1, 0]]
            if w + 1 == n:
                c[0] = charts.seed[b]
                for r in range(R):
                    above[r] = c[0] * charts.top[r]
            for k in range(i + 1, j if charts.e_rows[row] > -np.inf else i + 1):
                c[0] = np.exp(e[b, i, k] + e[b, k, j] - charts.e_rows[row])
                factor, left, right = c[0], cells[b, i, k], cells[b, j, k]
                to_left, to_right = charts.adjoints[b, i, k], charts.adjoints[b, j, k]
                for r in range(R):
                    x = factor * above[r]
                    to_left[r] += x * right[r]
                    to_right[r] += x * left[r]
        for i in range(n - w + 1 if w > 1 else 0):
            j, row = i + w, first[w, b] + i
            left, right, opened = charts.adjoints[b, i, j], charts.adjoints[b, j, i], charts.opened[row]
            c[0] = charts.inverse[row]
            factor = c[0]
            for r in range(R):
                opened[r] = left[r] * factor
            for r in range(R):
                opened[R + r] = right[r] * factor
        b = take(turns)
