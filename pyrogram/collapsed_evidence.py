# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference over sentences of some of which something is known.

Sentences of which nothing is known go through the sweeps of their grammar, those of which a part is known through
sweeps with evidence. A derivation that is known does not move: its counts are constants.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from .collapsed_checks import check_sentences, check_weights
from .event_map import sums_of_entries

if TYPE_CHECKING:
    from .evidence import EvidenceGrammar
    from .grammar import Grammar

__all__ = ["EvidenceUpdates"]


class EvidenceUpdates(CollapsedUpdates):
    """Sweeps over sentences that are known not at all, partly, or wholly, in this order.

    Sentence counts are those of the first two parts, their names with ``plain_`` and ``partly_`` in front.

    :param words: of the grammar, which say whose evidence is theirs, shape ``(N, n)``.
    """

    def __init__(self, grammar: EvidenceGrammar, words: Tensor) -> None:
        super().__init__(grammar, words)
        self._evidence, self._known = grammar, grammar.parts(self.words)
        self._entries: Mapping[str, Tensor] | None = None  # where weights are tied
        self._known_nats: Tensor | float = 0.0  # of derivations that are known
        known, self._constant = self._known, self._known.counts
        self._moving: dict[str, tuple[Tensor, CollapsedUpdates]] = {}
        if len(known.plain):
            self._moving["plain"] = known.plain, grammar.base.collapsed_updates(known.plain_words)
        if len(known.partly):
            self._moving["partly"] = known.partly, grammar.partly_updates(self.words[known.partly])
        self._place = torch.full((len(self.words),), -1, device=self.words.device)  # of a sentence, in its part
        for sentences, _ in self._moving.values():
            self._place[sentences] = torch.arange(len(sentences), device=self.words.device)

    def tied(self, grammar: Grammar, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        moving = {part: (own, updates.tied(grammar, entries)) for part, (own, updates) in self._moving.items()}
        found = copy.copy(self)
        CollapsedUpdates.__init__(found, grammar, self.words)
        found._entries, found._constant = entries, sums_of_entries(self._constant, grammar.blocks, entries)
        found._moving = {part: (own, updates) for part, (own, updates) in moving.items() if updates is not None}
        return found if len(found._moving) == len(moving) else None

    def tilted(self, grammar: Grammar, nats: Mapping[str, Tensor]) -> CollapsedUpdates:
        found = copy.copy(self)
        CollapsedUpdates.__init__(found, grammar, self.words)
        found._moving = {part: (own, updates.tilted(grammar, nats)) for part, (own, updates) in self._moving.items()}
        tables = [nats[n] if n in nats else torch.zeros(block.shape) for n, block in self.blocks.items()]
        tables.append(torch.zeros(1))
        flat = torch.cat([t.detach().to(self.words.device, torch.float64).reshape(-1) for t in tables])
        found._known_nats = flat[self._known.index].sum(-1)
        return found

    def log_tilt(self, trees: Tensor) -> Tensor:
        total = torch.as_tensor(self._known_nats, dtype=torch.float64).sum()
        for own, updates in self._moving.values():
            total = total + updates.log_tilt(trees[own].contiguous())
        if any(table.is_floating_point() for table in self._evidence.tables.values()):  # log factors, of a bias say
            some = self._known.rows >= 0
            total = total + self._evidence.log_bonus(self._known.words[some], self._known.rows[some], trees[some]).sum()
        return total

    def _count(self, events: Tensor) -> Weights:
        """Of the blocks, how often each event is among these, which are numbered through those of the evidence."""
        counts = self._evidence.count(events)
        return counts if self._entries is None else sums_of_entries(counts, self.blocks, self._entries)

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        log_z, entropies = (self.words.new_zeros(len(self.words), dtype=torch.float64) for _ in range(2))
        found: SentenceCounts = {}
        for part, (sentences, updates) in self._moving.items():
            log_z[sentences], entropies[sentences], own = updates.expected_counts(weights)
            found.update({f"{part}_{name}": t for name, t in own.items()})
        known = self._known.wholly
        entropies[known] = self._known_nats
        logs = {name: w.detach().double().log() for name, w in weights.items()}
        log_z[known] = self.grammar.log_partition(logs, self.words[known]) if len(known) else log_z[known]
        return log_z, entropies, found

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        total = {name: c.clone() for name, c in self._constant.items()}
        for part, (_, updates) in self._moving.items():
            for name, c in updates.total(_of(sentence_counts, part)).items():
                total[name] += c
        return total

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        check_sentences("sentences", sentences, len(self.words))
        size = len(sentences)
        found = {n: torch.zeros(size, *b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        for part, (own, updates) in self._moving.items():
            here = torch.isin(sentences, own)
            counts = updates.dense_counts(_of(sentence_counts, part), self._place[sentences[here]])
            for name, c in counts.items():
                found[name][here] = c.double()
        for k, i in enumerate(sentences.tolist()):
            events = self._known.events[self._known.wholly == i]
            for name, c in self._count(events).items() if len(events) else ():
                found[name][k] = c
        return found

    def fits(self, sentence_counts: SentenceCounts) -> bool:
        parts = {name.split("_")[0] for name in sentence_counts}
        return parts == set(self._moving) and all(
            updates.fits(_of(sentence_counts, part)) for part, (_, updates) in self._moving.items()
        )

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        entropies = self.words.new_zeros(len(self.words), dtype=torch.float64)
        entropies[self._known.wholly] = self._known_nats
        found: SentenceCounts = {}
        for part, (sentences, updates) in self._moving.items():
            own = _of(sentence_counts, part)
            local = self._in_part(order, sentences)
            entropies[sentences], new = updates.collapsed_vb(corpus, own, local, batch_size)
            found.update({f"{part}_{name}": t for name, t in new.items()})
        if corpus.weights:
            self._write_fixed(corpus, self.total(found))
        return entropies, found

    def _in_part(self, order: Tensor, sentences: Tensor) -> Tensor:
        """The order of the sentences of a part, in its numbers."""
        return self._place[order[torch.isin(order, sentences)]]

    @staticmethod
    def _write_fixed(corpus: CorpusCounts, total: Weights) -> None:
        """Counts of weights that are given, which the sweeps of a part write as if it were all."""
        for name in corpus.weights:
            corpus.counts[name].copy_(total[name])

    # ------------------------------------------------------------------ derivations

    def draw(self, log_weights: Mapping[str, Tensor], generator: torch.Generator | None = None) -> Tensor:
        drawn = [(self._known.wholly, self._known.derivations)] if len(self._known.wholly) else []
        for sentences, updates in self._moving.values():
            drawn.append((sentences, updates.draw(log_weights, generator)))
        width = max((trees.shape[1] for _, trees in drawn), default=0)
        found = self.words.new_full((len(self.words), width), -1)
        for sentences, trees in drawn:
            found[sentences, : trees.shape[1]] = trees
        return found

    def counts(self, trees: Tensor) -> Weights:
        return self._count(self._evidence.events(self._known.words, trees))

    def _hastings(
        self,
        corpus: CorpusCounts,
        trees: Tensor,
        order: Tensor,
        batch_size: int,
        generator: torch.Generator | None,
        temperature: float,
    ) -> Tensor:
        accepted = torch.ones(len(self.words), dtype=torch.bool, device=self.words.device)
        for sentences, updates in self._moving.values():
            own, local = trees[sentences].contiguous(), self._in_part(order, sentences)
            accepted[sentences] = updates.hastings(
                corpus, own, local, batch_size, generator=generator, temperature=temperature
            )
            trees[sentences] = own
        if corpus.weights:
            self._write_fixed(corpus, self.counts(trees))
        return accepted

    @cached_property
    def _without_evidence(self) -> CollapsedUpdates:
        return self._evidence.base.collapsed_updates(self._known.words)

    def parts(self, trees: Tensor) -> Tensor:
        return self._without_evidence.parts(trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        return self._without_evidence.add_parts(total, trees)


def _of(sentence_counts: SentenceCounts, part: str) -> SentenceCounts:
    """The sentence counts of a part, by their own names."""
    front = f"{part}_"
    return {name.removeprefix(front): t for name, t in sentence_counts.items() if name.startswith(front)}
