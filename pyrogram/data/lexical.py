# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences for lexicalised models: lower-cased words, tags, cases and heads as tensors, with punctuation marked.

A model of words knows only those of its training part. What becomes of the others is said by ``unseen``:

* ``"rare"``: a word that occurs once in training becomes the class of its shape (``UNK-ing``, ``UNK-NUM``; see
  :func:`pyrogram.data.treebank.signature`), and so does every word of other parts that the lexicon lacks. The words
  of the test part are never looked at before it is parsed.
* ``"test"``: as in Wallach, Sutton and McCallum (2008), section 3.2: words of the test part that training lacks, and
  words that occur once in training and never in the test part, become classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from pyrogram.choices import check_choice
from pyrogram.data.corpus import Corpus
from pyrogram.data.padding import pad, positions
from pyrogram.data.punctuation import is_punctuation
from pyrogram.data.records import MISSING, CorpusError, SentenceRecord
from pyrogram.data.treebank import UNKNOWN, signature
from pyrogram.data.vocabulary import Vocabulary
from pyrogram.printable import plural

Unseen = Literal["rare", "test"]
LOWER, UPPER, MIXED, FIRST = range(4)
#: What the cases are called, by number: all lower; all capitals; any other; a capital begins the sentence.
CASES = ("lower", "upper", "mixed", "first")
MIN_CLASS = 5
_ALIKE = "trees would be learnt and found of other words: leave it out of both, or of neither."


@dataclass(frozen=True)
class Lexicon:
    """The words that a model knows, and the classes of all others.

    :param vocab: known words in lower case, and classes, which are in capitals; always has ``UNK``, the class of words
        whose own class it lacks.
    """

    vocab: Vocabulary

    def __post_init__(self) -> None:
        if UNKNOWN not in self.vocab:
            raise ValueError(f"expected a vocabulary with {UNKNOWN!r}, the class of unknown words, actual without.")

    @staticmethod
    def learn(sentences: Iterable[Sequence[str]], keep: Iterable[str] = (), min_class: int = MIN_CLASS) -> Lexicon:
        """The lexicon of a training part: words that occur more than once, and classes of the others.

        :param sentences: their words, as they are written.
        :param keep: words in lower case that are known even if they occur once.
        :param min_class: a class of fewer words of the training part is not told apart from ``UNK``.
        """
        counts = Counter(form.lower() for forms in sentences for form in forms)
        kept = set(keep)
        known = {w: c for w, c in counts.items() if c > 1 or w in kept}
        unknown = Counter(word_class(w) for w in counts if w not in known)
        classes = {name: c for name, c in unknown.items() if c >= min_class and name != UNKNOWN}
        classes[UNKNOWN] = sum(unknown.values()) - sum(classes.values())
        ranked = sorted((known | classes).items(), key=lambda item: (-item[1], item[0]))
        return Lexicon(Vocabulary(tuple(w for w, _ in ranked), tuple(c for _, c in ranked)))

    def __len__(self) -> int:
        return len(self.vocab)

    def knows(self, form: str) -> bool:
        """Whether a word is one of the lexicon's own."""
        return form.lower() in self.vocab

    def symbol(self, form: str) -> str:
        """The word in lower case, or its class."""
        word = form.lower()
        if word in self.vocab:
            return word
        name = word_class(word)
        return name if name in self.vocab else UNKNOWN

    def encode(self, forms: Iterable[str]) -> list[int]:
        """The ids of the words of a sentence."""
        return [self.vocab.index(self.symbol(form)) for form in forms]


def word_class(word: str) -> str:
    """The class of a word in lower case by its digits, hyphen and ending; its case is a variable of its own."""
    return signature(word.lower(), first=False)


def cases(forms: Sequence[str]) -> list[int]:
    """The case of every word of a sentence: a number of :data:`CASES`.

    ``first`` is a capital at the beginning of the first word, marks without letters left out; elsewhere a word of
    capitals alone is ``upper``, and every other with a capital is ``mixed``, ``Bush`` and ``McDonald`` alike.
    """
    of_words, begun = [], False
    for form in forms:
        letters = [c for c in form if c.isalpha()]
        capitals = sum(c.isupper() for c in letters)
        if letters and letters[0].isupper() and not begun:
            of_words.append(FIRST)
        else:
            of_words.append(LOWER if not capitals else UPPER if capitals == len(letters) else MIXED)
        begun = begun or bool(letters)
    return of_words


@dataclass(frozen=True, eq=False, repr=False)
class LexicalCorpus:
    """N sentences of at most n tokens, punctuation included. Immutable; made by :meth:`from_corpus`.

    All tensors have shape ``(N, n)`` and are padded with -1 (the mask with False) on the right.

    :param corpus: the sentences as they were read.
    :param lexicon: names of the ids in ``words``.
    :param tag_vocab: names of the ids in ``tags``.
    :param words: ids of lower-cased words, or of their classes.
    :param tags: ids; None if the sentences have none.
    :param cases: numbers of :data:`CASES`.
    :param heads: as in CoNLL, 0 for ROOT; None if the sentences have none.
    :param lengths: number of tokens, shape ``(N,)``.
    :param is_punctuation: which tokens are punctuation: they are part of sentences and trees, and left out of scores.
    """

    corpus: Corpus
    lexicon: Lexicon
    tag_vocab: Vocabulary
    words: Tensor
    tags: Tensor | None
    cases: Tensor
    heads: Tensor | None
    lengths: Tensor
    is_punctuation: Tensor

    @classmethod
    def from_corpus(
        cls,
        corpus: Corpus,
        *,
        like: LexicalCorpus | None = None,
        unseen: Unseen = "rare",
        test: Corpus | None = None,
        min_class: int = MIN_CLASS,
        tagged: bool = True,
    ) -> LexicalCorpus:
        """Words, tags and cases of a corpus.

        :param corpus: read with ``punctuation="keep"``; its symbols are the tags.
        :param like: the training part, for any other part: its lexicon is used, and its tags must be those of
            ``corpus`` (read it with ``vocab=train.vocab``). None: ``corpus`` is the training part.
        :param unseen: which words the lexicon of a training part lacks; see the module's page.
        :param test: the test part, for ``unseen="test"`` only.
        :param min_class: a class of fewer words than that is not told apart, and is ``UNK``.
        :param tagged: False if the symbols of ``corpus`` are words (``tags="form"``) and it has no tags; with ``like``.
        :raises ValueError: if arguments do not go together, or tags are other than those of ``like``; and if one of
            the corpora has punctuation and the other is without.
        """
        check_choice("unseen", unseen, get_args(Unseen))
        if (unseen == "test") != (test is not None):
            raise ValueError("expected test, a corpus, with unseen='test', and None otherwise, actual the other way.")
        if like is None:
            if not tagged:
                raise ValueError("expected like, a training part, for a corpus without tags, actual None.")
            keep = () if test is None else {form.lower() for forms in test.forms for form in forms}
            lexicon, tag_vocab = Lexicon.learn(corpus.forms, keep, min_class), corpus.vocab
        else:
            if test is not None:
                raise ValueError("expected no test with like, whose lexicon is used, actual both.")
            lexicon, tag_vocab = like.lexicon, like.tag_vocab
            if tagged and corpus.vocab.symbols != tag_vocab.symbols:
                raise ValueError(
                    f"expected a corpus with the {len(tag_vocab)} tags of like, actual {len(corpus.vocab)} tags of its "
                    "own; read it with vocab=train.vocab."
                )
            if bool(like.is_punctuation.any()) and any(r.segments is not None for r in corpus.sentences):
                raise ValueError(f"punctuation was left out of the corpus, and not of the training part; {_ALIKE}")
        return cls.with_vocabularies(corpus, lexicon, tag_vocab, tagged=tagged)

    @classmethod
    def with_vocabularies(
        cls, corpus: Corpus, lexicon: Lexicon, tag_vocab: Vocabulary, *, tagged: bool = True
    ) -> LexicalCorpus:
        """The same by a lexicon and tags that were kept on disk.

        :raises ValueError: if the tags of the corpus are others; if it has punctuation, and the tags have none.
        """
        if tagged and corpus.vocab.symbols != tag_vocab.symbols:
            raise ValueError(f"expected a corpus with the vocabulary of {len(tag_vocab)} tags, actual another one.")
        marks = {tag for record in corpus.sentences for tag in _marks(record)} if tagged else set()
        if marks and not any(tag in tag_vocab for tag in marks):
            shown = ", ".join(sorted(marks)[:3])
            raise ValueError(f"the corpus has punctuation ({shown}), which the training part was without; {_ALIKE}")
        return cls(corpus=corpus, lexicon=lexicon, tag_vocab=tag_vocab, **_tensors(corpus, lexicon, tagged))

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        size = (
            f"{plural(len(self), 'sentence')}, {plural(self.num_tokens, 'token')}, "
            f"{plural(len(self.lexicon), 'word')}, {len(self.tag_vocab)} tags"
        )
        return f"LexicalCorpus({size}, longest {self.words.shape[1]}, {'no ' * (self.heads is None)}heads)"

    def __getitem__(self, index: slice | Sequence[int] | Sequence[bool] | Tensor) -> LexicalCorpus:
        """A smaller corpus by a slice, numbers, or a mask."""
        chosen = positions(index, len(self))
        corpus = self.corpus[chosen]
        n = corpus.words.shape[1]
        return replace(
            self,
            corpus=corpus,
            words=self.words[chosen, :n],
            tags=None if self.tags is None else self.tags[chosen, :n],
            cases=self.cases[chosen, :n],
            heads=None if self.heads is None else self.heads[chosen, :n],
            lengths=self.lengths[chosen],
            is_punctuation=self.is_punctuation[chosen, :n],
        )

    def filter(self, max_length: int | None = None) -> LexicalCorpus:
        """The sentences of at most so many tokens, punctuation counted (None: any number)."""
        return self if max_length is None else self[self.lengths <= max_length]

    def with_tags(self, tags: Tensor) -> LexicalCorpus:
        """The same sentences with other tags, such as a tagger's.

        What is punctuation by the tags of the file stays so; a token without any goes by its new tag.

        :param tags: shape ``(N, n)``, padded with -1.
        :raises ValueError: if they do not fit the sentences.
        """
        right = tags.shape == self.words.shape and torch.equal(tags >= 0, self.words >= 0)
        if not right or int(tags.max()) >= len(self.tag_vocab):
            raise ValueError(
                f"expected a tag from 0 to {len(self.tag_vocab) - 1} for each of "
                f"{plural(self.num_tokens, 'token')} and -1 as "
                f"padding, shape {tuple(self.words.shape)}, actual others in shape {tuple(tags.shape)}."
            )
        return replace(self, tags=tags.clone(), is_punctuation=self.is_punctuation | self._punctuation_by(tags))

    def _punctuation_by(self, tags: Tensor) -> Tensor:
        """Punctuation among tokens that the file has no tag of, by the tags that they are given."""
        marks = torch.tensor([is_punctuation(s, s) or is_punctuation(MISSING, s) for s in self.tag_vocab])
        without = pad([_untagged(r, i) for r in self.corpus.sentences for i in range(len(r))], self.lengths) == 1
        return marks[tags.clamp_min(0)] & without

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all sentences."""
        return int(self.lengths.sum())

    @property
    def is_scored(self) -> Tensor:
        """Which tokens count when trees are scored: all but punctuation, shape ``(N, n)``."""
        return (self.words >= 0) & ~self.is_punctuation

    @property
    def num_unknown(self) -> int:
        """Number of tokens whose word the lexicon lacks."""
        return sum(not self.lexicon.knows(form) for record in self.corpus.sentences for form in record.forms)


def _untagged(record: SentenceRecord, i: int) -> int:
    return int(record.upos[i] == MISSING and record.xpos[i] == MISSING)


def _marks(record: SentenceRecord) -> Iterator[str]:
    """The symbols of the punctuation of a sentence."""
    for upos, xpos, tag in zip(record.upos, record.xpos, record.tags, strict=True):
        if is_punctuation(upos, xpos):
            yield tag


def _tensors(corpus: Corpus, lexicon: Lexicon, tagged: bool) -> dict[str, Any]:
    records = corpus.sentences
    for record in records:
        if MISSING in record.forms and all(form == MISSING for form in record.forms):
            raise CorpusError(record.source, record.line, "this sentence has no words (_ in column FORM); give them")
    lengths = corpus.lengths
    marks = pad([int(is_punctuation(u, x)) for r in records for u, x in zip(r.upos, r.xpos, strict=True)], lengths)
    return {
        "words": pad([w for r in records for w in lexicon.encode(r.forms)], lengths),
        "tags": corpus.words if tagged else None,
        "cases": pad([c for r in records for c in cases(r.forms)], lengths),
        "heads": corpus.heads,
        "lengths": lengths,
        "is_punctuation": marks == 1,
    }
