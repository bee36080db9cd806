# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees for a file without a run: by what is known of other languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pyrogram.choices import Decoder
from pyrogram.cli.io.corpora import name_of, read_corpus, read_whole
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.cli.io.trees import dependency_text
from pyrogram.cli.runs.starts import double_precision
from pyrogram.data.heads import rows_of_heads
from pyrogram.data.punctuation import heads_with_punctuation, kept_words
from pyrogram.knowledge import UNIVERSAL_TAGS, zero_shot


def parse_zero_shot(file: Path, format: str, decoder: Decoder) -> Iterable[str]:
    """The text of a file with trees; what was assumed goes to stderr.

    :raises CommandError: if its tags are not universal, or all sentences too long to learn from.
    """
    whole = read_whole(file, format, "upos", "ignore", keep_text=True)
    trees: Iterable[Sequence[int]] = ()
    if any(any(kept_words(record)) for record in whole.sentences):
        corpus = read_corpus(
            whole,
            tags="upos",
            heads="ignore",
            no_tags_option="give a file that has them, for all that is known of other languages is of universal tags",
        )
        others = sorted(set(corpus.vocab) - {*UNIVERSAL_TAGS, "_"})
        if others:
            named = ", ".join(others[:5]) + ", ..." * (len(others) > 5)
            raise CommandError(
                f"{name_of(file)} has tags that are not universal ({named}); give one with universal tags"
            )
        with double_precision():
            try:
                parser = zero_shot(corpus)
            except ValueError as error:
                raise CommandError(f"{name_of(file)}: {error}") from None
            heads = parser.parse(corpus, decoder)
        note("note: assumed: " + " ".join(parser.told))
        trees = rows_of_heads(heads, corpus.lengths)
    return dependency_text(whole, heads_with_punctuation(whole.sentences, trees))
