# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The command lines of the documentation, one after the other in an empty folder; and what ``data demo`` writes."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from nltk import Tree

from pyrogram import CFG, Corpus
from pyrogram.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^    (pyrogram .*)$", PAGE.partition("## `induce`")[0], re.MULTILINE)
# In this order, each as it is printed; then what else the same files are for.
LINES = [line.split("#")[0] for line in SHOWN]
LINES += """\
pyrogram induce tagged.txt --method em
pyrogram parse runs/pcfg sentences.txt --decoder viterbi --out parsed.mrg
pyrogram evaluate trees.mrg parsed.mrg --score brackets
pyrogram parse runs/parser sentences.conllu --out parsed-with-words.conllu
pyrogram reproduce lognormal train.conllu --dev dev.conllu --test test.conllu --rows em,vb-em --starts 2 --out runs/em
""".splitlines()


def cut(path: Path) -> None:
    """Leave the first sentences of a file of sentences, fifteen of training and five others."""
    kept = 15 if path.name in ("train.conllu", "tagged.txt") else 5
    between = "\n\n" if path.suffix == ".conllu" else "\n"
    path.write_text(between.join(path.read_text().split(between)[:kept]) + between)


@pytest.fixture(scope="module")
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder after all lines, and in demo/ the files that the first of them wrote; in the fast stage few of them
    have to do."""
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if not request.config.getoption("--slow"):  # pictures take long, too
            patch.setattr("reproductions.induction.pictures.find_spec", lambda name: None)
        for line in LINES:
            # What takes long is made short: fewer iterations, and no other processes.
            shorter = re.sub(r"--jobs \d+", "--jobs 1", line)
            shorter += " --steps 3" if line.split()[1] in ("induce", "train") else ""
            shorter += " --steps 2 --jobs 1" if line.split()[1] == "reproduce" else ""
            assert main(shlex.split(shorter)[1:]) == 0, line
            if line == LINES[0]:
                shutil.copytree(folder, folder / "demo")
                for path in folder.glob("*.*") if not request.config.getoption("--slow") else ():
                    if path.name != "rules.cfg":
                        cut(path)
    return folder


@pytest.mark.slow
def test_every_line_works_in_an_empty_folder(done):
    written = {"parsed.conllu", "parsed.mrg", "parsed-with-words.conllu", "tree.svg", "runs"}
    assert written <= {path.name for path in done.iterdir()}
    assert {path.name for path in (done / "runs").iterdir()} == {"vb", "pcfg", "parser", "em"}


def test_every_command_is_shown():
    from pyrogram.cli import app

    names = {c.name or c.callback.__name__ for c in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == {line.split()[1] for line in LINES}


@pytest.mark.slow
def test_the_files_are_of_the_same_sentences(done):
    train, test = (Corpus.from_conllu(done / f"{name}.conllu") for name in ("train", "test"))
    assert train.heads is not None and (len(train), len(test)) == (400, 100)
    bare = Corpus.from_conllu(done / "sentences.conllu")
    assert bare.heads is None and bare.forms == test.forms and bare.tags == test.tags
    assert [line.split() for line in (done / "sentences.txt").read_text().splitlines()] == test.forms
    assert Corpus.from_tags(done / "tagged.txt").forms == train.forms
    penn = Corpus.from_conllu(done / "train.conllu", tags="xpos")
    assert Corpus.from_tags(done / "tagged.txt").tags == penn.tags
    assert Corpus.builtin(400).heads.tolist() == penn.heads.tolist()


def test_the_rules_derive_the_trees(done):
    grammar = CFG.from_string((done / "rules.cfg").read_text())
    trees = [Tree.fromstring(line) for line in (done / "demo" / "trees.mrg").read_text().splitlines()]
    assert [tree.leaves() for tree in trees] == Corpus.from_conllu(done / "demo" / "test.conllu").forms
    for tree in trees[:20]:
        assert len(grammar.derivation_of(tree)) == len(tree.productions())


def test_other_files_are_left_alone(done, call, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev.conllu").write_text("ten years of work")
    assert "dev.conllu is there already" in refused("data", "demo")
    assert [path.name for path in tmp_path.iterdir()] == ["dev.conllu"]
    assert call("data", "demo", "new/folder").status == 0
    names = {path.name for path in (tmp_path / "new/folder").iterdir()}
    assert names == {"train.conllu", "dev.conllu", "test.conllu", "sentences.conllu", "sentences.txt"} | {
        "tagged.txt",
        "trees.mrg",
        "rules.cfg",
    }
    for name in names:
        assert (tmp_path / "new/folder" / name).read_bytes() == (done / "demo" / name).read_bytes()
    assert call("data", "demo", "new/folder").status == 0  # once more


@pytest.mark.one_in(4)
@pytest.mark.parametrize("run", ["vb", "pcfg", "parser"])
def test_the_model_card_loads_the_model(run, done, monkeypatch, capsys):
    """The card's own lines of Python and of the command line work in the folder of the run."""
    folder = done / "runs" / run
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: pyrogram\nlicense: unknown\n") and str(done) not in card
    monkeypatch.chdir(folder)
    sentences = done / ("sentences.txt" if run == "pcfg" else "sentences.conllu")
    monkeypatch.setattr("sys.argv", ["pyrogram"])
    blocks = dict(re.findall(r"```(\w*)\n(.*?)```", card, re.DOTALL))
    before = set(folder.iterdir())
    (folder / "sentences.conllu").write_text(sentences.read_text())
    try:
        found: dict[str, object] = {}
        exec(blocks["python"], found)
        for line in blocks[""].splitlines():
            options = ["--format", "tags"] if run == "pcfg" and " parse " in line else []
            assert main([*shlex.split(line)[1:], *options]) == 0
        if run == "vb":
            parsed = Corpus.from_conllu(folder / "parsed.conllu")
            assert found["heads"].tolist() == parsed.heads.tolist()  # type: ignore[attr-defined]
    finally:
        for path in set(folder.iterdir()) - before:
            path.unlink()


def test_the_model_card_says_what_was_learnt(done):
    import hashlib
    import json

    for run in ("vb", "pcfg", "parser"):
        card = (done / "runs" / run / "README.md").read_text()
        settings = json.loads((done / "runs" / run / "config.json").read_text())["settings"]
        for name, digest in settings.pop("data").items():
            assert f"| {name} | `{digest}` |" in card
        assert hashlib.sha256((done / "train.conllu").read_bytes()).hexdigest() in card or run == "pcfg"
        for name, value in settings.items():
            assert f"| {name} | {'none' if value is None else value} |" in card
        assert "licence" in card
    assert (done / "runs" / "vb" / "results.md").read_text().rstrip() in (done / "runs/vb/README.md").read_text()
