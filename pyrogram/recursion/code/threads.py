# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled loops on as many threads as torch uses.

Compiled functions release the interpreter lock, so ordinary threads run them side by side; unlike an OpenMP team, a
thread pool survives ``fork`` and may be entered from any thread. Threads take one turn after another rather than equal
shares: a thread that wakes late, or finds its core taken, does less, and nobody waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

_pools: dict[int, ThreadPoolExecutor] = {}


def _start_alone() -> None:
    """A forked process has one thread: it needs pools of its own, and would wait for ever for torch's OpenMP team."""
    _pools.clear()
    torch.set_num_threads(1)  # as in the workers of torch's DataLoader


os.register_at_fork(after_in_child=_start_alone)


def run_workers(work: Callable[[Any], None], cost: float) -> None:
    """Call ``work(turns)`` on every thread, the calling one included.

    :param work: takes turns from the counter until there is nothing left to do.
    :param cost: rough number of floating-point operations in all. Below a millisecond or so a second thread costs more
        than it saves: it wakes late, on a core where torch's own threads still spin.
    """
    num_workers = torch.get_num_threads() if cost > 2e7 else 1
    turns = np.zeros(1, np.int64)
    if num_workers == 1:
        work(turns)
        return
    pool = _pools.get(num_workers)
    if pool is None:
        pool = _pools[num_workers] = ThreadPoolExecutor(num_workers - 1, thread_name_prefix="pyrogram")
    futures = [pool.submit(work, turns) for _ in range(1, num_workers)]
    work(turns)
    for future in futures:
        if not future.cancel():  # what has not begun by now would find nothing to do
            future.result()
