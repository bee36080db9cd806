# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Predicted dependency trees as text, written one by one: in the file that they are of, or in a new one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from torch import Tensor

from pyrogram.cli.io.corpora import WholeFile
from pyrogram.data import Corpus
from pyrogram.data.export import conllu_text, replace_trees
from pyrogram.data.heads import rows_of_heads
from pyrogram.data.records import SentenceRecord


def dependency_text(
    file: WholeFile, heads: Iterable[Sequence[int]], records: Iterable[SentenceRecord] | None = None
) -> Iterator[str]:
    """CoNLL-U with trees of all sentences: a file of CoNLL-U with other trees, or the words of any other file.

    :param file: whose text was kept.
    :param records: its sentences with other tags, such as a tagger's; None: as they are.
    """
    records = file.sentences if records is None else records
    if file.kind == "conllu":
        return replace_trees(file.text(), records, heads)
    return conllu_text(records, heads, with_relations=True)


def parses_text(corpus: Corpus, heads: Tensor, told: str) -> Iterator[str]:
    """CoNLL-U with predicted heads, and a comment that says how they were predicted."""
    from pyrogram import __version__

    first = f"# parser = pyrogram {__version__}, {told}\n"
    return chain([first], conllu_text(corpus.sentences, rows_of_heads(heads, corpus.lengths)))
