# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for mixtures of grammars: compiled sweeps over components and derivations at once."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.blocks import Block
from pyrogram.event_map import num_events
from pyrogram.recursion.rules.language import Ref, Table, Variable
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.program import Program
from pyrogram.sentences import Known, Sentences, Structure

from .compiled import Plan, RecursiveUpdates

COMPONENTS = "component.count"
"""The name of the size K."""
SHARE = "component.share"
"""The name of the weights of the components."""
_COMPONENT = Variable("component.c", COMPONENTS)


def with_components(recursion: Recursion, weights: Collection[str]) -> Recursion:
    """The recursion times K: a mixture of grammars, in which every derivation is of one component.

    Before:

        IR[i, j] += arc[w[i], w[j]] * RC[i, k] * LC[k + 1, j]
        Z[()] += root[w[r]] * LC[1, r] * RC[r, n]

    After ``with_components(page, ["arc", "root"])``:

        IR[i, j, c] += arc[c, w[i], w[j]] * RC[i, k, c] * LC[k + 1, j, c]
        Z[()] += share[c] * root[c, w[r]] * LC[1, r, c] * RC[r, n, c]

    :param weights: names of the weights that each component has of its own, their first symbol, too.
    """
    items = {name for name, table in recursion.tables.items() if table.is_item and name != recursion.goal}
    by_component = items.union(weights)

    def of_component(ref: Ref) -> Ref:
        return replace(ref, symbols=(_COMPONENT, *ref.symbols)) if ref.table in by_component else ref

    mixture = copy.copy(recursion)
    mixture.tables = {SHARE: Table(mixture, SHARE, False, (COMPONENTS,))}
    for name, table in recursion.tables.items():
        sizes = (COMPONENTS, *table.sizes) if name in by_component else table.sizes
        mixture.tables[name] = Table(mixture, name, table.is_item, sizes)
    mixture.rules = []
    for rule in recursion.rules:
        share = [Ref(SHARE, False, (), (_COMPONENT,))] if rule.head.table == recursion.goal else []
        head, *factors = map(of_component, (rule.head, *rule.factors))
        mixture.rules.append(replace(rule, head=head, factors=(*share, *factors), written=None))
    return mixture


class MixedUpdates(RecursiveUpdates):
    """Sweeps of a mixture of K grammars: of a derivation that is known, the component is not."""

    knows_derivations = False


class MixtureStructure(Structure):
    """A derivation is a component and a derivation of it, shape ``(N, 1 + L)``.

    :param one: of derivations of a component.
    :param num_events: of a component's grammar.
    """

    def __init__(self, one: Structure, num_components: int, num_events: int) -> None:
        self.one, self.num_components, self._first = one, num_components, num_events
        self.derivation = one.derivation

    # Evidence is on derivations, whatever their components: it is the component's structure that has to do with it.
    def kinds(self, known: Known) -> Mapping[str, int]:
        return self.one.kinds(known)

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self.one.checked(tables)

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        self.one.check_words(words, tables)

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        return self.one.factors(sentences)

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        return self.one.log_factors(sentences, derivations[:, 1:].contiguous())

    # ------------------------------------------------------------------ events

    def length(self, n: int) -> int:
        return 1 + self.one.length(n)

    def num_events(self, n: int) -> int:
        return 1 + self.one.num_events(n)

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        K = self.num_components
        inside = derivations.shape[-1] > 0 and bool(((derivations[:, 0] >= 0) & (derivations[:, 0] < K)).all())
        if not inside:
            raise ValueError(f"the first number of each derivation must be a component, 0 to {K - 1}, but some are not")
        self.one.check_derivations(words, derivations[:, 1:].contiguous())

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        component, events = derivations[:, :1], self.one.events(words, derivations[:, 1:].contiguous())
        shifted = torch.where(events < 0, -1, self.num_components + component * self._first + events)
        return torch.cat([component, shifted], 1)

    def positions(self, n: int) -> dict[str, tuple[int, ...]]:
        return {name: (first, 0, *strides) for name, (first, *strides) in self.one.positions(n).items()}

    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        K, rows = self.num_components, derivations[:, 1:].contiguous()
        is_share = (events >= 0) & (events < K)
        component = events[is_share]  # one of each sentence
        of_one = events[~is_share].reshape(len(events), -1)
        of_one = np.where(of_one < 0, -1, of_one - K - component[:, None] * self._first)
        self.one.replace(rows, of_one, positions, accepted)
        derivations[:, 1:] = rows
        derivations[torch.from_numpy(accepted), 0] = torch.from_numpy(component[accepted])

    def add_parts(self, total: Tensor | None, words: Tensor, derivations: Tensor) -> Tensor:
        return self.one.add_parts(total, words, derivations[:, 1:].contiguous())


def mixed_plan(blocks: Mapping[str, Block], one: Plan, num_components: int) -> Plan:
    """What sweeps of all components are compiled for.

    :param blocks: the shares, shape ``(K,)``, then the blocks of each component.
    :param one: the same of one component, whose weights are not tied.
    """
    K, recursion, events = num_components, one.program.recursion, one.events
    weights = {name: len(recursion.tables[name].sizes) for name in (*events.tables, *events.located)}
    return Plan(
        MixtureStructure(one.structure, K, num_events(events.blocks)),
        one.sentences,
        Program(with_components(recursion, weights)),
        {**one.sizes, COMPONENTS: K},
        events.mixed(blocks, SHARE, weights),
        one.lists,
        one.factors,
        named=one.named,
        nats=None if one.nats is None else np.append(np.zeros(K), np.tile(one.nats, K)),  # of shares there are none
    )
