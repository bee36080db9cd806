# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora in and out: CoNLL-U, bracketed trees, tagged text; tensors, CoNLL-U, graphs."""

from pyrogram.data.corpus import Corpus
from pyrogram.data.families import FAMILIES, PAPER_FAMILIES, tag_families
from pyrogram.data.head_rules import HEAD_RULES, head_child
from pyrogram.data.lexical import LexicalCorpus, Lexicon
from pyrogram.data.punctuation import PENN_CURRENCY, PENN_PUNCTUATION, UNIVERSAL_PUNCTUATION
from pyrogram.data.records import CorpusError, SentenceRecord
from pyrogram.data.segmentation import (
    SegmentedCorpus,
    generated_utterances,
    generated_verbs,
    read_morphs,
    read_utterances,
)
from pyrogram.data.treebank import KnownWords, Treebank, read_treebank, read_trees
from pyrogram.data.vocabulary import Vocabulary
from pyrogram.data.word_tags import WordTags

__all__ = [
    "FAMILIES",
    "HEAD_RULES",
    "PAPER_FAMILIES",
    "PENN_CURRENCY",
    "PENN_PUNCTUATION",
    "UNIVERSAL_PUNCTUATION",
    "Corpus",
    "CorpusError",
    "KnownWords",
    "LexicalCorpus",
    "Lexicon",
    "SegmentedCorpus",
    "SentenceRecord",
    "Treebank",
    "Vocabulary",
    "WordTags",
    "generated_utterances",
    "generated_verbs",
    "head_child",
    "read_morphs",
    "read_treebank",
    "read_trees",
    "read_utterances",
    "tag_families",
]


def __dir__() -> list[str]:
    return __all__
