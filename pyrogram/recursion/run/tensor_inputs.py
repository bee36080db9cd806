# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sentences and weights that a recursion is run on, in tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..emit.inputs import Inputs

Numbers = Any  # a numpy array
_NOTHING = torch.empty(0)
FLOATS = {torch.float32, torch.float64}


@dataclass
class TensorInputs:
    """What a recursion is run on, in tensors.

    :param weights: log weights by table, shape ``(B, *axes)``, or ``(1, *axes)`` for all sentences alike.
    :param lengths: numbers of words, shape ``(B,)``.
    :param words: by name, shape ``(B, n)``.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param checked: whether words and lists are known to be right for weights of these shapes.
    :param batched: whether tables have a first dimension; if not, all sentences share them, and they are for log Z and
        counts alone.
    :param doubles: whether float64 computes what is wanted, whatever the type of the weights.
    """

    weights: Mapping[str, Tensor]
    lengths: Tensor
    words: Mapping[str, Tensor] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Numbers] = field(default_factory=dict)
    checked: bool = False
    batched: bool = True
    doubles: bool = False

    @functools.cached_property
    def dtype(self) -> torch.dtype:
        """Of all weights together, and of log Z."""
        return functools.reduce(torch.promote_types, {w.dtype for w in self.weights.values()})

    @property
    def precision(self) -> torch.dtype:
        """The type of the numbers that compute."""
        return torch.float64 if self.doubles else self.dtype

    def arrays(self) -> Inputs:
        """What compiled code takes: float32 if :attr:`precision` is, else float64."""
        dtype = np.float32 if self.precision == torch.float32 else np.float64
        weights = {name: _numbers(w, dtype, self.batched) for name, w in self.weights.items()}
        words = {name: rows.cpu().numpy() for name, rows in self.words.items()}
        return Inputs(self.lengths.cpu().numpy(), weights, words, self.sizes, self.lists, checked=self.checked)

    def with_weights(self, tables: Sequence[Tensor]) -> TensorInputs:
        """The same with other weights, in the same order; until these are there, somebody may change words."""
        return replace(self, weights=dict(zip(self.weights, tables, strict=True)), checked=False)

    def without_weights(self) -> TensorInputs:
        """The same, for a context of autograd, which saves weights by itself."""
        return self.with_weights([_NOTHING] * len(self.weights))

    def in_rows(self) -> TensorInputs:
        """The same, with a first dimension of all tables."""
        weights = {name: w if self.batched else w[None] for name, w in self.weights.items()}
        return replace(self, weights=weights, batched=True)

    def expanded(self) -> TensorInputs:
        """The same, with a table for each sentence."""
        B, inputs = len(self.lengths), self.in_rows()
        return inputs.with_weights([w.expand(B, *w.shape[1:]) for w in inputs.weights.values()])

    def for_torch(self) -> tuple[Any, ...]:
        """The arguments of :class:`.SumsInTorch`: copies, for what was made in inference mode has no derivatives."""
        weights = {name: w.to(self.precision) for name, w in self.in_rows().weights.items()}
        words = {name: rows.clone() for name, rows in self.words.items()}
        lists = {name: torch.from_numpy(column).to(self.lengths.device) for name, column in self.lists.items()}
        return weights, self.lengths.clone(), words, self.sizes, lists


def _numbers(w: Tensor, dtype: Any, batched: bool) -> Numbers:
    """As an array with a first dimension."""
    w = w.detach() if w.requires_grad else w
    array = np.asarray((w if w.is_cpu and w.dtype in FLOATS else w.to("cpu", torch.float64)).numpy(), dtype)
    return array if batched else array[None]


def fits_compiled(*tensors: Tensor) -> bool:
    """Whether compiled code can have them: float32 or float64 on the CPU."""
    return False not in {t.is_cpu and t.dtype in FLOATS for t in tensors}
