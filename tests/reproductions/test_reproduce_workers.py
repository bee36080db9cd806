# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tasks in several processes: order, results, errors, deaths. The toy work is text, so that no worker loads torch."""

import os
import time
from contextlib import closing
from multiprocessing import active_children

import pytest

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs import workers
from pyrogram.cli.runs.workers import run_tasks


class Toy:
    """A task's result is its name in brackets, after those of the tasks that it needs."""

    def __call__(self, key, earlier, say):
        kind = key.rstrip("0123456789")
        if kind == "refuse":
            raise CommandError("no room, for two")
        if kind == "bug":
            raise KeyError("seven")
        if kind == "die":
            os._exit(3)
        if kind == "sleep":
            time.sleep(60)
        say(f"at {key}")
        return b"".join(earlier) + f"({key})".encode()


class Here(Toy):
    def __call__(self, key, earlier, say):
        return str(os.getpid()).encode()


TASKS = {"a": (), "b": (), "c": ("a", "old"), "d": ("c", "b"), "e": ()}
EXPECTED = {"a": b"(a)", "b": b"(b)", "c": b"(a)(o)(c)", "d": b"(a)(o)(c)(b)(d)", "e": b"(e)"}


@pytest.mark.parametrize("jobs", [1, 2, pytest.param(9, marks=pytest.mark.slow)])
def test_results_do_not_depend_on_who_does_them(jobs):
    heard = []
    found = dict(run_tasks(Toy(), TASKS, {"old": b"(o)"}, jobs, lambda key, text: heard.append((key, text))))
    assert found == EXPECTED
    assert all(text == f"at {key}" for key, text in heard) and len(heard) <= len(TASKS)
    assert not active_children()


def test_one_job_needs_no_process():
    assert dict(run_tasks(Here(), {"a": (), "b": ()}, {}, 1, print)) == dict.fromkeys("ab", str(os.getpid()).encode())


def test_two_jobs_are_two_processes():
    found = set(dict(run_tasks(Here(), {f"a{i}": () for i in range(20)}, {}, 2, print)).values())
    assert len(found) <= 2 and str(os.getpid()).encode() not in found


class Patient(Toy):
    """A task that ends when a file is there, or after some seconds without it."""

    def __init__(self, path, seconds):
        self.path, self.seconds = path, seconds

    def __call__(self, key, earlier, say):
        began = time.monotonic()
        while not self.path.exists() and time.monotonic() - began < self.seconds:
            time.sleep(0.01)
        return b"seen" if self.path.exists() else b"missed"


@pytest.mark.parametrize(("jobs", "result", "seconds"), [(1, b"missed", 0), (2, b"seen", 60)])
def test_this_process_works_while_others_do(jobs, result, seconds, tmp_path):
    work, made = Patient(tmp_path / "file", seconds), []

    def meanwhile():
        (tmp_path / "file").touch()
        made.append(1)

    found = dict(run_tasks(work, {"a": (), "b": ()}, {}, jobs, print, meanwhile))
    assert found == {"a": result, "b": result} and made == [1]


@pytest.mark.parametrize(
    "key, kind, expected",
    [
        ("refuse", CommandError, "^no room, for two$"),
        ("bug", RuntimeError, "KeyError: 'seven'"),
        ("die", CommandError, r"at work on die has ended unexpectedly \(exit status 3\)"),
    ],
)
def test_what_goes_wrong_in_a_worker(key, kind, expected):
    with pytest.raises(kind, match=expected):
        list(run_tasks(Toy(), {key: (), "sleep": ()}, {}, 2, print))
    assert not active_children()


def test_workers_end_when_nobody_wants_more(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 100.0)  # they end when they are told to, not when they are killed
    began = time.monotonic()
    with closing(run_tasks(Toy(), {"a": (), "sleep1": (), "sleep2": ()}, {}, 2, print)) as finished:
        assert next(finished) == ("a", b"(a)")
    assert not active_children() and time.monotonic() - began < 30
