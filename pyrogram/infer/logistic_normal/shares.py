# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""q of experts that each sentence has of its own, among processes of which each has those of its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts.gaussians.layout import ranges
from pyrogram.grammar import Weights
from pyrogram.infer.model.shares import in_order, own_rows
from pyrogram.infer.running.reduce import Reduce

from .e_step import LogisticNormalPosterior
from .layout import starts_of

Array = Any


class ExpertShares:
    """Where the numbers of each process stand among those of all sentences, in the order of the corpus.

    Its methods must be called by all processes together.

    :param q: of the sentences of this process.
    :param words: of all sentences, by key of the experts that each sentence has of its own, shape ``(N, n)``.
    """

    def __init__(self, q: LogisticNormalPosterior, words: Mapping[str, Tensor], reduce: Reduce) -> None:
        self.q, self.words, self.reduce = q, words, reduce

    @cached_property
    def _places(self) -> dict[str, list[Array]]:
        """By key and process, the places of its coordinates."""
        found = {}
        for key, words in self.words.items():
            rows = self.q.posteriors[key].rows
            own = np.bincount(rows.expert_group, rows.length, rows.num_groups).astype(np.int64)
            sizes = in_order(self.reduce.gather(torch.from_numpy(own)), words.cpu()).numpy()
            starts = starts_of(sizes)[:-1]
            shares = [own_rows(words.cpu(), rank, self.reduce.size).numpy() for rank in range(self.reduce.size)]
            found[key] = [ranges(starts[share], sizes[share]) for share in shares]
        return found

    def of_all(self, numbers: Mapping[str, Tensor]) -> Weights:
        """The numbers of all sentences, by name, from those of this process; others stay."""
        parts = self.reduce.gather({name: t for name, t in numbers.items() if _key(name) in self.words})
        found = dict(numbers)
        for name in parts[0]:
            places = self._places[_key(name)]
            whole = numbers[name].new_empty(sum(map(len, places)))
            for place, part in zip(places, parts, strict=True):
                whole[torch.from_numpy(place)] = part[name]
            found[name] = whole
        return found

    def own(self, numbers: Mapping[str, Tensor]) -> Weights:
        """The numbers of this process, by name, from those of all sentences; others, and such as do not fit, stay."""
        found = dict(numbers)
        for name, t in numbers.items():
            places = self._places.get(_key(name))
            if places is not None and t.shape == (sum(map(len, places)),):
                found[name] = t[torch.from_numpy(places[self.reduce.rank])]
        return found

    def noise(self, key: str, generator: np.random.Generator) -> Any:
        """A generator whose normal numbers are those that this process's coordinates have among all."""
        return _OwnNoise(generator, self._places[key][self.reduce.rank], sum(map(len, self._places[key])))


class _OwnNoise:
    def __init__(self, generator: np.random.Generator, places: Array, total: int) -> None:
        self.generator, self.places, self.total = generator, places, total

    def standard_normal(self, size: int) -> Array:
        """So many numbers."""
        found = self.generator.standard_normal(self.total)[self.places]
        assert len(found) == size
        return found


def _key(name: str) -> str:
    """The key of the experts of ``mean.<key>`` and ``variance.<key>``."""
    return name.partition(".")[2]
