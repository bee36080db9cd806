# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lower-cased words and their classes, cases, punctuation."""

from pathlib import Path

import pytest
import torch

from pyrogram.data import Corpus, CorpusError, LexicalCorpus, Lexicon, Vocabulary
from pyrogram.data.lexical import FIRST, LOWER, MIXED, UPPER, cases

TRAIN = [
    ("The/DT", "dog/NN", "barked/VBD", "./."),
    ("the/DT", "Dog/NNP", "jumped/VBD", "./."),
    ("IBM/NNP", "slipped/VBD", "1990/CD", "./."),
]


def corpus(sentences: list[tuple[str, ...]], heads: bool = True, **options: object) -> Corpus:
    pairs = [[token.rsplit("/", 1) for token in s] for s in sentences]
    return Corpus.from_sentences(
        [[tag for _, tag in s] for s in pairs],
        forms=[[form for form, _ in s] for s in pairs],
        heads=[[i + 2 for i in range(len(s) - 1)] + [0] for s in sentences] if heads else None,
        punctuation="keep",
        **options,  # type: ignore[arg-type]
    )


def symbols(lexical: LexicalCorpus) -> list[list[str]]:
    return [lexical.lexicon.vocab.decode(row) for row in lexical.words]


def test_rare_words_become_classes() -> None:
    lexical = LexicalCorpus.from_corpus(corpus(TRAIN), min_class=2)
    assert symbols(lexical) == [
        ["the", "dog", "UNK-ed", "."],
        ["the", "dog", "UNK-ed", "."],
        ["UNK", "UNK-ed", "UNK", "."],  # one number alone is no class
    ]
    counts = dict(zip(lexical.lexicon.vocab, lexical.lexicon.vocab.counts, strict=True))
    assert counts == {"the": 2, "dog": 2, ".": 3, "UNK-ed": 3, "UNK": 2}
    assert lexical.num_unknown == 5


def test_other_parts_have_the_words_of_training() -> None:
    train = LexicalCorpus.from_corpus(corpus(TRAIN), min_class=2)
    test = corpus([("The/DT", "cat/NN", "talked/VBD")], vocab=train.tag_vocab)
    lexical = LexicalCorpus.from_corpus(test, like=train)
    assert symbols(lexical) == [["the", "UNK", "UNK-ed"]]
    assert lexical.tag_vocab == train.tag_vocab
    with pytest.raises(ValueError, match="tags of like, actual 1 tags of its own; read it with vocab=train.vocab"):
        LexicalCorpus.from_corpus(corpus([("The/DT",)]), like=train)


def test_punctuation_is_in_both_parts_or_in_none() -> None:
    """A model of words without punctuation knows nothing of sentences with it, nor the other way."""
    bare = [sentence[:-1] for sentence in TRAIN]
    train = LexicalCorpus.from_corpus(corpus(bare), min_class=2)
    with pytest.raises(ValueError, match=r"corpus has punctuation \(.\), which the training part was without; trees"):
        LexicalCorpus.from_corpus(corpus(TRAIN, vocab=train.tag_vocab), like=train)
    with pytest.raises(ValueError, match="which the training part was without"):
        LexicalCorpus.with_vocabularies(corpus(TRAIN, vocab=train.tag_vocab), train.lexicon, train.tag_vocab)
    marked = LexicalCorpus.from_corpus(corpus(TRAIN))
    left_out = Corpus.from_sentences([["DT", "NN", "."]], vocab=marked.tag_vocab)
    with pytest.raises(ValueError, match="punctuation was left out of the corpus, and not of the training part; trees"):
        LexicalCorpus.from_corpus(left_out, like=marked)
    for alike in (corpus(bare, vocab=marked.tag_vocab), corpus([TRAIN[0]], vocab=marked.tag_vocab)):
        assert len(LexicalCorpus.from_corpus(alike, like=marked)) == len(alike)  # a text may be without any
    both = LexicalCorpus.from_corpus(Corpus.from_sentences([["DT", "NN", "."]], heads=[[2, 0, 2]]))
    assert LexicalCorpus.from_corpus(Corpus.from_sentences([["NN", "."]], vocab=both.tag_vocab), like=both).lengths == 1


def test_the_paper_looks_at_the_test_words() -> None:
    """Words once in training stay if the test part has them; what training lacks is a class there."""
    test = corpus([("Barked/VBD", "loudly/RB")])
    train = LexicalCorpus.from_corpus(corpus(TRAIN), unseen="test", test=test, min_class=2)
    assert symbols(train)[0] == ["the", "dog", "barked", "."]
    assert symbols(train)[1] == ["the", "dog", "UNK-ed", "."]
    assert train.lexicon.encode(["loudly"]) == train.lexicon.encode(["xyz"])
    with pytest.raises(ValueError, match="expected test, a corpus, with unseen='test'"):
        LexicalCorpus.from_corpus(corpus(TRAIN), unseen="test")
    with pytest.raises(ValueError, match="expected test, a corpus"):
        LexicalCorpus.from_corpus(corpus(TRAIN), test=test)


def test_cases() -> None:
    assert cases(["The", "IBM", "McDonald", "Bush", "dog", "1990s", "1990", "A", "X-ray"]) == [
        *(FIRST, UPPER, MIXED, MIXED, LOWER, LOWER, LOWER, UPPER, MIXED)
    ]
    assert cases(["``", "The", "The"]) == [LOWER, FIRST, MIXED]
    assert cases(["iPhone", "The"]) == [MIXED, MIXED]
    assert cases(["USA"]) == [FIRST]


def test_tensors_are_padded() -> None:
    lexical = LexicalCorpus.from_corpus(corpus([*TRAIN, ("Dog/NN",)]))
    assert lexical.tags is not None and lexical.heads is not None
    for tensor in (lexical.words, lexical.tags, lexical.cases, lexical.heads):
        assert tensor.shape == (4, 4)
        assert tensor[3, 1:].tolist() == [-1] * 3 and tensor[3, 0] >= 0
    assert lexical.lengths.tolist() == [4, 4, 4, 1]
    assert lexical.is_punctuation.tolist() == [[False] * 3 + [True]] * 3 + [[False] * 4]
    assert int(lexical.is_scored.sum()) == 10
    short = lexical.filter(1)
    assert len(short) == 1 and short.words.shape == (1, 1) and short.corpus.forms == [["Dog"]]
    assert lexical[[2, 0]].corpus.forms[0][0] == "IBM"


def test_tags_of_a_tagger() -> None:
    """A file of words alone has no tags until it is given some; then they say what is punctuation."""
    train = LexicalCorpus.from_corpus(corpus(TRAIN))
    plain = Corpus.from_sentences([["The", "dog", "."], ["."]], tags="form", punctuation="keep")
    lexical = LexicalCorpus.from_corpus(plain, like=train, tagged=False)
    assert lexical.tags is None and lexical.heads is None and not lexical.is_punctuation.any()
    stop, noun = train.tag_vocab.index("."), train.tag_vocab.index("NN")
    tagged = lexical.with_tags(torch.tensor([[noun, noun, stop], [stop, -1, -1]]))
    assert tagged.is_punctuation.tolist() == [[False, False, True], [True, False, False]]
    # gold tags say what is punctuation, whatever tags are put in their place
    gold = train.with_tags(torch.where(train.words >= 0, noun, -1))
    assert torch.equal(gold.is_punctuation, train.is_punctuation)
    with pytest.raises(ValueError, match="a tag from 0 to .* for each of 4 tokens"):
        lexical.with_tags(torch.tensor([[noun, noun, -1], [stop, -1, -1]]))


def test_a_lexicon_read_back() -> None:
    train = LexicalCorpus.from_corpus(corpus(TRAIN))
    again = Lexicon(Vocabulary.from_list(train.lexicon.vocab.to_list()))
    same = LexicalCorpus.with_vocabularies(train.corpus, again, train.tag_vocab)
    assert torch.equal(same.words, train.words)
    with pytest.raises(ValueError, match="'UNK', the class of unknown words"):
        Lexicon(Vocabulary(("a",), (1,)))


def test_sentences_without_words_are_refused() -> None:
    nameless = Corpus.from_sentences([["DT"]], forms=[["_"]], punctuation="keep")
    with pytest.raises(CorpusError, match="line 1: this sentence has no words"):
        LexicalCorpus.from_corpus(nameless)


def test_a_treebank(shared_data: Path) -> None:
    ewt = Corpus.from_conllu(shared_data / "ud" / "en_ewt-ud-dev.conllu", punctuation="keep")
    lexical = LexicalCorpus.from_corpus(ewt)
    marks = sum(upos == "PUNCT" for record in ewt.sentences for upos in record.upos)
    assert int(lexical.is_punctuation.sum()) == marks
    once = {w for w, c in zip(*torch.unique(lexical.words, return_counts=True), strict=True) if c == 1}
    assert all(lexical.lexicon.vocab[int(w)].startswith("UNK") for w in once)
