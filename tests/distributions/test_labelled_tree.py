# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about trees with labels; the rest is in tests/testing/test_battery.py."""

import pyro
import pytest
import torch
from torch.distributions import kl_divergence

from pyrogram.distributions import DependencyTree, LabelledDependencyTree, ProjectiveDependencyTree
from pyrogram.infer import collapse_trees
from pyrogram.infer.model.structure import ModelError


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"arc_scores": torch.zeros(4, 4)},
            ValueError,
            r"arc_scores must have shape \(..., n\+1, n\+1, L\), n >= 1, L >=",
        ),
        ({"arc_scores": torch.zeros(3, 4, 2)}, ValueError, r"L >= 1, not \(3, 4, 2\)"),
        ({"arc_scores": torch.zeros(4, 4, 0)}, ValueError, r"L >= 1, not \(4, 4, 0\)"),
        (
            {"arc_scores": torch.zeros(4, 4, 2).long()},
            ValueError,
            "arc_scores must be floating-point numbers, not torch.i",
        ),
        ({"arc_scores": torch.full((4, 4, 2), torch.nan)}, ValueError, "arc_scores"),
        ({"arc_scores": [0.0]}, TypeError, r"arc_scores must be a tensor, not \[0.0\]"),
        ({"lengths": 3}, TypeError, "lengths must be a tensor, not 3"),
        ({"lengths": torch.tensor(4)}, ValueError, r"lengths must lie in 1..3, not 4..4"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        LabelledDependencyTree(**({"arc_scores": torch.zeros(4, 4, 2), "validate_args": True} | arguments))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("projective", [False, True])
def test_labels_summed_out_and_maximised(projective):
    """Heads are distributed as without labels, with the log-sum-exp of their scores; the best have the greatest."""
    scores = torch.randn(2, 6, 6, 3)
    labelled = LabelledDependencyTree(scores, projective=projective)
    plain = ProjectiveDependencyTree if projective else DependencyTree
    trees = plain(scores.logsumexp(-1))
    torch.testing.assert_close(labelled.log_partition, trees.log_partition)
    torch.testing.assert_close(labelled.marginals().sum(-1), trees.marginals())
    assert (labelled.argmax()[..., 0] == plain(scores.amax(-1)).argmax()).all()
    many = labelled.sample((20_000,))
    shares = labelled.parts(many).double().mean(0)
    assert float((shares - labelled.marginals()).abs().max()) < 0.02


@pytest.mark.parametrize(("k", "labels"), [(1, 6), (40, 6), (300, 2), pytest.param(3000, 6, marks=pytest.mark.slow)])
def test_top_k_of_many_labels(k, labels):
    """More than there are trees, and more than there are labellings of one tree."""
    labelled = LabelledDependencyTree(torch.randn(2, 4, 4, labels), projective=False)
    values, log_probs = labelled.top_k(k)
    listed = labelled.log_prob(labelled.enumerate_support()).sort(0, descending=True).values
    found = min(k, len(listed))
    torch.testing.assert_close(log_probs[:found], listed[:found])
    torch.testing.assert_close(labelled.log_prob(values[:found]), log_probs[:found])
    assert all(len(values[:found, b].unique(dim=0)) == found for b in range(2))
    assert (log_probs[found:] == -torch.inf).all() and (values[found:] == -1).all()


def test_divergences():
    p, q = torch.randn(5, 5, 2), torch.randn(5, 5, 2)
    inside, outside = LabelledDependencyTree(p), LabelledDependencyTree(q, projective=False)
    listed = inside.enumerate_support()
    own = inside.log_prob(listed)
    torch.testing.assert_close(kl_divergence(inside, outside), (own.exp() * (own - outside.log_prob(listed))).sum())
    with pytest.raises(NotImplementedError, match="arcs of p may cross and those of q must not"):
        kl_divergence(outside, inside)
    with pytest.raises(NotImplementedError, match="different numbers of labels"):
        kl_divergence(inside, LabelledDependencyTree(torch.zeros(5, 5, 3)))
    with pytest.raises(NotImplementedError, match="p and q are not over trees of the same sentences"):
        kl_divergence(inside, DependencyTree(torch.zeros(5, 5)))
    q[2, 1, 1] = -torch.inf
    assert kl_divergence(inside, LabelledDependencyTree(q)) == torch.inf


def test_too_many_values_to_list():
    with pytest.raises(NotImplementedError, match="too many labels of 143 trees to enumerate; the limit is 1000000"):
        LabelledDependencyTree(torch.zeros(6, 6, 10)).enumerate_support()
    with pytest.raises(NotImplementedError, match="too many trees of 8 words"):
        LabelledDependencyTree(torch.zeros(9, 9, 1)).enumerate_support()


def test_tilted_by_heads():
    plain = LabelledDependencyTree(torch.randn(2, 4, 4, 3), projective=False)
    bonus = torch.randn(5, 1, 3, 4)
    tilted = plain.tilted(bonus)
    values = plain.enumerate_support()
    heads = values[:, 0, :, 0]
    gain = bonus[:, 0].expand(len(heads), 5, 3, 4).gather(-1, heads[:, None, :, None].expand(-1, 5, 3, 1)).sum((-2, -1))
    scores = plain.log_prob(values)[:, None] + gain[..., None]
    torch.testing.assert_close(tilted.log_prob(values[:, None]), scores - scores.logsumexp(0))


def test_latent_labels_are_not_summed_out():
    def model():
        pyro.sample("trees", LabelledDependencyTree(torch.zeros(4, 4, 2)))

    with pytest.raises(ModelError, match="collapse_trees takes dependency trees and state sequences, not the Labelled"):
        collapse_trees(model)()


def test_labels_of_the_padding():
    support = LabelledDependencyTree(torch.zeros(4, 4, 2), torch.tensor(2)).support
    assert support.check(torch.tensor([[0, 1], [1, 0], [-1, -1]]))
    assert not support.check(torch.tensor([[0, 1], [1, 0], [-1, 0]]))
    assert not support.check(torch.tensor([[0, 0.5], [1, 0], [-1, -1]]))
