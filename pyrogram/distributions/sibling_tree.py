# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees whose arcs see their siblings, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.charts import sibling
from pyrogram.charts.checks import check_tensors
from pyrogram.charts.sibling_trees import last_children, siblings_of
from pyrogram.recursion.run.on_tensors import TensorProgram

from .dependency_tree import SummedTreeDistribution


class SiblingDependencyTree(SummedTreeDistribution):
    r"""Second-order projective dependency trees of given sentences, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads, shape ``(n,)``, as in CoNLL: word c (counted from 1) has head ``value[c - 1]``

    1. in 0..n, where 0 is ROOT, left of the sentence, and 1..n are words;
    2. -1 in the padding, after the sentence's length;
    3. such that following heads from any word leads to ROOT, and arcs do not cross;
    4. with exactly one child of ROOT (any number from one on, if ``multiroot``).

    A head's children on one side are read from the nearest outwards. The score of a tree is the sum, over its arcs,
    of the arc's score and its score after its *sibling*, the child before it, and, if given, of the scores of both
    stops of every word, after its last child on that side. ``log_prob`` is normalised: log p(tree | scores), in nats,
    never above 0. If the scores are log probabilities of a model that generates words and tree, the joint is
    ``log_prob + log_partition``.

    Time O(n^3), memory O(n^2) a sentence besides the scores and their gradients (O(n^3) where torch is the engine).

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent]; -inf forbids an arc. Column 0 and the diagonal
        are not read.
    :param sibling_scores: shape ``(*batch, n+1, n+1, n+1)`` [head, dependent, sibling]: the sibling is the nearest
        of the head's other children between the two; it is the head itself if the dependent is the first child on its
        side. No other entry is read.
    :param stop_scores: shape ``(*batch, n+1, 2, n+1)`` [head, direction (0 left, 1 right), last child on that side, or
        the head itself if there is none], or None. Row 0, ROOT's, is not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :raises TypeError: if one of them is no tensor.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] McDonald, R. and Pereira, F. (2006). Online learning of approximate dependency parsing algorithms. EACL,
    section 2.1. https://aclanthology.org/E06-1011/
    """

    sibling_scores: Tensor
    stop_scores: Tensor | None

    def __init__(
        self,
        arc_scores: Tensor,
        sibling_scores: Tensor,
        stop_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        validate_args: bool | None = None,
    ):
        required = {"arc_scores": arc_scores, "sibling_scores": sibling_scores}
        check_tensors(required, stop_scores=stop_scores, lengths=lengths)
        shapes = {"arc_scores": "NN", "sibling_scores": "NNN", "stop_scores": "N2N"}
        super().__init__({**required, "stop_scores": stop_scores}, shapes, lengths, multiroot, validate_args)

    @property
    def _program(self) -> TensorProgram:
        return sibling.program(self.stop_scores is not None, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        return {name: x.transpose(-1, -2) if name == "stop" else x for name, x in scores.items()}

    def _of_weights(self, counts: Mapping[str, Tensor]) -> Sequence[Tensor]:
        return [x.transpose(-1, -2) if name == "stop" else x for name, x in counts.items()]

    def _events(self, heads: Tensor) -> dict[str, Tensor]:
        N = heads.shape[-1] + 1
        real = heads >= 0
        arc = heads.clamp_min(0) * N + torch.arange(1, N, device=heads.device)
        events = {"arc": torch.where(real, arc, -1), "sibling": torch.where(real, arc * N + siblings_of(heads), -1)}
        if self.stop_scores is not None:
            side = torch.arange(2 * N, device=heads.device)[2:]  # of words alone
            last = side * N + last_children(heads)[..., 1:, :].flatten(-2)
            events["stop"] = torch.where(real.repeat_interleave(2, -1), last, -1)
        return events
