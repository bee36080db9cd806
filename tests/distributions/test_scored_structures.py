# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Structures of scored parts, beyond the battery: large scores, long sentences, no structure, messages.

The battery (tests/testing) has the rest: it holds everything against lists of all structures.
"""

import itertools
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


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def given(d: Any) -> list[Tensor]:
    """The scores, as they were given."""
    return [d._as_given(x, name) for name, x in d._scores.items()]


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
    assert not any(g.isnan().any() for g in torch.autograd.grad(d.entropy(), list(d._tables.values())))


@pytest.mark.one_in(36)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sentences_by_both_engines(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    d = MAKE[kind](40, 2.0)
    wide = {name: x.detach().to(dtype).requires_grad_() for name, x in d._wide(torch.Size([1])).items()}
    on = d._given(wide)
    log_z = [d._program.log_partition(on, by_torch=by_torch) for by_torch in (False, True)]
    assert torch.allclose(*log_z, rtol=1e-5 if dtype == torch.float32 else 1e-12)
    gradients = [torch.autograd.grad(z.sum(), list(wide.values()), retain_graph=True) for z in log_z]
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=2e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", MAKE)
def test_second_derivatives(kind: str, fast_mode: bool) -> None:
    torch.manual_seed(2)
    d = MAKE[kind](3, 1.0)

    def log_z(*tables: Tensor) -> Tensor:
        named = dict(zip(d._scores, tables, strict=True))
        return d._program.log_partition(
            d._given({name: x[None] for name, x in named.items()}, lengths=torch.tensor([3]))
        )

    assert torch.autograd.gradgradcheck(
        log_z, tuple(x.detach().requires_grad_() for x in d._scores.values()), fast_mode=fast_mode
    )


@pytest.mark.one_in(10)
@pytest.mark.parametrize("kind", MAKE)
def test_no_structure_is_possible(kind: str) -> None:
    d = MAKE[kind](3, 1.0)
    tables = [x.detach().clone() for x in given(d)]
    tables[0][...] = -torch.inf
    options: dict[str, Any] = {"binary": False, "labelled": True} if kind == "spans with labels" else {}
    none = type(d)(*tables, **options)
    assert none.log_partition == -torch.inf and none.entropy() == 0
    assert all(bool((c == 0).all()) for c in none.expected_counts().values())
    assert bool((none.argmax() == -1).all()) and bool((none.mbr() == -1).all())
    found, log_probs = none.top_k(2)
    assert bool((found == -1).all()) and bool((log_probs == -torch.inf).all())
    assert kl_divergence(d, none) == torch.inf
    with pytest.raises(ValueError, match="sentence 0 has no"):
        none.sample()


def test_the_k_best_with_labels_are_those_of_all() -> None:
    torch.manual_seed(3)
    d = SpanTree(torch.randn(3, 4, 3), labelled=True)
    values = d.enumerate_support()
    log_probs = d.log_prob(values)
    order = log_probs.argsort(descending=True)
    for k in (1, 2, 7, len(values), len(values) + 5):
        found, best = d.top_k(k)
        m = min(k, len(values))
        assert torch.allclose(best[:m], log_probs[order[:m]], atol=1e-5)
        assert torch.equal(found[:m], values[order[:m]])
        assert bool((best[m:] == -torch.inf).all()) and bool((found[m:] == -1).all())


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


def test_what_is_not_read() -> None:
    """Spans that end before they begin, segments beyond the sentence, and states that cannot come before a word."""
    torch.manual_seed(4)
    scores = torch.randn(3, 4)
    junk = scores.clone()
    junk.tril_()
    assert torch.equal(SpanTree(scores).log_partition, SpanTree(torch.where(junk != 0, 1e30, scores)).log_partition)
    cuts = torch.randn(3, 3)
    beyond = torch.arange(3)[:, None] + torch.arange(3) >= 3
    assert torch.equal(Segmentation(cuts).log_partition, Segmentation(cuts.where(~beyond, 1e30)).log_partition)
    chain = torch.randn(4, 3, 3, 2)
    other = chain.clone()
    other[0, :2] = other[0, :, :2] = other[1, :2] = other[2:, 2] = other[2:, :, 2] = 1e30
    assert torch.equal(HigherOrderChain(chain).log_partition, HigherOrderChain(other).log_partition)


@pytest.mark.parametrize("junk", [1e3, 1e30, -math.inf])
def test_padding_is_not_read(junk: float) -> None:
    """Neither by sums, nor by gradients, nor by the best structures."""
    lengths, n = torch.tensor([4, 1, 3]), 4
    inside = torch.arange(n) < lengths[:, None]
    spans, cuts, states = random(3, n, n + 1), random(3, n, 3, 2), random(3, n, 4)
    ends = torch.arange(1, n + 1)[:, None] + torch.arange(3) <= lengths[:, None, None]
    real = (torch.arange(n)[:, None] < torch.arange(n + 1)) & (torch.arange(n + 1) <= lengths[:, None, None])
    for make, table, read in (
        (lambda x: SpanTree(x, lengths, labelled=False, validate_args=False), spans, real),
        (lambda x: SpanTree(x, lengths, labelled=False, binary=False, validate_args=False), spans, real),
        (lambda x: Segmentation(x, lengths=lengths, labelled=True, validate_args=False), cuts, ends[..., None]),
        (lambda x: HigherOrderChain(x, random(5, 4), lengths, order=1, validate_args=False), states, inside[..., None]),
    ):
        clean, spoilt = make(table), make(torch.where(read, table, junk))
        torch.testing.assert_close(clean.log_partition, spoilt.log_partition)
        torch.testing.assert_close(clean.marginals(), spoilt.marginals())
        torch.testing.assert_close(clean.entropy(), spoilt.entropy())
        for ours, theirs in zip(clean.top_k(3), spoilt.top_k(3), strict=True):
            torch.testing.assert_close(ours, theirs)
        assert clean.support.check(spoilt.sample((5,))).all() and torch.equal(clean.mbr(), spoilt.mbr())
        leaf = torch.where(read, table, junk).requires_grad_()
        (gradient,) = torch.autograd.grad(make(leaf).log_partition.sum(), leaf)
        assert (gradient.where(~read, torch.zeros(())) == 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpanTree(torch.zeros(3, 3)), r"scores must have shape \(..., n, n\+1\) or \(..., n, n\+1, L\)"),
        (lambda: SpanTree(torch.zeros(3, 4, 5)), "say labelled=True or labelled=False"),
        (lambda: SpanTree(torch.zeros(3, 4), labelled=True), r"must have shape \(..., n, n\+1, L\)"),
        (lambda: SpanTree(torch.zeros(3, 4).long()), "must be floating-point numbers, not torch.int64"),
        (lambda: SpanTree(torch.full((3, 4), math.nan), validate_args=True), "some are NaN"),
        (lambda: SpanTree(torch.zeros(3, 4), torch.tensor([4])), r"lengths must be integers in 1..3"),
        (lambda: SpanTree(torch.zeros(3, 4), torch.tensor([1.0])), r"lengths must be integers in 1..3"),
        (lambda: Segmentation(torch.zeros(3)), r"scores must have shape \(..., n, W\)"),
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
            lambda: SpanTree(torch.zeros(2, 3, 4), torch.tensor([1, 3]), labelled=False).enumerate_support(),
            "different lengths have no common support",
        ),
        (
            lambda: kl_divergence(SpanTree(torch.zeros(3, 4)), SpanTree(torch.zeros(3, 4), binary=False)),
            "structures of different kinds",
        ),
        (
            lambda: kl_divergence(SpanTree(torch.zeros(3, 4)), SpanTree(torch.zeros(3, 4), torch.tensor(2))),
            "structures of different lengths",
        ),
        (lambda: Segmentation(torch.zeros(3, 2)).log_prob(torch.zeros(3, 2)), "within the support"),
    ],
)
def test_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=message):
        make()


def test_pairs_of_labels_are_those_of_neighbours() -> None:
    """Log probabilities by hand."""
    torch.manual_seed(5)
    scores, pairs = torch.randn(4, 2, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)
    d = Segmentation(scores, pairs)
    value = torch.full((4, 2), -1)
    value[0, 0], value[1, 1], value[3, 0] = 1, 0, 1
    by_hand = scores[0, 0, 1] + scores[1, 1, 0] + scores[3, 0, 1] + pairs[1, 0] + pairs[0, 1]
    assert (d.log_prob(value) + d.log_partition).item() == pytest.approx(by_hand.item())
    assert list(itertools.chain(*d.counts(value)["transition"].tolist())) == [0, 1, 1, 0]


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
