# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops of typed statements: the lower representation of compiled recursions.

A function has parameters (numbers and arrays), local variables and statements, whose values are
:mod:`.expressions`. Programs are written with :class:`Code`, whose loops are ``with`` blocks:

    code = Code()
    with code.loop("k", i, j) as k:
        code.set("total", fma(array[i * p + k], array[k * p + j], Name("total", "lanes")))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from .expressions import Array, Call, Expression, Name, Type, value


@dataclass
class Set:
    """Give a variable a value."""

    name: str
    value: Expression


@dataclass
class Put:
    """Write an element of an array, or add to it: to a real or an element, to which other threads add as well."""

    array: Array
    index: Expression
    value: Expression
    adds: bool = False


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
class Apart:
    """What is rarely done, in a function of its own: the code around it keeps the registers.

    :param gives: the variable whose value is known outside afterwards, if there is one; it has a value before, too.
    """

    body: list[Statement]
    gives: str


@dataclass
class Attempt:
    """A body; from where it reaches something apart that is not at hand, another one in the place of the rest."""

    body: list[Statement]
    other: list[Statement]


Statement = Set | Put | For | While | If | Return | Apart | Attempt


def names_read(body: Sequence[Statement]) -> set[str]:
    """The variables and the arrays in statements."""
    names, rest = set[str](), list[Any](body)
    while rest:
        x = rest.pop()
        if isinstance(x, (Name, Array)):
            names.add(x.name)
        elif isinstance(x, (list, tuple)):
            rest += x
        elif hasattr(x, "__dict__"):  # a statement or an expression
            rest += vars(x).values()
    return names


@dataclass
class Function:
    """A compiled function: what it is called with, and what it does."""

    name: str
    parameters: Sequence[Array | Name]
    body: list[Statement]
    result: Type = "none"


@dataclass
class Code:
    """Statements in the making."""

    body: list[Statement] = field(default_factory=list)
    _fresh: list[int] = field(default_factory=lambda: [0])

    def set(self, name: str, expression: Any) -> Name:
        """Give a variable a value; it is made if there is none."""
        number = value(expression)
        self.body.append(Set(name, number))
        return Name(name, number.type)

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

    def add_atomically(self, array: Array, index: Any, expression: Any) -> None:
        """Add to an element of an array to which other threads add at the same time."""
        self.body.append(Put(array, value(index), value(expression), adds=True))

    def give(self, expression: Any = None) -> None:
        """Return."""
        self.body.append(Return(None if expression is None else value(expression)))

    @contextmanager
    def _inner(self, make: Callable[[list[Statement]], Statement]) -> Iterator[None]:
        """The statements within another one."""
        outer, self.body = self.body, []
        yield
        outer.append(make(self.body))
        self.body = outer

    @contextmanager
    def loop(self, name: str, low: Any, high: Any, step: int = 1) -> Iterator[Name]:
        """``for name in range(low, high, step)``."""
        with self._inner(lambda body: For(name, value(low), value(high), step, body)):
            yield Name(name, "int")

    def loop_while(self, test: Expression) -> AbstractContextManager[None]:
        return self._inner(lambda body: While(test, body))

    def when(self, test: Expression) -> AbstractContextManager[None]:
        return self._inner(lambda body: If(test, body, []))

    def apart(self, gives: str = "") -> AbstractContextManager[None]:
        """See :class:`Apart`."""
        return self._inner(lambda body: Apart(body, gives))

    def attempt(self) -> AbstractContextManager[None]:
        """See :class:`Attempt`."""
        return self._inner(lambda body: Attempt(body, []))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is done if the last :meth:`when` is not, or the last :meth:`attempt` fails."""
        last = self.body[-1]
        assert isinstance(last, (If, Attempt))
        outer, self.body = self.body, last.other
        yield
        self.body = outer
