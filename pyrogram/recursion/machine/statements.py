# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops of typed statements: the lower representation of compiled recursions.

A function has parameters (numbers and arrays), local variables and statements. There are six types of values:

* ``int``: 64 bits, signed;
* ``real``: float64;
* ``bool``;
* ``lanes``: W numbers of the kernel's element type, one for each sentence of a block, in vector registers;
* ``mask``: W bools;
* ``none``: of statements.

W and the element type, float32 or float64, are chosen when a function is compiled, not here. Programs are written with
:class:`Code`, whose loops are ``with`` blocks:

    code = Code()
    with code.loop("k", i, j) as k:
        code.set("total", fma(array[i * p + k], array[k * p + j], Name("total", "lanes")))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Type = Literal["int", "real", "bool", "lanes", "mask", "none"]
Elements = Literal["int", "int32", "byte", "real", "element", "lanes"]

# What a load gives: a number of the kernel's element type is widened to a real.
_LOADED: dict[str, Type] = {
    "int": "int",
    "int32": "int",
    "byte": "int",
    "real": "real",
    "element": "real",
    "lanes": "lanes",
}


class Expression:
    """A value; operators make greater ones."""

    type: Type

    def __add__(self, other: Any) -> Expression:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _arithmetic("div", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _arithmetic("div", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        """Of integers that are not negative."""
        return _arithmetic("quotient", self, other)

    def __mod__(self, other: Any) -> Expression:
        return _arithmetic("remainder", self, other)

    def __xor__(self, other: Any) -> Expression:
        return _arithmetic("xor", self, other)

    def __lshift__(self, other: Any) -> Expression:
        return _arithmetic("shl", self, other)

    def __rshift__(self, other: Any) -> Expression:
        """Of the bits: zeros come from the left."""
        return _arithmetic("shr", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _compare("ge", self, other)

    def __and__(self, other: Any) -> Expression:
        return Call("and", (self, value(other)), self.type)

    def __or__(self, other: Any) -> Expression:
        return Call("or", (self, value(other)), self.type)

    def __neg__(self) -> Expression:
        return _arithmetic("sub", 0 if self.type == "int" else 0.0, self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth value before it is compiled")


@dataclass(frozen=True)
class Number(Expression):
    """A constant."""

    number: float
    type: Type

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True)
class Name(Expression):
    """A variable or a parameter."""

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call(Expression):
    """An operation; :mod:`.llvm` has the table of all."""

    op: str
    args: tuple[Expression, ...]
    type: Type

    def __str__(self) -> str:
        if self.op == "within":
            return str(self.args[0])
        sign = _SIGNS.get(self.op)
        if sign and len(self.args) == 2:
            return f"({self.args[0]} {sign} {self.args[1]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Element(Expression):
    """An element of an array. Arrays of lanes are indexed in cells of W numbers."""

    array: Array
    index: Expression

    @property
    def type(self) -> Type:  # type: ignore[override]
        return _LOADED[self.array.elements]

    def __str__(self) -> str:
        return f"{self.array.name}[{self.index}]"


@dataclass(frozen=True)
class Array:
    """A parameter that points to numbers; no two overlap.

    :param elements: what they are; ``element`` is the kernel's element type, one by one.
    """

    name: str
    elements: Elements

    def __getitem__(self, index: Any) -> Element:
        return Element(self, value(index))


# ---------------------------------------------------------------------- statements


@dataclass
class Set:
    """Give a variable a value."""

    name: str
    value: Expression


@dataclass
class Put:
    """Write an element of an array."""

    array: Array
    index: Expression
    value: Expression


@dataclass
class For:
    """``low <= name < high``, in steps; backwards if the step is negative: ``high < name <= low``."""

    name: str
    low: Expression
    high: Expression
    step: int
    body: list[Statement]


@dataclass
class While:
    """Again and again, while the test holds."""

    test: Expression
    body: list[Statement]


@dataclass
class If:
    """One body if the test holds, the other one if not."""

    test: Expression
    body: list[Statement]
    other: list[Statement]


@dataclass
class Return:
    """The end of a function, and its result."""

    value: Expression | None


@dataclass
class Transpose:
    """Eight neighbours of every lane, into eight cells or out of them: a block of numbers is turned by a quarter.

    :param cells: of lanes; those from ``first`` on.
    :param numbers: elements; those of lane l begin at ``starts[l] + start``.
    :param inward: into the cells.
    """

    cells: Array
    first: Expression
    numbers: Array
    starts: Array
    start: Expression
    inward: bool


Statement = Set | Put | For | While | If | Return | Transpose


@dataclass
class Function:
    """A compiled function: what it is called with, and what it does."""

    name: str
    parameters: Sequence[Array | Name]
    body: list[Statement]
    result: Type = "none"

    def __str__(self) -> str:
        names = ", ".join(f"{p.name}: {p.elements + '*' if isinstance(p, Array) else p.type}" for p in self.parameters)
        return "\n".join([f"def {self.name}({names}):", *_lines(self.body, 1)])


@dataclass
class Code:
    """Statements in the making."""

    body: list[Statement] = field(default_factory=list)
    _fresh: list[int] = field(default_factory=lambda: [0])

    def set(self, name: str, expression: Any) -> Name:
        """Give a variable a value; it is made if there is none."""
        given = value(expression)
        self.body.append(Set(name, given))
        return Name(name, given.type)

    def let(self, expression: Any, hint: str = "t") -> Name:
        """A new variable."""
        self._fresh[0] += 1
        return self.set(f"{hint}.{self._fresh[0]}", expression)

    def put(self, array: Array, index: Any, expression: Any) -> None:
        self.body.append(Put(array, value(index), value(expression)))

    def add(self, array: Array, index: Any, expression: Any) -> None:
        """Add to an element of an array."""
        index = self.let(index, "at") if isinstance(index, Call) else value(index)
        self.put(array, index, array[index] + expression)

    def turn(self, cells: Array, first: Any, numbers: Array, starts: Array, start: Any, inward: bool) -> None:
        """See :class:`Transpose`."""
        self.body.append(Transpose(cells, value(first), numbers, starts, value(start), inward))

    def give(self, expression: Any = None) -> None:
        """Return."""
        self.body.append(Return(None if expression is None else value(expression)))

    @contextmanager
    def loop(self, name: str, low: Any, high: Any, step: int = 1) -> Iterator[Name]:
        """``for name in range(low, high, step)``."""
        outer, self.body = self.body, []
        yield Name(name, "int")
        outer.append(For(name, value(low), value(high), step, self.body))
        self.body = outer

    @contextmanager
    def loop_while(self, test: Expression) -> Iterator[None]:
        outer, self.body = self.body, []
        yield
        outer.append(While(test, self.body))
        self.body = outer

    @contextmanager
    def when(self, test: Expression) -> Iterator[None]:
        outer, self.body = self.body, []
        yield
        outer.append(If(test, self.body, []))
        self.body = outer

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is done if the last :meth:`when` is not."""
        last = self.body[-1]
        assert isinstance(last, If)
        outer, self.body = self.body, last.other
        yield
        self.body = outer


# ---------------------------------------------------------------------- operations


def value(x: Any) -> Expression:
    """A Python number as a value; values stay."""
    if isinstance(x, Expression):
        return x
    if isinstance(x, bool):
        return Number(int(x), "bool")
    if isinstance(x, int):
        return Number(x, "int")
    if isinstance(x, float):
        return Number(x, "real")
    raise TypeError(f"{x!r} is no value")


def fill(x: Any) -> Expression:
    """A real in every lane."""
    return Call("fill", (value(x),), "lanes")


def fma(a: Expression, b: Expression, c: Expression) -> Expression:
    """a * b + c, rounded once."""
    return Call("fma", (a, b, c), a.type)


def select(test: Expression, a: Any, b: Any) -> Expression:
    """a where the test holds, else b; both are computed."""
    return Call("select", (test, value(a), value(b)), value(a).type)


def equal(a: Any, b: Any) -> Expression:
    """Whether two numbers are equal."""
    return _compare("eq", a, b)


def negated(test: Expression) -> Expression:
    """Whether a test does not hold."""
    return Call("not", (test,), "bool")


def least(a: Any, b: Any) -> Expression:
    """The lesser of two."""
    return _arithmetic("min", a, b)


def greatest(a: Any, b: Any) -> Expression:
    """The greater of two."""
    return _arithmetic("max", a, b)


def real(x: Any) -> Expression:
    """An integer as a real."""
    x = value(x)
    return x if x.type == "real" else Call("real", (x,), "real")


def exp(x: Any) -> Expression:
    """Of a real."""
    return Call("exp", (value(x),), "real")


def log(x: Any) -> Expression:
    """Of a real."""
    return Call("log", (value(x),), "real")


def lane(x: Expression, i: Any) -> Expression:
    """The number in lane i, as a real."""
    return Call("lane", (x, value(i)), "real")


def with_lane(x: Expression, i: Any, number: Any) -> Expression:
    """The lanes with another number in lane i."""
    return Call("with_lane", (x, value(i), value(number)), "lanes")


def any_lane(x: Expression) -> Expression:
    """Whether a lane is not zero; NaN is not."""
    return Call("any_lane", (x,), "bool")


def rounded(x: Expression) -> Expression:
    """To whole numbers, half to even."""
    return Call("rounded", (x,), x.type)


def power_of_two(x: Expression) -> Expression:
    """2 ** x in every lane, for whole numbers x within the range of exponents."""
    return Call("power_of_two", (x,), "lanes")


def exponent_of(x: Expression) -> Expression:
    """floor(log2(x)) in every lane, for normal positive numbers; zero for zero."""
    return Call("exponent_of", (x,), "lanes")


def within(x: Any, low: Any, high: Any) -> Expression:
    """An index that is low <= x < high: where bounds are checked, the process ends if it is not."""
    return Call("within", (value(x), value(low), value(high)), "int")


def take(turns: Array) -> Expression:
    """The next turn, from 0; no two threads get the same."""
    return Call("take", (Element(turns, value(0)),), "int")


_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "quotient": "//",
    "remainder": "%",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "and": "and",
    "or": "or",
}


def _arithmetic(op: str, x: Any, y: Any) -> Expression:
    a, b = _alike(value(x), value(y))
    if isinstance(a, Number) and isinstance(b, Number) and a.type == "int" and op in ("add", "sub", "mul"):
        m, n = int(a.number), int(b.number)
        return Number({"add": m + n, "sub": m - n, "mul": m * n}[op], "int")
    if a.type == "int":  # keeps what is printed readable; LLVM would find it, too
        if op in ("add", "sub") and isinstance(b, Number) and b.number == 0:
            return a
        if op == "add" and isinstance(a, Number) and a.number == 0:
            return b
        if op == "mul" and isinstance(b, Number) and b.number == 1:
            return a
    return Call(op, (a, b), a.type)


def _compare(op: str, a: Any, b: Any) -> Expression:
    a, b = _alike(value(a), value(b))
    return Call(op, (a, b), "mask" if a.type == "lanes" else "bool")


def _alike(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Numbers take the type of what they meet."""
    if a.type != b.type:
        if isinstance(a, Number) and b.type == "real":
            a = Number(float(a.number), "real")
        elif isinstance(b, Number) and a.type == "real":
            b = Number(float(b.number), "real")
        elif isinstance(a, Number) and b.type == "lanes":
            a = fill(float(a.number))
        elif isinstance(b, Number) and a.type == "lanes":
            b = fill(float(b.number))
        else:
            raise TypeError(f"{a} is {a.type}, and {b} is {b.type}")
    return a, b


def _lines(body: Sequence[Statement], depth: int) -> Iterator[str]:
    indent = "    " * depth
    for s in body:
        if isinstance(s, Set):
            yield f"{indent}{s.name} = {s.value}"
        elif isinstance(s, Put):
            yield f"{indent}{s.array.name}[{s.index}] = {s.value}"
        elif isinstance(s, For):
            step = "" if s.step == 1 else f", {s.step}"
            yield f"{indent}for {s.name} in range({s.low}, {s.high}{step}):"
            yield from _lines(s.body, depth + 1)
        elif isinstance(s, While):
            yield f"{indent}while {s.test}:"
            yield from _lines(s.body, depth + 1)
        elif isinstance(s, If):
            yield f"{indent}if {s.test}:"
            yield from _lines(s.body, depth + 1)
            if s.other:
                yield f"{indent}else:"
                yield from _lines(s.other, depth + 1)
        elif isinstance(s, Transpose):
            cells, numbers = f"{s.cells.name}[{s.first} ...]", f"{s.numbers.name}[{s.starts.name} + {s.start} ...]"
            yield indent + (f"{cells} = turned {numbers}" if s.inward else f"{numbers} = turned {cells}")
        else:
            yield f"{indent}return {'' if s.value is None else s.value}"
