# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes, two runs in one folder, and runs that say nothing: the same files to the last byte."""

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest
import torch

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.lock import only_run
from pyrogram.cli.runs.forks import import_all
from pyrogram.cli.runs.starts import StartWork
from pyrogram.data import Corpus

PROGRAM = [sys.executable, "-m", "pyrogram"]


def files(folder):
    """The bytes of all files."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def started(arguments, **options):
    """The command in a process of its own."""
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, **options}
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], **options)


def wait_for(path, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def command(treebanks):
    options = ["--test", treebanks.test, "--tags", "xpos", "--starts", 3, "--steps", 12, "--tolerance", 0]
    return ["induce", treebanks.train, *options]


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    from pyrogram.cli import main

    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([str(a) for a in [*command, "--out", folder]]) == 0
    return folder


def test_two_processes_write_the_same_bytes(call, command, whole, tmp_path):
    done = call(*command, "--jobs", 2, "--out", tmp_path / "run")
    assert done.status == 0 and not active_children()
    assert sorted(re.findall(r"start (\d) of 3: 12 iterations", done.err)) == ["1", "2", "3"]
    assert files(tmp_path / "run") == files(whole)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_number_of_threads_changes_nothing(threads, call, command, whole, tmp_path):
    """Sums over many numbers are split among threads, so that the last bits would depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert call(*command, "--out", tmp_path / "run").status == 0
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert files(tmp_path / "run") == files(whole)


def test_every_start_has_one_thread(treebanks, monkeypatch, call):
    from pyrogram.cli.runs import starts

    seen = []
    monkeypatch.setattr(starts.StartWork, "_iteration", lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        call("induce", treebanks.train, "--tags", "xpos", "--steps", 1)
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def test_pcfg_in_two_processes(call, tmp_path):
    (tmp_path / "rules").write_text("S -> A S | A\nA -> 'DT' | 'NN' | 'VBZ'\n")
    (tmp_path / "tags.txt").write_text("DT NN VBZ\nNN VBZ\nDT NN VBZ DT NN\n")
    made = {}
    for jobs in (1, 2):
        out = tmp_path / f"run{jobs}"
        options = ["--model", "pcfg", "--grammar", tmp_path / "rules", "--starts", 3, "--steps", 4]
        assert call("induce", tmp_path / "tags.txt", *options, "--jobs", jobs, "--out", out).status == 0
        made[jobs] = files(out)
    assert made[1] == made[2] and "starts/003.safetensors" in made[1]


@pytest.mark.parametrize("moment", [pytest.param("starts/002.safetensors", marks=pytest.mark.slow), "config.json"])
def test_ctrl_c_ends_all_processes(moment, command, tmp_path):
    """At work, and while processes are being started. A terminal sends Ctrl-C to the whole group of processes."""
    process = started([*command, "--steps", 100000, "--jobs", 2, "--out", tmp_path / "cut"], start_new_session=True)
    wait_for(tmp_path / "cut" / moment, process)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert error.splitlines()[-1].startswith("pyrogram: interrupted; what was done is in")
    assert "Traceback" not in error
    with pytest.raises(ProcessLookupError):  # nobody is left, if not at once
        for _ in range(1000):
            os.killpg(process.pid, 0)
            time.sleep(0.01)


@pytest.mark.slow
def test_after_ctrl_c_the_run_goes_on(call, command, tmp_path):
    long = [*command, "--steps", 300]
    process = started([*long, "--jobs", 2, "--out", tmp_path / "cut"], start_new_session=True)
    wait_for(tmp_path / "cut" / "starts" / "002.safetensors", process)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert not (tmp_path / "cut" / "weights.safetensors").exists()
    again = call(*long, "--jobs", 2, "--out", tmp_path / "cut")
    assert again.status == 0 and "going on in" in again.err
    assert call(*long, "--out", tmp_path / "uncut").status == 0
    assert files(tmp_path / "cut") == files(tmp_path / "uncut")


def test_quiet(call, tmp_path):
    train, strange = tmp_path / "train.conllu", tmp_path / "strange.conllu"
    Corpus.builtin(15).to_conllu(train)
    Corpus.builtin(5, 2).to_conllu(strange)
    strange.write_text(strange.read_text().replace("\tDT\t", "\tZZ\t"))
    folder = tmp_path / "run"
    induce = ["induce", train, "--test", strange, "--tags", "xpos", "--steps", 2, "--out", folder]
    trained = ["train", train, "--test", strange, "--tags", "xpos", "--steps", 1, "--out", tmp_path / "trained"]
    for arguments in (induce, ["parse", folder, strange], trained, ["parse", tmp_path / "trained", strange]):
        loud = call(*arguments, *(["--no-resume"] if "--out" in arguments else []))
        quiet = call(*arguments, "--quiet")
        assert (loud.status, quiet.status, quiet.err) == (0, 0, "")
        assert "unseen in training" in loud.err and quiet.out == loud.out
    bad = call("parse", tmp_path / "nothing", strange, "--quiet")
    assert bad.status == 2 and bad.err.startswith("pyrogram: ")
    assert "unseen in training" in call("parse", folder, strange).err  # --quiet ends with its command


HOLDER = """
import sys
from pathlib import Path
from pyrogram.cli.io.lock import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_in_the_same_folder_is_refused(call, refused, command, tmp_path):
    folder = tmp_path / "run"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], **pipes)
    try:
        assert first.stdout.readline() == "held\n"
        owner = json.loads((folder / ".lock").read_text())
        assert owner == {"pid": first.pid, "host": socket.gethostname()}
        for arguments in (command, ["train", command[1], "--tags", "xpos"], [*command, "--no-resume"]):
            error = refused(*arguments, "--out", folder)
            assert f"another run is at work there (process {first.pid} on {socket.gethostname()})" in error
        assert "another run is at work" in refused("reproduce", "pitman-yor", "--quiet", "--out", folder)
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()
    assert (folder / ".lock").exists()  # what the killed process has left is taken over
    assert call(*command, "--no-resume", "--out", folder).status == 0
    assert not (folder / ".lock").exists()


def test_a_run_at_work_holds_its_folder(call, command, tmp_path, monkeypatch):
    seen = []

    def look(*_):
        seen.append(json.loads((tmp_path / ".lock").read_text()))
        with pytest.raises(CommandError, match="another run is at work"), only_run(tmp_path):
            pass

    monkeypatch.setattr(StartWork, "_iteration", look)
    assert call(*command, "--steps", 2, "--out", tmp_path).status == 0
    assert seen == 6 * [{"pid": os.getpid(), "host": socket.gethostname()}]


def test_a_lock_of_another_machine(refused, command, tmp_path):
    (tmp_path / ".lock").write_text('{"pid": 12, "host": "elsewhere.example"}')
    error = refused(*command, "--out", tmp_path)
    assert "process 12 on elsewhere.example" in error and f"remove {tmp_path / '.lock'}" in error


def test_without_locks_of_the_system_the_process_that_is_named_counts(refused, call, command, tmp_path, monkeypatch):
    from pyrogram.cli.io import lock

    monkeypatch.setattr(lock, "fcntl", None)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / ".lock").write_text(json.dumps({"pid": other.pid, "host": socket.gethostname()}))
    try:
        assert f"process {other.pid}" in refused(*command, "--out", tmp_path)
    finally:
        other.kill()
        other.communicate()
    assert call(*command, "--out", tmp_path).status == 0


@pytest.mark.slow
def test_training_twice_writes_the_same_bytes(call, treebanks, tmp_path):
    command = ["train", treebanks.train, "--test", treebanks.test, "--tags", "xpos", "--steps", 12]
    for name in ("a", "b"):
        assert call(*command, "--out", tmp_path / name).status == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.parametrize("enabled", [True, False])
def test_imports_leave_the_collector_as_it_was(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        import_all()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
