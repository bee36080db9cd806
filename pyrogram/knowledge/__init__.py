# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is known of a language before its trees are learnt: biases, and priors that languages share."""

from .discovered import closed_classes, closed_tags, count_once_roots, reducibility
from .languages import UNIVERSAL_TAGS, Shares, Sources, read_treebanks
from .punctuation import segments
from .recipe import Assumed, Induced, assumptions, induce
from .refitting import WordParser, refit_induced, refit_words
from .rules import function_words_are_leaves, universal_rules
from .scorer import ArcScorer, Examples, examples_of, grammar_of
from .transfer import ZeroShot, self_train, zero_shot

__all__ = [
    "UNIVERSAL_TAGS",
    "ArcScorer",
    "Assumed",
    "Examples",
    "Induced",
    "Shares",
    "Sources",
    "WordParser",
    "ZeroShot",
    "assumptions",
    "closed_classes",
    "closed_tags",
    "count_once_roots",
    "examples_of",
    "function_words_are_leaves",
    "grammar_of",
    "induce",
    "read_treebanks",
    "reducibility",
    "refit_induced",
    "refit_words",
    "segments",
    "self_train",
    "universal_rules",
    "zero_shot",
]


def __dir__() -> list[str]:
    return __all__
