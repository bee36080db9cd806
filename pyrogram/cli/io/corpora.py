# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files to corpora: which format a file has, and which tags it could be read with if not with those asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from pyrogram.cli.io.errors import CommandError, note
from pyrogram.printable import shown

if TYPE_CHECKING:
    from pyrogram.data import Corpus, Vocabulary
    from pyrogram.data.records import Alphabet, SentenceRecord

SUFFIXES = {".conllu": "conllu", ".conll": "conllu", ".mrg": "brackets", ".ptb": "brackets", ".brackets": "brackets"}
ALPHABETS: tuple[Alphabet, ...] = ("upos", "xpos", "form")


def format_of(path: Path, chosen: str = "auto") -> str:
    """The format of a file, by its extension (before ``.gz``) unless it was said; without a known one, by its text.

    :raises CorpusError: if its text is needed and cannot be read.
    """
    if chosen != "auto":
        return chosen
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    known = SUFFIXES.get(name.suffix.lower())
    if known is not None:
        return known
    from pyrogram.data.files import read_lines
    from pyrogram.data.formats import format_of_text

    return format_of_text(read_lines(str(path)))


def default_tags(path: Path, chosen: str = "auto") -> Alphabet:
    """Universal tags for CoNLL-U, the treebank's own for all else, which has no others."""
    return "upos" if format_of(path, chosen) == "conllu" else "xpos"


def read_corpus(
    path: Path,
    *,
    format: str = "auto",
    tags: str | None = None,
    vocab: Vocabulary | None = None,
    unknown: str = "most_frequent",
    heads: Literal["required", "optional", "ignore"] = "optional",
    punctuation: Literal["remove", "keep"] = "remove",
    no_tags_option: str = "",
    alphabets: Sequence[Alphabet] = ALPHABETS,
) -> Corpus:
    """Read a file of any format.

    :param tags: None stands for :func:`default_tags`.
    :param no_tags_option: what to tell users whose file lacks the column, of a command without --tags.
    :param alphabets: what --tags can be.
    :raises CorpusError: as the library's, but the message says what to do with options or with the file.
    """
    from pyrogram.data import CorpusError

    alphabet = cast("Alphabet", tags or default_tags(path, format))
    try:
        corpus = _read(path, format_of(path, format), alphabet, vocab, unknown, heads, punctuation)
    except CorpusError as error:
        if error.argument is None:
            raise
        advice = {
            "heads": "annotate it" + (", or write _ for the heads of all words of the file" * (heads != "required")),
            "punctuation": "punctuation is left out, so give a file that also has words",
            "unknown": "--unknown most_frequent takes it for the most frequent one",
            "tags": no_tags_option,
        }[error.argument]
        if not advice:
            others = [other for other in alphabets if other != alphabet]
            advice = _say_tags(_alphabets(path, format, heads, others))
        raise CorpusError(error.source, error.line, error.problem, advice) from None
    if heads == "required" and corpus.heads is None:
        raise CommandError(f"{name_of(path)} has no heads; give a treebank")
    _note_conj(corpus, path)
    return corpus


def _note_conj(corpus: Corpus, path: Path) -> None:
    """Say that a tag of version 1 of Universal Dependencies was read as version 2 has it."""
    columns = corpus.columns
    given, read = columns.upos.where({"CONJ": True}), columns.symbols.where({"CCONJ": True})
    renamed = int((given & read).sum())
    if renamed:
        note(f"note: {name_of(path)}: CONJ, {renamed} words, is read as CCONJ, its name since version 2 of UD")


def read_records(path: Path, format: str, tags: str) -> Sequence[SentenceRecord]:
    """The sentences of a file of any format with all their words; heads are not read."""
    from pyrogram.data.brackets import read_brackets
    from pyrogram.data.columns import Sentences
    from pyrogram.data.conllu_columns import read_all
    from pyrogram.data.tagged import read_tagged

    kind, name = format_of(path, format), str(path)
    if kind == "conllu":
        return Sentences(read_all(name, "ignore"))
    return list(
        read_brackets(name, tags == "upos") if kind == "brackets" else read_tagged(name, cast("Alphabet", tags))
    )


def _say_tags(there: list[Alphabet]) -> str:
    if not there:
        return "annotate the file, for no column of it can be read"
    return "the file can be read with " + " or ".join(f"--tags {name}" for name in there)


def _read(
    path: Path,
    kind: str,
    tags: Alphabet,
    vocab: Vocabulary | None,
    unknown: str,
    heads: Literal["required", "optional", "ignore"],
    punctuation: Literal["remove", "keep"],
) -> Corpus:
    from pyrogram.data import Corpus
    from pyrogram.data.vocabulary import Unknown

    policy = cast(Unknown, unknown)
    if kind == "conllu":
        return Corpus.from_conllu(path, tags=tags, vocab=vocab, unknown=policy, heads=heads, punctuation=punctuation)
    read = Corpus.from_brackets if kind == "brackets" else Corpus.from_tags
    return read(path, tags=tags, vocab=vocab, unknown=policy, punctuation=punctuation)


def _alphabets(
    path: Path, format: str, heads: Literal["required", "optional", "ignore"], others: Sequence[Alphabet]
) -> list[Alphabet]:
    """The alphabets with which a file can be read: none if its fault is not a missing column."""
    from pyrogram.data import CorpusError

    there = []
    for name in others:
        try:
            _read(path, format_of(path, format), name, None, "most_frequent", heads, "remove")
        except CorpusError:
            continue
        there.append(name)
    return there


def note_unknown(corpus: Corpus, path: Path) -> None:
    """Say on stderr which symbols the vocabulary lacks, and what they were taken for."""
    if not corpus.num_unknown:
        return
    lacking = sorted(symbol for symbol in corpus.columns.symbols.counts() if symbol not in corpus.vocab)
    named = ", ".join(shown(symbol) for symbol in lacking[:5]) + (", ..." if len(lacking) > 5 else "")
    told = f"{corpus.num_unknown} words have symbols unseen in training ({named})"
    note(f"note: {name_of(path)}: {told}; taken for {shown(corpus.vocab.most_frequent)}")


def name_of(path: Path) -> str:
    """What a file is called in tables and notes."""
    return "standard input" if str(path) == "-" else str(path)


def digest(path: Path) -> str:
    """SHA-256 of what is in a file, unpacked.

    :raises CorpusError: if it cannot be read.
    """
    from pyrogram.data.files import blocks

    found = hashlib.sha256()
    for block in blocks(str(path)):
        found.update(block)
    return found.hexdigest()


def digests(**paths: Path | None) -> dict[str, str | int]:
    """SHA-256 of the files that are given, by what they are for: "train", "dev", "test" and others.

    :raises CommandError: if --dev is --test, under whatever name. What is not wrong, but must be known, is said.
    """
    found: dict[str, str | int] = {name: digest(path) for name, path in paths.items() if path is not None}
    for number in ("", "2"):
        train, dev, test = (f"{part}{number}" for part in ("train", "dev", "test"))
        if dev in found and found[dev] == found.get(test):
            raise CommandError(f"--{dev} and --{test} are the same sentences; leave out --{test}, or give others")
        for part in (dev, test):
            if train in found and found[train] == found.get(part):
                note(f"note: --{part} has the sentences of {train.upper()}: its scores are not of unseen sentences")
    return found
