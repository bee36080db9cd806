# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Commands on files of one or two sentences of one or two words, whose shapes could be taken for others."""

from pathlib import Path
from typing import Any

import pytest

CORPORA = {"one of one": ["N"], "two of one": ["N", "N"], "two words": ["N", "V"], "two of two": ["N V", "V N"]}
TAGS = {"N": "NOUN", "V": "VERB"}


def conllu(sentences: list[str]) -> str:
    """Trees whose words have the word before for a head."""
    rows = [
        [f"{i}\t{w}\t_\t{TAGS[w]}\t{TAGS[w]}\t_\t{i - 1}\tdep\t_\t_\n" for i, w in enumerate(s.split(), 1)]
        for s in sentences
    ]
    return "".join("".join(row) + "\n" for row in rows)


@pytest.fixture(params=CORPORA)
def file(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / "text.conllu"
    path.write_text(conllu(CORPORA[request.param]))
    return path


@pytest.mark.parametrize(
    "learn",
    [
        "induce --method em",
        "induce --method cvb --valence-attach",
        "induce --method gibbs",
        "induce --tags induced:2",
        "induce --knowledge discovered",
        "induce --knowledge rules",
        "induce --knowledge languages",
        "train",
        "zero-shot",
    ],
)
@pytest.mark.one_in(40)
def test_learn_and_parse(call: Any, file: Path, tmp_path: Path, learn: str) -> None:
    command, *options = learn.split()
    run, parsed = tmp_path / "run", tmp_path / "parsed.conllu"
    if command != "zero-shot":
        assert call(command, file, *options, "--steps", 2, "--out", run).status == 0
    of = ["--zero-shot", file] if command == "zero-shot" else [run, file]
    assert call("parse", *of, "--out", parsed).status == 0
    rows = [line.split("\t") for line in parsed.read_text().splitlines() if line]
    heads = [int(row[6]) for row in rows]
    is_long = any(row[0] == "2" for row in rows)
    trees = [heads[i : i + 2] for i in range(0, len(heads), 2)] if is_long else [[h] for h in heads]
    assert all(tree in ([[0, 1], [2, 0]] if is_long else [[0]]) for tree in trees)
    assert call("evaluate", file, parsed, "--against", file).status == 0
    assert call("draw", parsed).status == 0
    if command == "induce":
        assert call("sample", run, "--num", 2).status == 0
