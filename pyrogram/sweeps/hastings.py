# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sweep of Hastings' sampler over derivations (Johnson, Griffiths and Goldwater 2007), for any recursion.

A batch's derivations are taken out of the counts; all its proposals are drawn from the weights of what is left; the
derivations are put back and then replaced one by one. A proposal depends on no derivation of the batch, so each
replacement is a step of an independence sampler for P(t_i | t^-i), whose ratio sees the batch's other derivations as
they are by then: exact.

A derivation is a row of events of the corpus, padded with -1; see :mod:`~pyrogram.sweeps.replacements`.
"""

from __future__ import annotations

import math

from pyrogram.recursion.code.expressions import (
    Array,
    Expression,
    Name,
    equal,
    greatest,
    least,
    log,
    negated,
    power_of_two,
    select,
    value,
    vector_of,
)
from pyrogram.recursion.code.random_bits import seed_stream, uniform
from pyrogram.recursion.code.statements import Code, Function
from pyrogram.recursion.emit.agenda import WAY_DOWN
from pyrogram.recursion.emit.descents import Draws
from pyrogram.recursion.emit.driver import LOG_Z
from pyrogram.recursion.emit.exponentials import reduced_exp
from pyrogram.recursion.emit.logarithms import log_of_lanes
from pyrogram.recursion.emit.names import ORDER, SEED, B
from pyrogram.recursion.emit.traces import append_number, trace_parameters, write_weight
from pyrogram.recursion.rules.language import Ref, Word

from .batches import PLACES, Sweeps
from .layout import FIRST, NUMBERS, SENTENCE
from .replacements import (
    LOG_Q,
    LOG_U,
    POWER,
    PROPOSED,
    REPLACEMENTS,
    ROWS,
    WIDTH,
    Replacements,
)

EVENTS = Array("events", "int32")  # that the elements of the sentences of a block are, where they are listed


class HastingsSweep(Sweeps, Draws):
    """Code for ``hastings``.

    Factors of events that are not counted are in the proposals and in their target, and cancel in the ratio.
    """

    def function(self) -> Function:
        code = self.code
        self.replacements = Replacements(code, self.listed)
        self.elements.tables.place(code)
        for low, high in self.batches():
            self.replacements.add_all(low, high, -1.0)
            for begin in self.blocks_of(low, high):
                self._propose(begin - low)
            self.replacements.add_all(low, high, 1.0)
            with code.loop("member", 0, high - low) as k:
                b = code.set(B.name, ORDER[low + k])
                with code.when(self.fits(LOG_Z[b])):
                    self.replacements.decide(b, k)
        of_sampler: list[Array | Name] = [
            *(*WAY_DOWN, *REPLACEMENTS, SEED),
            *trace_parameters(self.layout, "positions"),
            *([EVENTS] if self.listed else []),
        ]
        return Function("hastings", [*self.sweep_parameters(), *of_sampler], code.body)

    def _propose(self, first: Expression) -> None:
        """Draw derivations of the sentences of a block.

        :param first: number of its first one in the batch.
        """
        code = self.code
        self.weigh(None)
        self._raise()
        self.feed_reals()
        self.inside()
        self.put_log_z()
        with self.elements.each_lane() as x, code.when(self.fits(LOG_Z[B])):
            k = code.set("member", first + x)
            code.set("positions_length", 0)
            seed_stream(code, SEED, B)
            self.descend(k)
            code.put(LOG_U, k, log(uniform(code)))
            code.put(LOG_Q, k, self._log_weights(B, k))
            code.set("t", Name("trace_length", "int"))
            with code.loop_while(Name("t", "int") < WIDTH):
                code.put(PROPOSED, k * WIDTH + Name("t", "int"), -1)
                code.set("t", Name("t", "int") + 1)
        self.restore()

    def put_element(self, place: Expression, weight: Expression, event: Expression) -> None:
        super().put_element(place, weight, event)
        self.code.put(EVENTS, place, event)

    def write(self, f: Ref) -> None:
        write_weight(self.layout, self.code, f)
        words = {a: self.layout.position(x.position) - 1 for a, x in enumerate(f.symbols) if isinstance(x, Word)}
        append_number(self.code, f, "positions", B, words)  # of the words that it is about

    def _raise(self) -> None:
        """The weights of a block to the power 1 / T."""
        code = self.code
        with code.when(negated(equal(POWER, 1.0))), self.elements.each_lane():
            for cell in self.cells_of(value(0), Name("elements.end", "int")):
                place = self.cell(NUMBERS, FIRST, cell)
                x = code.let(place)
                raised = _exp(code, code.let(vector_of(POWER) * log_of_lanes(code, x)))
                self.put_cell(place, select(x > vector_of(0.0), raised, x))

    def _log_weights(self, b: Expression, k: Expression) -> Expression:
        """Log of the ratio of the weights of the derivation that was drawn and of the one that there is.

        The one that was drawn is then a row of events of the corpus.
        """
        code, replacements = self.code, self.replacements
        replacements.start("q")
        with code.loop("x", 0, Name("trace_length", "int")) as x:
            place = code.let(k * WIDTH + x)
            element: Expression = PROPOSED[place]
            drawn = code.let(EVENTS[FIRST + element] if self.listed else PLACES[SENTENCE + element])
            replacements.multiply("q", replacements.share(drawn))
            code.put(PROPOSED, place, drawn)
        new = code.let(replacements.log("q"))
        replacements.start("q")
        with replacements.events(ROWS, b) as e:
            replacements.multiply("q", replacements.share(e))
        return code.let(POWER * (new - replacements.log("q")))


def _exp(code: Code, x: Expression) -> Expression:
    """Of a vector, to about a unit in the last place; zero below the normal range, NaN stays."""
    one = vector_of
    k, number = reduced_exp(code, x, "float64")
    power = code.let(number * power_of_two(code.let(least(greatest(k, one(-1022.0)), one(1023.0)))))
    return select(x < one(-708.0), one(0.0), select(x > one(709.0), one(math.inf), power))
