# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for grammars that are recursions: compiled sweeps on the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from pyrogram.grammar import Block, Grammar
from pyrogram.recursion.emit.sentence_events import CELL, FewEvents
from pyrogram.recursion.run.program import Program, longest_first
from pyrogram.recursion.run.sweep_engine import FAR, Corpus, SweepEngine


@dataclass(frozen=True)
class Plan:
    """What sweeps are compiled for: a recursion, and its sentences on the CPU.

    The numbers that are counted are those of the events of a grammar, one block after the other, then those of its
    multinomials, then one for the padding, which is also the weight one of what is no event, then one for nothing.

    :param base: the grammar that it is.
    :param words: of this grammar, shape ``(N, n)``, padded with -1.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param given: factors of parts of derivations, see :class:`.Corpus`.
    :param shapes: of the weights of the program that are events; None: the blocks of the grammar.
    :param located: the events that weights by position are, see :class:`.Corpus`.
    :param renumbered: the number of the grammar for each number of the program; None: the same.
    :param entries: where weights are tied, what is counted in the place of each number of the grammar.
    :param nats: logs of factors of the program's events that are not counted; None: there are none.
    :param few: tables few of whose elements are events, see :meth:`.SentenceEvents.of`.
    :param sums: a program with the same sums, by which no derivations are drawn; None: the same.
    """

    base: Grammar
    words: Tensor
    program: Program
    sizes: Mapping[str, int]
    lists: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] | None = None
    located: Mapping[str, Any] = field(default_factory=dict)
    renumbered: Any = None
    entries: Any = None
    nats: Any = None
    few: Mapping[str, FewEvents] = field(default_factory=dict)
    sums: Program | None = None

    @property
    def event_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of the weights of the program that are events."""
        blocks = {name: tuple(block.shape) for name, block in self.base.blocks.items()}
        return blocks if self.shapes is None else self.shapes

    @property
    def num_events(self) -> int:
        """Of the program."""
        shapes, few = self.event_shapes, self.few
        return sum(len(few[name].rows) if name in few else math.prod(shape) for name, shape in shapes.items())

    @property
    def counted(self) -> Any:
        """What is counted in the place of each number of the program; None: the same."""
        if self.renumbered is None or self.entries is None:
            return self.entries if self.renumbered is None else self.renumbered
        return self.entries[self.renumbered]

    def tilted(self, nats: Mapping[str, Tensor]) -> Plan:
        """The same with nats of events, by block of the grammar.

        :param nats: shape ``block.shape``; blocks that are left out have none.
        """
        tables = [nats[n] if n in nats else torch.zeros(block.shape) for n, block in self.base.blocks.items()]
        flat = torch.cat([t.detach().cpu().double().reshape(-1) for t in tables]).numpy()
        if self.renumbered is not None:
            own = self.renumbered[: self.num_events]
            flat = np.append(flat, 0.0)[np.minimum(own, len(flat))]  # what is no event of the grammar has none
        return replace(self, nats=flat)


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
        self._num_events = plan.num_events
        corpus = Corpus(
            *(plan.event_shapes, plan.words.numpy(), plan.sizes, plan.lists),
            renumbered=plan.counted,
            given=plan.given,
            located=plan.located,
            nats=plan.nats,
            few=plan.few,
        )
        sums = None if plan.sums is None else plan.sums.recursion
        self._engine = SweepEngine(plan.program.recursion, corpus, sums)
        self._events = self._engine.events
        self.num_own = len(self._events.places)
        self._num_multinomials = [int(_multinomials(block).max()) + 1 for block in self.blocks.values()]

    def tied(self, grammar: Grammar, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        numbers = _numbers_of_entries(self.blocks, grammar.blocks, entries)
        return None if numbers is None else self._with(grammar, replace(self._plan, entries=numbers))

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
        events, counted = rows[rows >= 0], self._plan.counted
        events = events if counted is None else counted[events]
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
        """Numbers of f and of α; where weights are given, they stand in place of α, and f is far below zero."""
        counts, alpha = self._table(corpus.counts), self._table({**corpus.concentration, **corpus.weights})
        counts[-2], alpha[-2] = -FAR, 1.0  # of the padding, its own multinomial: its weight is one
        first = self._size
        for (name, events), size in zip(self._slices.items(), self._num_multinomials, strict=True):
            sums = slice(first, first + size)
            if name in corpus.weights:
                counts[events], counts[sums], alpha[sums] = -FAR, -FAR, 1.0
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


def _numbers_of_entries(
    blocks: Mapping[str, Block], sources: Mapping[str, Block], entries: Mapping[str, Tensor]
) -> Any:
    """The numbers of entries and of their multinomials in the place of those of events and of theirs.

    :returns: int32; None if the events of a multinomial are entries of several.
    """
    of_events, of_entries = multinomials_of(blocks), multinomials_of(sources)
    own = torch.cat([entries[name].cpu().reshape(-1) for name in blocks])
    of_multinomials = torch.zeros(int(of_events.max()) + 1, dtype=torch.int64)
    of_multinomials[of_events] = of_entries[own]
    if bool((of_multinomials[of_events] != of_entries[own]).any()):
        return None
    num_entries, padding = len(of_entries), len(of_entries) + int(of_entries.max()) + 1
    others = torch.tensor([padding, padding + 1])
    return torch.cat([own, num_entries + of_multinomials, others]).to(torch.int32).numpy()


def multinomials_of(blocks: Mapping[str, Block]) -> Tensor:
    """The number of the multinomial of each event, of all blocks one after the other."""
    found, first = [], 0
    for block in blocks.values():
        found.append(first + _multinomials(block).reshape(-1))
        first = int(found[-1].max()) + 1
    return torch.cat(found)


def _multinomials(block: Block) -> Tensor:
    """The number of the multinomial of each event among those of its block, ``block.shape``."""
    sums = block.sums(torch.zeros(block.shape))
    return block.broadcast(torch.arange(sums.numel()).reshape(sums.shape)).expand(block.shape)
