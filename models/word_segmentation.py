# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Word segmentation: words without a lexicon, found in utterances without boundaries.

The unigram and the bigram model of Goldwater, Griffiths and Johnson [1], with Dirichlet processes as there or with
Pitman-Yor processes as in Mochihashi, Yamada and Ueda [2]. For each level, all words and words after a word:

1. epsilon ~ Beta(1, 1), the discount; 0 for Dirichlet processes,
2. alpha + epsilon ~ Gamma(1, 0.001), the strength, alpha being the concentration;

and for new words and utterances:

3. stop ~ Beta(1, 1), the probability that a new word ends after a symbol,
4. end ~ Beta(1, 1), the probability that an utterance ends after a word,
5. utterances ~ SegmentedUtterances(grammar, alpha, epsilon, stop, end).

**References:**

[1] Goldwater, Griffiths and Johnson (2009), "A Bayesian framework for word segmentation: Exploring the effects of
    context", Cognition 112
[2] Mochihashi, Yamada and Ueda (2009), "Bayesian unsupervised word segmentation with nested Pitman-Yor language
    modeling", https://aclanthology.org/P09-1012
"""

from collections.abc import Mapping
from typing import Any, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.grammars.word_segmentation import BigramSegmentation, SegmentedUtterances, UnigramSegmentation

__all__ = ["GOLDWATER", "goldwater_temperatures", "word_segmentation"]

#: The hyperparameters of [1], which are fixed there, by the number of levels.
GOLDWATER: Mapping[int, Mapping[str, Any]] = {
    1: {"concentration": 20.0, "stop": 0.5},
    2: {"concentration": (3000.0, 100.0), "stop": 0.2, "end": 0.5},
}


def word_segmentation(
    utterances: Tensor,
    grammar: UnigramSegmentation | BigramSegmentation,
    prior: Literal["dirichlet", "pitman-yor"] = "pitman-yor",
    *,
    concentration: Any = None,
    stop: Any = None,
    end: Any = None,
) -> None:
    """The model, for :class:`~pyrogram.infer.SegmentationHastings`::

        grammar = BigramSegmentation("".join(forms))
        sampler = SegmentationHastings(word_segmentation).run(grammar.encode(forms), grammar, num_steps=1000)
        grammar.segments(utterances, sampler.boundaries)

    :param utterances: ``grammar.encode(forms)``, shape ``(N, n)``.
    :param concentration: alpha, of all levels or of each, where it is known; by default it is random, sites
        ``"discount"`` and ``"strength"``. ``stop`` and ``end`` are likewise sites, or known.
    :raises ValueError: if there is no such prior.
    """
    if prior not in ("dirichlet", "pitman-yor"):
        raise ValueError(f"expected the prior dirichlet or pitman-yor, actual {prior!r}.")
    levels = [grammar.num_levels]
    epsilon = torch.zeros(levels)
    if prior == "pitman-yor":
        epsilon = pyro.sample("discount", dist.Beta(1.0, 1.0).expand(levels).to_event(1))
    if concentration is None:
        concentration = pyro.sample("strength", dist.Gamma(1.0, 0.001).expand(levels).to_event(1)) - epsilon
    stop = pyro.sample("stop", dist.Beta(1.0, 1.0)) if stop is None else stop
    end = pyro.sample("end", dist.Beta(1.0, 1.0)) if end is None else end
    words = SegmentedUtterances(grammar, concentration, epsilon, stop=stop, end=end)
    pyro.sample("utterances", words, obs=utterances)


def goldwater_temperatures(num_steps: int) -> list[float]:
    """Annealing as in [1], section 4: ten stages of equal lengths, of temperatures 10, 5, 10/3, .. 10/9 and 1."""
    return [10 / (1 + 10 * step // num_steps) for step in range(num_steps)]
