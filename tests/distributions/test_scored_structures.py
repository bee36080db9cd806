# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Structures of scored parts, beyond the battery: large scores, long sentences, no structure, messages.

The battery (tests/testing) has the rest: it holds everything against lists of all structures.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions import HigherOrderChain, Segmentation, SpanTree

MAKE: dict[str, Callable[..., Any]] = {
    "spans": lambda n, scale: SpanTree(scale * torch.randn(n, n + 1, dtype=torch.float64).requires_grad_()),
    "spans with labels": lambda n, scale: SpanTree(
        scale * torch.randn(n, n + 1, 2, dtype=torch.float64).requires_grad_(), binary=False, labelled=True
    ),
    "segments": lambda n, scale: Segmentation(scale * torch.randn(n, 3, dtype=torch.float64).requires_grad_()),
    "segments with pairs of labels": lambda n, scale: Segmentation(
        scale * torch.randn(n, 3, 2, dtype=torch.float64).requires_grad_(),
        scale * torch.randn(2, 2, dtype=torch.float64).requires_grad_(),
    ),
    "chain of order two": lambda n, scale: HigherOrderChain(
        scale * torch.randn(n, 3, 3, 2, dtype=torch.float64).requires_grad_()
    ),
    "chain alike at all words": lambda n, scale: HigherOrderChain(
        scale * torch.randn(n, 2, dtype=torch.float64).requires_grad_(),
        scale * torch.randn(3, 3, 2, dtype=torch.float64).requires_grad_(),
    ),
}


def given(d: Any) -> list[Tensor]:
    """The scores, as they were given."""
    return [*d._scores.values()]


@pytest.mark.one_in(22)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_large_scores(kind: str, scale: float) -> None:
    """Log Z and marginals from the list of all structures, with scores that no real number is the exponential of."""
    torch.manual_seed(0)
    d = MAKE[kind](4, scale)
    values = d.enumerate_support()
    scores = torch.stack(
        [(c * x).flatten(1).sum(-1) for c, x in zip(d.counts(values).values(), given(d), strict=True)]
    ).sum(0)
    assert d.log_partition.item() == pytest.approx(scores.logsumexp(0).item(), rel=1e-12)
    expected = torch.tensordot(scores.softmax(0).detach(), d.parts(values).double(), 1)
    assert torch.allclose(d.marginals().detach(), expected, atol=1e-9)
    assert torch.equal(d.argmax(), values[scores.argmax()])
    assert not any(g.isnan().any() for g in torch.autograd.grad(d.entropy(), given(d)))


@pytest.mark.one_in(36)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sentences_by_both_engines(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    d = MAKE[kind](40, 2.0)
    wide = {name: x.detach().to(dtype).requires_grad_() for name, x in d._flat(torch.Size([1])).items()}
    on = d._weighted(wide, d._flat_lengths(torch.Size([1])))
    log_z = [d._program.log_partition(on, by_torch=by_torch) for by_torch in (False, True)]
    assert torch.allclose(*log_z, rtol=1e-5 if dtype == torch.float32 else 1e-12)
    gradients = [torch.autograd.grad(z.sum(), list(wide.values()), retain_graph=True) for z in log_z]
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=2e-4 if dtype == torch.float32 else 1e-10)


def test_numbers_of_structures() -> None:
    """Catalan and little Schröder numbers; segmentations into at most two words are Fibonacci numbers."""
    catalan = [math.comb(2 * n, n) // (n + 1) for n in range(9)]
    schroeder = [1, 1, 3, 11, 45, 197, 903, 4279]  # A001003
    fibonacci = [1, 2, 3, 5, 8, 13, 21, 34]
    for n in range(1, 9):
        binary, nary = SpanTree(torch.zeros(n, n + 1)), SpanTree(torch.zeros(n, n + 1), binary=False)
        assert binary.log_partition.exp().item() == pytest.approx(catalan[n - 1], rel=1e-5)
        assert nary.log_partition.exp().item() == pytest.approx(schroeder[n - 1], rel=1e-5)
        assert Segmentation(torch.zeros(n, 2)).log_partition.exp().item() == pytest.approx(fibonacci[n - 1], rel=1e-5)
        chain = HigherOrderChain(torch.zeros(n, 4, 4, 4, 3), order=3)
        assert chain.log_partition.item() == pytest.approx(n * math.log(3), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpanTree(torch.zeros(3, 3)), r"scores must have shape \(..., n, n\+1\) or \(..., n, n\+1, L\)"),
        (lambda: SpanTree(torch.zeros(3, 4, 5)), "say labelled=True or labelled=False"),
        (lambda: SpanTree(torch.zeros(3, 4), labelled=True), r"must have shape \(..., n, n\+1, L\)"),
        (
            lambda: Segmentation(torch.zeros(3, 2, 2), torch.zeros(3, 3)),
            r"transition_scores must have shape \(..., 2, 2\)",
        ),
        (lambda: Segmentation(torch.zeros(3, 2, 2), torch.zeros(2, 2).half()), "transition scores are torch.float16"),
        (lambda: Segmentation(torch.zeros(0, 2)), "none of them 0"),
        (lambda: HigherOrderChain(torch.zeros(3, 2, 2)), r"order 2 must have shape \(..., n, K\+1, K\+1, K\)"),
        (
            lambda: HigherOrderChain(torch.zeros(3, 2), torch.zeros(3, 2)),
            r"transition_scores of order 2 must",
        ),
        (lambda: HigherOrderChain(torch.zeros(0, 2), torch.zeros(3, 3, 2)), r"scores of order 2 must have shape"),
        (lambda: HigherOrderChain(torch.zeros(3, 3, 2), order=0), "order must be at least 1, not 0"),
        (lambda: SpanTree(torch.zeros(12, 13)).enumerate_support(), "too many structures to enumerate, about 5.88e"),
        (
            lambda: kl_divergence(SpanTree(torch.zeros(3, 4)), SpanTree(torch.zeros(3, 4), binary=False)),
            "structures of different kinds",
        ),
        (lambda: Segmentation(torch.zeros(3, 2)).log_prob(torch.zeros(3, 2)), "within the support"),
    ],
)
def test_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=message):
        make()


def test_what_is_lost_on_the_way_and_comes_back() -> None:
    """A span of e^-720 is no number; larger ones bring its tree back beside another one that is as probable."""
    scores = torch.full((4, 5), -torch.inf, dtype=torch.float64)
    scores[range(4), range(1, 5)] = 0.0
    scores[0, 4] = scores[0, 3] = 60.0
    scores[0, 2] = -720.0  # ((1 2) 3) 4: -600
    scores[2, 4], scores[1, 4] = 0.0, -660.0  # 1 (2 (3 4)): -600
    assert SpanTree(scores).log_partition.item() == pytest.approx(-600 + math.log(2), abs=1e-9)
    many = SpanTree(torch.stack([scores, torch.zeros(4, 5, dtype=torch.float64)])).log_partition
    assert many.tolist() == pytest.approx([-600 + math.log(2), math.log(5)], abs=1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scale", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_z_alone_is_that_with_its_gradient(scale: float, dtype: torch.dtype) -> None:
    """Scores above zero, of sentences of several lengths: by the bound of log Z alone, or without it."""
    for n in (3, 12, 40):
        generator = torch.Generator().manual_seed(n)
        lengths = torch.randint(1, n + 1, (20,), generator=generator)
        tables = [scale * torch.randn(20, n, k, generator=generator, dtype=dtype) for k in (n + 1, 4, 3)]
        pairs = scale * torch.randn(4, 3, generator=generator, dtype=dtype)
        makes = (
            lambda x, m=lengths: SpanTree(x, m, labelled=False),
            lambda x, m=lengths: Segmentation(x, lengths=m),
            lambda x, m=lengths, pairs=pairs: HigherOrderChain(x, pairs.to(x), m, order=1),
        )
        for make, table in zip(makes, tables, strict=True):
            alone = make(table).log_partition
            torch.testing.assert_close(alone, make(table.requires_grad_()).log_partition.detach(), rtol=1e-5, atol=1e-4)
            exact = make(table.detach().double()).log_partition
            torch.testing.assert_close(alone.double(), exact, rtol=1e-5, atol=1e-4)
