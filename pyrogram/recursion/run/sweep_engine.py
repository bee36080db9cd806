# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus that run: compiled functions, and the memory that they work in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..code.objects import Compiled
from ..code.statements import Function
from ..emit.agenda import size_of_agenda
from ..emit.collapsed import CollapsedSweep
from ..emit.hastings import HastingsSweep
from ..emit.inputs import table_parameters
from ..emit.instances import rows_by_symbol
from ..emit.layout import Layout
from ..emit.sentence_events import CELL, FewEvents, SentenceEvents, repeated_tables
from ..emit.sweeps import Weighing
from ..emit.traces import Trace, trace_values
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .engine import LONG, lines_of
from .functions import compiled

Numbers = Any  # a numpy array

_DOUBLE = np.dtype(np.float64)
UNCOUNTED = -np.inf  # the count of what has a given weight: it stays so, whatever is added
_MANY_DERIVATIONS = 600.0  # the log of their number, from which on the posterior of one may be zero
_MOST_NUMBERS = 2**20  # numbers of sentences that are made at a time, before some are left out


class SentenceTable(NamedTuple):
    """A table of weights of which many sentences may have the same one."""

    rows: Numbers
    """Shape ``(M, n + 1, ..., *sizes)``: positions, then symbols."""
    row: Numbers
    """Which of them each sentence has, int64, shape ``(N,)``."""

    @staticmethod
    def of(table: Numbers) -> SentenceTable:
        """A table of which each sentence has a row of its own."""
        return SentenceTable(table, np.arange(len(table)))


@dataclass(frozen=True)
class Corpus:
    """Sentences, and what is counted of them.

    :param shapes: of the weights that are events, in the order that these have in the corpus, see
        :meth:`.SentenceEvents.of`.
    :param words: shape ``(N, n)``, padded with -1.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param renumbered: where weights are tied: for each number of the corpus (of events, multinomials, padding, nothing)
        the one that is counted in its place (of entries, of their multinomials, of padding, of nothing), int32.
    :param given: weights that are no events.
    :param located: the events that weights by position are, see :meth:`.SentenceEvents.of`.
    :param nats: logs of factors of the events, in the order of these, which multiply their weights and are not counted.
    :param few: tables few of whose elements are events, see :meth:`.SentenceEvents.of`.
    :param positions: numbers of the positions of weights that a derivation has, by table: the first one, and strides
        by axis.
    """

    shapes: Mapping[str, tuple[int, ...]]
    words: Numbers
    sizes: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Numbers] = field(default_factory=dict)
    renumbered: Numbers | None = None
    given: Mapping[str, SentenceTable] = field(default_factory=dict)
    located: Mapping[str, Numbers] = field(default_factory=dict)
    nats: Numbers | None = None
    few: Mapping[str, FewEvents] = field(default_factory=dict)
    positions: Trace = field(default_factory=dict)


class SweepEngine:
    """Collapsed variational Bayes and Hastings' sampler for sentences under one prior, in lanes of float64.

    :param recursion: the rules.
    :param sums: rules with the same sums, by which no derivations are drawn; None: the same.
    """

    def __init__(self, recursion: Recursion, corpus: Corpus, sums: Recursion | None = None) -> None:
        self.recursion, self._sums, self._cells = recursion, sums or recursion, lower(recursion)
        self._positions = max(len(rule.positions) for rule in recursion.rules)  # the power of n that a chart takes
        shapes, located, renumbered, few = corpus.shapes, corpus.located, corpus.renumbered, corpus.few
        self._sizes, self._nats = dict(corpus.sizes), corpus.nats
        self._lists = {name: np.ascontiguousarray(column, np.int64) for name, column in corpus.lists.items()}
        repeated = repeated_tables(self._cells, shapes, located, few, renumbered)
        self.given = {
            name: SentenceTable(np.ascontiguousarray(rows, np.float64), row)
            for name, (rows, row) in corpus.given.items()
        }
        axes = {w.name: w.num_axes for w in Layout(self._cells).weights}
        rows = {name for name, shape in shapes.items() if name in axes and len(shape) > axes[name]}
        self.weighing = Weighing(
            given=frozenset(self.given),
            rows=frozenset(rows | set(located)),
            repeated=repeated,
            owned=bool(located) or renumbered is not None,
            tied=renumbered is not None,
            tilted=corpus.nats is not None,
            listed=bool(located),
        )
        self._layout = self.weighing.layout(recursion)
        width = max(1, corpus.words.shape[1]) if corpus.positions else 0
        self._no_positions = trace_values(
            self._layout, corpus.positions, np.full((len(corpus.words), width), -1, np.int64), "positions"
        )
        self._shapes = {**shapes, **{name: numbers.shape[1:] for name, numbers in located.items()}}
        self._functions, self._renumbered = dict[tuple[str, int], Compiled](), renumbered
        self._kept = dict[tuple[str, int], dict[str, Any]]()  # memory by function and lanes

        def of(these: Numbers | slice) -> SentenceEvents:
            located_here = {name: numbers[these] for name, numbers in located.items()}
            return SentenceEvents.of(self._cells, shapes, corpus.words[these], located_here, few, renumbered, repeated)

        self._take(self._used_events(corpus.words, of) if located else of(slice(None)))

    def _take(self, events: SentenceEvents) -> None:
        """The events of sentences, and the places of their numbers among those that are counted."""
        self.events = events
        #: As those of :class:`.SentenceEvents`, of what is counted.
        self.places, self.multinomials = events.places, events.multinomials
        if self._renumbered is not None:
            self.places, self.multinomials = self._renumbered[self.places], self._renumbered[self.multinomials]
        self._tilts = {} if self._nats is None else self._tilts_of(self._nats)

    def _used_events(self, words: Numbers, of: Callable[[Numbers], SentenceEvents]) -> SentenceEvents:
        """Of each sentence the numbers that some derivation has: those with a posterior if all weights are one.

        :param of: all numbers of some sentences.
        """
        order = np.argsort((words >= 0).sum(1), kind="stable")
        batches: list[tuple[Numbers, SentenceEvents]] = []
        done, count = 0, CELL
        possible = {name: (table.rows != 0).astype(np.float64) for name, table in self.given.items()}
        while done < len(order) or not batches:
            these = order[done : done + count]
            some = copy.copy(self)
            some._nats = None if self._nats is None else np.zeros(0)
            some.given = {name: SentenceTable(x, self.given[name].row[these]) for name, x in possible.items()}
            some._take(of(these).listed())
            counts, out = np.full(some.events.num_numbers, UNCOUNTED), np.zeros(len(some.places))
            alpha, turns = np.ones_like(counts), np.arange(len(these))[::-1]
            alpha[-1 if self._renumbered is None else self._renumbered[-1]] = 0.0  # nothing
            log_z, _ = some.collapsed_vb(counts, alpha, np.zeros_like(out), out, turns, CELL)
            is_large = np.repeat(log_z > _MANY_DERIVATIONS, some.events.sizes)  # sentences lie one after the other
            batches.append((these, some.events.listed((out > 0) | is_large)))
            done += count
            count = max(CELL, _MOST_NUMBERS // int(some.events.rooms.max(initial=1)))
        return SentenceEvents.joined(batches)

    def collapsed_vb(
        self,
        counts: Numbers,
        alpha: Numbers,
        own: Numbers,
        out: Numbers,
        order: Numbers,
        batch_size: int,
    ) -> tuple[Numbers, Numbers]:
        """One sweep: log Z and entropy of each sentence; both are -inf without derivations, and counts zero.

        To the entropies the expected nats are added.

        :param counts: of the corpus, changed. Where they are minus infinity, ``alpha`` alone is the weight.
        :param alpha: one for padding.
        :param own: sentence counts.
        :param out: the new ones.
        :param order: a permutation of the sentences, int64.
        """
        values = self._values(counts, alpha, batch_size)
        values |= {"own": own, "out": out, "entropies": np.zeros(len(self.events.words))}
        self._run("collapsed_vb", values, order, batch_size)
        return values["log_z"], values["entropies"]

    def _tilts_of(self, nats: Numbers) -> dict[str, Numbers]:
        """Factors in the places of the numbers of all sentences, and their logs; of one that is zero, 0."""
        every = np.zeros(self.events.num_numbers)
        every[: len(nats)] = nats
        of_numbers = every[self.events.places]
        return {"tilts": np.exp(of_numbers), "nats": np.where(np.isneginf(of_numbers), 0.0, of_numbers)}

    def hastings(
        self,
        counts: Numbers,
        alpha: Numbers,
        rows: Numbers,
        order: Numbers,
        batch_size: int,
        seed: int,
        temperature: float,
    ) -> tuple[Numbers, Numbers]:
        """One sweep: which proposals were accepted, and the positions of those proposed.

        A sentence without a derivation of positive weight does not move.

        :param counts: of the events of all derivations, changed. Where they are minus infinity, ``alpha`` alone is the
            weight.
        :param rows: events of the corpus by sentence, shape ``(N, L)``, int64, padded with -1, changed.
        """
        N, size = len(self.events.words), max(1, min(batch_size, len(self.events.words)))
        values = self._values(counts, alpha, size)
        values |= {
            **self._no_positions,
            "positions": self._no_positions["positions"].copy(),
            "rows": rows,
            "trace": np.full((size, rows.shape[1]), -1, np.int64),
            "trace_width": rows.shape[1],
            "multinomials": self.multinomials,
            "accepted": np.zeros(N, np.int64),
            "log_q": np.zeros(size),
            "log_u": np.zeros(size),
            "power": 1 / temperature,
            "seed": seed,
        }
        if self._renumbered is not None:
            values |= {"entries": self._renumbered, "events": self.events.places}
        self._run("hastings", values, order, size)
        return values["accepted"].astype(np.bool_), values["positions"]

    def _run(self, name: str, values: Mapping[str, Any], order: Numbers, batch_size: int) -> None:
        """Call a function for all batches.

        :param values: its parameters, but order and memory.
        """
        if not len(order):
            return
        alone = self._are_alone(order, batch_size)
        changes = np.flatnonzero(alone[1:] != alone[:-1]) + 1
        runs = np.split(np.ascontiguousarray(order, np.int64), changes * batch_size)
        lanes_of = [1 if alone[x] else CELL for x in (0, *changes)]
        memory = {}
        for lanes in set(lanes_of):
            these = np.concatenate([run for run, width in zip(runs, lanes_of, strict=True) if width == lanes])
            memory[lanes] = self._memory(name, values, these, lanes)
        for run, lanes in zip(runs, lanes_of, strict=True):
            self._function(name, lanes)(name, {**values, **memory[lanes], "order": run, "count": len(run)})

    def _are_alone(self, order: Numbers, batch_size: int) -> Numbers:
        """Which batches are done one sentence after the other: where charts in lanes have room for others in vain."""
        batches = np.arange(0, len(order), batch_size)
        if batch_size == 1:
            return np.ones(len(batches), np.bool_)
        blocks = np.flatnonzero(np.arange(len(order)) % batch_size % CELL == 0)
        lengths = self.events.lengths[order].astype(np.float64)
        longest = np.maximum.reduceat(lengths, blocks)
        in_lanes = np.where(longest >= LONG, 1.5, 0.0) * longest**self._positions
        alone: Numbers = np.add.reduceat(lengths**self._positions, batches)
        return alone < np.add.reduceat(in_lanes, np.searchsorted(blocks, batches))

    def _memory(self, name: str, values: Mapping[str, Any], sentences: Numbers, lanes: int) -> dict[str, Any]:
        """The memory that a function needs for some sentences; kept for the next sweep."""
        n, most = (max(1, int(x[sentences].max())) for x in (self.events.lengths, self.events.rooms))
        pitch = (n + 1) | 1  # odd: so rows do not fall into the same cache sets
        kept = self._kept.get((name, lanes))
        if kept is not None and kept["pitch"] >= pitch and kept["room"] >= most:
            return kept
        memory = {"pitch": pitch, "room": most, "starts": np.zeros(lanes, np.int64)}
        size = self._function(name, lanes)("size", {**values, **memory})
        memory |= {"numbers": lines_of(most, _DOUBLE, lanes)}
        if self.weighing.listed:
            memory |= {"drained": lines_of(most, _DOUBLE, lanes), "slots": lines_of(most, np.dtype(np.int32), lanes)}
        memory |= {array: lines_of(size, _DOUBLE, lanes) for array in ("memory", "mantissas", "exponents")}
        if name == "hastings":
            memory["agenda"] = np.zeros(size_of_agenda(self._cells, pitch, self._sizes), np.int64)
            memory["rows_by_symbol"] = rows_by_symbol(self._cells, self._sizes, self._lists)
        self._kept[name, lanes] = memory
        return memory

    def _values(self, counts: Numbers, alpha: Numbers, batch_size: int) -> dict[str, Any]:
        """The parameters that both sweeps have, but order and memory."""
        events = self.events
        N = len(events.words)
        values: dict[str, Any] = {}
        for name in self._layout.words:
            values |= {f"words.{name}": events.local, f"words.{name}.b": events.local.shape[1]}
        values |= {f"size.{name}": size for name, size in self._sizes.items()}
        values |= {f"list.{name}": column for name, column in self._lists.items()}
        for name, (rows, row) in self.given.items():
            values |= {f"row.{name}": row} | table_parameters(f"weight.{name}", rows, "b")
        for name, shape in self._shapes.items():
            values |= {f"extent.{name}.{a}": s for a, s in enumerate(shape)}
        values |= {
            "distinct": events.distinct,
            "owners": events.owners,
            "row_starts": events.row_starts,
            "owned": events.owned,
            "sentence_starts": events.starts,
            "lengths": events.lengths,
            "batch_size": batch_size,
            "counts": counts,
            "alpha": alpha,
            "places": self.places,
            "sentence_sizes": events.sizes,
            "part_ends": events.ends,
            "elements": events.elements,
            "log_z": np.zeros(N),
        }
        return values | self._tilts

    def _function(self, name: str, lanes: int) -> Compiled:
        if (name, lanes) not in self._functions:
            kind = f"sweeps: {name}, {self.weighing}"
            kinds: dict[str, tuple[type[CollapsedSweep | HastingsSweep], Recursion]] = {
                "collapsed_vb": (CollapsedSweep, self._sums),
                "hastings": (HastingsSweep, self.recursion),
            }
            sweep, recursion = kinds[name]

            def make() -> list[Function]:
                sweeps = sweep(recursion, self.weighing, lanes)
                return [sweeps.function(), sweeps.size()]

            self._functions[name, lanes] = compiled(recursion, kind, make, "float64", lanes)
        return self._functions[name, lanes]
