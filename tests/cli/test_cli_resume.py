# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Interrupted runs, killed runs, and folders that are not this run's."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pyrogram.cli import main
from pyrogram.cli.runs.starts import StartWork
from pyrogram.infer import GrammarLoop


def files(folder):
    """The bytes of all files."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def command(treebanks):
    options = ["--dev", treebanks.dev, "--tags", "xpos", "--starts", 3, "--patience", 4, "--tolerance", 0]
    return ["induce", treebanks.train, *options]


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([str(a) for a in [*command, "--out", folder]]) == 0
    return folder


@pytest.mark.one_in(4)
@pytest.mark.parametrize("start, iteration", [(1, 1), (2, 12), (3, 3)])
def test_ctrl_c_and_resume(start, iteration, call, command, whole, tmp_path, monkeypatch):
    def interrupt(self, number, say, loop):
        if (number, len(loop.history)) == (start, iteration):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StartWork, "_iteration", interrupt)
        done = call(*command, "--out", tmp_path / "cut")
    assert done.status == 130
    assert done.err.splitlines()[-1].startswith("pyrogram: interrupted; ")
    assert "the same command goes on" in done.err
    assert not (tmp_path / "cut" / "weights.safetensors").exists()
    assert call(*command, "--out", tmp_path / "cut").status == 0
    assert files(tmp_path / "cut") == files(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["em", *(pytest.param(m, marks=pytest.mark.slow) for m in ("cvb", "hastings", "gibbs"))]
)
def test_kill_and_resume(method, call, treebanks, tmp_path):
    options = ["--tags", "xpos", "--starts", "4", "--steps", "300", "--tolerance", "0", "--method", method]
    command = ["induce", str(treebanks.train), *options]
    assert call(*command, "--out", tmp_path / "whole").status == 0
    program = "import sys; from pyrogram.cli import main; sys.exit(main())"
    killed = subprocess.Popen(
        [sys.executable, "-c", program, *command, "--out", str(tmp_path / "cut")], stderr=subprocess.DEVNULL
    )
    second = tmp_path / "cut" / "starts" / "002.safetensors"
    deadline = time.monotonic() + 60
    while not second.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert second.exists() and not (tmp_path / "cut" / "weights.safetensors").exists()
    done = call(*command, "--out", tmp_path / "cut")
    assert done.status == 0 and "going on in" in done.err
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_finished_starts_are_not_computed_again(call, command, whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "run")

    def step(self, *args):
        raise AssertionError("computed again")

    monkeypatch.setattr(GrammarLoop, "_advance", step)
    assert call(*command, "--out", tmp_path / "run").status == 0
    assert files(tmp_path / "run") == files(whole)


def test_other_settings_are_refused_or_replace(call, refused, treebanks, tmp_path):
    command = ["induce", treebanks.train, "--tags", "xpos", "--steps", 2, "--out", tmp_path / "run"]
    assert call(*command).status == 0
    before = files(tmp_path / "run")
    error = refused(*command, "--seed", 3, "--noise", 0.5)
    assert "other settings (noise 0.3, not 0.5; seed 0, not 3)" in error and "--no-resume" in error
    assert "other train sentences" in refused("induce", treebanks.dev, *command[2:])
    assert files(tmp_path / "run") == before
    assert call(*command, "--seed", 3, "--noise", 0.5, "--no-resume").status == 0
    fresh = [*command[:-1], tmp_path / "fresh"]
    assert call(*fresh, "--seed", 3, "--noise", 0.5).status == 0
    assert files(tmp_path / "run") == files(tmp_path / "fresh")


def test_the_same_file_elsewhere_is_the_same_run(call, treebanks, tmp_path):
    copy = tmp_path / "copy.conllu"
    copy.write_bytes(treebanks.train.read_bytes())
    options = ["--tags", "xpos", "--steps", 2, "--out", tmp_path / "run"]
    assert call("induce", treebanks.train, *options).status == 0
    assert call("induce", copy, *options).status == 0


def test_a_folder_of_something_else_is_left_alone(refused, treebanks, tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    for extra in ([], ["--no-resume"]):
        assert "thesis.tex" in refused("induce", treebanks.train, "--tags", "xpos", "--out", tmp_path, *extra)
    assert (tmp_path / "thesis.tex").read_text() == "ten years of work"


def test_a_damaged_checkpoint_is_refused(call, command, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "starts" / "002.safetensors").write_bytes(b"no")
    done = call(*command, "--out", tmp_path / "run")
    assert done.status == 2
    assert "002.safetensors is not a checkpoint" in done.err and "--no-resume" in done.err
