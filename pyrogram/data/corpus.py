# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A corpus: sentences as tensors of words and heads, with the vocabulary that names the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, TextIO, get_args, overload

import torch
from torch import Tensor

from pyrogram.choices import check_choice
from pyrogram.data.batches import Batches, rows_by_length
from pyrogram.data.columns import ALL, Columns, Sentences
from pyrogram.data.conllu import Heads
from pyrogram.data.disk_cache import cached
from pyrogram.data.export import conllu_text, graph
from pyrogram.data.files import StrPath, as_paths, write
from pyrogram.data.gathering import concatenate, in_columns
from pyrogram.data.heads import rows_of_heads, without_crossing_arcs
from pyrogram.data.padding import pad, positions
from pyrogram.data.reading import Reader, read, reader_of
from pyrogram.data.records import Alphabet, SentenceRecord
from pyrogram.data.selection import (
    IN_MEMORY,
    Options,
    Paths,
    Punctuation,
    Selection,
    codes,
    in_memory,
    select,
)
from pyrogram.data.strings import Ints, Strings
from pyrogram.data.vocabulary import Unknown, Vocabulary
from pyrogram.printable import plural

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """N sentences of at most n words. Immutable: indexing and filtering give new corpora.

    Made by :meth:`from_conllu`, :meth:`from_brackets`, :meth:`from_tags`, :meth:`from_sentences` and
    :meth:`builtin`, which share these arguments:

    * ``tags``: the alphabet of the words: ``"upos"`` (universal tags), ``"xpos"`` (the treebank's own) or
      ``"form"`` (the words themselves, with ``lowercase=True`` in lower case). The universal tag ``CONJ`` of version 1
      is read as ``CCONJ``, its name since version 2, unless ``vocab`` has ``CONJ``.
    * ``punctuation``: ``"remove"`` leaves out tokens tagged UPOS ``PUNCT`` or, where there is no UPOS, one of
      :data:`~pyrogram.data.PENN_PUNCTUATION` (which has the currency signs); words that hung on them go to
      their nearest kept ancestor, and if several would hang on ROOT, the first becomes head of the
      others. A sentence of nothing but punctuation vanishes and is counted in :attr:`dropped`. ``"keep"``
      keeps all. Tokens without any tag are kept.
    * ``max_length``: keep sentences of at most so many words, punctuation not counted; None keeps all.
    * ``vocab``: None counts the symbols of the sentences kept. For development and test data, give the
      vocabulary of the training data, and ids mean the same; symbols that it lacks are then replaced by its
      most frequent symbol with ``unknown="most_frequent"``, so that every sentence has a parse (they are
      counted in :attr:`num_unknown`), and raise with ``unknown="error"``.

    * ``path_or_paths``, of those that read files: one or several, packed (``.gz``) or not; ``"-"`` is standard input,
      which can be read only once, as pipes can.
    * ``cache``, of those that read files: True keeps the corpus in a folder of the user's cache
      (``PYROGRAM_CACHE_DIR``), a path in that folder. The next time it comes from there, unless a file or an option
      has changed.

    Bad input, and a file of which nothing is left, raise :class:`~pyrogram.data.CorpusError` with the line.

    ``corpus[3]`` is a sentence, a :class:`SentenceRecord`, and iteration gives all of them; ``corpus[idx]`` with a
    slice, numbers or a mask is a corpus, too, with the same vocabulary, padded to its own longest sentence.

    >>> corpus = Corpus.from_sentences([["DT", "NN", "VBZ"], ["NN", "VBZ"]], heads=[[2, 3, 0], [2, 0]])
    >>> corpus.vocab.symbols
    ('NN', 'VBZ', 'DT')
    >>> corpus.words
    tensor([[ 2,  0,  1],
            [ 0,  1, -1]])

    :param columns: the N sentences: tokens, tags, heads, and where each comes from.
    :param vocab: names of the ids in ``words``.
    :param dropped: how many sentences vanished while reading because they were only punctuation.
    """

    columns: Columns
    vocab: Vocabulary
    dropped: int = 0

    @classmethod
    def from_conllu(
        cls,
        path_or_paths: Paths,
        *,
        tags: Alphabet = "upos",
        vocab: Vocabulary | None = None,
        punctuation: Punctuation = "remove",
        max_length: int | None = None,
        unknown: Unknown = "most_frequent",
        heads: Heads = "optional",
        lowercase: bool = False,
        cache: bool | StrPath = False,
    ) -> Corpus:
        """Read CoNLL-U: one file or several. Multiword ranges and empty nodes are left out.

        :param heads: ``"optional"``: if no word has a head (``_``), the corpus has none; ``"required"``: that
            is an error; ``"partial"``: the heads of any words may be unknown, see :attr:`known_heads`, and column MISC
            may have hints, see :attr:`arc_scores`; ``"ignore"``: the column is not read, whatever it holds.

        The other arguments are those of all corpora, see :class:`Corpus`.
        """
        check_choice("heads", heads, get_args(Heads))
        options = Options(tags, vocab, punctuation, max_length, unknown, lowercase, heads == "partial")
        return cls._read(path_or_paths, reader_of("conllu", tags, heads), f"conllu {heads}", options, cache)

    @classmethod
    def from_brackets(
        cls,
        path_or_paths: Paths,
        *,
        tags: Alphabet = "xpos",
        vocab: Vocabulary | None = None,
        punctuation: Punctuation = "remove",
        max_length: int | None = None,
        unknown: Unknown = "most_frequent",
        lowercase: bool = False,
        cache: bool | StrPath = False,
    ) -> Corpus:
        """Read bracketed trees of the Penn treebank; heads come from :mod:`pyrogram.data.head_rules`.

        The tags are the treebank's own (XPOS), or universal ones with ``tags="upos"``. Traces and function
        tags are left out. The arguments are those of all corpora, see :class:`Corpus`.
        """
        options = Options(tags, vocab, punctuation, max_length, unknown, lowercase)
        return cls._read(path_or_paths, reader_of("brackets", tags), "brackets", options, cache)

    @classmethod
    def from_tags(
        cls,
        path_or_paths: Paths,
        *,
        tags: Alphabet = "xpos",
        vocab: Vocabulary | None = None,
        punctuation: Punctuation = "remove",
        max_length: int | None = None,
        unknown: Unknown = "most_frequent",
        lowercase: bool = False,
        cache: bool | StrPath = False,
    ) -> Corpus:
        r"""Read plain text, a sentence to a line; it has no heads.

        Tokens are ``word/TAG`` (a slash of a word is ``\/``), or tags alone if no token of the file has a
        slash, or words alone if, besides, ``tags="form"``. The tags are the treebank's own (XPOS), or
        universal ones with ``tags="upos"``. The arguments are those of all corpora, see :class:`Corpus`.
        """
        options = Options(tags, vocab, punctuation, max_length, unknown, lowercase)
        return cls._read(path_or_paths, reader_of("tags", tags), "tags", options, cache)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        forms: Iterable[Sequence[str]] | None = None,
        heads: Iterable[Sequence[int]] | None = None,
        tags: Alphabet = "xpos",
        vocab: Vocabulary | None = None,
        punctuation: Punctuation = "remove",
        max_length: int | None = None,
        unknown: Unknown = "most_frequent",
        lowercase: bool = False,
    ) -> Corpus:
        """A corpus of sentences in memory.

        :param sentences: the symbols of each sentence: tags of the kind that ``tags`` says, or words.
        :param forms: the words of each sentence; None: the symbols. Not with ``tags="form"``.
        :param heads: the heads of each sentence, 0 for ROOT.

        The others are those of all corpora, see :class:`Corpus`. Errors give the number of the sentence.
        """
        if tags == "form" and forms is not None:
            raise ValueError("expected no forms with tags='form', whose sentences are the forms, actual both.")
        options = Options(tags, vocab, punctuation, max_length, unknown, lowercase)
        return cls._of(select([(IN_MEMORY, in_columns(in_memory(sentences, forms, heads, tags)))], options))

    @classmethod
    def builtin(
        cls,
        num_sentences: int = 1000,
        seed: int = 0,
        *,
        max_length: int | None = None,
        vocab: Vocabulary | None = None,
    ) -> Corpus:
        """English sentences with Penn tags and heads that a grammar of our own makes up; no file is needed.

        :param seed: the same seed gives the same sentences.
        """
        from pyrogram.data.builtin import generate  # on demand: reading files does not need it

        sentences = generate(num_sentences, seed)
        tags, forms, heads = ([getattr(s, name) for s in sentences] for name in ("tags", "forms", "heads"))
        return cls.from_sentences(tags, forms=forms, heads=heads, max_length=max_length, vocab=vocab)

    @classmethod
    def _read(cls, paths: Paths, reader: Reader, name: str, options: Options, cache: bool | StrPath) -> Corpus:
        files = as_paths(paths)
        return cls._of(cached(cache, name, files, options, lambda: read(files, reader, options)))

    @classmethod
    def _of(cls, selection: Selection) -> Corpus:
        return cls(selection.columns, selection.vocab, selection.dropped)

    @staticmethod
    def concatenate(corpora: Sequence[Corpus]) -> Corpus:
        """The sentences of corpora with one vocabulary, one corpus after the other.

        :raises ValueError: if there is none, or the vocabularies differ.
        """
        if not corpora:
            raise ValueError("expected at least one corpus, actual none.")
        vocab = corpora[0].vocab
        if any(corpus.vocab.symbols != vocab.symbols for corpus in corpora):
            raise ValueError(
                "expected corpora with one vocabulary, actual several; read them with vocab= of the first."
            )
        columns = concatenate(corpus.columns for corpus in corpora)
        return Corpus(columns, vocab, sum(corpus.dropped for corpus in corpora))

    def with_tags(self, tags: Strings, vocab: Vocabulary | None = None) -> Corpus:
        """The same sentences with other symbols.

        :param tags: of all tokens, one sentence after the other.
        :param vocab: of the symbols; None counts them. Symbols that it lacks are its most frequent one.
        """
        columns = replace(self.columns, tags=tags)
        return Corpus(columns, Vocabulary.of_counts(tags.counts()) if vocab is None else vocab, self.dropped)

    @property
    def sentences(self) -> Sentences:
        """The N sentences: tokens, tags, heads, and where each comes from; each is made when it is asked for."""
        return Sentences(self.columns)

    @cached_property
    def lengths(self) -> Tensor:
        """Number of words of each sentence, shape ``(N,)``."""
        return torch.from_numpy(self.columns.lengths)

    @cached_property
    def words(self) -> Tensor:
        """Ids, shape ``(N, n)``, padded with -1 on the right."""
        return pad(self._codes[self.columns.symbols.ids], self.lengths)

    @cached_property
    def _codes(self) -> Ints:
        """The ids of the table of symbols."""
        return codes(self.columns.symbols.table, self.vocab, "most_frequent")

    @cached_property
    def heads(self) -> Tensor | None:
        """As in CoNLL, 0 for ROOT, shape ``(N, n)``, padded with -1; None if the source has none, or not of all words.

        Every sentence is a tree with one root, projective or not.
        """
        return pad(self.columns.heads, self.lengths) if self._has_heads else None

    @property
    def _has_heads(self) -> bool:
        return bool((self.columns.annotated == ALL).all())

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[SentenceRecord]:
        return iter(self.sentences)

    @overload
    def __getitem__(self, index: int) -> SentenceRecord: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | Sequence[bool] | Tensor) -> Corpus: ...

    def __getitem__(self, index: int | slice | Sequence[int] | Sequence[bool] | Tensor) -> Corpus | SentenceRecord:
        """One sentence by its number, or a smaller corpus by a slice, numbers, or a mask."""
        if isinstance(index, Integral) and not isinstance(index, bool):
            return self.sentences[int(index)]
        chosen = positions(index, len(self)).numpy()
        part = Corpus(self.columns.take(chosen % max(len(self), 1)), self.vocab, self.dropped)
        vars(part)["_codes"] = self._codes  # the same for all parts, of which there may be many
        return part

    def __repr__(self) -> str:
        size = f"{plural(len(self), 'sentence')}, {plural(self.num_words, 'word')}, {plural(len(self.vocab), 'symbol')}"
        longest = self.columns.lengths.max(initial=0)
        return f"Corpus({size}, longest {longest}, {'no ' * (not self._has_heads)}heads)"

    @property
    def num_words(self) -> int:
        """Number of words of all sentences."""
        return self.columns.num_tokens

    @cached_property
    def num_unknown(self) -> int:
        """Number of words whose symbol the vocabulary lacks, and which stand as its most frequent one."""
        counts = self.columns.symbols.counts()
        return sum(count for symbol, count in counts.items() if symbol not in self.vocab)

    @cached_property
    def known_heads(self) -> Tensor:
        """Heads as far as they are known, -1 where they are not, shape ``(N, n)``: what ``known=`` of a sentence takes.

        >>> Corpus.from_sentences([["DT", "NN"]]).known_heads
        tensor([[-1, -1]])
        """
        return pad(self.columns.heads, self.lengths) if self.heads is None else self.heads

    @cached_property
    def arc_scores(self) -> Tensor:
        """Hints at heads: the log factors of arcs, shape ``(N, n+1, n+1)`` [head, dependent], 0 where there is none.

        It is what ``known=`` of a sentence takes beside :attr:`known_heads`. A hint is written into column MISC of
        CoNLL-U and is read with ``heads="partial"``: ``HeadHint=3:1.5,4:-inf`` prefers head 3 by 1.5 nats and forbids
        head 4. Hints at punctuation are left out along with it.
        """
        n = int(self.columns.lengths.max(initial=0))
        scores = torch.zeros(len(self), n + 1, n + 1)
        for i, rows in self.columns.hints.items():
            for dependent, hints in enumerate(rows, 1):
                for head, nats in hints:
                    scores[i, head, dependent] = nats
        return scores

    @cached_property
    def segments(self) -> Tensor:
        """Number of each word's segment between marks of punctuation, from 0, shape ``(N, n)``, padded with -1.

        Marks that were left out count like those that were kept. A mark that was kept is of the segment before it.
        :meth:`to_conllu` does not write where marks were that were left out.

        >>> Corpus.from_sentences([["NOUN", "PUNCT", "VERB", "PUNCT"]], tags="upos").segments
        tensor([[0, 1]])
        """
        return pad(self.columns.segments(0, len(self)), self.lengths)

    @property
    def forms(self) -> list[list[str]]:
        """The words of every sentence as they were written."""
        return self.columns.rows(self.columns.forms)

    @property
    def tags(self) -> list[list[str]]:
        """The symbols of every sentence, before those that the vocabulary lacks are replaced."""
        return self.columns.rows(self.columns.symbols)

    def filter(self, max_length: int | None = None, min_length: int = 1) -> Corpus:
        """The sentences of ``min_length`` to ``max_length`` words (None: any number); perhaps none at all."""
        keep = self.lengths >= min_length
        return self[keep if max_length is None else keep & (self.lengths <= max_length)]

    def batches(
        self, *, max_words: int | None = None, max_sentences: int | None = None, seed: int | None = None
    ) -> Batches[Corpus]:
        """All sentences once, those of like length together, each batch padded to its own longest sentence.

        >>> corpus = Corpus.from_sentences([["NN", "VBZ"], ["DT", "NN", "VBZ", "RB"], ["VB", "NN"], ["UH"]])
        >>> [batch.words.shape for batch in corpus.batches(max_words=4)]
        [torch.Size([2, 2]), torch.Size([1, 2]), torch.Size([1, 4])]

        The tensor ``batches.rows[k]`` has the numbers of the sentences of ``batches[k]`` in this corpus.

        :param max_words: of a batch, padding counted, unless its only sentence is longer; None: any number.
        :param max_sentences: of a batch; None: any number.
        :param seed: of the order of batches, and of sentences of the same length; None: by length, as they come.
        :raises ValueError: if a bound is less than one.
        """
        return Batches(rows_by_length(self.columns.lengths, max_words, max_sentences, seed), self.__getitem__)

    @cached_property
    def is_projective(self) -> Tensor:
        """Whether each tree has no crossing arcs, bool, shape ``(N,)``; ValueError without heads."""
        return without_crossing_arcs(self._heads(), self.lengths)

    def num_nonprojective(self) -> int:
        """Number of trees with crossing arcs."""
        return int((~self.is_projective).sum())

    def projective(self) -> Corpus:
        """The sentences with a projective tree: what a supervised projective grammar can learn from."""
        return self[self.is_projective]

    @overload
    def to_conllu(self, path_or_file: None = None, heads: Tensor | None = None) -> str: ...

    @overload
    def to_conllu(self, path_or_file: StrPath | TextIO, heads: Tensor | None = None) -> None: ...

    def to_conllu(self, path_or_file: StrPath | TextIO | None = None, heads: Tensor | None = None) -> str | None:
        """Write the sentences as CoNLL-U: ID, FORM, UPOS, XPOS, HEAD, hints in MISC, and the comment ``sent_id``.

        :meth:`from_conllu` reads it back. They are written one by one. A file is replaced as a whole or left as it was.

        :param path_or_file: where to write: a path, or an open text file; None to get the text instead.
        :param heads: heads to write instead of the corpus's own, such as predicted ones, shape ``(N, m)``
            with m at least n, padded with -1. Of the corpus's own, those that are unknown are written as ``_``.
        :returns: the text, unless it is written.
        :raises ValueError: if ``heads`` does not fit the sentences.
        """
        trees = (record.heads or record.known_heads for record in self.sentences)
        text = conllu_text(self.sentences, trees if heads is None else rows_of_heads(heads, self.lengths))
        if path_or_file is None:
            return "".join(text)
        write(path_or_file, text)
        return None

    def to_networkx(self, i: int, heads: Tensor | None = None) -> nx.DiGraph[int]:
        """The tree of sentence ``i``: nodes 0..n, 0 ROOT, with ``form`` and ``tag``; edges from heads.

        :param heads: heads of this sentence instead of the corpus's own, shape ``(m,)`` with m at least its
            length, padded with -1.
        :raises ValueError: if there are no heads, or they do not fit.
        """
        row = self._heads()[i] if heads is None else heads
        (tree,) = rows_of_heads(row[None], self.lengths[i].reshape(1))
        return graph(self.sentences[i], tree)

    def _heads(self) -> Tensor:
        if self.heads is None:
            raise ValueError("expected a corpus with heads, actual none; read a treebank, or pass heads.")
        return self.heads
