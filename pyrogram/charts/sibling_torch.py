# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees with sibling scores, in torch: any device, any number of derivatives.

The second-order chart of McDonald and Pereira (2006), O(n^3) time and memory. For a head i and words to its right,

    trapezoid(i, j)   j is a child of i, and all words between them descend from one of the two
    between(r, j)     r and j are neighbouring children of a head outside, and all between them descend from one of both
    complete(i, k)    i has all its descendants up to k, and has stopped

with mirror images for heads on the right of their words, marked ' below (between is its own), and with w(i, j, r) the
weight of the arc from i to j after the sibling r,

    trapezoid(i, j) = w(i, j, i) complete'(i+1, j) + sum_{i<r<j} trapezoid(i, r) between(r, j) w(i, j, r)
    between(r, j)   = sum_{r<=k<j} complete(r, k) complete'(k+1, j)
    complete(i, k)  = sum_{i<j<=k} trapezoid(i, j) stop(i, j) complete(j, k)
    complete(i, i)  = stop(i, i)

The wall is a head without stops, and log Z is complete(0, length); a single root means that the wall's second
child weighs nothing. Cells of one width are computed at once, and both directions at once, in the two *frames* of
:mod:`.projective_torch`.

**References:**

[1] McDonald, R. and Pereira, F. (2006). Online learning of approximate dependency parsing algorithms. EACL,
section 2.1. https://aclanthology.org/E06-1011/
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from pyrogram.charts.semirings import KBestSemiring, LogSemiring, Semiring

_LANES = 2**20  # candidates that one chunk of samples may look at in one step


def log_partition(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> Float[Tensor, "B"]:
    """Log of the total weight of all trees of each sentence; -inf if there is none.

    :param arcs: [sentence, head, dependent].
    :param siblings: [sentence, head, dependent, sibling, or the head for the first child].
    :param stops: [sentence, head, direction, last child, or the head for none].
    :param lengths: number of words, from 1 to n.
    """
    scores = _Scores.read(arcs, siblings, stops, lengths, multiroot)
    return _inside(scores, LogSemiring(arcs.device)).goal(lengths)[0] + scores.offset


def marginals(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Log partition and its gradient: the probability of every arc, of every pair of siblings and of every stop.

    Differentiable if an input requires a gradient. Zero for a sentence without trees.
    """
    inputs = [x for x in (arcs, siblings, stops) if x is not None]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.inference_mode(False), torch.enable_grad():
        inputs = [x if keep and x.requires_grad else x.detach().clone().requires_grad_() for x in inputs]
        ends = None if stops is None else inputs[2]
        log_z = log_partition(inputs[0], inputs[1], ends, lengths.clone(), multiroot)
        gradient = torch.autograd.grad(log_z.sum(), inputs, create_graph=keep)
    log_z = log_z if keep else log_z.detach()
    return log_z, gradient[0], gradient[1], None if stops is None else gradient[2]


@torch.no_grad()
def sample(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B N-1"]:
    """Independent draws from the posterior: heads, padded with -1.

    The inside chart is filled once for all draws; a draw then costs O(n^2).
    """
    B, n = arcs.shape[0], arcs.shape[1] - 1
    scores = _Scores.read(arcs, siblings, stops, lengths, multiroot)
    chart = _inside(scores, LogSemiring(arcs.device))
    alive = chart.goal(lengths)[0] > -torch.inf
    if not bool(alive.all()):
        raise ValueError(f"sentence {int((~alive).nonzero()[0])} has no tree of positive weight to sample")

    def draw(log_weights: Tensor, rank: Tensor) -> Tensor:
        weights = (log_weights - log_weights.amax(-1, keepdim=True)).exp()
        return (weights / torch.empty_like(weights).exponential_(generator=generator)).argmax(-1)

    heads = []
    chunk = max(1, _LANES // max(1, B * n))
    for start in range(0, num_samples, chunk):
        lanes = alive.expand(min(chunk, num_samples - start), B)
        heads.append(_descend(chart, lengths, lanes, torch.zeros_like(lanes, dtype=torch.long), draw))
    return torch.cat([lengths.new_empty(0, B, n, dtype=torch.long), *heads])


@torch.no_grad()
def top_k(
    arcs: Float[Tensor, "B N N"],
    siblings: Float[Tensor, "B N N N"],
    stops: Float[Tensor, "B N 2 N"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    k: int,
) -> tuple[Int[Tensor, "k B N-1"], Float[Tensor, "k B"]]:
    """The k best trees and their scores, best first; where there are fewer, heads are -1 and scores -inf."""
    scores = _Scores.read(arcs, siblings, stops, lengths, multiroot)
    chart = _inside(scores, KBestSemiring(k, arcs.device))
    best = chart.goal(lengths)

    def choose(candidates: Tensor, rank: Tensor) -> Tensor:
        if k == 1:
            return candidates.argmax(-1)
        # Stable: two ranks of one cell never choose the same candidate, even when scores are equal.
        order = candidates.sort(dim=-1, descending=True, stable=True).indices
        return order.gather(-1, rank[:, None])[:, 0]

    ranks = torch.arange(k, device=arcs.device)[:, None].expand_as(best)
    return _descend(chart, lengths, best > -torch.inf, ranks, choose), best + scores.offset


class _Scores(NamedTuple):
    """Scores as the chart reads them, batch last; whatever it must not read is 0.

    The best score of every word's arcs and of each head's stops is taken off: each tree has exactly one of
    them, and small numbers are precise ones.
    """

    events: list[Tensor]  # by width w of the arc: (sibling's distance from the head 0..w-1, frame, left end, B)
    stops: Tensor | None  # (distance of the last child, frame, head, B)
    offset: Tensor  # (B,), what was taken off

    @staticmethod
    def read(arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool) -> "_Scores":
        N = arcs.shape[1]
        at = torch.arange(N, device=arcs.device)
        real = at <= lengths[:, None]
        h, m, r = at[:, None, None], at[:, None], at
        later_root = (h == 0) & (r > 0) & (not multiroot)
        exists = (m > 0) & (((h <= r) & (r < m)) | ((m < r) & (r <= h)))
        valid = real[:, :, None, None] & real[:, None, :, None] & exists & ~later_root
        events, offset = _shifted(arcs[..., None] + siblings, valid, (1, 3))
        if not multiroot:
            events = events.masked_fill(later_root, -torch.inf)
        places = [_places(N, w, arcs.device) for w in range(1, N)]
        chosen = events.flatten(1).T.index_select(0, torch.cat([p.flatten() for p in places]))
        by_width = [
            part.reshape(*p.shape, -1)
            for part, p in zip(chosen.split([p.numel() for p in places]), places, strict=True)
        ]
        if stops is None:
            return _Scores(by_width, None, offset)
        side = torch.tensor([[0], [1]], device=arcs.device)
        exists = (h > 0) & torch.where(side == 0, (0 < r) & (r <= h), r >= h)
        valid = real[:, :, None, None] & real[:, None, None, :] & exists
        stops, more = _shifted(stops, valid, (3,))
        distance = at[:, None]
        index = torch.stack([(at * 2 + 1) * N + at + distance, (N - 1 - at) * 2 * N + N - 1 - at - distance], 1)
        index = torch.where((at + distance < N)[:, None, :], index, 0)
        stops = stops.flatten(1).T.index_select(0, index.flatten()).reshape(N, 2, N, -1)
        return _Scores(by_width, stops, offset + more)


def _places(N: int, width: int, device: torch.device) -> Tensor:
    """Indices in [head, dependent, sibling] of the arcs of one width: (sibling's distance, frame, left end)."""
    s, i = torch.arange(width, device=device)[:, None], torch.arange(N - width, device=device)
    n = N - 1
    right = (i * N + i + width) * N + i + s
    left = ((n - i) * N + n - i - width) * N + n - i - s
    return torch.stack([right, left], 1)


def _shifted(scores: Tensor, valid: Tensor, choice: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores less their maximum over the dimensions of one choice, and the sum of the maxima."""
    best = scores.detach().masked_fill(~valid, -torch.inf).amax(choice, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0.0)
    return torch.where(valid, scores - best, 0.0), best.flatten(1).sum(1)


class _Chart(NamedTuple):
    """All cells by width; a cell of width w is (rank, frame, left end 0..n-w, B)."""

    semiring: Semiring
    scores: _Scores
    complete: list[Tensor]
    trapezoid: list[Tensor]  # the first, of width 0, stands for a head that has no child yet
    between: list[Tensor]  # the first is a filler

    def goal(self, lengths: Tensor) -> Tensor:
        """The wall's complete cell that ends with the sentence: (rank, B)."""
        wall = torch.stack([cell[:, 0, 0] for cell in self.complete])
        return wall.gather(0, lengths.expand(1, self.semiring.ranks, -1))[0]


def _inside(scores: _Scores, semiring: Semiring) -> _Chart:
    """Fills the chart.

    Tables hold, for every cell of the current width, what its splits need, split first: ``own``, ``traps`` and
    ``last`` (complete cells, and trapezoids without and with a stop) start at its left end and widen, ``rest`` and
    ``gaps`` end at its right end and narrow; ``rest`` as seen from both frames: complete in its first two frames,
    complete' in the other two.
    """
    stops = scores.stops
    N = len(scores.events) + 1
    one = semiring.one(scores.offset.new_zeros(2, N, len(scores.offset)))
    chart = _Chart(semiring, scores, [one if stops is None else one + stops[0]], [one], [one])
    own = traps = last = rest = gaps = None
    for w, events in enumerate(scores.events, start=1):
        m = N - w
        complete, between = chart.complete[-1], chart.between[-1]
        own = _joined(own, complete[:, :1], m, widen=True)
        rest = _joined(rest, torch.cat([complete, complete.flip(-3, -2)], -3), m, widen=False)
        right, left = rest[..., :2, :, :], rest[..., 2:, :, :]
        trapezoid = left[0] + events[0]
        if w > 1:
            gaps = _joined(gaps, between, m, widen=False)
            traps = _joined(traps, chart.trapezoid[-1], m, widen=True)
            trapezoid = semiring.plus(trapezoid, semiring.dot(traps, gaps + events[1:, None]))
        between = semiring.dot(own, left[..., :1, :, :])
        stopped = trapezoid if stops is None else trapezoid + stops[w, :, :m]
        last = _joined(last, stopped, m, widen=True)
        chart.trapezoid.append(trapezoid)
        chart.between.append(torch.cat([between, between.flip(-2)], -3))
        chart.complete.append(semiring.dot(last, right))
    return chart


def _joined(table: Tensor | None, cell: Tensor, m: int, widen: bool) -> Tensor:
    """A table of splits with one cell more, for m left ends: as the last split, or as the first of what narrows."""
    if widen:
        new = cell[None, ..., :m, :]
        return new if table is None else torch.cat([table[..., :m, :], new])
    new = cell[None, ..., -m:, :]
    return new if table is None else torch.cat([new, table[..., -m:, :]])


def _descend(
    chart: _Chart,
    lengths: Tensor,
    alive: Tensor,
    ranks: Tensor,
    choose: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Reads one tree per lane off a chart, from the top down: heads (S, B, n), -1 where not ``alive``.

    A lane is a copy of a sentence; ``alive`` and ``ranks`` are (S, B). A tree is made of n trapezoids, and of as many
    complete and between cells of at least one word beside the first. Each of 2n steps takes one of these cells off the
    lane's agenda, lets ``choose`` pick its split from scores (lane, candidate) and the cell's rank, and puts the one
    or two cells that it is made of on the agenda.
    """
    S, B = alive.shape
    N = len(chart.complete)
    n = N - 1
    first, second = chart.semiring.left, chart.semiring.right
    sentence = torch.arange(B, device=alive.device).repeat(S)[:, None]
    split = torch.arange(n, device=alive.device)
    tables = torch.stack(
        [
            torch.stack([pad(cell, (0, 0, 0, N - cell.shape[-2])) for cell in cells], 1)
            for cells in (chart.complete, chart.trapezoid, chart.between)
        ],
        1,
    ).flatten(1)
    # Scores of splits [complete, trapezoid, width, split, frame, left end, B]: of the last child, of the sibling.
    events = torch.stack([pad(e, (0, 0, 0, N - e.shape[2], 0, 0, 0, n - len(e))) for e in chart.scores.events])
    if chart.scores.stops is not None:
        stops = chart.scores.stops[1:].expand(n, -1, -1, -1, -1)
        events = torch.cat([stops, events])
    else:
        events = torch.cat([torch.zeros_like(events), events])
    events = torch.cat([events, torch.zeros_like(events[:1])]).flatten()
    COMPLETE, TRAPEZOID, BETWEEN = range(3)

    def cells(kind: Tensor | int, width: Tensor, frame: Tensor, start: Tensor) -> Tensor:
        """(rank, lane, split), anything where there is no such cell."""
        place = ((kind * N + width.clamp(0, n)) * 2 + frame) * N + start.clamp(0, n)
        return tables[:, place * B + sentence]

    size = alive.reshape(-1, 1).long()
    agenda = pad(ranks.reshape(-1, 1) * 6 * N * N + lengths.repeat(S)[:, None], (0, 2 * n + 1))
    heads = torch.full((S * B, N), -1, dtype=torch.long, device=alive.device)
    for _ in range(2 * n):
        live = size > 0
        size = size - live.long()
        item = torch.where(live, agenda.gather(1, size), 1)
        rank, kind = item // (6 * N * N), item // (2 * N * N) % 3
        f, i, w = item // (N * N) % 2, item // N % N, item % N
        is_complete, is_trapezoid, is_first = kind == COMPLETE, kind == TRAPEZOID, (kind == TRAPEZOID) & (split == 0)
        # A complete cell is a trapezoid and a complete; a trapezoid is a trapezoid and a between, or a complete' alone;
        # a between is a complete and a complete'.
        a_kind = torch.where(kind == BETWEEN, COMPLETE, TRAPEZOID)
        a_width = torch.where(is_complete, split + 1, split)
        b_kind = torch.where(is_trapezoid & ~is_first, BETWEEN, COMPLETE).expand(-1, n)
        b_width = torch.where(is_trapezoid & ~is_first, w - split, w - 1 - split)
        mirrored = (kind == BETWEEN) | is_first
        b_frame = torch.where(mirrored, 1 - f, f)
        b_start = torch.where(mirrored, n - i - w, i + split + is_complete.long())
        table = torch.where(is_complete, 0, torch.where(is_trapezoid, n + w - 1, 2 * n))
        score = events[(((table * n + split) * 2 + f) * N + i) * B + sentence]
        a, b = cells(a_kind, a_width, f, i), cells(b_kind, b_width, b_frame, b_start) + score
        candidates = torch.where(split < w, a[first] + b[second], -torch.inf)
        choice = choose(candidates.permute(1, 2, 0).flatten(1), rank[:, 0])[:, None]
        choice = torch.where(live, choice, 0)  # an idle lane has nothing to choose from
        pair, s = choice % len(first), choice // len(first)
        head, child = torch.where(f == 0, i, n - i), torch.where(f == 0, i + w, n - i - w)
        heads = heads.scatter(1, torch.where(live & is_trapezoid, child, 0), head)
        outer = (second[pair], *(x.gather(1, s) for x in (b_kind, b_frame, b_start, b_width)))
        inner = (first[pair], a_kind, f, i, a_width.gather(1, s))
        for rank, kind, f, i, w in (outer, inner):
            cell = (((rank * 3 + kind) * 2 + f) * N + i) * N + w
            agenda = agenda.scatter(1, size, cell)
            size = size + (live & (w > 0)).long()
    return heads[:, 1:].reshape(S, B, n)
