# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes with the Gaussian approximation of Teh, Newman and Welling (2007), to second order.

    E[log(f + α)] ≈ log(E[f] + α) - Var[f] / (2 (E[f] + α)^2)

for the events and for the sums over the events of each multinomial. Derivations of different sentences are
independent under Q, so that variances add up; that of one sentence is the second derivative of its log Z.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from .collapsed_checks import check_weights

__all__ = ["SecondOrderUpdates"]


class SecondOrderUpdates(CollapsedUpdates):
    """Sweeps for any grammar whose log Z can be differentiated twice.

    Sentence counts have ``variances`` as well as ``values``, and after the events come the multinomials: sums of
    counts.
    Every event and every multinomial that occurs in a sentence costs a chart with second derivatives.
    """

    #: Directions in which a sentence is differentiated at a time, in numbers.
    CHUNK = 2**20

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        rows, directions = [], []
        for name, block in self.blocks.items():
            shape = block.sums(torch.zeros(block.shape)).shape
            eye = torch.eye(shape.numel()).reshape(shape.numel(), *shape)
            directions.append((block.broadcast(eye) * torch.ones(block.shape)).flatten(1))
            rows.append((name, shape))
        self._multinomial_shapes = dict(rows)
        device = self.words.device
        self._directions = torch.cat(
            [torch.eye(self._size), torch.block_diag(*directions)],
        ).to(device, torch.float64)
        self._num_columns = len(self._directions)

    def fits(self, sentence_counts: SentenceCounts) -> bool:
        means = {name: t for name, t in sentence_counts.items() if name != "variances"}
        return (
            "variances" in sentence_counts
            and super().fits(means)
            and sentence_counts["variances"].shape == sentence_counts["values"].shape
        )

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        log_weights = {n: weights[n].log() for n in self.blocks}
        parts, log_zs, entropies = [], [], []
        for i in torch.arange(len(self.words)).split(1):
            log_z, counts = self._posterior({n: w[None] for n, w in log_weights.items()}, i)
            log_zs.append(log_z)
            entropies.append(log_z - self._scores(counts, log_weights))
            parts.append((i, self._moments(counts, log_weights, i)))
        return torch.cat(log_zs), torch.cat(entropies), self._of_moments(parts)

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        return self._by_block(self._totals(sentence_counts, "values")[: self._size])

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        return self._by_block(self._dense_moments(sentence_counts, "values", sentences)[:, : self._size])

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        entropies = torch.zeros(len(self.words), dtype=torch.float64, device=self.words.device)
        spread = self._totals(sentence_counts, "variances")
        parts: list[tuple[Tensor, Tensor]] = []
        for i in self._chunks(order, batch_size):
            old = self.dense_counts(sentence_counts, i)
            old_spread = self._dense_moments(sentence_counts, "variances", i)
            new_spread = []
            means: list[Weights] = []
            for k, sentence in enumerate(i):
                mine = {n: c[k : k + 1] for n, c in old.items()}
                log_weights = self._corrected(corpus, mine, (spread - old_spread[k]).clamp_min(0))
                log_z, new = self._posterior({n: w[None] for n, w in log_weights.items()}, sentence[None])
                entropies[sentence] = log_z[0] - self._scores(new, log_weights)[0]
                moments = self._moments(new, log_weights, sentence[None])
                parts.append((sentence[None], moments))
                means.append(new)
                new_spread.append(moments[0, 1])
            self._replace(corpus, old, {n: torch.cat([m[n] for m in means]) for n in self.blocks})
            spread = (spread + (torch.stack(new_spread) - old_spread).sum(0)).clamp_min(0)
        return entropies, self._of_moments(parts)

    def _corrected(self, corpus: CorpusCounts, own: Weights, spread: Tensor) -> Weights:
        """Log weights of one sentence from means and variances without it."""
        found = {n: w.log() for n, w in corpus.weights.items()}
        events, rows = self._by_block(spread[: self._size]), spread[self._size :]
        sums = dict(
            zip(
                self._multinomial_shapes,
                rows.split([s.numel() for s in self._multinomial_shapes.values()]),
                strict=True,
            )
        )
        for group in corpus.groups():
            rest = (corpus.counts[group[0]] - torch.stack([own[n][0] for n in group]).sum(0)).clamp_min(0)
            # Blocks that have the same weights: their variances are added, as if their counts were uncorrelated.
            variance = torch.stack([events[n] for n in group]).sum(0)
            row_variance = torch.stack([sums[n] for n in group]).sum(0)
            for n in group:
                block, pseudo = self.blocks[n], rest + corpus.concentration[n]
                totals = block.sums(pseudo)
                log_total = totals.log() - row_variance.reshape(totals.shape) / (2 * totals**2)
                found[n] = pseudo.log() - variance / (2 * pseudo**2) - block.broadcast(log_total)
        return found

    def _moments(self, counts: Weights, log_weights: Weights, sentence: Tensor) -> Tensor:
        """Means and variances (1, 2, events and multinomials) of one sentence."""
        flat = self._flat(counts)[0].to(torch.float64)
        means = torch.cat([flat, *(b.sums(counts[n][0]).reshape(-1).to(flat) for n, b in self.blocks.items())])
        variances = torch.zeros_like(means)
        for chosen in means.nonzero()[:, 0].split(max(1, self.CHUNK // self._size)):
            variances[chosen] = self._curvatures(log_weights, self._directions[chosen], sentence)
        return torch.stack([means, variances.clamp_min(0)])[None]

    def _curvatures(self, log_weights: Weights, directions: Tensor, sentence: Tensor) -> Tensor:
        """Second derivatives of log Z along each direction."""
        with torch.enable_grad():
            s = torch.zeros(len(directions), dtype=torch.float64, device=directions.device, requires_grad=True)
            moved = self._by_block(s[:, None] * directions)
            given = {n: log_weights[n] + moved[n] for n in self.blocks}
            log_z = self.grammar.log_partition(given, self.words[sentence].expand(len(s), -1))
            (mean,) = torch.autograd.grad(log_z.sum(), s, create_graph=True)
            # An event that always occurs equally often has a constant mean.
            second = torch.autograd.grad(mean.sum(), s, allow_unused=True)[0] if mean.requires_grad else None
        return torch.zeros_like(s.detach()) if second is None else second

    def _totals(self, sentence_counts: SentenceCounts, kind: str) -> Tensor:
        return (
            sentence_counts[kind]
            .new_zeros(len(self._directions))
            .index_add_(0, sentence_counts["events"].long(), sentence_counts[kind])
        )

    def _dense_moments(self, sentence_counts: SentenceCounts, kind: str, sentences: Tensor) -> Tensor:
        flat = sentence_counts[kind].new_zeros(len(sentences), len(self._directions))
        for k, i in enumerate(sentences.tolist()):
            here = slice(int(sentence_counts["starts"][i]), int(sentence_counts["starts"][i + 1]))
            flat[k, sentence_counts["events"][here].long()] = sentence_counts[kind][here]
        return flat

    def _of_moments(self, parts: list[tuple[Tensor, Tensor]]) -> SentenceCounts:
        means = self._sparse([(i, m[:, 0]) for i, m in parts])
        variances = torch.cat([m[0, 1, m[0, 0].nonzero()[:, 0]] for _, m in sorted(parts, key=lambda p: int(p[0]))])
        return {**means, "variances": variances}
