# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expected counts of events, the E-step of every loop; and which sentences are whose, among several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from pyrogram.grammar import Weights, counts_by_gradient
from pyrogram.infer.running.reduce import Reduce, summed

from .structure import SentenceSite, TracedModel

#: Of a site and log weights by source: log Z of each sentence, and counts by block.
SiteCounts = Callable[[SentenceSite, Mapping[str, Tensor]], tuple[Tensor, Weights]]


def site_counts(site: SentenceSite, log_weights: Mapping[str, Tensor]) -> tuple[Tensor, Weights]:
    """log Z of each sentence of a site, and expected counts by block, from log weights by source."""
    by_block = {block: log_weights[source] for block, source in site.source_of_block.items()}
    if any(w.dim() > len(site.grammar.blocks[block].shape) for block, w in by_block.items()):
        # Counts are then those of each sentence. Of a share of these, weights are those of all, and others count zero.
        log_z, counts = counts_by_gradient(
            lambda logs, sentences: site.grammar.log_partition(of_rows(site, logs), sentences),
            by_block,
            site.sentences,
        )
    else:
        log_z, counts = site.grammar.expected_counts(by_block, site.sentences)
    site.check_derivable(log_z)
    return log_z, counts


def of_rows(site: SentenceSite, log_weights: Mapping[str, Tensor]) -> Weights:
    """Log weights by block, of which those that sentences have of their own are cut to the site's share of these."""
    if site.rows is None:
        return dict(log_weights)
    batched = {block for block, w in log_weights.items() if w.dim() > len(site.grammar.blocks[block].shape)}
    return {block: w[site.rows] if block in batched else w for block, w in log_weights.items()}


def expected_counts(
    traced: TracedModel, log_weights: Mapping[str, Tensor], of: SiteCounts = site_counts
) -> tuple[float, Weights]:
    """The E-step: the log-likelihood of all sentences, and expected counts by source, from log weights by source.

    A loop over the data in parts, or in several processes, adds up the results of this function.
    """
    total, counts = 0.0, Weights()
    for site in traced.sentences:
        log_z, by_block = of(site, log_weights)
        total += site.scale * float(log_z.sum(dtype=torch.float64))
        if site.scale != 1:
            by_block = {block: site.scale * c for block, c in by_block.items()}
        for block, source in site.source_of_block.items():
            if block in by_block:
                counts[source] = counts[source] + by_block[block] if source in counts else by_block[block]
    return total, counts


def summed_counts(reduce: Reduce | None, work: Callable[[], tuple[float, Weights]]) -> tuple[float, Weights]:
    """:func:`expected_counts` of all processes, ``work`` being those of this one."""
    if reduce is None:
        return work()

    def named() -> Weights:
        objective, counts = work()
        return {"": torch.tensor(objective, dtype=torch.float64), **{f".{name}": c for name, c in counts.items()}}

    sums = summed(reduce, named)
    return float(sums.pop("")), {name[1:]: c for name, c in sums.items()}


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
