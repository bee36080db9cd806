# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files as users have them: packed, piped, under another name, of version 1, given twice."""

import gzip
import io
import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from pipes_with_data import needs_pipes, piped
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pyrogram.data import Corpus
from pyrogram.data.builtin import generate

GRAMMAR = "S -> 'DT' S [0.3] | 'NN' S [0.3] | 'DT' [0.2] | 'NN' [0.2]\n"
BUILTIN = generate(12, 3)
TREES = "".join(s.brackets + "\n" for s in BUILTIN)


class Stdin:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.fixture
def conllu(tmp_path):
    path = tmp_path / "c.conllu"
    Corpus.from_sentences(
        [s.tags for s in BUILTIN], forms=[s.forms for s in BUILTIN], heads=[s.heads for s in BUILTIN]
    ).to_conllu(path)
    return path


def test_packed_piped_and_renamed_files_are_what_they_hold(call, conllu, tmp_path, monkeypatch):
    (tmp_path / "c.conllu.gz").write_bytes(gzip.compress(conllu.read_bytes()))
    shutil.copy(conllu, tmp_path / "c.txt")
    shutil.copy(tmp_path / "c.conllu.gz", tmp_path / "packed")
    (tmp_path / "c.mrg.gz").write_bytes(gzip.compress(TREES.encode()))
    plain = call("evaluate", conllu, conllu).out
    drawn = call("draw", conllu, "--sentence", 2).out
    for other in ("c.conllu.gz", "c.txt", "packed", "-"):
        path = other if other == "-" else tmp_path / other
        monkeypatch.setattr("sys.stdin", Stdin(conllu.read_bytes()))
        assert call("evaluate", conllu, path) == (0, plain, "")
        monkeypatch.setattr("sys.stdin", Stdin(conllu.read_bytes()))
        assert call("draw", path, "--sentence", 2).out == drawn
    scores = call("evaluate", tmp_path / "c.mrg.gz", tmp_path / "c.mrg.gz", "--score", "brackets")
    assert scores.status == 0 and "100.0" in scores.out
    monkeypatch.setattr("sys.stdin", Stdin(TREES.encode()))
    assert call("evaluate", tmp_path / "c.mrg.gz", "-", "--score", "brackets").out == scores.out


def test_learning_and_parsing_from_packed_and_piped_files(call, conllu, run_folder, tmp_path, monkeypatch):
    packed = tmp_path / "c.conllu.gz"
    packed.write_bytes(gzip.compress(conllu.read_bytes()))
    parses = call("parse", run_folder, conllu).out
    assert call("parse", run_folder, packed).out == parses
    monkeypatch.setattr("sys.stdin", Stdin(packed.read_bytes()))
    assert call("parse", run_folder, "-").out == parses
    options = ("--tags", "xpos", "--steps", 2)
    table = call("induce", conllu, *options).out
    monkeypatch.setattr("sys.stdin", Stdin(conllu.read_bytes()))
    piped = call("induce", "-", *options, "--out", tmp_path / "run")
    assert "standard input (12 sentences" in piped.out
    rows = [
        [line for line in out.splitlines() if line.startswith((" attach", " super", " vb"))]
        for out in (piped.out, table)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 4
    monkeypatch.setattr("sys.stdin", Stdin(conllu.read_bytes()))
    assert "going on" in call("induce", "-", *options, "--out", tmp_path / "run").err
    grammar = tmp_path / "g.gz"
    grammar.write_bytes(gzip.compress(GRAMMAR.encode()))
    tags = tmp_path / "tags.txt"
    tags.write_text("DT NN\nDT DT NN\n")
    assert call("induce", tags, "--model", "pcfg", "--grammar", grammar, "--method", "em", "--steps", 1).status == 0


@pytest.mark.one_in(4)
@needs_pipes
@pytest.mark.parametrize(
    "command",
    [
        "parse RUN c.conllu",
        "parse RUN crlf.conllu",
        "parse RUN c.mrg",
        "parse RUN tags.txt",
        "evaluate c.conllu c.conllu",
        "induce c.conllu --tags xpos --steps 2 --test crlf.conllu",
        "induce c.mrg --steps 2",
        "induce tags.txt --model pcfg --grammar g.pcfg --method em --steps 1",
        "train c.conllu --tags xpos --steps 1 --dev c.mrg",
    ],
)
def test_pipes_are_read_in_one_pass(command, call, conllu, run_folder, tmp_path, monkeypatch):
    """Nothing of them can be read twice, and what comes out is as of files."""
    monkeypatch.chdir(tmp_path)
    marked = b"\xef\xbb\xbf# newpar\n" + conllu.read_bytes()[:-1]
    (tmp_path / "crlf.conllu").write_bytes(marked.replace(b"\n", b"\r\n"))
    (tmp_path / "c.mrg").write_text(TREES)
    (tmp_path / "tags.txt").write_text("DT NN\nDT DT NN\n")
    (tmp_path / "g.pcfg").write_text(GRAMMAR)
    arguments = [str(run_folder) if word == "RUN" else word for word in command.split()]
    plain = call(*arguments)
    assert plain.status == 0
    with ExitStack() as stack:
        names = {}
        for i, word in enumerate(arguments):
            if Path(word).is_file():
                arguments[i] = stack.enter_context(piped(Path(word).read_bytes()))
                names[arguments[i]] = word
        done = call(*arguments)
    assert done.status == 0
    for pipe, name in names.items():
        done = done._replace(out=done.out.replace(pipe, name))
    assert done.out.split() == plain.out.split()  # tables are as wide as names of files


@needs_pipes
def test_what_cannot_be_read_again_is_told(refused, conllu):
    with piped(conllu.read_bytes()) as pipe:
        error = refused("induce", pipe)
        assert "line 1: the word " in error and "has no UPOS (_); try --tags xpos or --tags form" in error
    with piped(conllu.read_bytes()) as pipe:
        assert "was read before, and can be read only once" in refused("evaluate", pipe, pipe)


def test_damaged_packed_and_empty_piped_files(refused, conllu, tmp_path, monkeypatch):
    damaged = tmp_path / "c.conllu.gz"
    damaged.write_bytes(gzip.compress(conllu.read_bytes())[:-20])
    for arguments in (["induce", damaged], ["evaluate", damaged, conllu], ["draw", damaged], ["train", damaged]):
        assert "c.conllu.gz: the gzip file is cut off or damaged" in refused(*arguments)
    monkeypatch.setattr("sys.stdin", Stdin(b""))
    assert "standard input, line 1: the file is empty" in refused("induce", "-")


def test_dev_must_not_be_test(refused, conllu, tmp_path):
    packed = tmp_path / "other"
    packed.write_bytes(gzip.compress(conllu.read_bytes()))
    train = tmp_path / "train.conllu"
    train.write_text(conllu.read_text() * 2)
    for command in (["induce", train], ["train", train], ["reproduce", "lognormal", train]):
        error = refused(*command, "--dev", conllu, "--test", packed)
        assert "--dev and --test are the same sentences; leave out --test, or give others" in error


def test_train_as_test_is_said(call, conllu):
    done = call("induce", conllu, "--test", conllu, "--tags", "xpos", "--steps", 1)
    assert done.status == 0
    assert "note: --test has the sentences of TRAIN: its scores are not of unseen sentences" in done.err


def test_conj_of_version_1_is_said(call, tmp_path):
    path = tmp_path / "v1.conllu"
    path.write_text("1\tand\t_\tCONJ\tCC\t_\t2\t_\t_\t_\n2\tb\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n\n")
    done = call("induce", path, "--steps", 1)
    assert done.status == 0 and "CONJ, 1 word, is read as CCONJ, its name since version 2 of UD" in done.err


@pytest.fixture
def broken(run_folder, tmp_path):
    copy = tmp_path / "broken"
    shutil.copytree(run_folder, copy)
    return copy


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["settings"].update(smoothing=10**400), "a number is too large"),
        (lambda c: c["settings"].update(smoothing="0.5"), "an entry is of another kind"),
        (lambda c: c["settings"].update(smoothing=1.0), "config.json is not as pyrogram wrote it"),
        (lambda c: c["vocabulary"].__setitem__(0, ["a\ud800", 3]), "half of a surrogate pair"),
        (lambda c: c["vocabulary"].clear(), "config.json is not as pyrogram wrote it"),
        (lambda c: c.update(settings=[]), "an entry is of another kind"),
    ],
    ids=["beyond float", "a number as text", "all smoothing", "surrogate", "no symbols", "a list"],
)
def test_settings_that_cannot_be(change, expected, refused, broken):
    config = json.loads((broken / "config.json").read_text())
    change(config)
    (broken / "config.json").write_text(json.dumps(config))
    error = refused("sample", broken)
    assert expected in error and "config.json" in error


def test_tensors_that_cannot_be(refused, broken, treebanks):
    path = broken / "weights.safetensors"
    weights = load_file(path)
    save_file({**weights, "root": weights["root"].to(torch.float16)}, path)
    assert "weights.safetensors" in refused("sample", broken)
    save_file({name: torch.zeros(0) for name in weights}, path)
    assert "weights.safetensors" in refused("sample", broken)
    (broken / "weights.safetensors").unlink()
    (broken / "weights.safetensors").mkdir()
    assert "weights.safetensors" in refused("sample", broken)
    for number, change in enumerate((lambda t: t[:0].clone(), lambda t: t.clone().fill_(0.5), lambda t: t.int())):
        start = broken / "starts" / f"{number + 1:03d}.safetensors"
        with safe_open(start, "pt") as file:
            metadata = file.metadata()
        state = load_file(start)
        name = next(name for name in state if state[name].dim() and state[name].numel() > 1)
        whole = start.read_bytes()
        save_file({**state, name: change(state[name])}, start, metadata)
        options = ["--tags", "xpos", "--starts", 3, "--steps", 6, "--out", broken]
        error = refused_at(refused, "induce", treebanks.train, "--test", treebanks.test, *options)
        assert f"{start} is damaged: its tensors are not those that were saved" in error
        start.write_bytes(whole)


def refused_at(refused, *arguments):
    """Refused after a note or two."""
    call = refused.__closure__[0].cell_contents
    done = call(*arguments)
    assert (done.status, done.out) == (2, "")
    return done.err.splitlines()[-1]
