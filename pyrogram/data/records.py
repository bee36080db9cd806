# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence as it was read, and the one error of everything that reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pyrogram.printable import printable

Alphabet = Literal["upos", "xpos", "form"]
Argument = Literal["tags", "heads", "punctuation", "unknown"]
MISSING = "_"
#: What no word and no tag is: one that a column of CoNLL-U cannot hold.
NO_SYMBOL = re.compile("^ |  | $|[\0\t\n\r\ud800-\udfff]|\\A\\Z")
#: Heads of one word, each with nats.
Hints = tuple[tuple[int, float], ...]
#: The name of standard input where a file's is asked for.
STANDARD_INPUT = "-"


class CorpusError(ValueError):
    """A corpus that cannot be read: the message says where, what is wrong, and what to do.

    The message is one line; control characters of the file and of its name are written as escapes.

    :param source: file name, or what stands for it.
    :param line: line number in the file, from 1, or None for the whole file.
    :param problem: what is wrong, without a final full stop; with what to do, unless ``advice`` says that.
    :param advice: what to do, in Python.
    :param argument: the argument of :class:`~pyrogram.data.Corpus` that reads the file if it has another value, as
        ``advice`` says; None if the file must be mended.
    """

    def __init__(
        self, source: str, line: int | None, problem: str, advice: str = "", argument: Argument | None = None
    ) -> None:
        self.source = source
        self.line = line
        self.problem = problem
        self.advice = advice
        self.argument = argument
        place = "standard input" if source == STANDARD_INPUT else source
        told = f"{problem}; {advice}" if advice else problem
        super().__init__(printable(f"{place}{'' if line is None else f', line {line}'}: {told}."))

    def __reduce__(self) -> tuple[type[CorpusError], tuple[str, int | None, str, str, Argument | None]]:
        return CorpusError, (self.source, self.line, self.problem, self.advice, self.argument)


@dataclass(frozen=True, slots=True)
class SentenceRecord:
    """One sentence: its tokens, its tree if it has one, and where it stands.

    All tuples have one entry per token.

    :param forms: the words.
    :param upos: universal tags, ``_`` where there is none.
    :param xpos: tags of the treebank, such as Penn's, ``_`` where there is none.
    :param heads: as in CoNLL, 0 for ROOT; None if the source has none, or not of all words.
    :param lines: line of each token (of brackets: the line where the tree starts; of sentences in memory:
        the number of the sentence, from 1).
    :param source: file name.
    :param sent_id: the comment ``sent_id`` of CoNLL-U, or None.
    :param tags: the symbols the corpus counts as its words: one of the columns above, before symbols that
        the vocabulary lacks are replaced.
    :param known_heads: heads of which some are unknown, -1; None if all are known, or none.
    :param hints: of each token heads that are preferred or avoided, each with the log of a factor, in nats; None if
        there are none.
    :param segments: of each token the number of its segment between marks of punctuation that were left out, from 0;
        None if none were.
    """

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: tuple[int, ...] | None
    lines: tuple[int, ...]
    source: str
    sent_id: str | None = None
    tags: tuple[str, ...] = ()
    known_heads: tuple[int, ...] | None = None
    hints: tuple[Hints, ...] | None = None
    segments: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def line(self) -> int:
        """The line of the first token."""
        return self.lines[0]

    def error(self, problem: str, token: int = 0, advice: str = "", argument: Argument | None = None) -> CorpusError:
        """An error at a token of this sentence (counted from 0), to be raised by the caller."""
        return CorpusError(self.source, self.lines[token], problem, advice, argument)
