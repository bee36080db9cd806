# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import gc
import os
import signal
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--processor-time", type=Path, metavar="FILE", help="where to write the seconds of every test")


def pytest_configure(config: pytest.Config) -> None:
    """Processes side by side share the processors, but every one has two threads, for some tests are of threads.

    A program that was started in the background ignores interrupts, and so do those that it starts; some tests send
    them. Most of the fast stage would be compiling: there, code of recursions is not optimized, and gives the same
    numbers, and numba optimizes little, and keeps its code apart.
    """
    if not config.getoption("--slow"):
        os.environ.setdefault("PYROGRAM_OPTIMIZE", "0")
        os.environ.setdefault("NUMBA_OPT", "1")
        os.environ.setdefault("NUMBA_CACHE_DIR", str(config.rootpath / "build" / "numba"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        torch.set_num_threads(max(2, (os.cpu_count() or 1) // workers))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests to the slow stage: those that are marked slow, and of those marked ``one_in`` the other cases."""
    if config.getoption("--slow"):
        return
    by_function: dict[str, list[pytest.Item]] = {}  # cases of which some are run
    left = []
    for item in items:
        if item.get_closest_marker("slow"):
            left.append(item)
        elif item.get_closest_marker("one_in"):
            by_function.setdefault(item.nodeid.split("[")[0], []).append(item)
    for cases in by_function.values():
        # The first one, which others begin with, too, so that its page is compiled once, is run; and so are those whose
        # names have a hash for it, the same ones on every machine.
        k = cases[0].get_closest_marker("one_in").args[0]  # type: ignore[union-attr]
        left += [item for item in cases[1:] if zlib.crc32(item.nodeid.encode()) % k]
    leaving = {*left}
    items[:] = [item for item in items if item not in leaving]
    config.hook.pytest_deselected(items=left)
    config.stash[_LEFT] = len(left)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left"] = len(left)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A fifth of the time of numba's compiler is garbage collection: of all that was imported, again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the process that shares tests out, which has not seen them: how many a worker leaves, as every one does."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", 0)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line: how many tests ran, and how to run the rest."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workeroutput") or config.option.collectonly:
        return
    passed, failed, errors = (len(reporter.stats.get(outcome, [])) for outcome in ("passed", "failed", "error"))
    left = config.stash.get(_LEFT, 0)
    rest = f"{left:,} more run in the slow stage: make slow, or pytest --slow" if left else "none is left"
    print(f"{passed + failed + errors:,} tests ran: {passed:,} passed, {failed + errors:,} failed; {rest}.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGUN] = _seconds()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.when == "teardown" and _BEGUN in item.stash:
        item.user_properties.append((_TIME, _seconds() - item.stash[_BEGUN]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    path = config.getoption("--processor-time")
    if path is None:
        return
    reports = [x for of in terminalreporter.stats.values() for x in of if getattr(x, "when", "") == "teardown"]
    tests = Counter({x.nodeid: dict(x.user_properties).get(_TIME, 0.0) for x in reports})
    path.write_text("".join(f"{seconds:.3f}\t{test}\n" for test, seconds in tests.most_common()))
    folders = Counter[str]()
    for test, seconds in tests.items():
        folders[Path(test.partition("::")[0]).parent.as_posix()] += seconds
    terminalreporter.write_sep("=", "processor time by folder, in seconds")
    for folder, seconds in [*folders.most_common(), ("all", folders.total())]:
        terminalreporter.write_line(f"{seconds:8.1f}  {folder}")


_BEGUN = pytest.StashKey[float]()
_LEFT = pytest.StashKey[int]()
_TIME = "processor time"


def _seconds() -> float:
    """Of this process, of its threads, and of the processes that it started and that have ended."""
    return sum(os.times()[:4])


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
def fast_mode(request: pytest.FixtureRequest) -> bool:
    """Of torch's checks of gradients: in a random direction in the fast stage, entry by entry in the slow one."""
    return not request.config.getoption("--slow")


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
