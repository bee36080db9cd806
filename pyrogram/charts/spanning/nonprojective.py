# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective dependency trees, whose arcs may cross: log Z, marginals, samples, best trees.

Position 0 is ROOT; column 0 and the diagonal are not read.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.on_tensors import SumsOnTensors
from pyrogram.recursion.torch.engine import SumsInTorch

from . import arborescences, elimination, lanes, walks

Numbers = Any  # a numpy array


class _InTorch(SumsInTorch):
    def __init__(self, multiroot: bool) -> None:
        self._multiroot = multiroot

    def log_partition(self, weights: Mapping[str, Tensor], lengths: Tensor, *rest: object) -> Tensor:
        return elimination.log_partition(weights["arc"], lengths, self._multiroot)


class _Compiled:
    """Compiled code; where the range of floats is not enough, logarithms in torch."""

    def __init__(self, multiroot: bool, in_torch: SumsInTorch) -> None:
        self._multiroot, self._in_torch = multiroot, in_torch

    def log_counts(
        self, inputs: Inputs, *, counts: bool = True, scale: Numbers | None = None, by_sentence: bool = False
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """See :meth:`.Program.log_counts`; every sentence has its own scores."""
        scores, lengths = _of(inputs, inputs.weights["arc"].dtype)
        log_z, posteriors = lanes.log_counts(scores, lengths, self._multiroot, counts)
        unknown = np.flatnonzero(np.isnan(log_z))
        if len(unknown):
            arcs, few = torch.from_numpy(scores[unknown]).double(), torch.from_numpy(lengths[unknown])
            if counts:
                value, exact = self._in_torch.marginals({"arc": arcs}, few)
                posteriors[unknown] = exact["arc"].numpy()
            else:
                with torch.no_grad():
                    value = self._in_torch.log_partition({"arc": arcs}, few)
            log_z[unknown] = value.numpy()
        if counts and scale is not None:
            posteriors *= scale[:, None, None].astype(posteriors.dtype)
        return log_z, {"arc": posteriors}

    def best(self, inputs: Inputs, k: int, trace: object, width: int) -> tuple[Numbers, Numbers]:
        """Scores, shape ``(k, B)``, and heads, ``(k, B, width)``."""
        return arborescences.best(*_of(inputs, np.float64), self._multiroot, k)

    def draw(self, inputs: Inputs, number: int, seed: int, trace: object, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and heads, ``(number, B, width)``."""
        log_z, posteriors = self.log_counts(inputs, counts=not self._multiroot)
        scores, lengths = _of(inputs, np.float64)
        roots = np.ones(scores.shape[:2]) if self._multiroot else posteriors["arc"][:, 0].astype(np.float64)
        roots[~(log_z > -np.inf)] = 0.0
        return log_z, walks.draw(scores, lengths, self._multiroot, roots, number, seed)


def _of(inputs: Inputs, dtype: Any) -> tuple[Numbers, Numbers]:
    """Scores and lengths, as compiled code reads them."""
    return np.ascontiguousarray(inputs.weights["arc"], dtype), np.ascontiguousarray(inputs.lengths, np.int64)


class _Trees(SumsOnTensors):
    """Sums over trees and their derivatives; their rows of derivations are heads."""

    def __init__(self, multiroot: bool) -> None:
        super().__init__("tree")
        self._multiroot = multiroot

    def on_device(self, *_: object) -> None:
        """No kernels."""

    def tangents(self, *_: object) -> None:
        """No compiled derivatives of counts."""

    @cached_property
    def torch_engine(self) -> SumsInTorch:
        return _InTorch(self._multiroot)

    @cached_property
    def program(self) -> _Compiled:
        return _Compiled(self._multiroot, self.torch_engine)


@cache
def program(multiroot: bool) -> SumsOnTensors:
    """The trees, whose weights are ``arc`` (B, n+1, n+1) [head, dependent]; see :mod:`.walks`, :mod:`.arborescences`.

    log Z takes O(n^3) time and O(n^2) memory a sentence, for second derivatives O(n^3).
    """
    return _Trees(multiroot)
