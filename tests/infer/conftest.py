# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def small_tensors(one_thread: None) -> None:
    """All tests of this folder run on one thread."""


@pytest.fixture
def doubles() -> Iterator[None]:
    """Models draw in float64, and Pyro's parameters begin anew."""
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
