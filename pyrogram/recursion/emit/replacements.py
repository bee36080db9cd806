# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The second half of a step of Hastings' sampler: proposed derivations take the place of others, or do not.

P(t | t^-i) is a product over the events of t, each counted before the next is looked at, (f + α) / sum (f + α): the
order does not matter. Taking a derivation out gives its probability in the same way, backwards. Where no weights are
integrated out, f is minus infinity, and α alone is the weight.

A derivation is a row of events of the corpus, padded with -1. Where weights are tied, several events are one entry, and
entries are what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..code.expressions import Array, Expression, Name, equal, greatest, log, select
from ..code.statements import Code

COUNTS, ALPHA = Array("counts", "real"), Array("alpha", "real")
ROWS, PROPOSED = Array("rows", "int"), Array("trace", "int")  # of all sentences; of a batch
MULTINOMIALS, ACCEPTED = Array("multinomials", "int32"), Array("accepted", "int")
ENTRIES = Array("entries", "int32")  # of events, where weights are tied
LOG_Q, LOG_U = Array("log_q", "real"), Array("log_u", "real")
WIDTH, POWER = Name("trace_width", "int"), Name("power", "real")
REPLACEMENTS: list[Array | Name] = [ROWS, PROPOSED, WIDTH, MULTINOMIALS, ACCEPTED, LOG_Q, LOG_U, POWER]
"""Parameters, beside those of sweeps."""
_SMALL = 1e-200  # products are taken on as logarithms below it, and above its inverse


class Replacements:
    """Code that counts derivations and decides between them.

    :param tied: whether events may share entries.
    """

    def __init__(self, code: Code, tied: bool = False) -> None:
        self.code, self.tied = code, tied

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
                m = self.count(e, -1.0)
                self.multiply("old", self.share(e, m))
            self.start("new")
            with self.events(PROPOSED, k) as e:
                self.multiply("new", self.share(e, code.let(MULTINOMIALS[e])))
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

    def share(self, e: Expression, m: Expression) -> Expression:
        """(f + α) / sum (f + α) of an event."""
        entry = self._entry(e)
        top = greatest(COUNTS[entry], 0.0) + ALPHA[entry]
        return top / (greatest(COUNTS[m], 0.0) + ALPHA[m])

    def count(self, e: Expression, sign: float) -> Expression:
        """Add to the counts of an event and of its multinomial, which is returned."""
        code = self.code
        m = code.let(MULTINOMIALS[e])
        code.add(COUNTS, self._entry(e), sign)
        code.add(COUNTS, m, sign)
        return m

    def _entry(self, e: Expression) -> Expression:
        return self.code.let(ENTRIES[e]) if self.tied else e

    def add_all(self, low: Expression, high: Expression, sign: float) -> None:
        """The derivations of a batch, into the counts or out of them."""
        code = self.code
        with code.loop("member", low, high) as x:
            b = code.set("b", Array("order", "int")[x])
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
