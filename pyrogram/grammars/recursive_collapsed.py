# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for grammars that are recursions: compiled sweeps on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from pyrogram.collapsed_checks import (
    check_sentence_counts,
    check_sentences,
    check_trees,
    check_weights,
)
from pyrogram.event_map import EventMap, first_events, multinomials_of
from pyrogram.grammar import Block, Grammar
from pyrogram.recursion.emit.sentence_events import CELL
from pyrogram.recursion.run.program import Program, longest_first
from pyrogram.recursion.run.sweep_engine import UNCOUNTED, Corpus, SweepEngine


@dataclass(frozen=True)
class Plan:
    """What sweeps are compiled for: a recursion, and its sentences on the CPU.

    :param base: the grammar that it is.
    :param words: of this grammar, shape ``(N, n)``, padded with -1.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param given: factors of parts of derivations, see :class:`.Corpus`.
    :param located: the events that weights by position are, see :class:`.Corpus`.
    :param events: which events of the grammar the elements of the program's tables are; None: those of its blocks.
    :param sources: where weights are tied, which entries they are.
    :param nats: logs of factors of the program's events that are not counted; None: there are none.
    :param sums: a program with the same sums, by which no derivations are drawn; None: the same.
    """

    base: Grammar
    words: Tensor
    program: Program
    sizes: Mapping[str, int]
    lists: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    located: Mapping[str, Any] = field(default_factory=dict)
    events: EventMap | None = None
    sources: EventMap | None = None
    nats: Any = None
    sums: Program | None = None

    @cached_property
    def elements(self) -> EventMap:
        """Of the elements of the program's tables, the events of the grammar."""
        return EventMap.of_blocks(self.base.blocks) if self.events is None else self.events

    @property
    def numbering(self) -> EventMap:
        """The map by whose numbers they are counted: of events, or of entries."""
        return self.elements if self.sources is None else self.sources

    def tied(self, sources: Mapping[str, Block], entries: Mapping[str, Tensor]) -> Plan:
        """The same with weights that are entries of others, see :meth:`.EventMap.tied`."""
        return replace(self, sources=self.elements.tied(sources, entries))

    def tilted(self, nats: Mapping[str, Tensor]) -> Plan:
        """The same with nats of events, by block of the grammar.

        :param nats: shape ``block.shape``; blocks that are left out have none.
        """
        return replace(self, nats=self.elements.values(nats))


def fits_sweeps(program: Program, blocks: Mapping[str, Block], words: Tensor) -> bool:
    """Whether the sweeps of a recursion are compiled: on the CPU, for many sentences at once, without packed blocks."""
    at_once = program.in_many
    plain = all(type(block) is Block for block in blocks.values())
    return at_once and plain and words.device.type == "cpu" and words.dim() == 2


class RecursiveUpdates(CollapsedUpdates):
    """Sweeps of a grammar that is a recursion; words must lie on the CPU.

    Sentence counts are the ``values`` of all events that can occur in each sentence, see
    :mod:`~pyrogram.recursion.emit.sentence_events`. Derivations are rows of events.

    :param grammar: the grammar of the plan, or one that has evidence on its sentences, or tied weights.
    :param words: of this grammar.
    """

    def __init__(self, grammar: Grammar, words: Tensor, plan: Plan) -> None:
        super().__init__(grammar, words)
        self._plan, self._base = plan, plan.base
        self._num_events, self._counted = plan.elements.num_elements, plan.numbering.counted
        corpus = Corpus(
            *(plan.numbering.shapes, plan.words.numpy(), plan.sizes, plan.lists),
            renumbered=self._counted,
            given=plan.given,
            located=plan.located,
            nats=plan.nats,
            few=plan.elements.few,
        )
        sums = None if plan.sums is None else plan.sums.recursion
        self._engine = SweepEngine(plan.program.recursion, corpus, sums)
        self._events = self._engine.events
        self.num_own = len(self._events.places)
        self._num_multinomials = [int(multinomials_of({n: b}).max()) + 1 for n, b in self.blocks.items()]

    @property
    def lists_few_events(self) -> bool:
        """Whether some table has few elements that are events."""
        return bool(self._plan.elements.few)

    def tied(self, grammar: Grammar, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        return self._with(grammar, self._plan.tied(grammar.blocks, entries))

    def tilted(self, grammar: Grammar, nats: Mapping[str, Tensor]) -> CollapsedUpdates:
        return self._with(grammar, self._plan.tilted(nats))

    def log_tilt(self, trees: Tensor) -> Tensor:
        if self._plan.nats is None:
            return torch.zeros((), dtype=torch.float64)
        self._check_trees(trees)
        rows = self._rows(trees)
        return torch.tensor(float(self._plan.nats[rows[rows >= 0]].sum()), dtype=torch.float64)

    def _with(self, grammar: Grammar, plan: Plan) -> RecursiveUpdates:
        """The same sweeps of another grammar and plan."""
        return type(self)(grammar, self.words, plan)

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        own = torch.zeros(len(self._engine.places), dtype=torch.float64)
        fixed = CorpusCounts(zeros, {}, {n: weights[n].to(torch.float64) for n in self.blocks})
        order = torch.from_numpy(longest_first(self._events.lengths))  # so blocks have few empty places
        return self._sweep(fixed, own, order, CELL)

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        return self._sweep(corpus, sentence_counts["values"], order, batch_size)[1:]

    def _sweep(
        self, corpus: CorpusCounts, own: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, SentenceCounts]:
        out = torch.empty_like(own)
        log_z, entropies = (torch.zeros(len(self.words), dtype=torch.float64) for _ in range(2))
        if not self._is_compiled(corpus):
            for i, z, entropy, new in self._sweep_in_torch(corpus, {"values": own}, order, batch_size):
                log_z[i], entropies[i] = z, entropy.double()
                for k, sentence in enumerate(i.tolist()):
                    out[self._own(sentence)] = self._packed(new, k, sentence).to(torch.float64)
            return log_z, entropies, {"values": out}
        counts, alpha = self._shared(corpus)
        arrays = own.numpy(), out.numpy(), order.numpy()
        log_z, entropies = map(torch.from_numpy, self._engine.collapsed_vb(counts, alpha, *arrays, batch_size))
        self._write(counts, corpus)
        if corpus.weights:
            new = self.total({"values": out})
            for name in corpus.weights:
                corpus.counts[name].copy_(new[name])
        return log_z, entropies, {"values": out}

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        table = np.bincount(self._engine.places, sentence_counts["values"].numpy(), self._num_numbers)
        return self._by_block(torch.from_numpy(table[: self._size]).double())  # of no places numpy gives integers

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        values = sentence_counts["values"]
        tables = values.new_zeros(len(sentences), self._num_numbers)
        for k, i in enumerate(sentences.tolist()):
            tables[k].index_add_(0, self._places(i), values[self._own(i)])
        return self._by_block(tables[:, : self._size])

    def _own(self, sentence: int) -> slice:
        start = int(self._events.starts[sentence])
        return slice(start, start + int(self._events.sizes[sentence]))

    def _places(self, sentence: int) -> Tensor:
        return torch.from_numpy(self._engine.places[self._own(sentence)]).long()

    @property
    def _num_numbers(self) -> int:
        """Of events, multinomials, padding and nothing."""
        return int(self._size) + sum(self._num_multinomials) + 2

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, len(self._engine.places))

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        table, places = self._table({name: c[k] for name, c in counts.items()}), self._places(sentence).numpy()
        found = np.zeros(len(places))
        first = np.unique(places, return_index=True)[1]  # only the sum over the places of an entry counts
        found[first] = table[places[first]]
        return torch.from_numpy(found)

    def _is_compiled(self, corpus: CorpusCounts) -> bool:
        return all(len(group) == 1 for group in corpus.groups())  # sweeps take blocks for independent

    # ------------------------------------------------------------------ derivations

    def _rows(self, trees: Tensor) -> Any:
        """Derivations as rows of events, shape ``(N, L)``, int64, padded with -1; an array to write into."""
        return trees.numpy()

    def _positions(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the positions of weights that :meth:`_move` needs; see :meth:`.SweepEngine.hastings`."""
        return {}

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        """Replace the derivations that were accepted, where they are not the rows."""

    def counts(self, trees: Tensor) -> Weights:
        self._check_trees(trees)
        rows = self._rows(trees)
        events = rows[rows >= 0] if self._counted is None else self._counted[rows[rows >= 0]]
        flat = np.bincount(events, minlength=self._size)[: self._size].astype(np.float64)
        return self._by_block(torch.from_numpy(flat))

    def _check_trees(self, trees: Tensor) -> None:
        shape = (len(self.words), trees.shape[-1] if trees.dim() == 2 else 0)
        check_trees(trees, shape)
        if bool(((trees < -1) | (trees >= self._num_events)).any()):
            raise ValueError(
                f"trees must be rows of events, 0 to {self._num_events - 1}, padded with -1, but some are not"
            )

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
        own, (counts, alpha) = trees.contiguous(), self._shared(corpus)
        rows = self._rows(own)
        accepted, positions = self._engine.hastings(
            counts, alpha, rows, order.numpy(), batch_size, seed, temperature, self._positions()
        )
        self._move(own, rows, positions, accepted)
        if own is not trees:
            trees.copy_(own)
        self._write(counts, corpus)
        if corpus.weights:
            new = self.counts(trees)
            for name in corpus.weights:
                corpus.counts[name].copy_(new[name])
        return torch.from_numpy(accepted)

    # ------------------------------------------------------------------ tables

    def _shared(self, corpus: CorpusCounts) -> tuple[Any, Any]:
        """Numbers of f and of α; where weights are given, they stand in place of α, and f is minus infinity."""
        counts, alpha = self._table(corpus.counts), self._table({**corpus.concentration, **corpus.weights})
        counts[-2], alpha[-2] = UNCOUNTED, 1.0  # of the padding, its own multinomial: its weight is one
        first = self._size
        for (name, start), size in zip(first_events(self.blocks).items(), self._num_multinomials, strict=True):
            events = slice(start, start + self.blocks[name].shape.numel())
            sums = slice(first, first + size)
            if name in corpus.weights:
                counts[events], counts[sums], alpha[sums] = UNCOUNTED, UNCOUNTED, 1.0
            first += size
        return counts, alpha

    def _write(self, counts: Any, corpus: CorpusCounts) -> None:
        for name, found in self._by_block(torch.from_numpy(counts[: self._size])).items():
            if name in corpus.concentration:
                corpus.counts[name].copy_(found.clamp_min(0))

    def _table(self, values: Mapping[str, Tensor]) -> Any:
        """Values of all events, their sums by multinomial, and two zeros."""
        tables = [values[name].detach().to("cpu", torch.float64) for name in self.blocks]
        sums = [block.sums(table) for block, table in zip(self.blocks.values(), tables, strict=True)]
        return torch.cat([*(t.reshape(-1) for t in (*tables, *sums)), torch.zeros(2, dtype=torch.float64)]).numpy()
