# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sweep of collapsed variational Bayes (Wang and Blunsom 2013, Figure 3), for any recursion.

for the sentences i of a batch, in lanes:
weights = (f - f[i] + α) / sum (f - f[i] + α)
inside, outside
for each of them:
out[i] = posteriors;  entropy[i] = log Z - sum(out[i] * log(weights))
for all of the batch:
f += out[i] - f[i]
"""

from __future__ import annotations

from ..code.expressions import Array, Expression, Name, Number, fma, total_of, value, vector_of
from ..code.statements import Function
from .logarithms import gather, log_of_lanes
from .logs import INF, LOG_Z
from .replacements import COUNTS
from .sentence_events import CELL
from .sentence_layout import ENDS
from .sweeps import ELEMENTS, NATS, NUMBERS, PLACES, SWEEP, Sweeps

OWN, OUT = Array("own", "real"), Array("out", "real")
DRAINED = Array("drained", "element")  # all numbers of the sentences of a block, where some are left out
ENTROPIES = Array("entropies", "real")


class CollapsedSweep(Sweeps):
    """Code for ``collapsed_vb``."""

    def function(self) -> Function:
        code = self.code
        self.elements.tables.place(code)
        for low, high in self.batches():
            for _ in self.blocks_of(low, high):
                self.weigh(OWN, OUT if self.weighing.repeated else None)
                self.feed_reals()
                self.inside()
                self.put_log_z()
                self.outside()
                self.drain_tables()
                with self.elements.each_lane():
                    with code.when(self.fits(LOG_Z[Name("b", "int")])):
                        self._sum_rows()
                        self._keep()
                        self._score()
                    with code.otherwise():
                        for cell in self.cells_of(value(0), ENDS[-1]):
                            self.put_cell(self.cell(OUT, Name("sentence", "int"), cell), vector_of(0.0))
                        code.put(ENTROPIES, Name("b", "int"), -INF)
                self.restore()
            with code.loop("member", low, high) as x:
                self._replace(code.let(Array("order", "int")[x]))
        arrays: list[Array | Name] = [OWN, OUT, ENTROPIES, *([DRAINED] if self.weighing.listed else [])]
        parameters = [*self.layout.parameters(), *SWEEP, *self.memory, *self.weighing.parameters, *arrays]
        return Function("collapsed_vb", parameters, code.body)

    def drain_tables(self) -> None:
        """Posteriors to the counts of sentences."""
        with self.elements.each_lane():
            self.clear(*self.layout.out)
        for family in self.elements.counted_families:
            with self.elements.rows(family, inward=False), self.elements.each_lane() as x:
                for w, region in self.elements.all_regions(family):
                    self.elements.drain(w, region, x, None, part=False)

    def _sum_rows(self) -> None:
        """Counts of multinomials, from those of events; of long rows eight at a time."""
        code, (out, first) = self.code, self.layout.out
        for owner, at, length in self.multinomials():
            row, total = code.let(first + at), code.set("multinomial.sum", 0.0)
            whole: int | Expression = 0
            if not isinstance(length, Number):
                whole = code.let(length // CELL * CELL)
                cells = code.set("multinomial.cells", vector_of(0.0))
                with code.loop("event", 0, whole, CELL) as start:
                    code.set(cells.name, cells + Array(out.name, "vector")[row + start])
                code.set(total.name, total_of(cells))
            for e in self.each(length, whole):
                code.set(total.name, total + out[row + e])
            code.add(out, first + owner, total)

    def _keep(self) -> None:
        """The new numbers that are kept, from all of them."""
        if self.weighing.listed:
            for cell in self.cells_of(value(0), ENDS[-1]):
                self.put_cell(self.cell(OUT, Name("sentence", "int"), cell), self._all(DRAINED, cell))

    def _all(self, array: Array, cell: Expression) -> Expression:
        """Of all numbers of the sentence at hand, those of a cell that are kept."""
        if not self.weighing.listed:
            return self.cell(array, Name("first", "int"), cell)
        at = self.code.let(Name("sentence", "int") + cell * CELL)
        return gather(array, ELEMENTS, at, Name("first", "int"))

    def _replace(self, b: Expression) -> None:
        """A sentence's counts in those of the corpus: after a batch, which sees itself as it was."""
        code = self.code
        first = code.let(Array("sentence_starts", "int")[b])
        with code.loop("number", first, first + Array("sentence_sizes", "int")[b]) as i:
            # What rounding leaves of nothing may be below it; whoever reads it sees to that.
            code.add(COUNTS, PLACES[i], OUT[i] - OWN[i])

    def _score(self) -> None:
        """Entropy: log Z minus the expected log weight, eight events at a time.

        Nats are in log Z and not in the weights that are taken off, so that those expected stay.
        """
        code, b = self.code, Name("b", "int")
        score = code.set("score", vector_of(0.0))
        sentence = Name("sentence", "int")
        for cell in self.cells_of(value(0), ENDS[1]):
            weights = log_of_lanes(code, self._all(NUMBERS, cell))
            if self.weighing.tilted:
                weights = weights - self.cell(NATS, sentence, cell)
            code.set("score", fma(self.cell(OUT, sentence, cell), weights, score))
        code.put(ENTROPIES, b, LOG_Z[b] - total_of(score))
