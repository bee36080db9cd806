# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Folders and checkpoints of other versions of pyrogram: a sentence, whatever they hold."""

import json
import shutil

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pyrogram.cli.runs.folder import FORMAT


def metadata(path):
    with safe_open(path, framework="pt") as file:
        return file.metadata()


def doctor(path, **changes):
    """Change the metadata of a safetensors file."""
    save_file(load_file(path), path, {**metadata(path), **changes})


@pytest.fixture
def command(treebanks, run_folder, tmp_path):
    """The command of the finished run, on a copy."""
    shutil.copytree(run_folder, tmp_path / "run")
    options = ["--test", treebanks.test, "--tags", "xpos", "--starts", 3, "--steps", 6, "--out", tmp_path / "run"]
    return ["induce", treebanks.train, *options]


def configure(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("resume", [[], ["--no-resume"]])
def test_a_run_of_another_version(resume, refused, command, treebanks, tmp_path):
    folder = tmp_path / "run"
    configure(folder, format="pyrogram-run-0")
    for arguments in (["parse", folder, treebanks.test], ["sample", folder], [*command, *resume]):
        error = refused(*arguments)
        assert f"another version of pyrogram (pyrogram-run-0, where this one has {FORMAT})" in error


@pytest.mark.parametrize("format", [None, 3, [], {}, "other"])
def test_a_folder_with_another_format(format, refused, command, treebanks, tmp_path):
    configure(tmp_path / "run", format=format)
    assert f"its format is not {FORMAT}" in refused("parse", tmp_path / "run", treebanks.test)
    assert f"its format is not {FORMAT}" in refused(*command)


def test_a_checkpoint_of_another_version(call, command, tmp_path):
    doctor(tmp_path / "run" / "starts" / "002.safetensors", format="pyrogram-loop-0")
    done = call(*command)
    assert done.status == 2 and "Traceback" not in done.err
    (told,) = (line for line in done.err.splitlines() if line.startswith("pyrogram: "))
    assert "002.safetensors is " in told and "another version of pyrogram" in told and "--no-resume" in told
    assert call(*command, "--no-resume").status == 0


def test_checkpoints_without_metadata_or_tensors(call, command, tmp_path):
    path = tmp_path / "run" / "starts" / "001.safetensors"
    known, state = metadata(path), load_file(path)
    for tensors, told in ((state, {}), ({}, known), ({"history": state["history"]}, known)):
        save_file(tensors, path, told)
        done = call(*command)
        assert done.status == 2 and len(done.err.splitlines()[-1]) > 20 and "Traceback" not in done.err


def test_a_reproduction_of_another_version(refused, tmp_path):
    (tmp_path / "config.json").write_text('{"format": "pyrogram-reproduce-1", "version": "0.1.0", "settings": {}}')
    for resume in ([], ["--no-resume"]):
        error = refused("reproduce", "pitman-yor", "--quiet", "--out", tmp_path, *resume)
        assert "holds a reproduction of another version of pyrogram (pyrogram-reproduce-1" in error
