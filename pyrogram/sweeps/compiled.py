# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for grammars that are recursions: compiled sweeps on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import checked_words
from pyrogram.event_map import NEVER, EventMap, first_events, multinomials_of, num_events, numbers_of_entries
from pyrogram.recursion.emit.inputs import Numbers, whole_vectors
from pyrogram.recursion.run.program import Program, longest_first
from pyrogram.sentences import Sentences, Structure, factors_of

from .engine import UNCOUNTED, SweepEngine
from .events import CELL, Corpus, SentenceTable
from .plain import (
    CollapsedUpdates,
    CorpusCounts,
    Proposal,
    SentenceCounts,
    Weights,
    check_sentence_counts,
    check_sentences,
    check_trees,
    check_weights,
)

_AT_ONCE = 2**10  # sentences whose factors are made at a time


@dataclass(frozen=True)
class Plan:
    """What sweeps are compiled for: a recursion, and its sentences on the CPU.

    :param structure: of derivations.
    :param sentences: words of shape ``(N, n)``, and what is known of them.
    :param sizes: numbers of symbols, by the names of sizes.
    :param events: which events of the grammar the elements of the program's tables are.
    :param lists: columns of lists of rules.
    :param factors: of parts of derivations, see :class:`.Corpus`.
    :param entries: where weights are tied, which entry of all each event is.
    :param nats: logs of factors of events that are not counted; None: there are none.
    :param sums: a program with the same sums, by which no derivations are drawn; None: the same.
    :param named: words and links of the program, where they are not the sentences' own, see :class:`.Corpus`.
    """

    structure: Structure
    sentences: Sentences
    program: Program
    sizes: Mapping[str, int]
    events: EventMap
    lists: Mapping[str, Any] = field(default_factory=dict)
    factors: Mapping[str, SentenceTable] = field(default_factory=dict)
    entries: Numbers | None = None
    nats: Any = None
    sums: Program | None = None
    named: tuple[Numbers, Mapping[str, Numbers]] | None = None


def sweeps(
    grammar: Any,
    words: Tensor | Sentences,
    plan: Callable[[Sentences], Plan | None],
    kind: type[RecursiveUpdates] | None = None,
) -> CollapsedUpdates:
    """Compiled sweeps of a grammar over sentences; in plain torch, where there are none.

    There are none of nats that no number is the exponential of, either.

    :param plan: what they are compiled for, of sentences on the CPU, without the nats of a tilt; None: they are not.
    :param kind: their class.
    """
    sentences: Sentences = grammar.sentences(words)
    words = sentences.words
    checked_words(words, grammar.num_words)
    compiled = plan(sentences) if words.device.type == "cpu" and words.dim() == 2 else None
    nats = None
    if grammar.nats:
        tables = [grammar.nats.get(name, torch.zeros(block.shape)) for name, block in grammar.blocks.items()]
        nats = torch.cat([x.detach().cpu().double().reshape(-1) for x in tables]).numpy()
    if compiled is None or (nats is not None and factors_of(torch.from_numpy(nats)) is None):
        return CollapsedUpdates(grammar, sentences)
    compiled = replace(compiled, nats=nats)
    return (RecursiveUpdates if kind is None else kind)(grammar, compiled)


def numbers_of(
    sentences: Sentences, tables: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
) -> dict[str, SentenceTable] | None:
    """Factors of parts as compiled sweeps take them, by table; none, if nothing is known.

    They are made for a few sentences at a time: their logarithms would take as much memory again. Sentences of which
    nothing is known share a row of ones.

    :param tables: from factors by name to those of a program's tables, shape ``(N, n + 1, ...)``, in logarithms.
    :returns: None, if some are not in the range of floating point.
    """
    factors: dict[str, Numbers] = {}
    if sentences.structure is None:
        return {}
    informed = sentences.is_informed.nonzero()[:, 0]
    row = np.zeros(len(sentences), np.int64)
    row[informed.numpy()] = np.arange(1, 1 + len(informed))
    for chunk in informed.split(_AT_ONCE) if len(informed) else [informed]:
        for name, table in tables(sentences.structure.factors(sentences[chunk])).items():
            numbers = factors_of(table)
            if numbers is None:
                return None
            if name not in factors:
                factors[name] = np.ones((1 + len(informed), *numbers.shape[1:]))
            factors[name][row[chunk.numpy()]] = numbers
    return {name: SentenceTable(rows, row) for name, rows in factors.items()}


def _in_vectors(events: EventMap) -> EventMap:
    """The same, with room for whole vectors in the last axis of each table."""
    tables = {}
    for name, table in events.tables.items():
        tables[name] = np.full(whole_vectors(table.shape), NEVER)
        tables[name][..., : table.shape[-1]] = table
    return replace(events, tables=tables, is_same=False)


class RecursiveUpdates(CollapsedUpdates):
    """Sweeps of a grammar that is a recursion; words must lie on the CPU.

    Sentence counts are the ``values`` of all events that can occur in each sentence, see
    :mod:`~pyrogram.sweeps.events`. A derivation that is known does not move: sweeps pass over its
    sentence, whose counts are constants.

    :param grammar: the one that the plan was made for, or one of tied weights over it.
    :param plan: what they are compiled for.
    """

    #: Whether a sentence with a known derivation has no other.
    knows_derivations = True

    def __init__(self, grammar: Any, plan: Plan) -> None:
        super().__init__(grammar, plan.sentences)
        self.plan, self._num_events = plan, num_events(plan.events.blocks)
        self._structure: Structure = plan.structure
        self._entries, multinomials = numbers_of_entries(self.blocks, plan.entries)
        is_plain = plan.entries is None and plan.nats is None and not plan.events.located
        linked = bool(plan.program.recursion.linked)
        events = _in_vectors(plan.events) if linked else plan.events
        # Where weights are read in place, elements that are never events are zeros there.
        is_one_to_one = events.is_injective if linked else events.is_one_to_one
        corpus = Corpus(
            *(self.words.numpy(), events.lookups, self._entries, multinomials, plan.sizes, plan.lists),
            factors=plan.factors,
            located=plan.events.located,
            nats=plan.nats,
            positions=self._structure.positions(self.words.shape[1]),
            is_direct=is_plain and is_one_to_one,
            named=plan.named,
        )
        sums = None if plan.sums is None else plan.sums.recursion
        self._engine = SweepEngine(plan.program.recursion, corpus, sums)
        self._starts, self._sizes, self._places = self._engine.events.places
        self.num_values = len(self._places)
        #: By block, the numbers of its events and of its multinomials. Two more are padding and nothing.
        self._numbers: dict[str, tuple[slice, slice]] = {}
        first = self._size
        for name, event in first_events(self.blocks).items():
            block = self.blocks[name]
            end = first + int(multinomials_of({name: block}).max()) + 1
            self._numbers[name] = slice(event, event + block.shape.numel()), slice(first, end)
            first = end
        self._num_numbers = first + 2
        self._spare: Tensor | None = None  # in the place of sentence counts
        self._last_sweep: tuple[Tensor, Any] | None = None  # derivations after the last sweep, and their rows of events
        is_whole = self.sentences.is_whole
        self._known = is_whole.nonzero()[:, 0] if self.knows_derivations else self.words.new_zeros(0)

    @property
    def can_be_mixed(self) -> bool:
        """Whether a mixture of several such grammars has compiled sweeps, too."""
        forced = not self._structure.is_by_row or not len(self._known)  # factors say which derivation is known
        return not self.plan.events.few and forced

    def tied(self, grammar: Any, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        numbers = torch.cat([entries[name].reshape(-1) for name in self.blocks]).cpu().numpy()
        events = numbers if self.plan.entries is None else numbers[self.plan.entries]
        return type(self)(grammar, replace(self.plan, entries=events))

    def log_tilt(self, trees: Tensor) -> Tensor:
        if self.plan.nats is None and not self.plan.factors:  # weights are all that a derivation has
            return torch.zeros((), dtype=torch.float64)
        total = self._log_factors(trees)
        if self.plan.nats is None:
            return total
        self._check_trees(trees)
        rows = self._rows(self.words, trees)
        return total + float(self.plan.nats[rows[rows >= 0]].sum())

    # ------------------------------------------------------------------ derivations that are known

    @cached_property
    def _known_values(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of sentences with known derivations: the places of their numbers, and how often each occurs.

        And what each sentence adds to the bound, the logs of its factors and nats; -inf, where it has no derivation.
        """
        known, sentences = self.sentences[self._known], self._known.numpy()
        rows = self._rows(known.words, known.derivations)
        bound = known.log_factors.double()
        if self.plan.nats is not None:
            bound = bound + torch.from_numpy(np.where(rows < 0, 0.0, self.plan.nats[rows]).sum(1))
        counts = self._sizes[sentences]
        sentence = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(sentence)) + np.repeat(self._starts[sentences] - (counts.cumsum() - counts), counts)
        keys = sentence * self._num_numbers + self._places[places]
        of, at = (rows >= 0).nonzero()
        wanted, occurs = np.unique(of * self._num_numbers + self._entries[rows[of, at]], return_counts=True)
        order = np.argsort(keys)
        hits = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)]
        is_hit = keys[hits] == wanted  # not of a derivation that is known and forbidden
        values = np.zeros(len(places))
        values[hits[is_hit]] = occurs[is_hit]
        return torch.from_numpy(places), torch.from_numpy(values), bound

    def _write_known(self, values: Tensor, entropies: Tensor) -> None:
        """Count the events of known derivations, in the places of their sentences; and what they add to the bound."""
        if len(self._known):
            places, counts, entropies[self._known] = self._known_values
            values[places] = counts

    def _moving(self, order: Tensor) -> Tensor:
        """An order of the sentences without those that do not move."""
        return order[~torch.isin(order, self._known)] if len(self._known) else order

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        values = torch.from_numpy(np.zeros(len(self._places)))  # which takes no memory until it is written
        fixed = CorpusCounts(zeros, {}, {n: weights[n].to(torch.float64) for n in self.blocks})
        order = torch.from_numpy(longest_first((self.words >= 0).sum(1).numpy()))  # so blocks have few empty places
        log_z, entropies, counts = self._sweep(fixed, values, order, CELL)
        if len(self._known):
            logs = {name: w.log() for name, w in fixed.weights.items()}
            log_z[self._known] = self.grammar.log_partition(logs, self.sentences[self._known])
        return log_z, entropies, counts

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        _, entropies, new = self._sweep(corpus, sentence_counts["values"], order, batch_size)
        if corpus.weights:
            total = self.total(new)
            for name in corpus.weights:
                corpus.counts[name].copy_(total[name])
        return entropies, new

    def _sweep(
        self, corpus: CorpusCounts, values: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, SentenceCounts]:
        out, self._spare = torch.empty_like(values) if self._spare is None else self._spare, None
        counts, alpha = self._shared(corpus)
        arrays = values.numpy(), out.numpy(), self._moving(order).numpy()
        log_z, entropies = map(torch.from_numpy, self._engine.collapsed_vb(counts, alpha, *arrays, batch_size))
        self._write_known(out, entropies)
        self._write(counts, corpus)
        return log_z, entropies, {"values": out}

    def recycle(self, sentence_counts: SentenceCounts) -> None:
        self._check_sentence_counts(sentence_counts)
        self._spare = sentence_counts["values"]

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        table = np.bincount(self._places, sentence_counts["values"].numpy(), self._num_numbers)
        return self._by_block(torch.from_numpy(table[: self._size]).double())  # of no places numpy gives integers

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        values = sentence_counts["values"]
        tables = values.new_zeros(len(sentences), self._num_numbers)
        for k, i in enumerate(sentences.tolist()):
            places = self._places_of(i)
            tables[k].index_add_(0, torch.from_numpy(self._places[places]), values[places])
        return self._by_block(tables[:, : self._size])

    def _places_of(self, sentence: int) -> slice:
        start = int(self._starts[sentence])
        return slice(start, start + int(self._sizes[sentence]))

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, len(self._places))

    # ------------------------------------------------------------------ derivations

    def draw(self, log_weights: Mapping[str, Tensor], generator: torch.Generator | None = None) -> Tensor:
        if not len(self._known):
            return super().draw(log_weights, generator)
        moving = self._moving(torch.arange(len(self.words)))
        trees = self.words.new_full((len(self.words), self._structure.length(self.words.shape[1])), -1)
        trees[self._known] = self.sentences[self._known].derivations
        if len(moving):
            trees[moving] = self._drawn(self.sentences[moving], log_weights, generator)
        return trees

    def _rows(self, words: Tensor, trees: Tensor) -> Any:
        """Derivations as rows of events, shape ``(N, L)``, int64, padded with -1.

        An array to write into, as wide as any derivation is.
        """
        events = self._structure.events(words, trees).numpy()
        rows, is_event = np.full((len(events), self._structure.num_events(self.words.shape[1])), -1), events >= 0
        rows[np.arange(rows.shape[1]) < is_event.sum(1, keepdims=True)] = events[is_event]
        return rows

    def counts(self, trees: Tensor) -> Weights:
        self._check_trees(trees)
        rows = self._structure.events(self.words, trees).numpy()
        flat = np.bincount(self._entries[rows[rows >= 0]], minlength=self._size)[: self._size].astype(np.float64)
        return self._by_block(torch.from_numpy(flat))

    def _check_trees(self, trees: Tensor) -> None:
        width = trees.shape[-1] if trees.dim() == 2 else 0
        check_trees(trees, (len(self.words), width))
        self._structure.check_derivations(self.words, trees)

    def parts(self, trees: Tensor) -> Tensor:
        return self.add_parts(None, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        return self._structure.add_parts(total, self.words, trees)

    def _hastings(
        self,
        corpus: CorpusCounts,
        trees: Tensor,
        order: Tensor,
        batch_size: int,
        generator: torch.Generator | None,
        temperature: float,
        proposal: Proposal | None,
    ) -> Tensor:
        if proposal is not None:
            return super()._hastings(corpus, trees, order, batch_size, generator, temperature, proposal)
        if self._last_sweep is None or not torch.equal(self._last_sweep[0], trees):
            self._check_trees(trees)
            self._last_sweep = None
        order = self._moving(order)
        accepted = torch.ones(len(self.words), dtype=torch.bool)
        seed = int(torch.randint(2**62, (), generator=generator))
        contiguous, (counts, alpha) = trees.contiguous(), self._shared(corpus)
        rows = self._rows(self.words, contiguous) if self._last_sweep is None else self._last_sweep[1]
        self._last_sweep, arrays = None, (counts, alpha, rows, order.numpy())
        moved, positions = self._engine.hastings(*arrays, batch_size, seed, temperature)
        events = np.where(rows < self._num_events, rows, -1)
        self._structure.replace(contiguous, events, positions, moved)
        accepted[order] = torch.from_numpy(moved)[order]
        if contiguous is not trees:
            trees.copy_(contiguous)
        self._last_sweep = contiguous.clone(), rows
        self._write(counts, corpus)
        if corpus.weights:
            new = self.counts(trees)
            for name in corpus.weights:
                corpus.counts[name].copy_(new[name])
        return accepted

    # ------------------------------------------------------------------ tables

    def _shared(self, corpus: CorpusCounts) -> tuple[Any, Any]:
        """Numbers of f and of α; where weights are given, they stand in place of α, and f is minus infinity."""
        counts, alpha = self._table(corpus.counts), self._table({**corpus.concentration, **corpus.weights})
        counts[-2], alpha[-2] = UNCOUNTED, 1.0  # of the padding, its own multinomial: its weight is one
        for name in corpus.weights:
            events, sums = self._numbers[name]
            counts[events], counts[sums], alpha[sums] = UNCOUNTED, UNCOUNTED, 1.0
        return counts, alpha

    def _write(self, counts: Any, corpus: CorpusCounts) -> None:
        for name in corpus.concentration:
            table = torch.from_numpy(counts[self._numbers[name][0]]).clamp_min(0)
            corpus.counts[name].copy_(table.view(self.blocks[name].shape))

    def _table(self, values: Mapping[str, Tensor]) -> Any:
        """Values of all events, their sums by multinomial, and two zeros."""
        tables = [values[name].detach().to("cpu", torch.float64) for name in self.blocks]
        sums = [block.sums(table) for block, table in zip(self.blocks.values(), tables, strict=True)]
        return torch.cat([*(t.reshape(-1) for t in (*tables, *sums)), torch.zeros(2, dtype=torch.float64)]).numpy()
