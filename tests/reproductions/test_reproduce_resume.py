# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce`` interrupted, killed, extended, in several processes; and folders that are not its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from pyrogram.cli import main
from pyrogram.cli.io.progress import Bar
from reproductions.induction.study import Study

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")


def files(folder):
    """The bytes of all files."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def command(treebanks):
    files = ["--dev", treebanks.dev, "--test", treebanks.test, "--tags", "xpos"]
    rows = ["--rows", "attach-right,em,vb-em,ln"]
    return ["reproduce", "lognormal", treebanks.train, *files, *rows, "--steps", 3, "--starts", 2]


@pytest.fixture(scope="module")
def whole(undrawn, command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([str(a) for a in [*command, "--jobs", 1, "--out", folder]]) == 0
    return folder


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_and_resume(jobs, call, command, whole, tmp_path, monkeypatch):
    finished = Bar.finished

    def interrupt(self, task, line):
        finished(self, task, line)
        if self.done == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Bar, "finished", interrupt)
        done = call(*command, "--jobs", jobs, "--out", tmp_path / "cut")
    assert done.status == 130
    assert done.err.splitlines()[-1].startswith("pyrogram: interrupted; ")
    assert not active_children()
    assert len(list((tmp_path / "cut" / "starts").iterdir())) == 3
    assert not (tmp_path / "cut" / "table.md").exists()
    done = call(*command, "--jobs", jobs, "--out", tmp_path / "cut")
    assert done.status == 0 and "which has 3 of 7 starts of rows" in done.err
    assert files(tmp_path / "cut") == files(whole)


@pytest.mark.slow
def test_kill_and_resume_with_other_jobs(call, command, whole, tmp_path):
    program = "import sys; from pyrogram.cli import main; sys.exit(main())"
    arguments = [str(a) for a in [*command, "--jobs", 2, "--out", tmp_path / "cut"]]
    killed = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.DEVNULL)
    starts = tmp_path / "cut" / "starts"
    deadline = time.monotonic() + 300
    while (not starts.exists() or len(list(starts.glob("[!.]*"))) < 2) and time.monotonic() < deadline:
        assert killed.poll() is None
        time.sleep(0.001)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (tmp_path / "cut" / "table.md").exists()
    done = call(*command, "--jobs", 1, "--out", tmp_path / "cut")
    assert done.status == 0 and "going on in" in done.err
    assert files(tmp_path / "cut") == files(whole)


def test_finished_starts_are_not_computed_again(call, command, whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "run")

    def work(self, key, earlier, say):
        raise AssertionError("computed again")

    monkeypatch.setattr(Study, "__call__", work)
    done = call(*command, "--out", tmp_path / "run")
    assert done.status == 0 and "which has 7 of 7" in done.err
    assert files(tmp_path / "run") == files(whole)


def test_more_starts_and_rows_add_to_what_is_there(call, command, whole, tmp_path):
    fewer = [*command, "--jobs", 1, "--out", tmp_path / "run", "--starts", 1, "--rows", "em"]
    assert call(*fewer).status == 0
    done = call(*command, "--jobs", 1, "--out", tmp_path / "run")
    assert done.status == 0 and "which has 1 of 7" in done.err
    assert files(tmp_path / "run") == files(whole)


def test_other_settings_are_refused_or_replace(call, refused, command, whole, treebanks, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    before = files(folder)
    error = refused(*command, "--out", folder, "--seed", 3, "--dev-max-length", 9)
    assert "other settings (dev-max-length None, not 9; seed 0, not 3)" in error and "--no-resume" in error
    assert "other dev sentences" in refused(*command, "--dev", treebanks.train, "--out", folder)
    assert "table lognormal, not shared" in refused(
        "reproduce", "shared", *command[2:-6], "--steps", 3, "--out", folder
    )
    assert files(folder) == before
    few = ["--rows", "em", "--seed", 3, "--jobs", 1]
    assert call(*command, *few, "--out", folder, "--no-resume").status == 0
    assert call(*command, *few, "--out", tmp_path / "fresh").status == 0
    assert files(folder) == files(tmp_path / "fresh")


def test_folders_of_something_else_are_left_alone(refused, command, run_folder, tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    copy = tmp_path / "induction"
    shutil.copytree(run_folder, copy)
    for folder in (tmp_path, copy):
        before = files(folder) if folder == copy else None
        for extra in ([], ["--no-resume"]):
            assert "no reproduction" in refused(*command, "--out", folder, *extra)
        assert before is None or files(folder) == before
    assert (tmp_path / "thesis.tex").read_text() == "ten years of work"


def test_damaged_and_foreign_starts(refused, command, whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    file = folder / "starts" / "em-002.safetensors"
    good = file.read_bytes()
    size = int.from_bytes(good[:8], "little")
    header = json.loads(good[8 : 8 + size])
    other = {**header, "__metadata__": {**header["__metadata__"], "result": "{}"}}
    text = json.dumps(other).encode()
    for bad in (b"", b"no", good[:-1], good[: size // 2], len(text).to_bytes(8, "little") + text + good[8 + size :]):
        file.write_bytes(bad)
        error = refused(*command, "--out", folder)
        assert "em-002.safetensors is not as pyrogram wrote it; delete it" in error
    shutil.copy(folder / "starts" / "ln-001.safetensors", file)
    assert "em-002.safetensors is of another reproduction" in refused(*command, "--out", folder)
    (folder / "config.json").write_text("{")
    assert "no JSON" in refused(*command, "--out", folder)


OPTIONS = [
    ([], ["--rows", "em,cvb"], "no row 'cvb' in this table, only attach-right, em"),
    ([], ["--rows", ","], "--rows needs at least one of"),
    ([], ["--dev", None], "give --dev"),
    ([], ["--init", "supervised"], "--init supervised"),
    ([], ["--tags", "form", "--rows", "ln-families", "--dev", "TRAIN"], "no Penn or universal tags"),
    ([], ["--jobs", "0"], "--jobs"),
    ([], ["--noise", "0", "--starts", "2"], "the same"),
    ([], ["--out", "FILE/run"], "cannot be made"),
    (["FILE"], [], "takes one corpus"),
    (["shared", "FILE"], [], "give --dev2"),
    (["shared"], ["--dev2", "FILE"], "give TRAIN2"),
    (["shared"], ["--rows", "bilingual-v"], "needs a second language"),
]


@pytest.mark.parametrize("more, options, expected", OPTIONS, ids=[" ".join(map(str, m + o)) for m, o, _ in OPTIONS])
def test_options(more, options, expected, refused, treebanks):
    named = {"--dev": treebanks.dev, "--tags": "xpos"}
    named |= dict(zip(options[::2], options[1::2], strict=True))
    rest = [part for name, value in named.items() if value is not None for part in (name, value)]
    table = "shared" if "shared" in more else "lognormal"
    arguments = [table, treebanks.train, *(m for m in more if m != "shared"), *rest]
    paths = {"FILE": str(treebanks.test), "TRAIN": str(treebanks.train)}
    for name, path in paths.items():
        arguments = [str(a).replace(name, path) for a in arguments]
    assert expected in refused("reproduce", *arguments)


def test_files_that_cannot_be_used(refused, treebanks, tmp_path):
    assert "leave out --dev" in refused("reproduce", "lognormal", "--dev", treebanks.dev)
    assert "TABLE" in refused("reproduce", "wsj")
    bare = tmp_path / "bare.conllu"
    lines = [line.split("\t") for line in treebanks.test.read_text().splitlines()]
    bare.write_text("\n".join("\t".join([*f[:6], "_", *f[7:]]) if len(f) > 1 else f[0] for f in lines) + "\n\n")
    options = ["--dev", bare, "--tags", "xpos", "--rows", "em"]
    assert "has no heads" in refused(
        "reproduce", "lognormal", treebanks.train, "--dev", treebanks.dev, *options[2:], "--test", bare
    )
    assert "head" in refused("reproduce", "lognormal", bare, *options)
    tree = tmp_path / "verbs.mrg"
    tree.write_text("(S (VP (VBZ eats) (NN fish)))\n" * 3)
    options = ["--dev", tree, "--rows", "tie-a"]
    for option in ("--max-length", "--dev-max-length"):
        error = refused("reproduce", "lognormal", tree, "--dev", tree, option, 1)
        assert f"{option} 1 leaves no sentence of {tree}, whose shortest has 2 words" in error
    assert "row tie-a" in (error := refused("reproduce", "shared", tree, *options)) and "nothing to tie" in error
