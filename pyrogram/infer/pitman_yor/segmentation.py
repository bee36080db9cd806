# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Segmentations of utterances into words, with their seats and hyperparameters, sampled from their joint posterior.

Mochihashi, Yamada and Ueda (2009), section 4.2: all words of an utterance are drawn at once, given those of all others.
Unlike there, the draw is judged by Metropolis and Hastings, for within an utterance words learn from one another.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from typing_extensions import Self

from pyrogram.grammar import Weights
from pyrogram.grammars.word_segmentation import SegmentedUtterances
from pyrogram.infer.loops.base import same_arguments
from pyrogram.infer.model.sites import base_distribution, distribution_name
from pyrogram.infer.model.structure import ModelError
from pyrogram.infer.running.run import Resumable, run_options, with_history
from pyrogram.infer.running.state import copied
from pyrogram.infer.samplers.chain import averages_restart, generator_of, same_tensors
from pyrogram.infer.samplers.latents import slice_step
from pyrogram.printable import plural
from pyrogram.random_state import random_state_kept
from pyrogram.restaurants import segmentation
from pyrogram.restaurants.joint import histogram, log_joint
from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.restaurants.seats import DONE, EXACT
from pyrogram.restaurants.substrings import log_lengths, substrings

from .tracing import HyperparameterMessenger, latent_starts, start_at_zero, tensors_in


@dataclass(frozen=True)
class SegmentationState:
    """Words, seats and hyperparameters.

    :param point: latent sites in unconstrained coordinates.
    :param values: the same as the model has them.
    :param site: the distribution of the utterances there.
    :param restaurants: words and their seats; a step changes copies.
    :param ends: whether a word ends after each symbol, int8, shape (T,); -1 in utterances without words yet.
    :param log_joint: of hyperparameters, words and internal draws, in nats.
    :param generator: the state of the chain's.
    """

    point: Weights
    values: Weights
    site: SegmentedUtterances
    restaurants: Restaurants
    ends: Tensor
    log_joint: float
    generator: Tensor


@dataclass(frozen=True)
class SegmentationAverages:
    """Sums over the steps that are kept.

    :param steps: how many.
    :param ends: in how many a word ended after each symbol, shape (T,).
    :param moves: proposals, those accepted, and those of them that changed a segmentation, shape (3,).
    """

    steps: int
    ends: Tensor
    moves: Tensor


class SegmentationHastings(Resumable):
    """A Markov chain over the words of utterances and the hyperparameters of a Pyro model.

    The model has one observed :class:`.SegmentedUtterances` site, and latent sites that its parameters depend on
    (:mod:`pyrogram.models.word_segmentation`)::

        sampler = SegmentationHastings(word_segmentation, seed=0)
        sampler.run(utterances, grammar, num_steps=1000, burn_in=500)
        sampler.segments(), sampler.acceptance

    In a step each utterance in turn is proposed a segmentation, drawn from all of them with the predictive
    probabilities of the other utterances, and the latent sites are slice-sampled, coordinate by coordinate. With
    temperatures of 1, it leaves the posterior of words, internal draws and hyperparameters invariant. An utterance of n
    symbols costs n L look-ups, L being the most symbols of a word, in the bigram model n L times the number of its
    substrings that are words at the time and end at the same place, plus one.

    :param model: a Pyro model.
    :param temperatures: of the first steps, for annealing; those after them have temperature 1. Probabilities of
        segmentations are raised to one over the temperature; seats and hyperparameters are drawn as at 1.
    :param seed: of the chain; by default from torch's global generator.
    """

    def __init__(
        self, model: Callable[..., Any], *, temperatures: Sequence[float] = (), seed: int | None = None
    ) -> None:
        super().__init__()  # the history is of log joints after each step
        wrong = [t for t in temperatures if not 0 < t < math.inf]
        if wrong:
            raise ValueError(f"temperatures must be greater than 0 and finite, not {wrong[0]}")
        self.model, self.temperatures, self.seed = model, tuple(float(t) for t in temperatures), seed
        self._args: tuple[Any, Any] | None = None
        self._tensors: list[Tensor] = []  # copies of those in the arguments, which may be changed in place
        self._state: SegmentationState | None = None
        self._traces: dict[str, list[Tensor]] = {}
        self._averages, self._burn_in = _no_averages(0), 0

    # ------------------------------------------------------------------ public

    def step(self, *args: Any, **kwargs: Any) -> float:
        """Propose words for every utterance, then move every latent site once; the arguments are the model's.

        :returns: the log joint of hyperparameters, words and internal draws after it, in nats.
        :raises ModelError: if the model has a site that this sampler cannot handle.
        """
        self._read(args, kwargs)
        return self._advance()

    def run(
        self,
        *args: Any,
        num_steps: int = 1000,
        burn_in: int = 0,
        **kwargs: Any,
    ) -> Self:
        """Many steps; positional and other keyword arguments are the model's.

        :param burn_in: steps, from the start of the chain, that averages leave out. In a later run, a greater one must
            leave out all steps that are averaged already.

        ``progress``, ``callback``, ``checkpoint``, ``checkpoint_every``, here 100 by default, and ``resume`` among
        keyword arguments are as in every run, see :meth:`.Resumable._run`.
        """
        if burn_in < 0:
            raise ValueError(f"expected burn_in of at least 0, actual {burn_in}.")
        options = run_options({"checkpoint_every": 100, **kwargs})
        self._read(args, {name: x for name, x in kwargs.items() if name not in options})
        return self._run(num_steps, ready=lambda: self._leave_out(burn_in), **options)

    def set_boundaries(self, boundaries: Tensor, *args: Any, **kwargs: Any) -> None:
        """Begin a chain at given words, ``grammar.boundaries(...)``; other arguments are the model's.

        Latent sites are where chains begin, at 0 in unconstrained coordinates.

        :raises ValueError: if boundaries do not fit the utterances, or if a word is too long.
        """
        self._read(args, kwargs, boundaries)

    @property
    def boundaries(self) -> Tensor:
        """1 where a word ends, 0 where not, at present; shape ``(N, n)``, padded with -1."""
        now = self._need_state()
        boundaries = torch.full_like(self._utterances, -1)
        boundaries[self._utterances >= 0] = now.ends.to(boundaries.dtype)
        return boundaries

    def segments(self) -> list[list[str]]:
        """The present words of each utterance."""
        now = self._need_state()
        return now.site.grammar.segments(self._utterances, self.boundaries)

    def marginals(self) -> Tensor:
        """The share of kept steps in which a word ended after each symbol, shape ``(N, n)``; 0 where padded."""
        self._need_state()
        shares = torch.zeros(self._utterances.shape, dtype=torch.float64)
        shares[self._utterances >= 0] = self._averages.ends / self._averages.steps
        return shares

    @property
    def log_joint(self) -> float:
        """log p of hyperparameters, words and internal draws, at present, in nats."""
        return self._need_state().log_joint

    @property
    def restaurants(self) -> Restaurants:
        """The present words and their seats; words are the numbers that ``substrings.spans`` has."""
        return self._need_state().restaurants

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted in the steps that are kept; NaN before."""
        proposed, accepted, _ = self._averages.moves.tolist()
        return accepted / proposed if proposed else math.nan

    @property
    def changed(self) -> float:
        """The share of utterances that got other words in a step, of the steps that are kept; NaN before."""
        proposed, _, moved = self._averages.moves.tolist()
        return moved / proposed if proposed else math.nan

    def hyperparameters(self) -> Weights:
        """The present value of every latent site."""
        return dict(self._need_state().values)

    def trace(self) -> Weights:
        """The values of every latent site after each step, shape ``(steps, *site.shape)``."""
        return {name: torch.stack(values) for name, values in self._traces.items() if values}

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        now, kept = self._need_state(), self._averages
        state = {f"point.{name}": u for name, u in now.point.items()}
        state.update({f"trace.{name}": values for name, values in self.trace().items()})
        seats = now.restaurants.state_dict()
        del seats["base"]  # which follows from the point
        state.update({f"seats.{name}": x for name, x in seats.items()})
        state |= {"ends": now.ends, "generator": now.generator, "averages.steps": torch.tensor(kept.steps)}
        state |= {"averages.ends": kept.ends, "averages.moves": kept.moves}
        return with_history(copied(state), history=self.history)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of a chain over the same utterances.

        :raises ValueError: if it is not the state of such a chain.
        """
        now, kept = self._need_state(), self._averages
        shapes = {f"point.{name}": u.shape for name, u in now.point.items()}
        shapes |= {"ends": now.ends.shape, "generator": now.generator.shape, "averages.steps": torch.Size()}
        shapes |= {"averages.ends": kept.ends.shape, "averages.moves": kept.moves.shape}
        wrong = [name for name, shape in shapes.items() if name not in state or state[name].shape != shape]
        history = state.get("history", torch.zeros(0)).tolist()
        traces = {name: list(state.get(f"trace.{name}", torch.zeros(0))) for name in now.point}
        if wrong or "history" not in state or any(len(values) != len(history) for values in traces.values()):
            raise ValueError(
                f"this is not the state of {type(self).__name__} over these utterances with the latent sites "
                f"{list(now.point)}"
            )
        copies = copied(state)
        seats = {name.removeprefix("seats."): x for name, x in copies.items() if name.startswith("seats.")}
        restaurants = now.restaurants.copy().load_state_dict({**seats, "base": now.restaurants.base})
        boundaries = torch.full_like(self._utterances, -1)
        boundaries[self._utterances >= 0] = copies["ends"].to(boundaries.dtype)
        ends = _checked_ends(boundaries, self._utterances, now.site.grammar.max_length)
        if not self._fit(ends, restaurants):
            raise ValueError(f"this is not the state of {type(self).__name__}: its words and its seats do not fit")
        point = {name: copies[f"point.{name}"] for name in now.point}
        self._state = self._settled(point, restaurants, ends, copies["generator"].cpu())
        self._averages = SegmentationAverages(
            int(copies["averages.steps"]), copies["averages.ends"], copies["averages.moves"]
        )
        self._traces, self.history = traces, history

    # ------------------------------------------------------------------ the chain

    def _advance(self) -> float:
        old, number = self._need_state(), len(self.history)
        generator = torch.Generator().set_state(old.generator)
        temperature = self.temperatures[number] if number < len(self.temperatures) else 1.0
        restaurants, ends, moves = self._resampled(old, temperature, generator)
        density, point = self._density(restaurants), old.point
        if point:
            point = slice_step(lambda at: density(*self._run_at(at)), point, generator)
        new = self._settled(point, restaurants, ends, generator.get_state())
        self._state = new
        for name, value in new.values.items():
            self._traces[name].append(value)
        self.history.append(new.log_joint)
        if len(self.history) > self._burn_in:
            kept = self._averages
            self._averages = SegmentationAverages(kept.steps + 1, kept.ends + ends, kept.moves + moves)
        return new.log_joint

    def _shown(self) -> dict[str, str]:
        return {"log_joint": f"{self.history[-1]:.1f}", "accepted": f"{self.acceptance:.3f}"}

    def _resampled(
        self, old: SegmentationState, temperature: float, generator: torch.Generator
    ) -> tuple[Restaurants, Tensor, Tensor]:
        """Other words for all utterances: their seats, where they end, and counts of moves."""
        restaurants, ends = old.restaurants.copy(), old.ends.clone()
        text, process = self._prepared(old.site, ends, 1 / temperature)
        state, moves, at = restaurants.stream(generator), np.zeros(3, np.int64), 0
        most = int(np.diff(text.starts).max()) + 2
        while at != DONE:
            arrays = restaurants.with_room(2 * most, contexts=most)
            at = segmentation.resample(arrays, text, process, state, at, moves)
        return restaurants, ends, torch.from_numpy(moves)

    def _seated(self, site: SegmentedUtterances, ends: Tensor, generator: torch.Generator) -> Restaurants:
        """Restaurants with these words, seated one after the other."""
        restaurants = self._empty(site)
        text, process = self._prepared(site, ends, 1.0)
        state, at = restaurants.stream(generator), 0
        most = int(np.diff(text.starts).max()) + 2
        while at != DONE:
            arrays = restaurants.with_room(most, contexts=most)
            at = segmentation.seat_all(arrays, text, process, state, at)
        return restaurants

    def _prepared(
        self, site: SegmentedUtterances, ends: Tensor, power: float
    ) -> tuple[segmentation.Text, segmentation.Process]:
        """Utterances and parameters, as kernels take them."""
        strings = self.substrings
        text = segmentation.Text(strings.spans, strings.starts, ends.numpy(), len(strings))
        alpha, epsilon = (np.ascontiguousarray(x.numpy()) for x in (site.concentration, site.discount))
        more = 1 - float(site.end) if site.grammar.num_levels == 1 else 1.0
        return text, segmentation.Process(alpha, epsilon, more, power)

    def _settled(self, point: Weights, restaurants: Restaurants, ends: Tensor, generator: Tensor) -> SegmentationState:
        """The state at a point; the base measure of the restaurants is made that of the point."""
        latents, site = self._run_at(point)
        restaurants.rebase(self._base(site))
        total = float(self._density(restaurants)(latents, site) - latents.log_jacobian)
        return SegmentationState(point, latents.values, site, restaurants, ends, total, generator)

    def _density(self, restaurants: Restaurants) -> Callable[[HyperparameterMessenger, SegmentedUtterances], Tensor]:
        """log p(h) P(words, draws | h), with the Jacobian of unconstrained coordinates, of a model that was run."""
        table, strings, bigram = restaurants.table(0), self.substrings, restaurants.num_levels > 1
        symbols, lengths = strings.counts(table.values.numpy(), table.t.numpy(), self._site.grammar.num_symbols)
        counted = replace(histogram(restaurants.arrays, restaurants.num_levels, EXACT), log_base=0.0)
        utterances = len(strings.starts) - 1
        ends = int(lengths[0]) if bigram else utterances
        others = int(lengths[1:].sum()) if bigram else restaurants.num_observations - utterances

        def density(latents: HyperparameterMessenger, site: SegmentedUtterances) -> Tensor:
            stop, end = float(site.stop), float(site.end)
            spelt = float(lengths[1:] @ log_lengths(stop, strings.longest)[1:] + symbols @ site.symbols.log().numpy())
            total = latents.log_prior + latents.log_jacobian + log_joint(counted, site.concentration, site.discount)
            return total + spelt + ends * math.log(end) + others * math.log1p(-end)

        return density

    def _run_at(self, point: Mapping[str, Tensor]) -> tuple[HyperparameterMessenger, SegmentedUtterances]:
        assert self._args is not None
        latents, seen = HyperparameterMessenger(point), _UtterancesMessenger()
        with latents, seen, torch.no_grad():
            self.model(*self._args[0], **self._args[1])
        return latents, seen.sites[0]["site"]

    # ------------------------------------------------------------------ reading the model

    def _need_state(self) -> SegmentationState:
        if self._state is None:
            raise RuntimeError(f"{type(self).__name__} has no words yet; call step or run first")
        return self._state

    def _read(self, args: Any, kwargs: Any, boundaries: Tensor | None = None) -> None:
        """Look at the model, once for the same arguments; others, or boundaries, begin a new chain."""
        tensors = list(tensors_in((args, kwargs)))
        same = self._args is not None and same_arguments(self._args, (args, kwargs))
        if same and same_tensors(self._tensors, tensors) and boundaries is None:
            return
        start, utterances, site = self._checked(args, kwargs)
        ends = None if boundaries is None else _checked_ends(boundaries, utterances, site.grammar.max_length)
        self._args, self._tensors = (args, kwargs), [t.detach().clone() for t in tensors]
        self._utterances, self._site = utterances, site
        lengths = (utterances >= 0).sum(1)
        starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).numpy()
        self.substrings = substrings(utterances[utterances >= 0].numpy(), starts, site.grammar.max_length)
        self.history, self.stopped, self._burn_in = [], "", 0
        self._traces = {name: [] for name in start}
        T = int(starts[-1])
        self._averages = _no_averages(T)
        generator, (latents, site) = generator_of(self.seed), self._run_at(start)
        if ends is None:
            none = torch.full((T,), -1, dtype=torch.int8)
            nobody = SegmentationState(
                start, latents.values, site, self._empty(site), none, -math.inf, generator.get_state()
            )
            restaurants, ends, _ = self._resampled(nobody, (*self.temperatures, 1.0)[0], generator)
        else:
            restaurants = self._seated(site, ends, generator)
        self._state = self._settled(start, restaurants, ends, generator.get_state())

    def _empty(self, site: SegmentedUtterances) -> Restaurants:
        return Restaurants(site.grammar.num_levels, len(self.substrings) + 2, "exact", base=self._base(site))

    def _base(self, site: SegmentedUtterances) -> Tensor:
        end = float(site.end) if site.grammar.num_levels > 1 else 0.0
        return torch.from_numpy(self.substrings.probabilities(float(site.stop), end, site.symbols.log().numpy()))

    def _fit(self, ends: Tensor, restaurants: Restaurants) -> bool:
        """Whether just these words are seated, each in its context: compiled code would look for others forever."""
        strings, V = self.substrings, len(self.substrings)
        places = (ends == 1).numpy().nonzero()[0]
        begins = np.append(0, places[:-1] + 1)
        words = strings.spans[begins, places - begins].astype(np.int64)
        events = words
        if restaurants.num_levels > 1:
            first, last = np.isin(begins, strings.starts), np.isin(places + 1, strings.starts)
            before = np.where(first, V, np.roll(words, 1))
            events = np.append(before * (V + 2) + words, words[last] * (V + 2) + V)
        table = restaurants.table(-1)
        seated = table.contexts * (V + 2) + table.values
        return torch.equal(torch.from_numpy(np.sort(events)), seated.repeat_interleave(table.c).sort().values)

    def _checked(self, args: Any, kwargs: Any) -> tuple[Weights, Tensor, SegmentedUtterances]:
        """Where latent sites start, the utterances, and their distribution there."""
        loop, seen = type(self).__name__, _UtterancesMessenger()
        with start_at_zero(loop), random_state_kept(), torch.no_grad():
            start = latent_starts(self.model, loop, args, kwargs)
            with seen:
                trace = poutine.trace(self.model).get_trace(*args, **kwargs)
        names = [observed["name"] for observed in seen.sites]
        nodes: dict[str, Any] = dict(trace.nodes)
        for name, site in nodes.items():
            if site["type"] != "sample" or site["infer"].get("_deterministic", False) or name in (*names, *start):
                continue
            if not site_is_subsample(site):
                kind = "observed" if site["is_observed"] else "latent"
                family = distribution_name(base_distribution(site["fn"]))
                raise ModelError(
                    f"{loop} cannot handle {kind} site {name!r} ({family}), only one observed SegmentedUtterances site "
                    "and what its parameters depend on"
                )
        if len(names) != 1:
            raise ModelError(f"{loop} needs one observed SegmentedUtterances site, and found {len(names)}: {names}")
        (observed,) = seen.sites
        if observed["scaled"]:
            raise ModelError(f"{loop} cannot handle site {names[0]!r} in a subsampled plate, scaled or masked")
        return start, _checked_utterances(observed["value"], observed["site"]), observed["site"]

    def _leave_out(self, burn_in: int) -> None:
        """Let averages leave out so many steps from the start of the chain."""
        kept = self._averages
        if averages_restart(burn_in, len(self.history), kept.steps):
            self._averages = _no_averages(len(kept.ends))
        self._burn_in = burn_in

    def _fingerprint(self) -> str:
        """A hash of the utterances, the grammar, the temperatures, the latent sites and where they start."""
        grammar = self._site.grammar
        options = type(self).__name__, type(grammar).__name__, grammar.symbols, grammar.max_length, self.temperatures
        digest = hashlib.sha256(repr(options).encode())
        digest.update(self._utterances.numpy().tobytes())
        start = {name: torch.zeros_like(u) for name, u in self._need_state().point.items()}
        latents, site = self._run_at(start)
        digest.update(repr([(name, tuple(u.shape)) for name, u in start.items()]).encode())
        numbers = torch.cat([site.concentration, site.discount, site.stop[None], site.end[None], site.symbols])
        for x in (float(latents.log_prior), *numbers.tolist()):  # rounded: machines differ in the last bit of exp
            digest.update(f"{x:.8e};".encode())
        return digest.hexdigest()


class _UtterancesMessenger(Messenger):
    """Collect the observed utterances of a model that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[dict[str, Any]] = []

    def _pyro_post_sample(self, msg: Any) -> None:
        site = base_distribution(msg["fn"])
        if msg["is_observed"] and isinstance(site, SegmentedUtterances):
            scaled = bool((torch.as_tensor(msg["scale"]) != 1).any()) or msg["mask"] is not None
            self.sites.append({"name": msg["name"], "site": site, "value": msg["value"], "scaled": scaled})


def _no_averages(symbols: int) -> SegmentationAverages:
    return SegmentationAverages(0, torch.zeros(symbols, dtype=torch.long), torch.zeros(3, dtype=torch.long))


def _checked_utterances(value: Tensor, site: SegmentedUtterances) -> Tensor:
    """
    :raises ValueError: unless these are utterances of the grammar.
    """
    is_matrix = isinstance(value, Tensor) and not value.is_floating_point() and value.dim() == 2
    ids = value.detach().cpu().long().clone() if is_matrix else torch.zeros(0, 0, dtype=torch.long)
    seen = ids >= 0
    sorted_right = bool((seen[:, 1:] <= seen[:, :-1]).all())
    if not len(ids) or not ids.shape[1] or not bool(seen[:, 0].all()) or not sorted_right or ids.min() < -1:
        raise ValueError(
            "utterances must be integers of shape (N, n), each of at least one symbol and padded on the right with -1, "
            f"not {tuple(value.shape) if isinstance(value, Tensor) else repr(value)[:80]}"
        )
    if int(ids.max()) >= site.grammar.num_symbols:
        raise ValueError(f"utterances must be made of symbols 0..{site.grammar.num_symbols - 1}, not {ids.max()}")
    return ids


def _checked_ends(boundaries: Tensor, utterances: Tensor, max_length: int) -> Tensor:
    """Boundaries of the T symbols, int8.

    :raises ValueError: unless they end every utterance, with words of at most ``max_length`` symbols.
    """
    inside = utterances >= 0
    fits = boundaries.shape == utterances.shape and bool(((boundaries >= 0) == inside).all())
    if not fits or bool((boundaries > 1).any()) or boundaries.is_floating_point():
        raise ValueError(
            f"boundaries must be 0 or 1 in shape {tuple(utterances.shape)}, padded with -1 as the utterances are"
        )
    last = inside.sum(1) - 1
    if not bool((boundaries.gather(1, last[:, None]) == 1).all()):
        raise ValueError("boundaries must be 1 at the last symbol of each utterance, where a word ends")
    ends = boundaries[inside].to(torch.int8)
    places = (ends == 1).nonzero()[:, 0]
    longest = int(places.diff(prepend=torch.tensor([-1])).max())
    if longest > max_length:
        raise ValueError(f"boundaries must leave words of at most {plural(max_length, 'symbol')}, not one of {longest}")
    return ends
