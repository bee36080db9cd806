# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora for segmentation: files read back, types held out, and the generated language."""

from pathlib import Path

import pytest

from pyrogram.data import CorpusError, generated_utterances, generated_verbs, read_morphs, read_utterances


def test_morphs(tmp_path: Path) -> None:
    path = tmp_path / "verbs.tsv"
    path.write_text("uhlala\tu hlal a\ti1 vr va\n\nababhuza\ta b a bhuz a, a ba bhuz a\tr i2\nsala\tsal a\n")
    corpus = read_morphs(path)
    assert corpus.forms == ["uhlala", "ababhuza", "sala"]
    assert corpus.alternatives[1] == (("a", "b", "a", "bhuz", "a"), ("a", "ba", "bhuz", "a"))
    assert corpus.segments[1] == ("a", "b", "a", "bhuz", "a")
    assert corpus.labels == ("i1 vr va", "r i2", "")
    assert list(corpus[1:]) == corpus.segments[1:] and corpus[[2, 0]].labels == ("", "i1 vr va")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uhlala\tu hlal a\nuhlala\n", r"line 2: expected the columns word, morphs and labels, but there are 1"),
        ("uhlala\tu hlal\n", r"line 1: the morphs 'u hlal' do not make up the word 'uhlala'"),
        ("ab\ta b, a\n", r"line 1: the morphs 'a' do not make up the word 'ab'"),
    ],
)
def test_errors_of_morphs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "verbs.tsv"
    path.write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_morphs(path)


def test_utterances(tmp_path: Path) -> None:
    path = tmp_path / "speech.txt"
    path.write_text("yu want tu\n\nlUk\n")
    corpus = read_utterances(path)
    assert corpus.segments == [("yu", "want", "tu"), ("lUk",)]
    assert corpus.forms == ["yuwanttu", "lUk"]
    assert corpus.labels == () and corpus[:1].labels == ()


def test_types_are_held_out() -> None:
    corpus = generated_utterances(400, seed=1)
    train, test = corpus.split(0.1, seed=3)
    assert len(train) + len(test) == 400
    kinds = set(corpus.forms)
    assert len(set(test.forms)) == round(0.1 * len(kinds)) and not set(train.forms) & set(test.forms)
    assert corpus.split(0.1, seed=3)[1].forms == test.forms != corpus.split(0.1, seed=4)[1].forms
    assert len(corpus.split(0.0)[1]) == 0
    with pytest.raises(ValueError, match="held_out must be a share between 0 and 1, not 1.5"):
        corpus.split(1.5)


def test_the_generated_language() -> None:
    verbs = generated_verbs(150, seed=0)
    assert len(verbs) == len(set(verbs.forms)) == 150
    assert verbs == generated_verbs(150, seed=0) != generated_verbs(150, seed=1)
    assert verbs.forms[:50] == generated_verbs(50, seed=0).forms
    assert all(3 <= len(morphs) <= 6 for morphs in verbs)
    spoken = generated_utterances(100, seed=0)
    assert spoken == generated_utterances(100, seed=0) and all(1 <= len(words) <= 4 for words in spoken)
    with pytest.raises(ValueError, match="of 1 root there are hardly 1000 verbs"):
        generated_verbs(1000, num_roots=1)


def test_shared_corpora(shared_data: Path) -> None:
    for name in ("morphology/zulu_verbs.tsv", "segmentation/br-phono.txt"):
        if not (shared_data / name).is_file():
            pytest.skip(f"corpus absent: {name}")
    verbs = read_morphs(shared_data / "morphology/zulu_verbs.tsv")
    assert len(verbs) == len(set(verbs.forms)) == 6413
    assert sum(len(golds) > 1 for golds in verbs.alternatives) == 113
    train, test = verbs.split()
    assert (len(train), len(test)) == (5772, 641)
    speech = read_utterances(shared_data / "segmentation/br-phono.txt")
    assert len(speech) == 9790 and sum(map(len, speech)) == 33399
