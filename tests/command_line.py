# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pyrogram.cli import main
from pyrogram.data import Corpus


class Done(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Done]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        status = main([str(a) for a in arguments])
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def refused(call: Call) -> Callable[..., str]:
    """Run a command that must be refused: exit status 2, nothing on stdout, one sentence on stderr but for notes."""

    def run(*arguments: object) -> str:
        done = call(*arguments)
        assert (done.status, done.out) == (2, "")
        (line,) = (line for line in done.err.splitlines() if not line.startswith("note: "))
        assert line.startswith("pyrogram: ") and line.endswith(".")
        # It speaks of options, not of arguments in Python.
        assert not re.search(r"\b[a-z_]+=(['\"]|True|False|None)", line), line
        return line

    return run


class Treebanks(NamedTuple):
    train: Path
    dev: Path
    test: Path


@pytest.fixture(scope="session")
def treebanks(tmp_path_factory: pytest.TempPathFactory) -> Treebanks:
    folder = tmp_path_factory.mktemp("treebanks")
    made = Treebanks(*(folder / f"{name}.conllu" for name in Treebanks._fields))
    for seed, path in enumerate(made):
        Corpus.builtin(60 - 20 * seed, seed).to_conllu(path)
    return made


@pytest.fixture(scope="session")
def run_folder(treebanks: Treebanks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = ["--test", treebanks.test, "--tags", "xpos", "--starts", 3, "--steps", 6, "--out", folder]
    assert main([str(a) for a in ["induce", treebanks.train, *options]]) == 0
    return folder
