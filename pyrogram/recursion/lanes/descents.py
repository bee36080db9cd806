# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of the sentences in lanes: the best one, and draws.

The inside pass fills the chart of a whole block. Then each lane goes down from the goal by itself, without
back-pointers: the terms of an item are formed again, and the best of them is taken, or one in proportion to its value.

Before, for ``RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])``, after:

    for k in i + 1 .. j:  terms[count] = IR[i, k] * RC[k, j];  total += terms[count];  count += 1
    chosen = the first whose running sum is above uniform() * total
    if 0 <= chosen < j - i:  k = i + 1 + chosen;  push RC[k, j];  push IR[i, k]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..calling.traces import trace_parameters, write_weight
from ..machine.expressions import Array, Expression, Name, equal, greatest, select, value
from ..machine.random_bits import seed_stream, uniform
from ..machine.statements import Function
from ..rules.cells import CellClass, Head, Term, renamed
from ..rules.language import Ref
from ..rules.recursions import Recursion
from .arithmetic import LOGS, REALS
from .driver import BLOCKS, INF, Blocks
from .elements import NUMBERS
from .inside import Inside
from .passes import Options
from .schedule import K
from .tables import MEMORY

AGENDA, TERMS = Array("agenda", "int"), Array("terms", "real")
_OWN: list[Array | Name] = [Name("batch", "int"), AGENDA, MEMORY]


def draw(recursion: Recursion, logs: bool, lanes: int, dtype: str) -> Function:
    """``draw``: independent derivations of each sentence, in proportion to their weights; and log Z."""
    return _IndependentDraws(recursion, lanes, dtype).function(logs)


def best(recursion: Recursion, lanes: int, dtype: str) -> Function:
    """``best``: the derivation of greatest weight of each sentence, and its logarithm; weights are logarithms."""
    return _Best(recursion, lanes, dtype).function()


class _Descents(Blocks):
    """Code that goes down from the goal in one lane."""

    in_logs: bool

    def descend(self, row: Expression) -> None:
        """From the goal of the sentence at hand, down to weights alone; their numbers make a row of the output."""
        code, cells = self.code, self.elements.cells
        numbers = {name: x for x, name in enumerate(cells.sizes)}
        code.set("n", Name("at.n", "int"))  # of this sentence; the block has been done
        code.set("row", row)
        code.set("length", 0)
        top = code.set("depth", 1)
        code.put(AGENDA, 0, numbers[cells.goal])
        with code.loop_while(top > 0):
            code.set("depth", top - 1)
            entry = code.set("entry", top * 3)
            item = code.set("item", AGENDA[entry])
            code.set("at.i", AGENDA[entry + 1])
            code.set("at.j", AGENDA[entry + 2])
            for name, number in numbers.items():
                with code.when(equal(item, number)):
                    self._step(name, numbers)

    def _step(self, table: str, numbers: dict[str, int]) -> None:
        """Choose a term of the item at hand, and push the items that it is made of."""
        code = self.code
        heads = [(c, h) for c in self.elements.cells.classes for h in c.heads if h.ref.table == table]
        self.begin()
        for cell, head in heads:
            with self._in_class(cell):
                for term in head.terms:
                    outer = self._product(term.factors, None)
                    outer = None if outer is None else code.let(outer)
                    if not term.rule.items and self._is_carrier(cell, head):
                        factor = self._number(Name("factors", "int") + Name("at.j", "int"))
                        outer = factor if outer is None else code.let(outer * factor)
                    with self._places(term):
                        found = self._product(self._inner(term), outer)
                        self.offer(value(0.0 if self.in_logs else 1.0) if found is None else found)
        self.choose()
        chosen = Name("chosen", "int")
        for cell, head in heads:
            with self._in_class(cell):
                for term in head.terms:
                    low, high = self._range(term)
                    count = code.let(greatest(high - low + 1, 0))
                    with code.when((chosen >= 0) & (chosen < count)):
                        code.set("at.k", low + chosen)
                        self._push(term, numbers)
                    code.set("chosen", select(chosen < count, -1, chosen - count))

    def begin(self) -> None:
        """Before the terms of an item."""
        raise NotImplementedError

    def offer(self, v: Expression) -> None:
        """A term of the item."""
        raise NotImplementedError

    def choose(self) -> None:
        """After them: sets ``chosen`` to the number of one."""
        raise NotImplementedError

    def _push(self, term: Term, numbers: dict[str, int]) -> None:
        code = self.code
        factors = [*term.factors, *self._inner(term)]
        for f in factors:
            for weight in () if f.is_item else self.elements.products.of(f):
                self.write(weight)
        for f in reversed([f for f in factors if f.is_item]):
            entry = code.set("entry", Name("depth", "int") * 3)
            at = [self.elements.tables.at(x) for x in f.positions]
            code.put(AGENDA, entry, numbers[f.table])
            code.put(AGENDA, entry + 1, at[0] if len(at) == 2 else 0)
            code.put(AGENDA, entry + 2, at[-1] if at else 0)
            code.set("depth", Name("depth", "int") + 1)

    def write(self, f: Ref) -> None:
        """Append a weight to the derivation at hand."""
        write_weight(self.elements.layout, self.code, f)

    def _inner(self, term: Term) -> list[Ref]:
        """The factors of a term's sum, over k."""
        if term.inner is None:
            return []
        names = {loop.name: K for loop in term.loops}
        return [renamed(f, names) for f in term.inner.factors]

    def _range(self, term: Term) -> tuple[Expression, Expression]:
        """The first k of a term and the last one; 0 and 0 for a term that is no sum."""
        if not term.loops:
            return value(0), value(0)
        (loop,) = term.loops
        return self.elements.tables.at(loop.low[0]), self.elements.tables.at(loop.high[0])

    @contextmanager
    def _places(self, term: Term) -> Iterator[None]:
        if not term.loops:
            yield
            return
        low, high = self._range(term)
        with self.code.loop("at.k", low, high + 1):
            yield

    @contextmanager
    def _in_class(self, cell: CellClass) -> Iterator[None]:
        """If the item at hand is in a class of cells."""
        if cell.kind == "goal":
            yield
            return
        i, j = Name("at.i", "int"), Name("at.j", "int")
        width = j - i if cell.kind == "span" else j
        with self.code.when(equal(width, cell.width) if cell.width is not None else width >= cell.least):
            yield

    def _number(self, cell: Expression) -> Expression:
        return NUMBERS[cell * self.lanes + Name("lane", "int")]

    def _product(self, factors: list[Ref] | tuple[Ref, ...], first: Expression | None) -> Expression | None:
        total = first
        for f in factors:
            v = self._number(self.elements.tables.cell(f))
            total = v if total is None else (total + v if self.in_logs else total * v)
        return total

    def _is_carrier(self, cell: CellClass, head: Head) -> bool:
        """Whether an axiom at the cell has been multiplied by its column's factor."""
        return not self.in_logs and self.inside.is_carrier(cell, head.ref.table)

    def parameters(self) -> list[Array | Name]:
        """Those that all descents have."""
        layout = self.elements.layout
        return [*layout.parameters(), *BLOCKS, *_OWN, *trace_parameters(layout)]

    inside: Inside


class Draws(_Descents):
    """Code that chooses terms in proportion to their values."""

    in_logs = False

    def begin(self) -> None:
        self.code.set("offers", 0)
        self.code.set("mass", 0.0)

    def offer(self, v: Expression) -> None:
        v = self.code.let(v)
        self.code.put(TERMS, Name("offers", "int"), v)
        self.code.set("offers", Name("offers", "int") + 1)
        self.code.set("mass", Name("mass", "real") + v)

    def choose(self) -> None:
        code, rest, t = self.code, Name("rest", "real"), Name("t", "int")
        code.set("rest", Name("mass", "real") * uniform(code))
        code.set("chosen", -1)
        code.set("t", 0)
        with code.loop_while((t < Name("offers", "int")) & (rest >= 0.0)):
            with code.when(TERMS[t] > 0.0):  # rounding may leave some rest: then it is the last that is possible
                code.set("chosen", t)
            code.set("rest", rest - TERMS[t])
            code.set("t", t + 1)


class _IndependentDraws(Draws):
    def function(self, logs: bool) -> Function:
        code, b = self.code, Name("b", "int")
        with self.blocks():
            self.feed_reals(logs)
            self.inside = Inside(self.elements.tables, code, Options(), REALS)
            self.inside.run()
            with self.elements.each_lane() as x:
                log_z, trusted = self.log_z(x)
                z = code.set("found", log_z)
                code.put(Array("log_z", "real"), b, z)
                fits = code.set("fits", select(trusted & self.fits(x, z), 1, 0))
                code.put(Array("failed", "int"), b, 1 - fits)
                with code.when(fits > 0), code.loop("rank", 0, Name("draws", "int")) as rank:
                    row = code.set("row", rank * Name("batch", "int") + b)
                    seed_stream(code, Name("seed", "int"), row)
                    self.descend(row)
        own: list[Array | Name] = [
            Name("draws", "int"),
            Name("seed", "int"),
            TERMS,
            Array("log_z", "real"),
            Array("failed", "int"),
            Name("least", "real"),
            Name("most", "real"),
        ]
        return Function("draw", [*self.parameters(), *own], code.body)


class _Best(_Descents):
    in_logs = True

    def function(self) -> Function:
        code, b = self.code, Name("b", "int")
        with self.blocks():
            self.feed(LOGS.zero)
            self.inside = Inside(self.elements.tables, code, Options(), LOGS)
            self.inside.run()
            with self.elements.each_lane() as x:
                score = code.set("score", NUMBERS[Name("z", "int") * self.lanes + x])
                code.put(Array("scores", "real"), b, score)
                with code.when((score > -INF) & (score < INF)):
                    self.descend(b)
        return Function("best", [*self.parameters(), Array("scores", "real")], code.body)

    def begin(self) -> None:
        self.code.set("offers", 0)
        self.code.set("chosen", -1)
        self.code.set("top", -INF)

    def offer(self, v: Expression) -> None:
        code, v = self.code, self.code.let(v)
        better = code.let(v > Name("top", "real"))  # of equals, the first
        code.set("chosen", select(better, Name("offers", "int"), Name("chosen", "int")))
        code.set("top", select(better, v, Name("top", "real")))
        code.set("offers", Name("offers", "int") + 1)

    def choose(self) -> None:
        """The choice was made on the way."""
