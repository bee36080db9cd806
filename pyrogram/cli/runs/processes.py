# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A command that torchrun has started several times: all learn together, and the first process speaks and writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyrogram.cli.io.corpora import name_of
from pyrogram.cli.io.errors import CommandError, is_one_of_several

if TYPE_CHECKING:
    from pyrogram.infer import Reduce


ALONE = ("cvb", "hastings", "gibbs")  # methods that are for one process


def check_method(method: str) -> None:
    """
    :raises CommandError: for a method that several processes cannot share.
    """
    if is_one_of_several() and method in ALONE:
        raise CommandError(
            f"--method {method} is for one process, and torchrun has started several; leave out torchrun, or give "
            "--method em or vb"
        )


def check_shared(*paths: Path | None) -> None:
    """Of several processes, each reads every file.

    :raises CommandError: for standard input or a pipe, of which each would get a part.
    """
    from pyrogram.data.streams import is_stream

    for path in paths:
        if path is not None and is_one_of_several() and is_stream(str(path)):
            raise CommandError(
                f"{name_of(path)} can be read by one process only, and torchrun has started several; write it into a "
                "file, and give that"
            )


@contextmanager
def processes(jobs: int) -> Iterator[Reduce | None]:
    """The processes of torchrun, as long as it lasts; None without it.

    :param jobs: how many processes the command itself starts.
    :raises CommandError: if it is more than one.
    """
    if not is_one_of_several():
        yield None
        return
    if jobs > 1:
        raise CommandError("--jobs shares out starts, and torchrun the sentences of each; leave out one of the two")
    import torch.distributed as dist

    from pyrogram.infer import all_reduce

    reduce = all_reduce()
    try:
        yield reduce
    finally:
        dist.destroy_process_group()
