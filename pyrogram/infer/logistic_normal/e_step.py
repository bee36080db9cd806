# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The E-step of variational EM: trees and normal experts in turn, sentence by sentence until each has settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.distributions.partition import PartitionStructure
from pyrogram.grammar import SentenceMultinomials, Weights
from pyrogram.infer.model.expected_counts import site_counts
from pyrogram.infer.model.structure import ModelError, SentenceSite, TracedModel, WeightSource

from .empirical_bayes import MStepPlan, write
from .posterior import ExpertPosterior, Moments
from .priors import Priors

# What initial weights of zero, of which there are no logarithms, are mixed with.
_UNIFORM_SHARE = 1e-4


#: Moves a q to where an E-step is to begin.
Start = Callable[[ExpertPosterior], None]


@dataclass(frozen=True)
class SentenceCounts:
    """Where an E-step has come to.

    :param log_z: of each sentence, under exp ψ̃.
    :param bound: of each sentence, in nats, without the experts that are not stored.
    :param counts: expected counts of the rows of weights, by block.
    """

    log_z: Tensor
    bound: Any
    counts: Weights

    def where(self, chosen: Any, other: SentenceCounts, rows: SentenceMultinomials) -> SentenceCounts:
        """These for the chosen sentences, those of another for the rest."""
        log_z = torch.from_numpy(np.where(chosen, self.log_z.numpy(), other.log_z.numpy()))
        counts = {}
        for block, c in self.counts.items():
            of_row = torch.from_numpy(chosen).to(c.device)[rows.sentence[block]]
            counts[block] = torch.where(of_row[:, None], c, other.counts[block])
        return SentenceCounts(log_z, np.where(chosen, self.bound, other.bound), counts)


class LogisticNormalPosterior:
    """q of all normal experts of a model, and the expected counts that go with it.

    Experts that are drawn together (by one call of ``logistic_normal`` or ``shared_logistic_normal``) make one
    :class:`ExpertPosterior`; its key is the name of its first Gaussian site.
    """

    def __init__(self, traced: TracedModel, tolerance: float):
        self.tolerance = tolerance
        self.sentence_multinomials: dict[
            str, SentenceMultinomials
        ] = {}  # by Sentence site, where some weights are per sentence
        self.posteriors: dict[str, ExpertPosterior] = {}
        self.sites: dict[str, Mapping[str, str]] = {}  # by key, family to Gaussian site
        self.corpus: list[str] = []  # keys of what is drawn once
        self._keys: dict[str, str] = {}  # source to key
        self._blocks: dict[str, str] = {}  # source to its block of the structure
        self._like: dict[str, Tensor] = {}  # source to its weights, for dtype and device
        self._shapes = {name: source.block.shape for name, source in traced.weight_sources.items()}
        for name, source in traced.weight_sources.items():
            if source.logistic_normal is not None:
                key = min(source.logistic_normal.sites.values())
                self._keys[name], self._blocks[name], self._like[name] = key, source.logistic_normal.block, source.value
                self.sites[key] = source.logistic_normal.sites
        for key in self.sites:
            self.posteriors[key] = self._posterior(traced, key)

    def _posterior(self, traced: TracedModel, key: str) -> ExpertPosterior:
        """The posterior of the blocks that share experts."""
        members = [traced.weight_sources[name] for name, k in self._keys.items() if k == key]
        assert members[0].logistic_normal is not None
        structure = members[0].logistic_normal.structure
        rows: dict[str, tuple[Any, Any]] = {}
        num_groups = 1
        if not members[0].per_sentence:
            self.corpus.append(key)
        for source in members:
            assert source.logistic_normal is not None
            if source.per_sentence != members[0].per_sentence:
                raise ModelError(
                    f"VariationalEM needs {source.name!r} and {members[0].name!r}, which share experts, to serve "
                    "sentences in the same way"
                )
            if source.per_sentence:
                site, block = _place(traced, source)
                multinomials = self.sentence_multinomials.setdefault(
                    site.name, site.grammar.sentence_multinomials(site.sentences)
                )
                rows[source.logistic_normal.block] = (
                    multinomials.sentence[block].cpu().numpy(),
                    multinomials.multinomial[block].cpu().numpy(),
                )
                num_groups = len(site.words)
            else:
                K = source.block.shape[:-1].numel()
                rows[source.logistic_normal.block] = np.zeros(K, np.int64), np.arange(K)
        sites = self.sites[key]
        diagonal = {f for f, site in sites.items() if traced.gaussians[site].covariance is None}
        return ExpertPosterior(structure, rows, num_groups, diagonal)

    # ------------------------------------------------------------------ priors and start

    def set_priors(self, priors: Priors) -> None:
        """μ and Σ of all families."""
        for key, q in self.posteriors.items():
            q.set_priors(self._gaussians(key, priors))

    def start(self, priors: Priors, weights: Mapping[str, Tensor]) -> None:
        """q at the priors' optimum, or around the logarithms of given weights by source."""
        for key, q in self.posteriors.items():
            initial = self._by_block(key, weights)
            q.start(_start_means(q.structure, self._gaussians(key, priors), initial) if initial else None)

    def write_start(self, traced: TracedModel, plan: MStepPlan, priors: Priors, weights: Mapping[str, Tensor]) -> None:
        """Let means that are ``pyro.param`` sites start at the same weights as q."""
        for key, q in self.posteriors.items():
            initial = self._by_block(
                key, {n: w for n, w in weights.items() if traced.weight_sources[n].logistic_normal is not None}
            )
            if not initial:
                continue
            means = _start_means(q.structure, self._gaussians(key, priors), initial)
            for family, site in self.sites[key].items():
                for name, sites in plan.means.items():
                    if site in sites:
                        write(traced.hyperparameters[name], means[family])

    def _by_block(self, key: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights by block of the structure."""
        by_block = {}
        for name, w in weights.items():
            if self._keys.get(name) == key:
                by_block[self._blocks[name]] = w
        return by_block

    def _gaussians(self, key: str, priors: Priors) -> dict[str, Gaussian]:
        gaussians = {}
        for family, site in self.sites[key].items():
            prior = priors[site]
            assert isinstance(prior, Gaussian)
            gaussians[family] = prior
        return gaussians

    # ------------------------------------------------------------------ expectations

    def log_weights(self) -> Weights:
        """log weights ψ̃ of what is drawn once, by source."""
        by_source = {}
        for name, key in self._keys.items():
            if key in self.corpus:
                table = self.posteriors[key].log_weights()[self._blocks[name]]
                by_source[name] = table.reshape(self._shapes[name]).to(self._like[name])
        return by_source

    def site_counts(
        self, site: SentenceSite, log_weights: Mapping[str, Tensor], rounds: int, starts: Sequence[Start] = ()
    ) -> tuple[Tensor, Weights]:
        """Improve q of the experts of each sentence of a site; log Z at the end, and the counts of shared blocks.

        :param log_weights: by source, of all that sentences share.
        :param rounds: most rounds of trees and experts.
        :param starts: where to begin besides where q is; each sentence keeps the end that is best for it.
        """
        if site.name not in self.sentence_multinomials:
            return site_counts(site, log_weights)
        best = self._climb(site, log_weights, rounds)
        posteriors = [self.posteriors[key] for key in self.keys_of(site)]
        for start in starts:
            before = [(q.mean.copy(), q.variance.copy()) for q in posteriors]
            for q in posteriors:
                start(q)
            other = self._climb(site, log_weights, rounds)
            worse = other.bound <= best.bound
            for q, (mean, variance) in zip(posteriors, before, strict=True):
                q.put_back(mean, variance, worse)
            best = best.where(worse, other, self.sentence_multinomials[site.name])
        return best.log_z, self._shared_counts(site, log_weights, best.counts)

    def keys_of(self, site: SentenceSite) -> list[str]:
        """The keys of the experts that each sentence of a site has of its own."""
        keys = (self._keys.get(name) for name in site.source_of_block.values())
        return [key for key in dict.fromkeys(keys) if key is not None and key not in self.corpus]

    def _climb(self, site: SentenceSite, tables: Mapping[str, Tensor], rounds: int) -> SentenceCounts:
        """Trees and experts in turn, from where q is."""
        rows = self.sentence_multinomials[site.name]
        sources = {block: name for block, name in site.source_of_block.items() if name not in tables}
        keys = self.keys_of(site)
        log_weights = self._shared_rows(site, tables)
        counts: Weights | None = None
        log_z, bound = torch.zeros(len(rows.words), dtype=torch.float64), np.full(len(rows.words), -np.inf)
        active = np.arange(len(rows.words))
        for turn in range(rounds):
            for block, name in sources.items():
                table = self.posteriors[self._keys[name]].log_weights()[self._blocks[name]]
                log_weights[block] = table.to(self._like[name].device)
            chosen = None if len(active) == len(bound) else torch.from_numpy(active).to(rows.words.device)
            value, counts = rows.expected_counts(log_weights, chosen, counts)
            site.check_derivable(value)
            log_z[active] = value.to("cpu", torch.float64)[active]
            now = log_z.numpy()[active] + sum(self.posteriors[k].negative_kl(active)[active] for k in keys)
            gained = now - bound[active] > self.tolerance
            bound[active] = now
            active = active[gained]
            if len(active) == 0 or turn + 1 == rounds:
                break
            for key in keys:
                by_block = {self._blocks[n]: counts[b] for b, n in sources.items() if self._keys[n] == key}
                self.posteriors[key].update(by_block, active)
        assert counts is not None
        return SentenceCounts(log_z, bound, counts)

    def _shared_rows(self, site: SentenceSite, tables: Mapping[str, Tensor]) -> Weights:
        """Rows of log weights of the blocks that all sentences share."""
        rows, log_weights = self.sentence_multinomials[site.name], {}
        for block, name in site.source_of_block.items():
            if name in tables:
                table = tables[name].to(torch.float64)
                log_weights[block] = table.reshape(-1, table.shape[-1])[rows.multinomial[block]]
        return log_weights

    def _shared_counts(self, site: SentenceSite, tables: Mapping[str, Tensor], counts: Weights) -> Weights:
        """The counts of blocks that all sentences share, summed over sentences."""
        rows, shared = self.sentence_multinomials[site.name], {}
        for block, name in site.source_of_block.items():
            if name in tables:
                table = torch.zeros_like(tables[name], dtype=torch.float64).reshape(-1, tables[name].shape[-1])
                table.index_add_(0, rows.multinomial[block], counts[block])
                shared[block] = table.reshape(site.grammar.blocks[block].shape).to(tables[name].dtype)
        return shared

    def log_importance_weights(
        self,
        site: SentenceSite,
        tables: Mapping[str, Tensor],
        num_draws: int,
        generator: np.random.Generator,
        of_q: bool,
    ) -> Tensor:
        """log p(sentence, experts) - log r(experts) of draws from r: by draw and sentence, ``(num_draws, N)``.

        Derivations are summed out. Experts that are not stored are drawn from their prior, that is, left out.

        :param tables: log weights by source, of all that sentences share.
        :param of_q: whether r is q, or N(m, Σ), about the means of q with the covariances of the prior.
        """
        if site.name not in self.sentence_multinomials:
            return site_counts(site, tables)[0].to("cpu", torch.float64).expand(num_draws, -1)
        rows, log_weights = self.sentence_multinomials[site.name], self._shared_rows(site, tables)
        draws = {key: self.posteriors[key].draws(of_q) for key in self.keys_of(site)}
        counts: Weights | None = None
        importance = torch.zeros(num_draws, len(rows.words), dtype=torch.float64)
        for weights in importance:
            for key, expert_draws in draws.items():
                value, log_ratio = expert_draws.draw(generator)
                weights += torch.from_numpy(log_ratio)
                by_block = self.posteriors[key].log_weights_of(value)
                for block, name in site.source_of_block.items():
                    if self._keys.get(name) == key:
                        log_weights[block] = by_block[self._blocks[name]].to(self._like[name].device)
            log_z, counts = rows.expected_counts(log_weights, None, counts)
            weights += log_z.to("cpu", torch.float64)
        return importance

    def sentence_bounds(self, site: SentenceSite, tables: Mapping[str, Tensor]) -> Tensor:
        """The bound of each sentence at the present q, in nats, shape ``(N,)``; all experts are counted."""
        if site.name not in self.sentence_multinomials:
            return site_counts(site, tables)[0].to("cpu", torch.float64)
        log_z, bounds = self._climb(site, tables, rounds=1).log_z, np.zeros(len(site.words))
        for q in (self.posteriors[key] for key in self.keys_of(site)):
            bounds += q.negative_kl() + q.absent_negative_kl_by_group()
        return log_z + torch.from_numpy(bounds)

    def update_corpus(self, counts: Weights) -> None:
        """Move q of what is drawn once to its optimum, given the expected counts by source."""
        for key in self.corpus:
            by_block = {
                self._blocks[n]: counts[n].reshape(-1, counts[n].shape[-1]) for n, k in self._keys.items() if k == key
            }
            self.posteriors[key].update(by_block, np.arange(1), steps=50)

    def moments(self, absent: bool) -> dict[str, Moments]:
        """By Gaussian site, those of experts that two plates share not yet added up."""
        by_site = {}
        for key, q in self.posteriors.items():
            for family, m in q.moments(absent).items():
                by_site[self.sites[key][family]] = m
        return by_site

    def corpus_means(self, source: str) -> dict[str, Tensor]:
        """q's means by family, of weights that are drawn once."""
        return self.posteriors[self._keys[source]].corpus_means()

    def corpus_gaussians(self) -> dict[str, dist.TorchDistribution]:
        """q(η) by Gaussian site, of experts that are drawn once."""
        by_site = {}
        for key in self.corpus:
            q = self.posteriors[key]
            means, variances = q.corpus_means(), q.corpus_variances()
            for family, site in self.sites[key].items():
                normal = dist.Normal(means[family], variances[family].sqrt())
                by_site[site] = normal.to_event(means[family].dim())
        return by_site

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Tensor]:
        """q as plain tensors."""
        tensors = {}
        for key, q in self.posteriors.items():
            tensors[f"mean.{key}"] = torch.from_numpy(q.mean)
            tensors[f"variance.{key}"] = torch.from_numpy(q.variance)
        return tensors

    def load(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of ``state``, into memory of its own."""
        for key, q in self.posteriors.items():
            q.mean, q.variance = (state[f"{kind}.{key}"].cpu().numpy().copy() for kind in ("mean", "variance"))
            q.refresh()


def _place(traced: TracedModel, source: WeightSource) -> tuple[SentenceSite, str]:
    """The Sentence site, and its block, that a source of weights per sentence serves."""
    for site in traced.sentences:
        for block, name in site.source_of_block.items():
            if name == source.name:
                return site, block
    raise KeyError(source.name)


def _start_means(
    structure: PartitionStructure, gaussians: Mapping[str, Gaussian], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Means by family whose mixtures are log weights: each multinomial's own expert takes up the difference.

    :raises ValueError: if a multinomial has no segment that it does not share.
    """
    means = {
        family: gaussians[family].loc.detach().to("cpu", torch.float64).expand(experts.shape).clone()
        for family, experts in structure.experts.items()
    }
    for block, w in weights.items():
        w = w.to("cpu", torch.float64)
        target = ((1 - _UNIFORM_SHARE) * w + _UNIFORM_SHARE * structure.blocks[block].uniform(w)).log()
        rest = (target - structure.average(block, means)) * structure.sizes(block)[..., None]
        for link in structure.links[block]:
            if bool((link.index >= 0).all()) and len(link.index.unique()) == link.index.numel():
                experts = structure.experts[link.experts]
                start, stop = experts.segments[link.segment]
                flat = means[link.experts].view(-1, experts.length)
                flat[link.index.reshape(-1), start:stop] += rest.reshape(-1, stop - start)
                break
        else:
            raise ValueError(
                f"initial_weights cannot start the shared experts of block {block!r}, none of which is its own; give "
                "their means instead"
            )
    return means
