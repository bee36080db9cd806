# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What all loops share: the model's reading, the present state, and how steps follow one another."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol

import pyro
import torch
from torch import Tensor
from torch.distributions import transform_to
from typing_extensions import Self, TypeVar

from pyrogram.distributions.ragged import simplex_of
from pyrogram.grammar import Weights
from pyrogram.infer.model.sites import ObsMaskRefused
from pyrogram.infer.model.start import carried, start_weights
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel, WeightSource
from pyrogram.infer.running.reduce import of_first, together
from pyrogram.infer.running.run import Resumable, run_options, with_history
from pyrogram.infer.running.state import Info, copied, flatten, unflatten
from pyrogram.infer.running.stopping import Stopping
from pyrogram.random_state import random_state_kept

from .e_step import Counted, ScheduledEStep
from .held_out import held_out_likelihood

P = TypeVar("P", bound=Problem, default=Any)


class LoopState(Protocol):
    """What every state has: the weights of sources that are ``pyro.param`` sites."""

    @property
    def weights(self) -> Weights: ...


S = TypeVar("S", bound=LoopState, default=Any)


class GrammarLoop(Resumable, Generic[P, S]):
    """A loop that turns expected counts into weights, for any grammar and any model that it can read.

    An algorithm is four functions. ``_prepare`` makes the problem P: what steps need and do not change. ``_init``
    makes the first state S, a frozen dataclass of tensors that holds all that they change. ``_update`` maps a state to
    the next one, and leaves the old one as it is. ``_estimate`` reads weights off a state. All else is here.

    :param model: a Pyro model with observed ``Sentence`` sites whose weights are ``pyro.param`` sites, Dirichlet sites
        or logistic normals.
    :param initial_weights: where to start: a mapping from block (or site) name to weights, or the name of one of the
        grammar's initialisers. By default a ``pyro.param`` starts at its value, a Dirichlet site where the grammar's
        ``initial_weights`` says, given the words of all sites that share it, and a logistic normal at its mean; a mean
        that is a ``pyro.param`` is set, too. That start may be random: ``pyro.set_rng_seed`` makes runs repeat
        themselves. ``"uniform"`` is a saddle point for hidden symbols that could swap their names, see
        docs/many-starts.md.
    :param e_step: the E-step over derivations, by default the plain one. With its ``reduce`` this is one of several
        processes that run the same program, and has the same numbers as one would, see docs/processes.md.
    """

    may_fall = False  #: whether the objective may fall between iterations, which is then no reason to stop
    _kind = ""  # the algorithm, as far as states of others are none of it; by default the name of the class

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        initial_weights: Mapping[str, Tensor] | str | None = None,
        e_step: ScheduledEStep | None = None,
    ):
        super().__init__()
        self.model = model
        self.initial_weights = initial_weights
        #: ``history`` is the objective before each update; this the held-out log-likelihood after it, NaN without one
        self.held_out_history: list[float] = []
        self._e_step = ScheduledEStep() if e_step is None else e_step
        self.reduce = self._e_step.reduce
        self._args: tuple[Any, Any] | None = None
        self._problem: P | None = None
        self._carried: Weights = {}  # by source: what was learnt from another corpus, to start from
        self._state: S | None = None  # None before the first step
        self._best: S | None = None  # the state of best held-out likelihood
        self._pending: Mapping[str, Tensor] | None = None  # a state that was loaded before the model was read

    # ------------------------------------------------------------------ what an algorithm must say

    @abstractmethod
    def _prepare(self, model: Callable[[], Any]) -> P:
        """Read a model, which has its arguments already; refuse, by name, what this loop cannot handle."""

    @abstractmethod
    def _init(self, problem: P, start: Weights) -> S:
        """The first state, from weights by source."""

    @abstractmethod
    def _update(self, problem: P, state: S) -> tuple[S, Info]:
        """The next state."""

    @abstractmethod
    def _estimate(self, problem: P, state: S) -> Weights:
        """Normalised weights by source."""

    @abstractmethod
    def _way(self, problem: P, source: WeightSource) -> str:
        """How weights that are no constants are inferred, see :meth:`plan`."""

    def _accept(self, problem: P, state: S) -> None:
        """Raise a ValueError if a loaded state, with the right names and shapes, cannot be one of this problem."""

    def _done(self, problem: P, old: S, info: Info) -> None:
        """Called at the end of a step, with the state before it: for what is kept outside of states."""

    # ------------------------------------------------------------------ public

    def step(self, *args: Any, **kwargs: Any) -> float:
        """One iteration over all sentences; the arguments are the model's.

        :returns: the objective, in nats, of the state *before* the update.
        :raises ModelError: if the model has a site that this loop cannot handle.
        """
        self._read(args, kwargs)
        objective = self._advance()
        self._write_parameters()
        return objective

    def run(
        self,
        *args: Any,
        num_steps: int = 100,
        tolerance: float = 1e-6,
        held_out: Tensor | Mapping[str, Tensor] | None = None,
        patience: int = 1,
        held_out_smoothing: float = 1e-4,
        **kwargs: Any,
    ) -> Self:
        """Iterate until nothing more is gained; positional and other keyword arguments are the model's.

        ``num_steps``, and among keyword arguments ``progress``, ``callback``, ``checkpoint``, ``checkpoint_every`` and
        ``resume``, are as in every run, see :meth:`.Resumable._run`.

        A run with a schedule stops, and evaluates held-out sentences, only once the schedule is over.

        :param tolerance: stop when the objective's gain (or its change, if :attr:`may_fall`) falls below this share of
            its magnitude; 0 never stops.
        :param held_out: sentences ``(N, n)``, or a mapping from Sentence site to sentences. Stop when their
            log-likelihood under the point estimate has not risen for ``patience`` iterations, and go back to
            the best state.
        :param held_out_smoothing: weight of the uniform distribution that is mixed into every multinomial of the point
            estimate for that purpose, so that an event unseen in training does not make a sentence impossible.
        :returns: this loop; see ``history``, ``held_out_history``, ``stopped`` and ``weights()``.
        """
        stopping, options = Stopping(tolerance, patience), run_options(kwargs)
        self._read(args, kwargs)
        stopping.may_fall = self.may_fall
        over = self._e_step.num_steps
        try:
            self._run(
                num_steps,
                step=partial(self._advance, held_out, held_out_smoothing),
                ended=lambda: stopping.reason(
                    self.history[over:], [] if held_out is None else self.held_out_history[over:]
                ),
                **options,
            )
            if self._best is not None and stopping.since_best > 0:
                self._set_state(self._best)
        finally:
            # What is saved is where a longer run goes on, not the best state, which is saved with it.
            self._write_parameters()
        return self

    def plan(self, *args: Any, **kwargs: Any) -> dict[str, dict[str, str]]:
        """How weights are inferred, by Sentence site and block; the arguments are the model's.

        =====================  =====================================================================================
        ``"closed form"``      normalised counts, or a Dirichlet's new concentrations
        ``"Newton's method"``  the Gaussians of logistic normals, see :class:`.VariationalEM`
        ``"gradient"``         L-BFGS on what the weights are computed from
        ``"guide"``            stochastic gradients on the guide of what the weights are computed from
        ``"integrated out"``   Dirichlets under :class:`.CollapsedVB` and :class:`.TreeHastings`
        ``"drawn"``            from the posterior, given derivations
        ``"constant"``         left as they are
        =====================  =====================================================================================

        Of tied weights there may be two, with " and " between.

        :raises ModelError: if the model has a site that this loop cannot handle.
        """
        present = self._problem is not None and self._args is not None and same_arguments(self._args, (args, kwargs))
        problem = self._need_problem() if present else self._prepare(partial(self.model, *args, **kwargs))
        sources = problem.traced.weight_sources
        ways = {n: "constant" if s.is_constant else self._way(problem, s) for n, s in sources.items()}
        return {
            site.name: {
                block: " and ".join(dict.fromkeys(ways[source] for source in names))
                for block, names in site.sources_of_blocks().items()
            }
            for site in problem.traced.sentences
        }

    def multipliers(self) -> list[float]:
        """Of each constraint, the nats by which the last E-step tilted its events; see :class:`.AtLeast`."""
        _, state = self._present()
        dual: Weights = getattr(state, "dual", {})
        return [float(nats) for nats in dual.get("multipliers", ())]

    def weights(self, site: str | None = None) -> Weights:
        """The point estimate: normalised weights by block.

        Maximum-likelihood and MAP weights as they are; of a variational posterior the mean.

        :param site: the Sentence site whose grammar is meant, where the model has several.
        """
        problem, state = self._present()
        estimate = self._estimate(problem, state)
        return problem.traced.site(site).weights(estimate)

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        problem, state = self._present()
        tensors = copied(flatten(state))
        if self._best is not None:
            best = copied(flatten(self._best))
            tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
        return with_history(tensors, history=self.history, held_out_history=self.held_out_history)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of another loop of the same kind and model.

        :raises ValueError: if it is not the state of a loop of this kind.
        """
        for name in ("history", "held_out_history"):
            if name not in state or state[name].dim() != 1:
                raise ValueError(f"this is not the state of {type(self).__name__}, which needs a {name!r} of one axis")
        self._pending = copied(state)
        if self._problem is not None:
            self._take_pending(self._problem)
        else:
            self.history, self.held_out_history = state["history"].tolist(), state["held_out_history"].tolist()

    # ------------------------------------------------------------------ one step after the other

    def _advance(self, held_out: Tensor | Mapping[str, Tensor] | None = None, smoothing: float = 0.0) -> float:
        """An iteration, wholly or not at all."""
        problem, state = self._present()
        try:
            new, info = self._update(problem, state)
            likelihood = math.nan
            if held_out is not None and len(self.history) >= self._e_step.num_steps:
                likelihood = held_out_likelihood(problem.traced, self._estimate(problem, new), held_out, smoothing)
            new, (objective, likelihood) = self._agreed(new, info.objective, likelihood)
        except BaseException:  # above all KeyboardInterrupt: only what lies in Pyro's store may have changed
            self._set_state(state)
            raise
        self._state = new
        self.history.append(objective)
        if likelihood > max((x for x in self.held_out_history if not math.isnan(x)), default=-math.inf):
            self._best = new
        self.held_out_history.append(likelihood)
        self._done(problem, state, info)
        return objective

    def _agreed(self, state: S, *numbers: float) -> tuple[S, tuple[float, ...]]:
        """What process 0 has come to, for machines may differ in their last bits."""
        if self.reduce is None:
            return state, numbers
        tensors, numbers = of_first(self.reduce, (flatten(state), numbers))
        return unflatten(state, tensors, type(self).__name__), numbers

    def _count(self, traced: TracedModel, log_weights: Mapping[str, Tensor], dual: Weights) -> Counted:
        """The E-step over derivations of the present step.

        :param log_weights: by source.
        :param dual: where constraints stood.
        """
        return self._e_step(traced, log_weights, dual, len(self.history))

    def _present(self) -> tuple[P, S]:
        """The problem, and the present state of it."""
        problem = self._need_problem()
        if self._state is None:
            self._state = self._first(problem)
        return problem, self._state

    def _first(self, problem: P) -> S:
        """The state that the loop begins with."""
        parameters = problem.traced.parameter_values()
        try:
            start = together(self.reduce, lambda: {**self._start(problem.traced), **self._carried})
            if self.reduce is not None:
                start, first = of_first(self.reduce, (start, parameters))
                problem.traced.set_parameters(first)
            return self._agreed(self._init(problem, start))[0]
        except BaseException:
            problem.traced.set_parameters(parameters)
            raise

    def _set_state(self, state: S) -> None:
        """Go on from another state."""
        self._state = state
        self._need_problem().traced.set_parameters(getattr(state, "parameters", {}))

    def _shown(self) -> dict[str, str]:
        return {"objective": f"{self.history[-1]:.4f}"}

    # ------------------------------------------------------------------ the model

    def _read(self, args: Any, kwargs: Any) -> P:
        """The problem that the model with these arguments is, made once for the same arguments."""
        old = self._problem
        if old is not None and self._args is not None and same_arguments(self._args, (args, kwargs)):
            return old
        with ObsMaskRefused():
            problem = together(self.reduce, partial(self._prepare, partial(self.model, *args, **kwargs)))
        self._e_step.check(problem.traced, type(self).__name__)
        self._check_alike(problem.traced)
        if old is not None and self._hash(old.traced) != self._hash(problem.traced):
            # Another objective: its history would say nothing about when to stop. What was learnt is where it starts.
            if self._state is not None:
                self._carried = carried(problem.traced, self._estimate(old, self._state))
                problem.traced.begin_at(getattr(self._state, "parameters", {}))
            self._forget()
        self._problem, self._args = problem, (args, kwargs)
        if self._pending is not None:
            self._take_pending(problem)
        return problem

    def _check_alike(self, traced: TracedModel) -> None:
        """Refuse processes that have read different things."""
        if self.reduce is None:
            return
        hashes = self.reduce.gather(self._hash(traced))
        for rank, other in enumerate(hashes):
            if other != hashes[0]:
                raise ModelError(
                    f"process {rank} has other sentences, or another model, than process 0; let all processes read the "
                    f"same files in the same order, and give {type(self).__name__} the same arguments"
                )

    def _start(self, traced: TracedModel) -> Weights:
        """Weights by source."""
        return start_weights(traced, self.initial_weights)

    def _forget(self) -> None:
        """No state, and no history."""
        self.history, self.held_out_history, self.stopped = [], [], ""
        self._state = self._best = None

    def _need_problem(self) -> P:
        if self._problem is None:
            raise RuntimeError(f"{type(self).__name__} has no weights yet; call step or run first")
        return self._problem

    def _write_parameters(self) -> None:
        """Leave what was learnt in the pyro.params of the model, for whatever runs on it next."""
        if self._state is None:
            return
        store = pyro.get_param_store()
        for name, source in self._need_problem().traced.weight_sources.items():
            if source.is_param:
                # With module_local_params the parameter lives in its module, not in the store.
                value: Any = store[name] if name in store else source.value
                with torch.no_grad():
                    value.unconstrained().copy_(transform_to(simplex_of(source.block)).inv(self._state.weights[name]))

    # ------------------------------------------------------------------ states that are loaded

    def _take_pending(self, problem: P) -> None:
        assert self._pending is not None
        tensors, self._pending = dict(self._pending), None
        history, held_out = tensors.pop("history").tolist(), tensors.pop("held_out_history").tolist()
        best = {name.removeprefix("best."): tensors.pop(name) for name in list(tensors) if name.startswith("best.")}
        if not tensors or len(history) != len(held_out):
            raise ValueError(f"this is not the state of {type(self).__name__}: its histories differ in length")
        states = [unflatten(self._like(problem), part, type(self).__name__) for part in (tensors, best) if part]
        for state in states:
            self._accept(problem, state)
        self._set_state(states[0])
        self._best = states[1] if best else None
        self.history, self.held_out_history = history, held_out

    def _like(self, problem: P) -> S:
        """A state with the names and shapes that states of this problem have: the first one, if there is no other."""
        if self._state is None:
            with random_state_kept():
                self._state = self._first(problem)
        return self._state

    def _fingerprint(self) -> str:
        return self._hash(self._need_problem().traced)

    def _hash(self, traced: TracedModel) -> str:
        return traced.fingerprint(f"{self._kind or type(self).__name__}{self._e_step.identity}")


def same_arguments(a: Any, b: Any) -> bool:
    """Whether two sets of arguments are the very same objects, or equal plain values."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_arguments(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_arguments(a[k], b[k]) for k in a)
    return a is b or (isinstance(a, (int, float, str, bool)) and isinstance(b, (int, float, str, bool)) and a == b)
