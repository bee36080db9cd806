# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective trees by compiled code and by torch, against enumeration (spanning_oracle.py) and closed forms."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from spanning_oracle import Spanning, all_spanning_trees
from torch import Tensor

from pyrogram.charts.spanning import lanes, walks
from pyrogram.charts.spanning import nonprojective as trees
from pyrogram.charts.trees import is_tree, nonprojective_trees

EXACT = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 2e-5, "atol": 2e-5}}

roots = pytest.mark.parametrize("multiroot", [False, True])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
both_engines = pytest.mark.parametrize("engine", ["torch", "compiled"])


def problem(lengths, scale=1.0, dtype=torch.float64, seed=0, forbidden=0.0):
    """Random scores of sentences, NaN where they are not to be read; a share of the arcs is forbidden."""
    generator = torch.Generator().manual_seed(seed)
    N = max(lengths) + 1
    arcs = scale * torch.randn(len(lengths), N, N, generator=generator, dtype=torch.float64)
    arcs[torch.rand(arcs.shape, generator=generator) < forbidden] = -torch.inf
    arcs[:, range(N), range(N)] = arcs[:, :, 0] = torch.nan
    for b, m in enumerate(lengths):
        arcs[b, m + 1 :] = arcs[b, :, m + 1 :] = torch.nan
    return arcs.to(dtype), torch.tensor(lengths)


def enumerations(arcs, lengths, multiroot):
    return [Spanning(arcs[b, : m + 1, : m + 1].double().numpy(), multiroot) for b, m in enumerate(lengths.tolist())]


def check(arcs, lengths, multiroot, engine, tolerance=None):
    """Log Z and all marginals of a batch, also as a gradient; zero outside the sentences."""
    tolerance = tolerance or EXACT[arcs.dtype]
    truth = enumerations(arcs, lengths, multiroot)
    expected = torch.tensor([t.log_z for t in truth], dtype=arcs.dtype)
    marginals = torch.zeros_like(arcs)
    for b, (m, t) in enumerate(zip(lengths.tolist(), truth, strict=True)):
        marginals[b, : m + 1, : m + 1] = torch.from_numpy(t.marginals)
    log_z, found = trees.marginals(arcs, lengths, multiroot=multiroot, engine=engine)
    assert log_z.dtype == found.dtype == arcs.dtype
    assert not log_z.requires_grad and not found.requires_grad
    torch.testing.assert_close(log_z, expected, **tolerance)
    torch.testing.assert_close(found, marginals, **tolerance)
    unread = arcs.isnan() | (arcs == -torch.inf)
    assert (found[unread] == 0).all() and (found >= -1e-6).all()
    torch.testing.assert_close(
        trees.log_partition(arcs, lengths, multiroot=multiroot, engine=engine), expected, **tolerance
    )
    leaf = arcs.clone().requires_grad_()
    total = trees.log_partition(leaf, lengths, multiroot=multiroot, engine=engine)
    (gradient,) = torch.autograd.grad(total[expected > -torch.inf].sum(), leaf)
    torch.testing.assert_close(gradient, marginals, **tolerance)


# Sums over all trees


@pytest.mark.one_in(20)  # no compiled sums in float32 in the fast stage: they take seconds to compile
@roots
@both_dtypes
@both_engines
@pytest.mark.parametrize("lengths", [[1, 1], [2] * 3, [3] * 9, [4] * 4, [5] * 2, [5, 1, 3, 2, 4, 3, 2, 1, 5, 4]])
def test_sums_equal_enumeration(lengths, engine, dtype, multiroot):
    check(*problem(lengths, 2.0, dtype), multiroot, engine)


@pytest.mark.one_in(8)
@roots
@both_dtypes
@both_engines
@pytest.mark.parametrize("forbidden", [0.3, 0.5, 0.7])
def test_forbidden_arcs(forbidden, engine, dtype, multiroot):
    arcs, lengths = problem([4, 3, 5, 2, 1] * 12, 1.0, dtype, seed=1, forbidden=forbidden)
    check(arcs, lengths, multiroot, engine)
    impossible = torch.tensor([t.log_z == -math.inf for t in enumerations(arcs, lengths, multiroot)])
    assert impossible.any() and not impossible.all()


@pytest.mark.one_in(8)
@roots
@both_engines
@pytest.mark.parametrize("scale", [30.0, 100.0, 300.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_scores_of_any_size(scale, forbidden, engine, multiroot):
    arcs, lengths = problem([4, 3, 5, 2, 1] * 6, scale, seed=2, forbidden=forbidden)
    check(arcs.clamp(-3 * scale, 3 * scale), lengths, multiroot, engine, {"rtol": 1e-12, "atol": 1e-10})


def cycles(gap):
    """Words 1, 2 and words 3, 4 prefer each other to all else by ``gap``; word 5 prefers ROOT."""
    arcs = torch.randn(3, 6, 6)
    for a, b in ((1, 2), (3, 4)):
        arcs[:, a, b] = arcs[:, b, a] = gap
    arcs[:, 0, 5] = gap / 2
    return arcs


@pytest.mark.one_in(2)
@roots
@both_engines
@pytest.mark.parametrize("gap", [30.0, 100.0, 300.0, 700.0, 3000.0])
def test_cycles_that_dominate(gap, engine, multiroot):
    """Determinants would cancel: Z is exp(-gap) of the product of the pivots' sums."""
    check(cycles(gap), torch.tensor([5, 5, 5]), multiroot, engine, {"rtol": 1e-12, "atol": 1e-10})


@roots
@pytest.mark.parametrize("n", [20, 60, 200])
def test_number_of_trees(n, multiroot):
    """Cayley's formula, where log Z and marginals are known; and in time by compiled code."""
    log_z, marginals = trees.marginals(torch.zeros(2, n + 1, n + 1), multiroot=multiroot)
    expected = (n - 1) * math.log(n + multiroot)
    torch.testing.assert_close(log_z, torch.full((2,), expected), rtol=1e-12, atol=0)
    of_root = 2 / (n + 1) if multiroot else 1 / n
    torch.testing.assert_close(marginals[:, 0, 1:], torch.full((2, n), of_root), rtol=1e-10, atol=0)
    torch.testing.assert_close(marginals.sum(1)[:, 1:], torch.ones(2, n), rtol=1e-10, atol=0)
    assert not np.isnan(lanes.log_counts(np.zeros((2, n + 1, n + 1)), np.array([n, n]), multiroot, False)[0]).any()


@roots
@both_dtypes
def test_long_sentences(dtype, multiroot):
    """The compiled elimination against the determinant, of scores where that can be trusted."""
    arcs, lengths = problem([40, 23, 40, 31, 7, 40, 16, 2, 1, 40], 1.0, dtype, seed=3)
    log_z, marginals = trees.marginals(arcs, lengths, multiroot=multiroot)
    for b, m in enumerate(lengths.tolist()):
        leaf = arcs[b, : m + 1, : m + 1].double().nan_to_num(-math.inf).requires_grad_()
        weights = leaf.exp()
        laplacian = weights[:, 1:].sum(0).diag() - weights[1:, 1:]
        if not multiroot:  # Koo et al. (2007), section 3.2
            laplacian = torch.cat([weights[:1, 1:], (weights[1:, 1:].sum(0).diag() - weights[1:, 1:])[1:]])
        expected = laplacian.slogdet()[1]
        (gradient,) = torch.autograd.grad(expected, leaf)
        torch.testing.assert_close(log_z[b].double(), expected.detach(), **EXACT[dtype])
        torch.testing.assert_close(marginals[b, : m + 1, : m + 1].double(), gradient, **EXACT[dtype])


@roots
def test_what_compiled_code_cannot_hold_is_known(multiroot):
    """Zeros that are none: exp(-800), alone or as a product, is less than a number can hold."""
    for where in ([(0, 1)], [(2, 1), (1, 2)], [(0, 1), (0, 2), (0, 3)], [(1, 3), (2, 3)]):
        for size in (-2000.0, -800.0, -400.0, 800.0):
            arcs = torch.zeros(1, 4, 4)
            for h, d in where:
                arcs[0, h, d] = size
            arcs[0, 3, 1] = arcs[0, 1, 3] = -torch.inf
            check(arcs, torch.tensor([3]), multiroot, None)


@roots
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_compiled_code_does_what_it_can(forbidden, dtype, multiroot):
    """Usual scores are not left to torch: padded, forbidden, without trees; nor are cycles that dominate by much."""
    arcs, lengths = problem([9, 1, 3, 2, 4, 12, 7, 3, 30, 2], 3.0, dtype, seed=10, forbidden=forbidden)
    for scores, words in ((arcs, lengths), (cycles(50.0).to(dtype), torch.tensor([5, 5, 5]))):
        log_z, _ = lanes.log_counts(scores.numpy(), words.numpy(), multiroot, counts=True)
        assert not np.isnan(log_z).any()


@roots
@both_engines
def test_nan_gives_nan(engine, multiroot):
    arcs, lengths = problem([4] * 10)
    arcs[3, 2, 1] = torch.nan
    log_z, marginals = trees.marginals(arcs, lengths, multiroot=multiroot, engine=engine)
    assert log_z.isnan().tolist() == [b == 3 for b in range(10)]
    assert not marginals[torch.arange(10) != 3].isnan().any()


# Derivatives


@roots
@both_engines
def test_derivatives_equal_finite_differences(engine, multiroot):
    arcs, lengths = problem([3, 4, 1], seed=4)
    arcs = arcs.nan_to_num(0.0).requires_grad_()

    def log_z(x):
        return trees.log_partition(x, lengths, multiroot=multiroot, engine=engine)

    def marginals(x):
        return trees.marginals(x, lengths, multiroot=multiroot, engine=engine)

    assert torch.autograd.gradcheck(log_z, arcs, fast_mode=True)
    assert torch.autograd.gradgradcheck(log_z, arcs, fast_mode=True)
    assert torch.autograd.gradcheck(marginals, arcs, fast_mode=True)


@roots
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_hessian_is_the_covariance(scale, multiroot):
    arcs, lengths = problem([4], scale, seed=5, forbidden=0.2)
    (truth,) = enumerations(arcs, lengths, multiroot)
    arcs = arcs[0].nan_to_num(-math.inf, neginf=-math.inf)

    def log_z(x):
        return trees.log_partition(x, multiroot=multiroot)

    expected = torch.from_numpy(truth.covariance())
    torch.testing.assert_close(torch.autograd.functional.hessian(log_z, arcs), expected)


@both_engines
def test_no_tree_has_no_gradient(engine):
    """Two words with no head but ROOT, a word without a head, a cycle that nothing leads into."""
    arcs = torch.randn(3, 4, 4)
    arcs[0, 1:, 1] = arcs[0, 1:, 2] = -torch.inf
    arcs[1, :, 2] = -torch.inf
    arcs[2, [0, 0, 3, 3], [1, 2, 1, 2]] = -torch.inf
    arcs.requires_grad_()
    log_z = trees.log_partition(arcs, engine=engine)
    assert (log_z == -torch.inf).all()
    (gradient,) = torch.autograd.grad(log_z.sum(), arcs, create_graph=True)
    assert (gradient == 0).all()
    several = trees.log_partition(arcs, multiroot=True, engine=engine)
    assert (several == -torch.inf).tolist() == [False, True, True]


# Draws


def pvalue(counts, probs) -> float:
    """Chi-square test of counts; trees that expect fewer than five draws are put together."""
    counts, expected = np.asarray(counts, float), sum(counts) * np.asarray(probs)
    assert (counts[expected == 0] == 0).all(), "an impossible tree was drawn"
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    if keep.sum() < 2:
        return 1.0
    return float(scipy.stats.chisquare(counts[keep], expected[keep] * counts.sum() / expected[keep].sum()).pvalue)


def frequencies(heads: Tensor, n: int, multiroot: bool):
    index = {tree: i for i, tree in enumerate(all_spanning_trees(n, multiroot))}
    return np.bincount([index[tuple(row)] for row in heads.tolist()], minlength=len(index))


DRAWN = {
    "any": lambda: problem([4] * 2, 1.5, seed=6),
    "forbidden": lambda: problem([4] * 6, 1.0, seed=7, forbidden=0.3),
    "padded": lambda: problem([4, 1, 3, 2], 1.5, seed=8),
    "a cycle": lambda: (cycles(4.0)[:, :5, :5], torch.tensor([4, 4, 4])),
    "cycles that never end": lambda: (cycles(40.0)[:2, :5, :5], torch.tensor([4, 4])),
    "cycles beyond numbers": lambda: (cycles(2000.0)[:1, :5, :5], torch.tensor([4])),
}


@pytest.mark.one_in(12)
@roots
@pytest.mark.parametrize("of", DRAWN)
@pytest.mark.parametrize("steps", [None, 3, 0])
def test_draws(of, steps, multiroot, monkeypatch):
    """Of walks, of walks that are broken off after few steps, and without walks."""
    arcs, lengths = DRAWN[of]()
    if steps is not None:
        monkeypatch.setattr(walks, "most_steps", lambda lengths: np.full_like(lengths, steps))
    truth = enumerations(arcs, lengths, multiroot)
    possible = torch.tensor([t.log_z > -math.inf for t in truth])
    arcs, lengths = arcs[possible], lengths[possible]
    S = 20_000
    heads = trees.sample(arcs, lengths, num_samples=S, multiroot=multiroot)
    for b, t in enumerate(t for t, there in zip(truth, possible, strict=True) if there):
        m = int(lengths[b])
        assert (heads[:, b, m:] == -1).all()
        assert pvalue(frequencies(heads[:, b, :m], m, multiroot), t.probs) > 1e-4


def test_draws_follow_the_generator():
    arcs = torch.randn(3, 6, 6)
    first, again, other = (
        trees.sample(arcs, num_samples=20, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert (first == again).all() and (first != other).any()


@pytest.mark.parametrize("n", [100])
@pytest.mark.parametrize("gap", [0.0, 50.0])
def test_draws_of_long_sentences(n, gap):
    """Arc by arc as often as the marginals say; and not forever, where 50 pairs of words prefer each other."""
    arcs = torch.zeros(n + 1, n + 1)
    odd = torch.arange(1, n, 2)
    arcs[odd, odd + 1] = arcs[odd + 1, odd] = gap
    S = 4 if gap else 400
    heads = trees.sample(arcs, num_samples=S)
    assert is_tree(heads, projective=False).all()
    marginals = trees.marginals(arcs)[1]
    shares = torch.stack([(heads == h).double().mean(0) for h in range(n + 1)])
    bound = 6 * (marginals * (1 - marginals) / S).sqrt() + 6 / S
    assert ((shares - marginals[:, 1:]).abs() <= bound[:, 1:]).all()


@roots
def test_what_cannot_be_drawn_is_named(multiroot):
    arcs = torch.zeros(3, 3, 3)
    arcs[1, 0] = -torch.inf
    with pytest.raises(ValueError, match="sentence 1 has no tree of positive weight to sample"):
        trees.sample(arcs, multiroot=multiroot)
    arcs[1] = torch.nan
    with pytest.raises(ValueError, match="scores of sentence 1 must be numbers, but some are NaN"):
        trees.sample(arcs, multiroot=multiroot)


# Best trees


@pytest.mark.one_in(6)
@roots
@both_dtypes
@pytest.mark.parametrize("k", [1, 2, 7, 2000])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_top_k_equals_enumeration(forbidden, k, dtype, multiroot):
    arcs, lengths = problem([5, 4, 1, 3, 2, 4] * (1 if k > 100 else 6), 2.0, dtype, seed=9, forbidden=forbidden)
    heads, scores = trees.top_k(arcs, lengths, k=k, multiroot=multiroot)
    assert heads.shape == (k, len(lengths), 5) and heads.dtype == torch.long
    assert scores.shape == (k, len(lengths)) and scores.dtype == arcs.dtype
    for b, (m, t) in enumerate(zip(lengths.tolist(), enumerations(arcs, lengths, multiroot), strict=True)):
        ranked = t.ranked()[:k]
        tolerance = EXACT[dtype]["rtol"]
        assert scores[: len(ranked), b].tolist() == pytest.approx(ranked, rel=tolerance, abs=tolerance)
        assert (scores[len(ranked) :, b] == -torch.inf).all() and (heads[len(ranked) :, b] == -1).all()
        assert (heads[:, b, m:] == -1).all()
        found = [tuple(row) for row in heads[: len(ranked), b, :m].tolist()]
        assert len(set(found)) == len(found)
        own = dict(zip(t.trees, t.scores, strict=True))
        assert [own[tree] for tree in found] == pytest.approx(ranked, rel=tolerance, abs=tolerance)


@roots
@pytest.mark.parametrize("of", ["integers", "cycles"])
def test_best_trees_of_ties_and_knots(of, multiroot):
    """Scores of few values, and words that prefer each other in circles in circles."""
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        arcs = torch.randint(3, (1, 6, 6), generator=generator).double()
        if of == "cycles":
            for size, block in ((2, 4.0), (4, 2.0)):
                for first in range(1, 5, size):
                    arcs[0, first : first + size, first : first + size] += block
        (truth,) = enumerations(arcs, torch.tensor([5]), multiroot)
        heads, scores = trees.top_k(arcs, multiroot=multiroot, k=3)
        assert scores[:, 0].tolist() == truth.ranked()[:3]
        assert len(heads.unique(dim=0)) == 3


def test_best_tree_of_a_long_sentence():
    """The best tree of n words is no worse than any of its neighbours, with one head changed."""
    arcs = torch.randn(81, 81)
    heads, score = trees.top_k(arcs)
    others = heads[0].repeat(80, 81, 1)
    for d, h in itertools.product(range(80), range(81)):
        others[d, h, d] = h
    others = others.reshape(-1, 80)
    others = others[is_tree(others, projective=False)]
    assert len(others) > 80
    assert (arcs[others, torch.arange(1, 81)].sum(-1) <= score + 1e-9).all()


# Trees


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_lists_of_trees(n, multiroot):
    found = nonprojective_trees(n, multiroot)
    assert found.tolist() == [list(tree) for tree in all_spanning_trees(n, multiroot)]
    assert len(found) == (n + multiroot) ** (n - 1)
    found.zero_()
    assert nonprojective_trees(n, multiroot).any() or n == 1


@roots
def test_what_is_a_tree(multiroot):
    vectors = torch.tensor(list(itertools.product(range(-1, 5), repeat=3)))
    expected = set(all_spanning_trees(3, multiroot))
    expected |= {(*tree, -1) for tree in all_spanning_trees(2, multiroot)} | {(0, -1, -1)}
    found = vectors[is_tree(vectors, multiroot, projective=False)]
    assert {tuple(row) for row in found.tolist()} == expected


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="arc scores must have shape"):
        trees.log_partition(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"lengths must lie in 1..3, not 4..4"):
        trees.log_partition(torch.zeros(2, 4, 4), torch.tensor([4, 4]))
