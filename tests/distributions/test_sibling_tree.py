# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about second-order trees; the rest is in tests/testing/test_battery.py."""

import pyro
import pytest
import torch
from oracle import all_trees
from pyro.infer import SVI, TraceEnum_ELBO, config_enumerate
from sibling_oracle import Enumeration, events
from torch.distributions import kl_divergence

from pyrogram.charts.sibling_trees import last_children, siblings_of
from pyrogram.distributions import ProjectiveDependencyTree, SiblingDependencyTree


def zeros(n, *batch):
    return torch.zeros(*batch, n + 1, n + 1), torch.zeros(*batch, n + 1, n + 1, n + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arc_scores": torch.zeros(3)}, r"arc_scores must have shape \(..., n\+1, n\+1\), n >= 1, not \(3,\)"),
        ({"arc_scores": torch.zeros(3, 4)}, r"arc_scores must have shape .*, not \(3, 4\)"),
        ({"arc_scores": torch.zeros(1, 1)}, r"n >= 1, not \(1, 1\)"),
        ({"arc_scores": torch.zeros(4, 4).long()}, r"arc_scores must be floating-point numbers, not torch.int64"),
        ({"sibling_scores": torch.zeros(4, 4)}, r"sibling_scores must have shape \(..., 4, 4, 4\), not \(4, 4\)"),
        ({"sibling_scores": torch.zeros(4, 4, 4).float()}, "sibling_scores are torch.float32 but arc_scores are torch"),
        ({"sibling_scores": torch.full((4, 4, 4), torch.inf).double()}, r"sibling_scores must be real numbers or -inf"),
        ({"stop_scores": torch.zeros(4, 2, 2)}, r"stop_scores must have shape \(..., 4, 2, 4\), not \(4, 2, 2\)"),
        ({"stop_scores": torch.full((4, 2, 4), torch.nan).double()}, "stop_scores must be real numbers or -inf"),
        ({"lengths": torch.tensor(4)}, r"lengths must lie in 1..3, not 4..4"),
        ({"lengths": torch.tensor(2.0)}, "lengths must be integers, not torch.float"),
        ({"arc_scores": torch.full((4, 4), torch.nan).double()}, "Expected parameter arc_scores"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    arcs, siblings = zeros(3)
    with pytest.raises(ValueError, match=message):
        SiblingDependencyTree(**({"arc_scores": arcs, "sibling_scores": siblings} | arguments), validate_args=True)


def test_what_cannot_be_done_says_so():
    with pytest.raises(NotImplementedError, match="too many trees of 8 words to enumerate; the limit is 7"):
        SiblingDependencyTree(*zeros(8)).enumerate_support()
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        SiblingDependencyTree(*zeros(3)).top_k(0)
    plain, stopping = SiblingDependencyTree(*zeros(3)), SiblingDependencyTree(*zeros(3), torch.zeros(4, 2, 4))
    with pytest.raises(NotImplementedError, match="give both, zeros will do"):
        kl_divergence(plain, stopping)
    with pytest.raises(NotImplementedError, match="not over trees of the same sentences"):
        kl_divergence(plain, SiblingDependencyTree(*zeros(4)))
    with pytest.raises(NotImplementedError, match="several roots"):
        kl_divergence(SiblingDependencyTree(*zeros(3), multiroot=True), plain)
    with pytest.raises(NotImplementedError):  # first and second order have different scores
        kl_divergence(plain, ProjectiveDependencyTree(zeros(3)[0]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("multiroot", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_siblings_and_last_children_of_all_trees(n, multiroot):
    trees = all_trees(n, multiroot)
    padded = torch.nn.functional.pad(torch.tensor(trees), (0, 2), value=-1)
    siblings, last = siblings_of(padded), last_children(padded)
    for t, heads in enumerate(trees):
        arcs, stops = events(heads)
        assert all(siblings[t, c - 1] == r for _, c, r in arcs)
        assert all(last[t, h, d] == c for h, d, c in stops)


def test_results_agree_with_the_oracle_in_a_larger_case():
    arcs, siblings, stops = torch.randn(6, 6), torch.randn(6, 6, 6), torch.randn(6, 2, 6)
    truth = Enumeration(arcs.numpy(), siblings.numpy(), stops.numpy(), False)
    d = SiblingDependencyTree(arcs, siblings, stops)
    torch.testing.assert_close(d.log_partition, torch.tensor(truth.log_z))
    torch.testing.assert_close(d.entropy(), torch.tensor(truth.entropy()))
    torch.testing.assert_close(d.top_k(9)[1] + d.log_partition, torch.tensor(truth.ranked()[:9]))
    for found, expected in zip(d.expected_counts().values(), truth.marginals, strict=True):
        torch.testing.assert_close(found, torch.from_numpy(expected))


def test_without_sibling_scores_it_is_the_first_order_tree():
    arcs, lengths = torch.randn(3, 9, 9), torch.tensor([8, 5, 1])
    second = SiblingDependencyTree(arcs, zeros(8)[1], lengths=lengths)
    first = ProjectiveDependencyTree(arcs, lengths=lengths)
    torch.testing.assert_close(second.log_partition, first.log_partition)
    torch.testing.assert_close(second.marginals(), first.marginals())
    torch.testing.assert_close(second.entropy(), first.entropy())
    assert (second.argmax() == first.argmax()).all() and (second.mbr() == first.mbr()).all()
    trees = second.sample((20,))
    torch.testing.assert_close(second.log_prob(trees), first.log_prob(trees))


def test_no_tree_at_all():
    arcs, siblings = zeros(2, 2)
    hopeless = SiblingDependencyTree(torch.full_like(arcs, -torch.inf), siblings, lengths=torch.tensor([2, 1]))
    assert (hopeless.log_partition == -torch.inf).all()
    assert (hopeless.log_prob(torch.tensor([[0, 1], [0, -1]])) == -torch.inf).all()
    assert (hopeless.marginals() == 0).all() and (hopeless.mbr() == -1).all() and (hopeless.top_k(1)[0] == -1).all()
    with pytest.raises(ValueError, match="no tree"):
        hopeless.sample()
    possible = SiblingDependencyTree(arcs, siblings, lengths=torch.tensor([2, 1]))
    assert (kl_divergence(possible, hopeless) == torch.inf).all()
    assert SiblingDependencyTree(arcs[:0], siblings[:0]).sample().shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    arcs, siblings = torch.randn(5, 5), torch.randn(5, 5, 5)
    exact, half = SiblingDependencyTree(arcs, siblings), SiblingDependencyTree(arcs.to(dtype), siblings.to(dtype))
    for result, expected in ((half.log_partition, exact.log_partition), (half.marginals(), exact.marginals())):
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), expected, rtol=0.05, atol=0.05)
    assert half.support.check(half.sample((5,))).all() and half.support.check(half.argmax())


@pytest.mark.slow
def test_two_hundred_words_in_single_precision():
    arcs, siblings = (torch.randn(2, 201, 201).float(), torch.randn(2, 201, 201, 201).float())
    arcs.requires_grad_()
    d = SiblingDependencyTree(arcs, siblings, lengths=torch.tensor([200, 150]))
    log_z = d.log_partition
    (gradient,) = torch.autograd.grad(log_z.sum(), [arcs])
    assert log_z.dtype == torch.float32 and log_z.isfinite().all() and gradient.isfinite().all()
    torch.testing.assert_close(gradient.sum((1, 2)).double(), torch.tensor([200.0, 150.0]), rtol=1e-4, atol=0.0)
    assert d.support.check(d.sample()).all() and (d.log_prob(d.sample()) <= 0).all()


def test_vmap_of_grad():
    arcs, siblings = torch.randn(5, 4, 4), torch.randn(5, 4, 4, 4)

    def log_partition(arcs, siblings):
        return SiblingDependencyTree(arcs, siblings, validate_args=False).log_partition

    by_vmap = torch.func.vmap(torch.func.grad(log_partition, argnums=1))(arcs, siblings)
    torch.testing.assert_close(by_vmap, SiblingDependencyTree(arcs, siblings).expected_counts()["sibling"])


def test_enumerated_site_learns():
    """Siblings that first-order scores cannot tell apart: word 4 is a child of 1 only after 2, or else of 3."""
    target = torch.tensor([[0, 1, 1, 1], [0, 1, 2, 3]])

    @config_enumerate
    def model():
        siblings = pyro.param("siblings", lambda: torch.zeros(5, 5, 5))
        tree = pyro.sample("tree", SiblingDependencyTree(torch.zeros(5, 5), siblings))
        pyro.factor("right", 4 * (tree.long()[..., None, :] == target).all(-1).any(-1).double())

    svi = SVI(model, lambda: None, pyro.optim.Adam({"lr": 0.3}), TraceEnum_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step() for _ in range(30)]
    assert losses[-1] < losses[0]
    d = SiblingDependencyTree(torch.zeros(5, 5), pyro.param("siblings").detach())
    assert {tuple(row) for row in d.top_k(2)[0].tolist()} == {tuple(row) for row in target.tolist()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arc_scores": None}, "arc_scores must be a tensor, not None"),
        ({"sibling_scores": None}, "sibling_scores must be a tensor, not None"),
        ({"stop_scores": 0.0}, "stop_scores must be a tensor, not 0.0"),
        ({"lengths": [3]}, r"lengths must be a tensor, not \[3\]"),
    ],
)
def test_what_is_no_tensor_is_named(arguments, message):
    arcs, siblings = zeros(3)
    with pytest.raises(TypeError, match=f"^{message}$"):
        SiblingDependencyTree(**({"arc_scores": arcs, "sibling_scores": siblings} | arguments))
