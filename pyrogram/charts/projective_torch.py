# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees with valence, in torch: any device, any number of derivatives.

Split-head chart of Eisner and Satta, O(n^3) time and memory. Words are 1..n, the wall is 0. For a head i and
words to its right,

    trapezoid(i, j)   j is a child of i, and all words between them descend from one of the two
    open(i, k)        i has all its descendants up to k, and may take more children
    complete(i, k)    the same, and i has stopped

with mirror images for heads on the right of their words, marked ' below. A child's valence is 0 if and only
if its head's open part is still empty, so valence costs nothing:

    trapezoid(i, j) = arc(i, j, 0) complete'(i+1, j) + arc(i, j, 1) sum_{i<k<j} open(i, k) complete'(k+1, j)
    open(i, k)      = sum_{i<j<=k} trapezoid(i, j) complete(j, k)
    complete(i, k)  = open(i, k) stop(i, k > i)

The wall is a head without stops, and log Z is open(0, length); a single root means that the wall's second
child weighs nothing. Cells of one width are computed at once, and both directions at once: *frame* 0 is the
sentence, frame 1 its mirror image, in which position p is n - p and every head stands left of its words.

**References:**

[1] Eisner, J. and Satta, G. (1999). Efficient parsing for bilexical context-free grammars and head automaton
grammars. ACL, section 5. https://aclanthology.org/P99-1059/
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
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> Float[Tensor, "B"]:
    """Log of the total weight of all trees of each sentence; -inf if there is none.

    :param arcs: [sentence, head, dependent, valence of the dependent], V = 2, or 1 if valence plays no part.
    :param stops: [sentence, head, direction, valence].
    :param lengths: number of words, from 1 to n.
    """
    scores = _Scores.read(arcs, stops, lengths, multiroot)
    return _inside(scores, LogSemiring(arcs.device)).goal(lengths)[0] + scores.offset


def marginals(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B N N V"], Float[Tensor, "B N 2 2"] | None]:
    """Log partition and its gradient: the probability of every arc and of every stop.

    Differentiable if an input requires a gradient. Zero for a sentence without trees.
    """
    inputs = [arcs] if stops is None else [arcs, stops]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.inference_mode(False), torch.enable_grad():
        inputs = [x if keep and x.requires_grad else x.detach().clone().requires_grad_() for x in inputs]
        log_z = log_partition(inputs[0], inputs[1] if len(inputs) == 2 else None, lengths.clone(), multiroot)
        gradient = torch.autograd.grad(log_z.sum(), inputs, create_graph=keep)
    return log_z if keep else log_z.detach(), gradient[0], gradient[1] if len(inputs) == 2 else None


@torch.no_grad()
def sample(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B N-1"]:
    """Independent draws from the posterior: heads, padded with -1.

    The inside chart is filled once for all draws; a draw then costs O(n^2).
    """
    B, n = arcs.shape[0], arcs.shape[1] - 1
    scores = _Scores.read(arcs, stops, lengths, multiroot)
    chart = _inside(scores, LogSemiring(arcs.device))
    alive = chart.goal(lengths)[0] > -torch.inf
    if not bool(alive.all()):
        raise ValueError(f"sentence {int((~alive).nonzero()[0])} has no tree of positive weight to sample")

    def draw(log_weights: Tensor, rank: Tensor) -> Tensor:
        weights = (log_weights - log_weights.amax(-1, keepdim=True)).exp()
        return (weights / torch.empty_like(weights).exponential_(generator=generator)).argmax(-1)

    heads = []
    chunk = max(1, _LANES // (B * n))
    for start in range(0, num_samples, chunk):
        lanes = alive.expand(min(chunk, num_samples - start), B)
        heads.append(_descend(chart, lengths, lanes, torch.zeros_like(lanes, dtype=torch.long), draw))
    return torch.cat([lengths.new_empty(0, B, n, dtype=torch.long), *heads])


@torch.no_grad()
def top_k(
    arcs: Float[Tensor, "B N N V"],
    stops: Float[Tensor, "B N 2 2"] | None,
    lengths: Int[Tensor, "B"],
    multiroot: bool,
    k: int,
) -> tuple[Int[Tensor, "k B N-1"], Float[Tensor, "k B"]]:
    """The k best trees and their scores, best first; where there are fewer, heads are -1 and scores -inf."""
    scores = _Scores.read(arcs, stops, lengths, multiroot)
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

    arcs: Tensor  # (width, frame, left end, valence, B)
    stops: Tensor | None  # (frame, head, valence, B)
    offset: Tensor  # (B,), what was taken off

    @staticmethod
    def read(arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool) -> "_Scores":
        N = arcs.shape[1]
        at = torch.arange(N, device=arcs.device)
        real = at <= lengths[:, None]
        word = real & (at > 0)
        valid = (real[:, :, None] & word[:, None, :] & (at[:, None] != at))[..., None]
        second = ((at[:, None] == 0) & (at[:2] == 1))[:, None, :]  # of the wall: (N, 1, 2)
        if not multiroot:
            arcs = arcs.expand(-1, -1, -1, 2)
            valid = valid & ~second
        arcs, offset = _shifted(arcs, valid, (1, 3))
        if not multiroot:
            arcs = arcs.masked_fill(second, -torch.inf)
        arcs = arcs.expand(-1, -1, -1, 2)
        # Cell (width w, left end i) of frame 0 is the arc i -> i + w, of frame 1 n - i -> n - i - w.
        w, i = at[:, None], at
        flat = torch.stack([i * N + i + w, (N - 1 - i) * N + N - 1 - i - w], 1)
        flat = torch.where((i + w < N)[:, None, :], flat, 0)
        arcs = arcs.flatten(1, 2).permute(1, 2, 0).index_select(0, flat.flatten())
        arcs = arcs.reshape(N, 2, N, 2, -1)
        if stops is None:
            return _Scores(arcs, None, offset)
        stops, more = _shifted(stops, word[:, :, None, None], (3,))
        stops = torch.stack([stops[:, :, 1], stops[:, :, 0].flip(1)]).permute(0, 2, 3, 1)
        return _Scores(arcs, stops, offset + more)


def _shifted(scores: Tensor, valid: Tensor, choice: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores less their maximum over the dimensions of one choice, and the sum of the maxima."""
    best = scores.detach().masked_fill(~valid, -torch.inf).amax(choice, keepdim=True)
    best = best.masked_fill(best == -torch.inf, 0.0)
    return torch.where(valid, scores - best, 0.0), best.flatten(1).sum(1)


class _Chart(NamedTuple):
    """All cells by width; a cell of width w is (rank, frame, left end 0..n-w, B)."""

    semiring: Semiring
    scores: _Scores
    open: list[Tensor]
    complete: list[Tensor]
    trapezoid: list[Tensor]  # the first, of width 0, is a filler

    def goal(self, lengths: Tensor) -> Tensor:
        """The wall's open cell that ends with the sentence: (rank, B)."""
        wall = torch.stack([cell[:, 0, 0] for cell in self.open])
        return wall.gather(0, lengths.expand(1, self.semiring.ranks, -1))[0]


def _inside(scores: _Scores, semiring: Semiring) -> _Chart:
    """Fills the chart.

    Tables hold, for every cell of the current width, what its splits need, split first: ``own`` and
    ``traps`` start at its left end and widen, ``rest`` ends at its right end and narrows, as seen from both
    frames: complete in its first two frames, complete' in the other two.
    """
    N = scores.arcs.shape[0]

    def close(cell: Tensor, width: int) -> Tensor:
        if scores.stops is None:
            return cell
        return cell + scores.stops[:, : N - width, min(width, 1)]

    one = semiring.one(torch.zeros_like(scores.arcs[0, :, :, 0]))
    chart = _Chart(semiring, scores, [one], [close(one, 0)], [one])
    own = traps = rest = one.new_zeros(0)
    for w, arc in enumerate(scores.arcs.unbind(0)[1:], start=1):
        m = N - w
        arc = arc[:, :m]
        complete = chart.complete[-1]
        both = torch.cat([complete, complete.flip(-3, -2)], -3)[None, ..., 1:, :]
        rest = both if w == 1 else torch.cat([both, rest[..., 1:, :]])
        right, left = rest[..., :2, :, :], rest[..., 2:, :, :]
        trapezoid = left[0] + arc[:, :, 0]
        if w > 1:
            own = own[..., :m, :]
            trapezoid = semiring.plus(trapezoid, semiring.dot(own, left[1:]) + arc[:, :, 1])
        traps = trapezoid[None] if w == 1 else torch.cat([traps[..., :m, :], trapezoid[None]])
        opened = semiring.dot(traps, right)
        own = opened[None] if w == 1 else torch.cat([own, opened[None]])
        chart.trapezoid.append(trapezoid)
        chart.open.append(opened)
        chart.complete.append(close(opened, w))
    return chart


def _descend(
    chart: _Chart,
    lengths: Tensor,
    alive: Tensor,
    ranks: Tensor,
    choose: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Reads one tree per lane off a chart, from the top down: heads (S, B, n), -1 where not ``alive``.

    A lane is a copy of a sentence; ``alive`` and ``ranks`` are (S, B). Each of n steps takes one open cell
    off the lane's agenda, lets ``choose`` pick first its last trapezoid and then that trapezoid's split, from
    scores (lane, candidate) and the cell's rank, and puts the three open cells that remain on the agenda.
    """
    S, B = alive.shape
    N = chart.scores.arcs.shape[0]
    n = N - 1
    left, right = chart.semiring.left, chart.semiring.right
    sentence = torch.arange(B, device=alive.device).repeat(S)[:, None]
    split = torch.arange(n, device=alive.device)
    arcs = chart.scores.arcs.flatten()
    opened, complete, trapezoid = (
        torch.stack([pad(cell, (0, 0, 0, N - cell.shape[-2])) for cell in cells], 1).flatten(1)
        for cells in (chart.open, chart.complete, chart.trapezoid)
    )

    def cells(table: Tensor, width: Tensor, frame: Tensor, start: Tensor) -> Tensor:
        """(rank, lane, split), anything where there is no such cell."""
        return table[:, ((width.clamp_min(0) * 2 + frame) * N + start.clamp_max(n)) * B + sentence]

    def pick(a: Tensor, b: Tensor, width: Tensor, rank: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split, rank of the left part and rank of the right part."""
        candidates = torch.where(split < width, a[left] + b[right], -torch.inf)
        choice = choose(candidates.permute(1, 2, 0).flatten(1), rank[:, 0])[:, None]
        choice = torch.where(live, choice, 0)  # an idle lane has nothing to choose from
        pair = choice % len(left)
        return choice // len(left), left[pair], right[pair]

    size = alive.reshape(-1, 1).long()
    agenda = pad(ranks.reshape(-1, 1) * 2 * N * N + lengths.repeat(S)[:, None], (0, n))
    heads = torch.full_like(agenda, -1)
    for _ in range(n):
        live = size > 0
        size = size - live.long()
        item = torch.where(live, agenda.gather(1, size), 1)
        rank, f, i, w = item // (2 * N * N), item // (N * N) % 2, item // N % N, item % N
        # open(i, k), k = i + w: which trapezoid(i, j) and complete(j, k)?
        a, b = cells(trapezoid, split + 1, f, i), cells(complete, w - 1 - split, f, i + 1 + split)
        s, rank, rest = pick(a, b, w, rank)
        outer = (rest, f, i + s + 1, w - s - 1)
        # trapezoid(i, j), j = i + w: which open(i, k) and complete'(k + 1, j)?
        w = s + 1
        arc = arcs[(((w * 2 + f) * N + i) * 2 + (split > 0).long()) * B + sentence]
        a, b = cells(opened, split, f, i) + arc, cells(complete, w - 1 - split, 1 - f, n - i - w)
        s, rank, rest = pick(a, b, w, rank)
        inner = (rest, 1 - f, n - i - w, w - s - 1)
        head, child = torch.where(f == 0, i, n - i), torch.where(f == 0, i + w, n - i - w)
        heads = heads.scatter(1, torch.where(live, child, 0), head)
        for cell in ((rank, f, i, s), inner, outer):
            agenda = agenda.scatter(1, size, ((cell[0] * 2 + cell[1]) * N + cell[2]) * N + cell[3])
            size = size + (live & (cell[3] > 0)).long()
    return heads[:, 1:].reshape(S, B, n)
