# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files to corpora: which format a file has, and which tags it could be read with if not with those asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from pyrogram.cli.io.errors import CommandError, note
from pyrogram.printable import plural, shown

if TYPE_CHECKING:
    from pyrogram.data import Corpus, CorpusError, Vocabulary
    from pyrogram.data.columns import Columns, Sentences
    from pyrogram.data.formats import Kind
    from pyrogram.data.records import Alphabet
    from pyrogram.data.selection import Options, Punctuation

HeadsOption = Literal["required", "optional", "ignore"]

SUFFIXES: dict[str, Kind] = {
    ".conllu": "conllu",
    ".conll": "conllu",
    ".conllup": "conllu",
    ".mrg": "brackets",
    ".ptb": "brackets",
    ".brackets": "brackets",
}
ALPHABETS: tuple[Alphabet, ...] = ("upos", "xpos", "form")


def format_of(path: Path, chosen: str = "auto") -> Kind:
    """The format of a file, by its extension (before ``.gz``) unless it was said; without a known one, by its text.

    :raises CorpusError: if its text is needed and cannot be read.
    """
    if chosen != "auto":
        return cast("Kind", chosen)
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    known = SUFFIXES.get(name.suffix.lower())
    if known is not None:
        return known
    from pyrogram.data.formats import format_of_file

    return format_of_file(str(path))


def default_tags(path: Path, chosen: str = "auto") -> Alphabet:
    """Universal tags for CoNLL-U, the treebank's own for all else, which has no others."""
    return _usual_tags(format_of(path, chosen))


def _usual_tags(kind: Kind) -> Alphabet:
    return "upos" if kind == "conllu" else "xpos"


@dataclass(frozen=True)
class WholeFile:
    """All sentences of a file with all their words, read once, for corpora of several kinds.

    :param kind: its format.
    :param tags: that it was read with.
    :param packed: its text in compressed pieces, if it is kept, for standard input and pipes cannot be read again.
    """

    path: Path
    kind: Kind
    tags: Alphabet
    columns: Columns
    packed: Sequence[bytes] | None = None

    @property
    def sentences(self) -> Sentences:
        """As records."""
        from pyrogram.data.columns import Sentences

        return Sentences(self.columns)

    def columns_with(self, tags: Alphabet) -> Columns:
        """The sentences as if they were read with other tags."""
        if self.kind == "conllu" or (tags == "upos") == (self.tags == "upos"):
            return self.columns
        return replace(self.columns, upos=self.columns.xpos, xpos=self.columns.upos)

    def text(self) -> Iterator[bytes]:
        """What is in the file, in pieces; of standard input and pipes it must have been kept."""
        from pyrogram.data.streams import blocks

        return blocks(str(self.path)) if self.packed is None else map(zlib.decompress, self.packed)


def read_whole(path: Path, format: str, tags: Alphabet, heads: HeadsOption, keep_text: bool = False) -> WholeFile:
    """Read a file of any format.

    :param keep_text: whether its text will be asked for, to put trees into it.
    :raises CorpusError: as :func:`read_corpus`; if trees are to be put into CoNLL-U without a column HEAD.
    """
    from pyrogram.data import CorpusError
    from pyrogram.data.export import check_head_column
    from pyrogram.data.reading import read_all, reader_of
    from pyrogram.data.streams import blocks, is_stream

    kind, name = format_of(path, format), str(path)
    packed: list[bytes] | None = [] if keep_text and is_stream(name) else None

    def kept() -> Iterator[bytes]:
        for block in blocks(name):
            if packed is not None:
                packed.append(zlib.compress(block, 1))
            yield block

    try:
        columns = read_all(name, reader_of(kind, tags, heads), kept())
    except CorpusError as error:
        raise _in_options(error, path, kind, tags, heads) from None
    whole = WholeFile(path, kind, tags, columns, packed)
    if keep_text and kind == "conllu":
        check_head_column(name, next(whole.text()))
    return whole


def read_corpus(
    source: Path | WholeFile,
    *,
    format: str = "auto",
    tags: str | None = None,
    vocab: Vocabulary | None = None,
    unknown: str = "most_frequent",
    heads: HeadsOption = "optional",
    punctuation: Punctuation = "remove",
    no_tags_option: str = "",
    alphabets: Sequence[Alphabet] = ALPHABETS,
) -> Corpus:
    """Read a file of any format.

    :param source: the file, or all that is in it.
    :param tags: None stands for :func:`default_tags`.
    :param no_tags_option: what to tell users whose file lacks the column, of a command without --tags.
    :param alphabets: what --tags can be.
    :raises CorpusError: as the library's, but the message says what to do with options or with the file.
    """
    from pyrogram.data import CorpusError
    from pyrogram.data.selection import Options
    from pyrogram.data.vocabulary import Unknown

    path, kind = (source.path, source.kind) if isinstance(source, WholeFile) else (source, format_of(source, format))
    alphabet = cast("Alphabet", tags or _usual_tags(kind))
    try:
        corpus = _read(source, kind, Options(alphabet, vocab, punctuation, None, cast(Unknown, unknown), False), heads)
    except CorpusError as error:
        raise _in_options(error, path, kind, alphabet, heads, no_tags_option, alphabets) from None
    if heads == "required" and corpus.heads is None:
        raise CommandError(f"{name_of(path)} has no heads; give a treebank")
    _note_conj(corpus, path)
    return corpus


def _read(source: Path | WholeFile, kind: Kind, options: Options, heads: HeadsOption) -> Corpus:
    from pyrogram.data import Corpus
    from pyrogram.data.reading import read, reader_of
    from pyrogram.data.selection import select

    if isinstance(source, WholeFile):
        chosen = select([(str(source.path), [source.columns_with(options.tags)])], options)
    else:
        chosen = read([str(source)], reader_of(kind, options.tags, heads), options)
    return Corpus(chosen.columns, chosen.vocab, chosen.dropped)


def _in_options(
    error: CorpusError,
    path: Path,
    kind: Kind,
    tags: Alphabet,
    heads: HeadsOption,
    no_tags_option: str = "",
    alphabets: Sequence[Alphabet] = ALPHABETS,
) -> CorpusError:
    """An error of the library in words of options, to be raised by the caller."""
    if error.argument is None:
        return error
    advice = {
        "heads": "annotate it" + (", or write _ for the heads of all words of the file" * (heads != "required")),
        "punctuation": "punctuation is left out, so give a file that also has words",
        "unknown": "--unknown most_frequent takes it for the most frequent one",
        "tags": no_tags_option,
    }[error.argument]
    if not advice:
        advice = _say_tags(path, kind, heads, [other for other in alphabets if other != tags])
    return type(error)(error.source, error.line, error.problem, advice)


def _note_conj(corpus: Corpus, path: Path) -> None:
    """Say that a tag of version 1 of Universal Dependencies was read as version 2 has it."""
    columns = corpus.columns
    written, read = columns.upos.where({"CONJ": True}), columns.symbols.where({"CCONJ": True})
    renamed = int((written & read).sum())
    if renamed:
        note(
            f"note: {name_of(path)}: CONJ, {plural(renamed, 'word')}, is read as CCONJ, its name since version 2 of UD"
        )


def _say_tags(path: Path, kind: Kind, heads: HeadsOption, others: Sequence[Alphabet]) -> str:
    """Which alphabets a file can be read with."""
    from pyrogram.data.streams import is_stream

    if is_stream(str(path)):
        return "try " + " or ".join(f"--tags {name}" for name in others)
    there = _alphabets(path, kind, heads, others)
    if not there:
        return "annotate the file, for no column of it can be read"
    return "the file can be read with " + " or ".join(f"--tags {name}" for name in there)


def _alphabets(path: Path, kind: Kind, heads: HeadsOption, others: Sequence[Alphabet]) -> list[Alphabet]:
    """The alphabets with which a file can be read: none if its fault is not a missing column."""
    from pyrogram.data import CorpusError
    from pyrogram.data.selection import Options

    there = []
    for name in others:
        try:
            _read(path, kind, Options(name, None, "remove", None, "most_frequent", False), heads)
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
    told = f"{plural(corpus.num_unknown, 'word has a symbol', 'words have symbols')} unseen in training ({named})"
    note(f"note: {name_of(path)}: {told}; taken for {shown(corpus.vocab.most_frequent)}")


def name_of(path: Path) -> str:
    """What a file is called in tables and notes."""
    return "standard input" if str(path) == "-" else str(path)


def digest(path: Path) -> str:
    """SHA-256 of what is in a file, unpacked; standard input and pipes must have been read before.

    :raises CorpusError: if it cannot be read.
    """
    from pyrogram.data import streams

    return streams.digest(str(path))


def digests(**paths: Path | None) -> dict[str, str | int]:
    """SHA-256 of the files that are given, by what they are for: "train", "dev", "test" and others.

    Standard input and pipes are left out as long as they are to be read; see :func:`all_digests`.

    :raises CommandError: if --dev is --test, under whatever name. What is not wrong, but must be known, is said.
    """
    from pyrogram.data.streams import is_unread

    files = {name: path for name, path in paths.items() if path is not None and not is_unread(str(path))}
    hashes: dict[str, str | int] = {name: digest(path) for name, path in files.items()}
    for number in ("", "2"):
        train, dev, test = (f"{part}{number}" for part in ("train", "dev", "test"))
        if dev in hashes and hashes[dev] == hashes.get(test):
            raise CommandError(f"--{dev} and --{test} are the same sentences; leave out --{test}, or give others")
        for part in (dev, test):
            if train in hashes and hashes[train] == hashes.get(part):
                note(f"note: --{part} has the sentences of {train.upper()}: its scores are not of unseen sentences")
    return hashes


def all_digests(hashes: dict[str, str | int], **paths: Path | None) -> dict[str, str | int]:
    """What :func:`digests` gives when all files have been read.

    :param hashes: what it gave before.
    """
    if all(path is None or name in hashes for name, path in paths.items()):
        return hashes
    return {name: value for name, value in hashes.items() if name not in paths} | digests(**paths)
