# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Real processes, joined by gloo on this machine, that all call one function after the other."""

import multiprocessing
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
import torch.distributed as dist

from pyrogram.infer.distributed import AllReduce

Sizes = Mapping[str, Sequence[int]]  # by check
LONGEST = 300  # seconds


def run_group(checks: Mapping[str, Callable[..., Any]], sizes: Sizes, folder: Path) -> dict[tuple[str, int], list]:
    """What each check returns in each process of groups of its sizes, the largest of which is all.

    Smaller groups are of the last processes, whose ranks are others there than among all. Checks are called with the
    processes and a path beside which all may write, and may not raise.

    :param checks: picklable, by name.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["infer.process_checks"])  # imports once for all
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # Python 3.11 preloads nothing from this process's path
        forkserver.ensure_running()
    count = max(size for own in sizes.values() for size in own)
    made = [
        context.Process(target=_serve, args=(rank, count, dict(checks), dict(sizes), folder), daemon=True)
        for rank in range(count)
    ]
    for process in made:
        process.start()
    for process in made:
        process.join(LONGEST)
        process.kill()
    found = [pickle.loads((folder / f"found.{rank}").read_bytes()) for rank in range(count)]
    for rank in found:
        assert not isinstance(rank, str), rank
    return {(name, size): [rank[name, size] for rank in found[-size:]] for name in checks for size in sizes[name]}


def _serve(rank: int, count: int, checks: dict[str, Callable[..., Any]], sizes: Sizes, folder: Path) -> None:
    try:
        found: Any = _found(rank, count, checks, sizes, folder)
    except Exception:
        found = traceback.format_exc()
    (folder / f"found.{rank}").write_bytes(pickle.dumps(found))


def _found(rank: int, count: int, checks: dict[str, Callable[..., Any]], sizes: Sizes, folder: Path) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=count)
    groups = {size: dist.new_group(list(range(count - size, count))) for size in sorted(set().union(*sizes.values()))}
    found = {}
    for size, group in groups.items():
        reduce = AllReduce(group) if rank >= count - size else None
        for name, check in checks.items() if reduce else ():
            if size in sizes[name]:
                pyro.clear_param_store()
                torch.manual_seed(1000 * rank)  # processes need not be seeded alike
                found[name, size] = check(reduce, folder / f"{name} {size}")
    dist.barrier()
    dist.destroy_process_group()
    return found
