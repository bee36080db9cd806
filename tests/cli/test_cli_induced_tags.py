# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce --tags induced:K``: a grammar over classes of words, from words alone."""

import json

import pytest

CONLLU = "\n".join(
    [
        *("1\tThe\t_\t_\t_\t_\t2\t_\t_\t_", "2\tdog\t_\t_\t_\t_\t3\t_\t_\t_", "3\tbarks\t_\t_\t_\t_\t0\t_\t_\t_", ""),
        *("1\tthe\t_\t_\t_\t_\t2\t_\t_\t_", "2\tcat\t_\t_\t_\t_\t3\t_\t_\t_", "3\tsleeps\t_\t_\t_\t_\t0\t_\t_\t_", ""),
        "",
    ]
)


def test_classes_are_learnt_kept_and_used(call, refused, tmp_path):
    file, out = tmp_path / "words.conllu", tmp_path / "run"
    file.write_text(CONLLU)
    done = call("induce", file, "--tags", "induced:3", "--steps", 2, "--out", out)
    assert "3 induced classes of the words" in " ".join(done.out.split())
    kept = json.loads((out / "classes.json").read_text())
    assert set(kept["of"]) == {"the", "dog", "barks", "cat", "sleeps"}
    assert kept["of"]["the"] not in {tag for word, tag in kept["of"].items() if word != "the"}
    names = [symbol for symbol, _ in json.loads((out / "config.json").read_text())["vocabulary"]]
    assert set(names) == set(kept["of"].values())
    parsed = call("parse", out, file).out
    assert parsed.count("\n") == CONLLU.count("\n")


@pytest.mark.parametrize("tags", ["induced", "induced:1", "induced:x", "induced:1001", "pos"])
def test_other_tags_are_refused(call, refused, tmp_path, tags):
    assert f"'{tags}' is none of 'upos', 'xpos', 'form', 'induced:K'" in refused(
        "induce", tmp_path / "x", "--tags", tags
    )


def test_classes_are_for_the_dmv(call, refused, tmp_path):
    file, rules = tmp_path / "words.conllu", tmp_path / "rules.pcfg"
    file.write_text(CONLLU)
    rules.write_text("S -> 'the'\n")
    error = refused("induce", file, "--model", "pcfg", "--grammar", rules, "--tags", "induced:2")
    assert "--tags induced is for --model dmv" in error


def test_a_run_whose_classes_are_missing(call, refused, tmp_path):
    file, out = tmp_path / "words.conllu", tmp_path / "run"
    file.write_text(CONLLU)
    call("induce", file, "--tags", "induced:2", "--steps", 1, "--out", out)
    (out / "classes.json").write_text('{"of": {"the": 3}, "others": "C1"}')
    assert "classes.json is not as pyrogram wrote it" in refused("parse", out, file)
    (out / "classes.json").unlink()
    assert "classes.json is missing" in refused("parse", out, file)
