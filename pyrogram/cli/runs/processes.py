# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A command that torchrun has started several times: all learn together, and the first process speaks and writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyrogram.cli.io.errors import CommandError, is_one_of_several

if TYPE_CHECKING:
    from pyrogram.infer import Reduce


@contextmanager
def processes(jobs: int, method: str) -> Iterator[Reduce | None]:
    """The processes of torchrun, as long as it lasts; None without it.

    :param jobs: how many processes the command itself starts.
    :raises CommandError: if it is more than one, and for a method that cannot be shared out.
    """
    if not is_one_of_several():
        yield None
        return
    if jobs > 1:
        raise CommandError("--jobs shares out starts, and torchrun the sentences of each; leave out one of the two")
    if method in ("cvb", "hastings", "gibbs"):
        raise CommandError(
            f"--method {method} takes one sentence after the other, which torchrun cannot share out; run it without "
            "torchrun, or take vb"
        )
    import torch.distributed as dist

    from pyrogram.infer import all_reduce

    reduce = all_reduce()
    try:
        yield reduce
    finally:
        dist.destroy_process_group()
