# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Pyro's steps on tiny tensors spend most of their time waiting for torch's other threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
