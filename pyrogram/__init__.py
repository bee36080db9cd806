# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bayesian probabilistic grammars for Pyro.

>>> grammar = pyrogram.DMV(num_tags=len(corpus.vocab))
>>> pyro.sample("words", pyrogram.distributions.Sentence(grammar, weights), obs=words)
"""

from . import data, distributions, infer, metrics
from .data import Corpus
from .grammars import DMV, Block, Grammar

__version__ = "0.1.0"

__all__ = ["DMV", "Block", "Corpus", "Grammar", "data", "distributions", "infer", "metrics"]
