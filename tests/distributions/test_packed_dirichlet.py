# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Packed Dirichlets and their constraint against torch's own, one multinomial at a time."""

import copy
import itertools
import pickle
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoMultivariateNormal, AutoNormal, init_to_mean
from torch import Tensor
from torch.distributions import biject_to, constraints, kl_divergence, transform_to

from pyrogram import CFG
from pyrogram.distributions import PackedDirichlet, Sentence, dirichlet_prior, ragged_simplex, simplex_of
from pyrogram.distributions.ragged import RaggedSoftmax, RaggedStickBreaking
from pyrogram.grammar import Block, PackedBlock
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.models.dirichlet import dirichlet

SIZES = (3, 1, 2, 3, 1, 5)
R = sum(SIZES)
LAYOUTS = [SIZES, (1, 4), (2, 2), (4,), (1, 1, 2)]


def pieces(values: Tensor, sizes: tuple[int, ...] = SIZES) -> tuple[Tensor, ...]:
    return values.split(sizes, -1)


def drawn(*batch: int, sizes: tuple[int, ...] = SIZES) -> Tensor:
    return torch.cat([dist.Dirichlet(torch.ones(s)).sample(torch.Size(batch)) for s in sizes], -1)


def concentrations(*batch: int) -> Tensor:
    return 0.3 + 2 * torch.rand(*batch, R)


# ---------------------------------------------------------------------- constraint and transforms


def test_the_constraint_sees_every_violation() -> None:
    constraint, good = ragged_simplex(SIZES), drawn(4)
    assert constraint.check(good).tolist() == [True] * 4
    assert constraint.check(drawn().float()).item()
    assert constraint.event_dim == 1 and not constraint.is_discrete
    moved, negative, short = good.clone(), good.clone(), good[:, :-1]
    moved[1, 0] += 0.1  # the total of all is still right
    moved[1, 5] -= 0.1
    negative[2, 0], negative[2, 1] = -0.1, good[2, 0] + good[2, 1] + 0.1
    assert constraint.check(moved).tolist() == [True, False, True, True]
    assert constraint.check(negative).tolist() == [True, True, False, True]
    assert constraint.check(torch.full((2, R), torch.nan)).tolist() == [False, False]
    assert constraint.check(short).tolist() == [False] * 4
    assert constraint == ragged_simplex(list(SIZES)) != ragged_simplex((R,))
    assert len({constraint, ragged_simplex(SIZES)}) == 1


@pytest.mark.parametrize("sizes", LAYOUTS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_stick_breaking_is_torchs_for_each_multinomial(sizes: tuple[int, ...], batch: tuple[int, ...]) -> None:
    transform = biject_to(ragged_simplex(sizes))
    x = torch.randn(*batch, sum(sizes) - len(sizes))
    y = transform(x)
    assert y.shape == transform.forward_shape(x.shape) and transform.inverse_shape(y.shape) == x.shape
    assert ragged_simplex(sizes).check(y).all()
    torch.testing.assert_close(transform.inv(y), x)
    jacobian = torch.zeros(batch)
    for own, real in zip(pieces(y, sizes), x.split([s - 1 for s in sizes], -1), strict=True):
        if own.shape[-1] == 1:
            assert (own == 1).all()
            continue
        single = biject_to(constraints.simplex)
        torch.testing.assert_close(own, single(real))
        jacobian = jacobian + single.log_abs_det_jacobian(real, own)
    torch.testing.assert_close(transform.log_abs_det_jacobian(x, y), jacobian)


@pytest.mark.parametrize("sizes", LAYOUTS)
def test_the_jacobian_is_autograds(sizes: tuple[int, ...]) -> None:
    transform = biject_to(ragged_simplex(sizes))
    x = torch.randn(sum(sizes) - len(sizes))
    free = torch.cat([i[:-1] for i in torch.arange(sum(sizes)).split(sizes)])  # the last of each follows
    matrix: Any = torch.autograd.functional.jacobian(lambda v: transform(v)[free], x)
    torch.testing.assert_close(transform.log_abs_det_jacobian(x, transform(x)), matrix.slogdet().logabsdet)


def test_multinomials_of_one_event_need_no_numbers() -> None:
    transform = biject_to(ragged_simplex((1, 1)))
    assert transform(torch.zeros(3, 0)).tolist() == [[1, 1]] * 3
    assert transform.inv(torch.ones(3, 2)).shape == (3, 0)
    assert transform.log_abs_det_jacobian(torch.zeros(3, 0), torch.ones(3, 2)).tolist() == [0] * 3
    with pytest.raises(ValueError, match=r"the last dimension must be 0, but the shape is \(2,\)"):
        transform.forward_shape(torch.Size([2]))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_transform_to_is_a_softmax_for_each_multinomial(batch: tuple[int, ...]) -> None:
    transform = transform_to(ragged_simplex(SIZES))
    x = torch.randn(*batch, R) * 300  # far beyond what exp bears
    y = transform(x)
    torch.testing.assert_close(y, torch.cat([p.softmax(-1) for p in pieces(x)], -1))
    weights = drawn(*batch)
    torch.testing.assert_close(transform(transform.inv(weights)), weights)
    assert transform(transform.inv(torch.tensor([1.0, 0, 0, 1, 0, 1, 0.5, 0.5, 0, 1, 1, 0, 0, 0, 0])))[1] == 0
    small = torch.randn(R, requires_grad=True)
    assert torch.autograd.gradcheck(transform, small)


def test_transforms_compare_and_cache() -> None:
    for kind in (RaggedSoftmax, RaggedStickBreaking):
        assert kind(SIZES) == kind(SIZES) != kind((R,))
        cached = kind(SIZES).with_cache()
        x = torch.randn(R - len(SIZES) if kind is RaggedStickBreaking else R)
        assert cached(x) is cached(x) and cached.inv(cached(x)) is x
        assert isinstance(pickle.loads(pickle.dumps(kind(SIZES))), kind)
    assert RaggedSoftmax(SIZES) != RaggedStickBreaking(SIZES)


def test_simplex_of_a_block() -> None:
    assert simplex_of(Block(torch.Size([2, 3]))) is constraints.simplex
    assert simplex_of(PackedBlock(torch.Size([R]), SIZES)) == ragged_simplex(SIZES)
    value = pyro.param("w", drawn(), constraint=ragged_simplex(SIZES))
    assert value.unconstrained().shape == (R,)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- the distribution


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_everything_is_the_sum_over_torchs_dirichlets(batch: tuple[int, ...]) -> None:
    alpha, beta, value = concentrations(*batch), concentrations(*batch), drawn(*batch)
    p, q = PackedDirichlet(alpha, SIZES), PackedDirichlet(beta, SIZES)
    own = [dist.Dirichlet(a) for a in pieces(alpha)]
    others = [dist.Dirichlet(b) for b in pieces(beta)]
    assert p.batch_shape == batch and p.event_shape == (R,)
    torch.testing.assert_close(p.log_prob(value), sum(d.log_prob(v) for d, v in zip(own, pieces(value), strict=True)))
    torch.testing.assert_close(p.entropy(), sum(d.entropy() for d in own))
    torch.testing.assert_close(p.mean, torch.cat([d.mean for d in own], -1))
    torch.testing.assert_close(p.variance, torch.cat([d.variance for d in own], -1))
    expected = sum(kl_divergence(d, e) for d, e in zip(own, others, strict=True))
    torch.testing.assert_close(kl_divergence(p, q), expected)
    torch.testing.assert_close(kl_divergence(p, p), torch.zeros(batch), atol=1e-12, rtol=0)
    larger = PackedDirichlet(1 + alpha, SIZES)
    modes = [dist.Dirichlet(1 + a).mode if a.shape[-1] > 1 else torch.ones_like(a) for a in pieces(alpha)]
    torch.testing.assert_close(larger.mode, torch.cat(modes, -1))


def test_gradients_of_log_prob_and_divergence() -> None:
    alpha = concentrations().requires_grad_()
    value, beta = drawn(), concentrations()
    assert torch.autograd.gradcheck(lambda a: PackedDirichlet(a, SIZES).log_prob(value), alpha)
    assert torch.autograd.gradcheck(
        lambda a: kl_divergence(PackedDirichlet(a, SIZES), PackedDirichlet(beta, SIZES)), alpha
    )
    assert torch.autograd.gradcheck(lambda a: PackedDirichlet(a, SIZES).entropy(), alpha)


def test_draws_have_the_right_moments_and_gradients() -> None:
    alpha = concentrations().requires_grad_()
    p = PackedDirichlet(alpha, SIZES)
    draws = p.rsample((40_000,))
    assert p.support.check(draws).all()
    error = (p.variance / len(draws)).sqrt() + 1e-12
    assert (((draws.mean(0) - p.mean) / error).abs() < 5).all()
    torch.testing.assert_close(draws.var(0), p.variance, rtol=0.06, atol=1e-9)
    events = torch.arange(R, dtype=torch.float64)
    (found,) = torch.autograd.grad((draws @ events).mean(), alpha, retain_graph=True)
    (expected,) = torch.autograd.grad(p.mean @ events, alpha)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)
    with pyro.plate("p", 3):
        assert pyro.sample("w", PackedDirichlet(concentrations(), SIZES)).shape == (3, R)
    assert not p.sample().requires_grad


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [1e-5, 1e-2, 1e4])
def test_draws_under_extreme_concentrations(alpha: float, dtype: torch.dtype) -> None:
    """For small α nearly all mass lies on one event, and Gamma draws underflow to zero together."""
    concentration = torch.full((R,), alpha, dtype=dtype, requires_grad=True)
    p = PackedDirichlet(concentration, SIZES)
    draws = p.rsample((4000,))
    assert draws.dtype == dtype and (draws > 0).all() and p.support.check(draws).all()
    assert p.log_prob(draws.detach()).isfinite().all()
    torch.testing.assert_close(draws.mean(0), p.mean, atol=0.04, rtol=0.0)
    if alpha == 1e-5:  # two Gamma draws that both underflow would look alike
        assert all(float((own.amax(-1) > 0.99).double().mean()) > 0.99 for own in pieces(draws))
    assert torch.autograd.grad(draws[0].sum(), concentration)[0].isfinite().all()


def test_expand_to_event_pickle_and_copy() -> None:
    p = PackedDirichlet(concentrations(3), SIZES)
    wide = p.expand((2, 3))
    assert type(wide) is PackedDirichlet and wide.batch_shape == (2, 3) and wide.sizes == SIZES
    value = drawn(2, 3)
    torch.testing.assert_close(wide.log_prob(value), p.log_prob(value))
    assert wide.rsample((5,)).shape == (5, 2, 3, R)
    assert (wide.rsample()[0] != wide.rsample()[1]).any()
    torch.testing.assert_close(p.to_event(1).log_prob(value[0]), p.log_prob(value[0]).sum())
    for twin in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        torch.testing.assert_close(twin.log_prob(value), p.log_prob(value))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"of shape \(15,\), but there are 2 that sum to 5"):
        PackedDirichlet(concentrations(), (2, 3))
    with pytest.raises(ValueError, match="sizes must be positive"):
        PackedDirichlet(torch.ones(2), (2, 0))
    with pyro.validation_enabled(True):
        with pytest.raises(ValueError, match="concentration"):
            PackedDirichlet(-concentrations(), SIZES)
        with pytest.raises(ValueError, match="RaggedSimplex"):
            PackedDirichlet(concentrations(), SIZES).log_prob(torch.full((R,), 1 / R))
    with pytest.raises(NotImplementedError, match="multinomials of different sizes"):
        kl_divergence(PackedDirichlet(torch.ones(4), (2, 2)), PackedDirichlet(torch.ones(4), (1, 3)))


def test_dirichlet_prior_of_any_block() -> None:
    block = PackedBlock(torch.Size([R]), SIZES)
    packed: Any = dirichlet_prior(block, torch.tensor(0.5))
    assert isinstance(packed, PackedDirichlet) and packed.sizes == SIZES
    torch.testing.assert_close(packed.concentration, torch.full((R,), 0.5))
    plain: Any = dirichlet_prior(Block(torch.Size([4, 2, 3])), torch.tensor(0.5))
    assert plain.event_shape == (4, 2, 3) and plain.batch_shape == ()
    alpha = torch.rand(4, 2, 3)
    torch.testing.assert_close(dirichlet_prior(Block(alpha.shape), alpha).base_dist.concentration, alpha)


@pytest.mark.parametrize("batch", [(), (2,), (3,), (2, 1), (3, 2)])
@pytest.mark.parametrize("block", [Block(torch.Size([2, 3])), PackedBlock(torch.Size([4]), (3, 1))], ids=repr)
def test_a_concentration_of_another_shape_is_a_batch_of_numbers(block: Block, batch: tuple[int, ...]) -> None:
    """Whatever the shape of the batch, each of its priors is the symmetric one of its own number."""
    alpha = 0.5 + torch.rand(batch)
    prior: Any = dirichlet_prior(block, alpha)
    assert prior.batch_shape == batch and prior.event_shape == block.shape
    value = block.normalize(torch.rand(block.shape))
    found = prior.log_prob(value)
    for index in itertools.product(*map(range, batch)):
        torch.testing.assert_close(found[index], dirichlet_prior(block, float(alpha[index])).log_prob(value))
    table = alpha.reshape(*batch, *(1 for _ in block.shape)).expand(*batch, *block.shape)
    full: Any = dirichlet_prior(block, table)
    assert full.batch_shape == batch and full.event_shape == block.shape
    torch.testing.assert_close(full.log_prob(value), found)


@pytest.mark.parametrize("block", [Block(torch.Size([2, 2])), PackedBlock(torch.Size([4]), (2, 2))], ids=repr)
def test_a_latent_concentration_in_vectorised_particles(block: Block) -> None:
    """Every particle's weights are drawn with its own concentration, all multinomials alike."""

    def model() -> Tensor:
        alpha = pyro.sample("alpha", dist.Gamma(2.0, 1.0))
        value: Tensor = pyro.sample("weights", dirichlet_prior(block, alpha))
        return value

    with pyro.plate("particles", 2, dim=-2), poutine.condition(data={"alpha": torch.tensor([[0.01], [1e3]])}):
        trace = poutine.trace(model).get_trace()
    weights = trace.nodes["weights"]["value"].reshape(2, 2, 2)
    assert (weights[0].amax(-1) > 0.9).all()  # for α of 0.01, all but certain
    assert (weights[1].amax(-1) < 0.6).all()  # for α of 1000, all but uniform
    drawn = Predictive(model, num_samples=5, parallel=True)()
    assert drawn["weights"].shape[:1] == (5,) and drawn["weights"].shape[-len(block.shape) :] == block.shape


# ---------------------------------------------------------------------- in Pyro


GRAMMAR = CFG.from_string("""
    S -> A S | A
    A -> 'a' | 'b' | B
    B -> 'b'
""")
WORDS = GRAMMAR.encode(["a b", "b", "a a b"])


def potential() -> Tensor:
    """The exact mean of the posterior, by importance sampling from the prior."""
    prior = dirichlet_prior(GRAMMAR.blocks["rules"], torch.tensor(1.0))
    draws = prior.sample((40_000,))
    logs = Sentence(GRAMMAR, {"rules": draws[:, None]}).log_prob(WORDS).sum(-1)
    return logs.softmax(0) @ draws


@pytest.mark.one_in(6)
@pytest.mark.parametrize("guide", [AutoNormal, AutoDelta, AutoMultivariateNormal, MeanFieldDirichlet])
def test_guides(guide: Any, one_thread: None) -> None:
    options = {} if guide is MeanFieldDirichlet else {"init_loc_fn": init_to_mean}
    fitted = guide(dirichlet, **options)
    args = {"concentration": 1.0}
    svi = SVI(dirichlet, fitted, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step(WORDS, GRAMMAR, **args) for _ in range(150 if guide is MeanFieldDirichlet else 60)]
    assert sum(losses[-20:]) < sum(losses[:20])
    trace: Any = poutine.trace(fitted).get_trace(WORDS, GRAMMAR, **args)
    value = trace.nodes["rules"]["value"].detach()
    assert ragged_simplex(GRAMMAR.blocks["rules"].sizes).check(value)
    assert value[-1] == 1


@pytest.mark.slow
def test_nuts_finds_the_posterior(one_thread: None) -> None:
    kernel = NUTS(dirichlet, max_tree_depth=5)
    mcmc = MCMC(kernel, num_samples=300, warmup_steps=100, disable_progbar=True)
    mcmc.run(WORDS, GRAMMAR, concentration=1.0)
    draws = mcmc.get_samples()["rules"]
    assert ragged_simplex(GRAMMAR.blocks["rules"].sizes).check(draws).all()
    torch.testing.assert_close(draws.mean(0), potential(), atol=0.05, rtol=0.0)
