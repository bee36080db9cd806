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

from pyrogram.grammar import Block, Weights
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts, SentenceCounts
from pyrogram.trees import lengths_of

from .expected_counts import of_rows
from .indicators import summed_out
from .points import PointProblem, Prior, Terms, log_gamma
from .reading import coordinates, read
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
    :param start: where latent values that are not integrated out begin, in unconstrained coordinates.
    """

    unconstrained: bool = True
    updates: dict[str, CollapsedUpdates] = field(default_factory=dict)
    orders: dict[str, SentenceOrder] = field(default_factory=dict)
    start: Weights = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        model: Callable[[], Any],
        loop: str,
        batch_size: int,
        check: Callable[[TracedModel], object] = lambda traced: None,
    ) -> Self:
        """Read a model, for a loop of this name.

        :param batch_size: sentences of a batch.
        :param check: raises a ModelError for what the loop cannot do.
        :raises ModelError: for scales, which are no factors of a joint of derivations.
        """
        model = summed_out(model, loop)
        problem = cls(read(model, loop, unconstrained=True), model)
        traced = problem.traced
        scaled = [name for name, source in traced.weight_sources.items() if source.scale != 1]
        scaled += [site.name for site in traced.sentences if site.scale != 1]
        if scaled:
            raise ModelError(f"{loop} cannot handle site {scaled[0]!r}, which is scaled or masked; VariationalEM can")
        check(traced)
        latents = {name: p for name, p in traced.hyperparameters.items() if p.is_latent}
        problem.start = {name: p.unconstrained.detach().clone() for name, p in latents.items()}
        problem.updates = {s.name: s.grammar.collapsed_updates(s.sentences) for s in traced.sentences}
        problem.orders = {s.name: SentenceOrder(s.words, batch_size) for s in traced.sentences}
        problem.traced = replace(traced, reference=problem.reference(loop))
        return problem

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

    def summed(self, sentence_counts: Mapping[str, SentenceCounts]) -> Weights:
        """E[f] by source, from those of the sentences."""
        return self.by_source(lambda site: self.updates[site.name].total(sentence_counts[site.name]))

    def order(self, site: SentenceSite, generator: torch.Generator | None) -> Tensor:
        """A permutation of the sentences of a site: shuffled, or without a generator a fixed one."""
        order = self.orders[site.name]
        return order.fixed if generator is None else order.shuffled(generator)

    # ------------------------------------------------------------------ the model at latent values and derivations

    def point_of(self, values: Mapping[str, Tensor]) -> Weights:
        """Unconstrained coordinates of latent values; others are left out."""
        latents = {n: self.traced.hyperparameters[n] for n in self.start if n in values}
        return {n: coordinates(True)(p.constraint).inv(values[n].to(p.value)) for n, p in latents.items()}

    def alpha(self, point: Weights) -> Weights:
        """Concentrations by source at latent values."""
        return self.terms_at({}, point).alpha

    def draw_dirichlets(self, counts: Weights, point: Weights, generator: torch.Generator) -> Weights:
        """The logarithms of weights that are integrated out, drawn given derivations, by source, float64.

        Small concentrations give weights that no float holds.
        """
        draws = {}
        for name, alpha in self.alpha(point).items():
            f = counts[name] + alpha
            a = f.to("cpu", torch.float64)
            gamma = torch._standard_gamma(a + 1, generator=generator)  # times U ** (1 / a) it is a draw for a
            uniform = torch.rand(a.shape, generator=generator, dtype=torch.float64)
            log_draws = gamma.log() + torch.log1p(-uniform) / a
            draws[name] = self.traced.weight_sources[name].block.log_softmax(log_draws).to(f.device)
        return draws

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        """log p(z) P(x, t | z) as a function of latent values z, in unconstrained coordinates."""
        terms = self.terms({}, point)
        return self.objective(terms, counts, self.multinomials(counts), terms.alpha.keys())

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        """log P(x, t | z), plus the log density of latent values z, in nats; float64, shape ()."""
        terms = self.terms_at({}, point)
        return terms.density + log_collapsed_joint(self.traced, counts, terms.alpha, weights)

    def log_tilt(self, derivations: Mapping[str, Tensor]) -> Tensor:
        """The nats of derivations, of sites whose grammars are tilted, shape ()."""
        return torch.stack([self.updates[name].log_tilt(trees).cpu() for name, trees in derivations.items()]).sum()

    def draw(self, site: SentenceSite, log_weights: Weights, generator: torch.Generator) -> Tensor:
        """Derivations of a site, shape (N, L), independent given log weights by block."""
        updates = self.updates[site.name]
        if self.traced.of_each(site):  # compiled draws are from weights that all share
            return CollapsedUpdates.draw(updates, of_rows(site, log_weights), generator)
        return updates.draw(log_weights, generator)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        """f by source."""
        counts = self.by_source(lambda site: self.updates[site.name].counts(derivations[site.name]))
        for site in self.traced.sentences:
            if self.traced.of_each(site):
                uniform = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in site.grammar.blocks.items()}
                each = site.grammar.derivation(uniform, site.sentences).counts(derivations[site.name])
                for block, source in site.source_of_block.items():
                    if self.traced.weight_sources[source].per_sentence:
                        counts[source] = each[block].double()
        return counts

    def are_derivations(self, derivations: Mapping[str, Tensor]) -> bool:
        """Whether these are derivations of the sentences of all sites."""
        if set(derivations) != set(self.updates):
            return False
        for site in self.traced.sentences:
            law, trees = site.derivation(), derivations[site.name]
            if trees.shape != law.batch_shape + law.event_shape or not bool(law.support.check(trees).all()):
                return False
        return True
