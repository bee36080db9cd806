# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether one parser is better than another, or had luck with the test sentences: paired bootstrap and sign test.

In the bootstrap, sentences are drawn with replacement, as many as there are, and both parsers are scored on each such
sample; a sentence is drawn with both of its parses. What the difference of accuracies does from sample to sample is
what it would do from one test part to another.

The sign test counts the words (or the sentences) on which either parser is the better one. If neither were better in
general, each of these would be a fair coin's.

**References:**

[1] Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapters 13 (percentile intervals) and 16
[2] Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation", https://aclanthology.org/W04-3250
[3] Berg-Kirkpatrick, Burkett and Klein (2012), "An Empirical Investigation of Statistical Significance in NLP",
    Figure 1, https://aclanthology.org/D12-1091
[4] Dixon and Mood (1946), "The Statistical Sign Test", Journal of the American Statistical Association 41
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Bootstrap", "SignTest", "binomial_sign_test", "bootstrap_difference", "rank_correlation"]

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
    difference = float(gain.sum() / sizes.sum())
    drawn = _differences(gain, sizes, samples, seed)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    # Rounding must not decide whether a sample like the one found is as far away.
    extreme = int((np.abs(drawn - difference) >= abs(difference) - 1e-12).sum())
    return Bootstrap(difference, float(low), float(high), (extreme + 1) / (samples + 1), confidence, samples)


def _differences(gain: np.ndarray, sizes: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """The difference on each sample of sentences."""
    random = np.random.default_rng(seed)
    n, differences = len(sizes), []
    step = max(1, _DRAWS // n)
    for start in range(0, samples, step):
        chosen = random.integers(n, size=(min(step, samples - start), n))
        differences.append(gain[chosen].sum(1) / sizes[chosen].sum(1))
    return np.concatenate(differences)


@dataclass(frozen=True)
class SignTest:
    """On how many words (or sentences) either of two parsers is better, and how sure it is which one is.

    :param better: on how many the first is better.
    :param worse: on how many the second is.
    :param p_value: two-sided: how probable it is that ``better + worse`` throws of a fair coin differ as much. Ties
        do not count.
    """

    better: int
    worse: int
    p_value: float


def binomial_sign_test(first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray) -> SignTest:
    """The exact binomial test of the signs of ``first - second`` [4].

    >>> binomial_sign_test([3, 2, 5, 4], [1, 2, 4, 3])  # three coins of one side: 2 / 2**3
    SignTest(better=3, worse=0, p_value=0.25)

    :param first: a score of the first parser for each word or sentence; more is better.
    :param second: the same of the second.
    :raises ValueError: for numbers of scores that differ.
    """
    if len(first) != len(second):
        raise ValueError(f"first and second must hold scores of the same words, got {len(first)} and {len(second)}.")
    gain = np.asarray(first) - np.asarray(second)
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    if abs(better - worse) <= 1:  # all throws differ as much
        return SignTest(better, worse, 1.0)
    n = better + worse
    k = np.arange(1, min(better, worse) + 1)
    # log2 of C(n, 0), C(n, 1), ...: binomial coefficients themselves exceed all floating-point numbers.
    log_ways = np.concatenate([[0.0], np.cumsum(np.log2((n - k + 1) / k))])
    return SignTest(better, worse, 2 * float(np.exp2(log_ways - n).sum()))


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's: Pearson's correlation of the ranks, ties at their mean rank; None if one side is constant."""
    a, b = _ranks(x), _ranks(y)
    mean = (len(a) - 1) / 2
    covariance = math.fsum((p - mean) * (q - mean) for p, q in zip(a, b, strict=True))
    scale = math.fsum((p - mean) ** 2 for p in a) * math.fsum((q - mean) ** 2 for q in b)
    return covariance / math.sqrt(scale) if scale > 0 else None


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]
