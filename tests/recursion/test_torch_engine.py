# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions in torch against lists of all derivations, for every page: values, derivatives, transforms, corners."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from corners import CORNERS
from enumeration import Listed, expected_counts, listed, random_sentences, summed
from pages import PAGES, Page, dmv, hmm, pcfg, projective
from random_recursions import random_recursions
from torch import Tensor

from pyrogram.recursion import InvalidRecursion, Recursion, recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.program import Program
from pyrogram.recursion.torch.engine import TorchEngine
from pyrogram.recursion.torch.semirings import Logarithms

LENGTHS = [4, 1, 3, 2, 3]
by_page = pytest.mark.parametrize("page", PAGES, ids=str)


@pytest.fixture(params=["numbers", "products", "logarithms"])
def values(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What cells are: numbers, where these can be trusted; or logarithms in any case, of which sums over symbols are
    products of numbers, where nothing is lost by that, or never."""
    if request.param != "numbers":
        monkeypatch.setattr(TorchEngine, "_by_numbers", lambda self, tables: None)
    if request.param == "logarithms":
        monkeypatch.setattr(Logarithms, "_of_numbers", staticmethod(lambda *sum: None))
    return str(request.param)


_MADE: dict[str, tuple[Recursion, TorchEngine]] = {}


def made(page: Page) -> tuple[Recursion, TorchEngine]:
    """Of a page: the recursion and its engine."""
    if page.name not in _MADE:
        _MADE[page.name] = page.make(), TorchEngine(page.make())
    return _MADE[page.name]


def drawn(page: Page, lengths: list[int] = LENGTHS, **options: Any) -> tuple[Inputs, list[Listed]]:
    given = random_sentences(page, made(page)[0], lengths, np.random.default_rng(1), **options)
    return given, listed(page, made(page)[0], given)


def arguments(given: Inputs) -> tuple[Tensor, dict[str, Tensor], dict[str, int], dict[str, Tensor]]:
    """All but weights, with -1 beyond the ends of sentences."""
    words = {}
    for name, table in given.words.items():
        beyond = np.arange(table.shape[1]) >= given.lengths[:, None]
        words[name] = torch.from_numpy(np.where(beyond, -1, table))
    lists = {name: torch.from_numpy(column) for name, column in given.lists.items()}
    return torch.from_numpy(given.lengths), words, dict(given.sizes), lists


def tensors(given: Inputs, **options: Any) -> dict[str, Tensor]:
    return {name: torch.tensor(table, **options) for name, table in given.weights.items()}


def check(engine: TorchEngine, given: Inputs, log_z: Any, counts: dict[str, Any], atol: float = 1e-11) -> None:
    found, marginals = engine.marginals(tensors(given), *arguments(given))
    np.testing.assert_allclose(found, log_z, rtol=atol, atol=atol, err_msg=str(engine.recursion))
    for name, table in counts.items():
        np.testing.assert_allclose(marginals[name], table, atol=atol, err_msg=f"{name} in\n{engine.recursion}")


# ---------------------------------------------------------------------- values and first derivatives


@pytest.mark.one_in(5)
@by_page
@pytest.mark.parametrize("shared", [None, False, True])
def test_log_z_and_counts_are_those_of_all_derivations(page: Page, shared: bool | None, values: str) -> None:
    given, truth = drawn(page, shared=shared)
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


@pytest.mark.one_in(2)
@by_page
def test_in_float32(page: Page) -> None:
    given, truth = drawn(page, dtype="float32")
    found, marginals = made(page)[1].marginals(tensors(given), *arguments(given))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, [one.log_z for one in truth], rtol=1e-5, atol=1e-5)
    for name, table in expected_counts(given, truth).items():
        assert marginals[name].dtype == torch.float32
        np.testing.assert_allclose(marginals[name], table, atol=2e-5)


@by_page
def test_one_table_for_all_sentences_needs_no_batch(page: Page) -> None:
    given, truth = drawn(page, shared=True)
    weights = {name: table[0] for name, table in tensors(given).items()}
    found = made(page)[1].log_partition(weights, *arguments(given))
    np.testing.assert_allclose(found, [one.log_z for one in truth], atol=1e-12)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("make", CORNERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("shared", [False, True])
def test_corners_of_the_language(make: Callable[[Any], None], shared: bool, values: str) -> None:
    page = Page(make.__name__, recursion(make), dict(U=3), dict(above=[1, 2, 2], below=[0, 0, 1]))
    given, truth = drawn(page, shared=shared)
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


@recursion
def rows_of_two_lists(p: Any) -> None:
    j, u, v, t = p.positions("j"), p.symbols("u", "U"), p.symbols("v", "V"), p.symbols("t", 3)
    x, y = p.symbols("x y", 2)
    X, Z = p.items("X", 3, 2, 2), p.items("Z")
    above, below = p.columns("above below", "U")
    left, right = p.columns("left right", "V")
    a, g = p.weights("a", 3, 2, 2), p.weights("g", "U", "V", 2, 2)
    X[j, t, x, y] += a[j, t, x, y]
    X[j, above[u], left[v], x] += g[u, v, x, y] * X[j, below[u], right[v], y]
    Z[()] += X[j, t, x, y]


def test_rows_of_two_lists(values: str) -> None:
    """The first one says which rows come before others, which read what symbols there sum up to."""
    lists = dict(above=[1, 2, 2], below=[0, 0, 1], left=[1, 0], right=[0, 1])
    given, truth = drawn(page := Page("rows_of_two_lists", rows_of_two_lists, dict(U=3, V=2), lists), [2, 1])
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


def check_random(page: Page) -> None:
    rng = np.random.default_rng(int(page.name.rpartition("_")[2]))
    given = random_sentences(page, made(page)[0], [3, 1, 2, 4], rng)
    try:
        log_z, counts, _ = summed(page, made(page)[0], given)
        made(page)[1].log_partition(tensors(given), *arguments(given))
    except InvalidRecursion:  # the lists are not in topological order, which the compiled code does not like either
        with pytest.raises(InvalidRecursion, match="topological order"):
            Program(made(page)[0]).log_counts(given)
        return
    check(made(page)[1], given, log_z, counts, atol=1e-9)


@pytest.mark.one_in(56)
@pytest.mark.parametrize("seed", range(40))
def test_a_random_recursion(seed: int, values: str) -> None:
    for page in random_recursions([seed]):
        check_random(page)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_random_recursions(block: int, values: str) -> None:
    for page in random_recursions(range(1000 + 55 * block, 1055 + 55 * block)):
        check_random(page)


# ---------------------------------------------------------------------- derivatives and transforms


@pytest.mark.one_in(20)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, id=str(p), marks=[pytest.mark.slow] if p.name in ("siblings", "dmv_words_3") else [])
        for p in PAGES
    ],
)
def test_second_derivatives(page: Page, values: str, fast_mode: bool) -> None:
    given, _ = drawn(page, [2, 3])
    weights = tensors(given, requires_grad=True)
    rest = arguments(given)

    def log_z(*tables: Tensor) -> Tensor:
        return made(page)[1].log_partition(dict(zip(weights, tables, strict=True)), *rest)

    assert torch.autograd.gradcheck(log_z, tuple(weights.values()))
    assert torch.autograd.gradgradcheck(log_z, tuple(weights.values()), fast_mode=fast_mode)


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own, on first use
@by_page
def test_transforms_of_torch(page: Page) -> None:
    given, truth = drawn(page, shared=False)
    lengths, words, sizes, lists = arguments(given)
    weights = tensors(given)

    def log_z(tables: dict[str, Tensor], length: Tensor, row: dict[str, Tensor]) -> Tensor:
        tables = {name: table[None] for name, table in tables.items()}
        row = {name: x[None] for name, x in row.items()}
        return made(page)[1].log_partition(tables, length[None], row, sizes, lists)[0]

    found = torch.func.vmap(torch.func.grad(log_z))(weights, lengths, words)
    for name, table in expected_counts(given, truth).items():
        np.testing.assert_allclose(found[name], table, atol=1e-11, err_msg=name)
    ones = {name: torch.ones_like(table[2]) for name, table in weights.items()}
    mine = {name: table[2] for name, table in weights.items()}
    row = {name: x[2] for name, x in words.items()}
    value, slope = torch.func.jvp(lambda x: log_z(x, lengths[2], row), (mine,), (ones,))
    np.testing.assert_allclose(value, truth[2].log_z, atol=1e-11)
    np.testing.assert_allclose(slope, sum(float(table[2].sum()) for table in found.values()), atol=1e-11)


def test_marginals_have_derivatives() -> None:
    page = PAGES[0]
    given, _ = drawn(page, [3])
    weights = tensors(given, requires_grad=True)
    _, marginals = made(page)[1].marginals(weights, *arguments(given))
    (entropy_gradient,) = torch.autograd.grad((marginals["arc"] ** 2).sum(), [weights["arc"]])
    assert entropy_gradient.abs().max() > 0.01


# ---------------------------------------------------------------------- padding, nothing possible, not a number


@pytest.mark.one_in(6)
@by_page
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_padding_is_not_read(page: Page, number: float, values: str) -> None:
    given, truth = drawn(page, shared=False)
    for name, table in given.weights.items():
        positions = given.weights[name].ndim - 1 - len(made(page)[0].tables[name].sizes)
        for b, n in enumerate(given.lengths):
            for axis in range(positions):
                np.moveaxis(table[b], axis, 0)[n + 1 :] = number
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in ("projective", "siblings", "dmv")], ids=str)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_no_derivation_has_is_not_read(page: Page, number: float, values: str) -> None:
    """The last word, for one, has no child on its right, and yet spans of longer sentences go on from there."""
    given, truth = drawn(page, shared=False)
    counts = expected_counts(given, truth)
    for name, table in given.weights.items():
        table[counts[name] == 0.0] = number
    check(made(page)[1], given, [one.log_z for one in truth], counts)


@pytest.mark.one_in(2)
@by_page
def test_impossible_sentences(page: Page, values: str) -> None:
    given, truth = drawn(page, shared=False)
    for table in given.weights.values():
        table[2] = -np.inf
    truth[2] = Listed([], np.zeros(0))
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))
    weights = tensors(given, requires_grad=True)
    log_z = made(page)[1].log_partition(weights, *arguments(given))
    assert log_z[2] == -torch.inf
    for gradient in torch.autograd.grad(log_z.sum(), list(weights.values())):
        assert torch.equal(gradient[2], torch.zeros_like(gradient[2]))
        assert not gradient.isnan().any()


@pytest.mark.one_in(2)
@by_page
def test_some_weights_are_impossible(page: Page, values: str) -> None:
    given, _ = drawn(page, shared=False)
    rng = np.random.default_rng(3)
    for table in given.weights.values():
        table[rng.random(table.shape) < 0.2] = -np.inf
    truth = listed(page, made(page)[0], given)
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


@pytest.mark.one_in(2)
@by_page
def test_nan_stays_in_its_sentence(page: Page, values: str) -> None:
    given, truth = drawn(page, shared=False)
    for table in given.weights.values():
        table[2] = np.nan
    found = made(page)[1].log_partition(tensors(given), *arguments(given)).numpy()
    assert np.isnan(found[2])
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(found[others], np.array([one.log_z for one in truth])[others], atol=1e-11)


# ---------------------------------------------------------------------- products of numbers, and their range


@pytest.fixture
def in_numbers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of charts of logarithms: whether sums over symbols were products of numbers, sum by sum."""
    found: list[bool] = []
    asked = Logarithms._of_numbers

    def of_numbers(*of: Any) -> Tensor | None:
        total = asked(*of)
        found.append(total is not None)
        return total

    monkeypatch.setattr(Logarithms, "_of_numbers", staticmethod(of_numbers))
    monkeypatch.setattr(TorchEngine, "_by_numbers", lambda self, tables: None)
    return found


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether charts of numbers were trusted, chart by chart."""
    found: list[bool] = []
    asked = TorchEngine._by_numbers

    def by_numbers(self: TorchEngine, tables: Any) -> Tensor | None:
        log_z = asked(self, tables)
        found.append(log_z is not None)
        return log_z

    monkeypatch.setattr(TorchEngine, "_by_numbers", by_numbers)
    return found


def from_logarithms(engine: TorchEngine, weights: dict[str, Tensor], *rest: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Log Z and counts from logarithms alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TorchEngine, "_by_numbers", lambda self, tables: None)
        patch.setattr(Logarithms, "_of_numbers", staticmethod(lambda *of: None))
        return engine.marginals(weights, *rest)


def shifted(make: Callable[[], Recursion], shift: float) -> tuple[TorchEngine, dict[str, Tensor], Any]:
    """An engine, weights of long sentences, all of them greater by a number, and the rest."""
    page = Page(make.__name__, make, dict(K=4, W=5, S=3), vocabulary=5)
    given = random_sentences(page, make(), [30, 7, 26], np.random.default_rng(2), shared=False)
    return TorchEngine(make()), {name: t + shift for name, t in tensors(given).items()}, arguments(given)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shift", [-30.0, -8.0, 0.0, 8.0])
@pytest.mark.parametrize("make", [hmm, pcfg], ids=lambda make: make.__name__)
def test_long_sentences_stay_in_range(make: Callable[[], Recursion], shift: float, in_numbers: list[bool]) -> None:
    engine, weights, rest = shifted(make, shift)
    usual, logs = engine.marginals(weights, *rest), from_logarithms(engine, weights, *rest)
    assert in_numbers and all(in_numbers)
    np.testing.assert_allclose(usual[0], logs[0], rtol=1e-12)
    for name in weights:
        np.testing.assert_allclose(usual[1][name], logs[1][name], atol=1e-10)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shift", [-30.0, -3.0, 0.0, 8.0])
@pytest.mark.parametrize("make", [projective, dmv, hmm, pcfg], ids=lambda make: make.__name__)
def test_numbers_are_trusted_in_range(make: Callable[[], Recursion], shift: float, trusted: list[bool]) -> None:
    engine, weights, rest = shifted(make, shift)
    usual, logs = engine.marginals(weights, *rest), from_logarithms(engine, weights, *rest)
    assert trusted == [float(logs[0].abs().max()) < 200 * np.log(2)]
    np.testing.assert_allclose(usual[0], logs[0], rtol=1e-12)
    for name in weights:
        np.testing.assert_allclose(usual[1][name], logs[1][name], atol=1e-10)


@recursion
def two_chains(p: Any) -> None:
    j = p.positions("j")
    X, Y, Z = p.items("X Y Z")
    a, b, c = p.weights("a b c")
    X[1] += a[1]
    X[j] += X[j - 1] * a[j]
    Y[1] += b[1]
    Y[j] += Y[j - 1] * b[j]
    Z[()] += X[p.n] + Y[p.n] * c[p.n]


@pytest.mark.parametrize("size", [130.0, -130.0])
def test_cells_out_of_range_on_the_way(size: float, trusted: list[bool]) -> None:
    """No weight is, nor log Z: in its middle, one chain is exp(1300) or exp(-1300), as a number infinite or zero."""
    a = torch.tensor([[0.0, *[size] * 10, *[-size] * 10]]).double()
    b = torch.full((1, 21), -0.1).double()
    c = torch.zeros(1, 21).double()
    engine = TorchEngine(two_chains())
    log_z, counts = engine.marginals(dict(a=a, b=b, c=c), torch.tensor([20]))
    expected = np.logaddexp(0.0, -2.0)
    assert trusted == [False]
    np.testing.assert_allclose(log_z, [expected], atol=1e-12)
    np.testing.assert_allclose(counts["a"][0, 1:], np.full(20, np.exp(-expected)), atol=1e-12)


@pytest.mark.parametrize("number", [-np.inf, -2e6])
@pytest.mark.parametrize("size", [0.0, 20.0, 100.0])
def test_what_follows_from_a_dead_cell_is_bounded_by_nothing(number: float, size: float, trusted: list[bool]) -> None:
    """Nothing begins the second chain, which would be exp(4000): derivatives of each order are those of the first."""
    a = torch.full((1, 41), -0.1).double()
    b = torch.tensor([[0.0, number, *[size] * 39]]).double()
    leaves = [x.requires_grad_() for x in (a, b, torch.zeros(1, 41).double())]
    log_z = TorchEngine(two_chains()).log_partition(dict(zip("abc", leaves, strict=True)), torch.tensor([40]))
    assert trusted == [True]
    np.testing.assert_allclose(log_z.detach(), [-4.0], atol=1e-12)
    value = log_z.sum() ** 2
    for factor in (2 * -4.0, 2.0 * 40, 0.0):  # of (-0.1 * 40) ** 2, in the direction of ones
        gradients = torch.autograd.grad(value, leaves, create_graph=True)
        np.testing.assert_allclose(gradients[0][0, 1:].detach(), np.full(40, factor), atol=1e-9)
        assert not gradients[1].any() and not gradients[2].any()
        value = gradients[0].sum()


@pytest.mark.parametrize("number", [-np.inf, -1e9])
@pytest.mark.parametrize("make", [projective, dmv, hmm, pcfg], ids=lambda make: make.__name__)
def test_impossible_weights_are_zero_numbers(make: Callable[[], Recursion], number: float, trusted: list[bool]) -> None:
    engine, weights, rest = shifted(make, 0.0)
    rng = np.random.default_rng(3)
    weights = {name: t.masked_fill(torch.from_numpy(rng.random(t.shape) < 0.1), number) for name, t in weights.items()}
    usual, logs = engine.marginals(weights, *rest), from_logarithms(engine, weights, *rest)
    assert trusted == [bool(logs[0].isfinite().all()) and float(logs[0].abs().max()) < 138.0]
    np.testing.assert_allclose(usual[0], logs[0], rtol=1e-12)
    for name in weights:
        np.testing.assert_allclose(usual[1][name], logs[1][name], atol=1e-10)


def test_what_is_kept_between_calls() -> None:
    """Positions are kept by length: for other numbers, symbols and modes of torch, and not for copies."""
    engine = TorchEngine(pcfg())
    for S, lengths in ((2, [3, 2]), (3, [3, 1]), (2, [4, 3]), (3, [3, 3])):
        page = Page("pcfg", pcfg, dict(S=S, W=3))
        given = random_sentences(page, pcfg(), lengths, np.random.default_rng(S), shared=False)
        truth = listed(page, pcfg(), given)
        for used in (engine, copy.deepcopy(engine)):
            with torch.inference_mode():
                used.log_partition(tensors(given), *arguments(given))
            check(used, given, [one.log_z for one in truth], expected_counts(given, truth))


@by_page
def test_scores_far_apart(page: Page) -> None:
    """So far that products are zero or infinite."""
    given, truth = drawn(page, spread=400.0, shared=False)
    check(made(page)[1], given, [one.log_z for one in truth], expected_counts(given, truth))


def test_a_tiny_cell_is_not_lost() -> None:
    """The one tree that counts is made of a cell that underflows: 0 * infinity would be its weight."""
    page = PAGES[0]
    given, _ = drawn(page, [3], shared=False)
    given.weights["arc"][:] = -np.inf
    given.weights["arc"][0, 1, 2], given.weights["arc"][0, 2, 3], given.weights["arc"][0, 0, 1] = -800.0, 0.0, 800.0
    truth = listed(page, made(page)[0], given)
    check(made(page)[1], given, [truth[0].log_z], expected_counts(given, truth))
    assert truth[0].log_z == 0.0


@pytest.mark.parametrize("nats", [-300.0, -1400.0])
def test_only_a_tiny_symbol_leads_to_the_goal(nats: float, in_numbers: list[bool]) -> None:
    """It is far below another symbol of its cell in every sum."""

    @recursion
    def two_steps(p: Any) -> None:
        x, y = p.symbols("x y", "K")
        X, Y, Z = *p.items("X Y", "K"), p.items("Z")
        a, b, c = p.weights("a", "K"), p.weights("b", "K", "K"), p.weights("c", "K")
        X[1, x] += a[1, x]
        Y[1, y] += X[1, x] * b[x, y]
        Z[()] += Y[1, y] * c[y]

    a, c = torch.tensor([[[0.0, 0.0], [0.0, nats]]]).double(), torch.tensor([[-np.inf, 0.0]]).double()
    b = torch.tensor([[[0.0, -np.inf], [-np.inf, 0.0]]]).double()
    log_z, counts = TorchEngine(two_steps()).marginals(dict(a=a, b=b, c=c), torch.tensor([1]), sizes={"K": 2})
    assert log_z.tolist() == [nats]
    assert counts["a"][0, 1].tolist() == [0.0, 1.0] and counts["b"][0].tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert all(in_numbers) == (nats > -700)


def test_a_tiny_weight_beside_a_great_one() -> None:
    """exp(-742) has four bits: times exp(706) it would be in range, and wrong."""

    @recursion
    def one_derivation(p: Any) -> None:
        X, Z = p.items("X Z")
        a, b = p.weights("a b")
        X[1] += a[1] * b[1]
        Z[()] += X[1]

    tables = dict(a=torch.full((1, 2), -742.3), b=torch.full((1, 2), 706.0))
    found = TorchEngine(one_derivation()).log_partition(tables, torch.tensor([1]))
    torch.testing.assert_close(found, torch.tensor([-36.3]), rtol=0.0, atol=1e-12)


# ---------------------------------------------------------------------- sums by hand


@recursion
def before_both(p: Any) -> None:
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    q, r = p.weights("q r")
    X[i, j] += q[k, i] * r[k, j] * (k < i) * (i < j)
    Z[()] += X[i, j]


@recursion
def counted(p: Any) -> None:
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    q = p.weights("q")
    X[i, j] += q[i, j] * (i <= k) * (k <= j)
    Z[()] += X[i, j]


@recursion
def from_the_end(p: Any) -> None:
    j = p.positions("j")
    X, Z = p.items("X Z")
    q = p.weights("q")
    X[j] += q[j]
    Z[()] += X[j] * (p.n - 1 <= j)


@recursion
def of_all_symbols(p: Any) -> None:
    j, x, y = p.positions("j"), *p.symbols("x y", 3)
    X, Z = p.items("X", 3), p.items("Z")
    q, r = p.weights("q", 3), p.weights("r", 3)
    X[j, x] += q[j, y] * r[j, y]
    Z[()] += X[j, x]


@recursion
def chains(p: Any) -> None:
    j, x = p.positions("j"), p.symbols("x", 3)
    X, Z = p.items("X Z")
    q = p.weights("q", 3)
    X[j] += 1
    X[j] += X[j - 1] * q[j, x]
    Z[()] += X[p.n]


Sums = Callable[[Tensor, Tensor, int], Tensor]
BY_HAND: dict[str, tuple[Callable[..., Recursion], int, Sums]] = {
    "weights of which no rule reads some": (
        before_both, 2,
        lambda q, r, n: sum(q[k, i] * r[k, j] for j in range(3, n + 1) for i in range(2, j) for k in range(1, i)),
    ),
    "terms that do not differ": (
        counted, 2, lambda q, r, n: sum(q[i, j] * (j - i + 1) for j in range(1, n + 1) for i in range(1, j + 1)),
    ),
    "sums from the end": (from_the_end, 1, lambda q, r, n: sum(q[j] for j in range(max(1, n - 1), n + 1))),
    "symbols that no factor has": (
        of_all_symbols, 1, lambda q, r, n: sum((q[j] * r[j]).sum() * 3 for j in range(1, n + 1)),
    ),
    "a rule that the first cell has not": (
        chains, 1, lambda q, r, n: 1.0 + sum(q[j : n + 1].sum(1).prod() for j in range(2, n + 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_sums_by_hand(name: str, values: str) -> None:
    """Whatever no rule reads is NaN, and its derivative zero."""
    page, positions, by_hand = BY_HAND[name]
    engine, lengths = TorchEngine(page()), [5, 3, 4]
    symbols = [3] if page in (of_all_symbols, chains) else []
    names = [table.name for table in engine.recursion.tables.values() if not table.is_item]
    tables = [torch.rand(3, *[6] * positions, *symbols) + 0.1 for _ in range(2)]
    leaves = [t.clone().requires_grad_() for t in tables]
    expected = torch.stack([by_hand(*(x[b] for x in leaves), n) for b, n in enumerate(lengths)])
    expected.log().sum().backward()
    used = [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]
    given = [torch.where(u != 0, t.log(), torch.nan).requires_grad_() for t, u in zip(tables, used, strict=True)]
    found = engine.log_partition(dict(zip(names, given, strict=False)), torch.tensor(lengths))
    torch.testing.assert_close(found, expected.log())
    found.sum().backward()
    for x, t, u in list(zip(given, tables, used, strict=True))[: len(names)]:
        torch.testing.assert_close(x.grad, u * t)
