# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tensors on a device with kernels, which here is the CPU in disguise: sums, derivatives, draws, best derivations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import oracle
import pytest
import torch
from fake_device import kernels_on, launched

from pyrogram import DMV
from pyrogram.distributions import ProjectiveDependencyTree, StateSequence
from pyrogram.grammars import dmv
from pyrogram.recursion.run import on_tensors
from pyrogram.recursion.run.launching import Launcher

ARRAYS = on_tensors.TensorInputs.arrays


@pytest.fixture(autouse=True)
def nan_in_fresh_memory() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """A device for whatever is on the CPU, which compiled code never sees."""
    launcher = kernels_on("cpu", monkeypatch)
    monkeypatch.setattr(on_tensors.TensorInputs, "arrays", None)
    return launcher


def scores(lengths: list[int], spread: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n = max(lengths)
    arcs, stops = torch.randn(len(lengths), n + 1, n + 1, 2), torch.randn(len(lengths), n + 1, 2, 2)
    return spread * arcs, spread * stops, torch.tensor(lengths)


def trees(
    arcs: torch.Tensor, stops: torch.Tensor | None, lengths: torch.Tensor | None = None
) -> ProjectiveDependencyTree:
    return ProjectiveDependencyTree(arcs, stops, lengths, valence=True, validate_args=False)


def enumerated(arcs: torch.Tensor, stops: torch.Tensor, lengths: torch.Tensor) -> list[oracle.Enumeration]:
    return [
        oracle.Enumeration(a[: n + 1, : n + 1].detach().numpy(), s[: n + 1].detach().numpy(), False)
        for a, s, n in zip(arcs, stops, lengths.tolist(), strict=True)
    ]


def compare_with_enumeration(
    found: tuple[torch.Tensor, ...], truth: list[oracle.Enumeration], tolerance: float
) -> None:
    log_z, by_arcs, by_stops = found
    for b, one in enumerate(truth):
        n = len(one.arc_marginals)
        assert float(log_z[b]) == pytest.approx(one.log_z, rel=tolerance, abs=tolerance)
        for table, expected in ((by_arcs[b], one.arc_marginals), (by_stops[b], one.stop_marginals)):
            np.testing.assert_allclose(
                table[:n].reshape(n, -1, 2)[:, : expected.shape[1]], expected, atol=50 * tolerance
            )
        assert float(by_arcs[b].sum()) == pytest.approx(n - 1, abs=50 * tolerance)  # nothing beyond the sentence


def test_sums_and_first_derivatives_are_by_kernels(device: Launcher) -> None:
    arcs, stops, lengths = scores([3, 1, 5, 4, 2, 2])
    truth = enumerated(arcs, stops, lengths)
    compare_with_enumeration(trees(arcs, stops, lengths)._marginals(), truth, 1e-12)
    arcs.requires_grad_(), stops.requires_grad_()
    log_z = trees(arcs, stops, lengths).log_partition
    weights = torch.rand(6)
    by_arcs, by_stops = torch.autograd.grad(log_z @ weights, (arcs, stops))
    for b, one in enumerate(truth):
        n = len(one.arc_marginals)
        np.testing.assert_allclose(by_arcs[b, :n, :n], float(weights[b]) * one.arc_marginals, atol=1e-12)
        np.testing.assert_allclose(by_stops[b, :n], float(weights[b]) * one.stop_marginals, atol=1e-12)
    assert launched(device) == ["lanes", "lanes"]
    with torch.no_grad():  # without adjoints
        np.testing.assert_allclose(trees(arcs, stops, lengths).log_partition, log_z.detach(), rtol=1e-14)


def test_second_derivatives_are_by_torch(device: Launcher, fast_mode: bool) -> None:
    arcs, stops, lengths = scores([2])
    arcs.requires_grad_(), stops.requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda a, s: trees(a, s, lengths).log_partition, (arcs, stops), fast_mode=fast_mode
    )
    assert set(launched(device)) == {"lanes"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scores_that_are_far_apart(device: Launcher, dtype: torch.dtype) -> None:
    """They take exponents, which the complete kernel has."""
    arcs, stops, lengths = scores([4, 5, 3, 2])
    arcs[1:3] *= 900.0 if dtype == torch.float64 else 120.0
    arcs, stops = arcs.to(dtype), stops.to(dtype)
    truth = enumerated(arcs.double(), stops.double(), lengths)
    compare_with_enumeration(trees(arcs, stops, lengths)._marginals(), truth, 1e-12 if dtype == torch.float64 else 2e-5)
    assert launched(device) == ["lanes", "lanes"]


def test_sentences_without_derivations_and_with_nan(device: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    arcs, _, lengths = scores([3, 3, 2, 3])
    arcs[0, :, 2] = -torch.inf  # the second word has no head
    arcs[1, 1, 2] = torch.nan
    log_z, by_arcs = trees(arcs[..., :1], None, lengths)._marginals()
    assert log_z[0] == -torch.inf and by_arcs[0].eq(0).all()
    assert log_z[1].isnan() and by_arcs[1].isnan().any()
    assert log_z[2:].isfinite().all() and by_arcs[2:].isfinite().all()
    monkeypatch.setattr(on_tensors.TensorInputs, "arrays", ARRAYS)
    with pytest.raises(ValueError, match="scores of sentence 1 must be numbers"):
        trees(arcs[1:, ..., :1].flip(0)[1:], None, lengths[1:].flip(0)[1:]).sample()


def test_tables_that_sentences_share_have_summed_counts(device: Launcher) -> None:
    """The DMV: log weights by words, one table for all sentences."""
    V, words = 3, torch.tensor([[0, 2, 1, 1], [2, 2, -1, -1], [1, 0, 2, -1]])
    lengths = (words >= 0).sum(1)
    root, attach = torch.randn(V).log_softmax(-1), torch.randn(V, 2, V).log_softmax(-1)
    stop = torch.randn(V, 2, 2, 2).log_softmax(-1)
    tables = {"root": root[None], "attach": attach[None], "stop": stop[None]}
    given = on_tensors.TensorInputs(tables, lengths, {"w": words}, {"V": V}, {})
    log_z, counts = dmv.program(valence_attach=False).marginals(given)
    arcs, stops = DMV(V).scores({"root": root, "attach": attach, "stop": stop}, words)
    truth = enumerated(arcs, stops, lengths)
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-12)
    expected = torch.zeros(V)
    for sentence, one in zip(words, truth, strict=True):
        for position in range(1, len(one.arc_marginals)):
            expected[sentence[position - 1]] += float(one.arc_marginals[0, position].sum())
    np.testing.assert_allclose(counts["root"][0], expected, atol=1e-12)
    assert float(counts["attach"].sum()) == pytest.approx(float((lengths - 1).sum()), rel=1e-12)
    np.testing.assert_allclose(counts["stop"][0, ..., 1].sum((-1, -2)), 2 * np.bincount(words[words >= 0]), rtol=1e-12)
    assert launched(device) == ["lanes"]


def test_numbers_that_sentences_share_may_be_of_any_size(device: Launcher) -> None:
    """They are exponentiated where they are near one; else all weights are logarithms."""
    words = torch.tensor([[0, 2, 1, 1], [2, 2, -1, -1]])
    initial, emission = torch.randn(2).log_softmax(-1), torch.randn(2, 3).log_softmax(-1)
    for spread in (1.0, 1000.0):
        transition = spread * torch.tensor([[1.0, -1.0, -0.5], [-2.0, 1.5, -1.0]])
        tables = initial[None], transition[None], emission[None]
        states = StateSequence(*tables, words)
        expected = states._program.log_partition(states._tensor_inputs(words.shape[:1]), by_torch=True)
        torch.testing.assert_close(states.log_partition, expected, rtol=1e-11, atol=1e-11)
    assert {*launched(device)} == {"lanes"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_best_trees_are_those_of_enumeration(device: Launcher, dtype: torch.dtype) -> None:
    arcs, stops, lengths = scores([3, 1, 5, 4, 2])
    arcs, stops = arcs.to(dtype), stops.to(dtype)
    heads, found = trees(arcs, stops, lengths)._top_k(1)
    truth = enumerated(arcs.double(), stops.double(), lengths)
    for b, (n, one) in enumerate(zip(lengths.tolist(), truth, strict=True)):
        best = max(range(len(one.trees)), key=one.scores.__getitem__)
        assert float(found[0, b]) == pytest.approx(one.scores[best], rel=1e-13 if dtype == torch.float64 else 1e-6)
        assert heads[0, b].tolist() == [*one.trees[best], *[-1] * (5 - n)]
    assert launched(device) == ["best"]


def test_draws_have_the_probabilities_of_enumeration(device: Launcher) -> None:
    """Pearson's statistic of 4,000 trees of each sentence."""
    arcs, stops, lengths = scores([3, 2, 4, 3])
    number = 4000
    heads = trees(arcs, stops, lengths)._sample(number)
    for b, (n, one) in enumerate(zip(lengths.tolist(), enumerated(arcs, stops, lengths), strict=True)):
        assert heads[:, b, n:].eq(-1).all()
        drawn = [tuple(row) for row in heads[:, b, :n].tolist()]
        expected = number * np.array(one.probs)
        seen = np.array([drawn.count(tree) for tree in one.trees])
        assert seen.sum() == number
        kept = expected > 1.0
        statistic = float(((seen - expected)[kept] ** 2 / expected[kept]).sum())
        assert statistic < kept.sum() + 5.0 * np.sqrt(2.0 * kept.sum())
    assert launched(device) == ["draw"]
