# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Concentrations, discounts and seats of hierarchical Pitman-Yor processes, sampled from their joint posterior.

Wallach, Sutton and McCallum (2008), section 3.1: hyperparameters by slice sampling given the internal draws; Teh
(2006), section 4: internal draws by Gibbs sampling given the hyperparameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from typing_extensions import Self

from pyrogram.charts.pitman_yor.restaurants import Restaurants
from pyrogram.distributions.hierarchical_pitman_yor import Density, HierarchicalPitmanYor
from pyrogram.grammar import Weights
from pyrogram.infer.loops.base import same_arguments
from pyrogram.infer.model.structure import ModelError
from pyrogram.infer.model.tracing import depends, kind_of, unwrapped
from pyrogram.infer.samplers.chain import Chain, generator_of, same_tensors
from pyrogram.infer.samplers.hyperparameters import HyperPrior, SliceHypers, _Given

from .tracing import Processes, at_start, check_process, is_process, tensors_in

_ELSEWHERE = "with paths='minimal' or 'maximal', NUTS can"


class PitmanYorSampler(Chain):
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
        self.model, self.seed = model, seed
        self.history: list[float] = []  #: log density of hyperparameters, values and draws after each step, in nats
        self.restaurants: dict[str, Restaurants] = {}  #: counts and seats by site
        self.concentration: Weights = {}  #: α by site, shape (L,)
        self.discount: Weights = {}  #: ε by site, shape (L,)
        self._generator = generator_of(seed)
        self._args: tuple[Any, Any] | None = None
        self._tensors: list[Tensor] = []  # copies of those in the arguments, which may be changed in place
        self._reading = ""  # the fingerprint of what was read
        self._point: Weights = {}  # latent sites in unconstrained coordinates
        self._traces: dict[str, list[Tensor]] = {}
        self._densities: dict[str, Density] = {}  # of sites that are not seated exactly
        self._joints: dict[str, tuple[Tensor, Tensor, Tensor]] = {}  # by site: α, ε, and the log joint there
        self._pending: Weights | None = None  # a state that was loaded before the model was read

    # ------------------------------------------------------------------ public

    def step(self, *args: Any, **kwargs: Any) -> float:
        """Reseat what is seated exactly, then move every hyperparameter once; the arguments are the model's.

        :returns: the log density of hyperparameters, values and internal draws after it, in nats.
        :raises ModelError: if the model has a site that this sampler cannot handle.
        """
        self._read(args, kwargs)
        return self._step()

    def run(
        self,
        *args: Any,
        num_steps: int = 50,
        progress: bool = True,
        callback: Callable[[Self], Any] | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Many steps; positional and other keyword arguments are the model's.

        :param num_steps: of this run; those of the checkpoint that it resumes count.
        :param progress: show a progress bar.
        :param callback: called after every step with this sampler; stops the run by returning True.
        :param checkpoint: file to save to every ``checkpoint_every`` steps, at the end, and when interrupted; it is
            replaced atomically, and a chain resumed from it is the same to the last bit.
        :param resume: go on from ``checkpoint`` if it exists.
        """
        self._read(args, kwargs)
        return self._run(num_steps, progress, callback, checkpoint, checkpoint_every, resume)

    def hyperparameters(self) -> Weights:
        """The present value of every latent site."""
        self._need_args()
        return self._density(self._point)[2]

    def trace(self) -> Weights:
        """The values of every latent site after each step, shape ``(steps, *site.shape)``."""
        return {name: torch.stack(values) for name, values in self._traces.items() if values}

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        self._need_args()
        state = {f"point.{name}": u.clone() for name, u in self._point.items()}
        state.update({f"trace.{name}": values for name, values in self.trace().items()})
        for site, restaurants in self.restaurants.items():
            if restaurants.paths == "exact":  # others follow from the values
                state.update({f"seats.{site}.{name}": x for name, x in restaurants.state_dict().items()})
        state["history"] = torch.tensor(self.history, dtype=torch.float64)
        state["generator"] = self._generator.get_state()
        return state

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

    def _step(self) -> float:
        """A step, wholly or not at all."""
        before = self._point, self._generator.get_state()
        seats = {name: r.copy() for name, r in self.restaurants.items() if r.paths == "exact"}
        try:
            for name in seats:
                self.restaurants[name].reseat(self.concentration[name], self.discount[name], self._generator)
                self._joints.pop(name, None)
            if self._point:
                self._point = SliceHypers().step(lambda point: self._density(point)[1], self._point, self._generator)
            joint = self._settle()
        except BaseException:  # above all KeyboardInterrupt
            self.restaurants.update(seats)
            self._point = before[0]
            self._generator.set_state(before[1])
            self._settle()
            raise
        for name, value in self.hyperparameters().items():
            self._traces[name].append(value)
        self.history.append(joint)
        return joint

    def _settle(self) -> float:
        """Let concentrations and discounts be those of the present point; returns the log joint."""
        self._joints = {}
        joint = self._density(self._point)[0]
        self.concentration = {name: alpha for name, (alpha, _, _) in self._joints.items()}
        self.discount = {name: epsilon for name, (_, epsilon, _) in self._joints.items()}
        return float(joint)

    def _density(self, point: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Weights]:
        """log p(h) P(values, draws | h), without and with the Jacobian of unconstrained coordinates; and h."""
        with torch.no_grad():
            given, sites = self._run_at(point)
            joint = given.log_prior
            for name, site in sites.items():
                alpha, epsilon = site.concentration, site.discount
                old = self._joints.get(name)
                # A coordinate moves the parameters of one site, as a rule.
                if old is None or not (torch.equal(old[0], alpha) and torch.equal(old[1], epsilon)):
                    density = self._densities.get(name, self.restaurants[name].log_joint)
                    old = self._joints[name] = alpha.clone(), epsilon.clone(), density(alpha, epsilon)
                joint = joint + old[2]
        return joint, joint + given.log_jacobian, given.values

    def _run_at(self, point: Mapping[str, Tensor]) -> tuple[_Given, dict[str, HierarchicalPitmanYor]]:
        assert self._args is not None
        given, seen = _Given(point), Processes()
        with given, seen:
            self.model(*self._args[0], **self._args[1])
        return given, seen.sites

    # ------------------------------------------------------------------ reading the model

    def _need_args(self) -> None:
        if self._args is None:
            raise RuntimeError(f"{type(self).__name__} has no state yet; call step or run first")

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
            reading = self._hash(start, values)
        except BaseException:
            self._args = old_args
            raise
        self._tensors = [t.detach().clone() for t in tensors]
        if reading == self._reading:
            return
        self._reading, self.history = reading, []
        self._point = {name: self._point.get(name, u) for name, u in start.items()}
        self._traces = {name: [] for name in start}
        with torch.no_grad():
            sites = self._run_at(self._point)[1]
        self.restaurants = {name: site.restaurants(values[name], self._generator) for name, site in sites.items()}
        self._densities = {
            name: s.contexts.density(values[name], s.num_values, s.paths, s.likelihood, s.base)
            for name, s in sites.items()
            if s.paths != "exact"
        }
        self._settle()
        if self._pending is not None:
            self._take_pending()

    def _check(self, args: Any, kwargs: Any) -> tuple[Weights, Weights]:
        """Where latent sites start, and the values of observed ones."""
        loop = type(self).__name__
        with at_start(loop):
            start = HyperPrior(self.model, loop, args, kwargs).start
            with torch.random.fork_rng(devices=[]), torch.no_grad():
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
                raise ModelError(
                    f"{loop} cannot handle {kind} site {name!r} ({kind_of(unwrapped(site['fn']))}), only observed "
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
            given, sites = self._run_at(leaves)
        useful = [x for site in sites.values() for x in (site.concentration, site.discount)]
        for name, leaf in leaves.items():
            others = [term for other, term in given.terms.items() if other != name]
            if not any(depends(x, leaf) for x in [*useful, *others]):
                raise ModelError(
                    f"{loop} found no use for latent site {name!r}: no concentration or discount depends on it; "
                    f"{_ELSEWHERE}"
                )

    def _fingerprint(self) -> str:
        return self._reading

    def _hash(self, start: Weights, values: Weights) -> str:
        """A hash of the latent sites and their prior, of contexts and values, and of where parameters start."""
        with torch.no_grad():
            given, sites = self._run_at(start)
        digest = hashlib.sha256(f"{type(self).__name__} {float(given.log_prior):.8e}".encode())
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
        point = {name: state.get(f"point.{name}") for name in self._point}
        if any(u is None or u.shape != self._point[name].shape for name, u in point.items()):
            raise ValueError(
                f"this is not the state of {type(self).__name__} with the latent sites {list(self._point)}"
            )
        seats = {}
        for site, restaurants in self.restaurants.items():
            if restaurants.paths == "exact":
                own = f"seats.{site}."
                found = {name.removeprefix(own): x for name, x in state.items() if name.startswith(own)}
                seats[site] = restaurants.copy().load_state_dict(found)
        self._point = {name: u.clone() for name, u in point.items() if u is not None}
        self._traces = {name: list(state.get(f"trace.{name}", torch.zeros(0))) for name in self._point}
        self.restaurants.update(seats)
        self.history = state["history"].tolist()
        self._generator.set_state(state["generator"].cpu())
        self._settle()
