# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Processes played by threads, for what needs neither Pyro nor a network."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

LONGEST = 60  # seconds that a thread waits for the others


class ThreadReduce:
    """A :class:`pyrogram.infer.Reduce` of one thread; all have one list of values and one barrier."""

    def __init__(self, rank: int, values: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, len(values)
        self.values, self.barrier = values, barrier

    def gather(self, value: Any) -> list[Any]:
        self.values[self.rank] = value
        self.barrier.wait(LONGEST)
        found = list(self.values)
        self.barrier.wait(LONGEST)  # before anybody writes again
        return found

    def broadcast(self, value: Any) -> Any:
        return self.gather(value)[0]

    def sum(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        parts = self.gather(dict(tensors))
        return {name: sum(part[name] for part in parts) for name in tensors}  # type: ignore[misc]


def in_threads(size: int, work: Callable[[ThreadReduce], Any]) -> list[Any]:
    """What each thread returns or raises, by rank."""
    values, barrier = [None] * size, threading.Barrier(size)

    def ran(rank: int) -> Any:
        try:
            return work(ThreadReduce(rank, values, barrier))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(ran, range(size)))
