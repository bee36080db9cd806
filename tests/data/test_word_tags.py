# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from pyrogram.data import Corpus, WordTags

TAGGER = WordTags({"the": "D", "dog": "N", "Dog": "P", "barks": "V"}, others="N")


def test_words_are_looked_up_as_written_and_then_in_lower_case() -> None:
    assert TAGGER.tags(["The", "Dog", "DOG", "cat"]) == ("D", "P", "N", "N")


def test_a_corpus_keeps_all_but_its_symbols() -> None:
    corpus = Corpus.from_sentences(
        [["DT", "NN", "VBZ"], ["NN"]], forms=[["The", "cat", "barks"], ["dog"]], heads=[[2, 3, 0], [0]]
    )
    tagged = TAGGER(corpus)
    assert tagged.tags == [["D", "N", "V"], ["N"]]
    assert tagged.vocab.to_list() == [["N", 2], ["D", 1], ["V", 1]]
    assert tagged.words.tolist() == [[1, 0, 2], [0, -1, -1]]
    assert tagged.heads is not None and corpus.heads is not None and tagged.heads.equal(corpus.heads)
    assert tagged.forms == corpus.forms and corpus.tags == [["DT", "NN", "VBZ"], ["NN"]]


def test_a_vocabulary_can_be_given() -> None:
    vocab = TAGGER(Corpus.from_sentences([["barks", "dog"]], tags="form")).vocab
    tagged = TAGGER(Corpus.from_sentences([["dog", "the"]], tags="form"), vocab)
    assert tagged.vocab == vocab and tagged.words.tolist() == [[0, 0]]  # the most frequent in place of D
