# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One run at a time in a folder.

A run holds the file ``.lock`` of its folder, which names its process and its machine, by a lock of the operating
system. That lock ends with the process however it ends, so a killed run blocks nobody. Another machine's killed run
cannot be told from a living one, for network file systems need not share locks: its file is for the user to remove.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrogram.cli.io.errors import CommandError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open elsewhere cannot be removed
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def only_run(out: Path | None) -> Iterator[None]:
    """Make the folder of a run, if need be, and keep other runs out of it; None needs neither.

    :raises CommandError: if the folder cannot be made, or another run is at work in it.
    """
    if out is None:
        yield
        return
    file = out / LOCK
    if out.is_file():
        raise CommandError(f"--out {out} is a file; give a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = _open(file, out)
    except OSError as error:
        raise CommandError(f"--out {out} cannot be made or written to: {error.strerror}; give another folder") from None
    try:
        _check_host(descriptor, file, out)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _open(file: Path, out: Path) -> int:
    """The lock file, open and locked."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        if not _lock(descriptor):
            pid, host = _owner(descriptor)
            os.close(descriptor)
            raise CommandError(
                f"--out {out}: another run is at work there (process {pid} on {host}); wait until it ends, or give "
                "another folder"
            )
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the run that had it has removed it in between


def _lock(descriptor: int) -> bool:
    """Whether the file is ours now."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        pass
    # A system without such locks: the process that the file names must do.
    pid, host = _owner(descriptor)
    return host != socket.gethostname() or pid == os.getpid() or not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _check_host(descriptor: int, file: Path, out: Path) -> None:
    pid, host = _owner(descriptor)
    if host not in ("", socket.gethostname()):
        raise CommandError(
            f"--out {out}: a run began there on another machine (process {pid} on {host}); if it no longer runs, "
            f"remove {file}"
        )


def _owner(descriptor: int) -> tuple[int, str]:
    """Process and machine that the file names; 0 and "" where it names none."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        return int(owner["pid"]), str(owner["host"])
    except (ValueError, KeyError, TypeError):
        return 0, ""
