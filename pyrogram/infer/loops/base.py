# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What all loops share: start, step, run, stop, save, resume."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor
from torch.distributions import transform_to
from tqdm import tqdm
from typing_extensions import Self

from pyrogram.charts.checks import checked_words
from pyrogram.distributions.ragged import simplex_of
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.loops.checkpoint import fingerprint, load_state, save_state
from pyrogram.infer.model.expected_counts import expect
from pyrogram.infer.model.start import start_weights
from pyrogram.infer.model.structure import ModelError, Reading, SentenceSite
from pyrogram.infer.model.tracing import read_model

from .stopping import Stopper


class GrammarLoop(ABC):
    """A loop that turns expected counts into weights, for any grammar and any model that it can read.

    :param model: a Pyro model with observed ``Sentence`` sites whose weights are ``pyro.param``s, Dirichlet sites or
        logistic normals.
    :param initial_weights: where to start: a mapping from block (or site) name to weights, or the name of one of the
        grammar's initialisers. By default a ``pyro.param`` starts at its value, a Dirichlet site where the grammar's
        ``initial_weights`` says, given the words of all sites that share it, and a logistic normal at its mean; a mean
        that is a ``pyro.param`` is set, too.
    """

    may_fall = False  #: whether the objective may fall between iterations, which is then no reason to stop

    def __init__(self, model: Callable[..., Any], *, initial_weights: Mapping[str, Tensor] | str | None = None):
        self.model = model
        self.initial_weights = initial_weights
        self.history: list[float] = []  #: the objective before each update, in nats
        self.held_out_history: list[float] = []  #: held-out log-likelihood after updates, NaN where not evaluated
        self.stopped = ""  #: why the last run ended
        self._reading: Reading | None = None
        self._args: tuple[Any, Any] | None = None
        self._weights: Weights = {}  # by source; with these the trees are weighted until there is a posterior
        self._best: Weights = {}  # the ``_tensors`` of best held-out likelihood
        self._pending: Weights | None = None  # ``_tensors`` that were loaded before the model was read

    # ------------------------------------------------------------------ what a loop must say

    @abstractmethod
    def _check(self, reading: Reading) -> None:
        """Refuse, by name, what this loop cannot handle."""

    @abstractmethod
    def _update(self, reading: Reading) -> float:
        """One iteration; returns the objective before it, in nats."""

    @abstractmethod
    def _point_estimate(self) -> Weights:
        """Normalised weights by source."""

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """All that ``_update`` depends on, besides the model."""

    @abstractmethod
    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of ``_tensors``."""

    # ------------------------------------------------------------------ public

    def step(self, *args: Any, **kwargs: Any) -> float:
        """One iteration over all sentences; the arguments are the model's.

        :returns: the objective, in nats, of the state *before* the update.
        :raises ModelError: if the model has a site that this loop cannot handle.
        """
        objective = self._step(self._read(args, kwargs))
        self._write_parameters()
        return objective

    def run(
        self,
        *args: Any,
        num_steps: int = 100,
        tolerance: float = 1e-6,
        progress: bool = True,
        callback: Callable[[Self], Any] | None = None,
        held_out: Tensor | Mapping[str, Tensor] | None = None,
        patience: int = 1,
        held_out_smoothing: float = 1e-4,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Iterate until nothing more is gained; positional and other keyword arguments are the model's.

        :param num_steps: most iterations of this run; those of the checkpoint that it resumes count.
        :param tolerance: stop when the objective's gain (or its change, if :attr:`may_fall`) falls below this share of
            its magnitude; 0 never stops.
        :param progress: show a progress bar.
        :param callback: called after every iteration with this loop; stops the run by returning True.
        :param held_out: sentences ``(N, n)``, or a mapping from Sentence site to sentences. Stop when their
            log-likelihood under the point estimate has not risen for ``patience`` iterations, and go back to
            the best state.
        :param held_out_smoothing: weight of the uniform distribution that is mixed into every multinomial of the point
            estimate for that purpose, so that an event unseen in training does not make a sentence impossible.
        :param checkpoint: file to save to every ``checkpoint_every`` iterations, at the end, and when interrupted; it
            is replaced atomically, and a run resumed from it gives the same numbers to the last bit.
        :param resume: start from ``checkpoint`` if it exists.
        :returns: this loop; see ``history``, ``held_out_history``, ``stopped`` and ``weights()``.
        """
        if num_steps < 0 or tolerance < 0 or patience < 1 or checkpoint_every < 1:
            raise ValueError(
                f"need num_steps >= 0, tolerance >= 0, patience >= 1 and checkpoint_every >= 1, not {num_steps}, "
                f"{tolerance}, {patience}, {checkpoint_every}"
            )
        reading = self._read(args, kwargs)
        last = len(self.history) + num_steps
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None and resume and path.exists():
            self.load_state_dict(load_state(path, self._fingerprint(reading)))
        stopper = Stopper(tolerance, patience, self)
        self.stopped = f"num_steps={num_steps} reached"
        try:
            with tqdm(total=last, initial=len(self.history), disable=not progress, desc=type(self).__name__) as bar:
                while len(self.history) < last and not stopper.reason:
                    objective = self._step(reading, held_out, held_out_smoothing)
                    stopper.look(self)
                    bar.update()
                    bar.set_postfix(objective=f"{objective:.4f}", refresh=False)
                    if path is not None and len(self.history) % checkpoint_every == 0:
                        self._save(path, reading)
                    if callback is not None and callback(self) is True:
                        stopper.reason = stopper.reason or "callback asked to stop"
            self.stopped = stopper.reason or self.stopped
        finally:
            # What is saved is where a longer run goes on, not the best state, which is saved with it.
            if path is not None and self.history:
                self._save(path, reading)
            self._write_parameters()
        stopper.restore(self)
        self._write_parameters()
        return self

    def weights(self, site: str | None = None) -> Weights:
        """The point estimate: normalised weights by block.

        Maximum-likelihood and MAP weights as they are; of a variational posterior the mean.

        :param site: the Sentence site whose grammar is meant, where the model has several.
        """
        reading = self._need_reading()
        estimate = self._point_estimate()
        return {block: estimate[source].clone() for block, source in site_of(reading, site).sources.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        state = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}
        state.update({f"best.{name}": tensor.detach().clone() for name, tensor in self._best.items()})
        state["history"] = torch.tensor(self.history, dtype=torch.float64)
        state["held_out_history"] = torch.tensor(self.held_out_history, dtype=torch.float64)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of another loop of the same kind and model.

        :raises ValueError: if it is not the state of a loop of this kind.
        """
        if "history" not in state or "held_out_history" not in state:
            raise ValueError(f"this is not the state of {type(self).__name__}: it has no 'history'")
        tensors = {name: tensor.clone() for name, tensor in state.items()}
        self.history = tensors.pop("history").tolist()
        self.held_out_history = tensors.pop("held_out_history").tolist()
        best = [name for name in tensors if name.startswith("best.")]
        self._best = {name.removeprefix("best."): tensors.pop(name) for name in best}
        self._pending = tensors
        if self._reading is not None:
            self._take_pending(self._reading)

    # ------------------------------------------------------------------ inside

    def _read(self, args: Any, kwargs: Any) -> Reading:
        """The model's trace, made once for the same arguments."""
        if self._reading is None or self._args is None or not same_arguments(self._args, (args, kwargs)):
            reading = self._read_model(args, kwargs)
            self._check(reading)
            if not any(len(site.words) for site in reading.sentences):
                raise ValueError("the corpus has no sentences; give one at least")
            for site in reading.sentences:
                checked_words(site.words, site.grammar.num_words)
            if self._reading is not None and self._fingerprint(self._reading) != self._fingerprint(reading):
                # Another objective: what it was for other sentences says nothing about when to stop.
                self.history, self.held_out_history, self._best = [], [], {}
            self._reading, self._args = reading, (args, kwargs)
            if self._pending is not None:
                self._take_pending(reading)
            if not self._weights:
                self._weights = self._start(reading)
        return self._reading

    def _read_model(self, args: Any, kwargs: Any) -> Reading:
        return read_model(self.model, type(self).__name__, *args, **kwargs)

    def _take_pending(self, reading: Reading) -> None:
        """Take over loaded tensors, on the device of the model."""
        assert self._pending is not None
        device = next(iter(reading.sources.values())).value.device
        tensors, self._pending = self._pending, None
        self._best = {name: tensor.to(device) for name, tensor in self._best.items()}
        self._set_tensors({name: tensor.to(device) for name, tensor in tensors.items()})

    def _need_reading(self) -> Reading:
        if self._reading is None:
            raise RuntimeError(f"{type(self).__name__} has no weights yet; call step or run first")
        return self._reading

    def _start(self, reading: Reading) -> Weights:
        """Initial weights by source."""
        return start_weights(reading, self.initial_weights)

    def _step(
        self, reading: Reading, held_out: Tensor | Mapping[str, Tensor] | None = None, smoothing: float = 0.0
    ) -> float:
        """An iteration, wholly or not at all."""
        before = self._kept_tensors()
        try:
            objective = self._update(reading)
            likelihood = math.nan if held_out is None else self._held_out(reading, held_out, smoothing)
        except BaseException:  # above all KeyboardInterrupt: half an update is no state to save or to go on from
            self._set_tensors(before)
            raise
        self.history.append(objective)
        self.held_out_history.append(likelihood)
        return objective

    def _kept_tensors(self) -> dict[str, Tensor]:
        """``_tensors`` that an interrupted update cannot have changed: copies of those that updates write into."""
        return {name: tensor.detach().clone() for name, tensor in self._tensors().items()}

    def _expect(self, reading: Reading, log_weights: Weights) -> tuple[float, Weights]:
        """E-step: log-likelihood of all sentences and expected counts by source."""
        total = 0.0
        counts: Weights = {}
        for site in reading.sentences:
            log_z, expected = expect(site, {block: log_weights[source] for block, source in site.sources.items()})
            total += float(log_z.sum(dtype=torch.float64))
            for block, source in site.sources.items():
                counts[source] = counts[source] + expected[block] if source in counts else expected[block]
        return total, counts

    def _held_out(self, reading: Reading, held_out: Tensor | Mapping[str, Tensor], smoothing: float) -> float:
        """Log-likelihood of held-out sentences under the smoothed point estimate."""
        estimate = self._point_estimate()
        if isinstance(held_out, Tensor):
            held_out = {site_of(reading, None).name: held_out}
        total = 0.0
        for name, words in held_out.items():
            site = site_of(reading, name)
            smooth = {}
            for block, source in site.sources.items():
                w = estimate[source]
                smooth[block] = safe_log((1 - smoothing) * w + smoothing * site.grammar.blocks[block].uniform(w))
            with torch.no_grad():
                total += float(site.grammar.log_partition(smooth, words).sum(dtype=torch.float64))
        return total

    def _write_parameters(self) -> None:
        """Leave what was learnt in the pyro.params of the model, for whatever runs on it next."""
        store = pyro.get_param_store()
        for name, source in self._need_reading().sources.items():
            if source.is_param:
                # With module_local_params the parameter lives in its module, not in the store.
                value: Any = store[name] if name in store else source.value
                with torch.no_grad():
                    value.unconstrained().copy_(transform_to(simplex_of(source.block)).inv(self._weights[name]))

    def _fingerprint(self, reading: Reading) -> str:
        return fingerprint(type(self).__name__, reading)

    def _save(self, path: Path, reading: Reading) -> None:
        save_state(path, self.state_dict(), self._fingerprint(reading))


def site_of(reading: Reading, name: str | None) -> SentenceSite:
    """The Sentence site of this name; None stands for the only one."""
    if name is None:
        if len(reading.sentences) > 1:
            raise ValueError(f"say which of the Sentence sites {[s.name for s in reading.sentences]} is meant")
        return reading.sentences[0]
    for site in reading.sentences:
        if site.name == name:
            return site
    raise ModelError(f"the model has no Sentence site {name!r}, only {[s.name for s in reading.sentences]}")


def same_arguments(a: Any, b: Any) -> bool:
    """Whether two sets of arguments are the very same objects, or equal plain values."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_arguments(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_arguments(a[k], b[k]) for k in a)
    return a is b or (isinstance(a, (int, float, str, bool)) and isinstance(b, (int, float, str, bool)) and a == b)
