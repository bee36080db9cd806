# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus, for recursions that have no sweeps in lanes: those with symbols in their items.

One batch after another is gathered, run as a few sentences with weights of their own, and scattered, in numpy. As in
lanes, a sentence has weights for the events alone that can occur in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..calling.functions import compiled
from ..calling.layout import Layout
from ..calling.replacements import replace_derivations
from ..calling.sentence_events import CELL, SentenceEvents, WordAxes
from ..calling.sentences import Sentences
from ..rules.cells import Cells
from ..rules.language import Variable, Word
from ..rules.lowering import lower
from .program import Program

Numbers = Any  # a numpy array


class BatchEngine:
    """Collapsed variational Bayes and Hastings' sampler; the methods are those of :class:`.SweepEngine`.

    :param shapes: of the weights, in the order that their events have in the corpus.
    :param words: shape ``(N, n)``, padded with -1.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    """

    def __init__(
        self,
        program: Program,
        shapes: Mapping[str, tuple[int, ...]],
        words: Numbers,
        sizes: Mapping[str, int],
        lists: Mapping[str, Numbers],
    ) -> None:
        self.recursion, self._program = program.recursion, program
        self._shapes, self._sizes, self._lists = dict(shapes), dict(sizes), lists
        cells = lower(self.recursion)
        layout = Layout(cells)
        self._tables, self._words = layout.weights, layout.words
        self._axes, self._of_words = _shrinking_axes(cells)
        self.events = SentenceEvents.of(cells, shapes, words, self._axes)

    def collapsed_vb(
        self,
        counts: Numbers,
        alpha: Numbers,
        own: Numbers,
        out: Numbers,
        order: Numbers,
        batch_size: int,
        excess: float = 0.0,
    ) -> tuple[Numbers, Numbers, Numbers]:
        """One sweep, see :meth:`.SweepEngine.collapsed_vb`; no sentence fails."""
        events = self.events
        N = len(events.words)
        log_z, entropies = np.zeros(N), np.zeros(N)
        for start in range(0, N, batch_size):
            i = order[start : start + batch_size]
            found, entropy, numbers = self._batch(counts, alpha, own, out, i)
            log_z[i], entropies[i] = found, entropy
            np.add.at(counts, events.places[numbers], out[numbers] - own[numbers])
        return log_z, entropies, np.zeros(N, np.bool_)

    def _batch(
        self, counts: Numbers, alpha: Numbers, own: Numbers, out: Numbers, i: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Log Z, entropies, and where the new counts are, which are then in ``out``."""
        places = self.events.places

        def pseudo(index: Numbers, inside: Numbers) -> Numbers:
            return np.where(inside, np.maximum(counts[places[index]] - own[index], 0) + alpha[places[index]], 1.0)

        parts = {name: (events, sums) for name, events, sums in self._parts(i)}
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = {name: np.log(pseudo(*events) / pseudo(*sums)[..., None]) for name, (events, sums) in parts.items()}
        log_z, found = self._program.log_counts(self._given(logs, i, int(self.events.distinct[i].max(initial=1))))
        possible = log_z > -np.inf
        starts, sizes = self.events.starts[i], self.events.sizes[i]
        numbers = np.concatenate([np.arange(a, a + s) for a, s in zip(starts, sizes, strict=True)])
        out[numbers] = 0.0
        entropies = log_z.copy()
        for name, ((index, inside), (sum_index, sum_inside)) in parts.items():
            values = np.where(inside, found[name], 0.0)
            out[index[inside]] = values[inside]
            out[sum_index[sum_inside]] = values.sum(-1)[sum_inside]
            terms = np.where(values > 0, values * np.where(values > 0, logs[name], 0.0), 0.0)
            entropies -= terms.reshape(len(i), -1).sum(1)
        return log_z, np.where(possible | np.isnan(log_z), entropies, -np.inf), numbers

    def _parts(self, i: Numbers) -> Iterator[tuple[str, tuple[Numbers, Numbers], tuple[Numbers, Numbers]]]:
        """By table: where the numbers of sentences' parts lie, shape ``(B, *part)``, and which there are; and of sums.

        Parts are as large as that of the sentence with most words.
        """
        events = self.events
        u, first = events.distinct[i], events.starts[i]
        U = int(u.max(initial=1))
        at, extents = np.zeros(len(i), np.int64), {}
        for w in self._tables:
            axes = zip(self._shapes[w.name], self._axes.axes[w.name], strict=True)
            extents[w.name] = [u if by_word else np.full(len(i), size) for size, by_word in axes]
            at = at + math.prod(extents[w.name])
        sums_at = -(-at // CELL) * CELL
        at = np.zeros(len(i), np.int64)
        for w in self._tables:
            sizes = [U if by else size for size, by in zip(self._shapes[w.name], self._axes.axes[w.name], strict=True)]
            found = []
            for begin, count in ((at, len(sizes)), (sums_at, len(sizes) - 1)):
                index, inside = (
                    np.zeros((len(i), *sizes[:count]), np.int64),
                    np.ones((len(i), *sizes[:count]), np.bool_),
                )
                for axis in range(count):
                    along = np.arange(sizes[axis]).reshape(-1, *[1] * (count - axis - 1))
                    extent = extents[w.name][axis].reshape(-1, *[1] * count)
                    index = index * extent + along
                    inside &= along < extent
                index += (first + begin).reshape(-1, *[1] * count)
                found.append((np.where(inside, index, 0), inside))
            yield w.name, found[0], found[1]
            at = at + math.prod(extents[w.name])
            sums_at = sums_at + math.prod(extents[w.name][:-1])

    def _given(self, logs: Mapping[str, Numbers], i: Numbers, U: int | None) -> Sentences:
        """
        :param U: how many words weights are for; None for all.
        """
        events = self.events
        words, sizes = events.words, self._sizes
        if self._of_words and U is not None:
            words, sizes = events.local, sizes | dict.fromkeys(self._of_words, U)
        words = np.ascontiguousarray(words[i])
        return Sentences(events.lengths[i], logs, dict.fromkeys(self._words, words), sizes, self._lists)

    def hastings(
        self,
        counts: Numbers,
        alpha: Numbers,
        rows: Numbers,
        order: Numbers,
        batch_size: int,
        seed: int,
        temperature: float,
        least: float,
        positions: Mapping[str, tuple[int, ...]],
    ) -> tuple[Numbers, Numbers, Numbers]:
        """One sweep, see :meth:`.SweepEngine.hastings`; sentences without derivations fail."""
        N, L = rows.shape
        accepted, failed = np.zeros(N, np.int64), np.zeros(N, np.int64)
        multinomials, generator = self.events.multinomials, np.random.default_rng(seed)
        replace = compiled(self.recursion, "replace", lambda: [replace_derivations()], "float64", CELL)
        trace, at = {}, 0
        for name, shape in self._shapes.items():
            trace[name] = (at, *(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))
            at += math.prod(shape)
        for start in range(0, N, batch_size):
            i = np.ascontiguousarray(order[start : start + batch_size], np.int64)
            old = rows[i]
            self._count(counts, old, -1.0)
            pseudo = np.maximum(counts, 0) + alpha
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(pseudo[: len(multinomials)] / pseudo[multinomials]) / temperature
            self._count(counts, old, 1.0)
            tables = {name: logs[a[0] :][: math.prod(s)].reshape(1, *s) for (name, s), a in self._pairs(trace)}
            batch_seed = int(generator.integers(2**62))
            log_z, drawn = self._program.draw(self._given(tables, i, None), 1, batch_seed, trace, L)
            failed[i] = ~np.isfinite(log_z)
            replace(
                "replace",
                {
                    "order": i,
                    "count": len(i),
                    "counts": counts,
                    "alpha": alpha,
                    "failed": failed,
                    "rows": rows,
                    "trace": np.ascontiguousarray(drawn[0]),
                    "trace_width": L,
                    "multinomials": multinomials,
                    "accepted": accepted,
                    "log_q": _scores(logs, drawn[0]) - _scores(logs, old),
                    "log_u": np.log(generator.uniform(size=len(i))),
                    "power": 1 / temperature,
                },
            )
        return accepted.astype(np.bool_), failed.astype(np.bool_), np.full((N, 0), -1)

    def _pairs(self, trace: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[tuple[str, tuple[int, ...]], Any]]:
        yield from ((item, trace[item[0]]) for item in self._shapes.items())

    def _count(self, counts: Numbers, rows: Numbers, sign: float) -> None:
        """The events of rows, into the counts or out of them."""
        found = rows[rows >= 0]
        np.add.at(counts, found, sign)
        np.add.at(counts, self.events.multinomials[found], sign)


def _scores(logs: Numbers, rows: Numbers) -> Numbers:
    """The log weight of each row."""
    return np.where(rows >= 0, logs[np.maximum(rows, 0)], 0.0).sum(1)


def _shrinking_axes(cells: Cells) -> tuple[WordAxes, tuple[str, ...]]:
    """The axes that are words, and the names of their sizes: none, if one of these is needed elsewhere."""
    recursion, found = cells.recursion, WordAxes.of(cells)
    inside: set[object] = set()
    outside: set[object] = set()
    for rule in recursion.rules:
        for f in (rule.head, *rule.factors):
            by_word = (False,) * len(f.symbols) if f.is_item else found.axes[f.table]
            for x, size, by in zip(f.symbols, recursion.tables[f.table].sizes, by_word, strict=True):
                if by:
                    inside.add(size)
                else:
                    outside |= {size, "a word" if isinstance(x, Word) else size}
                if isinstance(x, Variable):
                    outside.add(x.size)
    names = sorted(size for size in inside if isinstance(size, str))
    if found.constants or len(names) < len(inside) or "a word" in outside or inside & outside:
        return WordAxes({name: (False,) * len(axes) for name, axes in found.axes.items()}, ()), ()
    return found, tuple(names)
