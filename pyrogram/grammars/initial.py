# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where inference for the DMV starts. The start often matters more than the method; so each has a name.

All return normalised weights; a multinomial without any count is uniform. What serves every grammar (``uniform``,
``random``) is in :mod:`pyrogram.grammar`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts import projective
from pyrogram.charts.dmv import counts as count_events
from pyrogram.charts.trees import check_heads, lengths_of
from pyrogram.grammar import Weights

if TYPE_CHECKING:
    from .dmv import DMV

CELLS = 2**24  # numbers that the tables of single sentences may take at a time


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
    counts = {name: torch.zeros(block.shape, dtype=torch.float64) for name, block in grammar.blocks.items()}
    lengths = lengths_of(words).cpu()
    for n in lengths.unique().tolist():
        same_length = words.cpu()[lengths == n, :n]
        for rows in _chunks(grammar, same_length):
            used, own, small = _own_symbols(grammar, same_length[rows])
            for name, c in _soft_counts(small, own, distance, stops).items():
                _add(counts[name], name, used, c)
    if noise > 0:
        generator = _generator(seed)
        for c in counts.values():
            c *= torch.exp(noise * torch.randn(c.shape, dtype=torch.float64, generator=generator))
    return _normalized(grammar, counts, words)


def _soft_counts(grammar: DMV, words: Tensor, distance: float, stops: str) -> Weights:
    """Soft counts of sentences (B, n) of one length."""
    B, n = words.shape
    attachment = soft_attachments(n, distance)
    S = grammar.num_valences
    scores = attachment.log()[..., None].expand(n + 1, n + 1, S)
    no_stops = torch.zeros(n + 1, 2, S, dtype=torch.float64)
    if stops == "e-step":
        _, arcs, stop_marginals = projective.marginals(scores, no_stops)
        assert stop_marginals is not None
    else:
        # All attachments as first children; the extended model's later children get the same weights.
        arcs = torch.nn.functional.pad(attachment[..., None], (0, S - 1))
        stop_marginals = no_stops
    root, attach, stop = count_events(
        arcs.expand(B, -1, -1, -1),
        stop_marginals.expand(B, -1, -1, -1),
        words,
        grammar.num_tags,
        grammar.valence_attach,
    )
    root, attach, stop = root.sum(0), attach.sum(0), stop.sum(0)
    if stops == "e-step":
        return {"root": root, "attach": attach, "stop": stop}
    if grammar.valence_attach:
        attach = attach[:, :, :1].expand_as(attach).clone()
    stop = torch.ones_like(stop) if stops == "half" else _stops_from_children(grammar, words, stop[:, :, 0, 0])
    return {"root": root, "attach": attach, "stop": stop}


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
    V = grammar.num_tags
    n = words.shape[1]
    tokens = torch.zeros(V, 2, dtype=torch.float64)
    able = torch.zeros(V, 2, dtype=torch.float64)
    for d in range(2):
        tokens[:, d] = torch.bincount(words.flatten(), minlength=V)
        has_neighbour = words[:, 1:] if d == 0 else words[:, : n - 1]
        able[:, d] = torch.bincount(has_neighbour.flatten(), minlength=V)
    first = 0.9 * torch.minimum(able, children)
    if grammar.num_valences == 1:
        return torch.stack([children, tokens], -1)[..., None, :]
    none = torch.stack([first, tokens - first], -1)
    some = torch.stack([children - first, first], -1)
    return torch.stack([none, *[some] * (grammar.num_valences - 1)], -2)


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
    counts = {name: torch.full(block.shape, smoothing, dtype=torch.float64) for name, block in grammar.blocks.items()}
    for rows in _chunks(grammar, words):
        used, own, small = _own_symbols(grammar, words[rows])
        for name, c in small.counts(own, heads[rows]).items():
            _add(counts[name], name, used, c.sum(0))
    return _normalized(grammar, counts, words)


def _chunks(grammar: DMV, words: Tensor) -> Iterator[slice]:
    """Sentences (N, n), as many at a time as have room for tables of their own with the symbols of all of them."""
    N, n = words.shape
    # B sentences have at most B n symbols, and an attachment for every pair, direction and valence.
    size = max(1, CELLS // (4 * grammar.num_tags**2), int((CELLS / (4 * max(n, 1) ** 2)) ** (1 / 3)))
    for start in range(0, N, min(size, 4096)):
        yield slice(start, start + min(size, 4096))


def _own_symbols(grammar: DMV, words: Tensor) -> tuple[Tensor, Tensor, DMV]:
    """The symbols of some sentences (k,), the sentences in numbers of these, and a grammar with no others."""
    used = words[words >= 0].unique()
    own = torch.where(words >= 0, torch.searchsorted(used, words.contiguous()), -1)
    return used, own, grammar.with_tags(max(1, len(used)))


def _add(total: Tensor, name: str, used: Tensor, counts: Tensor) -> None:
    """Add counts of some symbols, by their own numbers, to the counts of a block of all."""
    used, counts = used.to(total.device), counts.to(total)
    if name == "attach":
        of_heads = total[used]
        of_heads[..., used] += counts
        total[used] = of_heads
    else:
        total[used] += counts


def _normalized(grammar: DMV, counts: Weights, words: Tensor) -> Weights:
    dtype = torch.get_default_dtype()
    return {name: grammar.blocks[name].normalize(c).to(words.device, dtype) for name, c in counts.items()}


def _generator(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)
