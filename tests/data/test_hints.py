# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hints at heads in column MISC of CoNLL-U: what is read, written, and refused; and that they are factors of arcs."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from infer.tree_sums import derivations
from oracle import all_trees

from pyrogram import DMV
from pyrogram.data import Corpus, CorpusError
from pyrogram.distributions import Sentence
from pyrogram.infer import EM
from pyrogram.models import maximum_likelihood


def row(i: int, misc: str = "_", head: object = "_", upos: str = "NOUN") -> str:
    return f"{i}\tw\t_\t{upos}\tX\t_\t{head}\t_\t_\t{misc}"


def read(folder: Path, *sentences: list[str], **options: object) -> Corpus:
    file = folder / "c.conllu"
    file.write_text("".join("\n".join(rows) + "\n\n" for rows in sentences), encoding="utf-8")
    return Corpus.from_conllu(file, heads="partial", **options)


def scores(n: int, hints: dict[tuple[int, int], float]) -> list[list[float]]:
    """Of heads and dependents."""
    return [[hints.get((head, dependent), 0.0) for dependent in range(n + 1)] for head in range(n + 1)]


THREE = [
    row(1, "Gloss=a,b:c|HeadHint=2:1.5,3:-inf|SpaceAfter=No"),
    row(2, "HeadHint=0:-2", upos="VERB"),
    row(3, "NoHeadHint=1:2", head=1),
]


def test_hints_are_read_into_their_cells(tmp_path: Path) -> None:
    """Other keys are no hints, whatever is in them; what is shorter is padded with zeros."""
    corpus = read(tmp_path, [row(1, "HeadHint=2:3e-7"), row(2)], THREE, [row(1)])
    expected = [{(2, 1): 3e-7}, {(2, 1): 1.5, (3, 1): -math.inf, (0, 2): -2.0}, {}]
    assert corpus.arc_scores.tolist() == [scores(3, hints) for hints in expected]
    assert corpus.known_heads.tolist() == [[-1, -1, -1], [-1, -1, 1], [-1, -1, -1]]
    assert corpus[1].hints == (((2, 1.5), (3, -math.inf)), ((0, -2.0),), ()) and corpus[2].hints is None
    assert corpus[[2, 0]].arc_scores.tolist() == [scores(2, {}), scores(2, {(2, 1): 3e-7})]
    without = Corpus.from_conllu(tmp_path / "c.conllu", heads="ignore")
    assert without.arc_scores.tolist() == [scores(3, {})] * 3 and without[1].hints is None


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    corpus = read(tmp_path, THREE, [row(1, "HeadHint=2:0.1,0:1e-07"), row(2, "HeadHint=0:123456.789")])
    again = tmp_path / "again.conllu"
    corpus.to_conllu(again)
    assert [record.hints for record in Corpus.from_conllu(again, heads="partial")] == [r.hints for r in corpus]
    trees = torch.tensor([[2, 0, 1], [2, 0, -1]])
    assert "\t0\t_\t_\tHeadHint=0:-2.0\n" in corpus.to_conllu(heads=trees)
    assert "Hint" not in Corpus.from_conllu(again, heads="ignore").to_conllu()


def test_log_prob_by_listing_trees(tmp_path: Path) -> None:
    """log of the sum over trees that agree with heads of p(tree, words) exp(nats of the hints that it follows)."""
    corpus = read(tmp_path, THREE, [row(1, "HeadHint=2:0.7", head=0), row(2, "HeadHint=1:-1.25", head=1)])
    grammar = DMV(2)
    weights = grammar.initial_weights(corpus.words, "random", seed=3)
    tables = {name: w.numpy() for name, w in weights.items()}
    known = {"heads": corpus.known_heads, "arc_scores": corpus.arc_scores}
    found = Sentence(grammar, weights, known=known).log_prob(corpus.words)
    hints = [{(2, 1): 1.5, (3, 1): -math.inf, (0, 2): -2.0}, {(2, 1): 0.7, (1, 2): -1.25}]
    expected = []
    for tags, heads, own in zip(([0, 1, 0], [0, 0]), ([-1, -1, 1], [0, 1]), hints, strict=True):
        total = 0.0
        for tree, (weight, _) in zip(all_trees(len(tags), False), derivations(tags, tables), strict=True):
            if all(known in (-1, head) for known, head in zip(heads, tree, strict=True)):
                total += weight * math.exp(sum(own.get((head, c), 0.0) for c, head in enumerate(tree, 1)))
        expected.append(math.log(total))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_forbidden_head_is_never_found(tmp_path: Path) -> None:
    corpus = read(tmp_path, *[THREE] * 3)
    grammar = DMV(2)
    known = {"heads": corpus.known_heads, "arc_scores": corpus.arc_scores}
    loop = EM(maximum_likelihood).run(corpus.words, grammar, known=known, num_steps=3, progress=False)
    tree = Sentence(grammar, loop.weights(), known=known).derivation(corpus.words)
    assert tree.marginals()[:, 3, 1].tolist() == [0.0] * 3
    assert tree.mbr()[:, 2].tolist() == [1] * 3


def test_without_punctuation(tmp_path: Path) -> None:
    """Heads have other numbers; hints at punctuation go, and those of a word that hung on it."""
    sentence = [
        row(1, "HeadHint=2:9,3:1,5:2"),
        row(2, "HeadHint=1:9", head=5, upos="PUNCT"),
        row(3, "HeadHint=0:3,1:-inf"),
        row(4, "HeadHint=5:-inf,3:4", head=2),
        row(5, "HeadHint=4:-1"),
    ]
    corpus = read(tmp_path, sentence)
    assert corpus.known_heads.tolist() == [[-1, -1, 4, -1]]
    expected = {(2, 1): 1.0, (4, 1): 2.0, (0, 2): 3.0, (1, 2): -math.inf, (3, 4): -1.0}
    assert corpus.arc_scores.tolist() == [scores(4, expected)]
    kept = read(tmp_path, sentence, punctuation="keep")
    assert kept.arc_scores[0, 2, 1] == kept.arc_scores[0, 1, 2] == 9


@pytest.mark.parametrize(
    "misc, problem",
    [
        ("HeadHint=", "'' is no hint; write a head and nats, -inf to forbid it, such as HeadHint=3:1.5,4:-inf"),
        ("HeadHint", "'' is no hint"),
        ("HeadHint=1", "'1' is no hint"),
        ("HeadHint =1:2", None),
        ("HeadHint= 1:2", "' 1:2' is no hint"),
        ("HeadHint=1:2,", "'' is no hint"),
        ("HeadHint=1:2;3:4", "'1:2;3:4' is no hint"),
        ("HeadHint=1:inf", "'1:inf' is no hint"),
        ("HeadHint=1:nan", "'1:nan' is no hint"),
        ("HeadHint=1:1e7", "'1:1e7' is no hint"),
        ("HeadHint=1:-1e99", "'1:-1e99' is no hint"),
        ("HeadHint=1:1_0", "'1:1_0' is no hint"),
        ("HeadHint=one:1", "'one:1' is no hint"),
        ("HeadHint=-1:1", "'-1:1' is no hint"),
        ("HeadHint=1:1,1:2", "there are two hints at head 1 of this word; leave one"),
        ("HeadHint=1:1|HeadHint=1:2", "there are two hints at head 1 of this word; leave one"),
        ("HeadHint=1:1|HeadHint=3:2", None),
        ("HeadHint=4:1", "word 2 has a hint at head 4; heads of this word are 0 to 3, and not itself"),
        ("HeadHint=2:1", "word 2 has a hint at head 2; heads of this word are 0 to 3, and not itself"),
        ("HeadHint=3:-inf", "the hint at head 3 of word 2 forbids what column HEAD says; remove one of them"),
        ("HeadHint=0:-inf,1:-inf", None),
        ("HeadHint=0:-inf,1:-inf,3:-inf", "forbid"),
    ],
)
def test_hints_that_are_none(tmp_path: Path, misc: str, problem: str | None) -> None:
    rows = [row(1), row(2, misc, head=3), row(3)]
    if problem is None:
        assert read(tmp_path, [row(1)], rows)[1].hints is not None
        return
    with pytest.raises(CorpusError) as caught:
        read(tmp_path, [row(1)], rows)
    assert str(caught.value).startswith(f"{tmp_path / 'c.conllu'}, line 4: ") and problem in str(caught.value)
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")


@pytest.mark.parametrize("key", ["headhint", "Headhint", "HEADHINT "])
def test_keys_in_another_case_are_no_hints(tmp_path: Path, key: str) -> None:
    """Keys are case-sensitive in Universal Dependencies; but somebody seems to mean one."""
    rows = [row(1), row(2, f"Gloss=a|{key}=1:2", head=3), row(3)]
    with pytest.warns(UserWarning, match=f"line 2: '{key.strip()}' in column MISC is no hint, .*; write HeadHint$"):
        corpus = read(tmp_path, rows)
    assert corpus[0].hints is None
    assert len(Corpus.from_conllu(tmp_path / "c.conllu", heads="ignore")) == 1  # where hints are not read, silence


def test_hints_that_leave_a_word_no_head(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="line 2: the hints of word 2 forbid all heads; leave one"):
        read(tmp_path, [row(1), row(2, "HeadHint=0:-inf,1:-inf")])
