# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational EM with (shared) logistic normals, against enumeration, autograd and quadrature."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.gaussian_sums import bound, dense, log_evidence, random_start, tree_sum
from infer.small_corpora import padded
from infer.tree_sums import Corpus
from pyro.contrib.autoname import scope
from pyro.infer import SVI
from pyro.optim import ClippedAdam
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Gaussian, Sentence, logistic_normal, shared_logistic_normal
from pyrogram.distributions.partition import PartitionStructure
from pyrogram.grammars.tying import tie
from pyrogram.guides import MeanFieldGaussian
from pyrogram.infer import CollapsedVB, EStep, ModelError, TraceGrammar_ELBO, VariationalEM
from pyrogram.models import initial_tied_experts
from pyrogram.models.shared_logistic_normal import shared_logistic_normal as shared_model

TWO: Corpus = [[0], [1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]]
THREE: Corpus = [[0, 2], [2, 0, 2], [0, 2, 2, 0], [1]]
CORPORA = {"two tags": (2, TWO), "three tags": (3, THREE), "one tag": (1, [[0], [0, 0], [0, 0, 0]])}


def model_of(
    grammar: DMV,
    seed: int,
    *,
    diagonal: bool = False,
    learn: bool = True,
    per_sentence: bool = True,
    only: tuple[str, ...] = ("root", "attach", "stop"),
) -> Callable[[Tensor], None]:
    """Logistic normals for the blocks in ``only``; of the others root is a parameter, the rest are Dirichlets."""
    locs, covariances, variances = random_start(grammar, seed)

    def draw(name: str) -> Tensor:
        loc, matrix = locs[name], variances[name] if diagonal else covariances[name]
        if learn:
            loc = pyro.param(f"loc.{name}", loc)
            constraint = constraints.positive if diagonal else constraints.positive_definite
            matrix = pyro.param(f"spread.{name}", matrix, constraint=constraint)
        return logistic_normal(name, loc, variance=matrix) if diagonal else logistic_normal(name, loc, matrix)

    def model(words: Tensor) -> None:
        weights = {}
        for name, block in grammar.blocks.items():
            if name == "root" and name not in only:
                weights[name] = pyro.param("root", torch.ones(block.shape) / len(locs[name]), constraints.simplex)
            elif name not in only:
                weights[name] = pyro.sample(
                    name, dist.Dirichlet(torch.full(block.shape, 0.7)).to_event(block.batch_dim)
                )
            elif not per_sentence:
                weights[name] = draw(name)
        with pyro.plate("sentences", len(words)):
            for name in only if per_sentence else ():
                weights[name] = draw(name)
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    return model


def priors(loop: VariationalEM) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Means and spreads by Gaussian site at the parameters' present values."""
    problem: Any
    problem, _ = loop._present()
    locs, spreads = {}, {}
    for name, prior in problem.prior(problem.traced.parameter_values()).items():
        if isinstance(prior, Gaussian):
            locs[name] = prior.loc.clone()
            spread = prior.variance if prior.covariance is None else prior.covariance
            assert spread is not None
            spreads[name] = spread.clone()
    return locs, spreads


def by_family(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removesuffix(".eta"): tensor for name, tensor in tensors.items()}


def tight(model: Callable[..., None], **options: Any) -> VariationalEM:
    """With an E-step that goes on until nothing is gained."""
    return VariationalEM(model, e_step=EStep(1e-13, 500), **options)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("per_sentence", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_objective_is_the_bound(corpus: str, diagonal: bool, per_sentence: bool) -> None:
    V, sentences = CORPORA[corpus]
    grammar = DMV(V)
    loop = VariationalEM(model_of(grammar, V, diagonal=diagonal, per_sentence=per_sentence))
    loop.step(padded(sentences))
    for _ in range(3):
        locs, spreads = map(by_family, priors(loop))
        before = dense(loop)
        objective = loop.step(padded(sentences))
        # Of what is drawn once, q moves after the bound was taken.
        means, variances = map(by_family, dense(loop) if per_sentence else before)
        expected = bound(sentences, PartitionStructure.untied(grammar.blocks), means, variances, locs, spreads)
        assert objective == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_e_step_ends_where_the_bound_is_flat(corpus: str, diagonal: bool) -> None:
    V, sentences = CORPORA[corpus]
    grammar = DMV(V)
    loop = tight(model_of(grammar, V + 5, diagonal=diagonal, learn=False))
    loop.step(padded(sentences))
    locs, spreads = map(by_family, priors(loop))
    means, variances = map(by_family, dense(loop))
    leaves = {name: m.clone().requires_grad_() for name, m in means.items()}
    logs = {name: v.log().clone().requires_grad_() for name, v in variances.items()}
    structure = PartitionStructure.untied(grammar.blocks)
    value = bound(sentences, structure, leaves, {n: v.exp() for n, v in logs.items()}, locs, spreads)
    for gradient in torch.autograd.grad(value, [*leaves.values(), *logs.values()]):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=2e-5)


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_m_step_ends_where_the_bound_is_flat(diagonal: bool) -> None:
    V, sentences = CORPORA["three tags"]
    grammar = DMV(V)
    loop = VariationalEM(model_of(grammar, 3, diagonal=diagonal))
    loop.step(padded(sentences))
    locs, spreads = map(by_family, priors(loop))
    means, variances = map(by_family, dense(loop))  # absent experts as in the E-step, at the prior before
    leaves = [t.requires_grad_() for t in (*locs.values(), *spreads.values())]
    value = bound(sentences, PartitionStructure.untied(grammar.blocks), means, variances, locs, spreads)
    for gradient in torch.autograd.grad(value, leaves):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-8)


def test_averaging_over_the_sentences_with_the_head() -> None:
    sentences: Corpus = [[0, 0], [1], [1, 1], [0]]
    grammar, words = DMV(2), padded([[0, 0], [1], [1, 1], [0]])
    found = {}
    for averaging in ("all", "present"):
        pyro.clear_param_store()
        loop = VariationalEM(model_of(grammar, 1, diagonal=True), averaging=averaging)  # type: ignore[arg-type]
        before = random_start(grammar, 1)
        loop.step(words)
        means, variances = map(by_family, dense(loop))
        has_zero = torch.tensor([0 in sentence for sentence in sentences])
        for name in ("attach", "stop"):
            chosen = means[name][has_zero, 0] if averaging == "present" else means[name][:, 0]
            spread = variances[name][has_zero, 0] if averaging == "present" else variances[name][:, 0]
            mean = chosen.mean(0)
            torch.testing.assert_close(pyro.param(f"loc.{name}")[0].detach(), mean)
            second = ((chosen - mean) ** 2 + spread).mean(0)
            torch.testing.assert_close(pyro.param(f"spread.{name}")[0].detach(), second)
            if averaging == "all":
                assert torch.equal(means[name][1, 0], before[0][name][0])  # absent: at the prior
        found[averaging] = pyro.param("loc.stop").detach().clone()
    assert not torch.allclose(found["all"], found["present"])


KINDS: dict[str, dict[str, Any]] = {
    "diagonal": {"diagonal": True},
    "full": {},
    "once, diagonal": {"per_sentence": False, "diagonal": True},
    "once, full": {"per_sentence": False},
    "beside Dirichlets": {"only": ("attach",)},
    "beside a parameter": {"only": ("attach", "stop"), "diagonal": True},
    "once beside Dirichlets": {"only": ("stop",), "per_sentence": False},
    "fixed": {"learn": False},
}


@pytest.mark.one_in(14)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_never_falls(kind: str, seed: int) -> None:
    V, sentences = CORPORA["three tags"]
    loop = VariationalEM(model_of(DMV(V), seed, **KINDS[kind]))
    for _ in range(25):
        loop.step(padded(sentences))
    gains = torch.tensor(loop.history).diff()
    assert float(gains.min()) >= -1e-9
    assert kind == "fixed" or float(gains.max()) > 1e-3


def test_the_bound_never_falls_with_present_averaging_and_variances() -> None:
    V, sentences = CORPORA["three tags"]
    loop = VariationalEM(model_of(DMV(V), 7, diagonal=True), averaging="present")
    for _ in range(25):
        loop.step(padded(sentences))
    assert float(torch.tensor(loop.history).diff().min()) >= -1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_lies_below_the_evidence(seed: int) -> None:
    """By quadrature; and close, if variances are small: what is lost is of first order in them."""
    grammar = DMV(2)
    locs, _, variances = random_start(grammar, seed)
    losses = []
    for share in (1.0, 0.01):
        scaled = {name: share * v for name, v in variances.items()}

        def model(words: Tensor, scaled: dict[str, Tensor] = scaled) -> None:
            with pyro.plate("sentences", len(words)):
                weights = {name: logistic_normal(name, locs[name], variance=v) for name, v in scaled.items()}
                pyro.sample("words", Sentence(grammar, weights), obs=words)

        evidence = sum(log_evidence(sentence, locs, scaled) for sentence in TWO)
        losses.append(evidence - tight(model).step(padded(TWO)))
    assert 0 < losses[1] < 0.02 * losses[0]


def test_a_prior_without_spread_is_a_fixed_grammar() -> None:
    """LN with Sigma -> 0: the bound is the likelihood, and sentences agree with EM's E-step."""
    grammar, words = DMV(3), padded(THREE)
    locs, _, _ = random_start(grammar, 4)

    def model(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            weights = {n: logistic_normal(n, loc, variance=torch.full_like(loc, 1e-12)) for n, loc in locs.items()}
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    loop = VariationalEM(model)
    fixed = {name: loc.softmax(-1) for name, loc in locs.items()}
    expected = sum(float(tree_sum(sentence, {n: w.log() for n, w in fixed.items()})) for sentence in THREE)
    assert loop.step(words) == pytest.approx(expected, abs=1e-6)
    for name, weights in loop.weights().items():
        torch.testing.assert_close(weights, fixed[name])


def test_one_expert_for_each_multinomial_is_the_logistic_normal() -> None:
    grammar, words = DMV(3), padded(THREE)
    structure = PartitionStructure.untied(grammar.blocks)
    locs, covariances, _ = random_start(grammar, 2)

    def shared(words: Tensor) -> None:
        experts = {
            name: Gaussian(
                pyro.param(f"loc.{name}", locs[name]),
                pyro.param(f"spread.{name}", covariances[name], constraint=constraints.positive_definite),
            )
            for name in grammar.blocks
        }
        with pyro.plate("sentences", len(words)):
            weights = shared_logistic_normal("theta", experts, structure)
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    plain = VariationalEM(model_of(grammar, 2)).run(words, num_steps=6, tolerance=0, progress=False)
    pyro.clear_param_store()
    mixed = VariationalEM(shared).run(words, num_steps=6, tolerance=0, progress=False)
    assert mixed.history == pytest.approx(plain.history, rel=1e-9)
    for name, weights in plain.weights().items():
        torch.testing.assert_close(mixed.weights()[name], weights, rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
def test_shared_experts(diagonal: bool, covariance: bool) -> None:
    """The bound by enumeration, flat after the E-step, never falling: TieV&N over three tags."""
    grammar, words = DMV(3), padded(THREE)
    structure = tie(grammar, ["verb", "verb", "noun"], "V&N", covariance=covariance)

    def model(words: Tensor) -> None:
        start = initial_tied_experts(words, grammar, structure, diagonal=diagonal)
        shared_model(words, grammar, structure, start=start)

    loop = tight(model)
    loop.step(words)
    for _ in range(2):
        locs, spreads = (named(found, "weights.") for found in priors(loop))
        objective = loop.step(words)
        means, variances = (named(found, "weights.") for found in dense(loop))
        leaves = {name: m.clone().requires_grad_() for name, m in means.items()}
        logs = {name: v.log().clone().requires_grad_() for name, v in variances.items()}
        value = bound(THREE, structure, leaves, {n: v.exp() for n, v in logs.items()}, locs, spreads)
        assert objective == pytest.approx(float(value.detach()), rel=1e-10)
        for gradient in torch.autograd.grad(value, [*leaves.values(), *logs.values()]):
            torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=5e-5)
    for _ in range(10):
        loop.step(words)
    assert float(torch.tensor(loop.history).diff().min()) >= -1e-9


def named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix).removesuffix(".eta"): t for name, t in tensors.items()}


def test_priors_computed_from_parameters() -> None:
    """A low-rank covariance and a mean that all heads share: by L-BFGS; the bound never falls, and they move."""
    grammar, words = DMV(3), padded(THREE)
    locs, _, _ = random_start(grammar, 9)

    def model(words: Tensor) -> None:
        weights = {}
        with pyro.plate("sentences", len(words)):
            for name, block in grammar.blocks.items():
                factor = pyro.param(f"factor.{name}", 0.3 * locs[name][..., None])
                noise = pyro.param(f"noise.{name}", torch.tensor(0.5), constraint=constraints.positive)
                covariance = factor @ factor.mT + noise * torch.eye(block.shape[-1])
                loc = pyro.param(f"loc.{name}", torch.zeros(block.shape[-1]))
                weights[name] = logistic_normal(name, loc, covariance, shape=block.shape)
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    loop = VariationalEM(model)
    for _ in range(8):
        loop.step(words)
    assert float(torch.tensor(loop.history).diff().min()) >= -1e-7
    assert loop.history[-1] > loop.history[0] + 0.5
    assert float(pyro.param("loc.stop").detach().abs().max()) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("per_sentence", [True, False])
def test_svi_reaches_the_bound(per_sentence: bool) -> None:
    """The exact bound by gradient steps: no higher than coordinate ascent, and as high in the end."""
    grammar, words = DMV(2), padded(TWO)
    model = model_of(grammar, 6, learn=False, per_sentence=per_sentence)
    loop = tight(model).run(words, num_steps=1 if per_sentence else 300, tolerance=0, progress=False)
    guide = MeanFieldGaussian(model)
    elbo = TraceGrammar_ELBO()
    svi = SVI(model, guide, ClippedAdam({"lr": 0.03, "lrd": 0.997}), elbo)
    for _ in range(1200):
        svi.step(words)
    assert -elbo.loss(model, guide, words) == pytest.approx(loop.history[-1], abs=2e-4)
    assert -elbo.loss(model, guide, words) <= loop.history[-1] + 1e-7


def test_the_exact_loss_is_minus_the_bound_of_shared_experts() -> None:
    grammar, words = DMV(3), padded(THREE)
    structure = tie(grammar, ["verb", "verb", "noun"], "V")

    def model(words: Tensor) -> None:
        shared_model(words, grammar, structure, prior=initial_tied_experts(words, grammar, structure))

    loop = VariationalEM(model)
    objective = loop.step(words)
    guide = MeanFieldGaussian(model)
    elbo = TraceGrammar_ELBO()
    elbo.loss(model, guide, words)
    means, variances = dense(loop)
    with torch.no_grad():
        for name in means:
            place = name.split(".")
            loc, scale = guide.locs, guide.scales
            for part in place[:-1]:
                loc, scale = getattr(loc, part), getattr(scale, part)
            setattr(loc, place[-1], means[name])
            setattr(scale, place[-1], variances[name].sqrt())
    assert -elbo.loss(model, guide, words) == pytest.approx(objective, rel=1e-10)


def test_two_languages_share_means_and_covariances() -> None:
    """Pooled: the mean over the sentences of both plates."""
    grammar = DMV(2)
    corpora = {"a": padded(TWO), "b": padded([[0, 1], [1]])}
    locs, covariances, _ = random_start(grammar, 8)

    def model() -> None:
        for language, words in corpora.items():
            weights = {}
            with pyro.plate(f"{language}.sentences", len(words)):
                for name in grammar.blocks:
                    loc = pyro.param(f"loc.{name}", locs[name])
                    matrix = pyro.param(f"m.{name}", covariances[name], constraint=constraints.positive_definite)
                    weights[name] = logistic_normal(f"{language}.{name}", loc, matrix)
                pyro.sample(f"{language}.words", Sentence(grammar, weights), obs=words)

    both = VariationalEM(model)
    for _ in range(8):
        both.step()
    assert float(torch.tensor(both.history).diff().min()) >= -1e-9
    pyro.clear_param_store()
    one = VariationalEM(model_of(grammar, 8)).run(padded([*TWO, [0, 1], [1]]), num_steps=8, tolerance=0, progress=False)
    # The same sentences in one plate; parameters that are not shared would differ.
    assert both.history == pytest.approx(one.history, rel=1e-8)


def test_a_resumed_run_gives_the_same_numbers(tmp_path: Path) -> None:
    words = padded(THREE)

    def run(path: Path | None, steps: int) -> VariationalEM:
        pyro.clear_param_store()
        loop = VariationalEM(model_of(DMV(3), 1))
        options = {"num_steps": steps, "tolerance": 0.0, "progress": False, "held_out": words, "patience": 100}
        return loop.run(words, **options, checkpoint=path, checkpoint_every=3)

    whole = run(None, 10)
    path = tmp_path / "state.safetensors"
    run(path, 6)
    resumed = run(path, 10)
    assert resumed.history == whole.history
    assert resumed.held_out_history == whole.held_out_history
    for name, weights in whole.weights().items():
        assert torch.equal(resumed.weights()[name], weights)


@pytest.mark.parametrize("estimate", ["softmax", "exp"])
def test_point_estimates(estimate: Literal["softmax", "exp"]) -> None:
    loop = VariationalEM(model_of(DMV(2), 3), point_estimate=estimate)
    loop.step(padded(TWO))
    for name, weights in loop.weights().items():
        mean = pyro.param(f"loc.{name}").detach()
        torch.testing.assert_close(weights, mean.exp() if estimate == "exp" else mean.softmax(-1))


def test_initial_weights_set_q_and_the_means() -> None:
    grammar, words = DMV(2), padded(TWO)
    start = grammar.initial_weights(words, "random", seed=3)
    loop = VariationalEM(model_of(grammar, 3, diagonal=True), initial_weights=start)
    loop._read((words,), {})
    for name, weights in loop.weights().items():
        torch.testing.assert_close(weights, start[name], rtol=1e-2, atol=1e-3)


def test_initial_weights_of_shared_experts() -> None:
    """One to three experts a multinomial; own experts take up the weights that are given, whatever the others are."""
    grammar, words = DMV(3), padded(THREE)
    structure = tie(grammar, ["verb", "verb", "noun"], "V")
    assert len(structure.sizes("attach").unique()) > 1
    generator = torch.Generator().manual_seed(1)
    means = {f: torch.randn(experts.shape, generator=generator) for f, experts in structure.experts.items()}
    start = {f: Gaussian(mean, torch.eye(mean.shape[-1]).expand(*mean.shape, -1)) for f, mean in means.items()}
    given = grammar.initial_weights(words, "random", seed=3)

    def model(words: Tensor) -> None:
        shared_model(words, grammar, structure, start=start)

    loop = VariationalEM(model, initial_weights=given)
    loop._read((words,), {})
    for name, weights in loop.weights().items():
        torch.testing.assert_close(weights, given[name], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("diagonal", "num_steps"),
    [(False, 100), *(pytest.param(x, 400, marks=pytest.mark.slow) for x in (False, True))],
)
def test_long_runs_stay_finite(diagonal: bool, num_steps: int) -> None:
    """Variances that shrink to nothing, means that run away: no NaN, and no fall."""
    loop = VariationalEM(model_of(DMV(2), 5, diagonal=diagonal, per_sentence=False))
    loop.run(padded([[0, 0], [0]]), num_steps=num_steps, tolerance=0, progress=False)
    history = torch.tensor(loop.history)
    assert bool(history.isfinite().all())
    assert float(history.diff().min()) >= -1e-6 * float(history.abs().max())
    assert all(bool(w.isfinite().all()) for w in loop.weights().values())


@pytest.mark.parametrize("per_sentence", [True, False])
def test_other_observed_sites_are_part_of_the_bound(per_sentence: bool) -> None:
    words, found = padded(TWO), []
    for other in (-30.0, 0.0):
        pyro.clear_param_store()
        plain = model_of(DMV(2), 1, per_sentence=per_sentence)

        def model(words: Tensor, other: float = other, plain: Callable[[Tensor], None] = plain) -> None:
            pyro.factor("other", torch.tensor(other))
            plain(words)

        loop = VariationalEM(model).run(words, num_steps=3, tolerance=0.0, progress=False)
        assert set(loop.plan(words)["words"].values()) == {"Newton's method"}
        found.append(torch.tensor([*loop.history, loop.marginal_bound(4)[0]]))
    torch.testing.assert_close(found[0], found[1] - 30)


def test_draws_from_q_come_in_the_order_of_the_blocks() -> None:
    """That of a set of names is another one in another process, and so would the draws of a seed be."""
    words, names = padded(TWO), [f"block {i}" for i in range(12)]

    def model(words: Tensor) -> None:
        for i, name in enumerate(names):
            weights = {n: logistic_normal(f"{n} of {name}", loc, torch.eye(2)) for n, loc in zeros.items()}
            pyro.sample(f"words {i}", Sentence(grammar, weights).expand([len(words)]).to_event(1), obs=words)

    grammar = DMV(2)
    zeros = {name: torch.zeros(block.shape) for name, block in grammar.blocks.items()}
    loop = VariationalEM(model)
    loop.step(words)
    assert list(loop.posterior()) == [f"{block} of {name}.eta" for name in names for block in grammar.blocks]


def test_refusals() -> None:
    words = padded(TWO)

    def chained(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            root = logistic_normal("root", torch.zeros(2), torch.eye(2))
            loc = root[:, None, None, :] + torch.zeros(2, 2, 2)
            weights = {"root": root, "attach": logistic_normal("attach", loc, torch.eye(2), shape=(2, 2, 2))}
            weights["stop"] = logistic_normal("stop", torch.zeros(2, 2, 2, 2), torch.eye(2))
            pyro.sample("words", Sentence(DMV(2), weights), obs=words)

    def unused(words: Tensor) -> None:
        logistic_normal("spare", torch.zeros(2), torch.eye(2))
        model_of(DMV(2), 1)(words)

    renamed = scope(model_of(DMV(2), 1), prefix="a")
    for model in (chained, unused, renamed):  # which a guide draws
        with pytest.raises(ModelError, match="block 'root' of site '.*words' has the batch shape"):
            CollapsedVB(model).step(words)
    for model in (chained, unused):
        assert math.isfinite(VariationalEM(model, guide_steps=2).run(words, num_steps=2, progress=False).history[-1])
    with pytest.raises(ValueError, match="averaging must be"):
        VariationalEM(unused, averaging="some")  # type: ignore[arg-type]
