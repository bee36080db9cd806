# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside, outside and counts of some sentences under a dense grammar; see :mod:`.cfg_dense`."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .cfg_rules import Matches


class Shape(NamedTuple):
    """Wide and narrow symbols and where the weights of rules go, by kind of pair: wide or narrow, left and right."""

    wide: Tensor
    narrow: Tensor
    roots: tuple[Tensor, Tensor]  # places among wide, then narrow symbols, and events: what a sentence may be
    kinds: list[tuple[Tensor, Tensor, int]]  # places in a matrix (wide, pairs), events, pairs
    least: int  # words of a wide symbol: 1 or 2


class Chunk:
    """Inside, outside and counts of some sentences.

    ``left`` and ``right`` (B, n + 1, n + 1, wide) have the cell (i, i + w) at [i, w] and at [i + w, n - w], so that
    what the splits of a span need lies side by side; ``e`` and ``e_right`` (B, n + 1, n + 1) likewise.
    """

    def __init__(
        self,
        log_weights: Tensor,
        shift: Tensor,
        shape: Shape,
        tables: list[Tensor],
        matches: Matches,
        room: dict[int, Tensor],
    ) -> None:
        self.shape, self.tables, self.shift = shape, tables, shift
        B, self.n = len(matches), matches.max_length
        self.device = log_weights.device
        self.lengths = torch.from_numpy(matches.lengths).to(self.device)
        sentence, i, symbol, event = (
            torch.from_numpy(np.ascontiguousarray(x)).to(self.device)
            for x in (matches.sentence, matches.table[:, 0], matches.table[:, 2], matches.table[:, 3])
        )
        N, n = len(shape.wide), self.n
        self.event = torch.where(event < 0, len(log_weights), event)
        extended = torch.cat([log_weights, log_weights.new_zeros(1)])
        values = extended[self.event]
        own = extended[shape.roots[1]]
        self.root_shift = own.max().clamp(min=torch.finfo(own.dtype).min)
        self.root_weights = (own - self.root_shift).exp()
        self.roots = own.new_zeros(N + len(shape.narrow)).index_add_(0, shape.roots[0], self.root_weights)
        peak = log_weights.new_full((B * n,), -torch.inf).scatter_reduce(0, sentence * n + i, values, "amax")
        self.values = (values - peak[sentence * n + i]).nan_to_num(nan=0.0, posinf=0.0).exp() * values.isfinite()
        S = N + len(shape.narrow)
        column = torch.empty(S, dtype=torch.long, device=self.device)
        column[torch.cat([shape.wide, shape.narrow])] = torch.arange(S, device=self.device)
        self.place = (sentence * n + i) * S + column[symbol]
        words = log_weights.new_zeros(B * n * S).index_add_(0, self.place, self.values).reshape(B, n, S)
        self.narrow = words[..., N:].contiguous()
        self.left, self.right = (log_weights.new_zeros(B, n + 1, n + 1, N) for _ in range(2))
        self.e, self.e_right = (log_weights.new_full((B, n + 1, n + 1), -torch.inf) for _ in range(2))
        self._put(1, words[..., :N], peak.reshape(B, n))
        # Adjoints as left and as right parts, of which those of a span's cells are the sum.
        self.by_left, self.by_right = torch.zeros_like(self.left), torch.zeros_like(self.right)
        self.by_given = {kind: torch.zeros_like(self.left) for kind in (1, 2)}
        self.c: list[Tensor] = []
        self.m: list[Tensor] = []
        # One row for each span of two words or more, the short ones first, in memory that the chunks share.
        self.rows = np.cumsum([0, 0, *(B * (n - w + 1) for w in range(2, n + 1))])
        for kind, width in ((0, N * N), (3, len(shape.narrow) ** 2), (4, N)):
            size = int(self.rows[2 if kind == 3 else -1]) if n > 1 else 0
            if kind not in room or len(room[kind]) < size:
                room[kind] = log_weights.new_empty(size, width)
        self.X, self.opened = {kind: room[kind] for kind in (0, 3)}, room[4]
        # Rules with one narrow symbol, given a word, (n, B, N, N): [parent, wide symbol], and the other way round.
        words = self.narrow.transpose(0, 1)
        self.given = {kind: (words @ tables[kind].reshape(N * N, -1).mT).reshape(n, B, N, N) for kind in (1, 2)}
        self.turned = {kind: given.mT.contiguous() for kind, given in self.given.items()}

    def _put(self, w: int, cells: Tensor, e: Tensor) -> None:
        m = self.n - w + 1
        self.left[:, :m, w], self.right[:, w:, self.n - w] = cells, cells
        self.e[:, :m, w], self.e_right[:, w:, self.n - w] = e, e

    def _ranges(self, w: int) -> tuple[int, slice, slice]:
        """Of the spans of width w: how many, the splits of two wide symbols among all w - 1, as left and as right."""
        low, high = self.shape.least, w - self.shape.least
        return self.n - w + 1, slice(low, high + 1), slice(self.n - w + low, self.n - w + high + 1)

    def _kinds(self, w: int) -> list[int]:
        least = self.shape.least
        return [t for t, low in enumerate((2 * least, least + 1, least + 1, 2)) if w >= low and (t < 3 or w == 2)]

    def inside(self) -> Tensor:
        """log Z of each sentence."""
        B, N = len(self.lengths), len(self.shape.wide)
        for w in range(2, self.n + 1):
            m, own, other = self._ranges(w)
            both = self.e[:, :m, 1:w] + self.e_right[:, w:, self.n - w + 1 : self.n]
            top = both.amax(-1, keepdim=True).clamp_min(torch.finfo(both.dtype).min)
            c = (both - top).exp()
            Y: Any = 0.0
            for kind in self._kinds(w):
                if kind in (1, 2):
                    words, cells, _, split = self._sides(kind, w)
                    more = _rows_times(cells, self.turned[kind][words]) * c[:, :, split, None]
                    Y = Y + more.reshape(B * m, N).mT
                    continue
                X = self.X[kind][self.rows[w - 1] : self.rows[w]]
                if kind == 0:
                    left = self.left[:, :m, own] * c[:, :, own.start - 1 : own.stop - 1, None]
                    right = self.right[:, w:, other].reshape(B * m, -1, N)
                    torch.bmm(left.reshape(B * m, -1, N).mT, right, out=X.view(B * m, N, N))
                else:
                    P = self.narrow.shape[-1]
                    torch.mul(self.narrow[:, :m, :, None], self.narrow[:, 1:, None], out=X.view(B, m, P, P))
                Y = Y + self.tables[kind] @ X.mT
            greatest = Y.amax(0)
            divisor = torch.where(greatest > 0, greatest, 1.0)
            e = torch.where(greatest > 0, greatest.log() + self.shift, -torch.inf).reshape(B, m) + top[..., 0]
            self._put(w, (Y / divisor).mT.reshape(B, m, N), e)
            self.c.append(c)
            self.m.append(divisor)
        rows = torch.arange(B, device=self.device)
        short = self.narrow[:, 0] * (self.lengths == 1)[:, None]
        self.whole = torch.cat([self.left[rows, 0, self.lengths], short], 1)
        self.z = self.whole @ self.roots
        return self.z.log() + self.e[rows, 0, self.lengths] + self.root_shift

    def _sides(self, kind: int, w: int) -> tuple[slice, Tensor, Tensor, int]:
        """Where one symbol is narrow: its words, the cells of the other, their adjoints, and at which split."""
        m, n = self.n - w + 1, self.n
        if kind == 1:
            return slice(w - 1, n), self.left[:, :m, w - 1], self.by_left[:, :m, w - 1], -1
        return slice(0, m), self.right[:, w:, n - w + 1], self.by_right[:, w:, n - w + 1], 0

    def outside(self, good: Tensor) -> Tensor:
        """Adjoints of log Z with respect to all cells; returns the sum of all that were met, by sentence."""
        B, N, n = len(self.lengths), len(self.shape.wide), self.n
        for table in (self.by_left, self.by_right, *self.by_given.values()):
            table.zero_()
        self.by_narrow = torch.zeros_like(self.narrow)
        rows = torch.arange(B, device=self.device)
        self.seed = torch.where(good, 1 / torch.where(good, self.z, 1.0), 0.0)
        self.by_left[rows, 0, self.lengths] = self.seed[:, None] * self.roots[:N]
        self.by_narrow[:, 0] = (self.seed * (self.lengths == 1))[:, None] * self.roots[N:]
        bound = self.seed
        for w in range(n, 1, -1):
            m, own, other = self._ranges(w)
            adjoint = (self.by_left[:, :m, w] + self.by_right[:, w:, n - w]).reshape(B * m, N)
            opened = torch.div(adjoint, self.m[w - 2][:, None], out=self.opened[self.rows[w - 1] : self.rows[w]])
            bound = bound + opened.reshape(B, -1).sum(1)
            c = self.c[w - 2]
            for kind in self._kinds(w):
                if kind in (1, 2):
                    words, _, adjoints, split = self._sides(kind, w)
                    scaled = opened.reshape(B, m, N) * c[:, :, split, None]
                    # In the same places as the cells of the other symbol.
                    self.by_given[kind][:, words, n - w + 1 if kind == 1 else w - 1] = scaled
                    adjoints.add_(_rows_times(scaled, self.given[kind][words]))
                    continue
                dX = opened @ self.tables[kind]
                bound = bound + (opened @ self.tables[kind].sum(1)).reshape(B, -1).sum(1)
                if kind == 3:
                    d = dX.reshape(B, m, self.narrow.shape[-1], -1)
                    self.by_narrow[:, :m] += torch.matmul(d, self.narrow[:, 1:, :, None])[..., 0]
                    self.by_narrow[:, 1:] += torch.matmul(self.narrow[:, :m, None], d)[:, :, 0]
                    continue
                factor = c[:, :, own.start - 1 : own.stop - 1, None]
                d = dX.reshape(B * m, N, N)
                left = self.left[:, :m, own] * factor
                self.by_right[:, w:, other] += torch.bmm(left.reshape(B * m, -1, N), d).reshape(left.shape)
                right = self.right[:, w:, other].reshape(B * m, -1, N)
                self.by_left[:, :m, own] += torch.bmm(right, d.mT).reshape(left.shape) * factor
        # Adjoints of the rules given a word: the sums over the spans that begin or end with it.
        ends = torch.matmul(self.by_given[1][:, :n].mT, self.right[:, :n])
        begins = torch.matmul(self.by_given[2][:, :n].mT, self.left[:, 1:])
        self.sums = {1: ends.reshape(B, n, N * N), 2: begins.reshape(B, n, N * N)}
        for kind, sums in self.sums.items():
            self.by_narrow += sums @ self.tables[kind].reshape(N * N, -1)
        bound = bound + self.by_narrow.reshape(B, -1).sum(1)
        return bound

    def count(self, scale: Tensor, counted: list[Tensor], counts: Tensor) -> None:
        """Add products times adjoints to ``counted`` (by kind of pair), and the posteriors of matches to ``counts``."""
        B, n = len(self.lengths), self.n
        each = torch.cat([scale.repeat_interleave(n - w + 1) for w in range(2, n + 1)] or [scale[:0]])
        weighted = self.opened[: self.rows[-1]] * each[:, None]
        N = weighted.shape[1]
        for kind, sums in self.sums.items():
            own_sums = (sums * scale[:, None, None]).reshape(B * n, N * N)
            counted[kind].view(N * N, -1).addmm_(own_sums.mT, self.narrow.reshape(B * n, -1))
        for kind in (0, 3):
            used = [w for w in range(2, n + 1) if kind in self._kinds(w)]
            if used:
                own = slice(self.rows[used[0] - 1], self.rows[used[-1]])
                counted[kind].addmm_(weighted[own].mT, self.X[kind][own])
        wide = self.by_left[:, :n, 1] + self.by_right[:, 1:, n - 1]
        adjoints = torch.cat([wide, self.by_narrow], -1) * scale[:, None, None]
        counts.index_add_(0, self.event, adjoints.flatten()[self.place] * self.values)
        place, events = self.shape.roots
        counts.index_add_(0, events, ((scale * self.seed) @ self.whole)[place] * self.root_weights)


def _rows_times(rows: Tensor, matrices: Tensor) -> Tensor:
    """Rows (B, m, N) times matrices (m, B, N, N), which lie one after the other."""
    B, m, N = rows.shape
    found = torch.bmm(rows.transpose(0, 1).reshape(m * B, 1, N), matrices.view(m * B, N, -1))
    return found.reshape(m, B, -1).transpose(0, 1)
