# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes for any prior: trees and Dirichlets in closed form, a guide for all other latent values.

q is q(derivations) q(Dirichlets) q(z), z the values that a guide draws. Given the expected counts of derivations, a
Pyro model without charts is left, whose sentences are tangents and whose Dirichlet sites have E_q[log p] for a density.
Its parameters and those of the guide are moved up the evidence lower bound by stochastic gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import TorchDistribution
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoGuide
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Block, Weights
from pyrogram.infer.model.computed import computed_blocks, read_computed
from pyrogram.infer.model.expected_counts import most_likely
from pyrogram.infer.model.indicators import summed_out
from pyrogram.infer.model.points import PointProblem, line
from pyrogram.infer.model.priors import expected_log_dirichlet, maximise
from pyrogram.infer.model.selection import leaves_of
from pyrogram.infer.model.sites import base_distribution, concentration_of, is_learnt, leaf_of, random_state_kept
from pyrogram.infer.model.structure import Hyperparameter, ModelError, Problem, TracedModel
from pyrogram.infer.model.tangent import Tangent
from pyrogram.infer.running.state import Info, ragged

from .dirichlet_factors import DirichletFactors
from .e_step import Count

Model = Callable[[], Any]


@dataclass(frozen=True)
class GuideOptions:
    """How the guide is fitted; see :class:`.VariationalEM`."""

    guide: Callable[..., Any]
    steps: int
    draws: int
    optimiser: Callable[[list[Tensor]], torch.optim.Optimizer]

    def __post_init__(self) -> None:
        if self.steps < 1 or self.draws < 1:
            raise ValueError(f"need guide_steps >= 1 and guide_draws >= 1, not {self.steps} and {self.draws}")

    @property
    def is_factory(self) -> bool:
        """Whether ``guide`` makes a guide from a model, as the classes of ``pyro.infer.autoguide`` do."""
        made = self.guide.func if isinstance(self.guide, functools.partial) else self.guide
        return isinstance(made, type) and issubclass(made, AutoGuide)


@dataclass(frozen=True)
class GuidedState:
    """q, and what is estimated.

    :param weights: of sources that have no prior: ``pyro.param`` sites and constants.
    :param posterior: q's concentrations by Dirichlet site.
    :param parameters: unconstrained, of the model and of the guide.
    :param iteration: how many there were before, on which the random numbers depend.
    :param optimiser: the state of the optimiser.
    :param dual: where constraints stand.
    """

    weights: Weights
    posterior: Weights
    parameters: Weights
    iteration: Tensor
    optimiser: Weights = ragged()
    dual: Weights = field(default_factory=dict)


@dataclass(frozen=True)
class _Averages:
    """Over draws of z.

    :param log_weights: E_q[log w] of sources that are computed.
    :param weights: E_q[w] of these.
    :param alpha: the concentrations of Dirichlet sites.
    :param bound: E_q[log p(Dirichlets, z, other observed sites) - log q(z)].
    """

    log_weights: Weights
    weights: Weights
    alpha: Weights
    bound: float


class GuidedProblem(Problem):
    """A model with latent values that a guide draws, or with parameters that weights are computed from.

    :raises ModelError: for a model that :func:`.read_computed` refuses, and a guide without some latent site.
    """

    def __init__(self, model: functools.partial[Any], options: GuideOptions) -> None:
        own, opened = _without_guide, set[str]()
        if not options.is_factory:
            own = functools.partial(options.guide, *model.args, **model.keywords)
            opened = set(_guide_sites(own)[0])
        whole = summed_out(model, "VariationalEM")
        traced = read_computed(whole, "VariationalEM", opened=opened)
        reference = PointProblem(traced, whole).reference("VariationalEM")
        latents = {name for name, p in traced.hyperparameters.items() if p.is_latent}
        parameters = {name: p for name, p in traced.hyperparameters.items() if not p.is_latent}
        super().__init__(replace(traced, hyperparameters=parameters, reference=reference), whole)
        self.options, self.dirichlets = options, DirichletFactors(self.traced)
        self.is_random = bool(latents)
        self.own_guide = own
        if options.is_factory and latents:
            self.own_guide = _local(options.guide, self._replaced(self._uniform()))
        sites, learnt = _guide_sites(self.own_guide)
        for name in sorted(latents - set(sites)):
            raise ModelError(f"VariationalEM needs a guide that draws latent site {name!r}; add the site to it")
        for name in sorted(set(sites) - latents):
            raise ModelError(
                f"VariationalEM found no latent site {name!r}, which the guide draws; leave it out of the guide"
            )
        for name in sorted(learnt.keys() & self.traced.weight_sources.keys()):
            raise ModelError(
                f"VariationalEM cannot learn pyro.param {name!r} as weights and in the guide; use another one"
            )
        known = {id(p.unconstrained) for p in parameters.values()}
        own_parameters = {n: p for n, p in learnt.items() if id(p.unconstrained) not in known}
        self.traced = replace(self.traced, hyperparameters={**parameters, **own_parameters})

    # ------------------------------------------------------------------ an algorithm

    def start(self, weights: Weights, dual: Weights, count: Count) -> GuidedState:
        """The first q of Dirichlets is that of an E-step under the initial weights, to which the guide is fitted.

        :param weights: by source; of those that are computed all or none.
        :param dual: where constraints stand at first.
        :param count: the E-step over derivations.
        """
        sources, nothing = self.traced.weight_sources, torch.tensor(0)
        logs = {name: safe_log(w) for name, w in weights.items()}
        points = {name: w for name, w in weights.items() if sources[name].is_point and not sources[name].is_computed}
        parameters = self.traced.parameter_values()
        found = self._average(self._uniform(), parameters, 0)
        first = count(self.traced, {**found.log_weights, **logs}, dual)
        counts = first.counts
        state = GuidedState(points, self._posterior(found.alpha, counts), parameters, nothing, {}, first.dual)
        return self._climb(state, counts) if any(sources[name].is_computed for name in weights) else state

    def update(self, state: GuidedState, count: Count) -> tuple[GuidedState, Info]:
        """An iteration: derivations, Dirichlets and weights that are parameters in closed form, then the guide."""
        found = self._average(self._given(state), state.parameters, int(state.iteration))
        log_weights = {name: safe_log(w) for name, w in state.weights.items()}
        log_weights |= self.dirichlets.expected_logs(state.posterior) | found.log_weights
        derivations = count(self.traced, log_weights, state.dual)
        counts = derivations.counts
        bound = derivations.objective + (found.bound + self.traced.density + self._entropy(state.posterior))
        new = replace(
            state,
            weights=most_likely(self.traced, counts, state.weights),
            posterior=self._posterior(found.alpha, counts),
            iteration=state.iteration + 1,
            dual=derivations.dual,
        )
        return self._climb(new, counts), Info(bound)

    def estimate(self, state: GuidedState) -> Weights:
        """E_q[w] by source."""
        found = self._average(self._given(state), state.parameters, int(state.iteration))
        return {**state.weights, **self.dirichlets.means(state.posterior), **found.weights}

    def posterior(self, state: GuidedState) -> dict[str, dist.TorchDistribution]:
        """q of the Dirichlet sites that have closed forms."""
        return self.dirichlets.posterior(state.posterior)

    def like(self) -> GuidedState:
        """A state with the names and shapes that all have."""
        sources = self.traced.weight_sources
        return GuidedState(
            weights={n: s.value for n, s in sources.items() if s.is_point and not s.is_computed},
            posterior={name: sources[name].value for name in self.dirichlets.blocks},
            parameters=self.traced.unconstrained,
            iteration=torch.tensor(0),
            optimiser={},
        )

    # ------------------------------------------------------------------ the parts of an iteration

    def _given(self, state: GuidedState) -> _Given:
        """Dirichlets at their means, with E_q[log w] for their logarithms, and weights that are parameters."""
        means = self.dirichlets.means(state.posterior) | state.weights
        return _Given(means, self.dirichlets.expected_logs(state.posterior))

    def _uniform(self) -> _Given:
        """The same where nothing is known of q, and no weight is zero."""
        start = {n: s.block.uniform(s.value) for n, s in self.traced.weight_sources.items() if not s.is_computed}
        return _Given(start, {n: w.log() for n, w in start.items()})

    def _average(self, given: _Given, parameters: Weights, iteration: int) -> _Averages:
        """Expectations under the guide, by draws that are the same for the same iteration."""
        self.traced.set_parameters(parameters)
        totals: dict[str, Weights] = {"logs": {}, "weights": {}, "alpha": {}}
        bound, draws = 0.0, self.options.draws if self.is_random else 1
        with torch.no_grad(), random_state_kept(self._seeds(iteration)[0]):
            for _ in range(draws):
                drawn = poutine.trace(self.own_guide).get_trace()
                seen = _Surrogate(self.traced, given)
                with seen:
                    trace = poutine.trace(poutine.replay(self.model, drawn)).get_trace()
                bound += float(trace.log_prob_sum() - drawn.log_prob_sum())
                exponentiated = {name: w.exp() for name, w in seen.log_weights.items()}
                for total, values in zip(totals.values(), (seen.log_weights, exponentiated, seen.alpha), strict=True):
                    for name, value in values.items():
                        total[name] = total[name] + value if name in total else value.clone()
        logs, weights, alpha = ({n: total / draws for n, total in found.items()} for found in totals.values())
        return _Averages(logs, weights, alpha, bound / draws)

    def _posterior(self, alpha: Weights, counts: Weights) -> Weights:
        """The best q of the Dirichlets: prior and likelihood as often as the model has them."""
        sources = self.traced.weight_sources
        return {n: (1 + sources[n].scale * (a - 1)).to(counts[n]) + counts[n] for n, a in alpha.items()}

    def _entropy(self, posterior: Weights) -> float:
        logs = self.dirichlets.expected_logs(posterior)
        blocks = self.dirichlets.blocks.items()
        return -sum(float(expected_log_dirichlet(block, posterior[n], logs[n])) for n, block in blocks)

    def _climb(self, state: GuidedState, counts: Weights) -> GuidedState:
        """Move the parameters of model and guide up the bound in which sentences are tangents."""
        leaves = self.traced.unconstrained
        if not leaves:
            return state
        self.traced.set_parameters(state.parameters)
        surrogate, elbo = self._replaced(self._given(state), counts), Trace_ELBO()

        def loss() -> Tensor:
            found: Tensor = elbo.differentiable_loss(surrogate, self.own_guide)
            return found

        with random_state_kept(self._seeds(int(state.iteration))[1]):
            if not self.is_random:
                maximise(leaves, lambda: -loss(), self.options.steps)
                return replace(state, parameters=self.traced.parameter_values())
            optimiser = self._optimiser(list(leaves.values()))
            _restore(optimiser, list(leaves), state.optimiser)
            for _ in range(self.options.steps):
                optimiser.zero_grad()
                loss().backward()
                _check_gradients(leaves)
                optimiser.step()
            optimiser.zero_grad()
        return replace(state, parameters=self.traced.parameter_values(), optimiser=_saved(optimiser, list(leaves)))

    def _optimiser(self, leaves: list[Tensor]) -> torch.optim.Optimizer:
        made: Any = self.options.optimiser(leaves)
        if not isinstance(made, torch.optim.Optimizer) or isinstance(made, torch.optim.LBFGS):
            raise TypeError(
                "optim must make a torch optimiser that needs no closure from a list of tensors, such as "
                f"functools.partial(torch.optim.Adam, lr=0.05), not {type(made).__name__}"
            )
        return made

    def _replaced(self, given: _Given, counts: Weights | None = None) -> Model:
        """The model without charts."""

        def surrogate() -> Any:
            with _Surrogate(self.traced, given, counts):
                return self.model()

        return surrogate

    def _seeds(self, iteration: int) -> tuple[int, int]:
        """Of an E-step, and of the steps of the guide."""
        generator = torch.Generator().manual_seed(iteration)
        first, second = torch.randint(2**62, (2,), generator=generator).tolist()
        return first, second


@dataclass(frozen=True)
class _Given:
    """The sources that a guide has no part in.

    :param values: by source, normalised.
    :param expected_logs: E_q[log w] by Dirichlet site.
    """

    values: Weights
    expected_logs: Weights


class _Surrogate(Messenger):
    """Sentences as tangents; Dirichlet sites as observed, with E_q[log p] for a density.

    :param counts: expected counts by source; by default sentences count for nothing.
    """

    def __init__(self, traced: TracedModel, given: _Given, counts: Weights | None = None) -> None:
        super().__init__()
        self.traced, self.given, self.counts = traced, given, counts
        self.log_weights: Weights = {}  #: of sources that are computed, in the last run
        self.alpha: Weights = {}  #: by Dirichlet site

    def _pyro_post_param(self, msg: Any) -> None:
        if msg["name"] in self.given.values:
            msg["value"] = self.given.values[msg["name"]]

    def _pyro_sample(self, msg: Any) -> None:
        function, name = base_distribution(msg["fn"]), msg["name"]
        source = self.traced.weight_sources.get(name)
        if source is not None and source.concentration is not None:
            self.alpha[name] = concentration_of(function).to("cpu", torch.float64).expand(source.block.shape)
            msg["value"], msg["is_observed"], msg["done"] = source.at_site(self.given.values[name]), True, True
            msg["fn"] = _ExpectedDirichlet(msg["fn"], source.block, self.given.expected_logs[name])
        elif isinstance(function, dist.Delta) and not msg["is_observed"]:
            msg["value"], msg["is_observed"], msg["done"] = msg["fn"](), True, True  # no guide need draw it
        elif msg["is_observed"] and isinstance(function, Sentence):
            own = computed_blocks(name, function, self.traced)
            self.log_weights |= own
            total = torch.zeros(()) if self.counts is None else line(own, self.counts)
            tangent = Tangent(total, torch.zeros(()), function, function.batch_shape)
            msg["fn"] = tangent.to_event(len(function.batch_shape) - len(msg["fn"].batch_shape))
            msg["scale"], msg["mask"] = 1.0, None  # counts are scaled, and those of masked sentences left out


class _ExpectedDirichlet(TorchDistribution):
    """E_q[log p] of a Dirichlet or Beta site as its log density, whatever its value.

    :param prior: the site's distribution.
    :param expected_logs: E_q[log w] by event.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, prior: Any, block: Block, expected_logs: Tensor) -> None:
        self.prior, self.block, self.expected_logs = prior, block, expected_logs
        super().__init__(prior.batch_shape, prior.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self.prior.support

    def log_prob(self, value: Tensor) -> Tensor:
        alpha = concentration_of(base_distribution(self.prior)).to("cpu", torch.float64)
        logs = self.expected_logs.to("cpu", torch.float64)
        terms = torch.lgamma(self.block.sums(alpha)) - self.block.sums(torch.lgamma(alpha) - (alpha - 1) * logs)
        return terms.flatten(len(self.batch_shape)).sum(-1) if terms.dim() > len(self.batch_shape) else terms


# ---------------------------------------------------------------------- guides and optimisers


def _without_guide() -> None:
    """The guide of a model whose latent values all have closed forms."""


def _local(factory: Callable[[Model], Any], model: Model) -> Model:
    """A guide whose parameters are its own: two of the same class do not share those of Pyro's store."""
    own: Any = {"params": {}, "constraints": {}}
    guide = factory(model)

    def local_guide() -> Any:
        with pyro.get_param_store().scope(own):
            return guide()

    return local_guide


def _guide_sites(guide: Model) -> tuple[list[str], dict[str, Hyperparameter]]:
    """The latent sites that a guide draws, and its parameters, each once.

    :raises ModelError: for parameters that Pyro does not know.
    """
    with random_state_kept(), torch.enable_grad():
        trace = poutine.trace(guide).get_trace()
        nodes: dict[str, Any] = dict(trace.nodes)
        density = trace.log_prob_sum()
    learnt: dict[int, tuple[str, Hyperparameter]] = {}
    for name, site in nodes.items():
        if is_learnt(site):
            leaf = leaf_of(site["value"])
            learnt.setdefault(id(leaf), (name, Hyperparameter(site["value"], leaf, None)))
    if isinstance(density, Tensor) and leaves_of(density) - learnt.keys():
        raise ModelError(
            "VariationalEM cannot learn a tensor of the guide that requires a gradient, and that Pyro does not know; "
            "make it known by pyro.module or pyro.param"
        )
    sites = [
        name
        for name, site in nodes.items()
        if site["type"] == "sample" and not site["infer"].get("is_auxiliary") and not site_is_subsample(site)
    ]
    return [n for n in sites if not nodes[n]["infer"].get("_deterministic")], dict(learnt.values())


def _check_gradients(leaves: Mapping[str, Tensor]) -> None:
    for name, leaf in leaves.items():
        if leaf.grad is not None and not bool(leaf.grad.isfinite().all()):
            raise ValueError(
                f"the gradient of {name!r} is not finite; give the optimiser a smaller learning rate, or let the guide "
                "start at a smaller scale"
            )


def _saved(optimiser: torch.optim.Optimizer, names: list[str]) -> Weights:
    """The state of an optimiser, by parameter and quantity; of no parameter the numbers of its group, as the rate."""
    state = optimiser.state_dict()
    found = {f"{names[i]}.{key}": x for i, own in state["state"].items() for key, x in own.items() if x is not None}
    found |= {f".{key}": x for key, x in state["param_groups"][0].items() if type(x) in (int, float)}
    return {name: torch.as_tensor(x).detach().clone() for name, x in found.items()}


def _restore(optimiser: torch.optim.Optimizer, names: list[str], saved: Weights) -> None:
    whole = optimiser.state_dict()
    for name, value in saved.items():
        parameter, _, key = name.rpartition(".")
        if parameter:
            whole["state"].setdefault(names.index(parameter), {})[key] = value.clone()
        else:
            whole["param_groups"][0][key] = value.item()
    optimiser.load_state_dict(whole)
