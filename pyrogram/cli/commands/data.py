# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram data``: files to try the other commands with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrogram.cli.io.errors import CommandError

if TYPE_CHECKING:
    from pyrogram.data.builtin import GeneratedSentence

SIZES = {"train": 400, "dev": 100, "test": 100}  # sentences; a file is of the seed that its place says

# Universal tags, by the family of a Penn tag.
_UNIVERSAL = {
    "adjective": "ADJ",
    "adverb": "ADV",
    "conjunction": "CCONJ",
    "determiner": "DET",
    "noun": "NOUN",
    "number": "NUM",
    "particle": "PART",
    "preposition": "ADP",
    "pronoun": "PRON",
    "proper": "PROPN",
    "verb": "VERB",
}

data = typer.Typer(no_args_is_help=True)


@data.callback()
def _data() -> None:
    """Files to try the other commands with."""


@data.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("."),
) -> None:
    """Write small files of the built-in English corpus, which the examples of the documentation use.

    train.conllu, dev.conllu and test.conllu are treebanks; sentences.conllu has the sentences of test.conllu without
    heads, tagged.txt those of train.conllu as tagged text, sentences.txt those of test.conllu as words, and trees.mrg
    their bracketed trees. rules.cfg is a phrase-structure grammar of all these sentences, without probabilities.
    """
    from pyrogram.cli.io.files import write_file

    texts = demo_files()
    for name, text in texts.items():
        path = folder / name
        if path.exists() and (not path.is_file() or path.read_bytes() != text.encode()):
            raise CommandError(f"{path} is there already, with other contents; give another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder} cannot be made: {error.strerror}") from None
    for name, text in texts.items():
        write_file(folder / name, text.encode())
    typer.echo(f"Written to {folder}: {', '.join(texts)}.")
    typer.echo("Try: pyrogram induce train.conllu --test test.conllu --out runs/vb")


def demo_files() -> dict[str, str]:
    """The files by name."""
    from pyrogram.data.builtin import generate

    corpus = {part: generate(size, seed) for seed, (part, size) in enumerate(SIZES.items())}
    texts = {f"{part}.conllu": _conllu(part, sentences, True) for part, sentences in corpus.items()}
    texts["sentences.conllu"] = _conllu("test", corpus["test"], False)
    texts["tagged.txt"] = "".join(
        " ".join(f"{word}/{tag}" for word, tag in zip(s.forms, s.tags, strict=True)) + "\n" for s in corpus["train"]
    )
    texts["sentences.txt"] = "".join(" ".join(s.forms) + "\n" for s in corpus["test"])
    texts["trees.mrg"] = "".join(s.brackets + "\n" for s in corpus["test"])
    texts["rules.cfg"] = _rules([s for sentences in corpus.values() for s in sentences])
    return texts


def _conllu(part: str, sentences: list[GeneratedSentence], with_heads: bool) -> str:
    from pyrogram.data import tag_families

    families = tag_families("penn")
    lines = []
    for number, s in enumerate(sentences, 1):
        lines += [f"# sent_id = {part}-{number}", f"# text = {' '.join(s.forms)}"]
        for i, (form, tag, head) in enumerate(zip(s.forms, s.tags, s.heads, strict=True), 1):
            tree = f"{head}\t{'root' if head == 0 else 'dep'}" if with_heads else "_\t_"
            lines.append(f"{i}\t{form}\t_\t{_UNIVERSAL[families[tag]]}\t{tag}\t_\t{tree}\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


def _rules(sentences: list[GeneratedSentence]) -> str:
    """The rules of the sentences' bracketed trees, a left side to a line, in nltk's notation."""
    from nltk import Tree

    rights: dict[str, dict[str, None]] = {}
    for s in sentences:
        for rule in Tree.fromstring(s.brackets).productions():
            right = " ".join(_quoted(symbol) if isinstance(symbol, str) else str(symbol) for symbol in rule.rhs())
            rights.setdefault(str(rule.lhs()), {})[right] = None
    return "".join(f"{left} -> {' | '.join(sides)}\n" for left, sides in rights.items())


def _quoted(word: str) -> str:
    return f'"{word}"' if "'" in word else f"'{word}'"
