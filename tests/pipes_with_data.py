# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pipes, as the shell's ``<(zcat file)`` gives them to a program."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

needs_pipes = pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="pipes have no names")


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """The name of a pipe with data in it."""
    reader, writer = os.pipe()

    def fill() -> None:
        with open(writer, "wb") as file, suppress(BrokenPipeError):
            file.write(data)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
        thread.join()
