# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Scorers of arcs that read a grammar: features, training, trees."""

from .arc_scorer import ArcScorer
from .examples import Examples, examples_of, grammar_of
from .features import TEMPLATES

__all__ = ["TEMPLATES", "ArcScorer", "Examples", "examples_of", "grammar_of"]


def __dir__() -> list[str]:
    return __all__
