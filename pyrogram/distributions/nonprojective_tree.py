# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective dependency trees as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.checks import check_tensors
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.on_tensors import SumsOnTensors
from pyrogram.recursion.torch.engine import SumsInTorch

from .charted import expected_score
from .dependency_tree import DependencyTreeDistribution, comparable
from .spanning import arborescences, elimination, lanes, walks

Numbers = Any  # a numpy array


class _Arborescences(SumsInTorch):
    """Sums in torch, and by compiled code; where the range of floats is not enough, this uses logarithms in torch."""

    def __init__(self, multiroot: bool) -> None:
        self._multiroot = multiroot

    def log_partition(self, weights: Mapping[str, Tensor], lengths: Tensor, *rest: object) -> Tensor:
        return elimination.log_partition(weights["arc"], lengths, self._multiroot)

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
                value, exact = self.marginals({"arc": arcs}, few)
                posteriors[unknown] = exact["arc"].numpy()
            else:
                with torch.no_grad():
                    value = self.log_partition({"arc": arcs}, few)
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
        self._sums = _Arborescences(multiroot)

    def on_device(self, *_: object) -> None:
        """No kernels."""

    def tangents(self, *_: object) -> None:
        """No compiled derivatives of counts."""

    @property
    def torch_engine(self) -> _Arborescences:
        return self._sums

    program = torch_engine


@cache
def program(multiroot: bool) -> SumsOnTensors:
    """The trees, whose weights are ``arc`` (B, n+1, n+1) [head, dependent].

    log Z takes O(n^3) time and O(n^2) memory a sentence, for second derivatives O(n^3).
    """
    return _Trees(multiroot)


class DependencyTree(DependencyTreeDistribution):
    r"""Dependency trees of given sentences whose arcs may cross, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads, shape ``(n,)``, as in CoNLL: word c (counted from 1) has head ``value[c - 1]``

    1. in 0..n, where 0 is ROOT, and 1..n are words;
    2. -1 in the padding, after the sentence's length;
    3. such that following heads from any word leads to ROOT;
    4. with exactly one child of ROOT (any number from one on, if ``multiroot``).

    The score of a tree is the sum of its arcs' scores. ``log_prob`` is normalised: log p(tree | scores), in nats, never
    above 0. If arcs must not cross, use :class:`ProjectiveDependencyTree`.

    >>> trees = DependencyTree(torch.zeros(4, 4))
    >>> round(float(trees.log_partition.exp()), 4)  # three words have nine trees with one root, two with crossing arcs
    9.0

    log Z is that of the matrix-tree theorem [1], found without subtraction [2], so that it is exact for scores of any
    size and for forbidden arcs. Its gradient are the arc marginals, its Hessian the covariances of arcs [3]:

    >>> log_z = lambda scores: DependencyTree(scores, validate_args=False).log_partition
    >>> covariance = torch.autograd.functional.hessian(log_z, torch.zeros(4, 4))  # [head, dependent, head, dependent]
    >>> round(float(covariance[0, 1, 0, 2]), 4)  # one root only: p(both are root) - p(first is) p(second is)
    -0.1111

    Of n words: log Z, marginals and entropy take O(n^3) time and O(n^2) memory a sentence, where torch does it O(n^3)
    (on a GPU, for second derivatives, and where scores leave the range of plain numbers); a draw takes some steps of
    random walks [4], O(n^4) time at most; the best tree O(n^2), the k best O(k n^3) [5].

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent]; -inf forbids an arc. Column 0 and the diagonal
        are not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :raises TypeError: if one of them is no tensor.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Koo, T., Globerson, A., Carreras, X. and Collins, M. (2007). Structured prediction models via the matrix-tree
    theorem. EMNLP, section 3. https://aclanthology.org/D07-1015/

    [2] Grassmann, W. K., Taksar, M. I. and Heyman, D. P. (1985). Regenerative analysis and steady state distributions
    for Markov chains. Operations Research 33(5). https://doi.org/10.1287/opre.33.5.1107

    [3] Zmigrod, R., Vieira, T. and Cotterell, R. (2021). Efficient computation of expectations under spanning tree
    distributions. TACL 9. https://aclanthology.org/2021.tacl-1.41/

    [4] Wilson, D. B. (1996). Generating random spanning trees more quickly than the cover time. STOC.
    https://doi.org/10.1145/237814.237880

    [5] Stanojevic, M. and Cohen, S. B. (2021). A root of a problem: optimizing single-root dependency parsing. EMNLP.
    https://aclanthology.org/2021.emnlp-main.823/
    """

    projective = False

    def __init__(
        self,
        arc_scores: Tensor,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        validate_args: bool | None = None,
    ):
        check_tensors({"arc_scores": arc_scores}, lengths=lengths)
        super().__init__({"arc_scores": arc_scores}, {"arc_scores": "NN"}, lengths, multiroot, validate_args)

    @property
    def _arcs(self) -> SumsOnTensors:
        return program(self.multiroot)

    def _read(self, rows: Tensor) -> Tensor:
        return rows  # which are heads already


@register_kl(DependencyTreeDistribution, DependencyTree)
def _kl(p: DependencyTreeDistribution, q: DependencyTree) -> Tensor:
    """KL(p || q) = -H(p) - E_p[score_q] + log Z_q; +inf where p allows what q forbids. p may be projective."""
    comparable(p, q)
    total = q.log_partition - p.entropy() - expected_score(p.marginals(), q.arc_scores, 2)
    impossible = (p.log_partition == -torch.inf) | (q.log_partition == -torch.inf)
    return torch.where(impossible, torch.inf, total)
