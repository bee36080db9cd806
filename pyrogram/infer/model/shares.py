# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which sentences of a corpus are whose, among several processes that read all of it."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from .structure import TracedModel


def own_rows(words: Tensor, rank: int, size: int) -> Tensor:
    """The sentences of a process, as increasing indices: every ``size``-th by length, so that all have as much to do.

    :param words: shape ``(N, n)``.
    """
    order = (words >= 0).sum(-1).argsort(stable=True)
    return order[rank::size].sort().values


def share_of(traced: TracedModel, rank: int, size: int) -> TracedModel:
    """A model of the sentences of a process alone; weights and priors are those of all."""
    sites = []
    for site in traced.sentences:
        rows = own_rows(site.words, rank, size)
        sites.append(replace(site, sentences=site.sentences[rows], rows=rows))
    return replace(traced, sentences=sites)
