# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Markov chains over the derivations of sentences: Hastings' sampler in collapsed space, and Gibbs sampling.

**References:**

[1] Johnson, M., Griffiths, T. and Goldwater, S. (2007). Bayesian inference for PCFGs via Markov chain Monte Carlo.
NAACL. https://aclanthology.org/N07-1018/
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Grammar, Weights
from pyrogram.infer.loops.base import GrammarLoop
from pyrogram.infer.model.collapsed import CollapsedProblem, make_corpus_counts, posterior_mean
from pyrogram.infer.model.start import checked
from pyrogram.infer.model.structure import ModelError, TracedModel, WeightSource
from pyrogram.infer.running.run import run_options
from pyrogram.infer.running.state import Info, copied, flatten, ragged, unflatten
from pyrogram.sentences import Sentences
from pyrogram.tree_statistics import Statistics, corpus_means, tree_statistics

from .averages import TreeAverages
from .chain import Kernel, generator_of
from .latents import hmc_step, slice_step

if TYPE_CHECKING:
    from pyro.distributions import TorchDistribution

_FIRST_ROWS = 64  # of traces
# What belongs to the chain that a sampler is at.
_CHAIN = {
    *("_args", "_averages", "_best", "_carried", "_draws", "_generator", "_last_statistics", "_pending", "_problem"),
    *("_state", "_supports", "held_out_history", "history", "stopped"),
}


@dataclass(frozen=True)
class TreeState:
    """The derivations of all sentences, and what goes with them.

    :param weights: of sources that are not integrated out: ``pyro.param`` sites, which stay as they are, and those that
        are computed from the point.
    :param counts: f by source.
    :param point: latent values that are not integrated out, in unconstrained coordinates, by site.
    :param log_joint: log P(x, t | α), plus the log density of these latent values, in nats.
    :param sweep: how many there were before.
    :param generator: the state of the chain's.
    :param derivations: by site, shape (N, L).
    :param tuning: what the kernel of latent values has learnt.
    """

    weights: Weights
    counts: Weights
    point: Weights
    log_joint: Tensor
    sweep: Tensor
    generator: Tensor
    derivations: Weights = ragged()
    tuning: Weights = ragged()


@dataclass(frozen=True)
class Swept(Info):
    """What a sweep tells: the log joint before it, and which proposals were accepted, by site, bool (N,)."""

    accepted: Mapping[str, Tensor]


class TreeSampler(GrammarLoop[CollapsedProblem, TreeState], Kernel):
    """A Markov chain over the derivations of all sentences; see :class:`.TreeHastings` and :class:`.TreeGibbs`.

    It runs by itself, like any loop (``sampler.run(words, num_steps=1000, burn_in=200)``), or in Pyro
    (``MCMC(sampler, 1000).run(words)``), where the samples are the weights and the continuous hyperparameters; the
    derivations are the kernel's state. ``history`` holds log P(x, t | α), plus the log density of hyperparameters,
    before every sweep; of tilted sentences, plus the nats of their derivations. Words may be on a device:
    derivations are drawn, and kept, there; Dirichlets are drawn on the CPU.

    Dirichlets that are weights and nothing else are integrated out. All other latent values are sampled, too, given the
    derivations: those that concentrations depend on (α ~ Gamma, say), and those that weights are computed from, by a
    network or a softmax. Their density needs no chart, see :func:`.tangent`. ``pyro.param`` sites are left as they are.

    :param batch_size: sentences that are proposed together.
    :param order: of the sentences: ``"fixed"``, or ``"shuffled"`` anew for every sweep.
    :param seed: of the chain; by default from torch's global generator, as always in Pyro's ``MCMC``, which seeds that
        for every chain.
    :param kernel: how these latent values are sampled: ``"slice"`` (one coordinate after the other), ``"hmc"``
        (all at once; its step size is adapted during the burn-in, and without one all the time, ever less, which leaves
        the limit exact: Roberts and Rosenthal 2007); by default HMC if weights are computed from them, and slice
        sampling otherwise.
    :param keep_parts: whether to average the parts of derivations, for :meth:`marginals`: 4 bytes for each part, as if
        all sentences were as long as the longest. Arcs of N sentences of up to n words take 4 N (n + 1)² bytes.
    :param keep_statistics: whether to keep means over the sentences of :func:`.tree_statistics`, of the present
        derivations after every sweep, for :meth:`trace`; or such statistics of one's own, by name. In Pyro's ``MCMC``
        they are among the samples, so that its ``summary`` has them.
    :param keep_weights: whether to keep the weights' means given the derivations, and other latent values, for
        :meth:`trace`: 8 bytes a number and sweep.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        batch_size: int = 8,
        order: Literal["fixed", "shuffled"] = "fixed",
        initial_weights: Mapping[str, Tensor] | str | None = None,
        seed: int | None = None,
        kernel: Literal["slice", "hmc"] | None = None,
        keep_parts: bool = True,
        keep_statistics: bool | Statistics = False,
        keep_weights: bool = False,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if batch_size < 1 or order not in ("fixed", "shuffled") or kernel not in (None, "slice", "hmc"):
            raise ValueError(
                f"need batch_size >= 1, order 'fixed' or 'shuffled', kernel 'slice' or 'hmc', not {batch_size}, "
                f"{order!r}, {kernel!r}"
            )
        functions = keep_statistics.values() if isinstance(keep_statistics, Mapping) else ()
        if not isinstance(keep_statistics, bool | Mapping) or not all(map(callable, functions)):
            raise TypeError(
                "keep_statistics must be True, False, or functions of words and derivations by name, not "
                f"{keep_statistics!r:.80}"
            )
        self.batch_size, self.order, self.seed = batch_size, order, seed
        self.kernel, self.keep_parts = kernel, keep_parts
        self.keep_statistics, self.keep_weights = keep_statistics, keep_weights
        self._given_params: Weights = {}
        self._end()

    _dirichlets: ClassVar[str]  #: what :meth:`plan` says of them

    # ------------------------------------------------------------------ what a sampler must say

    @abstractmethod
    def _sweep(
        self, problem: CollapsedProblem, state: TreeState, generator: torch.Generator
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        """New derivations by site, their counts by source, and which proposals were accepted, by site."""

    # ------------------------------------------------------------------ public

    def run(
        self,
        *args: Any,
        num_steps: int = 1000,
        burn_in: int = 0,
        **kwargs: Any,
    ) -> Self:
        """Sweep over all sentences again and again; positional and other keyword arguments are the model's.

        ``progress``, ``callback``, ``checkpoint``, ``checkpoint_every`` and ``resume`` among them are as in every run,
        see :meth:`.Resumable._run`; ``num_steps`` counts the burn-in, too.

        :param burn_in: sweeps, from the start of the chain, that averages leave out. Sweeps that are averaged already
            cannot be left out one by one: in a later run, a greater one must leave out all that are done.
        """
        if burn_in < 0:
            raise ValueError(f"burn_in must be at least 0, not {burn_in}")
        options = run_options(kwargs)
        self._read(args, kwargs)
        return self._run(num_steps, ready=partial(self._leave_out, burn_in), **options)

    def trees(self, site: str | None = None) -> Tensor:
        """The present derivations, shape ``(N, L)``."""
        problem, state = self._present()
        return state.derivations[problem.traced.site(site).name].clone()

    @property
    def statistics_names(self) -> list[str]:
        """The names of the statistics of trees that are kept, ``<site>.<statistic>``."""
        return list(self._statistics(self._present()[1]))

    def axes_of_sites(self) -> dict[str, dict[str, Sequence[str]]]:
        """Names of the dimensions of latent sites, and of what lies along them, where a site is a block's weights."""
        traced, by_site = self._need_problem().traced, dict[str, dict[str, Sequence[str]]]()
        for site in traced.sentences:
            for block, axes in site.grammar.axes.items():
                source = traced.weight_sources[site.source_of_block[block]]
                dims = dict(axes)
                if source.probability is not None:  # of pairs [p, 1 - p] the site has p
                    dims.popitem()
                by_site.setdefault(source.name, dims)
        return by_site

    def best(self, site: str | None = None) -> tuple[Tensor, float]:
        """The derivations of the sweep with the greatest log joint so far, and this log joint, in nats."""
        problem, state = self._present()
        best = _with_best(self._kept, state)
        return best.best[problem.traced.site(site).name].clone(), float(best.best_joint)

    def marginals(self, site: str | None = None) -> Tensor:
        """Posterior probabilities of the parts of derivations: averages over the sweeps that are kept.

        In the shape of the ``marginals()`` of the grammar's derivations: arcs (N, n+1, n+1) of the DMV, say.
        """
        averages, name = self._kept, self._need_problem().traced.site(site).name
        if name not in averages.parts:
            raise RuntimeError("no parts were kept: run with keep_parts=True for more sweeps than burn_in")
        return averages.parts[name].to(torch.get_default_dtype()) / int(averages.kept)

    def trace(self) -> dict[str, Tensor]:
        """What was kept of each of the T sweeps after the burn-in, by name, shape ``(T, *shape)``, float64.

        ``"log joint"``, in nats; with ``keep_statistics`` means over the sentences of a site, ``"<site>.<statistic>"``;
        with ``keep_weights`` the weights' means given the derivations, and other latent values, by site. See
        :func:`.convergence`.
        """
        averages = self._kept
        kept = int(averages.kept)
        return {"log joint": averages.joints.clone(), **{n: t[:kept].clone() for n, t in averages.traces.items()}}

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted in the sweeps that are kept; NaN before.

        A derivation that is known stays, and counts as accepted.
        """
        return float("nan") if self._averages is None else self._averages.acceptance

    def acceptance_by_length(self, site: str | None = None) -> dict[int, float]:
        """The same by the number of words of a sentence."""
        problem = self._need_problem()
        averages, name = self._kept, problem.traced.site(site).name
        if not averages.kept:
            return {}
        lengths, accepted = problem.orders[name].lengths, averages.accepted[name]
        return {int(n): float(accepted[lengths == n].double().mean()) / int(averages.kept) for n in lengths.unique()}

    def hyperparameters(self) -> Weights:
        """The present values of the latent sites that are not integrated out."""
        problem, state = self._present()
        return problem.latents({}, state.point)

    # ------------------------------------------------------------------ Pyro's kernel

    def _end(self) -> None:
        """No chain."""
        self._forget()
        self._problem, self._args, self._pending, self._carried = None, None, None, {}

    def _forget(self) -> None:
        super()._forget()
        self._generator = generator_of(self.seed)  # where the next chain begins
        self._averages: TreeAverages | None = None
        self._draws: tuple[TreeState, Weights] | None = None  # weights drawn given the derivations of a state
        self._last_statistics: tuple[Weights, Weights] | None = None  # statistics of derivations
        self._supports: dict[str, Any] = {}  # of derivations, by site

    def _begin(self, *args: Any, **kwargs: Any) -> None:
        self._read(args, kwargs)
        self._present()

    @property
    def initial_params(self) -> Weights:
        """The chain's present weights, and hyperparameters."""
        return self._given_params if self._state is None else self._samples()

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:
        self._given_params = dict(params)

    def _samples(self) -> Weights:
        """Weights drawn given the derivations, and hyperparameters."""
        problem, state = self._present()
        sources = problem.traced.weight_sources
        if self._draws is None or self._draws[0] is not state:
            generator = torch.Generator().set_state(state.generator)
            draws = problem.draw_dirichlets(state.counts, state.point, generator)
            self._state = state = replace(state, generator=generator.get_state())
            self._draws = state, draws
        weights = {n: sources[n].at_site(draw.exp().to(sources[n].value.dtype)) for n, draw in self._draws[1].items()}
        return {**weights, **self.hyperparameters(), **self._statistics(state)}

    def logging(self) -> dict[str, Any]:
        _, state = self._present()
        return {"log joint": f"{float(state.log_joint):.1f}", **super().logging()}

    def diagnostics(self) -> dict[str, Any]:
        """For Pyro's ``MCMC.diagnostics``: of the sweeps that are kept."""
        joints = [] if self._averages is None else self._averages.joints.tolist()
        report = {**super().diagnostics(), "log joint": joints}
        if self.keep_statistics and self._state is not None:
            report["tree statistics"] = self.statistics_names
        if self._state is not None and "steps" in self._state.tuning:
            tuning = self._state.tuning
            report["acceptance rate of latent values"] = float(tuning["accepted"] / tuning["steps"])
        return report

    def __getstate__(self) -> dict[str, Any]:
        """A kernel travels to another process as it was made; chains start there."""
        return {name: value for name, value in self.__dict__.items() if name not in _CHAIN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._end()

    # ------------------------------------------------------------------ the chain

    def _prepare(self, model: Callable[[], Any]) -> CollapsedProblem:
        return CollapsedProblem.read(model, type(self).__name__, self.batch_size, self._check)

    def _check(self, traced: TracedModel) -> None:
        """
        :raises ModelError: for what the sampler cannot do.
        """

    def _way(self, problem: CollapsedProblem, source: WeightSource) -> str:
        if source.concentration is not None:
            return self._dirichlets
        return "drawn" if source.is_computed and problem.start else "constant"

    def _start(self, traced: TracedModel) -> Weights:
        start = super()._start(traced)
        if isinstance(self.initial_weights, str):  # where derivations start; weights that are parameters are given
            fixed = {name: s for name, s in traced.weight_sources.items() if s.is_param}
            start.update({name: checked(traced, name, name, s.value) for name, s in fixed.items()})
        return start

    def _init(self, problem: CollapsedProblem, start: Weights) -> TreeState:
        """Derivations under the initial weights."""
        sources = problem.traced.weight_sources
        point = copied({**problem.start, **problem.point_of(self._given_params)})
        weights = problem.terms_at({}, point).weights(problem.fixed(start))
        start = {**weights, **start, **{n: sources[n].of_site(w) for n, w in self._given_params.items() if n in start}}
        generator = torch.Generator().set_state(self._generator.get_state())
        derivations = {}
        for site in problem.traced.sentences:
            logs = {b: safe_log(start[s].to(torch.float64)) for b, s in site.source_of_block.items()}
            site.check_derivable(site.grammar.log_partition(logs, site.sentences))
            derivations[site.name] = problem.draw(site, logs, generator)
        nothing, sweep = torch.tensor(0.0, dtype=torch.float64), torch.tensor(0)
        state = TreeState(weights, {}, point, nothing, sweep, generator.get_state(), derivations, {})
        return self._recounted(problem, state)

    def _recounted(self, problem: CollapsedProblem, state: TreeState) -> TreeState:
        """With the counts and the log joint of its derivations."""
        counts = problem.counted(state.derivations)
        joint = problem.log_joint(state.point, counts, state.weights) + problem.log_tilt(state.derivations)
        return replace(state, counts=counts, log_joint=joint)

    def _update(self, problem: CollapsedProblem, state: TreeState) -> tuple[TreeState, Swept]:
        generator = torch.Generator().set_state(state.generator)
        derivations, counts, accepted = self._sweep(problem, state, generator)
        point, tuning = self._moved_latents(problem, state, counts, generator)
        weights = problem.terms_at({}, point).weights(state.weights)
        joint = problem.log_joint(point, counts, weights) + problem.log_tilt(derivations)
        sweep = state.sweep + 1
        new = TreeState(weights, counts, point, joint, sweep, generator.get_state(), derivations, tuning)
        if int(sweep) > self.burn_in:
            self._statistics(new)  # of one's own they may fail: now nothing has changed yet
        return new, Swept(float(state.log_joint), accepted)

    def _moved_latents(
        self, problem: CollapsedProblem, state: TreeState, counts: Weights, generator: torch.Generator
    ) -> tuple[Weights, Weights]:
        """Latent values given the derivations; and what their kernel has learnt."""
        if not state.point:
            return state.point, state.tuning
        computed = any(source.is_computed for source in problem.traced.weight_sources.values())
        ordered = {name: state.point[name] for name in problem.start}  # also when it comes from a file
        density = partial(problem.density, counts)
        if (self.kernel or ("hmc" if computed else "slice")) == "slice":
            return slice_step(density, ordered, generator), state.tuning
        adapt = not self.burn_in or int(state.sweep) < self.burn_in
        return hmc_step(density, ordered, state.tuning, generator, adapt=adapt)

    # ------------------------------------------------------------------ averages

    @property
    def _kept(self) -> TreeAverages:
        if self._averages is None:
            self._averages = TreeAverages.none(self._need_problem().traced)
        return self._averages

    def _leave_out(self, burn_in: int) -> None:
        """Let averages leave out so many sweeps from the start of the chain."""
        self._averages = self._kept.beginning(self._need_problem().traced, burn_in, len(self.history))
        self.burn_in = burn_in

    def _done(self, problem: CollapsedProblem, old: TreeState, info: Info) -> None:
        """Add the present state to the averages."""
        _, state = self._present()
        assert isinstance(info, Swept)
        averages = _with_best(_with_best(self._kept, old), state)
        if len(self.history) > self.burn_in:
            averages = self._with(averages, problem, state, info.accepted)
        self._averages = averages

    def _with(
        self, averages: TreeAverages, problem: CollapsedProblem, state: TreeState, accepted: Mapping[str, Tensor]
    ) -> TreeAverages:
        """Averages with the sweep that has led to a state."""
        means = posterior_mean(problem.traced, state.counts, problem.alpha(state.point), state.weights)
        followed = self._statistics(state)
        if self.keep_weights:
            sources = problem.traced.weight_sources
            values = {name: sources[name].at_site(w) for name, w in means.items()}
            values |= problem.latents({}, state.point)
            followed |= {name: x.double() for name, x in values.items()}
        kept = int(averages.kept)
        averages = replace(
            averages,
            kept=averages.kept + 1,
            sums={name: total + means[name].double() for name, total in averages.sums.items()},
            accepted={site: total + accepted[site].to(total) for site, total in averages.accepted.items()},
            joints=torch.cat([averages.joints, state.log_joint.reshape(1)]),
            traces={name: _with_row(averages.traces.get(name), kept, x) for name, x in followed.items()},
        )
        for site, trees in state.derivations.items() if self.keep_parts else ():
            averages.parts[site] = problem.updates[site].add_parts(averages.parts.get(site), trees)
        return averages

    def _statistics(self, state: TreeState) -> Weights:
        """Of the derivations of a state, if they are wanted, by ``<site>.<statistic>``; computed once for each."""
        if not self.keep_statistics:
            return {}
        if self._last_statistics is None or self._last_statistics[0] is not state.derivations:
            chosen, means = None if self.keep_statistics is True else self.keep_statistics, {}
            for site in self._need_problem().traced.sentences:
                if site.name not in self._supports:
                    self._supports[site.name] = site.derivation().support
                values = tree_statistics(self._supports[site.name], site.words, state.derivations[site.name], chosen)
                means.update({f"{site.name}.{name}": mean for name, mean in corpus_means(values).items()})
            self._last_statistics = state.derivations, means
        return dict(self._last_statistics[1])

    def _estimate(self, problem: CollapsedProblem, state: TreeState) -> Weights:
        if state is not self._state or not self._kept.kept:
            return posterior_mean(problem.traced, state.counts, problem.alpha(state.point), state.weights)
        sources, kept = problem.traced.weight_sources, int(self._kept.kept)
        return {n: (total / kept).to(sources[n].value.dtype) for n, total in self._kept.sums.items()}

    # ------------------------------------------------------------------ states that are loaded

    def state_dict(self) -> dict[str, Tensor]:
        averages = copied(flatten(self._kept))
        return {**super().state_dict(), **{f"averages.{name}": t for name, t in averages.items()}}

    def _take_pending(self, problem: CollapsedProblem) -> None:
        pending, owner = dict(self._pending or {}), type(self).__name__
        kept = {n.removeprefix("averages."): pending.pop(n) for n in list(pending) if n.startswith("averages.")}
        self._pending = pending
        like, none = self._like(problem), TreeAverages.none(problem.traced)
        expected = replace(none, best=like.derivations)
        if unflatten(none, kept, owner).kept:
            expected = self._with(expected, problem, like, none.accepted)
        averages = unflatten(expected, kept, owner)
        best = averages.best
        known = problem.are_derivations(best) if best else averages.best_joint == -torch.inf
        if not (known and averages.fits(expected)):
            raise ValueError(f"this is not the state of {owner} over these sentences, whose averages are others")
        super()._take_pending(problem)
        self._averages = averages

    def _accept(self, problem: CollapsedProblem, state: TreeState) -> None:
        fits = problem.are_derivations(state.derivations)
        counts = problem.counted(state.derivations) if fits else {}
        if not fits or not all(torch.allclose(f, counts[name]) for name, f in state.counts.items()):
            raise ValueError(
                f"this is not the state of {type(self).__name__}: 'derivations' are none of these sentences, or "
                "'counts' not theirs"
            )

    def _shown(self) -> dict[str, str]:
        return {"log_collapsed_joint": f"{self.history[-1]:.1f}"}


def _with_best(averages: TreeAverages, state: TreeState) -> TreeAverages:
    """Averages with a state whose derivations may be the best."""
    if bool(state.log_joint > averages.best_joint):
        return replace(averages, best=state.derivations, best_joint=state.log_joint)
    return averages


def _with_row(rows: Tensor | None, number: int, row: Tensor) -> Tensor:
    """Rows with another one, in place; where there is no room left, they become twice as many."""
    if rows is None:
        rows = row.new_zeros(_FIRST_ROWS, *row.shape)
    elif number == len(rows):
        rows = torch.cat([rows, torch.zeros_like(rows)])
    rows[number] = row.detach()
    return rows


class TreeHastings(TreeSampler):
    """Derivations, one sentence after the other, with the weights integrated out: exact for P(t | x, α).

    The derivation of sentence i is proposed from weights (f^-i + α) / sum (f^-i + α), f^-i the events of all others,
    and accepted with probability min(1, P(t') q(t) / (P(t) q(t'))), in which P(t | t^-i) = B(f(t) + f^-i + α) /
    B(f^-i + α) counts repeated events within a derivation. Sentences are proposed ``batch_size`` at a time, from
    weights without the derivations of the whole batch, and accepted one by one: exact, see
    :meth:`.CollapsedUpdates.hastings`. A subclass that overrides :meth:`proposal` proposes from another distribution.

    Acceptance is nearly one on real corpora, and that says nothing about how well the chain mixes.

    Compiled sweeps are of the CPU. Words on another device are swept by torch, and the host waits for every sentence:
    move them to the CPU.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> chain = TreeHastings(pyrogram.models.dirichlet.dirichlet, seed=0)
    >>> chain.run(words, grammar, concentration=1.0, num_steps=5, progress=False).weights()["rules"]
    tensor([0.4286, 0.5714])

    :param annealing: simulated annealing: (T, k) lowers the temperature of the target P(t | x, α)^(1/T) geometrically
        from T to one in k sweeps; or a function from the sweep's number, from zero, to a temperature.
    :param options: of every :class:`.TreeSampler`: ``batch_size``, ``order``, ``initial_weights``, ``seed``,
        ``kernel``, ``keep_parts``, ``keep_statistics``, ``keep_weights``.
    """

    _dirichlets = "integrated out"

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        annealing: tuple[float, int] | Callable[[int], float] | None = None,
        **options: Any,
    ):
        super().__init__(model, **options)
        pair = isinstance(annealing, tuple) and len(annealing) == 2
        if annealing is not None and not callable(annealing):
            if not (pair and annealing[0] > 0 and annealing[1] >= 1):
                raise ValueError(
                    f"annealing must be (T, k) with T > 0 and k >= 1, or a function of the sweep, not {annealing}"
                )
        self.annealing = annealing

    def _check(self, traced: TracedModel) -> None:
        for site, _, source in traced.computed_blocks():
            if source.per_sentence:
                raise ModelError(
                    f"{type(self).__name__} needs weights that all sentences of site {site!r} share; use TreeGibbs"
                )

    def temperature(self, sweep: int) -> float:
        """The temperature of a sweep, counted from zero."""
        if self.annealing is None:
            return 1.0
        if callable(self.annealing):
            return self.annealing(sweep)
        start, sweeps = self.annealing
        return float(start ** max(0.0, 1 - sweep / sweeps))

    def proposal(self, grammar: Grammar, words: Tensor | Sentences, log_weights: Weights) -> TorchDistribution:
        """What new derivations of a batch of sentences are proposed from; override it in a subclass.

        The chain leaves P(t | x, α) invariant for any distribution that depends on these arguments alone, which know
        nothing of the derivations of the batch, and gives a positive probability to every derivation that has one.
        Sweeps with a proposal of one's own are in plain torch, not in compiled code.

        :param grammar: the grammar of the sentences: with their evidence, and tilted, if the model is.
        :param words: of the batch, shape ``(B, n)``; where something is known of the sentences, :class:`.Sentences`,
            whose ``words`` these are.
        :param log_weights: by block, shape ``block.shape``: (f + α) / sum (f + α), f the counts of the sentences
            outside of the batch, or weights that are given; divided by the temperature.
        :returns: a distribution of batch shape ``(B,)`` over derivations, as those of ``grammar.derivation``: it has
            ``sample`` and a normalised ``log_prob``.
        """
        return grammar.derivation(None, words, log_weights=log_weights)

    def _sweep(
        self, problem: CollapsedProblem, state: TreeState, generator: torch.Generator
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        counts = {name: f.clone() for name, f in state.counts.items()}
        derivations, accepted = {name: trees.clone() for name, trees in state.derivations.items()}, {}
        proposal = None if type(self).proposal is TreeHastings.proposal else self.proposal
        for site in problem.traced.sentences:
            accepted[site.name] = problem.updates[site.name].hastings(
                make_corpus_counts(site, counts, problem.alpha(state.point), state.weights),
                derivations[site.name],
                problem.order(site, generator if self.order == "shuffled" else None),
                self.batch_size,
                generator=generator,
                temperature=self.temperature(int(state.sweep)),
                proposal=proposal,
            )
        return derivations, counts, accepted


class TreeGibbs(TreeSampler):
    """Weights given derivations (Dirichlets), then derivations given weights, all sentences at once: exact.

    Averages of weights are of their means given the derivations. ``batch_size`` and ``order`` play no part.
    """

    _dirichlets = "drawn"

    def _sweep(
        self, problem: CollapsedProblem, state: TreeState, generator: torch.Generator
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        log_weights = {name: safe_log(w.to(torch.float64)) for name, w in state.weights.items()}
        drawn = {**log_weights, **problem.draw_dirichlets(state.counts, state.point, generator)}
        derivations, accepted = {}, {}
        for site in problem.traced.sentences:
            by_block = {block: drawn[source] for block, source in site.source_of_block.items()}
            derivations[site.name] = problem.draw(site, by_block, generator)
            accepted[site.name] = torch.ones(len(site.words), dtype=torch.bool)
        return derivations, problem.counted(derivations), accepted
