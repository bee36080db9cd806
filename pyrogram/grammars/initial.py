# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where inference for the DMV starts. The start often matters more than the method; so each has a name.

All return normalised weights; a multinomial without any count is uniform. What serves every grammar (``uniform``,
``random``) is in :mod:`pyrogram.grammar`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.event_map import by_block, num_events
from pyrogram.grammar import Weights
from pyrogram.trees import check_heads, lengths_of

if TYPE_CHECKING:
    from .dmv import DMV

CELLS = 2**21  # numbers that the arcs of sentences may take at a time


def harmonic(
    grammar: DMV,
    words: Tensor,
    *,
    distance: float = 0.0,
    stops: str = "expected",
    noise: float = 0.0,
    seed: int | None = None,
) -> Weights:
    """Soft attachments that favour near heads (Klein and Manning 2004, section 3).

    In a sentence of n words each word hangs on ROOT with probability 1/n and on word i with a probability
    proportional to 1 / (distance to i + ``distance``); a one-word sentence hangs on ROOT. These soft counts
    give ``root`` and ``attach``. What gives ``stop`` matters more, and published programs differ:

    * ``stops="half"``: every decision 0.5;
    * ``stops="expected"``: from the expected number E of children that a tag's N tokens have on one side (summed
      over all tokens that have a word on that side). Of these, F = 0.9 min(N, E) are taken to be first children,
      the most that leaves no count negative, less a tenth. So with valence 0 there are F decisions to continue and
      N' - F to stop (N' all tokens of the tag), and with valence 1 E - F to continue and F to stop; greater valences
      begin as 1 does. With a single valence there are E decisions to continue and N' to stop;
    * ``stops="e-step"``: all counts, those of ``root`` and ``attach`` too, are the posterior's over trees whose
      arcs weigh what the soft attachments say and whose stops weigh 1.

    :param words: shape ``(N, n)``.
    :param distance: c in 1 / (|i - j| + c), greater than -1.
    :param stops: ``"half"``, ``"expected"`` or ``"e-step"``.
    :param noise: standard deviation of normal noise on the logarithms of all soft counts, to get many starts.
    :param seed: of that noise.
    """
    if distance <= -1:
        raise ValueError(f"distance must be greater than -1, not {distance}")
    if stops not in ("half", "expected", "e-step"):
        raise ValueError(f"stops must be 'half', 'expected' or 'e-step', not {stops!r}")
    if noise < 0:
        raise ValueError(f"noise must not be negative, not {noise}")
    total = torch.zeros(num_events(grammar.blocks) + 1, dtype=torch.float64)
    lengths, S = lengths_of(words).cpu(), grammar.num_valences
    for n in lengths.unique().tolist():
        arcs, decisions = _soft_arcs(n, S, distance, stops, grammar.valence_attach)
        for rows in (lengths == n).nonzero()[:, 0].split(sentences_at_once(n, S)):
            of_arcs, of_decisions = (x.expand(len(rows), *x.shape) for x in (arcs, decisions))
            for numbers, values in grammar._expected(of_arcs, of_decisions, words.cpu()[rows, :n]):
                total.index_add_(0, numbers.flatten(), values.flatten())
    counts = by_block(total, grammar.blocks)
    if stops != "e-step":
        stop = counts["stop"]
        half = stops == "half"
        counts["stop"] = torch.ones_like(stop) if half else _stops_from_children(grammar, words.cpu(), stop[:, :, 0, 0])
    if noise > 0:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        for c in counts.values():
            c *= torch.exp(noise * torch.randn(c.shape, dtype=torch.float64, generator=generator))
    return _normalized(grammar, counts, words)


def _soft_arcs(n: int, S: int, distance: float, stops: str, valence_attach: bool) -> tuple[Tensor, Tensor]:
    """Soft arcs (n+1, n+1, S) and stops (n+1, 2, S) of a sentence of n words."""
    attachment = soft_attachments(n, distance)[..., None]
    no_stops = torch.zeros(n + 1, 2, S, dtype=torch.float64)
    if stops != "e-step":  # all are first children; where later ones are chosen otherwise, they begin the same
        return attachment.expand(-1, -1, S) if valence_attach else torch.nn.functional.pad(
            attachment, (0, S - 1)
        ), no_stops
    trees = ProjectiveDependencyTree(attachment.log().expand(n + 1, n + 1, S), no_stops, valence=True)
    arcs, stop_counts = trees.expected_counts().values()
    return arcs, stop_counts


def soft_attachments(n: int, distance: float = 0.0) -> Tensor:
    """p(head of j is i) before any learning, shape ``(n+1, n+1)`` [head i, dependent j]; column 0 is zero."""
    position = torch.arange(1, n + 1, dtype=torch.float64)
    nearness = 1 / ((position - position[:, None]).abs() + distance).clamp_min(1e-300)
    nearness.fill_diagonal_(0)
    soft = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    soft[0, 1:] = 1 / n
    if n > 1:
        soft[1:, 1:] = (1 - 1 / n) * nearness / nearness.sum(0)
    return soft


def _stops_from_children(grammar: DMV, words: Tensor, children: Tensor) -> Tensor:
    """Stop counts (V, 2, S, 2) from expected numbers of children (V, 2)."""
    V, real = grammar.num_tags, words >= 0
    count = partial(torch.bincount, minlength=V)
    tokens = count(words[real])[:, None].expand(V, 2).double()
    able = torch.stack([count(words[:, 1:][real[:, 1:]]), count(words[:, :-1][real[:, 1:]])], 1)
    first = 0.9 * torch.minimum(able.to(children), children)
    if grammar.num_valences == 1:
        return torch.stack([children, tokens], -1)[..., None, :]
    none = torch.stack([first, tokens - first], -1)
    later = torch.stack([children - first, first], -1)
    return torch.stack([none, *[later] * (grammar.num_valences - 1)], -2)


def supervised(grammar: DMV, words: Tensor, *, heads: Tensor, smoothing: float = 0.1) -> Weights:
    """Maximum likelihood from gold trees, every count raised by ``smoothing``.

    :param words: shape ``(N, n)``.
    :param heads: shape ``(N, n)``, padded with -1; non-projective trees count too.
    """
    if heads.shape != words.shape:
        raise ValueError(f"heads must have the shape of words, {tuple(words.shape)}, not {tuple(heads.shape)}")
    check_heads(heads, lengths_of(words))
    if smoothing < 0:
        raise ValueError(f"smoothing must not be negative, not {smoothing}")
    rows = torch.from_numpy(grammar.rows_of(*(x.cpu().long().numpy() for x in (words, heads))))
    total = torch.bincount(rows[rows >= 0], minlength=num_events(grammar.blocks)).double()
    counts = {n: c + smoothing * grammar.blocks[n].outcomes for n, c in by_block(total, grammar.blocks).items()}
    return _normalized(grammar, counts, words)


def sentences_at_once(n: int, valences: int) -> int:
    """As many sentences of n words as there is room for the numbers of their arcs."""
    return max(1, CELLS // (8 * valences * (n + 1) ** 2))


def _normalized(grammar: DMV, counts: Weights, words: Tensor) -> Weights:
    dtype = torch.get_default_dtype()
    return {name: grammar.blocks[name].normalize(c).to(words.device, dtype) for name, c in counts.items()}
