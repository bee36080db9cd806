# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora for segmentation: words with their morphs, utterances with their words, and a small generated morphology."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pyrogram.data.files import StrPath, lines_in
from pyrogram.data.records import CorpusError
from pyrogram.printable import plural, quoted

Segments = tuple[str, ...]


@dataclass(frozen=True)
class SegmentedCorpus:
    """Items (words or utterances) with one or several gold segmentations each.

    :ivar alternatives: for each item its gold segmentations, the annotators' first choice first.
    :ivar labels: for each item what the annotators wrote beside it ("" if nothing).
    """

    alternatives: tuple[tuple[Segments, ...], ...]
    labels: tuple[str, ...] = ()

    @property
    def segments(self) -> list[Segments]:
        """The first gold segmentation of each item."""
        return [golds[0] for golds in self.alternatives]

    @property
    def forms(self) -> list[str]:
        """The items without boundaries."""
        return ["".join(golds[0]) for golds in self.alternatives]

    def __len__(self) -> int:
        return len(self.alternatives)

    def __iter__(self) -> Iterator[Segments]:
        return iter(self.segments)

    def __getitem__(self, index: slice | list[int]) -> SegmentedCorpus:
        """A part of the corpus, by a slice or a list of positions."""
        chosen = range(len(self))[index] if isinstance(index, slice) else index
        labels = tuple(self.labels[i] for i in chosen) if self.labels else ()
        return SegmentedCorpus(tuple(self.alternatives[i] for i in chosen), labels)

    def split(self, held_out: float = 0.1, seed: int = 0) -> tuple[SegmentedCorpus, SegmentedCorpus]:
        """Training and held-out items, in the corpus's order.

        *Types* are held out, not items: all copies of a form are on the same side.

        :param held_out: share of the types, rounded to a whole number.
        :param seed: of the choice, which depends on nothing else.
        """
        if not 0 <= held_out <= 1:
            raise ValueError(f"held_out must be a share between 0 and 1, not {held_out}")
        types = sorted(set(self.forms))
        out = set(random.Random(seed).sample(types, round(held_out * len(types))))
        sides: tuple[list[int], list[int]] = ([], [])
        for i, form in enumerate(self.forms):
            sides[form in out].append(i)
        return self[sides[0]], self[sides[1]]


def read_morphs(path: StrPath) -> SegmentedCorpus:
    """Words and their morphs from a table of tab-separated columns: word, morphs, and labels, if there are any.

    Morphs stand between spaces; several segmentations of a word between commas, as in ``a ba bhuz a, a b a bhuz a``.

    :raises CorpusError: for a line of another form, or morphs that do not make up their word.
    """
    path = str(path)
    alternatives, labels = [], []
    with lines_in(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                golds, label = _morphs(line, path, number)
                alternatives.append(golds)
                labels.append(label)
    return SegmentedCorpus(tuple(alternatives), tuple(labels))


def _morphs(line: str, path: str, number: int) -> tuple[tuple[Segments, ...], str]:
    """The segmentations of a line's word, and its labels."""
    columns = line.split("\t")
    if len(columns) not in (2, 3):
        raise CorpusError(path, number, f"expected the columns word, morphs and labels, but there are {len(columns)}")
    word, golds = columns[0], tuple(tuple(part.split()) for part in columns[1].split(","))
    for gold in golds:
        if "".join(gold) != word or not word:
            problem = f"the morphs {quoted(' '.join(gold))} do not make up the word {quoted(word)}"
            raise CorpusError(path, number, problem)
    return golds, columns[2].strip() if len(columns) == 3 else ""


def read_utterances(path: StrPath) -> SegmentedCorpus:
    """Utterances, one to a line, with white space at the gold boundaries; empty lines are skipped."""
    with lines_in(str(path)) as lines:
        return SegmentedCorpus(tuple((row,) for line in lines if (row := tuple(line.split()))))


# The generated language. A verb is subject, tense or none, object or none, root, extension or none, and a final vowel.
_SUBJECTS = ("ka", "mo", "te", "ri", "su")
_TENSES = ("", "", "la", "nge")
_OBJECTS = ("", "", "pi", "vu")
_EXTENSIONS = ("", "", "", "is", "ul")
_FINALS = ("a", "a", "e", "ire")
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "s", "t", "z")
_VOWELS = ("a", "e", "i", "o", "u")
_PARTICLES = ("na", "e", "wo")


def generated_verbs(num_words: int = 500, seed: int = 0, num_roots: int = 40) -> SegmentedCorpus:
    """Different verbs of an invented language with prefixes and suffixes, and their morphs.

    For demonstrations and tests, where no corpus is at hand. The same arguments always give the same words.

    :raises ValueError: if the language has not so many words.
    """
    generator = random.Random(f"verbs {seed}")
    roots = _roots(generator, num_roots)
    verbs: dict[str, Segments] = {}
    for _ in range(100 * num_words):
        if len(verbs) == num_words:
            break
        morphs = _verb(generator, roots)
        verbs.setdefault("".join(morphs), morphs)
    if len(verbs) < num_words:
        raise ValueError(
            f"of {plural(num_roots, 'root')} there are hardly {num_words} verbs; ask for fewer words or more roots"
        )
    return SegmentedCorpus(tuple((morphs,) for morphs in verbs.values()))


def generated_utterances(num_utterances: int = 500, seed: int = 0, num_roots: int = 10) -> SegmentedCorpus:
    """Utterances of one to four words of an invented language; frequent words come back, as in speech to children."""
    generator = random.Random(f"utterances {seed}")
    roots = _roots(generator, num_roots)
    lexicon = [*_PARTICLES, *dict.fromkeys("".join(_verb(generator, roots)) for _ in range(2 * num_roots))]
    shares = [1 / rank for rank in range(1, len(lexicon) + 1)]
    rows = [tuple(generator.choices(lexicon, shares, k=generator.randint(1, 4))) for _ in range(num_utterances)]
    return SegmentedCorpus(tuple((row,) for row in rows))


def _roots(generator: random.Random, number: int) -> list[str]:
    roots: dict[str, None] = {}
    while len(roots) < number:
        middle = "".join(generator.choice(_VOWELS) + generator.choice(_ONSETS) for _ in range(generator.randint(1, 2)))
        roots[generator.choice(_ONSETS) + middle] = None
    return list(roots)


def _verb(generator: random.Random, roots: list[str]) -> Segments:
    slots = (_SUBJECTS, _TENSES, _OBJECTS, roots, _EXTENSIONS, _FINALS)
    return tuple(morph for morph in (generator.choice(slot) for slot in slots) if morph)
