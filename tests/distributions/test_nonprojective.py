# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective trees beyond what all charts of trees are tested on: determinants, walks, and circles in circles."""

import itertools
import math

import numpy as np
import pytest
import torch
from test_tree_choices import check_draws
from test_tree_sums import check_sums
from tree_charts import EXACT, KINDS, cycles, dtypes, engines, problem, roots

from pyrogram.distributions import DependencyTree
from pyrogram.distributions.spanning import lanes, walks
from pyrogram.trees import is_tree

KIND = KINDS["crossing arcs"]


@pytest.mark.one_in(4)
@roots
@dtypes
def test_long_sentences(dtype, multiroot):
    """The compiled elimination against the determinant, of scores where that can be trusted."""
    tables, lengths = problem(KIND, [40, 23, 40, 31, 7, 40, 16, 2, 1, 40], seed=3)
    arcs = tables["arc"].to(dtype)
    log_z, marginals = DependencyTree(arcs, lengths, multiroot=multiroot, validate_args=False)._marginals()
    for b, m in enumerate(lengths.tolist()):
        leaf = arcs[b, : m + 1, : m + 1].double()
        leaf[range(m + 1), range(m + 1)] = leaf[:, 0] = -math.inf
        weights = leaf.requires_grad_().exp()
        laplacian = weights[:, 1:].sum(0).diag() - weights[1:, 1:]
        if not multiroot:  # Koo et al. (2007), section 3.2
            laplacian = torch.cat([weights[:1, 1:], (weights[1:, 1:].sum(0).diag() - weights[1:, 1:])[1:]])
        expected = laplacian.slogdet()[1]
        (gradient,) = torch.autograd.grad(expected, leaf)
        torch.testing.assert_close(log_z[b].double(), expected.detach(), **EXACT[dtype])
        torch.testing.assert_close(marginals[b, : m + 1, : m + 1].double(), gradient, **EXACT[dtype])


@pytest.mark.parametrize("n", [60, 200])
@roots
def test_marginals_of_equal_scores(n, multiroot):
    """By Cayley's formula; and in time, for none is left to torch."""
    marginals = DependencyTree(torch.zeros(2, n + 1, n + 1), multiroot=multiroot).marginals()
    of_root = 2 / (n + 1) if multiroot else 1 / n
    torch.testing.assert_close(marginals[:, 0, 1:], torch.full((2, n), of_root), rtol=1e-10, atol=0)
    assert not np.isnan(lanes.log_counts(np.zeros((2, n + 1, n + 1)), np.array([n, n]), multiroot, False)[0]).any()


@roots
def test_what_compiled_code_cannot_hold_is_known(multiroot):
    """Zeros that are none: exp(-800), alone or as a product, is less than a number can hold."""
    for where in ([(0, 1)], [(2, 1), (1, 2)], [(0, 1), (0, 2), (0, 3)], [(1, 3), (2, 3)]):
        for size in (-2000.0, -800.0, -400.0, 800.0):
            arcs = torch.zeros(1, 4, 4)
            for h, d in where:
                arcs[0, h, d] = size
            arcs[0, 3, 1] = arcs[0, 1, 3] = -torch.inf
            check_sums(KIND, {"arc": arcs}, torch.tensor([3]), multiroot, None)


@roots
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_compiled_code_does_what_it_can(forbidden, dtype, multiroot):
    """Usual scores are not left to torch: padded, forbidden, without trees; nor are cycles that dominate by much."""
    tables, lengths = problem(KIND, [9, 1, 3, 2, 4, 12, 7, 3, 30, 2], scale=3.0, seed=10, forbidden=forbidden)
    for scores, words in ((tables["arc"], lengths), (cycles(50.0), torch.tensor([5, 5, 5]))):
        log_z, _ = lanes.log_counts(scores.to(dtype).numpy(), words.numpy(), multiroot, counts=True)
        assert not np.isnan(log_z).any()


@roots
@engines
def test_nan_gives_nan(engine, multiroot):
    arcs = torch.randn(10, 5, 5)
    arcs[3, 2, 1] = torch.nan
    log_z, found = KIND.marginals({"arc": arcs}, None, multiroot, engine)
    assert log_z.isnan().tolist() == [b == 3 for b in range(10)]
    assert not found["arc"][torch.arange(10) != 3].isnan().any()


@engines
def test_words_that_no_tree_has(engine):
    """Two words with no head but ROOT, a word without a head, a cycle that nothing leads into."""
    arcs = torch.randn(3, 4, 4)
    arcs[0, 1:, 1] = arcs[0, 1:, 2] = -torch.inf
    arcs[1, :, 2] = -torch.inf
    arcs[2, [0, 0, 3, 3], [1, 2, 1, 2]] = -torch.inf
    for multiroot in (False, True):
        found = check_sums(KIND, {"arc": arcs}, torch.tensor([3, 3, 3]), multiroot, engine)
        assert np.isinf(found).tolist() == [not multiroot, True, True]


DRAWN = {
    "any": lambda: problem(KIND, [4] * 2, scale=1.5, seed=6),
    "forbidden": lambda: problem(KIND, [4] * 6, seed=7, forbidden=0.3),
    "padded": lambda: problem(KIND, [4, 1, 3, 2], scale=1.5, seed=8),
    "a cycle": lambda: ({"arc": cycles(4.0)[:, :5, :5]}, torch.tensor([4, 4, 4])),
    "cycles that never end": lambda: ({"arc": cycles(40.0)[:2, :5, :5]}, torch.tensor([4, 4])),
    "cycles beyond numbers": lambda: ({"arc": cycles(2000.0)[:1, :5, :5]}, torch.tensor([4])),
}


@pytest.mark.one_in(12)
@roots
@pytest.mark.parametrize("of", DRAWN)
@pytest.mark.parametrize("steps", [None, 3, 0])
def test_draws(of, steps, multiroot, monkeypatch):
    """Of walks, of walks that are broken off after few steps, and without walks."""
    if steps is not None:
        monkeypatch.setattr(walks, "most_steps", lambda lengths: np.full_like(lengths, steps))
    check_draws(KIND, *DRAWN[of](), multiroot, number=20_000)


def test_draws_of_words_that_prefer_each_other():
    """50 pairs of them: not forever."""
    arcs, odd = torch.zeros(101, 101), torch.arange(1, 100, 2)
    arcs[odd, odd + 1] = arcs[odd + 1, odd] = 50.0
    assert is_tree(DependencyTree(arcs).sample((4,)), projective=False).all()


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
        (truth,) = KIND.truth({"arc": arcs}, torch.tensor([5]), multiroot)
        heads, scores = DependencyTree(arcs, multiroot=multiroot)._top_k(3)
        assert scores[:, 0].tolist() == truth.ranked()[:3]
        assert len(heads.unique(dim=0)) == 3


def test_best_tree_of_a_long_sentence():
    """The best tree of n words is no worse than any of its neighbours, with one head changed."""
    arcs = torch.randn(81, 81)
    heads, score = DependencyTree(arcs)._top_k(1)
    others = heads[0].repeat(80, 81, 1)
    for d, h in itertools.product(range(80), range(81)):
        others[d, h, d] = h
    others = others.reshape(-1, 80)
    others = others[is_tree(others, projective=False)]
    assert len(others) > 80
    assert (arcs[others, torch.arange(1, 81)].sum(-1) <= score + 1e-9).all()
