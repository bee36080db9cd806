# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about projective trees; the rest is in tests/testing/test_battery.py."""

import pyro
import pyro.distributions as dist
import pytest
import torch
from oracle import Enumeration, all_trees
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from torch.distributions import kl_divergence

from pyrogram.distributions import ProjectiveDependencyTree


def test_shape_that_means_two_things():
    scores = torch.zeros(2, 2, 2)
    with pytest.raises(ValueError, match=r"^arc_scores of shape \(2, 2, 2\) may be one word with valence or a batch "):
        ProjectiveDependencyTree(scores)
    assert ProjectiveDependencyTree(scores, valence=True).batch_shape == ()
    assert ProjectiveDependencyTree(scores, valence=False).batch_shape == (2,)
    with pytest.raises(ValueError, match="say valence=True or valence=False$"):
        ProjectiveDependencyTree(torch.zeros(5, 2, 2, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arc_scores": torch.zeros(3)}, r"arc_scores must have shape \(..., n\+1, n\+1\) or .*, not \(3,\)"),
        ({"arc_scores": torch.zeros(3, 4)}, r"arc_scores must have shape .*, not \(3, 4\)"),
        ({"arc_scores": torch.zeros(1, 1)}, r"n >= 1, not \(1, 1\)"),
        ({"arc_scores": torch.zeros(3, 3).long()}, r"arc_scores must be floating-point numbers, not torch.int64"),
        ({"arc_scores": torch.zeros(3, 2, 3), "valence": True}, r"arc_scores must have shape .*not \(3, 2, 3\)"),
        ({"stop_scores": torch.zeros(3, 2, 2)}, r"stop scores must have shape \(..., 4, 2, U\), not \(3, 2, 2\)"),
        ({"stop_scores": torch.full((4, 2, 2), torch.nan)}, "stop_scores must be real numbers or -inf"),
        ({"lengths": torch.tensor(4)}, r"lengths must lie in 1..3, not 4..4"),
        ({"lengths": torch.tensor([0, 2])}, r"lengths must lie in 1..3, not 0..2"),
        ({"lengths": torch.tensor(2.0)}, "lengths must be integers, not torch.float"),
        ({"arc_scores": torch.full((4, 4), torch.nan)}, "arc_scores"),
        ({"arc_scores": torch.full((4, 4), torch.inf)}, "arc_scores"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProjectiveDependencyTree(**({"arc_scores": torch.zeros(4, 4)} | arguments), validate_args=True)


def test_what_cannot_be_done_says_so():
    with pytest.raises(NotImplementedError, match="too many trees of 8 words to enumerate; the limit is 7"):
        ProjectiveDependencyTree(torch.zeros(9, 9)).enumerate_support()
    with pytest.raises(NotImplementedError, match="different lengths"):
        ProjectiveDependencyTree(torch.zeros(2, 4, 4), lengths=torch.tensor([2, 3])).enumerate_support()
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        ProjectiveDependencyTree(torch.zeros(4, 4)).top_k(0)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ({"multiroot": True}, {}, "the divergence is infinite"),
        ({"lengths": torch.tensor(2)}, {}, "not over trees of the same sentences"),
        ({"stop_scores": torch.zeros(4, 2, 2, dtype=torch.float64)}, {}, "give both, zeros will do"),
        ({"arc_scores": torch.zeros(4, 4, 2, dtype=torch.float64)}, {}, "give both the same"),
        ({}, {"arc_scores": torch.zeros(5, 5, dtype=torch.float64)}, "not over trees of the same sentences"),
    ],
)
def test_divergences_that_do_not_exist(p, q, message):
    p, q = (ProjectiveDependencyTree(**({"arc_scores": torch.zeros(4, 4)} | given)) for given in (p, q))
    with pytest.raises(NotImplementedError, match=message):
        kl_divergence(p, q)


def test_divergence_is_infinite_where_q_forbids():
    p, forbidding = torch.zeros(4, 4), torch.zeros(4, 4)
    forbidding[1, 2] = -torch.inf
    assert kl_divergence(ProjectiveDependencyTree(p), ProjectiveDependencyTree(forbidding)) == torch.inf
    other_way = kl_divergence(ProjectiveDependencyTree(forbidding), ProjectiveDependencyTree(p))
    kept = sum(heads[1] != 1 for heads in all_trees(3, False))
    torch.testing.assert_close(other_way, torch.log(torch.tensor(7 / kept)))


def test_divergence_to_several_roots():
    arcs = torch.randn(4, 4)
    p, q = ProjectiveDependencyTree(arcs), ProjectiveDependencyTree(arcs, multiroot=True)
    torch.testing.assert_close(kl_divergence(p, q), q.log_partition - p.log_partition)


def test_no_tree_at_all():
    hopeless = ProjectiveDependencyTree(torch.full((2, 3, 3), -torch.inf), lengths=torch.tensor([2, 1]))
    assert (hopeless.log_partition == -torch.inf).all()
    assert (hopeless.log_prob(torch.tensor([[0, 1], [0, -1]])) == -torch.inf).all()
    assert (hopeless.marginals() == 0).all()
    assert (hopeless.top_k(1)[0] == -1).all()
    with pytest.raises(ValueError, match="no tree"):
        hopeless.sample()


def test_invalid_values_of_a_padded_batch():
    d = ProjectiveDependencyTree(torch.zeros(2, 4, 4), lengths=torch.tensor([3, 2]), validate_args=True)
    assert d.support.check(torch.tensor([[0, 1, 1], [2, 0, -1]])).all()
    assert d.support.check(torch.tensor([[0, 1, -1], [2, 0, 1]])).tolist() == [False, False]
    with pytest.raises(ValueError, match="DependencyTrees"):
        d.log_prob(torch.tensor([[0, 1, 1], [2, 0, 2]]))


def test_results_after_inference_mode():
    arcs = torch.randn(4, 4, requires_grad=True)
    d = ProjectiveDependencyTree(arcs)
    with torch.inference_mode():
        d.entropy()
    (gradient,) = torch.autograd.grad(d.entropy(), [arcs])
    (expected,) = torch.autograd.grad(ProjectiveDependencyTree(arcs).entropy(), [arcs])
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("batch", [(), (9,), (2, 3)])
@pytest.mark.parametrize("with_stops", [False, True])
def test_a_graph_may_be_used_again(batch, with_stops):
    """The first backward pass gives away the marginals that log Z was computed with."""
    arcs = torch.randn(*batch, 10, 10, requires_grad=True)
    stops = torch.randn(*batch, 10, 2, 2, requires_grad=True) if with_stops else None
    leaves = [arcs] if stops is None else [arcs, stops]
    counts = list(
        ProjectiveDependencyTree(arcs.detach(), None if stops is None else stops.detach()).expected_counts().values()
    )
    log_z = ProjectiveDependencyTree(arcs, stops).log_partition
    log_z.sum().backward(retain_graph=True)
    for leaf, expected in zip(leaves, counts, strict=True):
        torch.testing.assert_close(leaf.grad, expected, rtol=0, atol=0)
        leaf.grad.fill_(7)  # what is given away may be changed
        leaf.grad = None
    for weight in torch.randn(2, *batch):
        for gradient, expected in zip(
            torch.autograd.grad(log_z, leaves, weight, retain_graph=True), counts, strict=True
        ):
            scale = weight.reshape(*batch, *[1] * (expected.dim() - len(batch)))
            torch.testing.assert_close(gradient, scale * expected)
    log_z.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        log_z.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    arcs = torch.randn(5, 5)
    exact, half = ProjectiveDependencyTree(arcs), ProjectiveDependencyTree(arcs.to(dtype))
    for result, expected in (
        (half.log_partition, exact.log_partition),
        (half.marginals(), exact.marginals()),
        (half.entropy(), exact.entropy()),
    ):
        assert result.dtype == dtype
        torch.testing.assert_close(result.double(), expected, rtol=0.05, atol=0.05)
    assert half.support.check(half.sample((5,))).all()
    assert half.support.check(half.argmax())


@pytest.mark.slow
def test_two_hundred_words_in_single_precision():
    arcs = (4 * torch.randn(2, 201, 201, 2)).float().requires_grad_()
    stops = torch.randn(2, 201, 2, 2).float()
    d = ProjectiveDependencyTree(arcs, stops, torch.tensor([200, 150]))
    log_z = d.log_partition
    (gradient,) = torch.autograd.grad(log_z.sum(), [arcs])
    assert log_z.dtype == torch.float32 and log_z.isfinite().all() and gradient.isfinite().all()
    exact = ProjectiveDependencyTree(arcs.detach().double(), stops.double(), d.lengths)
    torch.testing.assert_close(log_z.double(), exact.log_partition, rtol=1e-5, atol=0.0)
    torch.testing.assert_close(gradient.sum((1, 2, 3)).double(), torch.tensor([200.0, 150.0]), rtol=1e-4, atol=0.0)
    assert d.support.check(d.sample()).all() and d.support.check(d.mbr()).all()
    assert d.entropy().isfinite().all() and (d.log_prob(d.sample()) <= 0).all()


@pytest.mark.parametrize("multiroot", [False, True])
def test_vmap_of_grad_in_front_of_a_batch(multiroot):
    """Lengths are mapped over, or shared."""
    arcs, stops = torch.randn(4, 3, 6, 6, 2), torch.randn(4, 3, 6, 2, 2)
    lengths = torch.tensor([[5, 2, 4], [1, 2, 3], [5, 5, 5], [4, 4, 1]])

    def log_z(arcs, stops, lengths):
        return ProjectiveDependencyTree(arcs, stops, lengths, valence=True, multiroot=multiroot).log_partition.sum()

    for in_dim, of in ((0, lengths), (None, lengths[0])):
        found = torch.func.vmap(torch.func.grad(log_z, argnums=(0, 1)), in_dims=(0, 0, in_dim))(arcs, stops, of)
        trees = ProjectiveDependencyTree(arcs, stops, of, valence=True, multiroot=multiroot)
        torch.testing.assert_close(dict(zip(("arc", "stop"), found, strict=True)), trees.expected_counts())


def test_enumerated_site_equals_the_marginal_model():
    """Words given trees, the tree summed out by Pyro and by the chart: the same loss and gradient."""
    n, V = 3, 2
    words = torch.tensor([[0, 1, 1], [1, 0, 1]])
    heads_of = torch.tensor(all_trees(n, False))

    def parameters():
        arcs = pyro.param("arcs", lambda: torch.randn(n + 1, n + 1, generator=torch.Generator().manual_seed(1)))
        table = pyro.param("table", lambda: torch.full((V + 1, V), 1 / V), constraint=dist.constraints.simplex)
        return arcs, table

    def emitted(table, heads, words):
        """Each word given its head's, V for ROOT."""
        heads = heads.long()
        shape = torch.broadcast_shapes(heads.shape, words.shape)
        with_wall = torch.nn.functional.pad(words, (1, 0), value=V).expand(*shape[:-1], n + 1)
        return table[with_wall.gather(-1, heads.expand(shape)), words.expand(shape)].log().sum(-1)

    @config_enumerate
    def enumerated():
        arcs, table = parameters()
        with pyro.plate("sentences", 2):
            tree = pyro.sample("tree", ProjectiveDependencyTree(arcs))
            pyro.factor("words", emitted(table, tree, words))

    def marginal():
        arcs, table = parameters()
        d = ProjectiveDependencyTree(arcs)
        with_words = d.log_prob(heads_of)[:, None] + emitted(table, heads_of[:, None], words)
        pyro.factor("words", with_words.logsumexp(0).sum())

    found = []
    for model, elbo in ((enumerated, TraceEnum_ELBO(max_plate_nesting=1)), (marginal, Trace_ELBO())):
        pyro.clear_param_store()
        loss = elbo.differentiable_loss(model, lambda: None)
        store = pyro.get_param_store()
        leaves = [store._params[name] for name in ("arcs", "table")]
        found.append((loss.detach(), *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_enumerated_site_learns():
    """Some steps of SVI through the enumerated site lower the loss."""
    target = torch.tensor([2, 0, 2])

    @config_enumerate
    def model():
        arcs = pyro.param("arcs", lambda: torch.zeros(4, 4))
        tree = pyro.sample("tree", ProjectiveDependencyTree(arcs))
        pyro.factor("right", (tree.long() == target).sum(-1).double())

    svi = SVI(model, lambda: None, pyro.optim.Adam({"lr": 0.3}), TraceEnum_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step() for _ in range(30)]
    assert losses[-1] < losses[0]
    assert ProjectiveDependencyTree(pyro.param("arcs").detach()).argmax().tolist() == target.tolist()


def test_results_agree_with_the_oracle_in_a_larger_case():
    arcs, stops = torch.randn(6, 6, 2), torch.randn(6, 2, 2)
    truth = Enumeration(arcs.numpy(), stops.numpy(), False)
    d = ProjectiveDependencyTree(arcs, stops)
    torch.testing.assert_close(d.log_partition, torch.tensor(truth.log_z))
    torch.testing.assert_close(d.entropy(), torch.tensor(truth.entropy()))
    torch.testing.assert_close(d.top_k(9)[1] + d.log_partition, torch.tensor(truth.ranked()[:9]))


def test_nothing_possible():
    """No tree at all: there is nothing to decode, and q that allows nothing is infinitely far from p."""
    possible = ProjectiveDependencyTree(torch.zeros(4, 4))
    impossible = ProjectiveDependencyTree(torch.full((4, 4), -torch.inf))
    assert impossible.mbr().tolist() == impossible.argmax().tolist() == [-1, -1, -1]
    assert float(kl_divergence(possible, impossible)) == torch.inf
    assert ProjectiveDependencyTree(torch.zeros(0, 4, 4), valence=False).sample().shape == (0, 3)
