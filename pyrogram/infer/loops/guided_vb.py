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
from dataclasses import dataclass, replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoGuide
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights
from pyrogram.infer.model.points import PointMessenger, Terms, expected_log_dirichlet, line
from pyrogram.infer.model.reading import computed_blocks
from pyrogram.infer.model.selection import leaves_of
from pyrogram.infer.model.sites import base_distribution, concentration_of, is_learnt
from pyrogram.infer.model.structure import Hyperparameter, ModelError, TracedModel, leaf_of
from pyrogram.infer.model.tangent import in_place_of
from pyrogram.random_state import random_state_kept

from .held import DirichletProblem, DirichletQ, Held, VariationalState

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
        factory = self.guide.func if isinstance(self.guide, functools.partial) else self.guide
        return isinstance(factory, type) and issubclass(factory, AutoGuide)


class GuidedProblem(DirichletProblem):
    """A model with latent values that a guide draws.

    :param model: the model, indicators summed out, with its arguments.
    :param guide: the guide, if it is no factory's, with the model's arguments.
    :raises ModelError: for a guide without some latent site, or with others.
    """

    is_random = True

    def __init__(self, traced: TracedModel, model: Model, options: GuideOptions, guide: Model | None) -> None:
        super().__init__(traced, model, "VariationalEM", options.steps)
        latents = {name for name, p in traced.hyperparameters.items() if p.is_latent}
        parameters = {name: p for name, p in traced.hyperparameters.items() if not p.is_latent}
        self.traced = replace(self.traced, hyperparameters=parameters)
        self.options = options
        self._guide = _local(options.guide, _Surrogate(traced, self.even())(model)) if guide is None else guide
        sites, learnt = guide_sites(self.draw)
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

    def draw(self) -> Any:
        return self._guide()

    def average(self, held: Held, state: VariationalState) -> Terms:
        return self._averages(held, state)[0]

    def estimate(self, state: VariationalState) -> Weights:
        held = self.held(state)
        return {name: multinomials.weights for name, multinomials in held.items()} | self._averages(held, state)[1]

    def _averages(self, held: Held, state: VariationalState) -> tuple[Terms, Weights]:
        """E_q of what the model is, and of the weights that are computed: draws are the same for the same iteration.

        The density is E_q[log p(z, other observed sites) - log q(z)]. It has E_q[log p] of Dirichlets, too, whose
        concentrations depend on the draw.
        """
        self.traced.set_parameters(state.parameters)
        totals: dict[str, Weights] = {"logs": {}, "weights": {}, "alpha": {}}
        bound, draws, seen = 0.0, self.options.draws, _Surrogate(self.traced, held)
        with torch.no_grad(), random_state_kept(_seeds(state)[0]):
            for _ in range(draws):
                drawn = poutine.trace(self.draw).get_trace()
                with seen:
                    trace = poutine.trace(poutine.replay(self.model, drawn)).get_trace()
                bound += float(trace.log_prob_sum() - drawn.log_prob_sum())
                exponentiated = {name: w.exp() for name, w in seen.log_weights.items()}
                for total, values in zip(totals.values(), (seen.log_weights, exponentiated, seen.alpha), strict=True):
                    for name, value in values.items():
                        total[name] = total[name] + value if name in total else value.clone()
        logs, weights, alpha = ({n: total / draws for n, total in sums.items()} for sums in totals.values())
        density = torch.tensor(bound / draws, dtype=torch.float64)
        return Terms(logs, alpha, density, torch.zeros_like(density)), weights

    def climbed(self, state: VariationalState, counts: Weights) -> VariationalState:
        """Move the parameters of model and guide up the bound in which sentences are tangents."""
        leaves = self.traced.unconstrained
        if not leaves:
            return state
        self.traced.set_parameters(state.parameters)
        surrogate, elbo = _Surrogate(self.traced, self.held(state), counts)(self.model), Trace_ELBO()

        with random_state_kept(_seeds(state)[1]):
            optimiser = self._optimiser(list(leaves.values()))
            _restore(optimiser, list(leaves), state.optimiser)
            for _ in range(self.options.steps):
                optimiser.zero_grad()
                elbo.differentiable_loss(surrogate, self.draw).backward()
                _check_gradients(leaves)
                optimiser.step()
            optimiser.zero_grad()
        return replace(state, parameters=self.traced.parameter_values(), optimiser=_saved(optimiser, list(leaves)))

    def _bound(self, held: Held, name: str, alpha: Tensor) -> float:
        """-E_q[log q]: the rest is part of the averages."""
        q = held[name]
        assert isinstance(q, DirichletQ)
        return -float(expected_log_dirichlet(q.source.block, q.concentration, q.log_weights))

    def _optimiser(self, leaves: list[Tensor]) -> torch.optim.Optimizer:
        optimiser: Any = self.options.optimiser(leaves)
        if not isinstance(optimiser, torch.optim.Optimizer) or isinstance(optimiser, torch.optim.LBFGS):
            raise TypeError(
                "optim must make a torch optimiser that needs no closure from a list of tensors, such as "
                f"functools.partial(torch.optim.Adam, lr=0.05), not {type(optimiser).__name__}"
            )
        return optimiser


class _Surrogate(PointMessenger):
    """Sentences as tangents; Dirichlet sites as observed, with E_q[log p] for a density.

    :param counts: expected counts by source; by default sentences count for nothing.
    """

    def __init__(self, traced: TracedModel, held: Held, counts: Weights | None = None) -> None:
        sources = traced.weight_sources
        super().__init__({n: sources[n].at_site(multinomials.weights) for n, multinomials in held.items()}, {}, False)
        self.traced, self.held, self.counts = traced, held, counts
        self.log_weights: Weights = {}  #: of sources that are computed, in the last run
        self.alpha: Weights = {}  #: by Dirichlet site

    def _pyro_sample(self, msg: Any) -> None:
        super()._pyro_sample(msg)
        function, name = base_distribution(msg["fn"]), msg["name"]
        source = self.traced.weight_sources.get(name)
        if source is not None and source.concentration is not None:
            held, block, dim = self.held[name], source.block, len(msg["fn"].batch_shape)
            alpha, logs = (x.to("cpu", torch.float64) for x in (concentration_of(function), held.log_weights))
            each = torch.lgamma(block.sums(alpha)) - block.sums(torch.lgamma(alpha) - (alpha - 1) * logs)
            density = each.flatten(dim).sum(-1) if each.dim() > dim else each
            self.alpha[name] = alpha.expand(block.shape)
            msg["is_observed"] = True
            msg["fn"] = dist.Delta(msg["value"], density, msg["fn"].event_dim, validate_args=False)
        elif isinstance(function, dist.Delta) and not msg["is_observed"]:
            msg["value"], msg["is_observed"], msg["done"] = msg["fn"](), True, True  # no guide need draw it
        elif msg["is_observed"] and isinstance(function, Sentence):
            log_weights = computed_blocks(name, function, self.traced)
            self.log_weights |= log_weights
            total = torch.zeros(()) if self.counts is None else line(log_weights, self.counts)
            msg["fn"] = in_place_of(msg["fn"], msg["value"], total, torch.zeros(()))
            msg["scale"], msg["mask"] = 1.0, None  # counts are scaled, and those of masked sentences left out


# ---------------------------------------------------------------------- guides and optimisers


def _seeds(state: VariationalState) -> list[int]:
    """Of an E-step, and of the steps of the guide."""
    return torch.randint(2**62, (2,), generator=torch.Generator().manual_seed(int(state.iteration))).tolist()


def _local(factory: Callable[[Model], Any], model: Model) -> Model:
    """A guide whose parameters are its own: two of the same class do not share those of Pyro's store."""
    store: Any = {"params": {}, "constraints": {}}
    guide = factory(model)

    def local_guide() -> Any:
        with pyro.get_param_store().scope(store):
            return guide()

    return local_guide


def guide_sites(guide: Model) -> tuple[list[str], dict[str, Hyperparameter]]:
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
    if isinstance(density, Tensor) and leaves_of(density).keys() - learnt.keys():
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
    saved = {f"{names[i]}.{key}": x for i, slot in state["state"].items() for key, x in slot.items() if x is not None}
    saved |= {f".{key}": x for key, x in state["param_groups"][0].items() if type(x) in (int, float)}
    return {name: torch.as_tensor(x).detach().clone() for name, x in saved.items()}


def _restore(optimiser: torch.optim.Optimizer, names: list[str], saved: Weights) -> None:
    state = optimiser.state_dict()
    for name, value in saved.items():
        parameter, _, key = name.rpartition(".")
        if parameter:
            state["state"].setdefault(names.index(parameter), {})[key] = value.clone()
        else:
            state["param_groups"][0][key] = value.item()
    optimiser.load_state_dict(state)
