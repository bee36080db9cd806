# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import pytest


@pytest.fixture(autouse=True)
def small_tensors(one_thread: None) -> None:
    """All tests of this folder run on one thread."""
