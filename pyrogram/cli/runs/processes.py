# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A command that torchrun has started several times: all learn together, and the first process speaks and writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyrogram.cli.io.corpora import name_of
from pyrogram.cli.io.errors import CommandError, is_one_of_several
from pyrogram.printable import plural

if TYPE_CHECKING:
    from pyrogram.infer import Reduce


ONE_AFTER_THE_OTHER = ("cvb", "hastings")  # methods that take each sentence given all others


def approximate_sweeps(method: str, approximate: bool) -> str | None:
    """In how many processes sweeps are approximate, as settings have it; None: they are exact.

    :param approximate: whether --approximate was given.
    :raises CommandError: if it must be given, or means nothing.
    """
    size = int(os.environ["WORLD_SIZE"]) if is_one_of_several() else 1
    if approximate and method not in ONE_AFTER_THE_OTHER:
        raise CommandError(
            f"--approximate is for --method cvb and hastings, and {method} is always exact; leave it out"
        )
    if approximate and size == 1:
        raise CommandError(
            f"--approximate shares out the sweeps of {method} among processes, and one alone is exact; leave it out, "
            "or let torchrun start several"
        )
    if size > 1 and method in ONE_AFTER_THE_OTHER and not approximate:
        raise CommandError(
            f"--method {method} takes each sentence given all others, which processes cannot do side by side; give "
            "--approximate to let each sweep its own sentences, or leave out torchrun"
        )
    return f"in {plural(size, 'process')}" if approximate else None


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
