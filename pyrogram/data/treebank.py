# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Treebanks for grammars of phrases: trees as they are in the file, and words as a grammar can know them.

A grammar read off a treebank knows the words of its training part alone. So rare words of the training part and unknown
words of any other are replaced by *classes*, which are words of the grammar; labels and shapes of trees stay as they
are (``CFG.from_trees`` binarises, and ``CFG.tree`` gives back trees with the original labels)::

    bank = read_treebank(train="train.mrg", test="test.mrg")
    grammar = CFG.from_trees(bank.prepared("train"), binarize=True, markov_order=0)
    words = grammar.encode(bank.sentences("test"))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrogram.data.brackets import TRACE, bare, split_trees, tree_of, unescaped
from pyrogram.data.files import lines_in
from pyrogram.data.records import CorpusError
from pyrogram.printable import quoted, shown

UNKNOWN = "UNK"
#: Endings that tell an unknown English word's tag, longest first.
SUFFIXES = ("ing", "ion", "ity", "est", "ed", "er", "ly", "al", "y", "s")


def read_trees(path: str | Path, *, unparsed: bool = False) -> list[Any]:
    """The trees of a file of brackets, as ``nltk.Tree``.

    Traces and phrases of nothing else are left out, function tags and indices are cut off labels (``NP-SBJ-1`` is
    ``NP``), and the bracket without a label around a tree is removed; if it has several children, its label is ``TOP``.

    :param unparsed: whether ``()`` stands for a sentence without a parse, which becomes None.
    :raises CorpusError: for brackets that do not close, words without tags, phrases without words.
    """
    with lines_in(str(path)) as lines:
        return [_tree(text, str(path), line, unparsed) for line, text in split_trees(str(path), lines)]


def _tree(text: str, path: str, line: int, unparsed: bool) -> Any:
    """The tree of a text that begins in this line; None for a sentence without a parse."""
    if unparsed and "".join(text.split()) == "()":
        return None
    tree = _cleaned(tree_of(path, line, text), path, line)
    if tree is None:
        raise CorpusError(path, line, "this tree has no words, only traces; remove it")
    return tree


def _cleaned(tree: Any, path: str, line: int) -> Any:
    """A tree without traces and function tags; None if nothing is left."""
    label, make = tree.label(), type(tree)
    if not label:
        raise CorpusError(path, line, "there is a bracket without a label inside of the tree; give it one")
    if len(tree) == 1 and isinstance(tree[0], str):
        return None if label == TRACE else make(label, [unescaped(tree[0])])
    if len(tree) == 0:
        raise CorpusError(path, line, f"the bracket ({shown(label)}) is empty; remove it")
    for child in tree:
        if isinstance(child, str):
            raise CorpusError(
                path, line, f"the word {quoted(child)} has siblings and no tag; write (NN {shown(child)})"
            )
    children = [c for c in (_cleaned(child, path, line) for child in tree) if c is not None]
    return make(bare(label), children) if children else None


def signature(form: str, first: bool) -> str:
    """What can be seen of a word that is not known: a class such as ``UNK-CAP-s`` or ``UNK-NUM-DASH``.

    The parts, in order: ``INIT`` for a capital at the beginning of a sentence, ``CAPS`` for capitals alone, ``CAP`` for
    another capital first letter, ``MIX`` for a capital later in the word; ``NUM`` if there is a digit; ``DASH`` if
    there is a hyphen; an ending of :data:`SUFFIXES` after three letters or more, unless there is a digit or all is
    capitals.

    :param form: the word.
    :param first: whether it is the first of its sentence.
    """
    parts = [UNKNOWN]
    upper = [c.isupper() for c in form]
    letters = sum(c.isalpha() for c in form)
    all_capitals = letters > 1 and all(c.isupper() for c in form if c.isalpha())
    if upper and upper[0]:
        parts.append("INIT" if first else "CAPS" if all_capitals else "CAP")
    elif any(upper):
        parts.append("MIX")
    digit = any(c.isdigit() for c in form)
    if digit:
        parts.append("NUM")
    if "-" in form:
        parts.append("DASH")
    if not digit and not all_capitals:
        lower = form.lower()
        for suffix in SUFFIXES:
            if lower.endswith(suffix) and letters >= len(suffix) + 3:
                parts.append(suffix)
                break
    return "-".join(parts)


class KnownWords:
    """Which words a grammar knows, and the classes of all others.

    :param sentences: of the training part, as words.
    :param max_rare: a word that occurs at most so often there is rare, and is replaced by its class; 0: none is.
    :param signatures: classes by :func:`signature`; otherwise all unknown words are one class, ``UNK``.
    :param min_class: a signature of fewer rare words than that in training is not told apart, and is ``UNK``.
    """

    def __init__(
        self, sentences: Iterable[Sequence[str]], *, max_rare: int = 1, signatures: bool = True, min_class: int = 5
    ):
        if max_rare < 0 or min_class < 1:
            raise ValueError(f"need max_rare >= 0 and min_class >= 1, not {max_rare} and {min_class}")
        training = [list(forms) for forms in sentences]
        counts = Counter(form for forms in training for form in forms)
        self.signatures = signatures
        self.words = frozenset(form for form, count in counts.items() if count > max_rare)
        """The words that are known."""
        tally: Counter[str] = Counter()
        for forms in training:
            tally.update(self._raw(form, i == 0) for i, form in enumerate(forms) if form not in self.words)
        self.classes = frozenset(name for name, count in tally.items() if count >= min_class or name == UNKNOWN)
        """The classes that are told apart."""
        merged = sum(count for name, count in tally.items() if name not in self.classes)
        # What the training part has no instance of must be a class that it has, or no sentence with it has a parse.
        self.default = UNKNOWN if merged or UNKNOWN in tally or not tally else tally.most_common(1)[0][0]
        """The class of words whose signature is none of :attr:`classes`."""

    def _raw(self, form: str, first: bool) -> str:
        return signature(form, first) if self.signatures else UNKNOWN

    def __call__(self, forms: Sequence[str]) -> list[str]:
        """A sentence with every unknown word replaced by its class."""
        replaced = []
        for i, form in enumerate(forms):
            name = form if form in self.words else self._raw(form, i == 0)
            replaced.append(name if form in self.words or name in self.classes else self.default)
        return replaced

    def in_tree(self, tree: Any) -> Any:
        """A tree with every unknown word replaced by its class; the given one is not changed."""
        new = tree.copy(deep=True)
        for position, name in zip(new.treepositions("leaves"), self(tree.leaves()), strict=True):
            new[position] = name
        return new


@dataclass(frozen=True)
class Treebank:
    """Parts of a treebank, with one vocabulary.

    :param parts: trees of ``nltk.Tree`` by the part's name.
    :param known: the words that are known, and the classes of others.
    """

    parts: Mapping[str, list[Any]]
    known: KnownWords

    def prepared(self, part: str) -> list[Any]:
        """The trees of a part with unknown words replaced: what a grammar is read off, and derived from."""
        return [self.known.in_tree(tree) for tree in self.parts[part]]

    def sentences(self, part: str) -> list[list[str]]:
        """The sentences of a part with unknown words replaced."""
        return [self.known(tree.leaves()) for tree in self.parts[part]]

    def forms(self, part: str) -> list[list[str]]:
        """The sentences of a part as they are."""
        return [tree.leaves() for tree in self.parts[part]]


def read_treebank(
    train: str | Path,
    *,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    max_rare: int = 1,
    signatures: bool = True,
    min_class: int = 5,
) -> Treebank:
    """Read the parts of a treebank; the words that are known are those of the training part.

    :param max_rare: see :class:`KnownWords`, as for the other options.
    """
    paths = {"train": train, "dev": dev, "test": test}
    parts = {name: read_trees(path) for name, path in paths.items() if path is not None}
    sentences = [tree.leaves() for tree in parts["train"]]
    return Treebank(parts, KnownWords(sentences, max_rare=max_rare, signatures=signatures, min_class=min_class))
