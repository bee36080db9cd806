# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The corpus: tensors, alphabets, vocabularies, indexing, sentences in memory."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pyrogram.data import Corpus, CorpusError, Vocabulary

CONLLU = """\
# sent_id = a
1\tThe\t_\tDET\tDT\t_\t2\t_\t_\t_
2\tdog\t_\tNOUN\tNN\t_\t3\t_\t_\t_
3\tbarks\t_\tVERB\tVBZ\t_\t0\t_\t_\t_
4\t.\t_\tPUNCT\t.\t_\t3\t_\t_\t_

# sent_id = b
1\tthe\t_\tDET\tDT\t_\t2\t_\t_\t_
2\tdog\t_\tNOUN\tNN\t_\t0\t_\t_\t_

# sent_id = c
1\t!\t_\tPUNCT\t.\t_\t0\t_\t_\t_

# sent_id = d
1\tGo\t_\tVERB\tVB\t_\t0\t_\t_\t_

"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "train.conllu"
    file.write_text(CONLLU, encoding="utf-8")
    return file


@pytest.fixture
def corpus(path: Path) -> Corpus:
    return Corpus.from_conllu(path)


def test_tensors(corpus: Corpus) -> None:
    # DET 2, NOUN 2, VERB 2: equally frequent, in alphabetical order.
    assert corpus.vocab.to_list() == [["DET", 2], ["NOUN", 2], ["VERB", 2]]
    assert corpus.words.tolist() == [[0, 1, 2], [0, 1, -1], [2, -1, -1]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [[2, 3, 0], [2, 0, -1], [0, -1, -1]]
    assert corpus.lengths.tolist() == [3, 2, 1]
    assert {t.dtype for t in (corpus.words, corpus.heads, corpus.lengths)} == {torch.int64}
    assert (len(corpus), corpus.num_words, corpus.dropped, corpus.num_unknown) == (3, 6, 1, 0)
    assert corpus.forms == [["The", "dog", "barks"], ["the", "dog"], ["Go"]]
    assert corpus.tags == [["DET", "NOUN", "VERB"], ["DET", "NOUN"], ["VERB"]]
    assert repr(corpus) == "Corpus(3 sentences, 6 words, 3 symbols, longest 3, heads)"
    assert repr(Corpus.from_sentences([["N"]])) == "Corpus(1 sentence, 1 word, 1 symbol, longest 1, no heads)"


def test_sentences_know_where_they_come_from(corpus: Corpus, path: Path) -> None:
    assert [(s.sent_id, s.line, s.source) for s in corpus] == [
        ("a", 2, str(path)),
        ("b", 8, str(path)),
        ("d", 15, str(path)),
    ]
    assert [len(s) for s in corpus.sentences] == [3, 2, 1]


@pytest.mark.parametrize(
    ("options", "symbols"),
    [
        ({"tags": "upos"}, ["DET", "NOUN", "VERB"]),
        ({"tags": "xpos"}, ["DT", "NN", "VB", "VBZ"]),
        ({"tags": "form"}, ["dog", "Go", "The", "barks", "the"]),
        ({"tags": "form", "lowercase": True}, ["dog", "the", "barks", "go"]),
        ({"tags": "upos", "punctuation": "keep"}, ["DET", "NOUN", "PUNCT", "VERB"]),
        ({"tags": "xpos", "max_length": 2}, ["DT", "NN", "VB"]),
    ],
)
def test_alphabets(path: Path, options: dict[str, Any], symbols: list[str]) -> None:
    corpus = Corpus.from_conllu(path, **options)
    assert sorted(corpus.vocab) == sorted(symbols)
    assert [corpus.vocab.decode(row) for row in corpus.words] == corpus.tags
    assert corpus.forms[-2:] == [["!"], ["Go"]] if "punctuation" in options else corpus.forms[-1:] == [["Go"]]


def test_several_files(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "more.conllu"
    other.write_text("1\tgo\t_\tVERB\tVB\t_\t0\t_\t_\t_\n", encoding="utf-8")
    both = Corpus.from_conllu([path, str(other)])
    assert both.vocab.to_list() == [["VERB", 3], ["DET", 2], ["NOUN", 2]]
    assert [Path(s.source).name for s in both] == ["train.conllu"] * 3 + ["more.conllu"]
    other.write_text("1\t.\t_\tPUNCT\t.\t_\t0\t_\t_\t_\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"more.conllu: 1 sentence is only punctuation"):
        Corpus.from_conllu([path, other])


def test_max_length_counts_words_without_punctuation(path: Path) -> None:
    assert [s.sent_id for s in Corpus.from_conllu(path, max_length=3)] == ["a", "b", "d"]
    assert [s.sent_id for s in Corpus.from_conllu(path, max_length=3, punctuation="keep")] == ["b", "c", "d"]
    two = Corpus.from_conllu(path, max_length=2)
    assert two.words.shape == (2, 2)
    assert two.vocab.counts == (1, 1, 1)
    long = Corpus.from_sentences([["N"] * 4, ["N"] * 5])
    assert len(long) == 2
    with pytest.raises(CorpusError, match="no sentence has at most 3 words; raise max_length"):
        Corpus.from_sentences([["N"] * 4, ["N"] * 5], max_length=3)


def test_concatenated_corpora() -> None:
    first = Corpus.from_sentences([["N", "V"], ["D", "N"]])
    second = Corpus.from_sentences([["V", "N", "D"]], vocab=first.vocab)
    both = Corpus.concatenate([first, second, first[:1]])
    assert both.tags == [["N", "V"], ["D", "N"], ["V", "N", "D"], ["N", "V"]] and both.vocab is first.vocab
    with pytest.raises(ValueError, match="expected at least one corpus, actual none"):
        Corpus.concatenate([])
    with pytest.raises(ValueError, match="expected corpora with one vocabulary, actual several"):
        Corpus.concatenate([first, Corpus.from_sentences([["X"]])])


class TestSharedVocabulary:
    train = Corpus.from_sentences([["N", "V"], ["N", "V", "N"], ["D", "N"]])  # N 4, V 2, D 1

    def test_same_ids(self) -> None:
        test = Corpus.from_sentences([["D", "V"]], vocab=self.train.vocab, unknown="error")
        assert test.vocab is self.train.vocab
        assert test.words.tolist() == [[2, 1]]
        assert test.num_unknown == 0

    def test_unseen_symbols_become_the_most_frequent(self) -> None:
        test = Corpus.from_sentences([["X", "V", "X"], ["D", "Y"], ["V"]], vocab=self.train.vocab)
        assert test.words.tolist() == [[0, 1, 0], [2, 0, -1], [1, -1, -1]]
        assert test.tags == [["X", "V", "X"], ["D", "Y"], ["V"]]
        assert test.num_unknown == 3
        assert [test[[i]].num_unknown for i in range(3)] == [2, 1, 0]

    def test_most_frequent_goes_by_the_counts_of_the_vocabulary(self) -> None:
        vocab = Vocabulary(("A", "B", "C"), (1, 2, 3))
        assert Corpus.from_sentences([["X", "X"]], vocab=vocab).words.tolist() == [[2, 2]]

    def test_or_are_errors(self, tmp_path: Path) -> None:
        file = tmp_path / "test.txt"
        file.write_text("D N\nD V X\n", encoding="utf-8")
        with pytest.raises(CorpusError, match="test.txt, line 2: the symbol 'X' is not in the vocabulary of 3"):
            Corpus.from_tags(file, vocab=self.train.vocab, unknown="error")

    def test_the_line_is_that_of_the_word(self, path: Path) -> None:
        vocab = Vocabulary(("DET", "NOUN"), (1, 1))
        with pytest.raises(CorpusError, match="train.conllu, line 4: the symbol 'VERB'"):
            Corpus.from_conllu(path, vocab=vocab, unknown="error")


INDICES: dict[str, tuple[Any, list[int]]] = {
    "slice": (slice(0, 2), [0, 1]),
    "slice with steps": (slice(None, None, 2), [0, 2]),
    "slice backwards": (slice(None, None, -1), [2, 1, 0]),
    "empty slice": (slice(2, 1), []),
    "list": ([2, 0, 0, -2], [2, 0, 0, 1]),
    "empty list": ([], []),
    "tuple": ((2, 1), [2, 1]),
    "list of bool": ([True, False, True], [0, 2]),
    "mask": (torch.tensor([False, True, True]), [1, 2]),
    "empty mask": (torch.zeros(3, dtype=torch.bool), []),
    "tensor": (torch.tensor([2, -3]), [2, 0]),
    "int32": (torch.tensor([1], dtype=torch.int32), [1]),
    "empty tensor": (torch.tensor([], dtype=torch.long), []),
    "scalar tensor": (torch.tensor(1), [1]),
    "array": (np.array([1, 2]), [1, 2]),
    "range": (range(1, 3), [1, 2]),
}


@pytest.mark.parametrize(("index", "rows"), INDICES.values(), ids=INDICES.keys())
def test_indexing(corpus: Corpus, index: Any, rows: list[int]) -> None:
    words, heads, lengths = [[0, 1, 2], [0, 1], [2]], [[2, 3, 0], [2, 0], [0]], [3, 2, 1]
    part = corpus[index]
    n = max((lengths[i] for i in rows), default=0)
    assert part.words.shape == (len(rows), n)
    assert part.words.dtype == torch.int64
    assert part.heads is not None
    assert part.words.tolist() == [words[i] + [-1] * (n - lengths[i]) for i in rows]
    assert part.heads.tolist() == [heads[i] + [-1] * (n - lengths[i]) for i in rows]
    assert part.lengths.tolist() == [lengths[i] for i in rows]
    assert [s.sent_id for s in part] == ["abd"[i] for i in rows]
    assert part.vocab is corpus.vocab
    assert (len(part), part.dropped) == (len(rows), 1)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        (-4, IndexError),
        ([0, 3], IndexError),
        ([True, False], IndexError),
        (torch.ones(4, dtype=torch.bool), IndexError),
        (1.0, TypeError),
        (torch.tensor([0.0, 1.0]), TypeError),
        ("a", (TypeError, ValueError)),
    ],
)
def test_wrong_indices(corpus: Corpus, index: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        corpus[index]


def test_one_sentence(corpus: Corpus) -> None:
    assert [corpus[i].sent_id for i in (0, 1, -1, np.int64(2))] == ["a", "b", "d", "d"]


def test_filter(corpus: Corpus) -> None:
    assert [s.sent_id for s in corpus.filter(max_length=2)] == ["b", "d"]
    assert [s.sent_id for s in corpus.filter(min_length=2)] == ["a", "b"]
    assert [s.sent_id for s in corpus.filter(max_length=2, min_length=2)] == ["b"]
    assert len(corpus.filter()) == 3
    assert corpus.filter(max_length=2).words.shape == (2, 2)
    nothing = corpus.filter(min_length=9)
    assert (len(nothing), nothing.words.shape, nothing.num_words) == (0, (0, 0), 0)
    assert nothing.num_nonprojective() == 0


def test_crossing_arcs() -> None:
    # 1 -> 3 crosses 2 -> 4; the root is 2, and then 1's arc from 2 as well.
    heads = [[2, 0, 1, 2], [2, 0, 2, 3], [0]]
    corpus = Corpus.from_sentences([["A"] * 4, ["A"] * 4, ["A"]], heads=heads)
    assert corpus.is_projective.tolist() == [False, True, True]
    assert corpus.num_nonprojective() == 1
    assert [s.line for s in corpus.projective()] == [2, 3]
    with pytest.raises(ValueError, match="expected a corpus with heads, actual none"):
        Corpus.from_sentences([["A"]]).projective()


def test_an_arc_of_the_wall_crosses_too() -> None:
    # 1 -> 3 passes over the root 2: in the tree with ROOT, 0 -> 2 crosses it.
    corpus = Corpus.from_sentences([["A"] * 3], heads=[[2, 0, 1]])
    assert corpus.num_nonprojective() == 1


def test_many_crossing_arcs_are_found_in_chunks() -> None:
    bad, good = [2, 0, 1, 2], [2, 0, 2, 3]
    trees = [bad + [4] * (i % 7) if i % 3 == 0 else good + [4] * (i % 7) for i in range(700)]
    corpus = Corpus.from_sentences([["A"] * len(t) for t in trees], heads=trees)
    assert corpus.is_projective.tolist() == [i % 3 != 0 for i in range(700)]


class TestFromSentences:
    def test_forms_and_heads(self) -> None:
        corpus = Corpus.from_sentences([("D", "N")], forms=[["the", "dog"]], heads=torch.tensor([[2, 0]]))  # type: ignore[arg-type]
        assert corpus.forms == [["the", "dog"]]
        assert corpus.sentences[0].xpos == ("D", "N")
        assert corpus.sentences[0].heads == (2, 0)

    def test_words_as_alphabet(self) -> None:
        corpus = Corpus.from_sentences([["The", "dog"]], tags="form", lowercase=True)
        assert (corpus.tags, corpus.forms) == ([["the", "dog"]], [["The", "dog"]])
        assert (corpus.sentences[0].upos, corpus.sentences[0].xpos) == (("_", "_"), ("_", "_"))

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"sentences": [["N"], []]}, "sentences in memory, line 2: this sentence is empty"),
            ({"sentences": []}, "there is no sentence"),
            (
                {"sentences": [["N", "V"]], "heads": [[0]]},
                "line 1: expected 2 heads, one per token, actual 1",
            ),
            (
                {"sentences": [["N", "V"]], "forms": [["a"]]},
                "line 1: expected 2 forms, one per token, actual 1",
            ),
            ({"sentences": [["N"]], "heads": [[0], [0]]}, "expected heads of 1 sentence, actual 2"),
            ({"sentences": [["N"], ["V", "V"]], "heads": [[0], [2, 1]]}, "line 2: no word has head 0"),
            ({"sentences": [["N", ""]]}, "'' is no symbol"),
            ({"sentences": [["N", 1]]}, "1 is no symbol"),
            ({"sentences": [["N", "a\ud800"]]}, r"'a\\ud800' is no symbol"),
            ({"sentences": [["N", "a\0"]]}, r"'a\\x00' is no symbol"),
            ({"sentences": [["N", " a"]]}, "' a' is no symbol"),
            ({"sentences": [["N", "w" * 10**5]], "heads": [[0, 1]], "forms": [["a", "a "]]}, "'a ' is no symbol"),
            ({"sentences": [["N"]], "forms": [["a\tb"]]}, "is no symbol"),
            ({"sentences": [["N"]], "forms": [["a"]], "tags": "form"}, "expected no forms with tags='form'"),
            ({"sentences": ["."]}, "1 sentence is only punctuation"),
        ],
    )
    def test_errors(self, arguments: dict[str, Any], problem: str) -> None:
        with pytest.raises(ValueError, match=problem):
            Corpus.from_sentences(**arguments)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tags": "pos"}, "expected tags to be one of 'upos', 'xpos', 'form', actual 'pos'"),
        ({"punctuation": "drop"}, "expected punctuation to be one of 'remove', 'keep', actual 'drop'"),
        ({"unknown": "unk"}, "expected unknown to be one of 'most_frequent', 'error', actual 'unk'"),
        ({"max_length": 0}, "expected max_length to be at least 1, or None, actual 0"),
        ({"lowercase": True}, "expected tags='form' with lowercase=True"),
    ],
)
def test_wrong_options(path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Corpus.from_conllu(path, **options)


def test_immutable_and_copied(corpus: Corpus) -> None:
    with pytest.raises(FrozenInstanceError):
        corpus.words = corpus.words  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        corpus.sentences[0].forms = ()  # type: ignore[misc]
    before = corpus.words.clone()
    corpus[:2].words.fill_(7)
    corpus[[0, 1]].words.fill_(7)
    assert torch.equal(corpus.words, before)
    for other in (pickle.loads(pickle.dumps(corpus)), copy.deepcopy(corpus)):
        assert torch.equal(other.words, corpus.words)
        assert (other.sentences, other.vocab) == (corpus.sentences, corpus.vocab)


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(CorpusError("a.txt", 3, "bad; fix it")))
    assert (str(error), error.line) == ("a.txt, line 3: bad; fix it.", 3)


def test_builtin() -> None:
    corpus = Corpus.builtin(50, seed=3)
    assert len(corpus) == 50
    assert corpus.heads is not None
    assert corpus.num_nonprojective() == 0
    again, other = Corpus.builtin(50, seed=3), Corpus.builtin(50, seed=4)
    assert again.sentences == corpus.sentences != other.sentences
    short = Corpus.builtin(50, seed=3, max_length=5, vocab=corpus.vocab)
    assert short.sentences == corpus.filter(max_length=5).sentences
    assert short.vocab is corpus.vocab


@pytest.mark.parametrize(
    "rows, options, argument, problem, advice",
    [
        ("1\tdog\t_\t_\tNN\t_\t0\t_\t_\t_", {}, "tags", "the word 'dog' has no UPOS (_)", "tags='xpos' or 'form'"),
        ("1\t_\t_\tNOUN\t_\t_\t0\t_\t_\t_", {"tags": "form"}, "tags", "column FORM is empty (_) in the", "tags='upos'"),
        ("1\ta\t_\tX\t_\t_\t_\t_\t_\t_", {"heads": "required"}, "heads", "the word has no head (_)", "heads='ignore'"),
        ("1\t.\t_\tPUNCT\t_\t_\t0\t_\t_\t_", {}, "punctuation", "1 sentence is only", "punctuation='keep'"),
        (
            "1\ta\t_\tX\t_\t_\t0\t_\t_\t_",
            {"vocab": Vocabulary.count(["Y"]), "unknown": "error"},
            "unknown",
            "the symbol 'X' is not in the vocabulary of 1 symbol",
            "unknown='most_frequent'",
        ),
        ("1\ta\t_\tX\t_\t_\t1\t_\t_\t_", {}, None, "no word has head 0; give", ""),
    ],
)
def test_errors_say_which_argument_would_help(
    tmp_path: Path, rows: str, options: dict[str, Any], argument: str | None, problem: str, advice: str
) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(rows + "\n\n")
    with pytest.raises(CorpusError) as caught:
        Corpus.from_conllu(path, **options)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.argument == argument and error.problem.startswith(problem)
    assert advice in error.advice and (";" not in error.problem or not advice)
    assert str(error) == str(caught.value)
    assert str(error).endswith(f": {error.problem}{'; ' if advice else ''}{error.advice}.")
    if argument is not None and argument != "tags":  # the advice helps
        value = error.advice.split(f"{argument}='")[1].split("'")[0]
        assert len(Corpus.from_conllu(path, **{**options, argument: value})) == 1
