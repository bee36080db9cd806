# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many trees at a time are read as one by one: the same sentences, and the same first error, of any file."""

import gzip
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import nltk
import pytest
from column_oracle import check_first_errors, outcome, records
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import PIECES, as_file

from pyrogram.data import HEAD_RULES, Corpus, bracket_columns
from pyrogram.data.brackets import read_brackets

# Many lines to a tree and many trees to a line, no label around a tree, traces, phrases of marks and of traces alone,
# function tags, white space of other kinds, a tree that is a word.
VALID = """
( (S
    (NP-SBJ-1 (DT The) (JJ big) (NN dog) )
    (ADVP-TMP|PRT (RB soon))
    (VP (MD will)
      (VP (VB want)
        (S (NP-SBJ (-NONE- *-1))
           (VP (TO to) (VP (VB see)
               (NP (NP (NNP Kim) (POS 's)) (CD two) (NNS cats))
               (PP-LOC=2 (IN in) (NP (NNP Rome))))))))
    (. .) ))

(VP (VB go))(X(VB sit)) ( (FRAG (NP (QP (CD 5) (TO to) (CD 10) ($ $)) (, ,)) (PRN (: --) (. !))) )
(NN dog) (S (PRN (: --) (. ?)) (SBAR (-NONE- 0) (S (-NONE- *T*))) (UNHEARD-OF (A\u00a0B)\t( C\u3000caf\u00e9 )))
(S (-LRB- -LRB-) (-NONE- x) (NP=2 (NP (NN a)) (CC and) (NP (NN b))) (-RRB- -RRB-))
"""
NODES = ["(", ")", "()", "( ", "(S ", "(NN x)", "(-NONE- *)", " x ", "((S ", "(. .)", "\n", ") )", "(NN x y)", "(x)"]


def mutated(rng: random.Random) -> bytes:
    """Some characters changed, once or twice or not at all."""
    text = VALID * rng.choice([1, 1, 2])
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice([*NODES, *PIECES]) + text[at + rng.choice([0, 0, 1, 2, 7]) :]
    return as_file(rng, text)


def test_valid_text_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.mrg"
    path.write_text(VALID, encoding="utf-8")
    expected = list(read_brackets(str(path)))
    assert [len(record) for record in expected] == [15, 1, 1, 7, 1, 4, 5]
    monkeypatch.setattr(bracket_columns, "trees_of", None)
    assert list(records(str(path), "brackets")) == expected
    assert [record.line for record in expected] == [2, 13, 13, 13, 14, 14, 15]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("universal", [False, True])
def test_as_one_by_one(universal: bool, tmp_path: Path) -> None:
    path, rng = tmp_path / "t.mrg", random.Random(f"trees {universal}")
    refused = 0
    for _ in range(250):
        path.write_bytes(mutated(rng))
        expected = outcome(lambda: read_brackets(str(path), universal))
        assert outcome(lambda: records(str(path), "brackets", "upos" if universal else "xpos")) == expected
        refused += len(expected) > 1
    assert 50 < refused < 225


@pytest.mark.parametrize("tags", [*(pytest.param(x, marks=pytest.mark.slow) for x in ("upos", "xpos")), "form"])
def test_first_errors_in_small_parts(tags: Any, in_small_parts: None, tmp_path: Path) -> None:
    """What is wrong with a later part of the file, or with its bytes, and what is asked of it."""
    path = tmp_path / "t.mrg"
    check_first_errors(
        path, f"corpora {tags}", mutated, lambda: read_brackets(str(path), tags == "upos"), Corpus.from_brackets, tags
    )


labels = st.sampled_from([*HEAD_RULES, "UNHEARD", "NP-SBJ", "-X-", "=1"])
words = st.sampled_from(["NN", "VB", "IN", ",", "$", "CD", "TO", "-NONE-", "-LRB-", "VBZ|NN"])
trees = st.recursive(
    words.map(lambda tag: nltk.Tree(tag, ["w"])),
    lambda inner: st.builds(nltk.Tree, labels, st.lists(inner, min_size=1, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.lists(trees, min_size=1, max_size=4))
def test_heads_of_any_tree(tmp_path_factory: pytest.TempPathFactory, made: list[nltk.Tree]) -> None:
    path = tmp_path_factory.mktemp("t") / "t.mrg"
    path.write_text("\n".join(tree.pformat(margin=30) for tree in made))
    expected = outcome(lambda: read_brackets(str(path)))
    assert outcome(lambda: records(str(path), "brackets")) == expected


def test_a_treebank(shared_data: Path, tmp_path: Path) -> None:
    """Several files, packed or not."""
    paths = [shared_data / "wsj-sample/dev.mrg", tmp_path / "test.mrg.gz"]
    if not paths[0].is_file():
        pytest.skip(f"corpus absent: {paths[0]}")
    paths[1].write_bytes(gzip.compress((shared_data / "wsj-sample/test.mrg").read_bytes()))
    expected = [record for path in paths for record in read_brackets(str(path))]
    assert [record for path in paths for record in records(str(path), "brackets")] == expected
    found = [replace(record, tags=()) for record in Corpus.from_brackets(paths, punctuation="keep")]
    assert found == expected
