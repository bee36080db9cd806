# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sentences and weights that a recursion is run on, and their parameters in compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..rules.cells import Cells
from .checks import check_lists, check_weights, check_words

Numbers = Any  # a numpy array

PARTS = 8  # in which sums over sentences are formed, whatever the number of threads


@dataclass
class Sentences:
    """What a recursion is run on.

    :param lengths: numbers of words, shape ``(B,)``.
    :param weights: log weights by table, shape ``(B, *axes)`` or ``(1, *axes)``, positions first.
    :param words: by name, shape ``(B, n)``.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    """

    lengths: Numbers
    weights: Mapping[str, Numbers]
    words: Mapping[str, Numbers]
    sizes: Mapping[str, int]
    lists: Mapping[str, Numbers]

    def only(self, sentences: Numbers) -> Sentences:
        """Some of the sentences."""
        weights = {name: table if len(table) == 1 else table[sentences] for name, table in self.weights.items()}
        words = {name: rows[sentences] for name, rows in self.words.items()}
        return replace(self, lengths=self.lengths[sentences], weights=weights, words=words)

    @property
    def pitch(self) -> int:
        """The number of positions of the longest sentence, 0 included."""
        return int(self.lengths.max(initial=1)) + 1

    def values(self) -> dict[str, Any]:
        """The parameters that all functions have."""
        found: dict[str, Any] = {"pitch": self.pitch, "lengths": _int64(self.lengths)}
        found |= {f"size.{name}": size for name, size in self.sizes.items()}
        found |= {f"list.{name}": _int64(column) for name, column in self.lists.items()}
        for name, words in self.words.items():
            found[f"words.{name}"] = _int64(words)
            found[f"words.{name}.b"] = words.shape[1]
        for name, table in self.weights.items():
            found |= strided(f"weight.{name}", table, ("b", *range(table.ndim - 1)))
            if len(table) == 1:
                found[f"weight.{name}.b"] = 0
        return found


def check_given(cells: Cells, dtype: Numbers, given: Sentences) -> None:
    """
    :param dtype: of the weights.
    :raises InvalidRecursion: if compiled code could not run on the sentences: see :mod:`.checks`.
    """
    check_lists(cells, given.sizes, given.lists)
    check_words(cells, given.sizes, given.words, given.lengths)
    check_weights(cells, given.sizes, given.weights, given.lengths, dtype)


def strided(name: str, table: Numbers, axes: Sequence[object]) -> dict[str, Any]:
    """The parameters of a table: its address, and the strides of its axes in elements."""
    strides = {f"{name}.{x}": s // table.itemsize for x, s in zip(axes, table.strides, strict=True)}
    return {name: table, **strides}


def _int64(array: Any) -> Numbers:
    return np.ascontiguousarray(array, np.int64)
