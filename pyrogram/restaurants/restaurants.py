# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Counts and seats of a hierarchy of Pitman-Yor processes, their internal draws integrated or laid down by a rule.

Wallach, Sutton and McCallum (2008), section 2; Teh (2006), A hierarchical Bayesian language model based on
Pitman-Yor processes. An observation of a value in a context comes from an internal draw (it is a customer at a table),
and the draws of a context are the observations of its reduction. Who sits where is one of

    "minimal"  every value of a context comes from one draw: t = 1 whenever c > 0, as in Kneser-Ney smoothing;
    "maximal"  every observation comes from a draw of its own: t = c, as in MacKay and Peto (1995) and Eisner;
    "exact"    drawn from its conditional distribution, again and again by :meth:`Restaurants.reseat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.checks import check_size
from pyrogram.restaurants import seats, tables
from pyrogram.restaurants.checks import base_measure, checked_values, parameters, stacked, vector
from pyrogram.restaurants.joint import Histogram, histogram, log_joint
from pyrogram.restaurants.sequence import Sequence as Recorded
from pyrogram.restaurants.sequence import record
from pyrogram.restaurants.state import packed, unpacked
from pyrogram.runtime.random_numbers import seed_stream

Paths = Literal["minimal", "maximal", "exact"]
PATHS: tuple[Paths, ...] = ("minimal", "maximal", "exact")


class Level(NamedTuple):
    """All values of all contexts of a level, in the order in which they were first seen."""

    contexts: Tensor  #: (K,) keys
    values: Tensor  #: (K,)
    c: Tensor  #: (K,) observations
    t: Tensor  #: (K,) internal draws


class Restaurants:
    """Observations of values in nested contexts, and how they are seated.

    Contexts are integers, one *key* for each level, the coarsest level first: ``keys`` is a sequence of L tensors
    ``(M,)``. Equal keys at a level must come with equal keys at all coarser ones. Memory is proportional to the
    contexts and values that were observed; a key may be any int64.

    :param num_levels: L, at least 1.
    :param num_values: V; values are 0 .. V-1.
    :param paths: ``"minimal"``, ``"maximal"`` or ``"exact"``, see the module.
    :param base: base measure above level 0, probabilities of shape ``(V,)``; uniform by default.
    """

    def __init__(self, num_levels: int, num_values: int, paths: Paths, *, base: Tensor | None = None):
        if paths not in PATHS:
            raise ValueError(f"paths must be 'minimal', 'maximal' or 'exact', not {paths!r}")
        self.num_levels = check_size("num_levels", num_levels)
        self.num_values = check_size("num_values", num_values)
        self.paths = paths
        self._paths = PATHS.index(paths)
        self._arrays = tables.empty(base_measure(base, num_values))
        self._histogram: Histogram | None = None

    def __repr__(self) -> str:
        return (
            f"Restaurants(num_levels={self.num_levels}, num_values={self.num_values}, paths={self.paths!r}, "
            f"num_observations={self.num_observations}, num_contexts={self.num_contexts})"
        )

    @property
    def arrays(self) -> tables.Arrays:
        """For compiled code of other modules, which may read them until the next change; see tables.py."""
        return self._arrays

    @property
    def base(self) -> Tensor:
        """The base measure, shape ``(V,)``, float64."""
        return torch.from_numpy(self._arrays.base.copy())

    @property
    def num_contexts(self) -> int:
        """Number of contexts with observations, of all levels together."""
        return int((self._arrays.customers[: self._arrays.used[tables.CONTEXTS]] > 0).sum())

    @property
    def num_observations(self) -> int:
        """Number of observations at the finest level."""
        X = self._arrays.used[tables.CONTEXTS]
        return int(self._arrays.customers[:X][self._arrays.levels[:X] == self.num_levels - 1].sum())

    # ------------------------------------------------------------------ one observation after the other

    def add(
        self,
        keys: Sequence[Tensor],
        values: Tensor,
        concentration: Tensor,
        discount: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Seat M observations, one after the other.

        :param keys: L tensors of shape ``(M,)``, coarsest first.
        :param values: shape ``(M,)``.
        :param concentration: α of each level, shape ``(L,)``, at least -ε (where it is -ε there is but one draw).
        :param discount: ε of each level, shape ``(L,)``, from 0 to below 1.
        :param generator: for exact seats, each drawn given those before; torch's own by default.
        :returns: log P(value | context) of each, given all before it, in nats, shape ``(M,)``, float64.
        :raises ValueError: if shapes or values do not fit, or if keys are not nested. Then nothing is added.
        """
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        where, what = self._checked(keys, values)
        self._make_room(len(what))
        contexts = self._locate(where, create=True)
        log_p = np.zeros(len(what))
        state, at = self._stream(generator), 0
        while at != seats.DONE:
            self._grow_for_seats()
            at = seats.add(self._arrays, contexts, what, alpha, epsilon, self._paths, state, at, log_p)
        self._histogram = None
        return torch.from_numpy(log_p)

    def add_recorded(self, keys: Sequence[Tensor], values: Tensor) -> Recorded:
        """Seat M observations like :meth:`add`, and keep the counts before each of them; not for ``"exact"``.

        :returns: what gives the log probability of the M observations, one after the other, for any parameters.
        """
        if self.paths == "exact":
            raise ValueError("which seats are taken exactly depends on the parameters: add_recorded needs other paths")
        where, what = self._checked(keys, values)
        self._make_room(len(what))
        contexts = self._locate(where, create=True)
        counts = np.zeros((self.num_levels, 3, len(what)), np.int32)
        at = 0
        while at != seats.DONE:
            self._grow_for_seats()
            at = record(self._arrays, contexts, what, self.num_levels, self._paths, at, counts)
        self._histogram = None
        return Recorded(counts, self._arrays.base[what], self._paths)

    def remove(
        self,
        keys: Sequence[Tensor],
        values: Tensor,
        concentration: Tensor,
        discount: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Unseat M observations, from the last to the first; the arguments are those of :meth:`add`.

        With paths ``"minimal"`` or ``"maximal"`` this undoes :meth:`add`; with ``"exact"`` the table is drawn
        in proportion to its size: observations of one value in one context are exchangeable.

        :returns: log P(value | context) of each, given all that were there when it had gone, shape ``(M,)``, float64.
        :raises ValueError: also if an observation is not there. Then nothing is removed.
        """
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        where, what = self._checked(keys, values)
        contexts = self._locate(where, create=False)
        self._refuse_absent(where, contexts, what)
        log_p = np.zeros(len(what))
        state, at = self._stream(generator), len(what)
        while at != seats.DONE:
            self._grow_for_seats()
            at = seats.remove(self._arrays, contexts, what, alpha, epsilon, self._paths, state, at, log_p)
        self._histogram = None
        return torch.from_numpy(log_p)

    def draw(
        self,
        keys: Sequence[Tensor],
        concentration: Tensor,
        discount: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw M values, one after the other, from their predictive probabilities given those before, and seat them.

        With ``"exact"`` they are a draw from the process itself.

        :returns: values, shape ``(M,)``.
        """
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        where = self._checked_keys(keys)
        self._make_room(where.shape[1])
        contexts = self._locate(where, create=True)
        values = np.zeros(len(contexts), np.int32)
        cumulative = self._arrays.base.cumsum()
        state, at = self._stream(generator, drawing=True), 0
        while at != seats.DONE:
            self._grow_for_seats()
            at = seats.draw(self._arrays, contexts, alpha, epsilon, cumulative, self._paths, state, at, values)
        self._histogram = None
        return torch.from_numpy(values.astype(np.int64))

    def reseat(self, concentration: Tensor, discount: Tensor, generator: torch.Generator | None = None) -> None:
        """Gibbs sampling: draw the seat of every observation, and of every internal draw, given all others; once each.

        ``"exact"`` only. It leaves the conditional distribution of seats given the observations invariant.
        """
        self._need_exact("reseat")
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        state, place = self._stream(generator), np.zeros(3, np.int64)
        done = False
        while not done:
            self._grow_for_seats()
            done = seats.reseat(self._arrays, alpha, epsilon, state, place)
        self._histogram = None

    # ------------------------------------------------------------------ probabilities

    def predict(self, keys: Sequence[Tensor], values: Tensor, concentration: Tensor, discount: Tensor) -> Tensor:
        """P(value | context) given all observations, shape ``(M,)``, float64; the observations stay as they are.

        A context that was never observed has the probabilities of its reduction.
        """
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        where, what = self._checked(keys, values)
        result = np.zeros(len(what))
        seats.predict(self._arrays, self._locate(where, create=False), what, alpha, epsilon, result)
        return torch.from_numpy(result)

    def predict_all(self, keys: Sequence[Tensor], concentration: Tensor, discount: Tensor) -> Tensor:
        """P(. | context), shape ``(M, V)``, float64."""
        alpha, epsilon = parameters(concentration, discount, self.num_levels)
        where = self._checked_keys(keys)
        result = np.zeros((where.shape[1], self.num_values))
        seats.predict_all(self._arrays, self._locate(where, create=False), alpha, epsilon, result)
        return torch.from_numpy(result)

    def log_joint(self, concentration: Tensor, discount: Tensor) -> Tensor:
        """The joint log probability of observations and internal draws, in nats: a float64 scalar.

        That is of the observed values *and* of which observations came from the same internal draw, at every level;
        not of the values alone, whose probability is the sum over all such partitions. It is differentiable in both
        arguments, and costs as much as there are different counts, whatever the number of observations.
        """
        parameters(concentration, discount, self.num_levels)
        if self._histogram is None:
            self._histogram = histogram(self._arrays, self.num_levels, self._paths)
        return log_joint(self._histogram, vector(concentration), vector(discount))

    # ------------------------------------------------------------------ the state

    def table(self, level: int) -> Level:
        """All that was observed at a level: keys of contexts, values, c and t.

        :param level: 0 .. L-1, the coarsest first; negative levels count from the finest.
        """
        if not -self.num_levels <= level < self.num_levels:
            raise ValueError(f"level must be one of 0..{self.num_levels - 1}, not {level}")
        a, E = self._arrays, self._arrays.used[tables.DISHES]
        here = (a.levels[a.contexts[:E]] == level % self.num_levels) & (a.c[:E] > 0)
        columns = (a.keys[a.contexts[:E][here]], a.values[:E][here], a.c[:E][here], a.t[:E][here])
        return Level(*(torch.from_numpy(x.astype(np.int64)) for x in columns))

    def copy(self) -> Restaurants:
        """The same observations and seats, independent of these."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._arrays = tables.copied(self._arrays)
        return new

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as plain tensors, without room to spare and what follows from the rest."""
        kind = torch.tensor([self.num_levels, self.num_values, self._paths])
        return packed(self._arrays) | {"kind": kind}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over the state of restaurants with the same levels, values and paths.

        :raises ValueError: if it is the state of others, or no such state.
        """
        kind = [self.num_levels, self.num_values, self._paths]
        saved = state.get("kind")
        if not isinstance(saved, Tensor) or saved.tolist() != kind:
            raise ValueError(f"this is not the state of {self!r}")
        self._arrays = unpacked(state, self.num_levels, self.num_values, self.paths == "exact")
        self._histogram = None
        return self

    # ------------------------------------------------------------------ for compiled code of other modules

    def prepared(self, keys: Sequence[Tensor], values: Tensor, *, present: bool = False) -> tuple[Any, Any]:
        """The finest contexts of M observations, made where they are new, and the values, as kernels take them.

        :param present: whether the observations must be seated here.
        :raises ValueError: if shapes or values do not fit, keys are not nested, or ``present`` observations are not.
        """
        where, what = self._checked(keys, values)
        if not present:
            self._make_room(len(what))
        contexts = self._locate(where, create=not present)
        if present:
            self._refuse_absent(where, contexts, what)
        return contexts, what

    def rebase(self, base: Tensor) -> None:
        """Draw the values of level 0 from another base measure, of shape ``(V,)``; seats stay."""
        self._arrays = self._arrays._replace(base=base_measure(base, self.num_values))
        self._histogram = None

    def with_room(self, observations: int, contexts: int = 0) -> tables.Arrays:
        """Arrays in which kernels may seat so many observations; what is known of the seats is forgotten.

        :param contexts: how many contexts they may make; with any, contexts and values that nobody observes any more
            may be dropped, and then the others change their numbers.
        """
        if contexts:
            self._make_room(max(contexts, self.num_levels * observations))
        more = self.num_levels * observations
        self._arrays = tables.grown(self._arrays, contexts, more, 2 * more)
        self._histogram = None
        return self._arrays

    def stream(self, generator: torch.Generator | None) -> Any:
        """State of the kernels' generator, seeded by this one where seats are drawn."""
        return self._stream(generator)

    # ------------------------------------------------------------------ inside

    def _checked(self, keys: Sequence[Tensor], values: Tensor) -> tuple[Any, Any]:
        where = self._checked_keys(keys)
        return where, checked_values(values, where.shape[1], self.num_values)

    def _checked_keys(self, keys: Sequence[Tensor]) -> Any:
        if len(keys) != self.num_levels:
            raise ValueError(f"keys must be {self.num_levels} tensors, one for each level, not {len(keys)}")
        return stacked(keys)

    def _make_room(self, observations: int) -> None:
        """Drop what nobody observes any more when the arrays are nearly full of it; only between calls."""
        a = self._arrays
        X, E = a.used[tables.CONTEXTS], a.used[tables.DISHES]
        if X + observations > len(a.keys) or E + observations > len(a.c):
            dead = (a.customers[:X] == 0).sum() * 2 > X or (a.c[:E] == 0).sum() * 2 > E
            if dead:
                self._arrays = tables.compacted(a)

    def _refuse_absent(self, keys: Any, contexts: Any, values: Any) -> None:
        absent = seats.missing(self._arrays, contexts, values, self.num_levels - 1)
        if absent >= 0:
            raise ValueError(
                f"observation {absent} cannot be removed: value {values[absent]} was not seen (so often) in the "
                f"context with keys {keys[:, absent].tolist()}"
            )

    def _locate(self, keys: Any, create: bool) -> Any:
        contexts = np.zeros(keys.shape[1], np.int32)
        at = 0
        while at != seats.DONE:
            if create:
                self._arrays = tables.grown(self._arrays, self.num_levels, 0, 0)
            at, wrong = seats.locate(self._arrays, keys, create, at, contexts)
            if at == seats.NOT_NESTED:
                self._arrays = tables.compacted(self._arrays)  # nothing was added
                raise ValueError(
                    f"keys {keys[:, wrong].tolist()} of observation {wrong} are not nested: a finer key that "
                    "occurred before must come with the same coarser keys as then"
                )
        return contexts

    def _grow_for_seats(self) -> None:
        self._arrays = tables.grown(self._arrays, 0, self.num_levels, 2 * self.num_levels)

    def _stream(self, generator: torch.Generator | None, drawing: bool = False) -> Any:
        """State of the compiled code's generator; of none where nothing is drawn."""
        state = np.zeros(1, np.uint64)
        if drawing or self.paths == "exact":
            seed_stream(state, int(torch.randint(2**63 - 1, (), generator=generator)), 0)
        return state

    def _need_exact(self, what: str) -> None:
        if self.paths != "exact":
            raise ValueError(f"{what} needs exact seats, but these restaurants have paths={self.paths!r}")


def check_nested(keys: Sequence[Tensor]) -> None:
    """Raise a ValueError that names the first observation whose key occurred before, with other coarser keys."""
    Restaurants(len(keys), 1, "minimal")._locate(stacked(keys), create=True)
