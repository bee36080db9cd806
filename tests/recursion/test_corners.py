# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pages at the edge of the language by all engines, and what single pages showed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from corners import CORNERS
from enumeration import Trace, listed, random_sentences
from pages import Page
from random_recursions import LISTS, SIZES, made_of
from reference import in_logarithms
from test_all_pages import check_log_counts

from pyrogram.recursion import recursion
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.run.program import Program
from pyrogram.recursion.torch.engine import TorchEngine


@pytest.mark.one_in(40)
@pytest.mark.parametrize("page", CORNERS, ids=lambda page: page.__name__)
def test_a_corner_of_the_language(page: Callable[[Any], None]) -> None:
    made = recursion(page)()
    case = Page(page.__name__, recursion(page), dict(U=3), dict(above=[1, 2, 2], below=[0, 0, 1]))
    given = random_sentences(case, made, [4, 2, 1, 3], np.random.default_rng(0))
    truth = listed(case, made, given)
    assert any(one.uses for one in truth)
    engine = Program(made)
    check_log_counts(engine, given, truth)
    trace = Trace(given)
    scores, _ = engine.best(given, 3, trace.numbers(), 30)
    _, draws = engine.draw(given, 5, 0, trace.numbers(), 30)
    for b, one in enumerate(truth):
        best = np.sort(one.scores)[::-1][:3]
        np.testing.assert_allclose(scores[: len(best), b], best, atol=1e-12)
        if one.uses:
            assert {trace.uses(row) for row in draws[:, b]} <= one.probabilities().keys()


def test_sums_end_at_a_constant_in_sentences_of_several_lengths() -> None:
    """However short the last sentence of a block is, where the last weights that go into lanes are those of words."""
    rules = (
        "P[j] += P[k] * B[k + 1, j] * b[1, w[1]]",
        "B[i, j] += c[i, 0] * (i <= j) * (j <= i)",
        "Z[()] += B[1, p.n]",
        "P[1] += one[1] * c[1, 1]",
        "B[i, j] += A[i, k] * B[k + 1, j] * one[i]",
        "A[i, j] += B[i, k] * B[k, j] * one[1] * (k <= 2)",
    )
    made = made_of(rules, 1)
    page = Page("early splits", lambda: made, SIZES, LISTS)
    given = random_sentences(page, made, [3, 1], np.random.default_rng(0), shared=False)
    program = Program(made)
    np.testing.assert_allclose(program.best(given, 1, {}, 1)[0], program.best(given, 2, {}, 1)[0][:1], rtol=1e-12)
    log_z, counts = in_logarithms(made, given)
    found = program.log_counts(given)
    np.testing.assert_allclose(found[0], log_z, rtol=1e-12)
    ones = {name: np.ones_like(table) for name, table in counts.items()}
    of_all = sum(table.reshape(2, -1).sum(1) for table in counts.values())
    np.testing.assert_allclose(program.tangents(given, ones)[0], of_all, rtol=1e-12)


def test_what_an_empty_sum_is_multiplied_by_is_not_read() -> None:
    """Of c[i + 1, 0] there is none where i is the last position."""
    rules = (
        "B[i, j] += c[i, 0] * (i <= j)",
        "B[i - 1, j] += B[i, k] * B[k, j] * c[i, 0] * (i < k)",
        "Z[()] += B[0, p.n]",
    )
    (guard,) = (t.guard for _, _, t in lower(made_of(rules, 0), for_blocks=True).terms if t.loops)
    assert [str(bound) for bound in guard] == ["i + 1 < j"]


def test_a_way_down_through_all_cells() -> None:
    """A derivation of n * n / 2 steps, each of which leaves an item for later."""

    def staircase(p: Any) -> None:
        i, j = p.positions("i j")
        X, Y, T, Z = p.items("X Y T Z")
        a = p.weights("a")
        Y[i, i] += a[i]
        X[1, 1] += 1
        X[i, j] += X[i + 1, j] * Y[i, i]
        X[j, j] += T[j - 1] * Y[j, j]
        T[j] += X[1, j]
        Z[()] += T[p.n]

    n = 40
    page = Page("staircase", recursion(staircase))
    made = page.make()
    given = random_sentences(page, made, [n], np.random.default_rng(0))
    uses = [("a", (i,)) for j in range(1, n + 1) for i in range(1, j + 1)][1:]
    trace = Trace(given)
    engine = Program(made)
    _, draws = engine.draw(given, 1, 0, trace.numbers(), n * n)
    scores, best = engine.best(given, 1, trace.numbers(), n * n)
    np.testing.assert_allclose(scores[0, 0], sum(given.weights["a"][0, i] for _, (i,) in uses))
    for row in (draws[0, 0], best[0, 0]):
        assert trace.uses(row) == tuple(sorted(uses))


def segments(p: Any, longest: int, symbols: bool) -> None:
    """Segments of at most so many words, a rule for each length: wider spans are read, and no rule is theirs."""
    s, t = p.positions("s t")
    x, y = p.symbols("x y", "S")
    G, F, Z = p.items("G", "S"), p.items("F", "S"), p.items("Z")
    word, length, follow = p.weights("word", "S"), p.weights("length", "S", longest), p.weights("follow", "S", "S")
    for d in range(longest):
        words = math.prod((word[t + e, x] for e in range(1, d + 1)), start=word[t, x])
        G[t, t + d, x] += length[x, d] * words
    F[t, x] += G[1, t, x]
    if symbols:
        F[t, x] += F[s, y] * follow[y, x] * G[s + 1, t, x]
    else:
        F[t, x] += F[s, x] * G[s + 1, t, x] * follow[x, x]
    Z[()] += F[p.n, x]


def first_words(p: Any, longest: int, symbols: bool) -> None:
    """The same of points: the first words have rules of their own, and all are read."""
    t = p.positions("t")
    x, y = p.symbols("x y", "S")
    P, F, Z = p.items("P", "S"), p.items("F", "S"), p.items("Z")
    word, follow = p.weights("word", "S"), p.weights("follow", "S", "S")
    for d in range(1, longest + 1):
        P[d, x] += word[d, x]
    F[t, x] += P[t, y] * follow[y, x] if symbols else P[t, x]
    F[t, x] += F[t - 1, x] * word[t, x]
    Z[()] += F[p.n, x]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("longest", [pytest.param(3, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("page", [segments, first_words], ids=lambda page: page.__name__)
def test_items_that_many_rules_bound(page: Callable[..., None], longest: int, symbols: bool) -> None:
    make = functools.partial(recursion(page), longest=longest, symbols=symbols)
    made, sizes = make(), dict(S=2 if symbols else 1)
    case = Page(page.__name__, make, sizes, {})
    given = random_sentences(case, made, [7, 6, 5, 4, 1, 2, 3, 7, 6], np.random.default_rng(0))
    truth, trace = listed(case, made, given), Trace(given)
    engine = Program(made)
    check_log_counts(engine, given, truth)
    for k in (3, 1):
        scores, rows = engine.best(given, k, trace.numbers(), 30)
        draws = engine.draw(given, 20, 0, trace.numbers(), 30)[1]
        for b, one in enumerate(truth):
            best = np.sort(one.scores)[::-1][:k]
            np.testing.assert_allclose(scores[: len(best), b], best, atol=1e-12)
            assert trace.uses(rows[0, b]) in one.probabilities()
            assert {trace.uses(row) for row in draws[:, b]} <= one.probabilities().keys()
    weights = {name: torch.from_numpy(table) for name, table in given.weights.items()}
    log_z = TorchEngine(made).log_partition(weights, torch.from_numpy(given.lengths), sizes=sizes)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], atol=1e-12)
