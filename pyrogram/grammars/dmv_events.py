# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Arcs and stops of sentences as events of the dependency model with valence, numbered through all its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts.trees import over_valences
from pyrogram.event_map import num_events

if TYPE_CHECKING:
    from .dmv import DMV


def dense_arcs(grammar: DMV, words: Tensor) -> Tensor:
    """The events of arcs where all pairs of words have one, see :meth:`.DMV.arc_numbers`."""
    V, S, n = grammar.num_tags, grammar.num_valences if grammar.valence_attach else 1, words.shape[-1]
    place = torch.arange(n, device=words.device)
    row = words[:, :, None] * 2 + (place > place[:, None]).long()
    attach = V + (row[..., None] * S + torch.arange(S, device=words.device)) * V + words[:, None, :, None]
    real = words >= 0
    no_arc = ~(real[:, :, None] & real[:, None, :]) | (place == place[:, None])
    attach = attach.masked_fill(no_arc[..., None], num_events(grammar.blocks))
    root = torch.where(real, words, num_events(grammar.blocks))[:, None, :, None].expand(-1, 1, -1, S)
    arcs = torch.nn.functional.pad(torch.cat([root, attach], 1), (0, 0, 1, 0), value=num_events(grammar.blocks))
    return arcs if grammar.valence_attach else arcs[..., 0]


def events_of(grammar: DMV, arcs: Tensor, stops: Tensor, words: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Numbers of the events of sentences, and how often each occurs, both of shape ``(B, E)``: of arcs, and of stops.

    :param arcs: how often arcs are there, shape ``(B, n+1, n+1, S)`` [head, dependent, valence].
    :param stops: how often heads stop, shape ``(B, n+1, 2, S)``.
    :param words: shape ``(B, n)``, padded with -1.
    """
    numbers, nothing, S = grammar.arc_numbers(words), num_events(grammar.blocks), grammar.num_valences
    of_arcs = arcs if grammar.valence_attach else over_valences(arcs)
    real, place = words >= 0, torch.arange(words.shape[-1], device=words.device)
    within = arcs[:, 1:, 1:] * real[:, None, :, None]
    sides = torch.stack([place < place[:, None], place > place[:, None]], 1).to(within)  # [head, direction, dependent]
    decisions = torch.stack([sides @ within, stops[:, 1:]], -1)
    first = nothing - grammar.blocks["stop"].shape.numel()
    of_stops = first + words[..., None] * 4 * S + torch.arange(4 * S, device=words.device)
    of_stops = of_stops.masked_fill(~real[..., None], nothing)
    return [(numbers.flatten(1), of_arcs.flatten(1)), (of_stops.flatten(1), decisions.flatten(1))]


def add_counts(grammar: DMV, total: Tensor, arcs: Tensor, stops: Tensor, words: Tensor) -> None:
    """Add how often the events of sentences occur to the counts of a corpus.

    :param total: counts of the corpus by number, shape ``(events + 1,)``, changed; the others see :func:`events_of`.
    """
    for numbers, values in events_of(grammar, arcs, stops, words):
        total.index_add_(0, numbers.flatten(), values.to(total).flatten())
