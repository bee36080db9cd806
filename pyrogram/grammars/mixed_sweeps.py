# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for mixtures of grammars: compiled sweeps over components and derivations at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.collapsed_checks import check_trees
from pyrogram.grammar import Grammar
from pyrogram.recursion.rules.components import COMPONENTS, SHARE, with_components
from pyrogram.recursion.run.program import Program

from .recursive_collapsed import Plan, RecursiveUpdates


class MixedUpdates(RecursiveUpdates):
    """Sweeps of a mixture of K grammars; a derivation is a component and a derivation of it, shape ``(N, 1 + L)``.

    :param grammar: the mixture. Its first block has the shares, shape ``(K,)``, then come the blocks of each component.
    :param base: sweeps of one component, whose weights are not tied.
    """

    def __init__(self, grammar: Grammar, base: RecursiveUpdates, num_components: int, plan: Plan | None = None) -> None:
        self._one, self._numbers = base, _Numbers(base._plan, num_components)
        super().__init__(grammar, base.words, self._numbers.plan(grammar) if plan is None else plan)

    def _with(self, grammar: Grammar, plan: Plan) -> RecursiveUpdates:
        return MixedUpdates(grammar, self._one, self._numbers.num_components, plan)

    # ------------------------------------------------------------------ derivations

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, (len(self.words), trees.shape[-1] if trees.dim() == 2 else 0))
        K = self._numbers.num_components
        if trees.shape[-1] == 0 or not bool(((trees[:, 0] >= 0) & (trees[:, 0] < K)).all()):
            raise ValueError(f"the first number of each derivation must be a component, 0 to {K - 1}, but some are not")
        self._one._check_trees(trees[:, 1:].contiguous())

    def _rows(self, trees: Tensor) -> Any:
        own, component = self._one._rows(trees[:, 1:].contiguous()), trees[:, :1].numpy()
        rows = np.where(own < 0, -1, self._numbers.events[component, own])
        return np.concatenate([component, rows], 1)

    def _positions(self) -> dict[str, tuple[int, ...]]:
        return {name: (first, 0, *strides) for name, (first, *strides) in self._one._positions().items()}

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        K, derivations = self._numbers.num_components, trees[:, 1:].contiguous()
        is_share = (rows >= 0) & (rows < K)
        trees[:, 0] = torch.from_numpy(rows[is_share])  # one of each sentence
        own = self._one._rows(derivations)
        of_one = rows[~is_share].reshape(len(rows), -1)
        own[accepted] = np.where(of_one < 0, -1, self._numbers.of_one[of_one])[accepted]
        self._one._move(derivations, own, positions, accepted)
        trees[:, 1:] = derivations

    def parts(self, trees: Tensor) -> Tensor:
        return self._one.parts(trees[:, 1:].contiguous())

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        return self._one.add_parts(total, trees[:, 1:].contiguous())


@dataclass(frozen=True)
class _Numbers:
    """Numbers of events and multinomials of K components, from those of one.

    In the program, a table of all components follows the other, after the shares. In the mixture, a component follows
    the other.

    :param one: what sweeps of one component are compiled for.
    """

    one: Plan
    num_components: int

    @cached_property
    def _sizes(self) -> list[int]:
        return [math.prod(shape) for shape in self.one.event_shapes.values()]

    @cached_property
    def events(self) -> Any:
        """The number in the program of each event of the program of one, by component, shape ``(K, E)``."""
        found, first = [], self.num_components
        for size in self._sizes:
            found.append(first + np.arange(self.num_components * size).reshape(self.num_components, size))
            first += self.num_components * size
        return np.concatenate(found, 1)

    @cached_property
    def of_one(self) -> Any:
        """The event of the program of one for each number of an event, of which shares are none."""
        found = np.empty(self.num_components + self.events.size, np.int64)
        found[self.events] = np.arange(self.events.shape[1])
        return found

    def plan(self, grammar: Grammar) -> Plan:
        """What sweeps of all components are compiled for."""
        one, K = self.one, self.num_components
        shapes = {SHARE: (K,), **{name: (K, *shape) for name, shape in one.event_shapes.items()}}
        located = {}
        for name, own in one.located.items():
            width = len(one.program.recursion.tables[name].sizes)
            every = np.stack([np.where(own < 0, -1, self.events[k, own]) for k in range(K)], own.ndim - width)
            located[name] = every
        program = Program(with_components(one.program.recursion, {*one.event_shapes, *located}))
        sizes = {**one.sizes, COMPONENTS: K}
        return Plan(
            *(grammar, one.words, program, sizes, one.lists, one.given),
            shapes=shapes,
            located=located,
            renumbered=self._renumbered(),
            nats=self._nats(),
        )

    def _nats(self) -> Any:
        """Those of one component for every component; of shares there are none."""
        if self.one.nats is None:
            return None
        found = np.zeros(self.num_components + self.events.size)
        found[self.events] = self.one.nats
        return found

    def _renumbered(self) -> Any:
        """The number of the mixture for each number of the program."""
        K, E = self.num_components, sum(self._sizes)
        rows = [math.prod(shape[:-1]) for shape in self.one.event_shapes.values()]
        numbers = np.arange(E + sum(rows) + 2) if self.one.renumbered is None else self.one.renumbered
        R = sum(block.shape.numel() for block in self.one.base.blocks.values())
        M = int(numbers[-2]) - R  # padding comes after the multinomials
        events, padding = K + K * R, K + K * R + 1 + K * M

        def of(k: int, own: Any) -> Any:
            """Numbers of one component of the mixture."""
            others = np.where(own < R + M, events + 1 + k * M + own - R, padding + own - R - M)
            return np.where(own < R, K + k * R + own, others)

        found, first = [np.arange(K)], 0
        for size in self._sizes:
            found += [of(k, numbers[first : first + size]) for k in range(K)]
            first += size
        found.append(np.array([events]))
        for size in rows:
            found += [of(k, numbers[first : first + size]) for k in range(K)]
            first += size
        return np.concatenate([*found, [padding, padding + 1]]).astype(np.int32)
