# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second derivatives in compiled code: a Hessian of log Z times a vector is a covariance, over all derivations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import Listed, listed, random_sentences
from pages import PAGES, Page
from random_recursions import random_recursions
from test_numbers import KINDS, a_zero_beside_a_large_sum, weights_beside_empty_sums, zeros_among_large_items

from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.recursion import InvalidRecursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.recursion.run.program import Program

Array = Any
LENGTHS = [5, 4, 3, 1, 2, 5, 5, 3, 4]
RANDOM = [*random_recursions(range(6), plain=True), *random_recursions(range(6))]


def enumerated(given: Inputs, truth: list[Listed], u: dict[str, Array], scale: Array) -> tuple[Array, Any]:
    """Of log Z, its derivative in the direction u, which is the mean of u; and covariances of u with all counts."""
    means, found = np.zeros(len(truth)), {name: np.zeros(table.shape) for name, table in given.weights.items()}
    for b, one in enumerate(truth):
        if one.log_z == -np.inf:
            continue
        rows = {name: b if len(table) > 1 else 0 for name, table in given.weights.items()}
        worth = np.array([sum(u[name][(rows[name], *at)] for name, at in uses) for uses in one.uses])
        p = np.exp(one.scores - one.log_z)
        means[b] = p @ np.where(p > 0, worth, 0.0)
        for uses, share in zip(one.uses, np.where(p > 0, p * (worth - means[b]), 0.0), strict=True):
            for (name, at), number in Counter(uses).items():
                found[name][(rows[name], *at)] += scale[b] * number * share
    return means, found


@pytest.mark.one_in(12)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["usual", "sharp", "half forbidden", "some tiny", "without bounds"])
@pytest.mark.parametrize("page", [*PAGES, *RANDOM], ids=str)
def test_derivatives_in_a_direction(page: Page, kind: str, shared: bool) -> None:
    made, rng = page.make(), np.random.default_rng(1)
    given = random_sentences(page, made, LENGTHS, rng, shared=shared)
    given = replace(given, weights={name: KINDS[kind](x, rng) for name, x in given.weights.items()})
    u = {name: 1e3 * rng.normal(size=x.shape) for name, x in given.weights.items()}
    scale = rng.normal(size=len(LENGTHS))
    try:
        truth = listed(page, made, given)
    except InvalidRecursion:  # the lists are not in topological order
        return
    means, expected = enumerated(given, truth, u, scale)
    found, tangents = Program(made).tangents(given, u, scale=scale)
    np.testing.assert_allclose(found, means, rtol=1e-9, atol=1e-6, err_msg=str(made))
    for name, table in expected.items():
        np.testing.assert_allclose(tangents[name], table, rtol=1e-8, atol=1e-6, err_msg=f"{name} {made}")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("page", PAGES[:2] + PAGES[-3:], ids=str)
def test_torch_has_them_from_compiled_code(page: Page, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a function of log Z and of counts, and the third derivative, which is torch's."""
    made, program = page.make(), TensorProgram(page.make())
    numbers = random_sentences(page, made, LENGTHS, np.random.default_rng(2), shared=shared)
    tables = {name: torch.from_numpy(x).requires_grad_() for name, x in numbers.weights.items()}
    words = {name: torch.from_numpy(x) for name, x in numbers.words.items()}
    given = TensorInputs(tables, torch.from_numpy(numbers.lengths), words, dict(numbers.sizes), dict(numbers.lists))
    calls = []
    kept = TensorProgram.in_torch
    monkeypatch.setattr(TensorProgram, "in_torch", lambda self, given: calls.append(1) or kept(self, given))

    def second(by_torch: bool, graph: bool = False) -> list[Any]:
        log_z = program.log_partition(given, by_torch=by_torch)
        first = torch.autograd.grad((log_z.tanh() + log_z**2 / 50).sum(), list(tables.values()), create_graph=True)
        return list(torch.autograd.grad(sum((x**2).sum() for x in first), list(tables.values()), create_graph=graph))

    found = second(False)
    assert not calls
    for x, y in zip(found, second(True), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
    third = [sum((x**2).sum() for x in second(by_torch, graph=True)) for by_torch in (False, True)]
    gradients = [torch.autograd.grad(x, list(tables.values())) for x in third]
    for x, y in zip(*gradients, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)

    calls.clear()
    log_z, counts = program.marginals(given)
    value = (log_z**2).sum() / 9 + sum((x**3).sum() for x in counts.values())
    found = list(torch.autograd.grad(value, list(tables.values())))
    assert not calls
    log_z, counts = program.marginals(given, by_torch=True)
    value = (log_z**2).sum() / 9 + sum((x**3).sum() for x in counts.values())
    for x, y in zip(found, torch.autograd.grad(value, list(tables.values())), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


def trees(scores: torch.Tensor) -> ProjectiveDependencyTree:
    return ProjectiveDependencyTree(scores, valence=True, validate_args=False)


def test_counts_that_are_shown_stay_as_they_are() -> None:
    """The gradient of log Z is a multiple of them, and is found in memory of its own, in any order and twice."""
    scores = torch.randn(3, 5, 5, 1, dtype=torch.float64).requires_grad_()
    factors = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    log_z, counts = trees(scores)._marginals()
    (expected,) = torch.autograd.grad(
        (
            factors
            * trees(scores)._program.log_partition(trees(scores)._tensor_inputs(scores.shape[:1]), by_torch=True)
        ).sum(),
        scores,
    )
    before = counts.detach().clone()
    for _ in range(2):
        (found,) = torch.autograd.grad((factors * log_z).sum(), scores, retain_graph=True)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(counts.detach(), before, rtol=0, atol=0)
    counts.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(log_z.sum(), scores)


@pytest.mark.parametrize("shared", [False, None], ids=["own", "some shared"])
@pytest.mark.parametrize("page", [p for p in PAGES if str(p) in ("projective", "semi_markov", "grandparents")], ids=str)
def test_a_direction_that_is_no_number_harms_no_other_sentence(page: Page, shared: bool | None) -> None:
    made, rng = page.make(), np.random.default_rng(3)
    given = random_sentences(page, made, LENGTHS, rng, shared=shared)
    u = {name: rng.normal(size=x.shape) for name, x in given.weights.items()}
    program = Program(made)
    _, expected = program.tangents(given, u)
    spoilt = {name: x.copy() for name, x in u.items()}
    of_each = [name for name, x in spoilt.items() if len(x) > 1]
    assert of_each
    for name in of_each:
        spoilt[name][0] = np.nan
    program.tangents(given, spoilt)
    _, found = program.tangents(given, u)
    _, beside = program.tangents(given, spoilt)
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x)
    for name in of_each:
        np.testing.assert_array_equal(beside[name][1:], expected[name][1:])


@pytest.mark.parametrize("size", [0, 2])
def test_zeros_beside_large_numbers(size: int) -> None:
    """All derivations have the same weights: no count changes with them."""
    up, rng = np.full((1, 9), 50 * np.log(2.0)), np.random.default_rng(4)
    for made, e in ((zeros_among_large_items(size=size), ()), (a_zero_beside_a_large_sum(), (2,))):
        weights = {"u": up, "d": -up, "w": np.full((1, 9, *e), -np.inf)} | ({"e": np.zeros((1, 9, *e))} if e else {})
        u = {name: rng.normal(size=x.shape) for name, x in weights.items()}
        given = Inputs(np.array([8]), weights, {}, {}, {})
        found, tangents = Program(made).tangents(given, u)
        np.testing.assert_allclose(found, u["d"][0, 1:].sum(), rtol=1e-12)
        for x in tangents.values():
            np.testing.assert_allclose(x, 0.0, atol=1e-12)


@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize("scores", [1.0, 3000.0])
def test_a_shorter_sentence_reads_no_direction_of_a_longer_one(junk: float, scores: float) -> None:
    made, rng = weights_beside_empty_sums(), np.random.default_rng(5)
    program, lengths = Program(made), np.array([4] * 8 + [1] * 8)
    weights = {name: scores * rng.normal(size=(16, 6)) for name in ("c", "end")}
    u = {name: rng.normal(size=x.shape) for name, x in weights.items()}
    expected = u["end"][8:, 1]
    for x in u.values():
        x[:8] = junk
    found, tangents = program.tangents(Inputs(lengths, weights, {}, {}, {}), u)
    np.testing.assert_allclose(found[8:], expected)
    np.testing.assert_allclose(tangents["end"][8:], 0.0, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shared", [False, True])
def test_directions_of_forbidden_weights_do_not_matter(shared: bool) -> None:
    for page in PAGES:
        made, rng = page.make(), np.random.default_rng(6)
        given = random_sentences(page, made, LENGTHS, rng, shared=shared)
        forbidden = {name: rng.random(x.shape) < 0.3 for name, x in given.weights.items()}
        given = replace(given, weights={n: np.where(forbidden[n], -np.inf, x) for n, x in given.weights.items()})
        u = {name: rng.normal(size=x.shape) for name, x in given.weights.items()}
        expected = Program(made).tangents(given, u)
        spoilt = {name: np.where(forbidden[name], np.nan, x) for name, x in u.items()}
        found = Program(made).tangents(given, spoilt)
        np.testing.assert_array_equal(found[0], expected[0], err_msg=str(page))
        for name, x in expected[1].items():
            np.testing.assert_array_equal(found[1][name], x, err_msg=f"{name} {page}")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sentence_that_is_no_number_has_no_derivatives(bad: float) -> None:
    torch.manual_seed(1)
    scores = torch.randn(3, 5, 5, 1, dtype=torch.float64)
    scores[1, 1, 2] = bad
    scores.requires_grad_()
    worth = torch.arange(5.0, dtype=torch.float64)[:, None]
    log_z, marginals = trees(scores)._marginals()
    (gradient,) = torch.autograd.grad((marginals * worth).sum(), scores)
    assert gradient.isnan().flatten(1).any(1).tolist() == [False, True, False]
    (first,) = torch.autograd.grad(trees(scores).log_partition.sum(), scores, create_graph=True)
    (gradient,) = torch.autograd.grad((first * worth).sum(), scores)
    assert gradient.isnan().flatten(1).any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize("sharp", [1.0, 1000.0])
def test_what_follows_from_a_direction_that_is_no_number_is_none(junk: float, sharp: float) -> None:
    torch.manual_seed(1)
    scores = (sharp * torch.randn(2, 4, 4, 1, dtype=torch.float64)).requires_grad_()
    direction = torch.randn(2, 4, 4, 1, dtype=torch.float64)
    direction[0, 1, 2] = junk
    _, marginals = trees(scores)._marginals()
    (found,) = torch.autograd.grad(marginals, scores, direction)
    assert found[0].isnan().all() and found[1].isfinite().all()


def test_a_direction_of_zeros_in_single_precision() -> None:
    """It is read as float64, as all directions are."""
    table = torch.randn(2, 8, 8, 1, dtype=torch.float32).requires_grad_()
    log_z = trees(table).log_partition.sum()
    (marginals,) = torch.autograd.grad(log_z, table, create_graph=True)
    (found,) = torch.autograd.grad((marginals * 0.0).sum(), table)
    assert (found == 0).all()


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300, 1.5e308])
def test_directions_of_any_size(size: float) -> None:
    """The derivative of a covariance with one arc is as large as the direction is."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 4, 4, 1, dtype=torch.float64, generator=generator).requires_grad_()
    (gradient,) = torch.autograd.grad(trees(scores).log_partition.sum(), scores, create_graph=True)
    found = {}
    for amount in (1.0, size):
        direction = torch.zeros_like(scores)
        direction[:, 1, 2] = amount
        (found[amount],) = torch.autograd.grad(gradient, scores, direction, retain_graph=True)
    assert found[1.0].abs().max() > 0.01
    if size > 1e-300:
        torch.testing.assert_close(found[size] / size, found[1.0], rtol=1e-12, atol=1e-15)
    else:
        assert (found[size].abs() <= 2 * size).all()
