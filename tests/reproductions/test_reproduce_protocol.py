# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce --protocol paper``: one start, all sentences, and runs that end where held-out ones say so."""

import csv
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pyrogram.cli import main
from pyrogram.data import Corpus
from pyrogram.data.lexical import LexicalCorpus
from pyrogram.grammars import LexicalTagger
from reproductions.induction.corpora import recoded
from reproductions.options import WhichProtocol, protocol_of

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")
XPOS = ["--tags", "xpos", "--jobs", 1]
ROWS = ["--rows", "em,vb-em,ln", *XPOS]


def run(*arguments):
    assert main(["reproduce", *map(str, arguments)]) == 0


def settings(folder):
    return json.loads((folder / "config.json").read_text())["settings"]


def starts(folder):
    return {path.name: load_file(path) for path in sorted((folder / "starts").iterdir())}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three files, the last of which has a tag that the others lack, and all of them in one."""
    folder = tmp_path_factory.mktemp("sentences")
    paths = [folder / f"{name}.conllu" for name in ("train", "dev", "test")]
    for i, path in enumerate(paths):
        Corpus.builtin(40 - 10 * i, i).to_conllu(path)
    text = paths[2].read_text(encoding="utf-8").replace("\tNNS\t", "\tNNPS\t")
    paths[2].write_text(text, encoding="utf-8")
    whole = folder / "whole.conllu"
    whole.write_text("".join(path.read_text(encoding="utf-8") for path in paths), encoding="utf-8")
    return [*map(str, paths), str(whole)]


@pytest.fixture(scope="module")
def paper(undrawn, files, tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "run"
    train, dev, test, _ = files
    bound = ["--max-length", 8, "--steps", 12]
    run(
        "lognormal",
        train,
        "--dev",
        dev,
        "--test",
        test,
        "--tags",
        "xpos",
        "--protocol",
        "paper",
        *ROWS,
        *bound,
        "--out",
        out,
    )
    return out


@pytest.mark.slow
def test_it_is_the_same_as_the_files_joined_by_hand(paper, files, tmp_path):
    """One start of a file that has all sentences, with the paper's rule in options of ours."""
    ends = ["--patience", 1, "--tolerance", 0, "--steps", 12, "--max-length", 8]
    out = tmp_path / "hand"
    run("lognormal", files[3], "--dev", files[1], "--starts", 1, *ROWS, *ends, "--out", out)
    mine, by_hand = starts(paper), starts(out)
    assert list(mine) == list(by_hand) == [f"{row}-001.safetensors" for row in ("em", "ln", "vb-em")]
    for name, tensors in by_hand.items():
        for key, expected in tensors.items():
            found = mine[name][key.replace("heads.0.train", "heads.0.all")]
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=0, equal_nan=True)


def test_a_run_ends_where_held_out_sentences_become_less_likely(paper):
    """And nowhere else, but at the number of steps; its best state is the one before."""
    ended = 0
    for tensors in starts(paper).values():
        curve = tensors["curve.held_out"]
        falls = curve.diff() <= 0
        assert not bool(falls[:-1].any())
        assert bool(falls[-1]) or len(curve) == 12
        ended += bool(falls[-1])
    assert ended
    text = (paper / "table.md").read_text()
    assert "have not become more likely for an iteration, and goes back to its best state, or after 12" in text


def test_all_sentences_are_one_corpus(paper, files):
    with open(paper / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {r["part"] for r in rows} == {"all"} and {r["start"] for r in rows} == {"1"}
    assert {r["corpus"] for r in rows} == {" + ".join(files[:3])}
    assert {r["sentences"] for r in rows if r["max_length"] == "all"} == {"90"}
    text = (paper / "table.md").read_text()
    assert "all sentences (90 sentences" in text and "Held-out and test sentences are among them" in text


def test_options_that_are_given_hold(files, tmp_path):
    out = tmp_path / "run"
    ends = ["--patience", 3, "--starts", 2, "--steps", 2, "--tolerance", 1e-3]
    run("cvb", files[0], "--dev", files[1], *XPOS, "--protocol", "paper", "--rows", "em", *ends, "--out", out)
    found = settings(out)
    assert (found["patience"], found["steps"], found["tolerance"], found["pooled"]) == (3, 2, 1e-3, True)
    assert len(starts(out)) == 2


def test_a_folder_has_one_protocol(paper, files, capsys):
    command = ["lognormal", files[0], "--dev", files[1], "--test", files[2], "--tags", "xpos", "--max-length", "8"]
    ends = ["--patience", "1", "--tolerance", "0", "--steps", "12"]
    assert main(["reproduce", *command, *ends, "--out", str(paper)]) == 2
    assert "pooled True, not False" in " ".join(capsys.readouterr().err.split())


def test_ours_says_nothing_of_it_in_folders(files, tmp_path):
    run("lognormal", files[0], "--dev", files[1], *XPOS, "--rows", "em", "--starts", 1, "--steps", 1, "--out", tmp_path)
    found = settings(tmp_path)
    assert "pooled" not in found and (found["patience"], found["tolerance"]) == (5, 1e-6)


def test_two_languages_and_the_built_in_corpus(call):
    done = call("reproduce", "shared", "--protocol", "paper", "--rows", "em", "--steps", 1, "--jobs", 1)
    assert done.status == 0
    assert done.out.count("all sentences (600 sentences") == 2 and ", test sentences (" not in done.out
    assert "one start" in done.out and "± over" not in done.out


def test_corpora_one_after_the_other():
    one = Corpus.from_sentences([["DT", "NN"]], heads=[[2, 0]])
    two = Corpus.from_sentences([["NN"], ["VB", "NN", "RB"]], heads=[[0], [0, 1, 1]])
    vocab = one.vocab.from_list([["NN", 3], ["DT", 1], ["VB", 1], ["RB", 1]])
    both = Corpus.concatenate([recoded(one, vocab), recoded(two, vocab)])
    assert both.words.tolist() == [[1, 0, -1], [0, -1, -1], [2, 0, 3]]
    assert both.heads.tolist() == [[2, 0, -1], [0, -1, -1], [0, 1, 1]]
    assert both.tags == one.tags + two.tags and both.lengths.tolist() == [2, 1, 3] and both.vocab == vocab


def test_files_without_heads_cannot_be_scored(refused, files, tmp_path):
    bare = tmp_path / "bare.txt"
    bare.write_text("DT NN\n", encoding="utf-8")
    message = refused("reproduce", "lognormal", files[0], "--dev", bare, "--tags", "xpos", "--protocol", "paper")
    assert "has no heads" in message


def test_a_taggers_tags(files, tmp_path):
    """Those of the tagger of the training file; words that it lacks are looked up in the test file."""
    out = tmp_path / "run"
    options = ["--rows", "dirichlet-fixed-minimal", "--jobs", 1, "--protocol", "paper", "--out", out]
    run("pitman-yor", files[0], "--test", files[1], *options)
    found = settings(out)
    assert (found["steps"], found["tags"], found["unseen"], found["tagged"]) == (50, "xpos", "test", True)
    train = Corpus.from_conllu(files[0], tags="xpos", punctuation="keep")
    test = Corpus.from_conllu(files[1], tags="xpos", punctuation="keep", vocab=train.vocab)
    ours = LexicalCorpus.from_corpus(train, unseen="test", test=test)
    theirs = LexicalCorpus.from_corpus(test, like=ours)
    sizes = {"num_tags": len(train.vocab), "num_words": len(ours.lexicon)}
    tagger = LexicalTagger.learn(ours.tags, ours.words, ours.cases, **sizes)
    right = (tagger.tag(theirs.words, theirs.cases) == theirs.tags)[theirs.is_scored].double().mean()
    assert 0.3 < right < 1
    assert f"of which {100 * float(right):.1f} % are right" in (out / "table.md").read_text()
    gold = tmp_path / "gold"
    run("pitman-yor", files[0], "--test", files[1], *options[:4], "--unseen", "test", "--starts", 1, "--out", gold)
    scores = []
    for folder in (out, gold):
        with open(folder / "results.csv", newline="") as file:
            (row,) = csv.DictReader(file)
        scores.append(row["nats"])
    assert scores[0] != scores[1] and "tagged" not in settings(gold)


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [
        ("lognormal", 1),
        ("shared", 1),
        ("cvb", 1),
        ("morphology", 5),
        ("annotations", 5),
        ("pitman-yor", 1),
        ("topics", 1),
    ],
)
def test_starts_of_the_papers(experiment, expected):
    found = [protocol_of(WhichProtocol.paper, experiment, demo).starts for demo in (False, True)]
    assert found == [expected, expected]
    assert protocol_of(WhichProtocol.ours, experiment, False).starts == 10


def test_topics(files, tmp_path):
    out = Path(tmp_path) / "run"
    run(
        "topics",
        files[0],
        "--test",
        files[1],
        "--states",
        2,
        "--sweeps",
        2,
        "--jobs",
        1,
        "--protocol",
        "paper",
        "--out",
        out,
    )
    assert settings(out)["unseen"] == "test" and len(starts(out)) == 2
