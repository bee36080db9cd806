# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Several processes that run one program: what loops ask of them, and errors that all of them raise together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

T = TypeVar("T")


@runtime_checkable
class Reduce(Protocol):
    """Processes that do the same, each for its share of the sentences; :func:`.all_reduce` makes one for torchrun.

    Every process must call the same methods in the same order, and gets the same bits back. Any object with these five
    names will do, for MPI say.
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def sum(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all processes of tensors with the same names and shapes, formed in float64."""

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank: texts, numbers, tensors, and containers of these."""

    def broadcast(self, value: Any) -> Any:
        """The value of process 0."""


def is_first(reduce: Reduce | None) -> bool:
    """Whether this process writes and shows for all."""
    return reduce is None or reduce.rank == 0


def of_first(reduce: Reduce | None, value: T) -> T:
    """The value of process 0, so that all decide alike."""
    if reduce is None:
        return value
    first: T = reduce.broadcast(value)
    return first


def together(reduce: Reduce | None, work: Callable[[], T]) -> T:
    """Do something in every process; an error in one is raised in all, with the message of the lowest rank."""
    if reduce is None:
        return work()
    results, problem = [], None
    try:
        results.append(work())
    except Exception as error:
        problem = error
    failed = reduce.sum({"failed": torch.tensor(float(problem is not None), dtype=torch.float64)})
    if not failed["failed"]:
        return results[0]
    told = reduce.gather(None if problem is None else (type(problem), str(problem)))
    rank = next(i for i, other in enumerate(told) if other is not None)
    if problem is not None and rank == reduce.rank:
        raise problem
    kind, message = told[rank]
    raise _error_of(kind, message) from problem


def summed(reduce: Reduce | None, work: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sums over all processes of the tensors that each finds."""
    tensors = together(reduce, work)
    return tensors if reduce is None else reduce.sum(tensors)


def _error_of(kind: type[Exception], message: str) -> Exception:
    """An error of a kind, or of the nearest kind above it that a message is enough for."""
    for base in kind.__mro__:
        with suppress(TypeError):
            error = base(message)
            if isinstance(error, Exception) and str(error) == message:
                return error
    return RuntimeError(message)
