# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Morphology and word segmentation with sparse grammars over characters.

The model of Johnson, Griffiths and Goldwater [1], section 4, used again by Wang and Blunsom [2], section 4.1. Any
substring of the corpus may be a part of a word, by a rule of its own (:mod:`pyrogram.grammars.segmentation`).

1. theta[A] ~ Dirichlet(alpha, ..., alpha), for the rules of each nonterminal A,
2. form l ~ PCFG(theta), a word or an utterance without its boundaries.

With alpha as small as 1e-5 most of the many thousand rules have no weight at all::

    grammar = verb_grammar(forms)
    loop = CollapsedVB(morphology).run(encode(grammar, forms), grammar)
    segment(grammar, loop.weights(), forms)

**References:**

[1] Johnson, Griffiths and Goldwater (2007), "Bayesian inference for PCFGs via Markov chain Monte Carlo",
    https://aclanthology.org/N07-1018
[2] Wang and Blunsom (2013), "Collapsed variational Bayesian inference for PCFGs",
    https://aclanthology.org/W13-3519
"""

from collections.abc import Mapping, Sequence

import pyro
import torch
from torch import Tensor

from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammars import CFG
from pyrogram.grammars.segmentation import (
    VERB_TEMPLATE,
    encode,
    random_start,
    segment,
    segments,
    substrings,
    unigram_grammar,
    verb_grammar,
)
from pyrogram.metrics import perplexity

__all__ = [
    "VERB_TEMPLATE",
    "encode",
    "form_perplexity",
    "morphology",
    "random_start",
    "segment",
    "segments",
    "substrings",
    "unigram_grammar",
    "verb_grammar",
]


def morphology(words: Tensor, grammar: CFG, *, concentration: float = 1e-5) -> None:
    """All rules of one left side share a symmetric Dirichlet, site ``"rules"``; forms are site ``"words"``.

    :param words: unsegmented forms, ``encode(grammar, forms)``, shape ``(N, n)``.
    :param grammar: for example from :func:`verb_grammar` or :func:`unigram_grammar`.
    :param concentration: alpha: 1e-5, as in both papers, prefers few rules to many.
    """
    theta = pyro.sample("rules", dirichlet_prior(grammar.blocks["rules"], concentration))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, {"rules": theta}), obs=words)


def form_perplexity(grammar: CFG, weights: Mapping[str, Tensor], forms: Sequence[Sequence[str]]) -> float:
    """Perplexity per form (word or utterance): exp of minus the mean log probability, summed over derivations."""
    with torch.no_grad():
        return perplexity(Sentence(grammar, weights, normalized=False).log_prob(encode(grammar, forms)))
