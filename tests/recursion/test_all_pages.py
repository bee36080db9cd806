# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code against lists of all derivations, for every page; long sentences against plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from enumeration import (
    Listed,
    Trace,
    expected_counts,
    grounded,
    instances_of,
    listed,
    log_sum,
    random_sentences,
    weights_of,
)
from pages import PAGES, Page, hmm, pcfg_rules, projective

from pyrogram.recursion import Recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.program import Program

LENGTHS = [4, 1, 3, 2, 3]


@dataclass
class Compiled:
    page: Page
    recursion: Recursion
    engine: Program

    def random(self, lengths: list[int] = LENGTHS, **options: Any) -> tuple[Inputs, list[Listed]]:
        given = random_sentences(self.page, self.recursion, lengths, np.random.default_rng(1), **options)
        return given, listed(self.page, self.recursion, given)


@pytest.fixture(scope="module", params=PAGES, ids=str)
def compiled(request: pytest.FixtureRequest) -> Iterator[Compiled]:
    made = request.param.make()
    yield Compiled(request.param, made, Program(made))


def check_log_counts(
    engine: Program, given: Inputs, truth: list[Listed], *, scale: Any = None, atol: float = 1e-11
) -> None:
    log_z, counts = engine.log_counts(given, scale=scale)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=atol, atol=atol)
    expected = expected_counts(given, truth, scale)
    assert counts.keys() == expected.keys()
    for name, table in expected.items():
        np.testing.assert_allclose(counts[name], table, atol=atol, err_msg=name)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shared", [None, False, True])
def test_log_z_and_counts_are_those_of_all_derivations(compiled: Compiled, shared: bool | None) -> None:
    given, truth = compiled.random([*LENGTHS, 4, 4], shared=shared)
    assert sum(len(one.uses) for one in truth) > 20
    check_log_counts(compiled.engine, given, truth)


@pytest.mark.one_in(2)
def test_each_sentence_has_its_scale(compiled: Compiled) -> None:
    given, truth = compiled.random()
    check_log_counts(compiled.engine, given, truth, scale=np.array([0.5, 2.0, 0.0, 1.0, 3.0]))


def test_without_counts_log_z_is_the_same(compiled: Compiled) -> None:
    given, _ = compiled.random()
    log_z, counts = compiled.engine.log_counts(given, counts=False)
    np.testing.assert_array_equal(log_z, compiled.engine.log_counts(given)[0])
    assert counts == {}


@pytest.mark.one_in(2)
def test_weights_of_any_strides(compiled: Compiled) -> None:
    """A transposed table and one that a stride of zero repeats are read as they are."""
    given, truth = compiled.random()
    turned = {name: np.asfortranarray(table) for name, table in given.weights.items()}
    check_log_counts(compiled.engine, Inputs(given.lengths, turned, given.words, given.sizes, given.lists), truth)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("forbidden", [0.3, 1.0])
def test_impossible_events(compiled: Compiled, forbidden: float) -> None:
    """Weights of -inf: what cannot be derived has log Z = -inf and counts nothing."""
    rng = np.random.default_rng(2)
    given, _ = compiled.random()
    for table in given.weights.values():
        table[rng.random(table.shape) < forbidden] = -np.inf
    truth = listed(compiled.page, compiled.recursion, given)
    assert forbidden < 1 or all(one.log_z == -np.inf for one in truth)
    check_log_counts(compiled.engine, given, truth)
    scores, traces = compiled.engine.best(given, 2, Trace(given).numbers(), 60)
    for b, one in enumerate(truth):
        best = np.sort(one.scores)[::-1][:2]
        np.testing.assert_allclose(scores[: len(best), b], best)
        assert (traces[scores[:, b] == -np.inf, b] == -1).all()
    log_z, draws = compiled.engine.draw(given, 3, 0, Trace(given).numbers(), 60)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth])
    assert (draws[:, log_z == -np.inf] == -1).all()


@pytest.mark.one_in(2)
def test_large_weights(compiled: Compiled) -> None:
    """Weights of exp(700) and exp(-700): the products of a few of them are no float64."""
    given, _ = compiled.random()
    rng = np.random.default_rng(3)
    for table in given.weights.values():
        table += rng.choice([-700.0, 700.0], table.shape)
    truth = listed(compiled.page, compiled.recursion, given)
    assert max(abs(one.log_z) for one in truth) > 1300
    check_log_counts(compiled.engine, given, truth)


def test_nan_stays_nan(compiled: Compiled) -> None:
    """In the sentence that it is a weight of, and in no other one."""
    given, truth = compiled.random(shared=False)
    for name, table in given.weights.items():
        saved = table[0].copy()
        table[0] = np.nan
        log_z, _ = compiled.engine.log_counts(given)
        assert np.isnan(log_z[0]), name
        np.testing.assert_allclose(log_z[1:], [one.log_z for one in truth[1:]], err_msg=name)
        table[0] = saved


@pytest.mark.one_in(3)
def test_k_best(compiled: Compiled) -> None:
    """The weights of the k best, in order, each once, and what each is made of."""
    given, truth = compiled.random()
    for k in (1, 4, 40):
        scores, traces = compiled.engine.best(given, k, Trace(given).numbers(), 60)
        for b, one in enumerate(truth):
            count = min(k, len(one.uses))
            np.testing.assert_allclose(scores[:count, b], np.sort(one.scores)[::-1][:count])
            assert (scores[count:, b] == -np.inf).all()
            best = np.argsort(-one.scores, kind="stable")[:count]
            found = Counter(Trace(given).uses(traces[rank, b]) for rank in range(count))
            assert found == Counter(tuple(sorted(one.uses[x])) for x in best)


@pytest.mark.one_in(2)
def test_k_best_of_equal_derivations(compiled: Compiled) -> None:
    """With all weights alike, each derivation is found as often as the rules have it."""
    given, _ = compiled.random([3, 2])
    for table in given.weights.values():
        table[:] = 0.0
    truth = listed(compiled.page, compiled.recursion, given)
    most = max(len(one.uses) for one in truth)
    _, traces = compiled.engine.best(given, most, Trace(given).numbers(), 60)
    for b, one in enumerate(truth):
        found = Counter(Trace(given).uses(traces[rank, b]) for rank in range(len(one.uses)))
        assert found == Counter(tuple(sorted(uses)) for uses in one.uses)


@pytest.mark.one_in(5)
def test_draws_follow_the_distribution(compiled: Compiled) -> None:
    """Pearson's statistic of 4,000 draws is below its mean and eight standard deviations."""
    given, truth = compiled.random([3, 1, 2])
    number = 4000
    log_z, traces = compiled.engine.draw(given, number, 5, Trace(given).numbers(), 60)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth])
    for b, one in enumerate(truth):
        probabilities = one.probabilities()
        found = Counter(Trace(given).uses(row) for row in traces[:, b])
        assert found.keys() <= probabilities.keys()
        expected = {uses: p * number for uses, p in probabilities.items() if p * number >= 5}
        statistic = sum((found[uses] - e) ** 2 / e for uses, e in expected.items())
        assert statistic <= len(expected) + 8 * np.sqrt(2 * len(expected))


@pytest.mark.one_in(3)
def test_draws_are_those_of_their_seed(compiled: Compiled) -> None:
    """Sentences that are alike, and seeds that follow one another, have draws of their own."""
    given, _ = compiled.random([4] * 6, shared=True)
    for table in given.words.values():
        table[:] = table[0]
    numbers = Trace(given).numbers()
    a, b, c = (compiled.engine.draw(given, 20, seed, numbers, 60)[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any(axis=(1, 2)).mean() > 0.5
    rows = [tuple(x) for x in a.transpose(1, 0, 2).reshape(6, -1)]
    assert len(set(rows)) == 6


def test_unary_rules_follow_one_another() -> None:
    """X_0 of a word becomes X_1 and X_2 in one cell: chains of unary rules of any length."""
    page = next(x for x in PAGES if x.name == "pcfg_rules")
    made = pcfg_rules()
    given = random_sentences(page, made, [1], np.random.default_rng(5))
    for name in ("lexical", "root"):
        given.weights[name][:] = -np.inf
    given.weights["lexical"][0, 0, :] = 0.0
    given.weights["root"][0, 2] = 0.0
    by_one, straight, last = given.weights["unary"][0]
    log_z, _ = Program(made).log_counts(given)
    np.testing.assert_allclose(log_z, [log_sum(np.array([by_one + last, straight]))])


# ---------------------------------------------------------------------- long sentences


def eisner(arc: Any) -> float:
    """Log Z of plain projective trees with one child of ROOT, written again as loops over spans by width."""
    n = len(arc) - 1
    RC, LC, IR, IL = (np.full((n + 2, n + 2), -np.inf) for _ in range(4))
    for i in range(1, n + 1):
        RC[i, i] = LC[i, i] = 0.0
    for width in range(1, n):
        for i in range(1, n - width + 1):
            j = i + width
            both = log_sum(RC[i, i:j] + LC[i + 1 : j + 1, j])
            IR[i, j], IL[i, j] = arc[i, j] + both, arc[j, i] + both
            RC[i, j] = log_sum(IR[i, i + 1 : j + 1] + RC[i + 1 : j + 1, j])
            LC[i, j] = log_sum(LC[i, i:j] + IL[i:j, j])
    return log_sum(arc[0, 1:] + LC[1, 1 : n + 1] + RC[1 : n + 1, n])


def forward(initial: Any, transition: Any, emission: Any, final: Any, words: Any) -> float:
    """Log Z of a hidden Markov model."""
    alpha = initial + emission[:, words[0]]
    for w in words[1:]:
        alpha = np.array([log_sum(column) for column in (alpha[:, None] + transition).T]) + emission[:, w]
    return log_sum(alpha + final)


def test_a_long_sentence_of_trees() -> None:
    arc = 3.0 * np.random.default_rng(6).normal(size=(1, 61, 61))
    log_z, counts = Program(projective()).log_counts(Inputs(np.array([60]), {"arc": arc}, {}, {}, {}))
    np.testing.assert_allclose(log_z, [eisner(arc[0])], rtol=1e-13)
    table = counts["arc"][0]
    np.testing.assert_allclose(table[:, 1:].sum(0), np.ones(60))  # every word has one head
    np.testing.assert_allclose(table[0].sum(), 1.0)
    step = 1e-5
    for h, d in ((0, 7), (12, 13), (40, 11)):
        up, down = arc[0].copy(), arc[0].copy()
        up[h, d] += step
        down[h, d] -= step
        assert table[h, d] == pytest.approx((eisner(up) - eisner(down)) / (2 * step), abs=1e-8)


def test_a_long_sentence_of_a_hidden_markov_model() -> None:
    rng = np.random.default_rng(7)
    K, W, n = 4, 5, 60
    weights = dict(initial=(K,), final=(K,), transition=(K, K), emission=(K, W))
    logs = {name: rng.normal(size=(1, *shape)) for name, shape in weights.items()}
    words = rng.integers(0, W, (1, n))
    given = Inputs(np.array([n]), logs, {"w": words}, dict(K=K, W=W), {})
    log_z, counts = Program(hmm()).log_counts(given)
    one = {name: table[0] for name, table in logs.items()}
    np.testing.assert_allclose(log_z, [forward(**one, words=words[0])], rtol=1e-13)
    np.testing.assert_allclose(counts["emission"][0].sum(0), np.bincount(words[0], minlength=W))
    np.testing.assert_allclose(counts["transition"].sum(), n - 1)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("forbidden", "size"), [(0.0, 0.0), (0.2, 0.0), (0.0, 700.0)])
def test_the_derivation_with_the_most_expected_instances(compiled: Compiled, forbidden: float, size: float) -> None:
    """Against the sums of all derivations, from the posteriors of all instances; also of numbers with exponents."""
    given, _ = compiled.random()
    rng = np.random.default_rng(7)
    for table in given.weights.values():
        table += rng.choice([-size, size], table.shape)
        table[rng.random(table.shape) < forbidden] = -np.inf
    worth = {name: rng.integers(0, 3, table.shape).astype(float) for name, table in given.weights.items()}
    found, rows = compiled.engine.most_expected(given, worth, Trace(given).numbers(), 60)
    for b in range(len(given.lengths)):
        sentence, logs = grounded(compiled.page, compiled.recursion, given, b), weights_of(given, b)
        worth_of = {name: table[b if len(table) > 1 else 0] for name, table in worth.items()}
        uses, scores, gains = [], [], Counter[Any]()
        derivations = instances_of(sentence)
        for one in derivations:
            uses.append([key for head, x in one for key in sentence.instances[head][x].weights])
            scores.append(sum(logs[name][indices] for name, indices in uses[-1]))
        log_z = log_sum(np.array(scores))
        possible = [x for x, score in enumerate(scores) if score > -np.inf]
        for x in possible:
            for instance in set(derivations[x]):
                gains[instance] += np.exp(scores[x] - log_z) * derivations[x].count(instance)
        sums = {}
        for x in possible:
            sums[x] = sum(
                gains[head, y] * sum(worth_of[name][i] for name, i in sentence.instances[head][y].weights)
                for head, y in derivations[x]
            )
        if not sums:
            assert found[b] == -np.inf and (rows[b] == -1).all()
            continue
        best = max(sums.values())
        assert found[b] == pytest.approx(best, rel=1e-10, abs=1e-12)
        chosen = Trace(given).uses(rows[b])
        assert any(tuple(sorted(uses[x])) == chosen and sums[x] > best - 1e-9 for x in sums)
