# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about one class of dependency trees, or holds between two; the rest is in tests/testing."""

from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from oracle import all_spanning_trees
from pyro.infer import Predictive
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions import (
    DependencyTree,
    GrandparentDependencyTree,
    LabelledDependencyTree,
    ProjectiveDependencyTree,
    SiblingDependencyTree,
)
from pyrogram.infer import collapse_trees, infer_trees
from pyrogram.infer.model.structure import ModelError
from pyrogram.tree_statistics import tree_statistics

roots = pytest.mark.parametrize("multiroot", [False, True])


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape)


# ---------------------------------------------------------------------- of one class


def test_shape_that_means_two_things() -> None:
    scores = zeros(2, 2, 2)
    with pytest.raises(ValueError, match=r"^arc_scores of shape \(2, 2, 2\) may be one word with valence or a batch "):
        ProjectiveDependencyTree(scores)
    assert ProjectiveDependencyTree(scores, valence=True).batch_shape == ()
    assert ProjectiveDependencyTree(scores, valence=False).batch_shape == (2,)
    with pytest.raises(ValueError, match="say valence=True or valence=False$"):
        ProjectiveDependencyTree(zeros(5, 2, 2, 2))


@pytest.mark.parametrize("batch", [(), (9,), (2, 3)])
@pytest.mark.parametrize("with_stops", [False, True])
def test_a_graph_may_be_used_again(batch: tuple[int, ...], with_stops: bool) -> None:
    """The first backward pass gives away the marginals that log Z was computed with."""
    leaves = [torch.randn(*batch, 10, 10), *[torch.randn(*batch, 10, 2, 2)] * with_stops]
    counts = list(ProjectiveDependencyTree(*leaves).expected_counts().values())
    leaves = [x.requires_grad_() for x in leaves]
    log_z = ProjectiveDependencyTree(*leaves).log_partition
    log_z.sum().backward(retain_graph=True)
    for leaf, expected in zip(leaves, counts, strict=True):
        torch.testing.assert_close(leaf.grad, expected, rtol=0, atol=0)
        leaf.grad.fill_(7)  # what is given away may be changed
        leaf.grad = None
    for weight in torch.randn(2, *batch):
        gradients = torch.autograd.grad(log_z, leaves, weight, retain_graph=True)
        for gradient, expected in zip(gradients, counts, strict=True):
            scale = weight.reshape(*batch, *[1] * (expected.dim() - len(batch)))
            torch.testing.assert_close(gradient, scale * expected)
    log_z.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        log_z.sum().backward()


@roots
def test_vmap_of_grad_in_front_of_a_batch(multiroot: bool) -> None:
    """Lengths are mapped over, or shared."""
    arcs, stops = torch.randn(4, 3, 6, 6, 2), torch.randn(4, 3, 6, 2, 2)
    lengths = torch.tensor([[5, 2, 4], [1, 2, 3], [5, 5, 5], [4, 4, 1]])

    def log_z(arcs: Tensor, stops: Tensor, lengths: Tensor) -> Tensor:
        return ProjectiveDependencyTree(arcs, stops, lengths, valence=True, multiroot=multiroot).log_partition.sum()

    for in_dim, of in ((0, lengths), (None, lengths[0])):
        found = torch.func.vmap(torch.func.grad(log_z, argnums=(0, 1)), in_dims=(0, 0, in_dim))(arcs, stops, of)
        trees = ProjectiveDependencyTree(arcs, stops, of, valence=True, multiroot=multiroot)
        torch.testing.assert_close(dict(zip(("arc", "stop"), found, strict=True)), trees.expected_counts())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("projective", [False, True])
def test_labels_summed_out_and_maximised(projective: bool) -> None:
    """Heads are distributed as without labels, with the log-sum-exp of their scores; the best have the greatest."""
    scores = torch.randn(2, 6, 6, 3)
    labelled = LabelledDependencyTree(scores, projective=projective)
    plain = ProjectiveDependencyTree if projective else DependencyTree
    trees = plain(scores.logsumexp(-1))
    torch.testing.assert_close(labelled.log_partition, trees.log_partition)
    torch.testing.assert_close(labelled.marginals().sum(-1), trees.marginals())
    assert (labelled.argmax()[..., 0] == plain(scores.amax(-1)).argmax()).all()
    shares = labelled.parts(labelled.sample((20_000,))).double().mean(0)
    assert float((shares - labelled.marginals()).abs().max()) < 0.02


@pytest.mark.parametrize(("k", "labels"), [(1, 6), (40, 6), (300, 2), pytest.param(3000, 6, marks=pytest.mark.slow)])
def test_top_k_of_many_labels(k: int, labels: int) -> None:
    """More than there are trees, and more than there are labellings of one tree."""
    labelled = LabelledDependencyTree(torch.randn(2, 4, 4, labels), projective=False)
    values, log_probs = labelled.top_k(k)
    listed = labelled.log_prob(labelled.enumerate_support()).sort(0, descending=True).values
    found = min(k, len(listed))
    torch.testing.assert_close(log_probs[:found], listed[:found])
    torch.testing.assert_close(labelled.log_prob(values[:found]), log_probs[:found])
    assert all(len(values[:found, b].unique(dim=0)) == found for b in range(2))
    assert (log_probs[found:] == -torch.inf).all() and (values[found:] == -1).all()


def test_labels_of_the_padding() -> None:
    support = LabelledDependencyTree(zeros(4, 4, 2), torch.tensor(2)).support
    assert support.check(torch.tensor([[0, 1], [1, 0], [-1, -1]]))
    assert not support.check(torch.tensor([[0, 1], [1, 0], [-1, 0]]))


def test_labelled_trees_tilted_by_heads() -> None:
    plain = LabelledDependencyTree(torch.randn(2, 4, 4, 3), projective=False)
    bonus = torch.randn(5, 1, 3, 4)
    values = plain.enumerate_support()
    heads = values[:, 0, :, 0]
    gain = bonus[:, 0].expand(len(heads), 5, 3, 4).gather(-1, heads[:, None, :, None].expand(-1, 5, 3, 1)).sum((-2, -1))
    scores = plain.log_prob(values)[:, None] + gain[..., None]
    torch.testing.assert_close(plain.tilted(bonus).log_prob(values[:, None]), scores - scores.logsumexp(0))


def test_statistics_of_trees_that_cross() -> None:
    found = tree_statistics(DependencyTree(zeros(5, 5)), torch.tensor([0, 0, 0, 0]), torch.tensor([3, 4, 0, 3]))
    assert {name: float(x) for name, x in found.items()} == pytest.approx(
        {"depth": 3, "dependency_length": 5 / 3, "left_heads": 1 / 3, "mean_children": 1.5, "most_children": 2}
    )


def test_latent_trees_that_cross_are_summed_out() -> None:
    """collapse_trees and infer_trees, against the list of trees; with labels they are not."""
    scores, gain = torch.randn(4, 4), torch.randn(3, 4)

    def model() -> None:
        heads = pyro.sample("heads", DependencyTree(scores))
        pyro.factor("gain", gain.expand(*heads.shape, 4).gather(-1, heads[..., None]).sum((-2, -1)))

    listed = torch.tensor(all_spanning_trees(3, False))
    joint = DependencyTree(scores).log_prob(listed) + gain[range(3), listed].sum(-1)
    found = pyro.poutine.trace(collapse_trees(model)).get_trace().log_prob_sum()
    torch.testing.assert_close(found, joint.logsumexp(0))
    best = Predictive(infer_trees(model, temperature=0), num_samples=1)()["heads"]
    assert best.flatten().tolist() == listed[joint.argmax()].tolist()

    def labelled() -> None:
        pyro.sample("trees", LabelledDependencyTree(zeros(4, 4, 2)))

    with pytest.raises(ModelError, match="collapse_trees takes dependency trees and state sequences, not the Labelled"):
        collapse_trees(labelled)()


# ---------------------------------------------------------------------- between two classes


@roots
def test_trees_of_lower_order(multiroot: bool) -> None:
    """Sentences that are too long to list: zeros leave plain trees, and scores of siblings alone second-order ones."""
    N, lengths = 10, torch.tensor([9, 4, 1])
    arcs, siblings = torch.randn(3, N, N), torch.randn(3, N, N, N)
    siblings[:, 0] = 0  # ROOT's children are no siblings here
    nothing, of_siblings = zeros(N, N, N), siblings[:, None].expand(-1, N, -1, -1, -1)
    plain = ProjectiveDependencyTree(arcs, lengths=lengths, multiroot=multiroot)
    second = SiblingDependencyTree(arcs, siblings, lengths=lengths, multiroot=multiroot)
    for expected, found in (
        (plain, SiblingDependencyTree(arcs, nothing, lengths=lengths, multiroot=multiroot)),
        (plain, GrandparentDependencyTree(arcs, nothing, None, lengths, multiroot=multiroot)),
        (second, GrandparentDependencyTree(arcs, nothing, of_siblings, lengths, multiroot=multiroot)),
    ):
        torch.testing.assert_close(found.log_partition, expected.log_partition)
        torch.testing.assert_close(found.marginals(), expected.marginals())
        torch.testing.assert_close(found.entropy(), expected.entropy())
        torch.testing.assert_close(found.top_k(3)[1], expected.top_k(3)[1])
        trees = found.sample((20,))
        torch.testing.assert_close(found.log_prob(trees), expected.log_prob(trees))
        assert torch.equal(found.mbr(), expected.mbr()) and torch.equal(found.argmax(), expected.argmax())


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_grandparents_by_both_engines(scale: float) -> None:
    tables = [scale * torch.randn(*[6] * dims) for dims in (2, 3, 4)]
    trees = GrandparentDependencyTree(*tables)
    inputs, program = trees._tensor_inputs(torch.Size()), trees._program
    leaves = [w.detach().requires_grad_() for w in inputs.weights.values()]
    log_z = [program.log_partition(inputs.with_weights(leaves), by_torch=by_torch) for by_torch in (False, True)]
    torch.testing.assert_close(*log_z, rtol=1e-12, atol=0)
    for a, b in zip(*(torch.autograd.grad(z.sum(), leaves) for z in log_z), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["arcs", "valences and stops", "siblings", "several roots", "labels"])
def test_divergence_to_trees_that_cross(kind: str) -> None:
    """Of any scores; what is projective is a part of what is not."""
    labels = 2 if kind == "labels" else None
    p: Any = {
        "arcs": lambda: ProjectiveDependencyTree(torch.randn(5, 5)),
        "valences and stops": lambda: ProjectiveDependencyTree(torch.randn(5, 5, 2), torch.randn(5, 2, 2)),
        "siblings": lambda: SiblingDependencyTree(torch.randn(5, 5), torch.randn(5, 5, 5)),
        "several roots": lambda: ProjectiveDependencyTree(torch.randn(5, 5), multiroot=True),
        "labels": lambda: LabelledDependencyTree(torch.randn(5, 5, 2)),
    }[kind]()

    def crossing(arcs: Tensor) -> Any:
        if labels:
            return LabelledDependencyTree(arcs, projective=False)
        return DependencyTree(arcs, multiroot=kind == "several roots")

    arcs = torch.randn(3, 5, 5, *[2] * (labels is not None))
    q, trees = crossing(arcs), p.enumerate_support()
    own = p.log_prob(trees)
    expected = (own.exp()[:, None] * (own[:, None] - q.log_prob(trees[:, None]))).sum(0)
    torch.testing.assert_close(kl_divergence(p, q), expected)
    arcs[1, 2, 1] = -torch.inf
    arcs[2, 0] = -torch.inf  # no tree at all
    assert (kl_divergence(p, crossing(arcs)) == torch.inf).tolist() == [False, True, True]


def test_divergence_to_several_roots() -> None:
    for kind in (ProjectiveDependencyTree, DependencyTree):
        arcs = torch.randn(4, 4)
        p, q = kind(arcs), kind(arcs, multiroot=True)
        torch.testing.assert_close(kl_divergence(p, q), q.log_partition - p.log_partition)


FIRST, CROSSING = (lambda **o: ProjectiveDependencyTree(**({"arc_scores": zeros(4, 4)} | o))), DependencyTree


def second(*more: Any, **options: Any) -> SiblingDependencyTree:
    return SiblingDependencyTree(zeros(4, 4), zeros(4, 4, 4), *more, **options)


def third(*more: Any) -> GrandparentDependencyTree:
    return GrandparentDependencyTree(zeros(3, 3), zeros(3, 3, 3), *more)


NO_DIVERGENCE: list[tuple[Callable[[], Any], Callable[[], Any], str | None]] = [
    (lambda: FIRST(multiroot=True), FIRST, "the divergence is infinite"),
    (lambda: FIRST(stop_scores=zeros(4, 2, 2)), FIRST, "give both, zeros will do"),
    (lambda: FIRST(arc_scores=zeros(4, 4, 2)), FIRST, "give both the same"),
    (second, lambda: second(zeros(4, 2, 4)), "give both, zeros will do"),
    (lambda: second(multiroot=True), second, "several roots"),
    (second, FIRST, None),  # they have different scores
    (third, lambda: third(zeros(3, 3, 3, 3)), "one distribution has grandsibling scores"),
    (lambda: CROSSING(zeros(4, 4), multiroot=True), lambda: CROSSING(zeros(4, 4)), "several roots and q only one"),
    (lambda: CROSSING(zeros(4, 4)), FIRST, None),
    (
        lambda: LabelledDependencyTree(zeros(5, 5, 2), projective=False),
        lambda: LabelledDependencyTree(zeros(5, 5, 2)),
        "arcs of p may cross and those of q must not",
    ),
    (
        lambda: LabelledDependencyTree(zeros(4, 4, 2)),
        lambda: LabelledDependencyTree(zeros(4, 4, 3)),
        "numbers of labels",
    ),
    (lambda: LabelledDependencyTree(zeros(4, 4, 2)), lambda: CROSSING(zeros(4, 4)), "trees of the same sentences"),
]


@pytest.mark.parametrize(("p", "q", "message"), NO_DIVERGENCE)
def test_divergences_that_do_not_exist(p: Callable[[], Any], q: Callable[[], Any], message: str | None) -> None:
    with pytest.raises(NotImplementedError, match=message):
        kl_divergence(p(), q())


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ProjectiveDependencyTree(zeros(3, 2, 3), valence=True), r"arc_scores must have shape .*not \(3, 2, 3\)"),
    (lambda: FIRST(stop_scores=zeros(3, 2, 2)), r"stop_scores must have shape \(..., 4, 2, S\), not \(3, 2, 2\)"),
    (lambda: FIRST(stop_scores=zeros(4, 2, 2) * torch.nan, validate_args=True), "stop_scores must be real numbers or"),
    (
        lambda: SiblingDependencyTree(zeros(4, 4), zeros(4, 4)),
        r"sibling_scores must have shape \(..., 4, 4, 4\), not \(4",
    ),
    (lambda: SiblingDependencyTree(zeros(4, 4), zeros(4, 4, 4).float()), "sibling_scores are torch.float32 but arc_sc"),
    (lambda: second(zeros(4, 2, 2)), r"stop_scores must have shape \(..., 4, 2, 4\), not \(4, 2, 2\)"),
    (lambda: second(zeros(4, 2, 4) + torch.inf, validate_args=True), "stop_scores must be real numbers or -inf"),
    (lambda: second(0.0), "stop_scores must be a tensor, not 0.0"),
    (lambda: SiblingDependencyTree(zeros(4, 4), None), "sibling_scores must be a tensor, not None"),
    (lambda: GrandparentDependencyTree(zeros(3, 3), zeros(3, 3)), r"grandparent_scores .* 3, 3, 3\)"),
    (lambda: third(zeros(3, 3, 3)), r"grandsibling_scores .* 3, 3, 3, 3\)"),
    (lambda: GrandparentDependencyTree(zeros(3, 3), zeros(3, 3, 3).half()), "grandparent_scores are torch.float16 but"),
    (lambda: LabelledDependencyTree(zeros(4, 4, 0)), r"L >= 1, not \(4, 4, 0\)"),
    (
        lambda: FIRST(arc_scores=zeros(9, 9)).enumerate_support(),
        "too many trees of 8 words to enumerate; the limit is 7",
    ),
    (lambda: DependencyTree(zeros(8, 8)).enumerate_support(), "too many trees of 7 words to enumerate; the limit is 6"),
    (lambda: LabelledDependencyTree(zeros(6, 6, 10)).enumerate_support(), "labels of 143 trees .* limit is 1000000"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        make()
