# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled loops over the sentences of a batch, on as many threads as torch uses.

The kernels release the interpreter lock, so ordinary threads run them side by side; unlike an OpenMP team, a
thread pool survives ``fork`` (several chains in several processes) and may be entered from any thread.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)


def run_workers(work: Callable[[int, int], None], cost: float) -> None:
    """Call ``work(worker, num_workers)`` for every worker; worker 0 is the calling thread.

    :param work: does the share of the blocks that falls to one worker, typically every num_workers-th.
    :param cost: rough number of floating-point operations in all; small jobs stay on one thread.
    """
    num_workers = torch.get_num_threads() if cost > 2e6 else 1
    if num_workers == 1:
        work(0, 1)
        return
    pool = _pools.get(num_workers)
    if pool is None:
        pool = _pools[num_workers] = ThreadPoolExecutor(num_workers - 1, thread_name_prefix="pyrogram")
    futures = [pool.submit(work, worker, num_workers) for worker in range(1, num_workers)]
    work(0, num_workers)
    for future in futures:
        future.result()
