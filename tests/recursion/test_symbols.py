# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions with symbols in lanes: against the interpreter, and against logarithms by torch where it is slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import only, random_sentences, summed
from pages import PAGES, Page, hmm
from reference import in_logarithms

from pyrogram import CFG
from pyrogram.recursion import InvalidRecursion, Recursion, recursion
from pyrogram.recursion.code import objects
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.emit.powers import rules_of_words
from pyrogram.recursion.run.engine import LanesEngine
from pyrogram.recursion.run.program import Program

TOLERANCE = {"float64": 1e-10, "float32": 3e-4}
WITH_SYMBOLS = [page for page in PAGES if LanesEngine(page.make()).has_symbols]


def in_reals(given: Inputs, dtype: str) -> Inputs:
    with np.errstate(over="ignore"):
        return replace(given, weights={name: np.exp(table).astype(dtype) for name, table in given.weights.items()})


def runs(made: Recursion, given: Inputs, dtype: str, **options: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Weights by sentence, in logarithms, and those that all share, as numbers."""
    order = np.argsort(-given.lengths, kind="stable")
    logs = replace(given, weights={name: table.astype(dtype) for name, table in given.weights.items()})
    found = [LanesEngine(made, dtype).log_counts(logs, order, **options)]
    if all(len(table) == 1 for table in given.weights.values()) and not any(
        w.num_positions for w in Program(made).tables
    ):
        numbers = LanesEngine(made, dtype, logs=False, shared=LanesEngine(made).has_symbols)
        found.append(numbers.log_counts(in_reals(given, dtype), order, **options))
    return found


def compare(found: tuple[Any, dict[str, Any]], log_z: Any, counts: dict[str, Any], tolerance: float) -> None:
    np.testing.assert_allclose(found[0], log_z, rtol=tolerance, atol=tolerance)
    for name, table in counts.items():
        np.testing.assert_allclose(found[1][name], table, rtol=tolerance, atol=20 * tolerance, err_msg=name)


def test_the_pages_with_symbols_fit() -> None:
    names = {page.name for page in WITH_SYMBOLS}
    assert names == {"hmm", "semi_markov", "pcfg", "pcfg_rules", "grandparents"}


@pytest.mark.one_in(38)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_sums_over_all_derivations(page: Page, dtype: str) -> None:
    """Of pages without symbols, too, which are the case of one symbol."""
    made = page.make()
    given = random_sentences(page, made, [4, 1, 3, 2, 3, 4, 4, 2, 1, 1, 3], np.random.default_rng(0))
    log_z, counts, _ = summed(page, made, given)
    for found in runs(made, given, dtype):
        compare(found, log_z, counts, TOLERANCE[dtype])


def several(size: int) -> Recursion:
    """Items of two symbols of different sizes, and sizes that are numbers."""

    @recursion(first=0)
    def page(p: Any) -> None:
        i, j, k = p.positions("i j k")
        x, y, z = p.symbols("x y z", size)
        q = p.symbols("q", 2)
        w = p.words("w")
        X, Z = p.items("X", size, 2), p.items("Z")
        lexicon, rule, start = (
            p.weights("lexicon", "V", size, 2),
            p.weights("rule", size, 2, size),
            p.weights("start", 2),
        )
        X[j - 1, j, x, q] += lexicon[w[j], x, q]
        X[i, j, x, q] += rule[x, q, y] * X[i, k, y, q] * X[k, j, z, 1]
        Z[()] += X[0, p.n, x, q] * start[q]

    return page()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
def test_numbers_of_symbols_that_are_no_whole_tiles(size: int) -> None:
    made = several(size)
    rng = np.random.default_rng(size)
    lengths = np.array([6, 3, 5, 1, 2, 4, 7, 7, 9, 8])
    shapes = {"lexicon": (1, 3, size, 2), "rule": (1, size, 2, size), "start": (1, 2)}
    weights = {name: rng.normal(size=shape) - 1.0 for name, shape in shapes.items()}
    given = Inputs(lengths, weights, {"w": rng.integers(0, 3, (10, 9))}, {"V": 3}, {})
    scale = rng.normal(size=10)
    log_z, counts = in_logarithms(made, given, scale=scale)
    for found in runs(made, given, "float64", scale=scale):
        compare(found, log_z, counts, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("cpu, features", [("core2", "+sse2"), ("haswell", "+avx,+avx2,+fma")])
def test_processors_with_fewer_registers(cpu: str, features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles are smaller; what they hold is the same."""
    if not {*features.split(",")} <= {*objects.processor()[1].split(",")}:
        pytest.skip(f"this processor does not have {features}")
    monkeypatch.setenv("PYROGRAM_CPU", cpu)
    monkeypatch.setenv("PYROGRAM_CPU_FEATURES", features)
    for size in (1, 9):
        test_numbers_of_symbols_that_are_no_whole_tiles(size)


@pytest.mark.one_in(14)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("page", WITH_SYMBOLS, ids=str)
def test_long_sentences_and_extreme_weights(page: Page, dtype: str) -> None:
    made = page.make()
    for longest, sigma in ((9, 1.0), (60, 1.0), (9, 30.0), (33, 30.0), (12, 200.0)):
        rng = np.random.default_rng(1)
        given = random_sentences(page, made, [longest, *rng.integers(1, longest + 1, 10)], rng)
        given = replace(given, weights={name: sigma * table for name, table in given.weights.items()})
        found = Program(made).log_counts(
            replace(given, weights={name: table.astype(dtype) for name, table in given.weights.items()})
        )
        compare(found, *in_logarithms(made, given), TOLERANCE[dtype] * (1 + sigma))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("page", WITH_SYMBOLS, ids=str)
def test_programs_of_any_sentences(page: Page, dtype: str) -> None:
    """Also where plain numbers will not do."""
    made, program = page.make(), Program(page.make())
    for sigma in (1.0, 40.0, 300.0):
        given = random_sentences(page, made, [17, 3, 1, 40, 9, 9, 2, 28, 5], np.random.default_rng(2))
        given = replace(given, weights={n: (sigma * t).astype(dtype) for n, t in given.weights.items()})
        wide = replace(given, weights={n: t.astype("float64") for n, t in given.weights.items()})
        scale = np.random.default_rng(3).random(9)
        log_z, counts = in_logarithms(made, wide, scale=scale)
        found = program.log_counts(given, scale=scale)
        tolerance = TOLERANCE[dtype] * (1 + sigma)
        compare(found, log_z, counts, tolerance)
        np.testing.assert_allclose(program.log_counts(given, counts=False)[0], log_z, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("page", WITH_SYMBOLS, ids=str)
def test_one_bad_sentence_among_others(page: Page) -> None:
    """NaN and impossible weights stay in their lane, and leave nothing to the next block."""
    made = page.make()
    given = random_sentences(page, made, [4] * 20, np.random.default_rng(0), shared=False)
    name = next(n for n, table in given.weights.items() if table.ndim > 1)
    log_z, counts = in_logarithms(made, given)
    for junk in (-np.inf, np.nan):
        weights = {n: table.copy() for n, table in given.weights.items()}
        weights[name][[3, 9]] = junk
        found_z, found = Program(made).log_counts(replace(given, weights=weights))
        bad = np.isin(np.arange(20), [3, 9])
        np.testing.assert_allclose(found_z[~bad], log_z[~bad], rtol=1e-11)
        assert (np.isnan(found_z[bad]) if np.isnan(junk) else found_z[bad] == -np.inf).all()
        for key, table in counts.items():
            np.testing.assert_allclose(found[key][~bad], table[~bad], atol=1e-10, err_msg=key)


def test_one_rare_word_under_weights_of_all() -> None:
    """Whose weight is below the range of plain numbers, among others."""
    page = next(page for page in PAGES if page.name == "hmm")
    made = page.make()
    given = random_sentences(page, made, [1] * 20, np.random.default_rng(0), shared=True)
    given.weights["emission"][..., 2] = -716.0  # one over it is infinite
    given.words["w"][:] = np.where(given.words["w"] == 2, 0, given.words["w"])
    given.words["w"][[3, 9], 0] = 2
    compare(Program(made).log_counts(given), *in_logarithms(made, given), 1e-11)


@recursion
def staying(p: Any) -> None:
    """A chain that stays in its state, some of which no row of the list begins with."""
    j = p.positions("j")
    x, r = p.symbols("x", "K"), p.symbols("r", "R")
    begin, w = p.columns("begin", "R"), p.words("w")
    F, Z = p.items("F", "K"), p.items("Z")
    first, stay, emit = p.weights("first", "K"), p.weights("stay", "K"), p.weights("emit", "K", "V")
    F[1, begin[r]] += first[begin[r]]
    F[j, x] += stay[x] * F[j - 1, x] * emit[x, w[j]]
    Z[()] += F[p.n, x]


@recursion(first=0)
def growing(p: Any) -> None:
    """Spans of one symbol, whose rule for words has a weight of the symbol alone."""
    i, j, k = p.positions("i j k")
    x, w = p.symbols("x", "K"), p.words("w")
    X, Z = p.items("X", "K"), p.items("Z")
    first, stay, emit = p.weights("first", "K"), p.weights("stay", "K"), p.weights("emit", "K", "V")
    X[j - 1, j, x] += first[x] * emit[x, w[j]]
    X[i, j, x] += stay[x] * X[i, k, x] * X[k, j, x]
    Z[()] += X[0, p.n, x]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", [staying, growing], ids=["staying", "growing"])
def test_counts_of_weights_in_rules_that_bring_a_word(page: Any) -> None:
    """Beside its power of two."""
    made, rng = page(), np.random.default_rng(0)
    weights = {
        "first": rng.normal(size=(1, 5)),
        "stay": rng.normal(size=(1, 5)) - 9.0,
        "emit": rng.normal(size=(1, 5, 3)),
    }
    lengths = np.array([30, 7, 1, 45, 13, 2])
    sizes, lists = {"K": 5, "R": 3, "V": 3}, {"begin": np.array([0, 3, 3])}
    given = Inputs(lengths, weights, {"w": rng.integers(0, 3, (6, 45))}, sizes, lists if page is staying else {})
    log_z, counts = in_logarithms(made, given)
    for found in runs(made, given, "float64"):
        compare(found, log_z, counts, 1e-11)


def test_what_no_rule_reads_does_no_harm() -> None:
    made = staying()
    weights = {"first": np.zeros((1, 5)), "stay": np.zeros((1, 5)), "emit": np.zeros((1, 5, 3))}
    weights["first"][0, [1, 2, 4]] = np.nan, np.inf, -np.inf
    sizes, lists = {"K": 5, "R": 3, "V": 3}, {"begin": np.array([0, 3, 3])}
    given = Inputs(np.array([3]), weights, {"w": np.zeros((1, 3), np.int64)}, sizes, lists)
    for log_z, counts in runs(made, given, "float64"):
        np.testing.assert_allclose(log_z, np.log(3.0))
        np.testing.assert_allclose(counts["first"], [[1 / 3, 0, 0, 2 / 3, 0]], atol=1e-15)


def test_zero_weights_have_no_posterior() -> None:
    """Whatever their adjoint is."""
    page = next(p for p in PAGES if p.name == "hmm")
    made = page.make()
    given = random_sentences(page, made, [9, 5, 4], np.random.default_rng(0), shared=True)
    given.weights["transition"][0, 1] = -np.inf
    log_z, counts = in_logarithms(made, given)
    for found in runs(made, given, "float64"):
        assert (found[1]["transition"][0, 1] == 0).all()
        compare(found, log_z, counts, 1e-11)


def test_rules_that_bring_a_word() -> None:
    made = {page.name: page.make() for page in PAGES}
    for name, number in (("hmm", 2), ("pcfg", 1), ("pcfg_rules", 1)):
        cells = LanesEngine(made[name]).cells
        found = rules_of_words(cells)
        assert found is not None and len(found) == number, name
    sums = LanesEngine(made["hmm"])
    words = np.zeros((3, 300), np.int64)
    weights = {w.name: np.full((1, *(3,) * w.num_axes), -80.0) for w in sums.layout.weights}
    given = Inputs(np.array([300, 100, 1]), weights, dict.fromkeys(sums.layout.words, words), {"K": 3, "W": 3}, {})
    log_z, _ = sums.log_counts(given, np.arange(3))
    np.testing.assert_allclose(log_z, [m * np.log(3) - (2 * m + 1) * 80.0 for m in (300, 100, 1)], rtol=1e-12)


def test_long_chains_of_rare_words() -> None:
    """Log Z alone."""
    page = next(p for p in PAGES if p.name == "hmm")
    made, rng = page.make(), np.random.default_rng(0)
    given = random_sentences(page, made, [60] * 8, rng, shared=True)
    weights = {n: t - np.log(np.exp(t).sum(-1, keepdims=True)) for n, t in given.weights.items()}
    weights["emission"] = weights["emission"] - 7.0
    given = replace(given, weights=weights)
    engine = LanesEngine(made, logs=False, shared=True)
    log_z, _ = engine.log_counts(in_reals(given, "float64"), np.arange(8), counts=False)
    np.testing.assert_allclose(log_z, in_logarithms(made, given)[0], rtol=1e-12)


def test_a_flushed_product_in_a_steep_column() -> None:
    """After a rare word comes the factor 2**500, which the product that was flushed to zero would have met."""
    made, two, never = next(p for p in PAGES if p.name == "hmm").make(), np.log(2.0), -np.inf
    tables = {
        "initial": np.array([0.0, never, never]),
        "transition": np.array([[0.0, 0.0, 0.0], [never] * 3, [never] * 3]),
        "emission": np.array(
            [[0.0, -500 * two, -500 * two], [0.0, -500 * two, -580 * two], [0.0, -500 * two, -515 * two]]
        ),
        "final": np.array([never, 0.0, -70 * two]),
    }
    words = dict.fromkeys(LanesEngine(made).layout.words, np.array([[0, 1, 2]]))
    given = Inputs(np.array([3]), {n: t[None] for n, t in tables.items()}, words, {"K": 3, "W": 3}, {})
    exact = in_logarithms(made, given)[0]
    np.testing.assert_allclose(Program(made).log_counts(given, counts=False)[0], exact, rtol=1e-12)
    np.testing.assert_allclose(Program(made).log_counts(given)[0], exact, rtol=1e-12)


def test_lists_are_looked_at_in_every_call() -> None:
    page = next(p for p in PAGES if p.name == "pcfg_rules")
    program, made = Program(page.make()), page.make()
    given = random_sentences(page, made, [4, 3], np.random.default_rng(0))
    program.log_counts(given)
    name = next(iter(given.lists))
    wrong = {**given.lists, name: np.full(len(given.lists[name]), 99)}
    with pytest.raises(InvalidRecursion, match=r"99"):
        program.log_counts(replace(given, lists=wrong))


def test_memory_of_other_numbers_of_symbols() -> None:
    """Cells lie elsewhere, and all of them take the same memory: none is left with a number of the call before."""
    words = torch.arange(12) * torch.arange(1, 31)[:, None] % 5
    words = torch.where(torch.arange(12) < torch.arange(30)[:, None] % 12 + 1, words, -1)
    for N, P in ((4, 2), (3, 4), (4, 2)):
        grammar = CFG.dense(N, P, 5)
        logs = {name: w.log() for name, w in grammar.initial_weights(words, "random", seed=1).items()}
        rules = grammar.expected_counts(logs, words)[1]["rules"]
        assert float(rules.sum()) == pytest.approx(2 * int((words >= 0).sum()))  # root, n words, n - 1 phrases


def test_numbers_do_not_depend_on_threads() -> None:
    page = next(p for p in PAGES if p.name == "pcfg")
    made = page.make()
    given = random_sentences(page, made, [20] * 300 + [7] * 50, np.random.default_rng(0), shared=True)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(Program(made).log_counts(given))
    finally:
        torch.set_num_threads(before)
    assert (results[0][0] == results[1][0]).all()
    assert all((results[0][1][name] == results[1][1][name]).all() for name in results[0][1])


def rates(made: Recursion, by_weight: dict[str, float], n: int = 120) -> Inputs:
    """A sentence of n words, and log weights that are alike at all positions."""
    tables = {w.name: np.full((1, *(n + 1 if w.num_positions else 2,) * w.num_axes), by_weight[w.name] / n)
              for w in Program(made).tables}  # fmt: skip
    return Inputs(np.array([n]), tables, {}, {}, {})


def chains(p: Any, names: str, j: Any, x: Any) -> list[Any]:
    """Items over points, each with a weight for every step, and symbols of no meaning."""
    items = p.items(" ".join(names), 2)
    for item, weight in zip(items, p.weights(" ".join(names.lower())), strict=True):
        item[1, x] += weight[1]
        item[j, x] += item[j - 1, x] * weight[j]
    return list(items)


@recursion
def three_at_once(p: Any) -> None:
    """The product of the first two is flushed to zero, and the third is great."""
    j, x, Z = p.positions("j"), p.symbols("x", 2), p.items("Z")
    A, B, C, D = chains(p, "ABCD", j, x)
    Z[()] += A[p.n, x] * B[p.n, x] * C[p.n, x]
    Z[()] += D[p.n, x]


@recursion
def a_great_sum(p: Any) -> None:
    """A sum beyond the bound, times a weight that is flushed to zero."""
    j, k, x = p.positions("j"), p.positions("k"), p.symbols("x", 2)
    A, B, D = chains(p, "ABD", j, x)
    E, Z, u = p.items("E", 2), p.items("Z"), p.weights("u")
    E[j, x] += u[j] * A[k, x] * B[k, x] * (k < j)
    Z[()] += E[p.n, x]
    Z[()] += D[p.n, x]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("page, weights", [
    (three_at_once, dict(a=-375.0, b=-375.0, c=610.0, d=-140.0)),
    (a_great_sum, dict(a=350.0, b=350.0, d=-10.0, u=-710.0 * 120)),
    (a_great_sum, dict(a=354.0, b=354.0, d=-352.0, u=-1060.0 * 120)),
], ids=["three", "sum", "great sum"])  # fmt: skip
def test_what_is_flushed_to_zero_matters_nowhere(page: Any, weights: dict[str, float]) -> None:
    made = page()
    given = rates(made, weights)
    log_z, counts = in_logarithms(made, given)
    for found in runs(made, given, "float64"):
        compare(found, log_z, counts, 1e-10)
    compare(Program(made).log_counts(given), log_z, counts, 1e-10)


@pytest.mark.parametrize("step", [2, 3])
def test_rules_of_late_points_alone(step: int) -> None:
    """Their weights are counted from the point on at which they hold."""

    @recursion
    def jumps(p: Any) -> None:
        """A chain that may leave words out."""
        j, w = p.positions("j"), p.words("w")
        a, b = p.symbols("a b", "K")
        X, Z = p.items("X", "K"), p.items("Z")
        start, move, jump, word = (
            p.weights("start", "K"),
            *p.weights("move jump", "K", "K"),
            p.weights("word", "K", "V"),
        )
        X[1, a] += start[a] * word[a, w[1]]
        X[j, b] += X[j - 1, a] * move[a, b] * word[b, w[j]]
        X[j, b] += X[j - step, a] * jump[a, b]
        Z[()] += X[p.n, a]

    made, rng = jumps(), np.random.default_rng(0)
    shapes = {"start": (3,), "move": (3, 3), "jump": (3, 3), "word": (3, 4)}
    weights = {name: rng.normal(size=(1, *shape)) for name, shape in shapes.items()}
    given = Inputs(np.array([9, 5, 4, 3, 2, 1]), weights, {"w": rng.integers(0, 4, (6, 9))}, {"K": 3, "V": 4}, {})
    log_z, counts = in_logarithms(made, given)
    compare(Program(made).log_counts(given), log_z, counts, 1e-12)


def test_words_beside_several_symbols() -> None:
    """Where all sentences share a table, its elements of one word lie side by side: axes are turned, and back."""

    @recursion
    def arcs_that_emit(p: Any) -> None:
        """Words are of pairs of states."""
        j, w = p.positions("j"), p.words("w")
        a, b = p.symbols("a b", "K")
        X, Z = p.items("X", "K"), p.items("Z")
        start, arc = p.weights("start", "K"), p.weights("arc", "K", "K", "V")
        X[1, a] += start[a]
        X[j, b] += X[j - 1, a] * arc[a, b, w[j]]
        Z[()] += X[p.n, a] * start[a]

    made, rng = arcs_that_emit(), np.random.default_rng(0)
    weights = {"start": rng.normal(size=(1, 2)), "arc": rng.normal(size=(1, 2, 2, 4))}
    given = Inputs(np.array([5, 3, 1]), weights, {"w": rng.integers(0, 4, (3, 5))}, {"K": 2, "V": 4}, {})
    compare(Program(made).log_counts(given), *in_logarithms(made, given), 1e-12)


def test_no_engine_is_given_the_code_of_another() -> None:
    """Their functions have the same names: the cache must tell them apart."""
    made = next(page for page in PAGES if page.name == "projective").make()
    options: list[dict[str, Any]] = [{}, {"logs": False}, {"shared": True}, {"constants": frozenset(["arc"])}]
    assert len({LanesEngine(made, **own)._kind for own in options}) == 4


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["hmm", "pcfg", "semi_markov"])
def test_rows_of_symbols_at_once(name: str, dtype: str) -> None:
    """Full blocks, also of several lengths, take rows of eight symbols; one with a bad sentence does not."""
    page = next(p for p in WITH_SYMBOLS if p.name == name)
    made = page.make()
    wide = replace(page, sizes={size: number + 8 for size, number in page.sizes.items()})
    given = random_sentences(wide, made, [5, 4] * 17, np.random.default_rng(0), shared=False)
    given = replace(given, weights={key: table.astype(dtype) for key, table in given.weights.items()})
    rng = np.random.default_rng(2)
    plain = sorted((w.name for w in Program(made).tables if not w.num_positions), key=lambda x: -given.weights[x].ndim)
    plain = [x for x in plain if x not in ("emission", "lexical")]
    for change in ("none", "impossible", "extreme", "shared"):
        weights = {key: table.copy() for key, table in given.weights.items()}
        if change == "impossible":
            weights[plain[0]][3] = -np.inf
        elif change == "extreme":
            weights[plain[0]][3] += np.where(rng.random(weights[plain[0]][3].shape) < 0.5, 80.0, -1000.0)
        elif change == "shared":  # one table of all, beside others of each
            weights[plain[-1]] = weights[plain[-1]][:1]
        one = replace(given, weights=weights)
        exact = replace(one, weights={key: table.astype("float64") for key, table in weights.items()})
        for scale in (None, np.random.default_rng(1).random(34)):
            found = Program(made).log_counts(one, scale=scale)
            compare(found, *in_logarithms(made, exact, scale=scale), TOLERANCE[dtype])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("page", [p for p in PAGES if p in WITH_SYMBOLS or p.name == "projective"], ids=str)
def test_counts_by_sentence(page: Page, dtype: str) -> None:
    """Of tables that sentences share: numbers in tiles, and for a sentence beyond the range of plain numbers."""
    size = 0 if page.lists else 8
    made = page.make()
    wide = replace(page, sizes={name: number + size for name, number in page.sizes.items()})
    given = random_sentences(wide, made, [3, 4, 2, 4, 1, 4, 4, 4, 4, 4, 4, 4, 4], np.random.default_rng(0))
    given = replace(given, weights={name: table.astype(dtype) for name, table in given.weights.items()})
    for junk in (0.0, 400.0, -np.inf):
        for table in (t for t in given.weights.values() if len(t) > 1):
            table[5] += junk
        own = {n: np.broadcast_to(t, (13, *t.shape[1:])).astype("float64") for n, t in given.weights.items()}
        for scale in (None, np.random.default_rng(1).random(13)):
            log_z, counts = in_logarithms(made, replace(given, weights=own), scale=scale)
            found = Program(made).log_counts(given, scale=scale, by_sentence=True)
            compare(found, log_z, counts, TOLERANCE[dtype] * (1 + min(abs(junk), 1.0)))
            assert all(len(table) == 13 for table in found[1].values())


def test_rows_of_a_table_that_a_product_adds_to() -> None:
    """What is given becomes one with the emission of a word; the same table is spoken of without a word, too."""

    @recursion
    def page(p: Any) -> None:
        t, w = p.positions("t"), p.words("w")
        x, v = p.symbols("x", "S"), p.symbols("v", "W")
        F, Z = p.items("F", "S"), p.items("Z")
        bonus, emission = p.weights("bonus", "S"), p.weights("emission", "S", "W")
        F[1, x] += emission[x, v]
        F[t, x] += F[t - 1, x] * bonus[t, x] * emission[x, w[t]]
        Z[()] += F[p.n, x]

    made = page()
    own = Page("page", page, dict(S=2, W=9), {}, 9)
    given = random_sentences(own, made, [4] * 16, np.random.default_rng(0), shared=False)
    log_z, counts, _ = summed(own, made, given)
    program = Program(made)
    bonus = np.exp(given.weights["bonus"])
    found = program.log_counts(given.with_constants({"bonus": bonus}))
    np.testing.assert_allclose(found[0], log_z, rtol=1e-10)
    np.testing.assert_allclose(found[1]["emission"], counts["emission"], rtol=1e-9, atol=1e-9)


def test_shared_counts_have_nothing_of_a_sentence_that_is_no_number() -> None:
    made = next(page for page in PAGES if page.name == "semi_markov").make()
    given = random_sentences(Page("", lambda: made, dict(K=2)), made, [4] * 3, np.random.default_rng(0), shared=False)
    shared = {name: table[:1] for name, table in given.weights.items() if name != "segment"}
    given = replace(given, weights=given.weights | shared)
    _, expected = Program(made).log_counts(only(given, np.arange(1, 3)))
    given.weights["segment"][0] = np.nan
    log_z, counts = Program(made).log_counts(given)
    assert np.isnan(log_z[0]) and np.isfinite(log_z[1:]).all()
    for name in shared:
        np.testing.assert_allclose(counts[name], expected[name], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_table_that_a_short_sentence_does_not_read_is_nan(dtype: str) -> None:
    """Its counts are right, or NaN; those of the other sentence are right."""
    lengths, words = np.array([3, 1]), {"w": np.array([[0, 1, 2], [0, 0, 0]])}
    shapes = {"initial": (2,), "final": (2,), "transition": (2, 2), "emission": (2, 3)}
    weights = {name: np.zeros((2, *shape), dtype) for name, shape in shapes.items()}
    program, rest = Program(hmm()), (words, {"K": 2, "W": 3}, {})
    _, expected = program.log_counts(Inputs(lengths, weights, *rest))
    weights["transition"][1] = np.nan
    log_z, found = program.log_counts(Inputs(lengths, weights, *rest))
    np.testing.assert_allclose(log_z, [3 * np.log(2), np.log(2)], rtol=1e-6)
    for name, table in expected.items():
        np.testing.assert_allclose(found[name][0], table[0], rtol=1e-6)
        known = ~np.isnan(found[name][1])
        np.testing.assert_allclose(found[name][1][known], table[1][known], rtol=1e-6)
