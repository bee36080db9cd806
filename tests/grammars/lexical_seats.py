# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pitman-Yor counts with dictionaries, and all seats by recursion: what lexical models are tested against."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lexical_trees import events_of

Event = tuple[str, dict[str, Any], Any]
Parameters = Mapping[str, tuple[Sequence[float], Sequence[float]]]


class Seats:
    """Table sizes by site, level, context and value.

    :param contexts: names of features by site, coarsest first.
    :param num_values: by site.
    :param parameters: concentrations and discounts by site.
    """

    def __init__(self, contexts: Mapping[str, Any], num_values: Mapping[str, int], parameters: Parameters, paths: str):
        self.contexts, self.num_values, self.parameters, self.paths = contexts, num_values, parameters, paths
        self.tables: dict[Any, dict[Any, list[int]]] = {}

    def at(self, event: Event, level: int) -> dict[Any, list[int]]:
        site, features, _ = event
        key = (site, level, tuple(features[name] for name in self.contexts[site][level]))
        return self.tables.setdefault(key, {})

    def probability(self, event: Event, level: int | None = None) -> float:
        """P(value | context) at a level, or the finest; level -1 is the base measure."""
        site, _, value = event
        level = len(self.contexts[site]) - 1 if level is None else level
        if level < 0:
            return 1 / self.num_values[site]
        alpha, epsilon = (p[level] for p in self.parameters[site])
        here = self.at(event, level)
        total, draws = sum(map(sum, here.values())), sum(map(len, here.values()))
        above = self.probability(event, level - 1)
        if not total:
            return above
        own = here.get(value, [])
        return (sum(own) - epsilon * len(own) + (alpha + epsilon * draws) * above) / (alpha + total)

    def seat(self, event: Event) -> None:
        """By the rule of minimal or maximal paths."""
        for level in reversed(range(len(self.contexts[event[0]]))):
            own = self.at(event, level).setdefault(event[2], [])
            if own and self.paths == "minimal":
                own[0] += 1
                return
            own.append(1)

    def sequence(self, events: Iterable[Event]) -> float:
        """The probability of events one after the other; they are seated by rule."""
        p = 1.0
        for event in events:
            p *= self.probability(event)
            self.seat(event)
        return p

    def seatings(self, events: Sequence[Event]) -> Iterator[tuple[float, float]]:
        """For every way of seating events exactly: its probability given the events so far, and theirs along it."""
        if not events:
            yield 1.0, 1.0
            return
        p = self.probability(events[0])
        for share, after in self._choices(events[0], len(self.contexts[events[0][0]]) - 1):
            for later_share, later_p in after.seatings(events[1:]):
                yield share * later_share, p * later_p

    def _choices(self, event: Event, level: int) -> Iterator[tuple[float, Seats]]:
        if level < 0:
            yield 1.0, self
            return
        alpha, epsilon = (p[level] for p in self.parameters[event[0]])
        here = self.at(event, level)
        draws, own = sum(map(len, here.values())), here.get(event[2], [])
        new = (alpha + epsilon * draws) * self.probability(event, level - 1)
        weights = [size - epsilon for size in own] + [new if own or draws else 1.0]
        for table, weight in enumerate(weights):
            after = copy.deepcopy(self)
            sizes = after.at(event, level).setdefault(event[2], [])
            if table < len(own):
                sizes[table] += 1
                yield weight / sum(weights), after
            else:
                sizes.append(1)
                for share, last in after._choices(event, level - 1):
                    yield weight / sum(weights) * share, last


def sentence_events(*columns: Sequence[int]) -> list[Event]:
    """The events of a sentence: tags, words, cases, heads."""
    return list(events_of(*columns))
