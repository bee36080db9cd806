# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sentences and weights that a recursion is run on, and their parameters in compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..code.expressions import VECTOR

Numbers = Any  # a numpy array

PARTS = 8  # in which sums over sentences are formed, whatever the number of threads


@dataclass
class Inputs:
    """What a recursion is run on.

    :param lengths: numbers of words, shape ``(B,)``.
    :param weights: log weights by table, shape ``(B, *axes)`` or ``(1, *axes)``, positions first.
    :param words: by name, shape ``(B, n)``.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param constants: tables that are the same in many calls, evidence say: numbers, no logarithms, that nobody counts.
    :param checked: whether words and lists are known to be right for weights of these shapes.
    """

    lengths: Numbers
    weights: Mapping[str, Numbers]
    words: Mapping[str, Numbers]
    sizes: Mapping[str, int]
    lists: Mapping[str, Numbers]
    constants: frozenset[str] = frozenset()
    checked: bool = False
    #: Of inputs that are made of others: what stands for their :meth:`shapes`.
    key: object = field(default=None, init=False, repr=False)

    def with_constants(self, constants: Mapping[str, Numbers]) -> Inputs:
        """The same with tables of numbers that are not counted, shape ``(B, *axes)``, positions first."""
        if not constants:
            return self
        return replace(self, weights={**self.weights, **constants}, constants=frozenset(constants))

    def in_logarithms(self) -> Inputs:
        """The same, with logarithms of all weights."""
        if not self.constants:
            return self
        with np.errstate(divide="ignore"):
            logs = {name: np.log(self.weights[name]) for name in self.constants}
        return replace(self, weights={**self.weights, **logs}, constants=frozenset())

    def in_doubles(self) -> Inputs:
        """The same, with logarithms of all weights, in float64."""
        logs = self.in_logarithms()
        return replace(logs, weights={name: np.asarray(w, np.float64) for name, w in logs.weights.items()})

    @property
    def pitch(self) -> int:
        """The number of positions of the longest sentence, 0 included."""
        return int(self.lengths.max(initial=1)) + 1

    def shapes(self) -> tuple[object, ...]:
        """All of weights and sizes that checks, and the parameters that are no :meth:`arrays`, depend on."""
        layouts = [x for name, t in self.weights.items() for x in (name, t.shape, t.strides, t.dtype.char)]
        return self.constants, *layouts, *self.sizes.items()

    def parameters(self) -> dict[str, Any]:
        """Those that all compiled functions have, see :mod:`~pyrogram.recursion.emit.layout`."""
        values: dict[str, Any] = {"pitch": self.pitch}
        values |= {f"size.{name}": size for name, size in self.sizes.items()}
        for name, table in self.weights.items():
            values |= table_parameters(f"weight.{name}", table, "b")
        return values | self.arrays()

    def arrays(self) -> dict[str, Any]:
        """Of these the arrays, and the strides of words."""
        arrays: dict[str, Any] = {"lengths": np.asarray(self.lengths, np.int64, order="C")}
        for name, column in self.lists.items():
            arrays[f"list.{name}"] = np.asarray(column, np.int64, order="C")
        for name, words in self.words.items():
            arrays[f"words.{name}"], arrays[f"words.{name}.b"] = np.asarray(words, np.int64, order="C"), words.shape[1]
        for name, table in self.weights.items():
            arrays[f"weight.{name}"] = table
        return arrays


def whole_vectors(shape: tuple[int, ...], wanted: bool = True) -> tuple[int, ...]:
    """A shape whose last axis has room for whole vectors, if they are wanted."""
    return (*shape[:-1], -(-shape[-1] // VECTOR) * VECTOR) if wanted and shape else shape


def table_parameters(name: str, table: Numbers, *before: str) -> dict[str, Any]:
    """A table with its strides in elements, as :meth:`.WeightTable.parameters` names them.

    :param before: axes before those of the weight. Their strides are 0 where all sentences, or parts, share the table.
    """
    axes = (*before, *range(table.ndim - len(before)))
    strides = zip(axes, table.shape, table.strides, strict=True)
    return {name: table} | {f"{name}.{x}": 0 if x in before and n == 1 else s // table.itemsize for x, n, s in strides}
