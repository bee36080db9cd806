# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Numbers of any size: sharp, tiny, huge and impossible weights, against the interpreter in logarithms.

What survives may be tiny beside its neighbours: these are the systems in which plain numbers lose it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enumeration import Trace, in_logarithms, listed, only, random_sentences
from pages import PAGES, Page
from random_recursions import random_recursions

from pyrogram.distributions.projective_tree import first_order
from pyrogram.distributions.sibling_tree import second_order
from pyrogram.recursion import InvalidRecursion, recursion
from pyrogram.recursion.code import objects
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.program import Program

Array = Any
LENGTHS = [5, 4, 3, 1, 2, 5, 5, 3, 4]

#: Log weights of a system, from standard normal numbers.
KINDS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "usual": lambda x, rng: x,
    "sharp": lambda x, rng: 30 * x,
    "very sharp": lambda x, rng: 200 * x,
    "without bounds": lambda x, rng: 2000 * x,
    "half forbidden": lambda x, rng: np.where(rng.random(x.shape) < 0.5, -np.inf, x),
    "most forbidden, others sharp": lambda x, rng: np.where(rng.random(x.shape) < 0.7, -np.inf, 300 * x),
    "some tiny": lambda x, rng: np.where(rng.random(x.shape) < 0.5, x - 700, x),
    "tiny or forbidden": lambda x, rng: np.where(rng.random(x.shape) < 0.5, -np.inf, x - 700),
    "tiny, beside one huge": lambda x, rng: np.where(np.arange(x.size).reshape(x.shape) % 7 == 3, x + 900, x - 500),
    "far below": lambda x, rng: np.where(rng.random(x.shape) < 0.3, x - 1e5, x),
}


def in_lanes(seeds: range) -> list[Page]:
    """Random recursions of which many sentences are done at once; of which there are, with symbols and without."""
    found = [*random_recursions(seeds, plain=True), *random_recursions(seeds)]
    return found


def of_kind(page: Page, kind: str, seed: int, dtype: str = "float64") -> Inputs:
    rng = np.random.default_rng(seed)
    given = random_sentences(page, page.make(), LENGTHS, rng, shared=False)
    return replace(given, weights={name: KINDS[kind](x, rng).astype(dtype) for name, x in given.weights.items()})


def check_sums(page: Page, kind: str, dtype: str, seed: int = 0) -> None:
    """Log Z, also alone, and all posteriors."""
    made, given = page.make(), of_kind(page, kind, seed, dtype)
    wide = replace(given, weights={name: x.astype("float64") for name, x in given.weights.items()})
    try:
        log_z, counts = in_logarithms(page, made, wide)
    except InvalidRecursion:  # the lists are not in topological order
        return
    program, name = Program(made), f"{kind}, {dtype}:\n{made}"
    found, posteriors = program.log_counts(given)
    # Of float32 an ulp of the sum of the logarithms is what posteriors may be wrong by.
    size = max([1.0, *(float(np.abs(x[np.abs(x) < 1e6]).max(initial=0.0)) for x in wide.weights.values())])
    relative, absolute = (1e-11, 1e-9) if dtype == "float64" else (1e-5, 1e-5 * size)
    np.testing.assert_allclose(found, log_z, rtol=relative, atol=relative, err_msg=name)
    np.testing.assert_allclose(program.log_counts(given, counts=False)[0], found, rtol=1e-12, err_msg=name)
    for table, expected in counts.items():
        np.testing.assert_allclose(posteriors[table], expected, rtol=absolute, atol=absolute, err_msg=f"{table} {name}")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_random_recursions(kind: str, dtype: str) -> None:
    for page in in_lanes(range(12)):
        check_sums(page, kind, dtype)


@pytest.mark.one_in(25)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        Page("stops and roots", lambda: first_order(valences=2, stops=2, multiroot=True)),
        Page("second order", second_order),
    ],
    ids=str,
)
def test_sums_of_pages(page: Page, kind: str) -> None:
    for seed in range(3):
        check_sums(page, kind, "float64", seed)
        check_sums(page, kind, "float32", seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(12, 212, 20))
def test_a_thousand_systems(first: int) -> None:
    for page in in_lanes(range(first, first + 20)):
        for kind in KINDS:
            for dtype in ("float64", "float32"):
                check_sums(page, kind, dtype, first)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["sharp", "some tiny", "tiny or forbidden", "tiny, beside one huge"])
def test_draws_and_best_derivations(kind: str) -> None:
    number = 1500
    for page in [*PAGES[:3], *in_lanes(range(8))]:
        made, given = page.make(), of_kind(page, kind, 1)
        few = only(given, np.array([1, 2, 4]))
        trace, truth = Trace(few), listed(page, made, few)
        log_z, rows = Program(made).draw(few, number, 3, trace.numbers(), 60)
        scores, _ = Program(made).best(few, 1, trace.numbers(), 60)
        np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-11, atol=1e-11, err_msg=str(made))
        np.testing.assert_allclose(scores[0], [one.scores.max(initial=-np.inf) for one in truth], rtol=1e-12)
        for b, one in enumerate(truth):
            if one.log_z == -np.inf:
                continue
            drawn, probabilities = Counter(trace.uses(row) for row in rows[:, b]), one.probabilities()
            assert drawn.keys() <= probabilities.keys(), str(made)
            for key, p in probabilities.items():
                assert abs(drawn[key] - number * p) < 6 * np.sqrt(number * p * max(1 - p, 0)) + 2, f"{key} in\n{made}"


@recursion
def weights_beside_empty_sums(p: Any) -> None:
    """A sentence of one word reads c[1], times a sum of nothing."""
    i, j, k = p.positions("i j k")
    A, Z, c, end = *p.items("A Z"), *p.weights("c end")
    A[i, j] += (i <= j) * (j <= p.n)
    A[i, j] += A[i, k] * A[k + 1, j] * c[i] * (i < j)
    Z[()] += A[1, p.n] * end[1]


@pytest.mark.parametrize("junk", [3000.0, -3000.0, np.inf, np.nan])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("page", [weights_beside_empty_sums, first_order, second_order])
def test_a_block_leaves_nothing_to_a_shorter_one(page: Any, counts: bool, junk: float) -> None:
    """Neither infinities nor exponents, in memory that the next sentences have."""
    made, rng = page(), np.random.default_rng(0)
    own = Page("page", page)
    given = random_sentences(own, made, [5] * 8 + [1] * 8, rng, shared=False)
    alone = Program(made).log_counts(only(given, np.arange(8, 16)))
    for table in given.weights.values():
        table[:8] += junk
    log_z, found = Program(made).log_counts(given, counts=counts)
    np.testing.assert_array_equal(log_z[8:], alone[0])
    for name, table in found.items():
        np.testing.assert_array_equal(table[8:], alone[1][name])


def test_a_call_that_ends_early_leaves_nothing_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it compiles what only its own numbers need, somebody gives up."""
    monkeypatch.setenv("PYROGRAM_CACHE_DIR", str(tmp_path))
    made, rng = weights_beside_empty_sums(), np.random.default_rng(0)
    own = Page("page", weights_beside_empty_sums)
    given = random_sentences(own, made, [2] * 8 + [1] * 8, rng, shared=False)
    program, short, long = Program(made), only(given, np.arange(8, 16)), only(given, np.arange(8))
    alone = program.log_counts(short)
    long.weights["c"][...], long.weights["end"][...] = np.nan, 3000.0

    def interrupted(text: str, vectors: bool) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(objects, "object_of", interrupted)
        program.log_counts(long)
    log_z, found = program.log_counts(short)
    np.testing.assert_array_equal(log_z, alone[0])
    for name, table in found.items():
        np.testing.assert_array_equal(table, alone[1][name])
    assert np.isnan(program.log_counts(long)[0]).all()


@recursion
def two_chains(p: Any) -> None:
    j, Z, b, c = p.positions("j"), p.items("Z"), *p.weights("b c")
    B, C = p.items("B C")
    B[1] += b[1]
    C[1] += c[1]
    B[j] += B[j - 1] * b[j]
    C[j] += C[j - 1] * c[j]
    Z[()] += B[p.n]
    Z[()] += C[p.n]


@recursion
def two_states(p: Any) -> None:
    j, x, Z, F, w = p.positions("j"), p.symbols("x", 2), p.items("Z"), p.items("F", 2), p.weights("w", 2)
    F[1, x] += w[1, x]
    F[j, x] += F[j - 1, x] * w[j, x]
    Z[()] += F[p.n, x]


@recursion
def two_that_meet(p: Any) -> None:
    """The product of two small items, which grows."""
    j, Z, b, c = p.positions("j"), p.items("Z"), *p.weights("b c")
    B, C, D = p.items("B C D")
    B[1] += b[1]
    B[j] += B[j - 1] * b[j]
    C[1] += c[1]
    C[j] += C[j - 1] * c[j]
    D[11] += C[11] * C[11]
    D[j] += D[j - 1] * c[j] * c[j]
    Z[()] += B[p.n]
    Z[()] += D[p.n]


def test_two_small_items_that_meet() -> None:
    c = np.log(2.0) * 50 * np.array([0, *[-1] * 11, *[1] * 11])
    weights = {"b": np.zeros((1, 23)), "c": c[None]}
    log_z, counts = Program(two_that_meet()).log_counts(Inputs(np.array([22]), weights, {}, {}, {}))
    np.testing.assert_allclose(log_z, np.log(2.0), rtol=1e-12)
    np.testing.assert_allclose(counts["b"][0, 1:], 0.5, rtol=1e-12)
    np.testing.assert_allclose(counts["c"][0, 1:], 1.0, rtol=1e-12)


@recursion
def a_zero_beside_a_large_sum(p: Any) -> None:
    """Of C, which is small, and so its adjoint is large: times the sum it would be infinite."""
    j, k, Z = p.positions("j"), p.positions("k"), p.items("Z")
    x = p.symbols("x", 2)
    A, D = p.items("A D")
    C, (u, d), (e, w) = p.items("C", 2), p.weights("u d"), p.weights("e w", 2)
    A[1] += u[1]
    D[1] += d[1]
    A[j] += A[j - 1] * u[j]
    D[j] += D[j - 1] * d[j]
    C[j, x] += w[j, x] * e[j, x] * A[k] * A[k] * (k < j)
    C[j, x] += D[j]
    Z[()] += C[p.n, x]


def test_a_zero_beside_a_large_sum() -> None:
    up = np.full((1, 9), 50 * np.log(2.0))
    weights = {"u": up, "d": -up, "e": np.zeros((1, 9, 2)), "w": np.full((1, 9, 2), -np.inf)}
    log_z, counts = Program(a_zero_beside_a_large_sum()).log_counts(Inputs(np.array([8]), weights, {}, {}, {}))
    np.testing.assert_allclose(log_z, -399 * np.log(2.0), rtol=1e-12)
    np.testing.assert_allclose(counts["d"][0, 1:], 1.0, rtol=1e-12)
    assert not counts["u"].any() and not counts["e"].any() and not counts["w"].any()


@recursion
def a_sum_that_a_zero_shares(p: Any) -> None:
    """X is zero, and Y, which is large, is the same sum times another weight."""
    i, j, k = p.positions("i j k")
    A, X, Y, Z, a, u, v = *p.items("A X Y Z"), *p.weights("a u v")
    A[i, j] += a[i] * (i >= j) * (i <= j)
    A[i, j] += X[i, j]
    A[i, j] += Y[i, j]
    X[i, j] += A[i, k] * A[k + 1, j] * u[i, j] * (i < j)
    Y[i, j] += A[i, k] * A[k + 1, j] * v[i, j] * (i < j)
    Z[()] += A[1, p.n]


@pytest.mark.parametrize("zero", ["u", "v"])
def test_a_sum_that_a_zero_shares(zero: str) -> None:
    n = 4
    weights = {name: np.zeros((1, n + 1, n + 1)) for name in "uv"} | {"a": np.full((1, n + 1), 3000.0)}
    weights[zero] -= np.inf
    log_z, counts = Program(a_sum_that_a_zero_shares()).log_counts(Inputs(np.array([n]), weights, {}, {}, {}))
    np.testing.assert_allclose(log_z, n * 3000.0 + np.log(5.0), rtol=1e-12)  # five trees of four leaves
    np.testing.assert_allclose(counts["a"][0, 1:], 1.0, rtol=1e-12)
    assert not counts[zero].any()


@recursion
def zeros_among_large_items(p: Any, size: int = 0) -> None:
    """R is zero, and its adjoint, times the large U of others, would be infinite; then times a weight of zero."""
    j, Z = p.positions("j"), p.items("Z")
    u, d, w = p.weights("u d w")
    U, D, P, Q, R = p.items("U D P Q R", *([size] if size else []))
    x = (p.symbols("x", size),) if size else ()

    def at(item: Any, position: Any) -> Any:
        return item[(position, *x)]

    U[(1, *x)] += u[1]
    D[(1, *x)] += d[1]
    U[(j, *x)] += at(U, j - 1) * u[j]
    D[(j, *x)] += at(D, j - 1) * d[j]
    P[(j, *x)] += at(D, j) * w[j]
    Q[(j, *x)] += at(P, j) * at(U, j)
    R[(j, *x)] += at(Q, j) * at(U, j)
    Z[()] += at(R, p.n)
    Z[()] += at(D, p.n)


@pytest.mark.parametrize("size", [0, 2])
def test_zeros_among_large_items(size: int) -> None:
    up = np.full((1, 9), 50 * np.log(2.0))
    weights = {"u": up, "d": -up, "w": np.full((1, 9), -np.inf)}
    log_z, counts = Program(zeros_among_large_items(size=size)).log_counts(Inputs(np.array([8]), weights, {}, {}, {}))
    np.testing.assert_allclose(log_z, np.log(max(1, size)) - 400 * np.log(2.0), rtol=1e-12)
    np.testing.assert_allclose(counts["d"][0, 1:], 1.0, rtol=1e-12)
    assert not counts["u"].any() and not counts["w"].any()


@pytest.mark.parametrize("name", ["projective", "dmv", "hmm", "pcfg"])
def test_draws_of_tiny_weights_are_those_of_others(name: str) -> None:
    """By the same random numbers: all terms of an item have its exponent."""
    page = next(page for page in PAGES if page.name == name)
    made = page.make()
    given = random_sentences(page, made, [5, 4, 3], np.random.default_rng(0), shared=False)
    tiny = replace(given, weights={n: x - 3000 * np.log(2.0) for n, x in given.weights.items()})
    trace = Trace(given)
    usual, rows = (Program(made).draw(own, 200, 3, trace.numbers(), 60)[1] for own in (given, tiny))
    assert (usual == rows).all()


@pytest.mark.parametrize("steps", [[100] * 4, [250] * 4, [480] * 4, [350, 350, 400, 400]], ids=str)
@pytest.mark.parametrize("page", [two_chains, two_states], ids=["chains", "states"])
def test_what_goes_down_comes_up_again(page: Any, steps: list[int]) -> None:
    """Beside derivations that stay: half of the mass, though its items were below all floats on the way."""
    log = np.log(2.0) * np.array([0, *(-x for x in steps), *steps])
    weights = {"b": np.zeros((1, 9)), "c": log[None]}
    if page is two_states:
        weights = {"w": np.stack([np.zeros(9), log], -1)[None]}
    log_z, counts = Program(page()).log_counts(Inputs(np.array([8]), weights, {}, {}, {}))
    np.testing.assert_allclose(log_z, np.log(2.0), rtol=1e-12)
    for table in counts.values():
        np.testing.assert_allclose(table[:, 1:], 0.5, rtol=1e-12)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_numbers_do_not_depend_on_the_block(page: Page) -> None:
    """To the last bit, though sentences beside have numbers with exponents or none."""
    made, rng = page.make(), np.random.default_rng(0)
    given = random_sentences(page, made, [5] * 48, rng, shared=False)
    far = np.where(np.arange(48) % 11 == 3, 900.0, 1.0)
    given = replace(given, weights={n: (x.T * far).T for n, x in given.weights.items()})
    log_z, counts = Program(made).log_counts(given)
    for order in (rng.permutation(48), np.flatnonzero(far == 1.0), np.array([40, 41])):
        own_z, own = Program(made).log_counts(only(given, order))
        assert (own_z == log_z[order]).all()
        assert all((own[name] == counts[name][order]).all() for name in counts), page.name


def test_numbers_do_not_depend_on_the_length_of_the_block() -> None:
    """Sentences of four words beside longer ones, whose columns have other neighbours."""
    for page in [*PAGES, *in_lanes(range(4)), *random_recursions(range(6000, 6001), plain=True)]:
        made, program = page.make(), Program(page.make())
        for seed in range(6):
            given = random_sentences(page, made, [4] * 5 + [5, 5, 5], np.random.default_rng(seed), shared=False)
            try:
                log_z, counts = program.log_counts(given)
                alone, own = program.log_counts(only(given, np.arange(5)))
            except InvalidRecursion:
                break
            np.testing.assert_array_equal(alone, log_z[:5], err_msg=str(made))
            for name, table in own.items():
                np.testing.assert_array_equal(table, counts[name][:5], err_msg=f"{name} {made}")


def test_long_sentences_have_no_bounds() -> None:
    """Of chains of arcs all to the right, log Z is a sum; a sharp one of 120 words is far below the least number."""
    made, n = first_order(), 120
    arcs = np.full((2, n + 1, n + 1), -np.inf)
    arcs[:, np.arange(n), np.arange(1, n + 1)] = -500.0 * np.random.default_rng(0).random((2, n))
    given = Inputs(np.array([n, n - 20]), {"arc": arcs}, {}, {}, {})
    for dtype, tolerance in (("float64", 1e-13), ("float32", 1e-5)):
        own = replace(given, weights={"arc": arcs.astype(dtype)})
        log_z, counts = Program(made).log_counts(own)
        chains = [
            own.weights["arc"][b, np.arange(m), np.arange(1, m + 1)].sum(dtype="float64")
            for b, m in ((0, n), (1, n - 20))
        ]
        np.testing.assert_allclose(log_z, chains, rtol=tolerance)
        np.testing.assert_allclose(counts["arc"].sum((1, 2)), [n, n - 20], rtol=1e-5)


@pytest.mark.parametrize("kind", ["very sharp", "tiny or forbidden", "far below"])
def test_a_processor_without_an_instruction_for_powers_of_two(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "+avx2" not in objects.processor()[1]:
        pytest.skip("this processor does not have avx2")
    monkeypatch.setenv("PYROGRAM_CPU", "haswell")
    for zero in "uv":
        test_a_sum_that_a_zero_shares(zero)
    for page in [*PAGES[:2], *PAGES[-3:-1], *in_lanes(range(1))]:
        check_sums(page, kind, "float64")
        check_sums(page, kind, "float32")
