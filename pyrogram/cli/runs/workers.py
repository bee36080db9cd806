# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tasks that depend on one another, done in this process or in several; who does them changes no number.

A process that dies takes one task with it and ends the run with a sentence; when this process dies, its workers notice
at their next word.
"""

from __future__ import annotations

import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, Protocol

import torch

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.forks import interrupts_held, worker_context

QUIET = 0.1  # seconds between two words of a worker
PATIENCE = 5.0  # seconds in which a worker must end


class Work(Protocol):
    """What workers do: a picklable object that does a task when it is called."""

    def __call__(self, key: Any, earlier: Sequence[bytes], say: Callable[[str], Any]) -> bytes: ...


def run_tasks(
    work: Work,
    tasks: Mapping[Any, Sequence[Any]],
    done: Mapping[Any, bytes],
    jobs: int,
    say: Callable[[Any, str], Any],
    meanwhile: Callable[[], object] = lambda: None,
) -> Generator[tuple[Any, bytes]]:
    """Do tasks, each after those that it needs, and give their results as they come.

    :param tasks: key of each task to the keys of those it needs, which are tasks before it or among ``done``.
    :param done: results of tasks that were done before.
    :param jobs: number of processes; one is this process.
    :param say: is told what a task says.
    :param meanwhile: what is left to this process, while others are at work, or after all tasks. It must be short: who
        is done with a task waits for it.
    """
    results = dict(done)
    if jobs == 1 or len(tasks) < 2:
        for key, needs in tasks.items():
            results[key] = work(key, [results[k] for k in needs], lambda text, key=key: say(key, text))  # type: ignore[misc]
            yield key, results[key]
        meanwhile()
        return
    with _Pool(work, min(jobs, len(tasks))) as pool:
        waiting = dict(tasks)
        pool.give(waiting, results)
        meanwhile()
        while pool.busy:
            for key, kind, message in pool.hear():
                if kind == "say":
                    say(key, message)
                elif kind == "done":
                    results[key] = message
                    yield key, message
                elif kind == "refused":
                    raise CommandError(message)
                else:
                    raise RuntimeError(f"a worker failed:\n{message}")
            pool.give(waiting, results)


@dataclass
class _Worker:
    process: Any
    connection: Connection
    key: Any = None

    def give(self, key: Any, earlier: Sequence[bytes]) -> None:
        self.key = key
        with suppress(ConnectionError):  # if it is dead, hear() says so
            self.connection.send((key, list(earlier)))


class _Pool:
    """Processes that are ended, busy or not, when the pool is left."""

    def __init__(self, work: Work, size: int) -> None:
        context = worker_context()
        packed = pickle.dumps(work)
        self.workers: list[_Worker] = []
        try:
            with interrupts_held():
                for _ in range(size):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs, packed), daemon=True)
                    process.start()
                    theirs.close()
                    self.workers.append(_Worker(process, ours))
        except BaseException:  # above all Ctrl-C, which has waited
            self.__exit__()
            raise

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(PATIENCE)
            worker.process.kill()  # for one that does not listen
            worker.process.join()
            worker.connection.close()

    @property
    def busy(self) -> bool:
        return any(worker.key is not None for worker in self.workers)

    def give(self, waiting: dict[Any, Sequence[Any]], results: Mapping[Any, bytes]) -> None:
        """Give tasks that are waiting, and no longer need to, to workers that have none."""
        for worker in (worker for worker in self.workers if worker.key is None):
            ready = next((k for k, needs in waiting.items() if all(n in results for n in needs)), None)
            if ready is None:
                break
            worker.give(ready, [results[k] for k in waiting.pop(ready)])

    def hear(self) -> list[tuple[Any, str, Any]]:
        """What workers have sent, at least one thing: key, kind, message."""
        heard = []
        for connection in wait([worker.connection for worker in self.workers if worker.key is not None]):
            worker = next(w for w in self.workers if w.connection is connection)
            try:
                kind, message = worker.connection.recv()
            except (EOFError, ConnectionError):
                worker.process.join()
                raise CommandError(
                    f"a process at work on {worker.key} has ended unexpectedly (exit status "
                    f"{worker.process.exitcode}), perhaps for want of memory; --jobs 1 needs less"
                ) from None
            heard.append((worker.key, kind, message))
            if kind != "say":
                worker.key = None
        return heard


def _serve(connection: Connection, packed: bytes) -> None:
    """A worker's life: tasks until there are no more, or until nobody listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    signal.signal(signal.SIGTERM, _leave)
    with suppress(EOFError, ConnectionError):
        try:
            work: Work = pickle.loads(packed)
            while True:
                key, earlier = connection.recv()
                connection.send(("done", work(key, earlier, _Herald(connection))))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            from pyrogram.cli.io.errors import _sentence

            sentence = str(error) if isinstance(error, CommandError) else _sentence(error)
            connection.send(("refused", sentence) if sentence else ("failed", traceback.format_exc()))


def _leave(number: int, frame: Any) -> None:
    """End in good order, so that nothing that this process has made is left behind."""
    sys.exit(0)


class _Herald:
    """Passes on what a task says, but not every word."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.last = connection, 0.0

    def __call__(self, text: str) -> None:
        if monotonic() - self.last >= QUIET:
            self.connection.send(("say", text))
            self.last = monotonic()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as long as it lasts: processes side by side share no processor, and do not change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
