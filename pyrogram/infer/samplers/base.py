# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the samplers over derivations share: the chain's state, averages, Pyro's kernel interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor
from typing_extensions import Self

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Block, PackedBlock, Weights
from pyrogram.infer.loops.base import GrammarLoop, site_of
from pyrogram.infer.model.collapsed import Order, concentrations, log_joint, mean_weights, refuse_mixtures
from pyrogram.infer.model.expected_counts import check_possible
from pyrogram.infer.model.start import checked
from pyrogram.infer.model.structure import Reading, SentenceSite
from pyrogram.infer.model.tracing import read_model
from pyrogram.sweeps import Sweeps

from .averages import TreeAverages
from .hyperparameters import HyperPrior, NutsHypers, SliceHypers


class TreeSampler(GrammarLoop, MCMCKernel):
    """A Markov chain over the derivations of all sentences; see :class:`.TreeHastings` and :class:`.TreeGibbs`.

    It runs by itself, like any loop (``sampler.run(words, num_steps=1000, burn_in=200)``), or in Pyro
    (``MCMC(sampler, 1000).run(words)``), where the samples are the weights and the continuous hyperparameters; the
    derivations are the kernel's state. ``history`` holds log P(x, t | α), plus the log density of hyperparameters,
    before every sweep.

    Latent sites that concentrations depend on (α ~ Gamma, say) are sampled, too, given the derivations and with the
    weights integrated out. ``pyro.param``s are left as they are: weights, and whatever concentrations depend on.

    :param batch_size: sentences that are proposed together.
    :param order: of the sentences: ``"fixed"``, or ``"shuffled"`` anew for every sweep.
    :param seed: of the chain; by default from torch's global generator, as always in Pyro's ``MCMC``, which seeds that
        for every chain.
    :param hyper_kernel: how hyperparameters are sampled: ``"slice"``, or ``"nuts"``.
    :param keep_parts: whether to average the parts of derivations, for :meth:`marginals`.
    """

    transforms: ClassVar[dict[str, Any]] = {}  # Pyro's MCMC: samples are in their own space already

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        batch_size: int = 8,
        order: Literal["fixed", "shuffled"] = "fixed",
        initial_weights: Mapping[str, Tensor] | str | None = None,
        seed: int | None = None,
        hyper_kernel: Literal["slice", "nuts"] = "slice",
        keep_parts: bool = True,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if batch_size < 1 or order not in ("fixed", "shuffled") or hyper_kernel not in ("slice", "nuts"):
            raise ValueError(
                f"need batch_size >= 1, order 'fixed' or 'shuffled', hyper_kernel 'slice' or 'nuts', not {batch_size}, "
                f"{order!r}, {hyper_kernel!r}"
            )
        self.batch_size, self.order, self.seed = batch_size, order, seed
        self.hyper_kernel, self.keep_parts = hyper_kernel, keep_parts
        self.burn_in = 0  #: sweeps, from the start of the chain, that averages leave out
        self._given_params: Weights = {}
        self._clear()

    _options: ClassVar[tuple[str, ...]] = (
        *("model", "initial_weights", "batch_size", "order", "seed", "hyper_kernel", "keep_parts", "burn_in"),
        *("_given_params", "save_params"),
    )

    def _clear(self) -> None:
        """No chain."""
        self.history, self.held_out_history, self.stopped, self._best, self._pending = [], [], "", {}, None
        self._reading, self._args, self._weights = None, None, {}
        seed = int(torch.randint(2**62, ())) if self.seed is None else self.seed
        self._generator = torch.Generator().manual_seed(seed)
        self._trees: dict[str, Tensor] = {}  # by site
        self._counts: Weights = {}  # f by source
        self._draws: Weights = {}  # weights drawn given the derivations
        self._point: Weights = {}  # hyperparameters, unconstrained
        self._alpha: Weights | None = None
        self._joint = -torch.inf
        self._top: tuple[float, dict[str, Tensor]] = (-torch.inf, {})
        self._averages = TreeAverages()
        self._sweeps: dict[str, Sweeps] = {}
        self._orders: dict[str, Order] = {}
        self._hypers: HyperPrior | None = None
        self._hyper_sampler: SliceHypers | NutsHypers | None = None

    # ------------------------------------------------------------------ what a sampler must say

    @abstractmethod
    def _sweep(self, reading: Reading, alpha: Weights) -> dict[str, Tensor]:
        """New derivations, and counts; returns which sentences' proposals were accepted, by site."""

    # ------------------------------------------------------------------ public

    def run(
        self,
        *args: Any,
        num_steps: int = 1000,
        burn_in: int = 0,
        progress: bool = True,
        callback: Callable[[Self], Any] | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Sweep over all sentences again and again; positional and other keyword arguments are the model's.

        :param num_steps: sweeps of this run, burn-in included; those of the checkpoint that it resumes count.
        :param burn_in: sweeps, from the start of the chain, that averages leave out. Sweeps that are averaged already
            cannot be left out one by one: in a later run, a greater one must leave out all that are done.
        :param progress: show a progress bar.
        :param callback: called after every sweep with this sampler; stops the run by returning True.
        :param checkpoint: file to save to every ``checkpoint_every`` sweeps, at the end, and when interrupted; it is
            replaced atomically, and a chain resumed from it is the same to the last bit.
        :param resume: go on from ``checkpoint`` if it exists.
        """
        if burn_in < 0:
            raise ValueError(f"burn_in must be at least 0, not {burn_in}")
        if checkpoint is not None and self.hyper_kernel == "nuts":
            raise ValueError("the state of NUTS cannot be saved: use hyper_kernel='slice', or no checkpoint")
        self.burn_in = burn_in
        return super().run(
            *args,
            num_steps=num_steps,
            tolerance=0.0,
            progress=progress,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            **kwargs,
        )

    def trees(self, site: str | None = None) -> Tensor:
        """The present derivations, shape ``(N, L)``."""
        return self._trees[self._started(site)].clone()

    def best(self, site: str | None = None) -> tuple[Tensor, float]:
        """The derivations of the sweep with the greatest log joint so far, and this log joint, in nats."""
        return self._top[1][self._started(site)].clone(), self._top[0]

    def marginals(self, site: str | None = None) -> Tensor:
        """Posterior probabilities of the parts of derivations: averages over the sweeps that are kept.

        In the shape of the ``marginals()`` of the grammar's derivations: arcs (N, n+1, n+1) of the DMV, say.
        """
        name = self._started(site)
        if name not in self._averages.parts:
            raise RuntimeError("no parts were kept: run with keep_parts=True for more sweeps than burn_in")
        return self._averages.parts[name].to(torch.get_default_dtype()) / self._averages.kept

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted in the sweeps that are kept; NaN before."""
        return self._averages.acceptance

    def acceptance_by_length(self, site: str | None = None) -> dict[int, float]:
        """The same by the number of words of a sentence."""
        name = self._started(site)
        kept = self._averages.kept
        if not kept:
            return {}
        lengths, accepted = self._orders[name].lengths, self._averages.accepted[name].cpu()
        return {int(n): float(accepted[lengths == n].double().mean()) / kept for n in lengths.unique()}

    def hyperparameters(self) -> Weights:
        """The present values of the latent sites that concentrations depend on."""
        reading = self._need_reading()
        if self._hypers is None:
            return {}
        return self._hypers.values(self._point, self._model_now, reading)

    # ------------------------------------------------------------------ Pyro's kernel

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Start a new chain: a kernel may serve several, one after the other."""
        self._clear()
        # Several chains must differ, whatever the seed that this sampler has for itself.
        self._generator.manual_seed(int(torch.randint(2**62, ())))
        self.burn_in = warmup_steps
        reading = self._read(args, kwargs)
        self._begin(reading)

    @property
    def initial_params(self) -> Weights:
        """The chain's present weights, and hyperparameters."""
        return self._params() if self._trees else self._given_params

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:
        self._given_params = dict(params)

    def sample(self, params: Mapping[str, Tensor]) -> Weights:
        """One sweep; what was there before is the kernel's own state, not ``params``."""
        self._step(self._need_reading())
        return self._params()

    def logging(self) -> dict[str, Any]:
        found = {"log joint": f"{self._joint:.1f}"}
        if self._averages.kept:
            found["acc. rate"] = f"{self.acceptance:.3f}"
        return found

    def diagnostics(self) -> dict[str, Any]:
        """For Pyro's ``MCMC.diagnostics``: of the sweeps that are kept."""
        bad = 0 if self._hyper_sampler is None else self._hyper_sampler.divergences
        joints = list(self._averages.joints)
        return {"divergences": list(range(bad)), "acceptance rate": self.acceptance, "log joint": joints}

    def cleanup(self) -> None:
        """Nothing to do: what was learnt stays here until the next chain."""

    def __getstate__(self) -> dict[str, Any]:
        """A kernel travels to another process as it was made; chains start there."""
        return {name: value for name, value in self.__dict__.items() if name in self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear()

    # ------------------------------------------------------------------ the loop's parts

    def _read_model(self, args: Any, kwargs: Any) -> Reading:
        name = type(self).__name__
        hypers = HyperPrior(self.model, name, args, kwargs)
        if not hypers.start:
            self._hypers = None
            return read_model(self.model, name, *args, **kwargs)
        reading = read_model(hypers.at(hypers.start), name, *args, **kwargs)
        hypers.check(lambda: self.model(*args, **kwargs), reading)
        self._hypers = hypers
        return reading

    def _check(self, reading: Reading) -> None:
        refuse_mixtures(reading, type(self).__name__)
        before = self._reading
        if before is not None and self._fingerprint(before) != self._fingerprint(reading):
            hypers, weights = self._hypers, self._point_estimate()
            self._clear()
            self._hypers, self._weights = hypers, weights
        self._alpha = None
        self._sweeps = {site.name: site.grammar.sweeps(site.words) for site in reading.sentences}
        self._orders = {site.name: Order(site.words, self.batch_size) for site in reading.sentences}

    def _start(self, reading: Reading) -> Weights:
        start = super()._start(reading)
        if isinstance(self.initial_weights, str):  # where derivations start; weights that are parameters are given
            fixed = {name: s for name, s in reading.sources.items() if s.is_param}
            start.update({name: checked(reading, name, name, s.value) for name, s in fixed.items()})
        return start

    def _begin(self, reading: Reading) -> None:
        """Derivations under the initial weights."""
        if self._hypers is not None and not self._point:
            self._point = {name: u.clone() for name, u in self._hypers.start.items()}
        start = {**self._weights, **{n: w for n, w in self._given_params.items() if n in self._weights}}
        for site in reading.sentences:
            weights = {b: safe_log(start[s].to(torch.float64)) for b, s in site.sources.items()}
            check_possible(site, site.grammar.log_partition(weights, site.words))
            self._trees[site.name] = self._sweeps[site.name].draw(weights, self._generator)
        self._recount(reading)
        self._remember(reading)

    def _recount(self, reading: Reading) -> None:
        self._counts = {}
        for site in reading.sentences:
            for block, f in self._sweeps[site.name].counts(self._trees[site.name]).items():
                source = site.sources[block]
                self._counts[source] = self._counts[source] + f if source in self._counts else f

    def _update(self, reading: Reading) -> float:
        if not self._trees:
            self._begin(reading)
        self._averages = self._averages.beginning(self.burn_in, len(self.history))
        before = self._joint
        accepted = self._sweep(reading, self._concentrations(reading))
        self._move_hypers(reading)
        self._draws = {}
        self._remember(reading)
        if len(self.history) >= self.burn_in:
            self._keep(reading, accepted)
        return before

    def _order(self, site: SentenceSite) -> Tensor:
        order = self._orders[site.name]
        return order.fixed if self.order == "fixed" else order.shuffled(self._generator)

    def _model_now(self) -> Any:
        args, kwargs = self._args or ((), {})
        return self.model(*args, **kwargs)

    def _concentrations(self, reading: Reading) -> Weights:
        if self._alpha is None:
            if self._hypers is None:
                self._alpha = concentrations(self._model_now, reading)
            else:
                device = next(iter(reading.sources.values())).value.device
                with torch.no_grad():
                    alpha = self._hypers.density(self._point, self._model_now, reading, self._counts)[2]
                self._alpha = {name: a.to(device) for name, a in alpha.items()}
        return self._alpha

    def _move_hypers(self, reading: Reading) -> None:
        hypers = self._hypers
        if hypers is None:
            return
        if self._hyper_sampler is None:
            nuts = self.hyper_kernel == "nuts"
            self._hyper_sampler = NutsHypers(self.burn_in) if nuts else SliceHypers()

        def density(point: Mapping[str, Tensor]) -> Tensor:
            return hypers.density(point, self._model_now, reading, self._counts)[1]

        point = {name: self._point[name] for name in hypers.start}  # in this order, also when it comes from a file
        self._point = self._hyper_sampler.step(density, point, self._generator)
        self._alpha = None

    def _remember(self, reading: Reading) -> None:
        """The log joint of the present state, and the state itself if it is the best so far."""
        if self._hypers is None:
            joint = log_joint(reading, self._counts, self._concentrations(reading), self._weights)
        else:
            with torch.no_grad():
                joint = self._hypers.density(self._point, self._model_now, reading, self._counts)[0]
            fixed = {n: s for n, s in reading.sources.items() if s.is_param}
            joint = joint + log_joint(Reading([], fixed), self._counts, {}, self._weights)
        self._joint = float(joint)
        if self._joint > self._top[0]:
            self._top = self._joint, {site: t.clone() for site, t in self._trees.items()}

    def _keep(self, reading: Reading, accepted: Mapping[str, Tensor]) -> None:
        """Add the present state to the averages."""
        means = mean_weights(reading, self._counts, self._concentrations(reading), self._weights)
        self._averages.add(means, accepted, self._joint)
        parts = self._averages.parts
        for name, trees in self._trees.items() if self.keep_parts else ():
            parts[name] = self._sweeps[name].add_parts(parts.get(name), trees)

    def _point_estimate(self) -> Weights:
        reading = self._need_reading()
        kept = self._averages.kept
        if kept:
            return {n: (total / kept).to(reading.sources[n].value.dtype) for n, total in self._averages.sums.items()}
        if not self._counts:
            return self._weights
        return mean_weights(reading, self._counts, self._concentrations(reading), self._weights)

    def _params(self) -> Weights:
        """For Pyro: weights drawn given the derivations, and hyperparameters."""
        reading = self._need_reading()
        alpha = self._concentrations(reading)
        for name in reading.sources:
            if name not in alpha or name in self._draws:
                continue
            concentration = self._counts[name] + alpha[name]
            self._draws[name] = log_dirichlet(reading.sources[name].block, concentration, self._generator)
        found = {n: draw.exp().to(reading.sources[n].value.dtype) for n, draw in self._draws.items()}
        return {**found, **{n: v.clone() for n, v in self.hyperparameters().items()}}

    def _started(self, site: str | None) -> str:
        reading = self._need_reading()
        if not self._trees:
            raise RuntimeError(f"{type(self).__name__} has no derivations yet; call step or run first")
        return site_of(reading, site).name

    # ------------------------------------------------------------------ state

    def _tensors(self) -> dict[str, Tensor]:
        kinds: dict[str, Mapping[str, Tensor]] = {
            "weights": self._weights,
            "trees": self._trees,
            "counts": self._counts,
            "hyper": self._point,
            "top": self._top[1],
        }
        tensors = {f"{kind}.{name}": t for kind, found in kinds.items() for name, t in found.items()}
        numbers = torch.tensor([self._joint, self._top[0], self._averages.kept], dtype=torch.float64)
        return {**tensors, **self._averages.tensors(), "numbers": numbers, "generator": self._generator.get_state()}

    def _kept_tensors(self) -> dict[str, Tensor]:
        # Only the last thing that an update does changes the sums of parts.
        return {n: t if n.startswith("parts.") else t.detach().clone() for n, t in self._tensors().items()}

    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        names = ("weights", "trees", "counts", "hyper", "top", "sum", "parts", "accepted")
        kinds: dict[str, Weights] = {kind: {} for kind in names}
        rest = {name: tensor.cpu() for name, tensor in tensors.items() if "." not in name}
        for name, tensor in tensors.items():
            kind, dot, own = name.partition(".")
            if dot and kind not in kinds or not dot and kind not in ("numbers", "joints", "generator"):
                raise ValueError(f"this is not the state of {type(self).__name__}: it has {name!r}")
            if dot:
                kinds[kind][own] = tensor
        self._weights, self._trees, self._counts = kinds["weights"], kinds["trees"], kinds["counts"]
        self._point = kinds["hyper"]
        self._joint, top, kept = rest["numbers"].tolist()
        self._top, self._averages = (top, kinds["top"]), TreeAverages.from_tensors(kinds, rest["joints"], int(kept))
        self._generator.set_state(rest["generator"])
        self._alpha, self._draws = None, {}


def log_dirichlet(block: Block, concentration: Tensor, generator: torch.Generator) -> Tensor:
    """The logarithm of a draw of every multinomial, float64: small concentrations give weights that underflow."""
    a = concentration.detach().to("cpu", torch.float64)
    gamma = torch._standard_gamma(a + 1, generator=generator)  # times U ** (1 / a) it is a draw for a
    log_gamma = gamma.log() + torch.log1p(-torch.rand(a.shape, generator=generator, dtype=torch.float64)) / a
    top = block.spread(_greatest(block, log_gamma))
    normal = log_gamma - top - block.totals((log_gamma - top).exp()).log()
    return normal.to(concentration.device)


def _greatest(block: Block, values: Tensor) -> Tensor:
    """The greatest value of each multinomial."""
    if not isinstance(block, PackedBlock):
        return values.amax(-1)
    least = values.new_full((len(block.sizes),), -torch.inf)
    return least.scatter_reduce(0, block.owner.to(values.device), values, "amax")
