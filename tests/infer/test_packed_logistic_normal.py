# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logistic normals of multinomials of different sizes: context-free rules, against lists of derivations."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.optim import ClippedAdam
from rewriting import derivations
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, constraints, kl_divergence

from pyrogram import CFG, DMV
from pyrogram.distributions import Experts, Gaussian, Link, PartitionStructure, Sentence, logistic_normal
from pyrogram.grammar import Block, Grammar, PackedBlock
from pyrogram.guides import MeanFieldGaussian
from pyrogram.infer import CollapsedVB, EStep, ModelError, TraceGrammar_ELBO, TreeHastings, VariationalEM
from pyrogram.infer.logistic_normal.layout import parts_of
from pyrogram.models import corpus_logistic_normal as corpus_ln_model
from pyrogram.models import initial_experts
from pyrogram.models.logistic_normal import logistic_normal as ln_model
from pyrogram.models.shared_logistic_normal import shared_logistic_normal as shared_model

GRAMMAR = CFG.from_string("""
    S -> A S | A | A 'b' S A
    A -> B | 'a' | 'a' 'b' | 'b' 'b'
    B -> 'b'
""")
BLOCK = GRAMMAR.blocks["rules"]
R = BLOCK.shape[0]
SENTENCES = ["a b a", "b a a", "a a", "b b a", "a"]
WORDS = GRAMMAR.encode(SENTENCES)
COUNTS = [
    torch.tensor(np.array([np.bincount(d, minlength=R) for d in derivations(GRAMMAR, s.split())]), dtype=torch.float64)
    for s in SENTENCES
]


def softmaxes(values: Tensor) -> Tensor:
    """Of the rules of each left side, by torch."""
    return torch.cat([piece.softmax(-1) for piece in values.split(BLOCK.sizes, -1)], -1)


def start(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A mean, variances and a covariance that ties all rules."""
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(R, R, generator=generator)
    return (
        torch.randn(R, generator=generator),
        0.3 + torch.rand(R, generator=generator),
        0.2 * factor @ factor.mT + 0.5 * torch.eye(R),
    )


def model_of(diagonal: bool, per_sentence: bool, learn: bool = True) -> Callable[[Tensor], None]:
    loc, variance, covariance = start()

    def draw() -> Tensor:
        mean, spread = loc, variance if diagonal else covariance
        if learn:
            mean = pyro.param("loc", loc)
            kind = constraints.positive if diagonal else constraints.positive_definite
            spread = pyro.param("spread", spread, constraint=kind)
        options: Any = {"variance": spread} if diagonal else {"covariance": spread}
        return logistic_normal("rules", mean, shape=BLOCK, **options)

    def model(words: Tensor) -> None:
        shared = None if per_sentence else draw()
        with pyro.plate("sentences", len(words)):
            weights = draw() if shared is None else shared
            pyro.sample("words", Sentence(GRAMMAR, {"rules": weights}), obs=words)

    return model


def log_z(sentence: int, log_weights: Tensor) -> Tensor:
    """By the list of the sentence's derivations."""
    return (COUNTS[sentence] @ log_weights).logsumexp(0)


def log_weighted(mean: Tensor, variance: Tensor) -> Tensor:
    """E[eta] - log E[sum of exp eta] of the rules of each left side (2008, appendix A)."""
    pieces = zip(mean.split(BLOCK.sizes, -1), variance.split(BLOCK.sizes, -1), strict=True)
    return torch.cat([m - (m + v / 2).logsumexp(-1, keepdim=True) for m, v in pieces], -1)


def bound(means: Tensor, variances: Tensor, loc: Tensor, spread: Tensor) -> Tensor:
    """The evidence lower bound with the best q(derivations), of q's (groups, R), a group for each sentence or one."""
    logs = log_weighted(means, variances)
    total = sum((log_z(i, logs[i if len(logs) > 1 else 0]) for i in range(len(SENTENCES))), start=torch.zeros(()))
    if spread.dim() == 1:
        return total - kl_divergence(Normal(means, variances.sqrt()), Normal(loc, spread.sqrt())).sum()
    q = MultivariateNormal(means, torch.diag_embed(variances))
    return total - kl_divergence(q, MultivariateNormal(loc, spread).expand(q.batch_shape)).sum()


def q_of(loop: VariationalEM) -> tuple[Tensor, Tensor]:
    """q's means and variances, shape (groups, R)."""
    problem: Any = loop._need_problem()
    q = problem.q.posteriors["rules.eta"]
    return torch.tensor(q.mean).reshape(-1, R), torch.tensor(q.variance).reshape(-1, R)


def present() -> tuple[Tensor, Tensor]:
    return pyro.param("loc").detach().clone(), pyro.param("spread").detach().clone()


CASES = pytest.mark.parametrize(
    ("diagonal", "per_sentence"), [(d, p) for d in (True, False) for p in (True, False)], ids=str
)


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("plate", [None, 4])
def test_draws_are_normalised_over_each_left_side(diagonal: bool, plate: int | None) -> None:
    loc, variance, covariance = start()
    options: Any = {"variance": variance} if diagonal else {"covariance": covariance}

    def model() -> Tensor:
        if plate is None:
            return logistic_normal("rules", loc, shape=BLOCK, **options)
        with pyro.plate("sentences", plate):
            return logistic_normal("rules", loc, shape=BLOCK, **options)

    trace: Any = poutine.trace(model).get_trace()
    eta, weights = trace.nodes["rules.eta"], trace.nodes["rules"]["value"]
    batch = () if plate is None else (plate,)
    assert weights.shape == (*batch, R) and eta["fn"].batch_shape == batch and eta["fn"].event_shape == (R,)
    torch.testing.assert_close(weights, softmaxes(eta["value"]))
    prior = Normal(loc, variance.sqrt()) if diagonal else MultivariateNormal(loc, covariance)
    assert float(trace.log_prob_sum()) == pytest.approx(float(prior.log_prob(eta["value"]).sum()), rel=1e-12)


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_model_of_the_papers(diagonal: bool) -> None:
    model = partial(ln_model, start=initial_experts(WORDS, GRAMMAR, diagonal=diagonal))
    trace: Any = poutine.trace(model).get_trace(WORDS, GRAMMAR)
    weights = trace.nodes["rules"]["value"]
    assert weights.shape == (len(WORDS), R)
    torch.testing.assert_close(weights, softmaxes(trace.nodes["rules.eta"]["value"]))
    assert pyro.param(f"{'variance' if diagonal else 'covariance'}.rules").shape == ((R,) if diagonal else (R, R))
    drawn = Predictive(model, num_samples=3)(WORDS, GRAMMAR)
    assert drawn["rules"].shape == (3, len(WORDS), R)


# ---------------------------------------------------------------- variational EM


@CASES
def test_the_objective_is_the_bound(diagonal: bool, per_sentence: bool) -> None:
    loop = VariationalEM(model_of(diagonal, per_sentence))
    loop.step(WORDS)
    for _ in range(3):
        prior, before = present(), q_of(loop)
        objective = loop.step(WORDS)
        # Of what is drawn once, q moves after the bound was taken.
        q = q_of(loop) if per_sentence else before
        assert objective == pytest.approx(float(bound(*q, *prior)), rel=1e-10)


@CASES
def test_both_steps_end_where_the_bound_is_flat(diagonal: bool, per_sentence: bool) -> None:
    model = model_of(diagonal, per_sentence)
    loop = VariationalEM(model, e_step=EStep(1e-13, 500))
    for _ in range(1 if per_sentence else 2):
        prior = present() if pyro.get_param_store() else (start()[0], start()[1 if diagonal else 2])
        loop.step(WORDS)
    mean, log_variance = (t.clone() for t in q_of(loop))
    log_variance = log_variance.log()
    if per_sentence:
        leaves = [mean.requires_grad_(), log_variance.requires_grad_()]
        gradients = torch.autograd.grad(bound(mean, log_variance.exp(), *prior), leaves)
        for gradient in gradients:
            torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=2e-5)
    learnt = [tensor.requires_grad_() for tensor in present()]
    value = bound(mean.detach(), log_variance.detach().exp(), *learnt)
    for gradient in torch.autograd.grad(value, learnt):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)


@CASES
def test_the_bound_never_falls(diagonal: bool, per_sentence: bool) -> None:
    loop = VariationalEM(model_of(diagonal, per_sentence))
    for _ in range(20):
        loop.step(WORDS)
    gains = torch.tensor(loop.history).diff()
    assert float(gains.min()) >= -1e-9 and float(gains.max()) > 1e-3
    expected = softmaxes(pyro.param("loc").detach() if per_sentence else q_of(loop)[0][0])
    torch.testing.assert_close(loop.weights()["rules"], expected)


def test_a_prior_without_spread_is_a_fixed_grammar() -> None:
    loc = start()[0]

    def model(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            weights = logistic_normal("rules", loc, variance=1e-12, shape=BLOCK)
            pyro.sample("words", Sentence(GRAMMAR, {"rules": weights}), obs=words)

    loop = VariationalEM(model)
    expected = sum(float(log_z(i, softmaxes(loc).log())) for i in range(len(SENTENCES)))
    assert loop.step(WORDS) == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(loop.weights()["rules"], softmaxes(loc))


def test_initial_weights_set_q_and_the_means() -> None:
    weights = BLOCK.normalize(torch.arange(1.0, R + 1))
    loop = VariationalEM(
        partial(ln_model, start=initial_experts(WORDS, GRAMMAR, diagonal=True)), initial_weights={"rules": weights}
    )
    loop._read((WORDS, GRAMMAR), {})
    torch.testing.assert_close(loop.weights()["rules"], weights, rtol=1e-3, atol=0)


class FlatDMV(DMV):
    """A DMV whose stop decisions lie one after the other: the same grammar, packed."""

    @property
    def blocks(self) -> dict[str, Block]:
        count = super().blocks["stop"].shape[:-1].numel()
        return {**super().blocks, "stop": PackedBlock(torch.Size([2 * count]), (2,) * count)}

    def log_partition(self, log_weights: Any, words: Tensor) -> Tensor:
        plain = DMV(self.num_tags)
        stop = log_weights["stop"].unflatten(-1, plain.blocks["stop"].shape)
        return plain.log_partition({**log_weights, "stop": stop}, words)

    expected_counts = Grammar.expected_counts
    sentence_multinomials = Grammar.sentence_multinomials


@pytest.mark.parametrize("per_sentence", [True, False])
def test_packed_multinomials_of_equal_size_are_a_plain_block(per_sentence: bool) -> None:
    words = torch.tensor([[0, -1, -1], [1, 0, -1], [0, 1, 1], [1, 0, 0]])
    found = {}
    for grammar in (DMV(2), FlatDMV(2)):
        pyro.clear_param_store()
        weights = {n: w.reshape(grammar.blocks[n].shape) for n, w in DMV(2).initial_weights(words).items()}
        model = ln_model if per_sentence else corpus_ln_model
        experts = initial_experts(words, grammar, weights, diagonal=True)
        loop = VariationalEM(model).run(words, grammar, start=experts, num_steps=8, tolerance=0, progress=False)
        found[type(grammar)] = loop.history, loop.weights()["stop"].flatten()
    assert found[FlatDMV][0] == pytest.approx(found[DMV][0], rel=1e-9)
    torch.testing.assert_close(found[FlatDMV][1], found[DMV][1])


# ---------------------------------------------------------------- shared experts


def two_grammars_in_one(extra: tuple[int, ...]) -> PartitionStructure:
    """Two packed blocks that share an expert, besides one of their own each."""
    blocks = {"x": PackedBlock(torch.Size([6]), (1, 3, 2)), "y": PackedBlock(torch.Size([6]), extra)}
    families = {name: Experts(torch.Size([6])) for name in ("x", "y", "both")}
    links = {name: [Link(name, torch.tensor(0)), Link("both", torch.tensor(0))] for name in blocks}
    return PartitionStructure(blocks, families, links)


def test_parts_are_what_no_multinomial_crosses() -> None:
    structure = two_grammars_in_one((4, 2))
    assert parts_of(structure, "x") == (1, 3, 2) and parts_of(structure, "y") == (4, 2)
    assert parts_of(structure, "both") == (4, 2)
    assert parts_of(two_grammars_in_one((3, 3)), "both") == (6,)
    tied = PartitionStructure(
        {"x": (2, 2)}, {"e": Experts(torch.Size([4]), ((0, 2), (2, 4)))},
        {"x": [Link("e", torch.tensor([0, -1])), Link("e", torch.tensor([-1, 0]), 1)]},
    )  # fmt: skip
    assert parts_of(tied, "e") == (4,)


@pytest.mark.parametrize("diagonal", [True, False])
def test_two_experts_for_every_multinomial(diagonal: bool) -> None:
    """The bound of their mean, by hand; below that of one expert, for mean field takes them for independent."""
    twice = PartitionStructure(
        {"rules": BLOCK},
        {name: Experts(BLOCK.shape) for name in ("rules", "other")},
        {"rules": [Link("rules", torch.tensor(0)), Link("other", torch.tensor(0))]},
    )
    loc, variance, covariance = start()
    spread: dict[str, Tensor] = {"variance": variance} if diagonal else {"covariance": covariance}
    doubled = {name: Gaussian(loc, **{kind: 2 * s for kind, s in spread.items()}) for name in twice.experts}
    tight: Any = {"e_step": EStep(1e-13, 500)}
    model = partial(shared_model, grammar=GRAMMAR, structure=twice, prior=doubled)
    loop = VariationalEM(model, **tight)
    objective = loop.step(WORDS)
    problem: Any = loop._need_problem()
    (q,) = problem.q.posteriors.values()
    means, variances = (torch.tensor(x).reshape(-1, 2, R) for x in (q.mean, q.variance))  # sentence, family, rule
    logs = log_weighted(means.mean(1), variances.sum(1) / 4)
    expected = sum((log_z(i, logs[i]) for i in range(len(SENTENCES))), start=torch.zeros(()))
    for prior in (doubled["rules"], doubled["other"]):
        own = means[:, 0], variances[:, 0]
        means, variances = means[:, 1:], variances[:, 1:]
        if prior.variance is not None:
            expected = expected - kl_divergence(Normal(own[0], own[1].sqrt()), Normal(loc, prior.variance.sqrt())).sum()
        else:
            theirs = MultivariateNormal(own[0], torch.diag_embed(own[1]))
            assert prior.covariance is not None
            mine = MultivariateNormal(loc, prior.covariance).expand(theirs.batch_shape)
            expected = expected - kl_divergence(theirs, mine).sum()
    assert objective == pytest.approx(float(expected), rel=1e-10)
    assert objective <= VariationalEM(model_of(diagonal, per_sentence=True, learn=False), **tight).step(WORDS) + 1e-9


# ---------------------------------------------------------------- Pyro's own inference


@pytest.mark.parametrize("per_sentence", [True, False])
def test_the_exact_loss_is_minus_the_bound(per_sentence: bool) -> None:
    for diagonal in (True, False):
        pyro.clear_param_store()
        model = model_of(diagonal, per_sentence, learn=False)
        guide = MeanFieldGaussian(model)
        guide(WORDS)
        loc, scale = guide.locs.rules.eta.detach(), guide.scales.rules.eta.detach()
        expected = bound(loc.reshape(-1, R), scale.reshape(-1, R) ** 2, start()[0], start()[1 if diagonal else 2])
        assert TraceGrammar_ELBO().loss(model, guide, WORDS) == pytest.approx(-float(expected), rel=1e-10)


def test_svi_reaches_the_bound(one_thread: None) -> None:
    model = model_of(diagonal=True, per_sentence=True, learn=False)
    best = VariationalEM(model, e_step=EStep(1e-13, 500)).step(WORDS)
    svi = SVI(model, MeanFieldGaussian(model), ClippedAdam({"lr": 0.1, "lrd": 0.96}), TraceGrammar_ELBO())
    for _ in range(100):
        svi.step(WORDS)
    assert -svi.evaluate_loss(WORDS) == pytest.approx(best, abs=1e-3)


@pytest.mark.slow
def test_nuts_and_sampled_bounds(one_thread: None) -> None:
    """The posterior mean of the weights of one draw for all, by importance sampling from the prior."""
    model = model_of(diagonal=True, per_sentence=False, learn=False)
    loc, variance, _ = start()
    draws = softmaxes(loc + variance.sqrt() * torch.randn(100_000, R))
    logs = sum((torch.einsum("dr,tr->dt", draws.log(), c).logsumexp(-1) for c in COUNTS), start=torch.zeros(()))
    expected = logs.softmax(0) @ draws
    mcmc = MCMC(NUTS(model, max_tree_depth=5), num_samples=400, warmup_steps=100, disable_progbar=True)
    mcmc.run(WORDS)
    torch.testing.assert_close(softmaxes(mcmc.get_samples()["rules.eta"]).mean(0), expected, rtol=0, atol=0.05)
    svi = SVI(model, MeanFieldGaussian(model), ClippedAdam({"lr": 0.05}), Trace_ELBO())
    assert all(math.isfinite(svi.step(WORDS)) for _ in range(3))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (CollapsedVB, "block 'rules' .* has the batch shape .*VariationalEM"),
        (TreeHastings, "sentences of site .* use TreeGibbs"),
    ],
)
def test_loops_of_dirichlets_refuse_it_by_name(loop: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        loop(model_of(diagonal=True, per_sentence=True)).run(WORDS, progress=False)


def test_one_softmax_for_all_rules_is_refused() -> None:
    """By the weights' sums where they are validated, by the loop where they are not."""

    def model(validate_args: bool) -> None:
        weights = logistic_normal("rules", torch.zeros(R), variance=1.0)
        pyro.sample("words", Sentence(GRAMMAR, {"rules": weights}, validate_args=validate_args), obs=WORDS[0])

    with pytest.raises(ValueError, match="weights must sum to one .* multinomial 0 of block 'rules' sums to"):
        VariationalEM(model).step(True)
    with pytest.raises(
        ModelError, match=r"needs a logistic normal for each multinomial of block 'rules' .* shape=gram"
    ):
        VariationalEM(model).step(False)
