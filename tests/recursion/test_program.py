# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions in lanes, and programs that choose an engine, against derivations and sums in logarithms by torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import Trace, expected_counts, listed, random_sentences
from pages import PAGES, Page, dmv_words, projective, several_roots, siblings
from reference import in_logarithms

from pyrogram.distributions.projective_tree import first_order
from pyrogram.distributions.sibling_tree import second_order
from pyrogram.recursion import InvalidRecursion, Recursion, recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run import engine
from pyrogram.recursion.run.engine import LanesEngine
from pyrogram.recursion.run.program import Program


@recursion
def factored_sums(p: Any) -> None:
    """Sums of points and of the goal that are multiplied by further weights."""
    i, j, k, r = p.positions("i j k r")
    X, P, Z = p.items("X P Z")
    arc, first, last = p.weights("arc first last")
    X[i, i] += first[i]
    X[i, j] += arc[i, j] * X[i, k] * X[k + 1, j]
    P[j] += X[1, j] + last[j] * first[j] * P[k] * X[k + 1, j]
    Z[()] += last[p.n] * first[1] * P[r] * X[r + 1, p.n] + P[p.n] * last[1]


@recursion
def two_leaves(p: Any) -> None:
    """Cells that are the sum of an axiom, whose weight has not been scaled, and of items, which have."""
    i, j, k = p.positions("i j k")
    Y, X, Z = p.items("Y X Z")
    arc, leaf, other = p.weights("arc leaf other")
    Y[i, i] += 1
    X[i, i] += leaf[i] + other[i] * Y[i, i]
    X[i, j] += arc[i, j] * X[i, k] * X[k + 1, j]
    Z[()] += X[1, p.n]


@recursion
def fixed_places(p: Any) -> None:
    """The same weights at constants and at variables, and beside others that they make a product with."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    arc, leaf, other = p.weights("arc leaf other")
    X[i, i] += leaf[i]
    X[i, j] += (arc[i, j] + arc[j, i]) * X[i, k] * X[k + 1, j]
    Y[i, i] += leaf[1] * other[i]
    Y[i, j] += arc[i, j] * other[i] * leaf[1] * X[i, k] * Y[k + 1, j] + other[j] * arc[1, j] * Y[i, k] * X[k + 1, j]
    Z[()] += Y[1, p.n] * leaf[p.n] + X[1, p.n] * arc[1, p.n]


TREES = {
    "fixed places": fixed_places,
    "two leaves": two_leaves,
    "factored sums": factored_sums,
    "projective": projective,
    "several roots": several_roots,
    "siblings": siblings,
    "second order": second_order,
    "valence and stops": lambda: first_order(valences=2, stops=2),
    "dmv of words": lambda: dmv_words(V=3),
}
TOLERANCE = {"float64": 1e-11, "float32": 2e-5}


def sentences(made: Recursion, lengths: list[int], dtype: str, sigma: float, width: int | None = None) -> Inputs:
    """Random log weights; tables with positions for each sentence, others for all."""
    rng = np.random.default_rng(0)
    n, weights = width or max(lengths), {}
    for w in LanesEngine(made).layout.weights:
        axes = (n + 1,) * w.num_positions + tuple(s if isinstance(s, int) else 3 for s in w.sizes)
        weights[w.name] = (sigma * rng.normal(size=(len(lengths) if w.num_positions else 1, *axes))).astype(dtype)
    words = {name: rng.integers(0, 3, (len(lengths), n)) for name in LanesEngine(made).layout.words}
    return Inputs(np.array(lengths), weights, words, {"T": 3}, {})


def in_logs(made: Recursion, given: Inputs, scale: Any = None) -> tuple[Any, dict[str, Any]]:
    """In logarithms by torch, in float64."""
    weights = {name: table.astype("float64") for name, table in given.weights.items()}
    exact = Inputs(given.lengths, weights, given.words, given.sizes, given.lists)
    return in_logarithms(made, exact, scale=scale)


def compare(found: tuple[Any, dict[str, Any]], expected: tuple[Any, dict[str, Any]], tolerance: float) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=tolerance, atol=tolerance)
    for name, table in expected[1].items():
        np.testing.assert_allclose(found[1][name], table, rtol=tolerance, atol=50 * tolerance, err_msg=name)


@pytest.mark.one_in(38)
@pytest.mark.parametrize("page", PAGES, ids=str)
@pytest.mark.parametrize("shared", [None, True])
def test_programs_give_the_numbers_of_all_derivations(page: Page, shared: bool | None) -> None:
    made = page.make()
    given = random_sentences(page, made, [4, 1, 3, 2, 3, 4, 4, 2, 1, 1, 3], np.random.default_rng(0), shared=shared)
    truth = listed(page, made, given)
    log_z = np.array([one.log_z for one in truth])
    compare(Program(made).log_counts(given), (log_z, expected_counts(given, truth, None)), 1e-11)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", TREES)
def test_sentences_of_all_lengths_side_by_side(name: str, dtype: str) -> None:
    """Lanes that end early, columns that are scaled, and sentences that lanes cannot be trusted with."""
    made = TREES[name]()
    program = Program(made)
    rng = np.random.default_rng(1)
    for longest, sigma in ((5, 1.0), (40, 10.0), (25, 60.0)):
        lengths = rng.integers(1, longest + 1, 21).tolist()
        given, scale = sentences(made, lengths, dtype, sigma), rng.random(21)
        expected = in_logs(made, given, scale)
        compare(program.log_counts(given, scale=scale), expected, TOLERANCE[dtype])
        log_z, counts = program.log_counts(given, counts=False)
        np.testing.assert_allclose(log_z, expected[0], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        assert counts == {}


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["projective", "siblings", "fixed places"])
def test_weights_beyond_the_end_of_a_sentence_are_not_read(name: str, number: float) -> None:
    made, lengths = TREES[name](), [7, 3, 6, 1, 5, 7, 2, 7, 4, 1, 3]
    given = sentences(made, lengths, "float64", 1.0)
    expected = in_logs(made, given)
    for table in given.weights.values():
        for b, n in enumerate(lengths):
            for axis in range(1, table.ndim):
                np.moveaxis(table, axis, 1)[b, n + 1 :] = number
    for dtype in TOLERANCE:
        weights = {x: table.astype(dtype) for x, table in given.weights.items()}
        compare(Program(made).log_counts(replace(given, weights=weights)), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["dmv of words", pytest.param("several roots", marks=pytest.mark.slow)])
def test_long_sentences_are_done_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in logarithms, and as the first of the k best; draws are those of blocks, of which each has its own stream."""
    made = TREES[name]()
    given = sentences(made, [3, 30, 9, 9, 2, 14, 9, 9, 9, 9, 9, 1, 4, 4, 17], "float64", 1.0)
    trace = {w.name: (0, *[37**x for x in range(w.num_axes)]) for w in Program(made).tables}
    blocks = Program(made).draw(given, 3, 0, trace, 200)
    monkeypatch.setattr(engine, "LONG", 3)
    program, scale, widths = Program(made), np.random.default_rng(1).random(15), set[tuple[int, int]]()
    prepare = LanesEngine._prepare
    monkeypatch.setattr(LanesEngine, "_prepare", lambda *a: widths.add((a[0].width, a[-1]["pitch"])) or prepare(*a))
    compare(program.log_counts(given, scale=scale), in_logs(made, given, scale), 1e-11)
    assert {width for width, _ in widths} == {1, 8} and min(pitch for width, pitch in widths if width == 8) < 31
    np.testing.assert_allclose(program.log_counts(given, counts=False)[0], in_logs(made, given)[0], rtol=1e-11)
    scores, rows = program.best(given, 1, trace, 200)
    by_logs, other = (x[:1] for x in program.best(given, 2, trace, 200))
    np.testing.assert_allclose(scores, by_logs, rtol=1e-11)
    np.testing.assert_array_equal(np.sort(rows), np.sort(other))
    for mine, theirs in zip(program.draw(given, 3, 0, trace, 200), blocks, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11)


@pytest.mark.parametrize("n", [30, pytest.param(330, marks=pytest.mark.slow)])
def test_log_z_alone_and_draws_of_long_sentences(n: int) -> None:
    made = TREES["dmv of words"]()
    program, given = Program(made), sentences(made, [n], "float64", 1.0)
    np.testing.assert_allclose(program.log_counts(given, counts=False)[0], in_logs(made, given)[0], rtol=1e-11)
    log_z, rows = program.draw(given, 1, 0, {"root": (0, 1)}, 1)
    np.testing.assert_allclose(log_z, in_logs(made, given)[0], rtol=1e-11)
    assert rows[0, 0, 0] >= 0


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TREES)
def test_whole_rows_at_once(name: str, dtype: str) -> None:
    """Full blocks of one length take rows of eight numbers; what no rule speaks of is not read; its posterior is 0."""
    made = TREES[name]()
    for n, count, beyond in ((8, 16, 0), (9, 35, 0), (13, 17, 2)):
        given = sentences(made, [n] * count, dtype, 1.0, n + beyond)
        for table in given.weights.values():
            if table.ndim > 2 and table.shape[1] == table.shape[2]:
                table[:, range(n + 1), range(n + 1)] = 50.0
                table[:, :, 0] = -70.0 if name != "siblings" else table[:, :, 0]
        found = LanesEngine(made, dtype).log_counts(given, np.arange(count))
        compare(found, in_logs(made, given), TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["projective", "second order", "dmv of words"])
def test_whole_rows_of_tables_that_sentences_share(name: str) -> None:
    """Their counts are summed over the sentences of a block."""
    made = TREES[name]()
    given = sentences(made, [9] * 17, "float64", 1.0)
    shared = {key: table[:1] for key, table in given.weights.items()}
    given = Inputs(given.lengths, shared, given.words, given.sizes, given.lists)
    compare(Program(made).log_counts(given), in_logs(made, given), 1e-11)


@pytest.mark.parametrize("name", TREES)
def test_nan_and_impossible_sentences(name: str) -> None:
    made = TREES[name]()
    given = sentences(made, [4, 3, 4, 2, 1], "float64", 1.0)
    positional = next(n for n in ("root", "first", "arc", "sibling") if n in given.weights)
    if len(given.weights[positional]) == 1:
        pytest.skip("one table for all sentences")
    given.weights[positional][1] = -np.inf
    given.weights[positional][3] = np.nan
    log_z, counts = Program(made).log_counts(given)
    expected, _ = in_logs(made, given)
    assert log_z[1] == -np.inf and np.isnan(log_z[3])
    np.testing.assert_allclose(log_z[[0, 2, 4]], expected[[0, 2, 4]], rtol=1e-12)
    assert all(not table[1].any() for table in counts.values() if len(table) == 5)


def test_weights_above_one() -> None:
    """No group is shifted, and Z is beyond any float32 and, for some, beyond any float64."""
    made = projective()
    for dtype in TOLERANCE:
        given = sentences(made, [3, 7, 12, 20, 30], dtype, 1.0)
        given.weights["arc"][:] += np.array([1.0, 5.0, 30.0, 30.0, 30.0], dtype)[:, None, None]
        compare(Program(made).log_counts(given), in_logs(made, given), TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["valence and stops", "dmv of words"])
def test_numbers_do_not_depend_on_threads(name: str) -> None:
    made = TREES[name]()
    given = sentences(made, [20] * 700 + [7] * 100, "float64", 1.0)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(Program(made).log_counts(given))
    finally:
        torch.set_num_threads(before)
    assert (results[0][0] == results[1][0]).all()
    assert all((results[0][1][name] == results[1][1][name]).all() for name in results[0][1])


def test_no_sentences_that_share_weights() -> None:
    made = TREES["dmv of words"]()
    one = sentences(made, [3], "float32", 1.0)
    given = replace(one, lengths=one.lengths[:0], words={"w": one.words["w"][:0]})
    for by_sentence, rows in ((False, 1), (True, 0)):
        log_z, counts = Program(made).log_counts(given, by_sentence=by_sentence)
        assert log_z.shape == (0,) and counts.keys() == given.weights.keys()
        for name, table in counts.items():
            assert table.shape == (rows, *given.weights[name].shape[1:])
            assert table.dtype == np.float32 and not table.any()


def test_no_sentences() -> None:
    made = projective()
    log_z, counts = Program(made).log_counts(Inputs(np.zeros(0, np.int64), {"arc": np.zeros((0, 4, 4))}, {}, {}, {}))
    assert log_z.shape == (0,) and counts["arc"].shape == (0, 4, 4)


def test_one_sentence_with_weights_of_all_magnitudes() -> None:
    """A table of one sentence by positions."""
    made = TREES["valence and stops"]()
    arc, stop = np.zeros((1, 3, 3, 2)), np.zeros((1, 3, 2, 2))
    arc[0, 0, 1:, 0] = 345.0, -230.0
    arc[0, 1, 2, 0] = 516.0
    stop[0, 1, 0, 0] = -299.0
    given = Inputs(np.array([2]), {"arc": arc, "stop": stop}, {}, {}, {})
    compare(Program(made).log_counts(given), in_logs(made, given), 1e-9)


def test_powers_of_long_sentences_are_summed_exactly() -> None:
    """Of some 60,000 in float32, whose unit in the last place is 0.004."""
    made = first_order()
    given = sentences(made, [60, 47, 60], "float32", 1.0)
    given.weights["arc"] += np.random.default_rng(5).uniform(900.0, 1100.0, (3, 1, 61)).astype("float32")
    found, expected = LanesEngine(made, "float32").log_counts(given, np.arange(3)), in_logs(made, given)
    assert expected[0].min() > 40_000
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", TREES)
def test_a_call_leaves_nothing_to_the_next_one(name: str) -> None:
    """Lanes without a sentence, and sentences that fail, in memory that a thread keeps."""
    made = TREES[name]()
    engine, order = LanesEngine(made), np.arange(3)
    given = sentences(made, [9, 9, 8], "float64", 1.0)
    spoilt = sentences(made, [9, 9, 8], "float64", 1.0)
    for table in spoilt.weights.values():
        table[:] = np.nan
    first = engine.log_counts(given, order)
    for before in (given, spoilt):
        engine.log_counts(before, order)
        again = engine.log_counts(given, order)
        assert (again[0] == first[0]).all()


@pytest.mark.parametrize("of_one_call", [True, False])
def test_a_sentence_that_is_no_number_spoils_no_later_one(of_one_call: bool) -> None:
    """Numbers with exponents in cells that empty sums read: they are in memory of their own."""

    def page(p: Any) -> None:
        i, j, k = p.positions("i j k")
        C, Z = p.items("C Z")
        one = p.weights("one")
        C[i, j] += C[i, k] * C[k + 1, j] * C[i + 1, j] * one[j]
        C[i, j] += one[j] * (i <= j)
        Z[()] += C[1, p.n]

    engine, order = LanesEngine(recursion(page)()), np.arange(16)
    given = Inputs(np.repeat([17, 16], 8), {"one": np.random.default_rng(0).normal(size=(16, 18))}, {}, {}, {})
    expected, _ = engine.log_counts(given, order)
    spoilt = Inputs(given.lengths, {"one": given.weights["one"].copy()}, {}, {}, {})
    spoilt.weights["one"][0] = np.nan
    found, _ = engine.log_counts(spoilt, order)
    if not of_one_call:
        found, _ = engine.log_counts(given, order)
    np.testing.assert_array_equal(found[of_one_call:], expected[of_one_call:])


def test_counts_are_not_added_to_tables_of_another_type() -> None:
    made = TREES["several roots"]()
    given = sentences(made, [3, 2], "float32", 1.0)
    into = {name: np.zeros(table.shape) for name, table in given.weights.items()}
    with pytest.raises(ValueError, match="added to tables of float32"):
        Program(made).log_counts(given, into=into)


def as_constant(given: Inputs, name: str) -> Inputs:
    """A table as numbers that nobody counts."""
    numbers = np.exp(given.weights[name])
    return given.with_constants({name: numbers})


@pytest.mark.one_in(40)
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_constants_are_not_counted(page: Page) -> None:
    """Each table in turn; all else is as it is in logarithms, and where lanes cannot be trusted."""
    made, program = page.make(), Program(page.make())
    given = random_sentences(page, made, [4, 1, 3, 2, 3, 4, 4, 2, 1, 1, 3], np.random.default_rng(0))
    truth = listed(page, made, given)
    log_z, counts = np.array([one.log_z for one in truth]), expected_counts(given, truth, None)
    assert program.tables
    for name in (w.name for w in program.tables):
        found_z, found = program.log_counts(as_constant(given, name))
        assert set(found) == set(counts) - {name}
        compare((found_z, found), (log_z, {n: counts[n] for n in found}), 1e-11)
        extreme = {n: t if n == name else 300 * t for n, t in given.weights.items()}
        wild = replace(given, weights=extreme)
        scale = np.random.default_rng(1).random(11)
        expected_z, expected = in_logs(made, wild, scale)
        found_z, found = program.log_counts(as_constant(wild, name), scale=scale)
        compare((found_z, found), (expected_z, {n: expected[n] for n in found}), 1e-9)
        np.testing.assert_allclose(program.log_counts(as_constant(wild, name), counts=False)[0], expected_z, rtol=1e-9)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_derivations_with_constants(page: Page) -> None:
    """They are drawn, and the best are found, as with the same weights in logarithms."""
    made, program = page.make(), Program(page.make())
    given = random_sentences(page, made, [4, 1, 3, 2], np.random.default_rng(0))
    name, trace = program.tables[0].name, Trace(given).numbers()
    constant = as_constant(given, name)
    for k in (1, 2):
        found, expected = program.best(constant, k, trace, 40), program.best(given, k, trace, 40)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-12)
    worth = {n: np.ones_like(t) for n, t in given.weights.items()}
    np.testing.assert_array_equal(
        program.most_expected(constant, worth, trace, 40)[1], program.most_expected(given, worth, trace, 40)[1]
    )
    np.testing.assert_allclose(program.draw(constant, 2, 0, trace, 40)[0], program.draw(given, 2, 0, trace, 40)[0])


def test_words_are_looked_at_in_every_call() -> None:
    """Also where all that shapes tell is known."""
    made = TREES["dmv of words"]()
    program, given = Program(made), sentences(made, [4, 3], "float64", 1.0)
    program.log_counts(given)
    for word in (3, -1):
        with pytest.raises(InvalidRecursion, match=r"words w are not all in 0 \.\. 2"):
            program.log_counts(replace(given, words={"w": np.full((2, 4), word)}))
    with pytest.raises(InvalidRecursion, match=r"words w have shape \(2, 3\)"):
        program.log_counts(replace(given, words={"w": given.words["w"][:, :3]}))
    compare(program.log_counts(given), in_logs(made, given), 1e-11)


def test_calls_of_many_shapes_in_turn() -> None:
    """Weights that are near one are raised in memory that is there from an earlier call; others are not."""
    made = TREES["dmv of words"]()
    program, cases, plans = Program(made), [], []
    for lengths, sigma in (([2, 1], 1.0), ([4, 3], 40.0), ([5], 1.0), ([3, 9], 0.5), ([2, 6, 1], 1.0)):
        given = sentences(made, lengths, "float64", sigma)
        own = {name: np.repeat(table, len(lengths), 0) for name, table in given.weights.items()}
        wide = {"w": np.asfortranarray(np.pad(given.words["w"], ((0, 0), (0, 2))))}
        cases += [replace(given, weights=w, words=x) for w in (given.weights, own) for x in (given.words, wide)]
    expected = [in_logs(made, given) for given in cases]
    for i in np.random.default_rng(0).permutation(np.repeat(range(len(cases)), 3)):
        compare(program.log_counts(cases[i]), expected[i], 1e-11)
        np.testing.assert_allclose(program.log_counts(cases[i], counts=False)[0], expected[i][0], rtol=1e-11)
        plans.append(program._of_thread.plan)  # so no other one is where it was


def test_threads_have_memory_of_their_own() -> None:
    """Weights of one shape, which each thread raises."""
    made = TREES["dmv of words"]()
    program, given = Program(made), sentences(made, [9] * 40, "float64", 1.0)
    cases = [replace(given, weights={n: w - k for n, w in given.weights.items()}) for k in range(4)]
    expected = [in_logs(made, case)[0] for case in cases]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(lambda k: [program.log_counts(cases[k])[0] for _ in range(50)], k) for k in range(4)]
    for call, log_z in zip(calls, expected, strict=True):
        for found in call.result():
            np.testing.assert_allclose(found, log_z, rtol=1e-11)
