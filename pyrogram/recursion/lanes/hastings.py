# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sweep of Hastings' sampler over derivations (Johnson, Griffiths and Goldwater 2007), for any recursion.

A batch's derivations are taken out of the counts; all its proposals are drawn from the weights of what is left; the
derivations are put back and then replaced one by one. A proposal depends on no derivation of the batch, so each
replacement is a step of an independence sampler for P(t_i | t^-i), whose ratio sees the batch's other derivations as
they are by then: exact.

P(t | t^-i) is a product over the events of t, each counted before the next is looked at, (f + α) / sum (f + α): the
order does not matter. Taking a derivation out gives its probability in the same way, backwards.

A derivation is a row of events of the corpus, padded with -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..calling.traces import write_positions, write_weight
from ..machine.expressions import Array, Expression, Name, equal, fill, greatest, log, negated, select, value
from ..machine.random_bits import seed_stream, uniform
from ..machine.statements import Function
from ..rules.language import Ref
from ..rules.recursions import Recursion
from .arithmetic import REALS
from .descents import AGENDA, TERMS, Draws
from .exponentials import exp_of_lanes
from .inside import Inside
from .logarithms import log_of_lanes
from .passes import Options
from .sweeps import ALPHA, COUNTS, FAILED, LOG_Z, NUMBER_CELLS, PLACES, SWEEP, Sweeps, flag

ROWS, PROPOSED = Array("rows", "int"), Array("trace", "int")  # of all sentences; of a batch
MULTINOMIALS, ACCEPTED = Array("multinomials", "int32"), Array("accepted", "int")
LOG_Q, LOG_U = Array("log_q", "real"), Array("log_u", "real")
WIDTH, POWER = Name("trace_width", "int"), Name("power", "real")
_SMALL = 1e-200  # products are taken on as logarithms below it


def hastings(recursion: Recursion) -> Function:
    """``hastings``: one sweep. A sentence that cannot be trusted in real space fails: it does not move."""
    return _Hastings(recursion).function()


class _Hastings(Sweeps, Draws):
    def function(self) -> Function:
        code, order = self.code, Array("order", "int")
        self.elements.tables.place(code)
        for low, high in self.batches():
            self._add_all(low, high, -1.0)
            for begin in self.blocks_of(low, high):
                self._propose(begin - low)
            self._add_all(low, high, 1.0)
            with code.loop("member", 0, high - low) as k:
                b = code.set("b", order[low + k])
                with code.when(equal(FAILED[b], 0)):
                    self._decide(b, k)
        own: list[Array | Name] = [
            *(AGENDA, TERMS, ROWS, PROPOSED, WIDTH, MULTINOMIALS, ACCEPTED, LOG_Q, LOG_U, POWER, Name("seed", "int")),
            *(Array("positions", "int"), Name("positions_width", "int")),
        ]
        for w in self.layout.weights:
            own += [Name(f"positions.{w.name}", "int")]
            own += [Name(f"positions.{w.name}.{axis}", "int") for axis in range(w.num_axes)]
        return Function("hastings", [*self.layout.parameters(), *SWEEP, *own], code.body)

    def _propose(self, first: Expression) -> None:
        """Draw derivations of the sentences of a block.

        :param first: number of its first one in the batch.
        """
        code = self.code
        self.weigh(value(0), None)
        self._raise()
        self.feed_reals(logs=False)
        self.inside = Inside(self.elements.tables, code, Options(), REALS)
        self.inside.run()
        code.set("spoilt", 0)
        with self.elements.each_lane() as x:
            log_z, trusted = self.log_z(x)
            code.put(LOG_Z, Name("b", "int"), log_z)
            with code.when(self.judge(x, trusted) > 0):
                k = code.set("member", first + x)
                code.set("positions_length", 0)
                seed_stream(code, Name("seed", "int"), Name("b", "int"))
                self.descend(k)
                code.put(LOG_U, k, log(uniform(code)))
                code.put(LOG_Q, k, self._log_weights(Name("b", "int"), k))
                code.set("t", Name("length", "int"))
                with code.loop_while(Name("t", "int") < WIDTH):
                    code.put(PROPOSED, k * WIDTH + Name("t", "int"), -1)
                    code.set("t", Name("t", "int") + 1)
        self.clear()

    def write(self, f: Ref) -> None:
        write_weight(self.layout, self.code, f)
        write_positions(self.layout, self.code, f)

    def _raise(self) -> None:
        """The weights of a block to the power 1 / T."""
        code, first = self.code, Name("first_cell", "int")
        with (
            code.when(negated(equal(POWER, 1.0))),
            self.elements.each_lane(),
            code.loop("cell", first, first + Name("cells_of", "int")) as cell,
        ):
            x = code.let(NUMBER_CELLS[cell])
            raised = exp_of_lanes(code, code.let(fill(POWER) * log_of_lanes(code, x)), "float64")
            code.put(NUMBER_CELLS, cell, select(x > fill(0.0), raised, x))

    def _log_weights(self, b: Expression, k: Expression) -> Expression:
        """Log of the ratio of the weights of the derivation that was drawn and of the one that there is.

        The one that was drawn is then a row of events of the corpus.
        """
        code = self.code
        self._start("q")
        with code.loop("x", 0, Name("length", "int")) as x:
            place = code.let(k * WIDTH + x)
            drawn = code.let(PLACES[Name("sentence", "int") + PROPOSED[place]])
            self._multiply("q", self._share(drawn, code.let(MULTINOMIALS[drawn])))
            code.put(PROPOSED, place, drawn)
        new = code.let(self._log("q"))
        self._start("q")
        with self._events(ROWS, b) as e:
            self._multiply("q", self._share(e, code.let(MULTINOMIALS[e])))
        return code.let(POWER * (new - self._log("q")))

    def _decide(self, b: Expression, k: Expression) -> None:
        """Replace the derivation by the proposed one, or leave it."""
        code = self.code
        same = code.set("same", 1)
        with code.loop("x", 0, WIDTH) as x:
            alike = equal(ROWS[code.let(b * WIDTH + x)], PROPOSED[code.let(k * WIDTH + x)])
            code.set("same", select(alike, same, 0))
        code.put(ACCEPTED, b, 1)  # if they are the same, then so are all probabilities
        with code.when(equal(same, 0)):
            self._start("old")
            with self._events(ROWS, b) as e:
                m = self._count(e, -1.0)
                self._multiply("old", self._share(e, m))
            self._start("new")
            with self._events(PROPOSED, k) as e:
                self._multiply("new", self._share(e, code.let(MULTINOMIALS[e])))
                self._count(e, 1.0)
            ratio = POWER * (self._log("new") - self._log("old")) - LOG_Q[k]
            accept = code.set("accept", flag(code, LOG_U[k] < ratio))
            with code.when(accept > 0), code.loop("x", 0, WIDTH) as x:
                code.put(ROWS, code.let(b * WIDTH + x), PROPOSED[code.let(k * WIDTH + x)])
            with code.otherwise():
                code.put(ACCEPTED, b, 0)
                with self._events(PROPOSED, k) as e:
                    self._count(e, -1.0)
                with self._events(ROWS, b) as e:
                    self._count(e, 1.0)

    def _share(self, e: Expression, m: Expression) -> Expression:
        """(f + α) / sum (f + α) of an event."""
        top = greatest(COUNTS[e], 0.0) + ALPHA[e]
        return top / (greatest(COUNTS[m], 0.0) + ALPHA[m])

    def _count(self, e: Expression, sign: float) -> Expression:
        """Add to the counts of an event and of its multinomial, which is returned."""
        code = self.code
        m = code.let(MULTINOMIALS[e])
        code.add(COUNTS, e, sign)
        code.add(COUNTS, m, sign)
        return m

    def _add_all(self, low: Expression, high: Expression, sign: float) -> None:
        """The derivations of a batch, into the counts or out of them."""
        code = self.code
        with code.loop("member", low, high) as x:
            b = code.set("b", Array("order", "int")[x])
            with self._events(ROWS, b) as e:
                self._count(e, sign)

    @contextmanager
    def _events(self, rows: Array, row: Expression) -> Iterator[Expression]:
        """The events of a row."""
        code, t = self.code, Name("t", "int")
        start = code.let(row * WIDTH)
        code.set("t", 0)
        e = code.set("event.of", rows[start])
        with code.loop_while(e >= 0):
            yield code.let(e)
            code.set("t", t + 1)
            code.set("event.of", -1)
            with code.when(t < WIDTH):
                code.set("event.of", rows[start + t])

    # ------------------------------------------------------------------ logarithms of long products

    def _start(self, name: str) -> None:
        self.code.set(f"{name}.log", 0.0)
        self.code.set(f"{name}.product", 1.0)

    def _multiply(self, name: str, factor: Expression) -> None:
        code, product = self.code, Name(f"{name}.product", "real")
        code.set(product.name, product * factor)
        with code.when(product < _SMALL):
            code.set(f"{name}.log", Name(f"{name}.log", "real") + log(product))
            code.set(product.name, 1.0)

    def _log(self, name: str) -> Expression:
        return self.code.let(Name(f"{name}.log", "real") + log(Name(f"{name}.product", "real")))
