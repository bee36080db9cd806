# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyro
import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """Processes side by side share the processors, but every one has two threads, for some tests are of threads.

    A program that was started in the background ignores interrupts, and so do those that it starts; some tests send
    them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        torch.set_num_threads(max(2, (os.cpu_count() or 1) // workers))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    begun = set()  # functions of which a case is run
    for item in items:
        of_many = item.get_closest_marker("one_in")
        function = item.nodeid.split("[")[0]
        # The first case, and of the others those whose names have a hash for it: the same ones on every machine.
        is_other = of_many and function in begun and zlib.crc32(item.nodeid.encode()) % of_many.args[0]
        if item.get_closest_marker("slow") or is_other:
            item.add_marker(skip)
        else:
            begun.add(function)


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Every test starts in float64, from the same seed, without Pyro parameters."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    yield
    pyro.clear_param_store()
    torch.set_default_dtype(dtype)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Pyro's steps on tiny tensors spend most of their time waiting for torch's other threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of corpora beside the repository, which other people own and the project does not ship."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"corpora absent: no folder {path}")
    return path
