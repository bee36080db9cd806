# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import pytest

from pyrogram.data import files, streams


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in parts of a sentence or two, in blocks that cut line ends and characters."""
    monkeypatch.setattr(streams, "_BLOCK", 7)
    monkeypatch.setattr(files, "_PART", 300)
