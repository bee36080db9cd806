# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Best derivations and draws of many sentences at once, against lists of all derivations and the k best."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from enumeration import Trace, listed, random_sentences
from pages import PAGES, Page
from test_program import TREES, sentences

from pyrogram.recursion import Recursion, recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.engine import LanesEngine
from pyrogram.recursion.run.program import Program

PROGRAMS = {page.name: Program(page.make()) for page in PAGES}
WITH_SYMBOLS = [page for page in PAGES if LanesEngine(page.make()).has_symbols]
LENGTHS = [4, 1, 3, 2, 3, 4, 4, 2, 1, 1, 3]
WIDTH = 60


def ranked(made: Recursion, given: Inputs) -> Any:
    """The greatest log weights as for the k best, without lanes, shape ``(1, B)``."""
    return Program(made).best(given, 2, {}, 1)[0][:1]


def below_one(given: Inputs) -> Inputs:
    """Weights that are probabilities."""
    for table in given.weights.values():
        table -= table.max()
    return given


def check_rows(given: Inputs, truth: list[Any], scores: Any, rows: Any) -> None:
    for b, one in enumerate(truth):
        np.testing.assert_allclose(scores[0, b], np.max(one.scores, initial=-np.inf), rtol=1e-12)
        uses = Trace(given).uses(rows[0, b])
        best = [tuple(sorted(u)) for u, s in zip(one.uses, one.scores, strict=True) if s == one.scores.max() > -np.inf]
        assert uses in best if best else uses == ()


@pytest.mark.one_in(30)
@pytest.mark.parametrize("shared", [False, None])
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_best_derivation(page: Page, shared: bool | None) -> None:
    made = page.make()
    given = random_sentences(page, made, LENGTHS, np.random.default_rng(0), shared=shared)
    check_rows(given, listed(page, made, given), *Program(made).best(given, 1, Trace(given).numbers(), WIDTH))
    for table in given.weights.values():
        table[np.random.default_rng(1).random(table.shape) < 0.6] = -np.inf
    truth = listed(page, made, given)
    assert any(not (one.scores > -np.inf).any() for one in truth)
    check_rows(given, truth, *Program(made).best(given, 1, Trace(given).numbers(), WIDTH))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", TREES)
def test_the_best_derivations_of_long_sentences(name: str, dtype: str) -> None:
    made = TREES[name]()
    given = sentences(made, [25, 3, 9, 25, 18, 40, 40, 11, 12, 13, 14], dtype, 20.0)
    trace = Trace(given)
    scores, rows = Program(made).best(given, 1, trace.numbers(), 400)
    expected = ranked(made, given)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    for b, score in enumerate(scores[0]):
        uses = trace.uses(rows[0, b])
        own = [float(given.weights[table][(b if len(given.weights[table]) > 1 else 0, *at)]) for table, at in uses]
        np.testing.assert_allclose(sum(own), score, rtol=1e-10)


@pytest.mark.one_in(28)
@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.slow), None])
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_draws_follow_the_distribution(page: Page, shared: bool | None, below: bool) -> None:
    made, number = page.make(), 3000
    lengths = [3, 1, 2, 3, 3, 2, 2, 1, 3, 3]
    given = random_sentences(page, made, lengths, np.random.default_rng(2), shared=shared)
    given = below_one(given) if below else given
    truth, program = listed(page, made, given), Program(made)
    log_z, rows = program.draw(given, number, 7, Trace(given).numbers(), WIDTH)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-12)
    trace, distances = Trace(given), []
    for b, one in enumerate(truth):
        found = Counter(trace.uses(rows[s, b]) for s in range(number))
        expected = one.probabilities()
        assert found.keys() <= expected.keys()
        for uses, p in expected.items():
            distances.append((found[uses] / number - p) / np.sqrt(max(p * (1 - p), 1 / number) / number))
    assert np.abs(distances).max() < 5
    again = program.draw(given, number, 7, trace.numbers(), WIDTH)[1]
    assert (again == rows).all()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["two leaves", "projective", "several roots", "second order", "valence and stops"])
def test_draws_of_long_sentences_have_the_expected_counts(name: str, dtype: str) -> None:
    """Columns are scaled, and some sentences are too much for lanes."""
    made, number = TREES[name](), 1500
    given = sentences(made, [30, 18, 30, 22, 9, 13, 14, 15, 16, 17], dtype, 2.0)
    if name in ("two leaves", "projective", "several roots"):
        given = below_one(given)
    given.weights["arc"][3] -= 300.0
    program, trace = Program(made), Trace(given)
    log_z, rows = program.draw(given, number, 3, trace.numbers(), 200)
    expected_z, counts = program.log_counts(given)
    np.testing.assert_allclose(log_z, expected_z, rtol=1e-5 if dtype == "float32" else 1e-12)
    for b in range(len(log_z)):
        drawn = np.bincount(rows[:, b][rows[:, b] >= 0], minlength=sum(t[0].size for t in given.weights.values()))
        for table, of_all in counts.items():
            start, p = trace.starts[table], of_all[b].astype(float).ravel()
            found = drawn[start : start + p.size] / number
            assert (np.abs(found - p) <= 5.5 * np.sqrt(p * (1 - p).clip(0) / number) + 2e-3).all(), table


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("shared", [False, None])
@pytest.mark.parametrize("page", WITH_SYMBOLS, ids=str)
def test_long_sentences_with_symbols(page: Page, shared: bool | None, dtype: str) -> None:
    """Columns are scaled."""
    made, number, rng = page.make(), 1500, np.random.default_rng(4)
    given = random_sentences(page, made, [24, 3, 18, 24, 5, 11, 12, 7, 16, 17, 1], rng, shared=shared, dtype=dtype)
    given = below_one(given)
    if not shared:
        given.weights[next(f.table for rule in made.rules for f in rule.weights)][:1] -= 400.0
    program, trace = Program(made), Trace(given)
    log_z, rows = program.draw(given, number, 3, trace.numbers(), 200)
    scores, best = program.best(given, 1, trace.numbers(), 200)
    expected_z, counts = program.log_counts(replace(given, weights={k: one_each(t) for k, t in given.weights.items()}))
    np.testing.assert_allclose(log_z, expected_z, rtol=1e-5 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(
        scores,
        ranked(made, given),
        rtol=1e-12,
    )
    for b, score in enumerate(scores[0]):
        own = [
            float(given.weights[table][(b if len(given.weights[table]) > 1 else 0, *at)])
            for table, at in trace.uses(best[0, b])
        ]
        np.testing.assert_allclose(sum(own), score, rtol=1e-10)
        drawn = np.bincount(rows[:, b][rows[:, b] >= 0], minlength=sum(t[0].size for t in given.weights.values()))
        for table, of_all in counts.items():
            start, mean = trace.starts[table], of_all[b].astype(float).ravel()
            found = drawn[start : start + mean.size] / number
            assert (np.abs(found - mean) <= 6 * np.sqrt(24 * mean / number) + 2e-3).all(), table


@pytest.mark.one_in(9)
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_draws_under_weights_of_any_size(page: Page) -> None:
    """Some in plain numbers, and some in numbers with exponents: in a block of both."""
    made, number = page.make(), 2000
    given = random_sentences(page, made, [3, 3, 2, 3, 1, 3, 2, 3, 3], np.random.default_rng(3), shared=False)
    for table in given.weights.values():
        table[1::3] *= 150.0
        table[2::3] += 30.0
    truth, trace = listed(page, made, given), Trace(given)
    log_z, rows = PROGRAMS[page.name].draw(given, number, 5, trace.numbers(), WIDTH)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-10, atol=1e-10)
    for b, one in enumerate(truth):
        found = Counter(trace.uses(rows[s, b]) for s in range(number))
        for uses, p in one.probabilities().items():
            assert abs(found[uses] - number * p) < 6 * np.sqrt(number * p * max(1 - p, 0)) + 3
        assert found.keys() <= one.probabilities().keys()


def one_each(table: Any) -> Any:
    return np.repeat(table, 11, 0) if len(table) == 1 else table


def test_draws_of_impossible_and_unknown_weights() -> None:
    made = TREES["valence and stops"]()
    given = sentences(made, [4, 3, 4, 2, 1], "float64", 1.0)
    given.weights["arc"][1], given.weights["arc"][3] = -np.inf, np.nan
    log_z, rows = Program(made).draw(given, 2, 0, Trace(given).numbers(), 60)
    assert log_z[1] == -np.inf and np.isnan(log_z[3])
    assert (rows[:, [1, 3]] == -1).all() and (rows[:, [0, 2, 4]] >= 0).any(-1).all()


@recursion
def one_column_of_two_items(p: Any) -> None:
    """A column names symbols of an item that has many and of one that has two."""
    j = p.positions("j")
    r, x, y = p.symbols("r", "R"), p.symbols("x", "N"), p.symbols("y", 2)
    A = p.columns("A", "R")
    F, G, Z = p.items("F", "N"), p.items("G", 2), p.items("Z")
    f, g = p.weights("f g", "R")
    h = p.weights("h", "N")
    F[j, x] += h[x]
    F[j, A[r]] += f[r]
    G[j, A[r]] += g[r]
    Z[()] += F[p.n, x] * G[p.n, y]


def test_rows_of_one_column_for_two_items() -> None:
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(1, size)) for name, size in (("f", 5), ("g", 5), ("h", 7))}
    given = Inputs(np.array([3] * 4), weights, {}, {"R": 5, "N": 7}, {"A": np.array([1, 0, 1, 0, 1])})
    program, trace = Program(one_column_of_two_items()), {"f": (0, 1), "h": (5, 1), "g": (12, 1)}
    first = np.concatenate([weights["f"][0], weights["h"][0]])
    pairs = {(a, 12 + b): first[a] + weights["g"][0, b] for a in range(12) for b in range(5)}
    scores, rows = program.best(given, 60, trace, 2)
    np.testing.assert_allclose(scores, np.sort(list(pairs.values()))[::-1, None].repeat(4, 1))
    assert [tuple(row) for row in rows[:, 0]] == sorted(pairs, key=pairs.__getitem__, reverse=True)
    log_z, drawn = program.draw(given, 10_000, 1, trace, 2)
    for (a, b), score in pairs.items():
        share, expected = (drawn == (a, b)).all(-1).mean(), np.exp(score - log_z[0])
        assert abs(share - expected) < 5 * np.sqrt(expected / 40_000)
