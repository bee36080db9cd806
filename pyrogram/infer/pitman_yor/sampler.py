# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Concentrations, discounts and seats of hierarchical Pitman-Yor processes, sampled from their joint posterior.

Wallach, Sutton and McCallum (2008), section 3.1: hyperparameters by slice sampling given the internal draws; Teh
(2006), section 4: internal draws by Gibbs sampling given the hyperparameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from typing_extensions import Self

from pyrogram.distributions.hierarchical_pitman_yor import Density, HierarchicalPitmanYor
from pyrogram.grammar import Weights
from pyrogram.infer.loops.base import same_arguments
from pyrogram.infer.model.sites import base_distribution, depends_on, distribution_name
from pyrogram.infer.model.structure import ModelError
from pyrogram.infer.running.run import Resumable, run_options, with_history
from pyrogram.infer.running.state import copied
from pyrogram.infer.samplers.chain import generator_of, same_tensors
from pyrogram.infer.samplers.latents import slice_step
from pyrogram.random_state import random_state_kept
from pyrogram.restaurants.restaurants import Restaurants

from .tracing import (
    HyperparameterMessenger,
    ProcessMessenger,
    check_process,
    is_process,
    latent_starts,
    start_at_zero,
    tensors_in,
)

_ELSEWHERE = "with paths='minimal' or 'maximal', NUTS can"


@dataclass(frozen=True)
class SeatsState:
    """Hyperparameters and seats.

    :param point: latent sites in unconstrained coordinates.
    :param restaurants: counts and seats by site; a step reseats copies.
    :param joints: by site: α and ε, shape (L,), and the log joint of values and draws there, in nats.
    :param log_density: of hyperparameters, values and draws, in nats.
    :param generator: the state of the chain's.
    """

    point: Weights
    restaurants: dict[str, Restaurants]
    joints: dict[str, tuple[Tensor, Tensor, Tensor]]
    log_density: float
    generator: Tensor


class PitmanYorSampler(Resumable):
    """A Markov chain over the hyperparameters of a Pyro model with observed :class:`HierarchicalPitmanYor` sites.

    The model says what is random: every latent site that concentrations and discounts depend on is slice-sampled,
    coordinate by coordinate, from its prior times the density of the values, which is their ``log_prob``; what is
    constant, or a ``pyro.param``, stays as it is. Sites with ``paths="exact"`` are reseated first in every step, and
    their density is the joint of values and internal draws: the chain converges to the posterior of the model itself::

        sampler = PitmanYorSampler(model).run(values, num_steps=50)
        sampler.restaurants["values"].predict(keys, values, sampler.concentration["values"], sampler.discount["values"])

    The model is run for every evaluation of the density: make its :class:`.Contexts` outside of it.

    :param model: a Pyro model.
    :param seed: of the chain.
    """

    def __init__(self, model: Callable[..., Any], *, seed: int = 0):
        super().__init__()  # the history is of log densities after each step
        self.model, self.seed = model, seed
        self._generator = generator_of(seed)
        self._args: tuple[Any, Any] | None = None
        self._tensors: list[Tensor] = []  # copies of those in the arguments, which may be changed in place
        self._model_hash = ""  # the fingerprint of what was read
        self._state: SeatsState | None = None
        self._traces: dict[str, list[Tensor]] = {}
        self._densities: dict[str, Density] = {}  # of sites that are not seated exactly
        self._pending: Weights | None = None  # a state that was loaded before the model was read

    # ------------------------------------------------------------------ public

    def step(self, *args: Any, **kwargs: Any) -> float:
        """Reseat what is seated exactly, then move every hyperparameter once; the arguments are the model's.

        :returns: the log density of hyperparameters, values and internal draws after it, in nats.
        :raises ModelError: if the model has a site that this sampler cannot handle.
        """
        self._read(args, kwargs)
        return self._advance()

    def run(
        self,
        *args: Any,
        num_steps: int = 50,
        **kwargs: Any,
    ) -> Self:
        """Many steps; positional and other keyword arguments are the model's.

        ``progress``, ``callback``, ``checkpoint``, ``checkpoint_every`` and ``resume`` among them are as in every run,
        see :meth:`.Resumable._run`.
        """
        options = run_options(kwargs)
        self._read(args, kwargs)
        return self._run(num_steps, **options)

    @property
    def restaurants(self) -> dict[str, Restaurants]:
        """Counts and seats by site."""
        return {} if self._state is None else dict(self._state.restaurants)

    @property
    def concentration(self) -> Weights:
        """α by site, shape (L,)."""
        return {} if self._state is None else {name: alpha for name, (alpha, _, _) in self._state.joints.items()}

    @property
    def discount(self) -> Weights:
        """ε by site, shape (L,)."""
        return {} if self._state is None else {name: epsilon for name, (_, epsilon, _) in self._state.joints.items()}

    def hyperparameters(self) -> Weights:
        """The present value of every latent site."""
        state = self._need_state()
        return self._density(state.point, state.restaurants, dict(state.joints))[2]

    def trace(self) -> Weights:
        """The values of every latent site after each step, shape ``(steps, *site.shape)``."""
        return {name: torch.stack(values) for name, values in self._traces.items() if values}

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        now = self._need_state()
        state = {f"point.{name}": u for name, u in now.point.items()}
        state.update({f"trace.{name}": values for name, values in self.trace().items()})
        for site, restaurants in now.restaurants.items():
            if restaurants.paths == "exact":  # others follow from the values
                state.update({f"seats.{site}.{name}": x for name, x in restaurants.state_dict().items()})
        return with_history(copied({**state, "generator": now.generator}), history=self.history)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of a sampler of the same model and values.

        :raises ValueError: if it is not such a state.
        """
        if "history" not in state or "generator" not in state:
            raise ValueError(f"this is not the state of {type(self).__name__}: it has no 'history'")
        self._pending = dict(state)
        if self._args is not None:
            self._take_pending()

    # ------------------------------------------------------------------ the chain

    def _advance(self) -> float:
        old = self._need_state()
        generator = torch.Generator().set_state(old.generator)
        restaurants, joints = dict(old.restaurants), dict(old.joints)
        for name, seating in old.restaurants.items():
            if seating.paths == "exact":
                alpha, epsilon, _ = joints.pop(name)
                restaurants[name] = seating.copy()
                restaurants[name].reseat(alpha, epsilon, generator)
        point = old.point
        if point:
            # A coordinate moves the parameters of one site, as a rule: of the others the joints are known.
            point = slice_step(lambda at: self._density(at, restaurants, joints)[1], point, generator)
        new = self._settled(point, restaurants, generator.get_state())
        values = self._density(new.point, new.restaurants, dict(new.joints))[2]
        self._state = new
        for name, value in values.items():
            self._traces[name].append(value)
        self.history.append(new.log_density)
        return new.log_density

    def _settled(self, point: Weights, restaurants: dict[str, Restaurants], generator: Tensor) -> SeatsState:
        """The state at a point."""
        joints: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
        log_density = float(self._density(point, restaurants, joints)[0])
        return SeatsState(point, restaurants, joints, log_density, generator)

    def _density(
        self,
        point: Mapping[str, Tensor],
        restaurants: Mapping[str, Restaurants],
        joints: dict[str, tuple[Tensor, Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor, Weights]:
        """log p(h) P(values, draws | h), without and with the Jacobian of unconstrained coordinates; and h.

        :param joints: those that are known, at the last parameters of each site; brought up to date.
        """
        with torch.no_grad():
            latents, sites = self._run_at(point)
            joint = latents.log_prior
            for name, site in sites.items():
                alpha, epsilon = site.concentration, site.discount
                known = joints.get(name)
                if known is None or not (torch.equal(known[0], alpha) and torch.equal(known[1], epsilon)):
                    density = self._densities.get(name, restaurants[name].log_joint)
                    known = joints[name] = alpha.clone(), epsilon.clone(), density(alpha, epsilon)
                joint = joint + known[2]
        return joint, joint + latents.log_jacobian, latents.values

    def _run_at(self, point: Mapping[str, Tensor]) -> tuple[HyperparameterMessenger, dict[str, HierarchicalPitmanYor]]:
        assert self._args is not None
        latents, seen = HyperparameterMessenger(point), ProcessMessenger()
        with latents, seen:
            self.model(*self._args[0], **self._args[1])
        return latents, seen.sites

    # ------------------------------------------------------------------ reading the model

    def _need_state(self) -> SeatsState:
        if self._state is None:
            raise RuntimeError(f"{type(self).__name__} has no state yet; call step or run first")
        return self._state

    def _read(self, args: Any, kwargs: Any) -> None:
        """Look at the model, once for the same arguments; other values start a new chain where the last one ended."""
        tensors = list(tensors_in((args, kwargs)))
        if (
            self._args is not None
            and same_arguments(self._args, (args, kwargs))
            and same_tensors(self._tensors, tensors)
        ):
            return
        old_args, self._args = self._args, (args, kwargs)
        try:
            start, values = self._check(args, kwargs)
            model_hash = self._hash(start, values)
        except BaseException:
            self._args = old_args
            raise
        self._tensors = [t.detach().clone() for t in tensors]
        if model_hash == self._model_hash:
            return
        self._model_hash, self.history = model_hash, []
        self._traces = {name: [] for name in start}
        old = {} if self._state is None else self._state.point
        generator = self._generator if self._state is None else torch.Generator().set_state(self._state.generator)
        point = {name: old.get(name, u) for name, u in start.items()}
        with torch.no_grad():
            sites = self._run_at(point)[1]
        restaurants = {name: site.restaurants(values[name], generator) for name, site in sites.items()}
        self._densities = {
            name: s.contexts.density(values[name], s.num_values, s.paths, s.likelihood, s.base)
            for name, s in sites.items()
            if s.paths != "exact"
        }
        self._state = self._settled(point, restaurants, generator.get_state())
        if self._pending is not None:
            self._take_pending()

    def _check(self, args: Any, kwargs: Any) -> tuple[Weights, Weights]:
        """Where latent sites start, and the values of observed ones."""
        loop = type(self).__name__
        with start_at_zero(loop):
            start = latent_starts(self.model, loop, args, kwargs)
            with random_state_kept(), torch.no_grad():
                trace = poutine.trace(self.model).get_trace(*args, **kwargs)
        values: Weights = {}
        nodes: dict[str, Any] = dict(trace.nodes)
        for name, site in nodes.items():
            if site["type"] != "sample" or site["infer"].get("_deterministic", False):
                continue
            if is_process(site):
                check_process(name, site, loop)
                values[name] = site["value"]
            elif name not in start and not site_is_subsample(site):
                kind = "observed" if site["is_observed"] else "latent"
                family = distribution_name(base_distribution(site["fn"]))
                raise ModelError(
                    f"{loop} cannot handle {kind} site {name!r} ({family}), only observed "
                    f"HierarchicalPitmanYor sites and what their parameters depend on; {_ELSEWHERE}"
                )
        if not values:
            raise ModelError(f"{loop} found no observed HierarchicalPitmanYor site; pass obs=values to pyro.sample")
        self._check_use(start, loop)
        return start, values

    def _check_use(self, start: Weights, loop: str) -> None:
        """Refuse sites that no concentration or discount depends on, directly or through others."""
        leaves = {name: u.clone().requires_grad_() for name, u in start.items()}
        with torch.enable_grad():
            latents, sites = self._run_at(leaves)
        useful = [x for site in sites.values() for x in (site.concentration, site.discount)]
        for name, leaf in leaves.items():
            others = [term for other, term in latents.terms.items() if other != name]
            if not any(depends_on(x, leaf) for x in [*useful, *others]):
                raise ModelError(
                    f"{loop} found no use for latent site {name!r}: no concentration or discount depends on it; "
                    f"{_ELSEWHERE}"
                )

    def _fingerprint(self) -> str:
        return self._model_hash

    def _hash(self, start: Weights, values: Weights) -> str:
        """A hash of the latent sites and their prior, of contexts and values, and of where parameters start."""
        with torch.no_grad():
            latents, sites = self._run_at(start)
        digest = hashlib.sha256(f"{type(self).__name__} {float(latents.log_prior):.8e}".encode())
        for name, u in start.items():
            digest.update(f"{name}{tuple(u.shape)}".encode())
        for name, site in sites.items():
            digest.update(f"{name}{site.num_values}{site.paths}{site.likelihood}{site.contexts.num_levels}".encode())
            for numbers in (site.concentration, site.discount):  # rounded: machines differ in the last bit of exp
                digest.update(" ".join(f"{x:.8e}" for x in numbers.tolist()).encode() + b";")
            tensors = [*site.contexts.keys, values[name].long(), *([] if site.base is None else [site.base.double()])]
            for tensor in tensors:
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _take_pending(self) -> None:
        assert self._pending is not None
        state, self._pending = self._pending, None
        now = self._need_state()
        point = {name: state.get(f"point.{name}") for name in now.point}
        if any(u is None or u.shape != now.point[name].shape for name, u in point.items()):
            raise ValueError(f"this is not the state of {type(self).__name__} with the latent sites {list(now.point)}")
        traces = {name: list(state.get(f"trace.{name}", torch.zeros(0))) for name in now.point}
        if any(len(values) != len(state["history"]) for values in traces.values()):
            raise ValueError(f"this is not the state of {type(self).__name__}: its traces and its history do not fit")
        restaurants = dict(now.restaurants)
        for site, seating in now.restaurants.items():
            if seating.paths == "exact":
                prefix = f"seats.{site}."
                seats = {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
                restaurants[site] = seating.copy().load_state_dict(seats)
        copies = {name: u.clone() for name, u in point.items() if u is not None}
        self._state = self._settled(copies, restaurants, state["generator"].cpu().clone())
        self._traces, self.history = traces, state["history"].tolist()
