# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce`` in several processes: under torchrun, killed, and gone on with by another number of them."""

import csv
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
from pipes_with_data import needs_pipes, piped
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.cli.runs.settings import Settings
from pyrogram.cli.runs.starts import StartWork
from pyrogram.infer import AllReduce

TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def launched(arguments, size=2):
    """Processes as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "pyrogram", *map(str, arguments)]
    return [
        subprocess.Popen(
            command, env=os.environ | together | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for rank in range(size)
    ]


def assert_same_run(found, expected):
    """The same files, whose numbers agree to the rounding errors of sums."""
    names = {p.relative_to(expected).as_posix() for p in expected.rglob("*") if p.is_file()}
    assert {p.relative_to(found).as_posix() for p in found.rglob("*") if p.is_file()} == names
    for name in ("parses.conllu", "README.md", "results.md"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    weights = load_file(expected / "weights.safetensors")
    for name, w in load_file(found / "weights.safetensors").items():
        torch.testing.assert_close(w, weights[name], rtol=1e-12, atol=1e-12)
    for name in ("results.csv", "curve.csv"):
        cells, others = (_cells((folder / name).read_text()) for folder in (found, expected))
        assert len(cells) == len(others)
        for cell, other in zip(cells, others, strict=True):
            assert cell == (pytest.approx(other, rel=1e-11, nan_ok=True) if isinstance(other, float) else other)


def _cells(text):
    """Numbers as such."""
    found = []
    for cell in (cell for row in csv.reader(text.splitlines()) for cell in row):
        try:
            found.append(float(cell))
        except ValueError:
            found.append(cell)
    return found


@pytest.fixture
def command(treebanks):
    options = ["--test", treebanks.test, "--tags", "xpos", "--starts", 2, "--tolerance", 0, "--method", "vb-em"]
    return ["induce", treebanks.train, *options]


@pytest.mark.slow
def test_torchrun_goes_on_where_one_process_was_interrupted(call, command, tmp_path, monkeypatch):
    whole = call(*command, "--steps", 25, "--out", tmp_path / "whole")
    assert whole.status == 0

    def interrupt(self, number, say, loop):
        if (number, len(loop.history)) == (2, 7):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StartWork, "_iteration", interrupt)
        assert call(*command, "--steps", 25, "--out", tmp_path / "cut").status == 130
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "pyrogram"]
    arguments = [*command, "--steps", 25, "--out", tmp_path / "cut"]
    done = subprocess.run([*torchrun, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == whole.out.replace("/whole", "/cut").split()  # the first process alone speaks
    assert done.stderr.count("going on in") == 1
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.slow
def test_one_process_goes_on_where_two_were_killed(call, command, tmp_path):
    command = [*command, "--steps", 400]
    assert call(*command, "--out", tmp_path / "whole").status == 0
    killed = launched([*command, "--out", tmp_path / "cut"])
    second = tmp_path / "cut" / "starts" / "002.safetensors"
    deadline = time.monotonic() + 240
    while not second.exists() and killed[0].poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    for process in killed:
        process.send_signal(signal.SIGKILL)
    for process in killed:
        process.communicate()
    assert [process.returncode for process in killed] == [-signal.SIGKILL] * 2
    assert second.exists() and not (tmp_path / "cut" / "weights.safetensors").exists()
    assert call(*command, "--out", tmp_path / "cut").status == 0
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.slow
def test_a_process_that_loses_another_says_so_in_one_sentence(command, tmp_path):
    both = launched([*command, "--steps", 2000, "--out", tmp_path / "cut"])
    deadline = time.monotonic() + 240
    while not (tmp_path / "cut" / "starts" / "001.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    both[1].kill()
    both[1].communicate()
    out, err = both[0].communicate(timeout=60)
    assert (both[0].returncode, out) == (2, b"")
    assert err.decode().startswith("pyrogram: process 0 of 2 has lost another one") and err.count(b"\n") == 1


@pytest.mark.slow
def test_an_error_is_told_once(tmp_path):
    (tmp_path / "bad.conllu").write_text("1\tword\n\n")
    both = launched(["induce", tmp_path / "bad.conllu"])
    told = [(process.communicate(timeout=240), process.returncode) for process in both]
    assert told[1] == ((b"", b""), 2)
    assert told[0][0][0] == b"" and told[0][1] == 2
    assert told[0][0][1].startswith(b"pyrogram: ") and told[0][0][1].count(b"\n") == 1


@pytest.fixture
def under_torchrun(monkeypatch):
    """As far as the environment says."""
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("under_torchrun")
def test_what_torchrun_cannot_share_out_is_refused(refused, treebanks, tmp_path):
    assert "--jobs shares out starts" in refused("induce", treebanks.train, "--jobs", 2, "--starts", 2)
    rules = tmp_path / "rules.cfg"
    rules.write_text("S -> 'NN' S | 'NN'\n")
    for method in ("cvb", "hastings", "gibbs"):
        for model in ([], ["--model", "pcfg", "--grammar", rules]):
            error = refused("induce", treebanks.train, *model, "--method", method)
            assert f"--method {method} is for one process, and torchrun has started several; leave out" in error


@pytest.mark.usefixtures("under_torchrun")
def test_other_processes_are_silent(call, refused, tmp_path, monkeypatch):
    missing = tmp_path / "missing.conllu"
    assert "missing.conllu" in refused("induce", missing)
    monkeypatch.setenv("RANK", "1")
    assert call("induce", missing) == (2, "", "")


def test_one_process_has_all_methods(call, treebanks, monkeypatch):
    for name, value in {**TORCHRUN, "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert call("induce", treebanks.train, "--tags", "xpos", "--method", "cvb", "--steps", 1).status == 0


def test_runs_from_before_go_on_if_they_were_exact(refused, call, treebanks, tmp_path):
    """Their settings have one more field."""
    command = ["induce", treebanks.train, "--tags", "xpos", "--method", "cvb", "--steps", 1, "--out", tmp_path]
    assert call(*command).status == 0
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for value in (None, "in 2 processes"):
        config["settings"]["approximate"] = value
        path.write_text(json.dumps(config))
        if value is None:
            assert call(*command).status == 0
    assert "a run with other settings (approximate in 2 processes, not None)" in refused(*command)


class Counted(AllReduce):
    """This process alone, which counts how often sums are put together."""

    calls = 0

    def sum(self, tensors):
        self.calls += 1
        return super().sum(tensors)


@pytest.fixture
def two_threads():
    """A start takes one, whatever there is."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("method", ["em", "vb"])
def test_a_start_shares_its_work(method, treebanks):
    corpus = Corpus.from_conllu(treebanks.train, tags="xpos").filter(6)
    grammar, found, threads = DMV(len(corpus.vocab)), {}, set()
    alpha = None if method == "em" else 0.5
    for reduce in (None, Counted()):
        settings = Settings(
            method=method, tags="xpos", max_length=6, starts=1, seed=0, alpha=alpha, init="uniform", stops="half",
            distance=0.0, noise=0.3, steps=3, tolerance=0.0, patience=1, valence_attach=False, smoothing=1e-4,
            unknown="error",
        )  # fmt: skip
        plain = grammar.initial_weights(corpus.words, "uniform")
        work = StartWork(settings, grammar, corpus.words, None, plain, dict, None, alpha, reduce)
        found[reduce], _ = pickle.loads(work(1, [], lambda text: threads.add(torch.get_num_threads())))
        assert len(found[reduce].objective) == 3
        assert reduce is None or reduce.calls >= 3
    assert threads == {1}
    alone, shared = (start.weights for start in found.values())
    for name, w in alone.items():
        torch.testing.assert_close(shared[name], w, rtol=1e-12, atol=1e-12)


@needs_pipes
def test_standard_input_and_pipes_are_for_one_process(refused, command, treebanks, monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    told = "can be read by one process only, and torchrun has started several; write it into a file"
    assert f"standard input {told}" in refused("induce", "-")
    assert f"standard input {told}" in refused("induce", treebanks.train, "--test", "-")
    with piped(treebanks.train.read_bytes()) as pipe:
        assert f"{pipe} {told}" in refused("induce", treebanks.train, "--dev", pipe)
