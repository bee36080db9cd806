# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus that run: compiled functions, and the memory that they work in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pyrogram.event_map import NEVER
from pyrogram.recursion.code.objects import Compiled
from pyrogram.recursion.code.statements import Function
from pyrogram.recursion.emit.agenda import size_of_agenda
from pyrogram.recursion.emit.inputs import table_parameters
from pyrogram.recursion.emit.instances import rows_by_symbol
from pyrogram.recursion.emit.traces import trace_values
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.engine import LONG, lines_of
from pyrogram.recursion.run.functions import compiled, hash_of_sources

from .collapsed import CollapsedSweep
from .events import (
    CELL,
    Corpus,
    SentenceEvents,
    SentenceTable,
    SentenceWords,
    WordAxes,
    events_of_elements,
)
from .hastings import HastingsSweep
from .layout import SentenceLayout

Numbers = Any  # a numpy array

_DOUBLE = np.dtype(np.float64)
UNCOUNTED = -np.inf  # the count of what has a given weight: it stays so, whatever is added
_MANY_DERIVATIONS = 600.0  # the log of their number, from which on the posterior of one may be zero


class SweepEngine:
    """Collapsed variational Bayes and Hastings' sampler for sentences under one prior, in lanes of float64.

    :param recursion: the rules.
    :param sums: rules with the same sums, by which no derivations are drawn; None: the same.
    """

    def __init__(self, recursion: Recursion, corpus: Corpus, sums: Recursion | None = None) -> None:
        self.recursion, self._sums, self._cells, self.corpus = recursion, sums or recursion, lower(recursion), corpus
        self._positions = max(len(rule.positions) for rule in recursion.rules)  # the power of n that a chart takes
        self._lists = {name: np.ascontiguousarray(column, np.int64) for name, column in corpus.lists.items()}
        self.factors = {
            name: SentenceTable(np.ascontiguousarray(rows, np.float64), row)
            for name, (rows, row) in corpus.factors.items()
        }
        self._layout = SentenceLayout(self._cells, frozenset(self.factors), not corpus.is_direct)
        width = max(1, corpus.words.shape[1]) if corpus.positions else 0
        self._no_positions = trace_values(
            self._layout, corpus.positions, np.full((len(corpus.words), width), -1, np.int64), "positions"
        )
        self._tilts = np.ones(len(corpus.entries))
        if corpus.nats is not None:
            np.exp(corpus.nats, out=self._tilts[: len(corpus.nats)])
        self._functions = dict[tuple[str, int], Compiled]()
        self._kept = dict[tuple[str, int], dict[str, Any]]()  # memory by function and lanes
        axes = WordAxes.of(self._cells)
        names = self._layout.kinds_of_words
        of_words: dict[str, Numbers] = dict.fromkeys(names, corpus.words)
        self._lengths, named = corpus.named or ((corpus.words >= 0).sum(1), of_words)
        inside = np.arange(max((w.shape[1] for w in named.values()), default=0)) < self._lengths[:, None]
        self._words = {
            name: SentenceWords.of(np.where(inside, named[name], -1), axes.constants.get(name, ())) for name in names
        }
        self._links = {name: np.ascontiguousarray(named[name], np.int64) for name in sorted(recursion.linked)}
        parts = [
            (these, self._events_of(these, events))
            for these, events in events_of_elements(self._layout.events, axes, corpus, self._lengths, self._words)
        ]
        self.events = SentenceEvents.joined([part for _, part in parts], np.concatenate([these for these, _ in parts]))

    def _events_of(self, these: Numbers, events: Numbers) -> SentenceEvents:
        """What is counted of some sentences.

        :param events: of all their elements.
        """
        if self.corpus.is_direct:
            return SentenceEvents.direct(self.corpus, self.corpus.entries[events])
        used = self._used(these, events) if self.corpus.located else events != NEVER
        return SentenceEvents.listed(self.corpus, events, used)

    def _used(self, these: Numbers, events: Numbers) -> Numbers:
        """Which elements some derivation has: those with a posterior if all weights are one.

        :returns: shape ``(S, E)``.
        """
        S, E = events.shape
        numbers = np.arange(E)
        one, nothing = len(self.corpus.multinomials) - 2, len(self.corpus.multinomials) - 1
        elements = np.stack([numbers, numbers, np.full(E, len(self.corpus.entries) - 1)], 1).astype(np.int32)
        some = copy.copy(self)
        some._lengths, some._words = self._lengths[these], {n: w.some(these) for n, w in self._words.items()}
        some._links = {name: links[these] for name, links in self._links.items()}
        some.factors = {name: SentenceTable(rows, row[these]) for name, (rows, row) in self.factors.items()}
        some.events = SentenceEvents.direct(self.corpus, np.where(events == NEVER, nothing, one), elements)
        counts, out = np.full(nothing + 1, UNCOUNTED), np.zeros(len(some.events.places.values))
        alpha = np.ones_like(counts)
        alpha[nothing] = 0.0
        log_z, _ = some.collapsed_vb(counts, alpha, np.zeros_like(out), out, np.arange(S), CELL)
        used = out[some.events.places.starts[:, None] + numbers] > 0
        return used | (log_z > _MANY_DERIVATIONS)[:, None] & (events != NEVER)

    def collapsed_vb(
        self,
        counts: Numbers,
        alpha: Numbers,
        old: Numbers,
        out: Numbers,
        order: Numbers,
        batch_size: int,
    ) -> tuple[Numbers, Numbers]:
        """One sweep: log Z and entropy of each sentence; both are -inf without derivations, and counts zero.

        To the entropies the expected nats are added.

        :param counts: of the corpus, changed. Where they are minus infinity, ``alpha`` alone is the weight.
        :param alpha: one for padding.
        :param old: sentence counts.
        :param out: the new ones.
        :param order: a permutation of the sentences, int64.
        """
        values = self._values(counts, alpha, batch_size)
        values |= {"old": old, "out": out, "entropies": np.zeros(len(self._lengths))}
        self._run("collapsed_vb", values, order, batch_size)
        return values["log_z"], values["entropies"]

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
        N = len(self._lengths)
        size = max(1, min(batch_size, N))
        values = self._values(counts, alpha, size)
        values |= {
            **self._no_positions,
            "positions": self._no_positions["positions"].copy(),
            "rows": rows,
            "trace": np.full((size, rows.shape[1]), -1, np.int64),
            "trace_width": rows.shape[1],
            "entries": self.corpus.entries,
            "multinomials": self.corpus.multinomials[self.corpus.entries],
            "accepted": np.zeros(N, np.int64),
            "log_q": np.zeros(size),
            "log_u": np.zeros(size),
            "power": 1 / temperature,
            "seed": seed,
        }
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
        if batch_size == 1 or self._links:  # positions that are data differ from lane to lane
            return np.ones(len(batches), np.bool_)
        blocks = np.flatnonzero(np.arange(len(order)) % batch_size % CELL == 0)
        lengths = self._lengths[order].astype(np.float64)
        longest = np.maximum.reduceat(lengths, blocks)
        in_lanes = np.where(longest >= LONG, 1.5, 0.0) * longest**self._positions
        alone: Numbers = np.add.reduceat(lengths**self._positions, batches)
        return alone < np.add.reduceat(in_lanes, np.searchsorted(blocks, batches))

    def _memory(self, name: str, values: Mapping[str, Any], sentences: Numbers, lanes: int) -> dict[str, Any]:
        """The memory that a function needs for some sentences; kept for the next sweep."""
        n, room = max(1, int(self._lengths[sentences].max())), max(1, self.events.room)
        pitch = (n + 1) | 1  # odd: so rows do not fall into the same cache sets
        kept = self._kept.get((name, lanes))
        if kept is not None and kept["pitch"] >= pitch and kept["room"] >= room:
            return kept
        memory: dict[str, Any] = {"pitch": pitch, "room": room}
        size = self._function(name, lanes)("size", {**values, **memory})
        memory |= {array: lines_of(room, _DOUBLE, lanes) for array in ("numbers", "weights", "drained")}
        memory["events"] = lines_of(room, np.dtype(np.int32), lanes)
        memory |= {array: lines_of(size, _DOUBLE, lanes) for array in ("memory", "mantissas", "exponents")}
        if name == "hastings":
            cells = lower(self.recursion, for_blocks=True)
            memory["agenda"] = np.zeros(size_of_agenda(cells, pitch, self.corpus.sizes), np.int64)
            memory["rows_by_symbol"] = rows_by_symbol(cells, self.corpus.sizes, self._lists)
        self._kept[name, lanes] = memory
        return memory

    def _values(self, counts: Numbers, alpha: Numbers, batch_size: int) -> dict[str, Any]:
        """The parameters that both sweeps have, but order and memory."""
        events = self.events
        values: dict[str, Any] = {"lengths": self._lengths}
        for name, words in self._words.items():
            values |= {f"distinct.{name}": words.distinct, f"kinds.{name}": words.kinds}
            values |= {f"kinds.{name}.b": words.kinds.shape[1]}
        for name, numbers in {**{n: w.local for n, w in self._words.items()}, **self._links}.items():
            values |= {f"words.{name}": numbers, f"words.{name}.b": numbers.shape[1]}
        values |= {f"size.{name}": size for name, size in self.corpus.sizes.items()}
        values |= {f"list.{name}": column for name, column in self._lists.items()}
        for name, (rows, row) in self.factors.items():
            values |= {f"row.{name}": row} | table_parameters(f"weight.{name}", rows, "b")
        for name, shape in self.corpus.shapes.items():
            values |= {f"extent.{name}.{a}": s for a, s in enumerate(shape)}
        for name in ("places", "owners", "rows", "elements"):
            values |= {f"{name}.{part}": array for part, array in getattr(events, name)._asdict().items()}
        return values | {
            "entry_ends": events.entry_ends,
            "batch_size": batch_size,
            "counts": counts,
            "alpha": alpha,
            "tilts": self._tilts,
            "log_z": np.zeros(len(self._lengths)),
        }

    def _function(self, name: str, lanes: int) -> Compiled:
        if (name, lanes) not in self._functions:
            kinds: dict[str, tuple[type[CollapsedSweep | HastingsSweep], Recursion]] = {
                "collapsed_vb": (CollapsedSweep, self._sums),
                "hastings": (HastingsSweep, self.recursion),
            }
            (sweep, recursion), listed = kinds[name], self._layout.listed

            def make() -> list[Function]:
                sweeps = sweep(recursion, self._layout.constants, listed, lanes)
                return [sweeps.function(), sweeps.size()]

            here = hash_of_sources(Path(__file__).parent)  # code is made by both
            kind = f"sweeps: {name} given {sorted(self._layout.constants)}, {'listed' if listed else 'direct'}, {here}"
            self._functions[name, lanes] = compiled(recursion, kind, make, "float64", lanes)
        return self._functions[name, lanes]
