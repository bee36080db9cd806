# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What compiled sweeps of different grammars share: what to do where a kernel cannot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from pyrogram.collapsed_checks import check_batches, check_corpus_counts
from pyrogram.grammar import Grammar


class CompiledUpdates(CollapsedUpdates):
    """Sweeps whose kernels may fail on a sentence, or not be made for a corpus; both is then done in plain torch.

    Sentence counts are ``values``, in which each sentence has a slice of its own.
    """

    def tied(self, grammar: Grammar, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        page = self.by_page()
        return None if page is None else page.tied(grammar, entries)

    def tilted(self, grammar: Grammar, nats: Mapping[str, Tensor]) -> CollapsedUpdates:
        page = self.by_page()
        return super().tilted(grammar, nats) if page is None else page.tilted(grammar, nats)

    @abstractmethod
    def _own(self, sentence: int) -> slice:
        """Where the sentence counts of a sentence lie."""

    @abstractmethod
    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        """The sentence counts of a sentence, from those of a batch, by block, in which it is the k-th."""

    @abstractmethod
    def _is_compiled(self, corpus: CorpusCounts) -> bool:
        """Whether the Hastings kernel is made for a corpus."""

    @abstractmethod
    def _run_hastings(
        self, corpus: CorpusCounts, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        """The kernel, which changes ``trees`` and the counts: which sentences accepted, and which failed, as arrays."""

    def _plain(
        self,
        corpus: CorpusCounts,
        own: Tensor,
        out: Tensor,
        sentences: Tensor,
        batch_size: int,
        log_z: Tensor,
        entropies: Tensor,
    ) -> None:
        """Collapsed VB of some sentences, in plain torch: what the kernels do."""
        for i in self._chunks(sentences, batch_size):
            old = self.dense_counts({"values": own}, i)
            log_weights = self._others(corpus, old)
            log_z[i], new = self._posterior(log_weights, i)
            entropies[i] = torch.where(log_z[i] > -torch.inf, log_z[i] - self._scores(new, log_weights), -torch.inf)
            self._replace(corpus, old, new)
            for k, sentence in enumerate(i.tolist()):
                out[self._own(sentence)] = self._packed(new, k, sentence).to(torch.float64)

    def collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
        *,
        buffer: SentenceCounts | None = None,
    ) -> tuple[Tensor, SentenceCounts]:
        self._check_vb(corpus, sentence_counts, order, batch_size, buffer)
        out = torch.empty_like(sentence_counts["values"]) if buffer is None else buffer["values"]
        return self._sweep(corpus, sentence_counts["values"], out, order, batch_size)[1:]

    def _sweep(
        self, corpus: CorpusCounts, own: Tensor, out: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, SentenceCounts]:
        """log Z, entropies and new counts of all sentences, from counts ``own``, into ``out``."""
        raise NotImplementedError

    @abstractmethod
    def _check_trees(self, trees: Tensor) -> None:
        """
        :raises ValueError: for derivations that the kernels would follow out of their tables.
        """

    def _check_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
        buffer: SentenceCounts | None,
    ) -> None:
        """
        :raises ValueError: if an argument of ``collapsed_vb`` does not fit the grammar or the sentences.
        """
        check_corpus_counts(corpus, self.blocks)
        check_batches(order, batch_size, len(self.words))
        self._check_sentence_counts(sentence_counts)
        if buffer is not None:
            self._check_sentence_counts(buffer)

    @abstractmethod
    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        """
        :raises ValueError: for sentence counts of other sentences.
        """

    def _hastings(
        self,
        corpus: CorpusCounts,
        trees: Tensor,
        order: Tensor,
        batch_size: int,
        generator: torch.Generator | None,
        temperature: float,
    ) -> Tensor:
        self._check_trees(trees)
        if not self._is_compiled(corpus):
            return self._plain_hastings(corpus, trees, order, batch_size, generator, temperature)
        seed = int(torch.randint(2**62, (), generator=generator))
        own = trees.contiguous()
        found = self._run_hastings(corpus, own, order, batch_size, seed, temperature)
        accepted, failed = (torch.from_numpy(x) for x in found)
        if own is not trees:
            trees.copy_(own)
        if failed.any():
            rest = failed.nonzero()[:, 0]
            accepted |= self._plain_hastings(corpus, trees, rest, 1, generator, temperature)
        return accepted
