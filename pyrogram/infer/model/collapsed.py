# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What collapsed inference shares: the collapsed joint, models with weights integrated out, orders of sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.charts.trees import lengths_of
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammar import Block, Weights

from .indicators import summed_out
from .points import PointProblem, Prior, Terms, log_gamma
from .reading import read
from .structure import ModelError, SentenceSite, TracedModel


def log_dirichlet_multinomial(block: Block, counts: Tensor, alpha: Tensor) -> Tensor:
    """log of the product over multinomials of B(f + α) / B(α), in nats."""
    pseudo = counts + alpha
    each = torch.lgamma(pseudo) - log_gamma(alpha)
    return each.sum() - (torch.lgamma(block.sums(pseudo)) - torch.lgamma(block.sums(alpha))).sum()


def log_collapsed_joint(
    traced: TracedModel, counts: Mapping[str, Tensor], alpha: Mapping[str, Tensor], weights: Weights
) -> Tensor:
    """log P(x, t | α, weights) by Eq. 4 from counts, of which only expectations may be known; float64, in nats."""
    total = torch.zeros((), dtype=torch.float64)
    for name, source in traced.weight_sources.items():
        if name in alpha:
            total = total + log_dirichlet_multinomial(source.block, counts[name].cpu(), alpha[name].cpu())
        else:
            f, w = counts[name], weights[name].to(torch.float64)
            total = total + torch.where(f > 0, f * w.log(), 0.0).sum().cpu()
    return total


def make_corpus_counts(site: SentenceSite, counts: Weights, alpha: Weights, weights: Weights) -> CorpusCounts:
    """What the sentences of a site share. The counts are the tensors that are given."""
    return CorpusCounts(
        {block: counts[source] for block, source in site.source_of_block.items()},
        {block: alpha[source] for block, source in site.source_of_block.items() if source in alpha},
        {b: weights[source].to(torch.float64) for b, source in site.source_of_block.items() if source not in alpha},
    )


def posterior_mean(traced: TracedModel, counts: Weights, alpha: Weights, weights: Weights) -> Weights:
    """The posterior mean (f + α) / sum by Dirichlet source, other weights as they are; in the model's dtype."""
    mean = {}
    for name, source in traced.weight_sources.items():
        like = source.value
        w = source.block.normalize(counts[name] + alpha[name]) if name in alpha else weights[name]
        mean[name] = w.to(like.device, like.dtype)
    return mean


class SentenceOrder:
    """In which order sentences come: those of one length together in batches, so that no chart is mostly padding.

    :param words: shape ``(N, n)``.
    :param batch_size: sentences of a batch; with one, sentences come as they stand in the corpus.
    """

    def __init__(self, words: Tensor, batch_size: int) -> None:
        self.lengths, self.batch_size = lengths_of(words).cpu(), batch_size
        self.device = words.device

    @cached_property
    def fixed(self) -> Tensor:
        """From the shortest to the longest."""
        return self._by_length(torch.arange(len(self.lengths))).to(self.device)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """Other batches every time, in any order."""
        N, B = len(self.lengths), self.batch_size
        by_length = self._by_length(torch.randperm(N, generator=generator))
        num_full = N // B * B
        batches = by_length[:num_full].reshape(-1, B)[torch.randperm(N // B, generator=generator)]
        return torch.cat([batches.reshape(-1), by_length[num_full:]]).to(self.device)

    def _by_length(self, sentences: Tensor) -> Tensor:
        return sentences if self.batch_size == 1 else sentences[self.lengths[sentences].argsort(stable=True)]


@dataclass
class CollapsedProblem(PointProblem):
    """A model with the Dirichlets that are weights and nothing else integrated out; all else stands at a point.

    Given derivations, whose counts are f, all other parameters and latent values z have the density p(z) exp <f, log
    w(z)> times the collapsed joint P(f | α(z)) of Eq. 4: the model with tangents in place of its sentences, without a
    chart. Densities of latent values are those of their unconstrained coordinates.

    :param updates: by Sentence site, what goes through its sentences.
    :param orders: by Sentence site, how its sentences come in batches.
    """

    unconstrained: bool = True
    updates: dict[str, CollapsedUpdates] = field(default_factory=dict)
    orders: dict[str, SentenceOrder] = field(default_factory=dict)

    @classmethod
    def read(cls, model: Callable[[], Any], loop: str, batch_size: int) -> Self:
        """Read a model, for a loop of this name.

        :param batch_size: sentences of a batch.
        :raises ModelError: for scales, which are no factors of a joint of derivations.
        """
        model = summed_out(model, loop)
        problem = cls(read(model, loop, unconstrained=True), model)
        traced = problem.traced
        scaled = [name for name, source in traced.weight_sources.items() if source.scale != 1]
        scaled += [site.name for site in traced.sentences if site.scale != 1]
        if scaled:
            raise ModelError(f"{loop} cannot handle site {scaled[0]!r}, which is scaled or masked; VariationalEM can")
        problem.check(loop)
        problem.updates = {s.name: s.grammar.collapsed_updates(s.sentences) for s in traced.sentences}
        problem.orders = {s.name: SentenceOrder(s.words, batch_size) for s in traced.sentences}
        problem.traced = replace(traced, reference=problem.reference(loop))
        return problem

    def check(self, loop: str) -> None:
        """
        :raises ModelError: for what a loop of this name cannot do.
        """

    def terms_at(self, weights: Weights, parameters: Weights) -> Terms:
        """:meth:`evaluate`, with concentrations where their sites are."""
        terms, sources = self.evaluate(weights, parameters), self.traced.weight_sources
        return replace(terms, alpha={name: a.to(sources[name].value.device) for name, a in terms.alpha.items()})

    def multinomials(self, counts: Weights) -> Prior:
        """Of Dirichlets that are integrated out: log P(f | α)."""
        sources = self.traced.weight_sources
        return lambda name, alpha: log_dirichlet_multinomial(sources[name].block, counts[name].cpu(), alpha)

    def by_source(self, counts: Callable[[SentenceSite], Weights]) -> Weights:
        """Counts by source, in memory of their own, from those by block of every site."""
        total: Weights = {}
        for site in self.traced.sentences:
            for block, c in counts(site).items():
                source = site.source_of_block[block]
                total[source] = total[source] + c if source in total else c.clone()
        return total

    def order(self, site: SentenceSite, generator: torch.Generator | None) -> Tensor:
        """A permutation of the sentences of a site: shuffled, or without a generator a fixed one."""
        order = self.orders[site.name]
        return order.fixed if generator is None else order.shuffled(generator)
