# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the loops read in a Pyro model, and what they refuse: by the site's name, saying what can."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.nn import PyroModule, PyroParam, PyroSample
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights
from pyrogram.infer import EM, CollapsedVB, ModelError, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.infer.model.reading import read
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

WORDS = torch.tensor([[0, 1, -1], [1, 0, 1], [0, -1, -1]])
GRAMMAR = DMV(2)


def priors(alpha: Any = 1.5, omit: str = "") -> Weights:
    return {
        name: pyro.sample(name, dist.Dirichlet(alpha * torch.ones(block.shape)).to_event(block.batch_dim))
        for name, block in GRAMMAR.blocks.items()
        if name != omit
    }


def observe(weights: Weights, **plate: Any) -> None:
    with pyro.plate("sentences", len(WORDS), **plate) as i:
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS[i])


def uniform(name: str) -> Tensor:
    return GRAMMAR.blocks[name].uniform(torch.ones(()))


# ---------------------------------------------------------------------- refused where there is no closed form


def softmax_of_a_param() -> None:
    weights = priors(omit="root")
    observe({**weights, "root": pyro.param("logits", torch.zeros(2)).softmax(-1)})


def softmaxes() -> None:
    logits = {name: pyro.param(name, torch.zeros(block.shape)) for name, block in GRAMMAR.blocks.items()}
    observe({name: x.softmax(-1) for name, x in logits.items()})


def softmax_by_deterministic() -> None:
    weights = priors(omit="root")
    logits = pyro.param("logits", torch.zeros(2))
    observe({**weights, "root": pyro.deterministic("root", logits.softmax(-1), event_dim=1)})


def smoothed_dirichlet() -> None:
    weights = priors()
    observe({**weights, "stop": 0.9 * weights["stop"] + 0.05})


def gamma_hyperprior() -> None:
    observe(priors(pyro.sample("alpha", dist.Gamma(1.0, 1.0))))


def logistic_normal() -> None:
    eta = pyro.sample("eta", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    observe({**priors(omit="root"), "root": eta.softmax(-1)})


def observed_number() -> None:
    observe(priors())
    pyro.sample("height", dist.Normal(0.0, 1.0), obs=torch.tensor(0.3))


def factor() -> None:
    observe(priors())
    pyro.factor("penalty", torch.tensor(-1.0))


def weights_in_the_plate() -> None:
    weights = priors(omit="root")
    with pyro.plate("sentences", len(WORDS)):
        root = pyro.sample("root", dist.Dirichlet(torch.ones(2)))
        pyro.sample("words", Sentence(GRAMMAR, {**weights, "root": root}), obs=WORDS)


def subsampled() -> None:
    observe(priors(), subsample_size=2)


def given_subsample() -> None:
    observe(priors(), subsample=torch.tensor([0, 2]))


def scaled() -> None:
    with poutine.scale(scale=0.5):
        observe(priors())


def tempered_prior() -> None:
    with poutine.scale(scale=0.5):
        weights = priors()
    observe(weights)


def masked_sentences() -> None:
    weights = priors()
    with pyro.plate("sentences", len(WORDS)), poutine.mask(mask=torch.tensor([True, False, True])):
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def masked_prior() -> None:
    with poutine.mask(mask=False):
        weights = priors()
    observe(weights)


def mask_of_a_distribution() -> None:
    weights = priors()
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("words", Sentence(GRAMMAR, weights).mask(False), obs=WORDS)


def unused_param() -> None:
    pyro.param("spare", torch.tensor(1.0))
    observe(priors())


def unused_beside_a_learnt_prior() -> None:
    pyro.param("spare", torch.tensor(1.0))
    observe(priors(pyro.param("alpha", torch.tensor(2.0), constraint=constraints.positive)))


def unused_dirichlet() -> None:
    pyro.sample("spare", dist.Dirichlet(torch.ones(3)))
    observe(priors())


def unconstrained_param() -> None:
    observe({**priors(omit="root"), "root": pyro.param("root", torch.ones(2) / 2)})


def positive_param() -> None:
    observe({**priors(omit="root"), "root": pyro.param("root", torch.ones(2) / 2, constraint=constraints.positive)})


def nothing_observed() -> None:
    with pyro.plate("sentences", 2):
        pyro.sample("words", Sentence(GRAMMAR, priors()))


def no_sentence() -> None:
    priors()


def hierarchical_dirichlet() -> None:
    weights = priors(omit="attach")
    weights["attach"] = pyro.sample("attach", dist.Dirichlet(3 * weights["root"].expand(2, 2, 2)).to_event(2))
    observe(weights)


def prior_around_a_learnt_block() -> None:
    root = pyro.param("root", torch.ones(2) / 2, constraint=constraints.simplex)
    attach = pyro.sample("attach", dist.Dirichlet(3 * root.expand(2, 2, 2)).to_event(2))
    stop = pyro.sample("stop", dist.Dirichlet(torch.ones(2, 2, 2, 2)).to_event(3))
    observe({"root": root, "attach": attach, "stop": stop})


def gradient_from_elsewhere() -> None:
    observe(priors(torch.tensor(2.0, requires_grad=True)))


# By every loop.
REFUSED: list[tuple[Callable[[], None], str]] = [
    (subsampled, r"site 'words' is in a subsampled plate"),
    (given_subsample, r"site 'words' is in a subsampled plate"),
    (
        mask_of_a_distribution,
        r"cannot see through the mask of site 'words'; leave sentences out by `with pyro.poutine.mask",
    ),
    (nothing_observed, r"no observed Sentence site"),
    (no_sentence, r"no observed Sentence site"),
    (gradient_from_elsewhere, r"cannot learn what the density of site 'root' depends on.*make it a pyro.param"),
]
# Unless densities are those of unconstrained coordinates.
REFUSED_BY_EM: list[tuple[Callable[[], None], str]] = [
    (
        gamma_hyperprior,
        r"cannot learn the concentration of Dirichlet site 'root'.*has a prior, EM\(unconstrained=True\)",
    ),
    (unused_beside_a_learnt_prior, r"cannot learn the concentration of Dirichlet site 'root'"),
    (hierarchical_dirichlet, r"cannot learn the concentration of Dirichlet site 'attach'"),
    (prior_around_a_learnt_block, r"cannot learn the concentration of Dirichlet site 'attach'"),
]
REFUSED_BY_COLLAPSED_VB: list[tuple[Callable[[], None], str]] = [
    (weights_in_the_plate, r"block 'root' of site 'words' has the batch shape \(3,\).*VariationalEM.*SVI.* can"),
    (softmaxes, r"block '\w+' of site 'words' to be made of entries of .* computed from pyro.param.*SVI.* can"),
    (scaled, r"site 'root', which is scaled or masked; VariationalEM can"),
    (tempered_prior, r"site 'root', which is scaled or masked; VariationalEM can"),
    (masked_prior, r"site 'root', which is scaled or masked; VariationalEM can"),
]
# No closed form, but a gradient.
TAKEN = [
    *(softmax_of_a_param, softmax_by_deterministic, softmaxes, smoothed_dirichlet, gamma_hyperprior, logistic_normal),
    *(observed_number, factor, weights_in_the_plate, scaled, tempered_prior, masked_sentences, masked_prior),
    *(unused_param, unused_beside_a_learnt_prior, unused_dirichlet, unconstrained_param, positive_param),
    *(hierarchical_dirichlet, prior_around_a_learnt_block),
]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("model", TAKEN, ids=[model.__name__ for model in TAKEN])
def test_taken_by_gradient(model: Callable[[], None]) -> None:
    loop = EM(model, unconstrained=model in [other for other, _ in REFUSED_BY_EM]).run(num_steps=4, progress=False)
    assert all(math.isfinite(x) for x in loop.history[1:])
    assert all(b >= a - 1e-5 for a, b in itertools.pairwise(loop.history))
    others = [VariationalEM] + [CollapsedVB] * (model not in [other for other, _ in REFUSED_BY_COLLAPSED_VB])
    for other in others:
        history = other(model).run(num_steps=3, progress=False).history
        assert all(math.isfinite(x) for x in history[1:])


@pytest.mark.parametrize(
    ("model", "message", "loop"),
    [(*case, loop) for case in REFUSED for loop in (EM, VariationalEM, CollapsedVB)]
    + [(*case, EM) for case in REFUSED_BY_EM]
    + [(*case, CollapsedVB) for case in REFUSED_BY_COLLAPSED_VB],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_refused_by_name(model: Callable[[], None], message: str, loop: Any) -> None:
    learner = loop(model)
    with pytest.raises(ModelError, match=message) as caught:
        learner.step()
    assert str(caught.value).startswith(loop.__name__)
    assert "\n" not in str(caught.value)
    # A refusal leaves nothing behind.
    assert learner.history == []
    with pytest.raises(RuntimeError, match="no weights yet; call step or run first"):
        learner.weights()


def test_em_refuses_what_has_no_mode() -> None:
    with pytest.raises(
        ModelError, match=r"at least 1.*'root' goes down to 0\.25; use EM.unconstrained=True., or VariationalEM"
    ):
        EM(dirichlet).step(WORDS, GRAMMAR)
    with pytest.raises(
        ModelError, match="cannot learn the concentration of Dirichlet site 'root'.*or use VariationalEM"
    ):
        EM(dirichlet).step(WORDS, GRAMMAR, concentration=2.0, learn=True)
    EM(dirichlet).step(WORDS, GRAMMAR, concentration=1.0)


def test_the_cures_of_a_learnt_concentration() -> None:
    """A fixed one, variational EM, and of one with a prior its mode in unconstrained coordinates."""
    EM(dirichlet).run(WORDS, GRAMMAR, concentration=2.0, num_steps=3, progress=False)
    loop = VariationalEM(dirichlet).run(WORDS, GRAMMAR, concentration=2.0, learn=True, num_steps=3, progress=False)
    learnt = EM(gamma_hyperprior, unconstrained=True).run(num_steps=30, progress=False)
    assert learnt.stopped and all(bool(alpha.isfinite()) for alpha in learnt.latents().values() if alpha.dim() == 0)
    assert all(math.isfinite(x) for x in [*loop.history, *learnt.history[1:]])


@pytest.mark.parametrize("loop", [partial(EM, unconstrained=True), VariationalEM, CollapsedVB, TreeGibbs, TreeHastings])
def test_concentrations_of_zero(loop: Any) -> None:
    """Without validation Pyro takes them, and all would be NaN."""

    def model() -> None:
        zero = dist.Dirichlet(torch.tensor([0.5, 0.0]), validate_args=False)
        observe({**priors(omit="root"), "root": pyro.sample("root", zero)})

    with pyro.validation_enabled(False), pytest.raises(ModelError, match="positive .* of site 'root' goes down to 0;"):
        loop(model).step()


def test_model_error_is_a_not_implemented_error() -> None:
    assert issubclass(ModelError, NotImplementedError)


@pytest.mark.parametrize("loop", [EM, VariationalEM])
@pytest.mark.parametrize("wrong", [[[0, 1], [0, 2]], [[0, 1, 1], [0, -1, 1]], [[1], [-1]]])
def test_words_that_are_none(wrong: list[list[int]], loop: type[EM] | type[VariationalEM]) -> None:
    with pytest.raises(ValueError, match=r"words must be one or more of 0..1 .* but sentence 1 is \["):
        loop(dirichlet).step(torch.tensor(wrong), GRAMMAR, concentration=1.0)


# ---------------------------------------------------------------------- accepted, and the same


def in_plates() -> None:
    """Multinomials declared by plates instead of to_event."""
    root = pyro.sample("root", dist.Dirichlet(1.5 * torch.ones(2)))
    with pyro.plate("heads", 2, dim=-2), pyro.plate("directions", 2, dim=-1):
        attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(2)))
    with pyro.plate("a", 2, dim=-3), pyro.plate("b", 2, dim=-2), pyro.plate("c", 2, dim=-1):
        stop = pyro.sample("stop", dist.Dirichlet(1.5 * torch.ones(2)))
    observe({"root": root, "attach": attach, "stop": stop})


def renamed() -> None:
    names = {"root": "a", "attach": "b.c", "stop": "weights/d"}
    observe(
        {
            name: pyro.sample(names[name], dist.Dirichlet(1.5 * torch.ones(b.shape)).to_event(b.batch_dim))
            for name, b in GRAMMAR.blocks.items()
        }
    )


def with_deterministic_and_full_subsample() -> None:
    weights = priors()
    pyro.deterministic("entropy", -(weights["root"] * weights["root"].log()).sum())
    observe(weights, subsample_size=len(WORDS))


class Module(PyroModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        for name, block in GRAMMAR.blocks.items():
            setattr(
                self,
                name,
                PyroSample(lambda _, b=block: dist.Dirichlet(1.5 * torch.ones(b.shape)).to_event(b.batch_dim)),
            )

    def forward(self) -> None:
        observe({"root": self.root, "attach": self.attach, "stop": self.stop})


ACCEPTED: list[Callable[[], Any]] = [in_plates, renamed, with_deterministic_and_full_subsample, lambda: Module()()]


@pytest.mark.parametrize("model", ACCEPTED, ids=["plates", "renamed", "deterministic", "module"])
@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_ways_to_write_one_model(model: Callable[[], Any], loop: type[EM] | type[VariationalEM]) -> None:
    plain = loop(lambda: observe(priors())).run(num_steps=5, progress=False)
    other = loop(model).run(num_steps=5, progress=False)
    assert other.history == pytest.approx(plain.history, rel=1e-13)
    for name, w in plain.weights().items():
        torch.testing.assert_close(other.weights()[name], w, rtol=1e-13, atol=0)


def test_wrapped_models() -> None:
    expected = EM(maximum_likelihood).step(WORDS, GRAMMAR)
    pyro.clear_param_store()
    assert EM(partial(maximum_likelihood, grammar=GRAMMAR)).step(WORDS) == expected
    pyro.clear_param_store()
    assert EM(poutine.block(lambda: maximum_likelihood(WORDS, GRAMMAR), hide_fn=lambda site: False)).step() == expected


class Learnt(PyroModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        for name in GRAMMAR.blocks:
            setattr(self, name, PyroParam(uniform(name), constraints.simplex))

    def forward(self) -> None:
        observe({name: getattr(self, name) for name in GRAMMAR.blocks})


class LearntPrior(PyroModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.alpha = PyroParam(torch.tensor(1.5), constraints.positive)

    def forward(self) -> None:
        observe(priors(self.alpha))


@pytest.mark.parametrize("local", [False, True])
def test_parameters_of_modules(local: bool) -> None:
    """Learnt in place: the module, and an optimiser that holds its parameters, see the new values."""
    with pyro.settings.context(module_local_params=local):
        module = Learnt()
        held = dict(module.named_parameters())
        em = EM(module).run(num_steps=3, progress=False)
        for name, w in em.weights().items():
            torch.testing.assert_close(getattr(module, name).detach(), w)
            assert held[f"{name}_unconstrained"] is dict(module.named_parameters())[f"{name}_unconstrained"]
        assert EM(module).step() == pytest.approx(em.step(), rel=1e-12)
        prior = LearntPrior()
        vb = VariationalEM(prior).run(num_steps=3, progress=False)
        problem: Any
        problem, state = vb._present()
        learnt = problem.average(problem.even(), state).alpha["root"]
        assert float(prior.alpha.detach()) == pytest.approx(float(learnt[0])) != 1.5  # type: ignore[attr-defined]


def test_reading_leaves_the_random_numbers_alone() -> None:
    models: list[tuple[Any, dict[str, Any]]] = [(maximum_likelihood, {}), (dirichlet, {}), (dirichlet, {"learn": True})]
    for model, options in models:
        before = torch.random.get_rng_state()
        vb = VariationalEM(model)
        vb.step(WORDS, GRAMMAR, **options)
        vb.run(WORDS, GRAMMAR, num_steps=3, progress=False, **options)
        assert torch.equal(torch.random.get_rng_state(), before)
        pyro.clear_param_store()
    before = torch.random.get_rng_state()
    EM(dirichlet).step(WORDS, GRAMMAR, concentration=2.0)
    assert torch.equal(torch.random.get_rng_state(), before)


def noisy() -> None:
    """A model whose random numbers are of no use."""
    torch.rand(3)
    observe(priors(pyro.param("alpha", torch.tensor(1.5), constraint=constraints.positive)))


def intervened() -> None:
    """A site is drawn, but its value goes nowhere."""
    with poutine.do(data={"stop": uniform("stop")}):
        observe(priors())


@pytest.mark.parametrize("model", [noisy, intervened])
def test_steps_leave_the_random_numbers_alone(model: Callable[[], None]) -> None:
    before = torch.random.get_rng_state()
    for loop in (VariationalEM(model), CollapsedVB(model), EM(model, unconstrained=True)):
        loop.run(num_steps=2, tolerance=0, progress=False).weights()
        assert torch.equal(torch.random.get_rng_state(), before)


def test_a_delta_is_what_it_is_computed_from() -> None:
    def weights(by_delta: bool) -> None:
        root = pyro.param("root", torch.tensor([0.3, 0.7]), constraint=constraints.simplex)
        taken = pyro.sample("delta", dist.Delta(root, event_dim=1)) if by_delta else root
        observe({**priors(omit="root"), "root": taken})

    def concentrations(by_delta: bool) -> None:
        alpha = pyro.param("alpha", torch.tensor(1.3), constraint=constraints.positive)
        observe(priors(pyro.sample("delta", dist.Delta(alpha)) if by_delta else alpha))

    for model in (weights, concentrations):
        for loop in (VariationalEM, CollapsedVB):
            histories = []
            for by_delta in (True, False):
                pyro.clear_param_store()
                histories.append(loop(model).run(by_delta, num_steps=3, tolerance=0, progress=False).history)
            assert histories[0] == pytest.approx(histories[1], rel=1e-5)
    pyro.clear_param_store()
    with pytest.raises(ModelError, match="cannot learn the concentration of Dirichlet site 'root'"):
        EM(concentrations).step(True)


def test_an_observed_weight_of_zero_hides_nothing() -> None:
    fixed = torch.tensor([1.0, 0.0])
    observed = poutine.condition(lambda: observe(priors()), data={"root": fixed})

    def constant() -> None:
        observe({**priors(omit="root"), "root": fixed})

    for loop in (EM, VariationalEM, CollapsedVB, partial(TreeGibbs, seed=0), partial(TreeHastings, seed=0)):
        one, other = (loop(model).run(num_steps=3, progress=False).history for model in (observed, constant))
        assert one == pytest.approx(other) and math.isfinite(one[-1])


@pytest.mark.parametrize("loop", [VariationalEM, CollapsedVB, partial(TreeGibbs, seed=0)])
def test_a_model_may_refuse_points_that_it_is_never_at(loop: Any) -> None:
    def model() -> None:
        alpha = pyro.param("alpha", torch.tensor(2.0))
        assert float(alpha.detach()) > 1
        observe(priors(alpha))

    assert math.isfinite(loop(model).run(num_steps=1, progress=False).history[0])


@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB])
def test_a_prior_is_what_it_was_when_it_was_read(loop: Any) -> None:
    def model(alpha: Tensor) -> None:
        root = pyro.sample("root", dist.Dirichlet(alpha))
        observe({**priors(omit="root"), "root": root})

    histories = []
    for other in (1.5, 7.0):
        alpha = torch.full((2,), 1.5, dtype=torch.float64)
        run = loop(model).run(alpha, num_steps=2, tolerance=0, progress=False)
        alpha.fill_(other)
        histories.append(run.run(alpha, num_steps=2, tolerance=0, progress=False).history)
    assert histories[0] == histories[1]


def test_the_model_is_read_once() -> None:
    calls = []

    def model(words: Tensor) -> None:
        calls.append(words)
        dirichlet(words, GRAMMAR)

    vb = VariationalEM(model)
    vb.step(WORDS)
    runs = len(calls)
    vb.step(WORDS)
    vb.run(WORDS, num_steps=10, progress=False)
    assert len(calls) == runs
    vb.step(WORDS[:2])
    assert len(calls) == 2 * runs


def test_what_a_reading_says() -> None:
    traced = read(partial(dirichlet, WORDS, GRAMMAR, learn=True), "EM")
    (site,) = traced.sentences
    assert (site.name, site.grammar) == ("words", GRAMMAR)
    assert site.source_of_block == {"root": "root", "attach": "attach", "stop": "stop"}
    assert set(traced.unconstrained) == {"concentration.root", "concentration.attach", "concentration.stop"}
    assert all(source.learns_prior for source in traced.weight_sources.values())
    assert float(traced.unconstrained["concentration.root"].detach()) == pytest.approx(math.log(0.25))
    fixed = read(partial(dirichlet, WORDS, GRAMMAR), "EM")
    assert not any(source.learns_prior for source in fixed.weight_sources.values())


# ---------------------------------------------------------------------- initial weights


def broken(name: str, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    weights = {n: uniform(n) for n in GRAMMAR.blocks}
    return {**weights, name: change(weights[name])}


def minus(w: Tensor) -> Tensor:
    return w - 1


def nan(w: Tensor) -> Tensor:
    return w * math.nan


def inf(w: Tensor) -> Tensor:
    return w * math.inf


@pytest.mark.parametrize("loop", [EM, VariationalEM])
@pytest.mark.parametrize(
    ("initial_weights", "message"),
    [
        ("nonsense", r"no initialiser 'nonsense'; choose one of \['harmonic', 'random', 'supervised', 'uniform'\]"),
        ({"root": torch.ones(2)}, r"lacks block 'attach' of shape \(2, 2, 2\)"),
        ({}, "lacks block 'root'"),
        (broken("attach", lambda w: w[0]), r"\['attach'\] must have shape \(2, 2, 2\), not \(2, 2\)"),
        (broken("attach", minus), r"\['attach'\] must be non-negative and finite"),
        (broken("stop", nan), r"\['stop'\] must be non-negative and finite"),
        (broken("stop", inf), r"\['stop'\] must be non-negative and finite"),
        ({**broken("stop", torch.clone), "Attach": torch.ones(2)}, r"no use for \['Attach'\]"),
    ],
)
def test_initial_weights_that_will_not_do(
    initial_weights: Any, message: str, loop: type[EM] | type[VariationalEM]
) -> None:
    options = {"concentration": 2.0}
    with pytest.raises(ValueError, match=message) as caught:
        loop(dirichlet, initial_weights=initial_weights).step(WORDS, GRAMMAR, **options)
    assert "\n" not in str(caught.value)
    learner = loop(maximum_likelihood, initial_weights=initial_weights)
    with pytest.raises(ValueError, match=message):
        learner.step(WORDS, GRAMMAR)


def test_initial_weights_are_normalised_and_may_be_named_after_sites() -> None:
    start = {name: torch.rand(block.shape) + 0.1 for name, block in GRAMMAR.blocks.items()}
    by_block = VariationalEM(renamed, initial_weights=start).step()
    names = {"root": "a", "attach": "b.c", "stop": "weights/d"}
    by_site = VariationalEM(renamed, initial_weights={names[name]: 7 * w for name, w in start.items()}).step()
    assert by_site == pytest.approx(by_block, rel=1e-13)
    lists: Any = {name: w.tolist() for name, w in start.items()}
    assert VariationalEM(renamed, initial_weights=lists).step() == pytest.approx(by_block, rel=1e-13)


def test_where_loops_start() -> None:
    """A pyro.param at its value, unless told otherwise; a Dirichlet site at the harmonic initialiser."""
    start = {name: GRAMMAR.blocks[name].normalize(torch.rand(b.shape)) for name, b in GRAMMAR.blocks.items()}
    by_value = EM(maximum_likelihood).step(WORDS, GRAMMAR, initial_weights=start)
    assert by_value == pytest.approx(EM(maximum_likelihood, initial_weights=start).step(WORDS, GRAMMAR), rel=1e-12)
    assert EM(maximum_likelihood, initial_weights="uniform").step(WORDS, GRAMMAR) != by_value
    named = VariationalEM(dirichlet, initial_weights="harmonic").step(WORDS, GRAMMAR)
    assert VariationalEM(dirichlet).step(WORDS, GRAMMAR) == named
    pyro.set_rng_seed(1)
    random = VariationalEM(dirichlet, initial_weights="random").step(WORDS, GRAMMAR)
    pyro.set_rng_seed(1)
    assert VariationalEM(dirichlet, initial_weights="random").step(WORDS, GRAMMAR) == random != named


class WithoutHarmonic(DMV):
    """A grammar that has only the initialisers of every grammar."""

    @property
    def initialisers(self) -> Any:
        return {name: f for name, f in super().initialisers.items() if name in ("random", "uniform")}

    def initial_weights(self, words: Tensor, method: str = "uniform", **options: Any) -> Weights:
        return super().initial_weights(words, method, **options)


def test_a_grammar_says_itself_where_to_start() -> None:
    grammar = WithoutHarmonic(2)
    default = VariationalEM(dirichlet).step(WORDS, grammar)
    assert default == VariationalEM(dirichlet, initial_weights="uniform").step(WORDS, GRAMMAR)
