# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Times of rivals, measured in turns, so that a noisy machine is noisy for all of them.

On one thread it is processor time that counts: on a busy machine long calls are interrupted and short ones are not,
so that by the clock on ROOT the quickest engine would seem quicker than it is.
"""

from __future__ import annotations

import gc
import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, by round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def times_faster_than(self, other: Timing) -> float:
        """Median over rounds of the other's time divided by this one's in the same round."""
        return statistics.median(o / t for t, o in zip(self.rounds, other.rounds, strict=True))


def race(works: Mapping[str, Work], threads: int, seconds: float, least: int = 3, most: int = 25) -> dict[str, Timing]:
    """Time every work in turns (A B C A B C ...) on so many threads of torch, for about so many seconds.

    In each round a work is called as often as fills a fiftieth of a second, and its time is the median call:
    what the work before it left behind (cold caches, spinning threads) weighs no more on quick works than on slow ones.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    torch.set_num_threads(threads)
    calls = {}
    for name, work in works.items():
        work()  # compiles, fills caches
        calls[name] = max(1, min(200, round(0.02 / _seconds(work, time.perf_counter))))
    rounds: dict[str, list[float]] = {name: [] for name in works}
    collecting = gc.isenabled()
    gc.disable()
    start = time.perf_counter()
    try:
        for done in range(most):
            if done >= least and time.perf_counter() - start > seconds:
                break
            for name, work in works.items():
                gc.collect(0)
                rounds[name].append(statistics.median(_seconds(work, clock) for _ in range(calls[name])))
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(tuple(times)) for name, times in rounds.items()}


def second_core() -> float:
    """How many times the work of one thread two threads do now: near one if other programs have the second core."""
    data = bytes(10**7)
    with ThreadPoolExecutor(2) as pool:

        def hashed(threads: int) -> None:
            list(pool.map(lambda _: hashlib.sha256(data).digest(), range(threads)))

        times = race({"one": lambda: hashed(1), "two": lambda: hashed(2)}, threads=2, seconds=1.0)
    return statistics.median(2 * one / two for one, two in zip(times["one"].rounds, times["two"].rounds, strict=True))


def _seconds(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start
