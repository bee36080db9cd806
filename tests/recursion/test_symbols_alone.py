# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Chains and grammars that are done alone, in one lane: against all derivations, and against eight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from enumeration import Trace, random_sentences, summed
from pages import PAGES, Page
from reference import in_logarithms
from test_symbols import several

from pyrogram.distributions.state_sequence import chain
from pyrogram.recursion import Recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.engine import LanesEngine, plain_tables
from pyrogram.recursion.run.program import Program

WITH_SYMBOLS = [page for page in PAGES if LanesEngine(page.make()).has_symbols]
LENGTHS = [4, 1, 3, 2, 5, 4, 4, 2, 1, 1, 3]
pages = pytest.mark.parametrize("page", WITH_SYMBOLS, ids=str)


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """All sentences of three words or more are alone; how many lanes the functions have that are called."""
    found = set[int]()
    prepare = LanesEngine._prepare
    monkeypatch.setattr(LanesEngine, "_num_operations", lambda _, n, *sizes: 1e9 if n >= 3 else 0.0)
    monkeypatch.setattr(LanesEngine, "most_alone", 9.0)
    monkeypatch.setattr(LanesEngine, "_prepare", lambda *a: found.add(a[0].width) or prepare(*a))
    return found


def close(found: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-10) -> None:
    for name, table in expected.items():
        np.testing.assert_allclose(found[name], table, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.one_in(22)
@pages
@pytest.mark.parametrize("shared", [None, True, False])
def test_sums_over_all_derivations(page: Page, shared: bool | None, widths: set[int]) -> None:
    """With weights that are numbers, and with those of each sentence."""
    made = page.make()
    given = random_sentences(page, made, LENGTHS, np.random.default_rng(0), shared=shared)
    log_z, counts, _ = summed(page, made, given)
    found = Program(made).log_counts(given)
    np.testing.assert_allclose(found[0], log_z, rtol=1e-10, atol=1e-10)
    close(found[1], counts)
    np.testing.assert_allclose(Program(made).log_counts(given, counts=False)[0], log_z, rtol=1e-10, atol=1e-10)
    assert widths >= {1, 8}


@pytest.mark.one_in(7)
@pages
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_one_lane_has_the_numbers_of_eight(page: Page, dtype: str, widths: set[int]) -> None:
    """Log Z, counts by sentence, scaled ones, best derivations and draws, of short and of long sentences."""
    made = page.make()
    given = random_sentences(page, made, [30, 3, 17, 2, 9], np.random.default_rng(0))
    given = replace(given, weights={name: table.astype(dtype) for name, table in given.weights.items()})
    order, trace, rng = np.argsort(-given.lengths), Trace(given).numbers(), np.random.default_rng(1)
    alone, lanes, rtol = LanesEngine(made, dtype), LanesEngine(made, dtype), 1e-13 if dtype == "float64" else 1e-6
    lanes._alone = lambda given, order: 0  # type: ignore[method-assign]
    for options in ({"by_sentence": True}, {"by_sentence": True, "scale": rng.random(5)}, {"scale": rng.random(5)}):
        (log_z, counts), (expected_z, expected) = (
            engine.log_counts(given, order, **options) for engine in (alone, lanes)
        )  # alone, sums are formed eight symbols at a time
        np.testing.assert_allclose(log_z, expected_z, rtol=rtol)
        close(counts, expected, 1e-12 if dtype == "float64" else 1e-5)
    for a, b in zip(*(engine.best(given, order, 1, trace, 200) for engine in (alone, lanes)), strict=True):
        assert (a == b).all()
    (log_z, drawn), (expected_z, others) = (e.draw(given, order, (3, 200), 0, trace) for e in (alone, lanes))
    assert (drawn == others).all()
    np.testing.assert_allclose(log_z, expected_z, rtol=rtol)
    assert widths == {1, 8 if dtype == "float64" else 16}


@pytest.mark.one_in(6)
@pages
def test_a_spoilt_sentence_alone(page: Page, widths: set[int]) -> None:
    """NaN, impossible and tiny weights stay with it, in the memory that the next sentence has."""
    made = page.make()
    given = random_sentences(page, made, [5, 5, 4, 4, 4, 3, 2], np.random.default_rng(0), shared=False)
    name, bad = next(n for n, table in given.weights.items() if table.ndim > 1), np.arange(7) == 2
    log_z, counts = in_logarithms(made, given)
    for junk in (-np.inf, np.nan, -5000.0):
        weights = {n: table.copy() for n, table in given.weights.items()}
        weights[name][2] += junk
        one = replace(given, weights=weights)
        found_z, found = Program(made).log_counts(one)
        np.testing.assert_allclose(found_z[~bad], log_z[~bad], rtol=1e-11)
        np.testing.assert_allclose(found_z[bad], in_logarithms(made, one)[0][bad], rtol=1e-11)
        close({n: table[~bad] for n, table in found.items()}, {n: table[~bad] for n, table in counts.items()})
    assert widths == {1, 8}


@pytest.mark.one_in(6)
@pages
def test_counts_into_tables_and_constants(page: Page, widths: set[int]) -> None:
    """Of sentences that have each their own table; constants count nothing."""
    made = page.make()
    given = random_sentences(page, made, LENGTHS, np.random.default_rng(0), shared=False)
    log_z, counts = in_logarithms(made, given)
    into = {name: np.zeros(table.shape) for name, table in given.weights.items()}
    Program(made).log_counts(given, into=into)
    close(into, counts)
    name = next(n for n, table in given.weights.items() if table.ndim > 1)
    found_z, found = Program(made).log_counts(with_constant(made, given, name))
    np.testing.assert_allclose(found_z, log_z, rtol=1e-10)
    assert name not in found
    close(found, {n: table for n, table in counts.items() if n != name})
    assert widths == {1, 8}


def with_constant(made: Recursion, given: Inputs, name: str) -> Inputs:
    numbers = np.exp(given.weights[name])
    return given.with_constants({name: numbers})


def test_who_is_alone() -> None:
    """Where a block would be mostly empty, if there is enough to do; also beside another."""
    engines = {page.name: LanesEngine(page.make()) for page in WITH_SYMBOLS}

    def alone(name: str, lengths: list[int], **sizes: int) -> int:
        given = Inputs(np.array(lengths), {}, {}, sizes, {})
        return engines[name]._alone(given, np.arange(len(lengths)))

    assert alone("hmm", [500], K=50, W=9) == 1 and alone("hmm", [500, 500], K=50, W=9) == 2
    assert alone("hmm", [500, 500, 500], K=50, W=9) == alone("hmm", [500], K=3, W=9) == 0
    assert alone("hmm", [500, 20, 10], K=50, W=9) == 1 and alone("hmm", [500] * 8 + [450], K=50, W=9) == 0
    assert alone("pcfg", [60, 30, 30], S=10, W=9) == 3 and alone("pcfg", [10], S=5, W=9) == 0
    assert alone("pcfg", [60, 30, 30, 30, 30, 30], S=10, W=9) == 1
    assert alone("pcfg", [60, 59, 59, 30, 30, 30], S=10, W=9) == 0
    assert alone("pcfg", [], S=10, W=9) == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [9, *(pytest.param(size, marks=pytest.mark.slow) for size in (8, 20))])
def test_grammars_of_more_symbols_than_a_row(size: int, dtype: str) -> None:
    """Whole rows, and what is left: against sums in logarithms."""
    made, rng = several(size), np.random.default_rng(size)
    shapes = {"lexicon": (1, 3, size, 2), "rule": (1, size, 2, size), "start": (1, 2)}
    weights = {name: (rng.normal(size=shape) - 1.0).astype(dtype) for name, shape in shapes.items()}
    given = Inputs(np.array([6, 3, 1, 9]), weights, {"w": rng.integers(0, 3, (4, 9))}, {"V": 3}, {})
    compare_alone(made, given, dtype)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("states", [8, 43])
def test_chains_of_more_states_than_a_row(states: int, dtype: str) -> None:
    """Four rows at once, whole rows, and what is left."""
    K, rng = states, np.random.default_rng(states)
    shapes = {"initial": (K,), "transition": (K, K), "end": (K, 1), "emission": (K, 3)}
    weights = {name: rng.normal(size=(1, *shape)).astype(dtype) for name, shape in shapes.items()}
    given = Inputs(np.array([9, 1, 4]), weights, {"w": rng.integers(0, 3, (3, 9))}, {"K": K, "V": 3}, {})
    compare_alone(chain(), given, dtype)


@recursion
def broadcast(p: Any) -> None:
    """A chain beside items that are the same for all states; no weight is in sums over these."""
    t, w = p.positions("t"), p.words("w")
    x, y = p.symbols("x y", "K")
    F, B, Z = p.items("F", "K"), p.items("B", "K"), p.items("Z")
    initial, transition, word = p.weights("initial", "K"), p.weights("transition", "K", "K"), p.weights("word", "V")
    F[1, x] += initial[x] * word[w[1]]
    F[t, x] += F[t - 1, y] * transition[y, x] * B[t, x]
    B[t, x] += word[w[t]]
    Z[()] += F[p.n, x]
    Z[()] += B[p.n, x]


@pytest.mark.parametrize("states", [3, 9, 43])
def test_sums_over_symbols_without_weights(states: int) -> None:
    """They end with the last symbol, and not with the last vector."""
    rng, shapes = np.random.default_rng(states), {"initial": (states,), "transition": (states, states), "word": (3,)}
    weights = {name: rng.normal(size=(1, *shape)) for name, shape in shapes.items()}
    words = {"w": rng.integers(0, 3, (3, 9))}
    compare_alone(broadcast(), Inputs(np.array([9, 1, 4]), weights, words, {"K": states, "V": 3}, {}), "float64")


def compare_alone(made: Recursion, given: Inputs, dtype: str) -> None:
    """Log Z and counts alone, with weights of sentences and with numbers, and those of sums in logarithms."""
    doubles = replace(given, weights={name: table.astype(float) for name, table in given.weights.items()})
    log_z, counts = in_logarithms(made, doubles)
    plain = plain_tables(made)
    numbers = {name: np.exp(t) if name in plain else t for name, t in given.weights.items()}
    order = np.argsort(-given.lengths)
    for shared, own in ((False, given), (True, replace(given, weights=numbers))):
        engine = LanesEngine(made, dtype, shared=shared, width=1)
        found_z, found = engine.log_counts(own, order)
        np.testing.assert_allclose(found_z, log_z, rtol=1e-12 if dtype == "float64" else 1e-5)
        close(found, counts, 1e-11 if dtype == "float64" else 3e-4)


def test_a_sentence_has_the_same_numbers_alone_and_beside_others() -> None:
    """Also if their numbers have exponents and its own have none: of weights from mild to extreme."""
    K, B, rng = 9, 120, np.random.default_rng(0)
    shapes = {"initial": (K,), "transition": (K, K), "end": (K, 1), "emission": (K, 3)}
    spread = rng.permutation(np.linspace(1.0, 900.0, B))
    weights = {n: spread.reshape(B, *[1] * len(s)) * -rng.exponential(size=(B, *s)) for n, s in shapes.items()}
    given = Inputs(np.full(B, 6), weights, {"w": rng.integers(0, 3, (B, 6))}, {"K": K, "V": 3}, {})
    lanes = LanesEngine(chain(), width=8)
    log_z, counts = lanes.log_counts(given, np.arange(B))
    shuffled, own = lanes.log_counts(given, rng.permutation(B))
    assert (log_z == shuffled).all() and all((counts[name] == own[name]).all() for name in counts)
    np.testing.assert_allclose(LanesEngine(chain(), width=1).log_counts(given, np.arange(B))[0], log_z, rtol=1e-13)
    np.testing.assert_allclose(log_z, in_logarithms(chain(), given)[0], rtol=1e-12)
