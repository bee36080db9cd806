# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Typed values: the expressions of which :mod:`.statements` are made.

There are eight types:

* ``int``: 64 bits, signed;
* ``real``: float64;
* ``bool``;
* ``lanes``: W numbers of the kernel's element type, one for each sentence of a block, in vector registers;
* ``mask``: W bools;
* ``vector``: eight numbers of the element type that follow one another in an array, in vector registers;
* ``vector_mask``: eight bools;
* ``none``: of statements.

W and the element type, float32 or float64, are chosen when a function is compiled, not here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Type = Literal["int", "real", "bool", "lanes", "mask", "vector", "vector_mask", "none"]
Elements = Literal["int", "int32", "real", "element", "lanes", "vector"]
VECTOR = 8  # numbers of a vector

# What a load gives: a number of the element type is widened to a real.
_LOADED: dict[Elements, Type] = {
    "int": "int",
    "int32": "int",
    "real": "real",
    "element": "real",
    "lanes": "lanes",
    "vector": "vector",
}


def _operator(op: str) -> Callable[[Any, Any], Expression]:
    return lambda x, y: _arithmetic(op, x, y)


def _reflected(op: str) -> Callable[[Any, Any], Expression]:
    return lambda x, y: _arithmetic(op, y, x)


def _comparison(op: str) -> Callable[[Any, Any], Expression]:
    return lambda x, y: _compare(op, x, y)


class Expression:
    """A value; operators make greater ones. ``//`` and ``%`` are of integers that are not negative, ``>>`` is of bits:
    zeros come from the left.
    """

    type: Type

    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __floordiv__, __mod__ = _operator("//"), _operator("%")
    __xor__, __lshift__, __rshift__ = _operator("^"), _operator("<<"), _operator(">>")
    __and__, __or__ = _operator("&"), _operator("|")
    __lt__, __le__, __gt__, __ge__ = _comparison("<"), _comparison("<="), _comparison(">"), _comparison(">=")

    def __neg__(self) -> Expression:
        return 0 - self

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
    """An operation, by its sign or its name; :mod:`.llvm` has the table of all."""

    op: str
    args: tuple[Expression, ...]
    type: Type

    def __str__(self) -> str:
        if self.op == "within":
            return str(self.args[0])
        if not self.op.isidentifier():
            return f"({self.args[0]} {self.op} {self.args[1]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Element(Expression):
    """An element of an array. Arrays of lanes are indexed in cells of W numbers, those of vectors by first numbers."""

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


def vector_of(x: Any) -> Expression:
    """A real, or one lane, in every place of a vector."""
    return Call("fill", (value(x),), "vector")


INF = Number(math.inf, "real")


def spread(x: Any, type: Type) -> Expression:
    """A number in every lane, or in every place of a vector; what has this type, as it is."""
    x = value(x)
    return x if x.type == type else Call("fill", (x,), type)


def fma(a: Expression, b: Expression, c: Expression) -> Expression:
    """a * b + c, rounded once."""
    return Call("fma", (a, b, c), a.type)


def select(test: Expression, a: Any, b: Any) -> Expression:
    """a where the test holds, else b; both are computed."""
    return Call("select", (test, value(a), value(b)), value(a).type)


def equal(a: Any, b: Any) -> Expression:
    """Whether two numbers are equal."""
    return _compare("==", a, b)


def negated(test: Expression) -> Expression:
    """Whether a test does not hold."""
    return test ^ True


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
    """The lanes, or the vector, with another number in lane i."""
    return Call("with_lane", (x, value(i), value(number)), x.type)


def total_of(x: Expression) -> Expression:
    """The sum of all lanes, or of a vector, as a real."""
    return Call("total_of", (x,), "real")


def any_lane(x: Expression) -> Expression:
    """Whether a lane is not zero; NaN is not."""
    return Call("any_lane", (x,), "bool")


def rounded(x: Expression) -> Expression:
    """To whole numbers, half to even."""
    return Call("rint", (x,), x.type)


def power_of_two(x: Expression) -> Expression:
    """2 ** x in every lane, for whole numbers x within the range of exponents."""
    return Call("power_of_two", (x,), x.type)


def exponent_of(x: Expression) -> Expression:
    """floor(log2(abs(x))) in every lane, for normal numbers; zero for zero."""
    return Call("exponent_of", (x,), x.type)


def within(x: Any, low: Any, high: Any) -> Expression:
    """An index that is low <= x < high: where bounds are checked, the process ends if it is not."""
    return Call("within", (value(x), value(low), value(high)), "int")


def opaque(x: Expression) -> Expression:
    """An integer of which LLVM knows nothing, in code of several lanes.

    Of all addresses that follow from the variable of a loop LLVM looks for a set that takes the fewest additions. In
    tiles these are many: that took half of the time of its code generator, and code did not run faster.
    """
    return Call("opaque", (x,), "int")


def take(turns: Array) -> Expression:
    """The next turn, from 0; no two threads get the same."""
    return Call("take", (Element(turns, value(0)),), "int")


_FOLDED: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _arithmetic(op: str, x: Any, y: Any) -> Expression:
    a, b = _alike(value(x), value(y))
    if a.type == "int":  # keeps what is printed readable; LLVM would find it, too
        if isinstance(a, Number) and isinstance(b, Number) and op in _FOLDED:
            return Number(_FOLDED[op](a.number, b.number), "int")
        if isinstance(b, Number) and (op, b.number) in (("+", 0), ("-", 0), ("*", 1)):
            return a
        if isinstance(a, Number) and (op, a.number) == ("+", 0):
            return b
    return Call(op, (a, b), a.type)


def _compare(op: str, a: Any, b: Any) -> Expression:
    a, b = _alike(value(a), value(b))
    masks: dict[str, Type] = {"lanes": "mask", "vector": "vector_mask"}
    return Call(op, (a, b), masks.get(a.type, "bool"))


def _alike(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Numbers take the type of what they meet."""
    a, b = _as(b.type, a), _as(a.type, b)
    if a.type != b.type:
        raise TypeError(f"{a} is {a.type}, and {b} is {b.type}")
    return a, b


def _as(kind: Type, x: Expression) -> Expression:
    if not isinstance(x, Number) or kind not in ("real", "lanes"):
        return x
    return Number(float(x.number), "real") if kind == "real" else fill(float(x.number))
