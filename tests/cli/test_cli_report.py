# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What tables say in words: results below the baselines, and what "supervised" means."""

import csv

import pytest

from pyrogram.cli.io.baselines import below_baselines
from pyrogram.cli.runs.report import SUPERVISED

# Every word's head is the next one (of the last, ROOT), where attach-right is never wrong; or the one before.
RIGHT = "1\ta\t_\tX\tX\t_\t2\t_\t_\t_\n2\tb\t_\tY\tY\t_\t3\t_\t_\t_\n3\tc\t_\tZ\tZ\t_\t0\t_\t_\t_\n\n"
LEFT = RIGHT.replace("\t2\t_", "\t0\t_").replace("\t3\t_", "\t1\t_").replace("Z\t_\t0", "Z\t_\t2")


def test_the_sentence():
    assert below_baselines("vb", 0.5, {"attach-left": 0.4, "attach-right": 0.5}) == []
    assert below_baselines("vb", None, {"attach-left": 0.4}) == below_baselines("vb", 0.1, {"attach-left": None}) == []
    (told,) = below_baselines("vb", 0.25, {"attach-left": 0.2, "attach-right": 0.306})
    assert told.startswith("vb is below attach-right: 25.0 % of the heads of all sentences are right")
    assert told.endswith("has 30.6 %.")


@pytest.mark.parametrize("starts", [1, 3])
def test_induce_says_that_it_is_below_attach_right(starts, call, tmp_path):
    """It begins at trees that go the other way than those it is scored by, so that no head is right."""
    train, test, out = tmp_path / "train.conllu", tmp_path / "test.conllu", tmp_path / "run"
    train.write_text(LEFT * 4)
    test.write_text(RIGHT * 2)
    options = ["--test", test, "--steps", 1, "--init", "supervised", "--starts", starts, "--out", out]
    done = call("induce", train, *options)
    assert done.status == 0
    told = " ".join(done.out.split())
    assert "is below attach-right: 0.0 % of the heads of all sentences are right, where" in told
    assert "has learnt nothing, has 100.0 %." in told and "is below attach-left" not in told  # both have none
    assert ("3 of the 3 starts are below attach-left or attach-right." in told) == (starts > 1)
    assert "is below attach-right" in (out / "results.md").read_text()


def test_a_better_result_says_nothing(call, treebanks):
    done = call("induce", treebanks.train, "--tags", "xpos", "--init", "supervised", "--steps", 1)
    assert done.status == 0 and "is below" not in done.out


def test_supervised_is_the_same_grammar_in_every_table(call, treebanks, tmp_path):
    """Of the same sentences, induce, train and reproduce have the same row; --init supervised begins at it."""
    longest = ["--max-length", 100]
    common = ["--tags", "xpos", "--test", treebanks.test]
    first = ["induce", treebanks.train, *common, *longest, "--steps", 1, "--out", tmp_path / "a"]
    assert call(*first, "--init", "supervised", "--tolerance", 0).status == 0
    assert call("train", treebanks.train, *common, "--steps", 1, "--out", tmp_path / "b").status == 0
    third = ["reproduce", "lognormal", treebanks.train, *common, *longest, "--dev", treebanks.dev, "--jobs", 1]
    done = call(*third, "--rows", "supervised", "--out", tmp_path / "c")
    assert done.status == 0 and "supervised DMV" in done.out
    scores = {}
    for name in "ab":
        with open(tmp_path / name / "results.csv", newline="") as file:
            scores[name] = {
                (r["decoder"], r["max_length"]): float(r["directed"])
                for r in csv.DictReader(file)
                if r["system"] == "supervised"
            }
    with open(tmp_path / "c" / "results.csv", newline="") as file:
        lines = [r for r in csv.DictReader(file) if r["row"] == "supervised" and r["part"] == "test"]
    scores["c"] = {(r["decoder"], r["max_length"]): float(r["directed"]) for r in lines}
    assert scores["a"] == scores["b"] and len(scores["a"]) == 8 and len(scores["c"]) >= 6
    assert scores["c"].items() <= scores["a"].items()  # lengths of which there are no longer sentences are left out
    for name in ("a/results.md", "b/results.md", "c/table.md"):
        assert SUPERVISED in (tmp_path / name).read_text()


def test_evaluate_says_that_a_file_is_below_attach_right(call, tmp_path):
    gold, wrong = tmp_path / "gold.conllu", tmp_path / "wrong.conllu"
    gold.write_text(RIGHT * 3)
    wrong.write_text(RIGHT + LEFT * 2)  # a third is right
    done = call("evaluate", gold, wrong)
    told = " ".join(done.out.split())
    assert done.status == 0
    assert f"{wrong} is below attach-right: 33.3 % of the heads of all sentences are right" in told
    assert "is below attach-left" not in told
    assert "is below" not in call("evaluate", gold, gold).out
