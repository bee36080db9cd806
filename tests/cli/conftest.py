# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import pytest
from command_line import call, refused, run_folder, treebanks

__all__ = ["call", "refused", "run_folder", "treebanks"]


@pytest.fixture(autouse=True)
def small_sentences(one_thread: None) -> None:
    """On them threads wait for each other; tests of threads say how many."""
