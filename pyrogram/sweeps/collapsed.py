# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sweep of collapsed variational Bayes (Wang and Blunsom 2013, Figure 3), for any recursion.

A batch is one step:

    for the sentences i of a batch, in lanes:
        weights = (f - f[i] + α) / sum (f - f[i] + α)
        inside, outside
        for each of them:
            out[i] = posteriors;  entropy[i] = log Z - sum(out[i] * log(weights))
    for all of the batch:
        f += out[i] - f[i]
"""

from __future__ import annotations

from pyrogram.recursion.code.expressions import INF, Array, Expression, Name, fma, select, total_of, value, vector_of
from pyrogram.recursion.code.statements import Function
from pyrogram.recursion.emit.driver import LOG_Z
from pyrogram.recursion.emit.logarithms import log_of_lanes
from pyrogram.recursion.emit.names import ORDER, B

from .batches import PLACES, Sweeps
from .events import CELL
from .layout import ENTRIES_END, FIRST, NUMBERS_END, OUT, SENTENCE
from .replacements import COUNTS

OLD, ENTROPIES = Array("old", "real"), Array("entropies", "real")


class CollapsedSweep(Sweeps):
    """Code for ``collapsed_vb``."""

    def function(self) -> Function:
        code = self.code
        self.elements.tables.place(code)
        for low, high in self.batches():
            for _ in self.blocks_of(low, high):
                self.weigh(OLD)
                self.feed_reals()
                self.inside()
                self.put_log_z()
                self._clear()
                self.outside()
                self.elements.drain()
                with self.elements.each_lane():
                    self._collect()
                    self._sum_rows()
                    self._score()
                self.restore()
            with code.loop("member", low, high) as x:
                self._replace(code.let(ORDER[x]))
        drained = [self.layout.posteriors[0]] if self.listed else []
        return Function("collapsed_vb", [*self.sweep_parameters(), OLD, OUT, ENTROPIES, *drained], code.body)

    def _clear(self) -> None:
        """Zero for posteriors of elements."""
        with self.elements.each_lane():
            self.clear(OUT, SENTENCE, NUMBERS_END)
            if self.listed:
                self.clear(*self.layout.posteriors, Name("elements.end", "int"))

    def _collect(self) -> None:
        """Counts of entries, from those of elements that are listed."""
        if self.listed:
            drained, first = self.layout.posteriors
            for element, number, _ in self.elements_listed():
                self.code.add(OUT, SENTENCE + number, drained[first + element])

    def _sum_rows(self) -> None:
        """Counts of multinomials, from those of entries; of long rows eight at a time."""
        code = self.code
        for begin, end, multinomial in self.rows():
            first, length = code.let(SENTENCE + begin), code.let(end - begin)
            whole, total = code.let(length // CELL * CELL), code.set("multinomial.sum", 0.0)
            with code.when(whole > 0):
                cells = code.set("multinomial.cells", vector_of(0.0))
                with code.loop("entry", 0, whole, CELL) as e:
                    code.set(cells.name, cells + Array(OUT.name, "vector")[first + e])
                code.set(total.name, total_of(cells))
            with code.loop("entry", whole, length) as e:
                code.set(total.name, total + OUT[first + e])
            code.add(OUT, SENTENCE + multinomial, total)

    def _replace(self, b: Expression) -> None:
        """A sentence's counts in those of the corpus: after a batch, which sees itself as it was."""
        code = self.code
        first = code.let(Array("places.starts", "int")[b])
        with code.loop("number", first, first + Array("places.counts", "int")[b]) as i:
            # What rounding leaves of nothing may be below it; whoever reads it sees to that.
            code.add(COUNTS, PLACES[i], OUT[i] - OLD[i])

    def _score(self) -> None:
        """Entropy: log Z minus the expected log weight, eight entries at a time.

        Factors of events are in log Z and not in the weights that are taken off, so that their expected logs stay.
        """
        code = self.code
        score = code.set("score", vector_of(0.0))
        for cell in self.cells_of(value(0), ENTRIES_END):
            weights = log_of_lanes(code, self.cell(self.weights, FIRST, cell))
            code.set("score", fma(self.cell(OUT, SENTENCE, cell), weights, score))
        entropy = select(self.fits(LOG_Z[B]), LOG_Z[B] - total_of(score), -INF)
        code.put(ENTROPIES, B, entropy)
