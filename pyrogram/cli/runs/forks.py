# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How workers come into being: as copies of one process that imports what they need while this one still reads.

A fork of this process could hang, for it may have threads at work. That process only imports: its one other thread is
OpenBLAS's, which waits, and which OpenBLAS itself ends before a fork. Imports take seconds, a copy none.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any

# The whole command line, too: a worker begins by importing the program that was called.
_IMPORTED = ("pyrogram.cli", "pyrogram.cli.runs.dmv_induction", "pyrogram.cli.runs.pcfg_induction")


def import_all() -> None:
    """Import what starts need, with the collector of reference cycles at rest.

    It would look at all that is there again and again, a fifth of the time. Nor need it look at what is imported
    later: every look takes 0.2 s, and in a worker copies the pages.
    """
    if all(module in sys.modules for module in _IMPORTED):
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        for module in _IMPORTED:
            import_module(module)
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def worker_context() -> Any:
    """What starts workers: copies where the system has them, else processes that begin anew."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pyrogram.cli.runs.preloaded"])
    return context


def prepare_workers() -> None:
    """Let the imports begin, long before there is work; the earlier, the less anybody waits for them."""
    if worker_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        with interrupts_held():
            forkserver.ensure_running()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits, and processes that are started meanwhile never see it: not even while they import."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would let signals pass when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
