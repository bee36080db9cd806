# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about trees with crossing arcs; the rest is in tests/testing/test_battery.py."""

import pyro
import pytest
import torch
from pyro.infer import Predictive
from spanning_oracle import all_spanning_trees
from torch.distributions import kl_divergence

from pyrogram.distributions import DependencyTree, DependencyTrees, ProjectiveDependencyTree, SiblingDependencyTree
from pyrogram.infer import collapse_trees, infer_trees
from pyrogram.tree_statistics import tree_statistics

CROSSING = torch.tensor([3, 4, 0, 3])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"arc_scores": torch.zeros(3)}, ValueError, r"arc_scores must have shape \(..., n\+1, n\+1\), n >= 1, not \("),
        ({"arc_scores": torch.zeros(3, 4)}, ValueError, r"arc_scores must have shape .*, not \(3, 4\)"),
        ({"arc_scores": torch.zeros(1, 1)}, ValueError, r"n >= 1, not \(1, 1\)"),
        (
            {"arc_scores": torch.zeros(4, 4).long()},
            ValueError,
            "arc_scores must be floating-point numbers, not torch.i",
        ),
        ({"arc_scores": torch.full((4, 4), torch.inf)}, ValueError, "arc_scores"),
        ({"arc_scores": torch.full((4, 4), torch.nan)}, ValueError, "arc_scores"),
        ({"arc_scores": 0.0}, TypeError, "arc_scores must be a tensor, not 0.0"),
        ({"lengths": [3]}, TypeError, r"lengths must be a tensor, not \[3\]"),
        ({"lengths": torch.tensor(4)}, ValueError, r"lengths must lie in 1..3, not 4..4"),
        ({"lengths": torch.tensor(2.0)}, ValueError, "lengths must be integers, not torch.float"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        DependencyTree(**({"arc_scores": torch.zeros(4, 4), "validate_args": True} | arguments))


def test_crossing_arcs_belong_to_the_support():
    trees = DependencyTree(torch.zeros(5, 5))
    assert trees.support.check(CROSSING)
    assert not ProjectiveDependencyTree(torch.zeros(5, 5)).support.check(CROSSING)
    assert trees.log_prob(CROSSING) == pytest.approx(-torch.tensor(64.0).log())
    two = DependencyTrees(torch.tensor(4), True, projective=False)
    assert two.check(torch.tensor([3, 0, 0, 2])) and not trees.support.check(torch.tensor([3, 0, 0, 2]))


def test_too_many_trees_to_list():
    assert len(DependencyTree(torch.zeros(7, 7)).enumerate_support()) == 6**5
    with pytest.raises(NotImplementedError, match="too many trees of 7 words to enumerate; the limit is 6"):
        DependencyTree(torch.zeros(8, 8)).enumerate_support()


@pytest.mark.parametrize("kind", ["arcs", "valences and stops", "siblings", "several roots"])
def test_divergence_of_projective_trees(kind):
    """Of any scores; what is projective is a part of what is not."""
    p = {
        "arcs": lambda: ProjectiveDependencyTree(torch.randn(5, 5)),
        "valences and stops": lambda: ProjectiveDependencyTree(torch.randn(5, 5, 2), torch.randn(5, 2, 2)),
        "siblings": lambda: SiblingDependencyTree(torch.randn(5, 5), torch.randn(5, 5, 5)),
        "several roots": lambda: ProjectiveDependencyTree(torch.randn(5, 5), multiroot=True),
    }[kind]()
    q = DependencyTree(torch.randn(3, 5, 5), multiroot=kind == "several roots")
    trees = p.enumerate_support()
    own = p.log_prob(trees)
    expected = (own.exp()[:, None] * (own[:, None] - q.log_prob(trees[:, None]))).sum(0)
    torch.testing.assert_close(kl_divergence(p, q), expected)
    forbidding = q.arc_scores.clone()
    forbidding[1, 2, 1] = -torch.inf
    forbidding[2, 0] = -torch.inf  # no tree at all
    found = kl_divergence(p, DependencyTree(forbidding, multiroot=q.multiroot))
    assert (found == torch.inf).tolist() == [False, True, True]


def test_divergences_that_are_infinite():
    plain, several = DependencyTree(torch.zeros(4, 4)), DependencyTree(torch.zeros(4, 4), multiroot=True)
    assert kl_divergence(plain, several) == pytest.approx(torch.tensor(16 / 9).log())
    with pytest.raises(NotImplementedError, match="p may have several roots and q only one"):
        kl_divergence(several, plain)
    with pytest.raises(NotImplementedError):
        kl_divergence(plain, ProjectiveDependencyTree(torch.zeros(4, 4)))


def test_low_precision_is_torchs():
    arcs = torch.randn(2, 5, 5)
    exact = DependencyTree(arcs)
    for dtype in (torch.bfloat16, torch.float16):
        rough = DependencyTree(arcs.to(dtype))
        torch.testing.assert_close(rough.log_partition.double(), exact.log_partition, rtol=0.05, atol=0.05)
        assert rough.marginals().dtype == dtype
        assert exact.support.check(rough.sample()).all() and exact.support.check(rough.argmax()).all()


def test_impossible_sentences():
    arcs = torch.zeros(2, 4, 4)
    arcs[1, 0] = -torch.inf
    trees = DependencyTree(arcs)
    assert trees.log_partition.tolist() == pytest.approx([torch.tensor(9.0).log().item(), -torch.inf])
    assert (trees.log_prob(torch.tensor([0, 1, 1])) == -torch.inf).tolist() == [False, True]
    assert (trees.argmax()[1] == -1).all() and (trees.mbr()[1] == -1).all()
    assert (trees.marginals()[1] == 0).all()
    with pytest.raises(ValueError, match="sentence 1 has no tree"):
        trees.sample()


def test_statistics_of_trees():
    trees = DependencyTree(torch.zeros(5, 5))
    found = tree_statistics(trees, torch.tensor([0, 0, 0, 0]), CROSSING)
    assert {name: float(x) for name, x in found.items()} == pytest.approx(
        {"depth": 3, "dependency_length": 5 / 3, "left_heads": 1 / 3, "mean_children": 1.5, "most_children": 2}
    )


def test_latent_trees_are_summed_out():
    """collapse_trees and infer_trees, against the list of trees."""
    scores, gain = torch.randn(4, 4), torch.randn(3, 4)

    def model():
        heads = pyro.sample("heads", DependencyTree(scores))
        pyro.factor("gain", gain.expand(*heads.shape, 4).gather(-1, heads[..., None]).sum((-2, -1)))

    listed = torch.tensor(all_spanning_trees(3, False))
    joint = DependencyTree(scores).log_prob(listed) + gain[range(3), listed].sum(-1)
    found = pyro.poutine.trace(collapse_trees(model)).get_trace().log_prob_sum()
    torch.testing.assert_close(found, joint.logsumexp(0))
    best = Predictive(infer_trees(model, temperature=0), num_samples=1)()["heads"]
    assert best.flatten().tolist() == listed[joint.argmax()].tolist()
