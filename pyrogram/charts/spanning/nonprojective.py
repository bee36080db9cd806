# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective dependency trees, whose arcs may cross: log Z, marginals, samples, best trees.

Everywhere

* ``arcs`` (*batch, n+1, n+1) are scores [head, dependent];
* ``lengths`` (*batch) are numbers of words, or None if all have n; batch dimensions broadcast;
* position 0 is ROOT; column 0 and the diagonal are not read.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.charts.checks import check_size
from pyrogram.charts.projective import Engine, by_torch, flatten, shaped
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.on_tensors import SumsOnTensors, TensorInputs
from pyrogram.recursion.torch.engine import SumsInTorch

from . import arborescences, elimination, lanes, walks

Numbers = Any  # a numpy array


def log_partition(
    arcs: Float[Tensor, "*#batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Float[Tensor, "*batch"]:
    """log Z = log sum over trees of exp(score), in nats; -inf if no tree is possible. Differentiable.

    O(n^3) time and O(n^2) memory a sentence, for second derivatives O(n^3).
    """
    inputs, batch = _inputs(arcs, lengths)
    return shaped(_TREES[multiroot].log_partition(inputs, by_torch=by_torch(arcs, engine)), batch)


def marginals(
    arcs: Float[Tensor, "*#batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch N N"]]:
    """log Z and its gradient: the posterior probabilities of arcs. Differentiable."""
    inputs, batch = _inputs(arcs, lengths)
    log_z, posteriors = _TREES[multiroot].marginals(inputs, by_torch=by_torch(arcs, engine))
    return shaped(log_z, batch), shaped(posteriors["arc"], batch)


def sample(
    arcs: Float[Tensor, "*#batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    num_samples: int = 1,
    multiroot: bool = False,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S *batch N-1"]:
    """Independent trees drawn in proportion to exp(score), as heads padded with -1; see :mod:`.walks`.

    :raises ValueError: if a sentence has no possible tree, or a score that is NaN.
    """
    num_samples = check_size("num_samples", num_samples, 0)
    inputs, batch = _inputs(arcs, lengths)
    width = arcs.shape[-1] - 1
    heads = _TREES[multiroot].draw(inputs, num_samples, {}, width, generator)
    return heads.to(arcs.device).reshape(num_samples, *batch, width)


def top_k(
    arcs: Float[Tensor, "*#batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    k: int = 1,
    multiroot: bool = False,
) -> tuple[Int[Tensor, "k *batch N-1"], Float[Tensor, "k *batch"]]:
    """The k trees of highest score, best first, and their scores, without a graph; see :mod:`.arborescences`.

    Where there are fewer than k possible trees, heads are -1 and scores -inf.
    """
    k = check_size("k", k)
    inputs, batch = _inputs(arcs, lengths)
    width = arcs.shape[-1] - 1
    scores, heads = _TREES[multiroot].best(inputs, k, {}, width)
    return heads.to(arcs.device).reshape(k, *batch, width), scores.to(arcs).reshape(k, *batch)


def mbr(
    arc_marginals: Float[Tensor, "*batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk for attachment errors)."""
    return top_k(arc_marginals.detach(), lengths, multiroot=multiroot)[0][0]


def _inputs(arcs: Tensor, lengths: Tensor | None) -> tuple[TensorInputs, torch.Size]:
    flat, _, lengths, batch = flatten(arcs.unsqueeze(-1), None, lengths)
    return TensorInputs({"arc": flat.squeeze(-1)}, lengths), batch


class _InTorch(SumsInTorch):
    def __init__(self, multiroot: bool) -> None:
        self._multiroot = multiroot

    def log_partition(self, weights: Mapping[str, Tensor], lengths: Tensor, *rest: object) -> Tensor:
        return elimination.log_partition(weights["arc"], lengths, self._multiroot)


class _Compiled:
    """Compiled code; where the range of floats is not enough, logarithms in torch."""

    in_many = False
    """Whether kernels and compiled derivatives of counts are made of it."""

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
    """Sums over trees and their derivatives."""

    def __init__(self, multiroot: bool) -> None:
        super().__init__("tree")
        self._multiroot = multiroot

    @cached_property
    def torch_engine(self) -> SumsInTorch:
        return _InTorch(self._multiroot)

    @cached_property
    def program(self) -> _Compiled:
        return _Compiled(self._multiroot, self.torch_engine)


_TREES = _Trees(multiroot=False), _Trees(multiroot=True)
