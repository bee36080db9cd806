# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The paired bootstrap, against all samples that there are; the sign test, against all throws of a coin."""

from itertools import product

import numpy as np
import pytest
import scipy.stats

from pyrogram.metrics.significance import SignTest, binomial_sign_test, bootstrap_difference

FIRST, SECOND, WORDS = [4, 1, 2, 6], [2, 3, 1, 3], [5, 4, 2, 9]


def all_samples() -> np.ndarray:
    """The difference on each of the 4**4 samples of four sentences."""
    rows = [
        (sum(FIRST[i] - SECOND[i] for i in chosen), sum(WORDS[i] for i in chosen))
        for chosen in product(range(4), repeat=4)
    ]
    return np.array([gain / words for gain, words in rows])


def test_many_samples_come_to_all() -> None:
    exact = all_samples()
    found = bootstrap_difference(FIRST, SECOND, WORDS, samples=200_000, seed=1)
    assert found.difference == (13 - 9) / 20
    far = (abs(exact - 0.2) >= 0.2 - 1e-12).mean()
    assert 0.1 < far < 0.9
    assert found.p_value == pytest.approx(far, abs=0.005)  # five standard errors
    assert found.low == pytest.approx(np.quantile(exact, 0.025), abs=0.01)
    assert found.high == pytest.approx(np.quantile(exact, 0.975), abs=0.01)
    narrow = bootstrap_difference(FIRST, SECOND, WORDS, samples=200_000, seed=1, confidence=0.5)
    assert narrow.low == pytest.approx(np.quantile(exact, 0.25), abs=0.01)
    assert narrow.p_value == found.p_value


def test_the_interval_is_scipys() -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(1, 30, 300)
    first, second = rng.binomial(words, 0.6), rng.binomial(words, 0.55)
    ours = bootstrap_difference(first.tolist(), second.tolist(), words.tolist(), seed=2)

    def difference(a: np.ndarray, b: np.ndarray, w: np.ndarray, axis: int = -1) -> np.ndarray:
        return (a - b).sum(axis) / w.sum(axis)

    theirs = scipy.stats.bootstrap(
        (first, second, words), difference, paired=True, method="percentile", n_resamples=10_000, random_state=7
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.001)


def test_seed_and_edges() -> None:
    same = [bootstrap_difference(FIRST, SECOND, WORDS, samples=99, seed=seed) for seed in (0, 0, 1)]
    assert same[0] == same[1] != same[2]
    equal = bootstrap_difference(FIRST, FIRST, WORDS, samples=50)
    assert (equal.difference, equal.low, equal.high, equal.p_value) == (0, 0, 0, 1)
    # sentences without words count nowhere: they are not drawn
    padded = bootstrap_difference([*FIRST, 0], [*SECOND, 0], [*WORDS, 0], samples=99)
    assert padded == same[0]
    sure = bootstrap_difference([3] * 9, [0] * 9, [3] * 9, samples=99)
    assert (sure.difference, sure.low, sure.p_value) == (1, 1, 0.01)  # of 100 with the one found, none is as far


@pytest.mark.parametrize(
    "first, second, words, options, message",
    [
        ([1, 2], [1], [2, 2], {}, "a count for each sentence, got 2, 1 and 2"),
        ([3], [1], [2], {}, "counts from 0 to words"),
        ([-1], [1], [2], {}, "counts from 0 to words"),
        ([0], [0], [0], {}, "not all zero"),
        ([1], [1], [2], {"samples": 0}, "samples must be at least 1, got 0"),
        ([1], [1], [2], {"confidence": 1.0}, "between 0 and 1"),
    ],
)
def test_refused(first: list[int], second: list[int], words: list[int], options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_difference(first, second, words, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("better, worse, ties", [(1, 0, 2), (4, 1, 0), (3, 3, 1), (2, 5, 1), (0, 6, 3), (0, 0, 2)])
def test_signs_are_throws_of_a_coin(better: int, worse: int, ties: int) -> None:
    """Of all throws of as many coins as there are differences, those that differ as much."""
    first, second = [3] * better + [1] * worse + [2] * ties, [2] * (better + worse + ties)
    throws = list(product((-1, 1), repeat=better + worse))
    far = sum(abs(sum(throw)) >= abs(better - worse) for throw in throws) / len(throws)
    found = binomial_sign_test(first, second)
    assert (found.better, found.worse, found.p_value) == (better, worse, pytest.approx(far, rel=1e-12))
    assert binomial_sign_test(second, first) == SignTest(worse, better, found.p_value)


@pytest.mark.parametrize("better, worse", [(40, 61), (5000, 5000), (5100, 4900), (60_000, 40_000), (200_000, 200_900)])
def test_the_sign_test_is_scipys(better: int, worse: int) -> None:
    expected = scipy.stats.binomtest(better, better + worse).pvalue
    found = binomial_sign_test([1] * better + [0] * worse, [0] * better + [1] * worse)
    assert found.p_value == pytest.approx(expected, rel=1e-7, abs=1e-300)


def test_scores_of_other_words() -> None:
    with pytest.raises(ValueError, match="scores of the same words, got 2 and 1"):
        binomial_sign_test([1, 0], [1])
