# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions: dynamic programs over sentences, written as in a paper."""

from .interpreter import Best, Derivations, Entropy, Grounded, Reals, Semiring
from .language import InvalidRecursion, Recursion
from .pages import recursion

__all__ = [
    "Best",
    "Derivations",
    "Entropy",
    "Grounded",
    "InvalidRecursion",
    "Reals",
    "Recursion",
    "Semiring",
    "recursion",
]


def __dir__() -> list[str]:
    return __all__
