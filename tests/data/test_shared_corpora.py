# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora of other people, where they are present: counts, and head rules against given heads."""

from pathlib import Path

import pytest

from pyrogram.data import Corpus

# The numbers are those of the corpora's own description, shared/data/README.md: all sentences, and those of
# at most 10 words after punctuation is removed.
WSJ = {"train": (3401, 490), "dev": (276, 39), "test": (237, 26)}
EWT = {"train": (12544, 5386), "dev": (2001, 1160), "test": (2077, 1227)}
UD = {
    "nl_lassysmall": {"train": 6641, "dev": 350, "test": 350},
    "tr_imst": {"train": 3435, "dev": 1100, "test": 1100},
    "zh": {"train": 3997, "dev": 500, "test": 500},
}
ZH_SHORT = {"train": 426, "dev": 53, "test": 56}


def present(path: Path) -> Path:
    if not path.is_file():
        pytest.skip(f"corpus absent: {path}")
    return path


@pytest.mark.parametrize("part", WSJ)
def test_wall_street_journal(shared_data: Path, part: str) -> None:
    total, short = WSJ[part]
    given = Corpus.from_conllu(present(shared_data / f"wsj-sample/{part}.conllu"), tags="xpos", heads="required")
    assert (len(given), len(given.filter(max_length=10))) == (total, short)
    assert given.dropped == 0
    read = Corpus.from_brackets(present(shared_data / f"wsj-sample/{part}.mrg"))
    assert (len(read), len(read.filter(max_length=10))) == (total, short)
    # Punctuation and currency signs are in the brackets only; without them, the words are the same.
    assert read.forms == given.forms
    assert read.tags == given.tags
    assert read.vocab == given.vocab
    assert read.heads is not None and given.heads is not None
    same = int(((read.heads == given.heads) & (read.heads >= 0)).sum())
    assert same >= 0.99 * read.num_words


@pytest.mark.parametrize("part", EWT)
def test_english_web_treebank(shared_data: Path, part: str) -> None:
    file = present(shared_data / f"ud/en_ewt-ud-{part}.conllu")
    total, short = EWT[part]
    corpus = Corpus.from_conllu(file, heads="required")
    assert len(corpus) + corpus.dropped == total
    assert len(corpus.filter(max_length=10)) == short
    assert len(corpus.vocab) == 16  # all but PUNCT
    assert 0 < corpus.num_nonprojective() < 0.05 * total


@pytest.mark.parametrize("name", UD)
def test_other_languages(shared_data: Path, name: str, tmp_path: Path) -> None:
    train = Corpus.from_conllu(present(shared_data / f"ud/{name}-ud-train.conllu"), heads="required")
    assert len(train) + train.dropped == UD[name]["train"]
    for part in ("dev", "test"):
        file = present(shared_data / f"ud/{name}-ud-{part}.conllu")
        corpus = Corpus.from_conllu(file, heads="required", vocab=train.vocab)
        assert len(corpus) + corpus.dropped == UD[name][part]
        assert corpus.vocab is train.vocab
        if name == "zh":
            assert len(corpus.filter(max_length=10)) == ZH_SHORT[part]
        corpus.to_conllu(tmp_path / "out.conllu")
        again = Corpus.from_conllu(tmp_path / "out.conllu", vocab=train.vocab, unknown="error")
        assert again.words.tolist() == corpus.words.tolist()
        assert [s.heads for s in again] == [s.heads for s in corpus]
    if name == "zh":
        assert len(train.filter(max_length=10)) == ZH_SHORT["train"]


def test_a_treebank_without_xpos(shared_data: Path) -> None:
    file = present(shared_data / "ud/nl_lassysmall-ud-dev.conllu")
    with pytest.raises(ValueError, match=r"dev.conllu, line \d+: the word .* has no XPOS \(_\)"):
        Corpus.from_conllu(file, tags="xpos")
