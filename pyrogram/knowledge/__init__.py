# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What may be assumed of a language, or be discovered in its raw text, before its trees are learnt: as biases."""

from .discovered import closed_classes, count_once_roots, reducibility
from .punctuation import segments
from .recipe import Induced, assumptions, induce
from .rules import function_words_are_leaves, universal_rules

__all__ = [
    "Induced",
    "assumptions",
    "closed_classes",
    "count_once_roots",
    "function_words_are_leaves",
    "induce",
    "reducibility",
    "segments",
    "universal_rules",
]


def __dir__() -> list[str]:
    return __all__
