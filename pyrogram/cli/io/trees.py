# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Predicted dependency trees as text: in the file that they are of, or in a new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pyrogram.cli.io.corpora import format_of
from pyrogram.data.export import conllu_text, replace_trees
from pyrogram.data.files import read_bytes
from pyrogram.data.records import SentenceRecord


def dependency_text(file: Path, format: str, records: Iterable[SentenceRecord], heads: Iterable[Sequence[int]]) -> str:
    """CoNLL-U with trees of all sentences: a file of CoNLL-U with other trees, or the words of any other file.

    :param records: all sentences of the file, with all their words.
    """
    if format_of(file, format) == "conllu":
        return replace_trees(read_bytes(str(file)).decode(), records, heads)
    return conllu_text(records, heads, with_relations=True)
