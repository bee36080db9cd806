# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for mixtures of grammars: compiled sweeps over components and derivations at once."""

from __future__ import annotations

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
        self._one, self.num_components = base, num_components
        self._numbers = base._plan.elements.by_component(num_components)
        self._of_one = np.empty(num_components + self._numbers.size, np.int64)  # of which shares are none
        self._of_one[self._numbers] = np.arange(self._numbers.shape[1])
        own = _plan(grammar, base._plan, self._numbers) if plan is None else plan
        super().__init__(grammar, base.words, own)

    def _with(self, grammar: Grammar, plan: Plan) -> RecursiveUpdates:
        return MixedUpdates(grammar, self._one, self.num_components, plan)

    # ------------------------------------------------------------------ derivations

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, (len(self.words), trees.shape[-1] if trees.dim() == 2 else 0))
        K = self.num_components
        if trees.shape[-1] == 0 or not bool(((trees[:, 0] >= 0) & (trees[:, 0] < K)).all()):
            raise ValueError(f"the first number of each derivation must be a component, 0 to {K - 1}, but some are not")
        self._one._check_trees(trees[:, 1:].contiguous())

    def _rows(self, trees: Tensor) -> Any:
        own, component = self._one._rows(trees[:, 1:].contiguous()), trees[:, :1].numpy()
        rows = np.where(own < 0, -1, self._numbers[component, own])
        return np.concatenate([component, rows], 1)

    def _positions(self) -> dict[str, tuple[int, ...]]:
        return {name: (first, 0, *strides) for name, (first, *strides) in self._one._positions().items()}

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        K, derivations = self.num_components, trees[:, 1:].contiguous()
        is_share = (rows >= 0) & (rows < K)
        trees[:, 0] = torch.from_numpy(rows[is_share])  # one of each sentence
        own = self._one._rows(derivations)
        of_one = rows[~is_share].reshape(len(rows), -1)
        own[accepted] = np.where(of_one < 0, -1, self._of_one[of_one])[accepted]
        self._one._move(derivations, own, positions, accepted)
        trees[:, 1:] = derivations

    def parts(self, trees: Tensor) -> Tensor:
        return self._one.parts(trees[:, 1:].contiguous())

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        return self._one.add_parts(total, trees[:, 1:].contiguous())


def _plan(grammar: Grammar, one: Plan, numbers: Any) -> Plan:
    """What sweeps of all components are compiled for.

    :param one: the same of one component.
    :param numbers: of its elements in each component, see :meth:`.EventMap.by_component`.
    """
    K, located = len(numbers), {}
    for name, own in one.located.items():
        width = len(one.program.recursion.tables[name].sizes)
        located[name] = np.stack([np.where(own < 0, -1, numbers[k, own]) for k in range(K)], own.ndim - width)
    nats = None if one.nats is None else np.zeros(K + numbers.size)  # of shares there are none
    if nats is not None:
        nats[numbers] = one.nats
    return Plan(
        *(grammar, one.words, Program(with_components(one.program.recursion, {*one.elements.tables, *located}))),
        *({**one.sizes, COMPONENTS: K}, one.lists, one.given),
        located=located,
        events=one.elements.mixed(grammar.blocks, SHARE, K),
        nats=nats,
    )
