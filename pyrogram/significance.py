# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether one parser is better than another, or had luck with the test sentences: the paired bootstrap.

Sentences are drawn with replacement, as many as there are, and both parsers are scored on each such sample; a sentence
is drawn with both of its parses. What the difference of accuracies does from sample to sample is what it would do from
one test part to another.

**References:**

[1] Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapters 13 (percentile intervals) and 16
[2] Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation", https://aclanthology.org/W04-3250
[3] Berg-Kirkpatrick, Burkett and Klein (2012), "An Empirical Investigation of Statistical Significance in NLP",
    Figure 1, https://aclanthology.org/D12-1091
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Bootstrap", "bootstrap_difference"]

_DRAWS = 1 << 22  # sentences drawn at a time


@dataclass(frozen=True)
class Bootstrap:
    """The difference of two accuracies, as fractions, and how sure it is.

    :param difference: accuracy of the first minus that of the second.
    :param low: lower end of the percentile interval of the difference.
    :param high: its upper end.
    :param p_value: two-sided: how often a sample's difference is at least as far from the difference found as this is
        from zero, counting what was found as one sample more.
    :param confidence: of the interval.
    :param samples: how many samples were drawn.
    """

    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    samples: int


def bootstrap_difference(
    first: Sequence[int],
    second: Sequence[int],
    words: Sequence[int],
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Compare two accuracies that are fractions of the words of the same N sentences.

    :param first: how many words of each sentence the first parser has right.
    :param second: the same of the second.
    :param words: how many words each sentence has.
    :raises ValueError: for numbers of sentences that differ, no words, and counts that are not from 0 to ``words``.
    """
    right, others, sizes = (np.asarray(counts, dtype=np.int64) for counts in (first, second, words))
    if not right.shape == others.shape == sizes.shape or right.ndim != 1:
        raise ValueError(
            f"first, second and words must hold a count for each sentence, got {len(first)}, {len(second)} and "
            f"{len(words)}."
        )
    if bool(((right < 0) | (right > sizes) | (others < 0) | (others > sizes)).any()) or not sizes.any():
        raise ValueError("first and second must be counts from 0 to words, and words not all zero; some are not.")
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}.")
    gain, sizes = (right - others)[sizes > 0], sizes[sizes > 0]
    found = float(gain.sum() / sizes.sum())
    drawn = _differences(gain, sizes, samples, seed)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    # Rounding must not decide whether a sample like the one found is as far away.
    extreme = int((np.abs(drawn - found) >= abs(found) - 1e-12).sum())
    return Bootstrap(found, float(low), float(high), (extreme + 1) / (samples + 1), confidence, samples)


def _differences(gain: np.ndarray, sizes: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """The difference on each sample of sentences."""
    random = np.random.default_rng(seed)
    n, parts = len(sizes), []
    step = max(1, _DRAWS // n)
    for start in range(0, samples, step):
        chosen = random.integers(n, size=(min(step, samples - start), n))
        parts.append(gain[chosen].sum(1) / sizes[chosen].sum(1))
    return np.concatenate(parts)
