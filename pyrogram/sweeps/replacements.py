# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The second half of a step of Hastings' sampler: proposed derivations take the place of others, or do not.

P(t | t^-i) is a product over the events of t, each counted before the next is looked at, (f + α) / sum (f + α): the
order does not matter. Taking a derivation out gives its probability in the same way, backwards. Where no weights are
integrated out, f is minus infinity, and α alone is the weight.

A derivation is a row of events, padded with -1. Several events may be one entry of a multinomial, and entries are what
is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyrogram.recursion.code.expressions import Array, Expression, Name, equal, greatest, log, select
from pyrogram.recursion.code.statements import Code
from pyrogram.recursion.emit.names import ORDER, B

COUNTS, ALPHA = Array("counts", "real"), Array("alpha", "real")
ROWS, PROPOSED = Array("rows", "int"), Array("trace", "int")  # of all sentences; of a batch
ENTRIES, MULTINOMIALS = Array("entries", "int32"), Array("multinomials", "int32")  # of events
ACCEPTED = Array("accepted", "int")
LOG_Q, LOG_U = Array("log_q", "real"), Array("log_u", "real")
WIDTH, POWER = Name("trace_width", "int"), Name("power", "real")
REPLACEMENTS: list[Array | Name] = [ROWS, PROPOSED, WIDTH, ENTRIES, MULTINOMIALS, ACCEPTED, LOG_Q, LOG_U, POWER]
"""Parameters, beside those of sweeps."""
_SMALL = 1e-200  # products are taken on as logarithms below it, and above its inverse


class Replacements:
    """Code that counts derivations and decides between them.

    :param listed: whether events may have entries of other numbers, see :mod:`.events`.
    """

    def __init__(self, code: Code, listed: bool) -> None:
        self.code, self.listed = code, listed

    def decide(self, b: Expression, k: Expression) -> None:
        """Replace the derivation by the proposed one, or leave it."""
        code = self.code
        same = code.set("same", 1)
        with code.loop("x", 0, WIDTH) as x:
            alike = equal(ROWS[code.let(b * WIDTH + x)], PROPOSED[code.let(k * WIDTH + x)])
            code.set("same", select(alike, same, 0))
        code.put(ACCEPTED, b, 1)  # if they are the same, then so are all probabilities
        with code.when(equal(same, 0)):
            self.start("old")
            with self.events(ROWS, b) as e:
                self.count(e, -1.0)
                self.multiply("old", self.share(e))
            self.start("new")
            with self.events(PROPOSED, k) as e:
                self.multiply("new", self.share(e))
                self.count(e, 1.0)
            ratio = POWER * (self.log("new") - self.log("old")) - LOG_Q[k]
            accept = code.set("accept", select(LOG_U[k] < ratio, 1, 0))
            with code.when(accept > 0), code.loop("x", 0, WIDTH) as x:
                code.put(ROWS, code.let(b * WIDTH + x), PROPOSED[code.let(k * WIDTH + x)])
            with code.otherwise():
                code.put(ACCEPTED, b, 0)
                with self.events(PROPOSED, k) as e:
                    self.count(e, -1.0)
                with self.events(ROWS, b) as e:
                    self.count(e, 1.0)

    def share(self, e: Expression) -> Expression:
        """(f + α) / sum (f + α) of an event."""
        entry, multinomial = self._counted(e)
        return (greatest(COUNTS[entry], 0.0) + ALPHA[entry]) / (greatest(COUNTS[multinomial], 0.0) + ALPHA[multinomial])

    def count(self, e: Expression, sign: float) -> None:
        """Add to the counts of an event and of its multinomial."""
        for number in self._counted(e):
            self.code.add(COUNTS, number, sign)

    def _counted(self, e: Expression) -> tuple[Expression, Expression]:
        """The numbers of an event's entry and of its multinomial."""
        return self.code.let(ENTRIES[e]) if self.listed else e, self.code.let(MULTINOMIALS[e])

    def add_all(self, low: Expression, high: Expression, sign: float) -> None:
        """The derivations of a batch, into the counts or out of them."""
        code = self.code
        with code.loop("member", low, high) as x:
            b = code.set(B.name, ORDER[x])
            with self.events(ROWS, b) as e:
                self.count(e, sign)

    @contextmanager
    def events(self, rows: Array, row: Expression) -> Iterator[Expression]:
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

    def start(self, name: str) -> None:
        """A product that is one."""
        self.code.set(f"{name}.log", 0.0)
        self.code.set(f"{name}.product", 1.0)

    def multiply(self, name: str, factor: Expression) -> None:
        """Take a product on; where it would leave this range, the logarithms of both factors."""
        code, product, factor = self.code, Name(f"{name}.product", "real"), self.code.let(factor)
        product_now = code.let(product * factor)
        with code.when((product_now < _SMALL) | (product_now > 1 / _SMALL)):
            code.set(f"{name}.log", Name(f"{name}.log", "real") + (log(product) + log(factor)))
            code.set(product.name, 1.0)
        with code.otherwise():
            code.set(product.name, product_now)

    def log(self, name: str) -> Expression:
        """The logarithm of a product."""
        return self.code.let(Name(f"{name}.log", "real") + log(Name(f"{name}.product", "real")))
