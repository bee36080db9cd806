# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pyrogram.charts import projective
from pyrogram.charts.checks import check_tensors
from pyrogram.charts.trees import arc_valences, over_valences, stop_valences
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import TensorProgram

from .dependency_tree import DependencyTreeDistribution, arcs_of, stops_of


class ProjectiveDependencyTree(DependencyTreeDistribution):
    r"""Projective dependency trees of given sentences, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads, shape ``(n,)``, as in CoNLL: word c (counted from 1) has head ``value[c - 1]``

    1. in 0..n, where 0 is ROOT, left of the sentence, and 1..n are words;
    2. -1 in the padding, after the sentence's length;
    3. such that following heads from any word leads to ROOT, and arcs do not cross;
    4. with exactly one child of ROOT (any number from one on, if ``multiroot``).

    The score of a tree is the sum of its arcs' scores and, if given, of the scores of both stops of every word.
    ``log_prob`` is normalised: log p(tree | scores), in nats, never above 0.

    >>> trees = ProjectiveDependencyTree(torch.zeros(4, 4))
    >>> round(float(trees.log_partition.exp()), 4)  # three words have seven trees with one root
    7.0
    >>> trees.enumerate_support().shape
    torch.Size([7, 3])

    Time O(n^3), memory O(n^2) a sentence.

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent], or ``(*batch, n+1, n+1, V)`` [head,
        dependent, valence: how many children the head has nearer by on that side, V - 1 standing for more]; -inf
        forbids an arc. Column 0 and the diagonal are not read.
    :param stop_scores: shape ``(*batch, n+1, 2, S)`` [head, direction (0 left, 1 right), valence: how many children the
        head has on that side, S - 1 standing for more], or None; S is V, and any number where arcs have no valence.
        Row 0, ROOT's, is not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :param valence: whether ``arc_scores`` has the last dimension of valences; needed where they are not two, or where
        the shape ends in (2, 2, 2) and does not tell.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Eisner, J. and Satta, G. (1999). Efficient parsing for bilexical context-free grammars and head
    automaton grammars. ACL, section 5. https://aclanthology.org/P99-1059/
    """

    stop_scores: Tensor | None

    def __init__(
        self,
        arc_scores: Tensor,
        stop_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        valence: bool | None = None,
        validate_args: bool | None = None,
    ):
        check_tensors({"arc_scores": arc_scores}, stop_scores=stop_scores, lengths=lengths)
        shape = tuple(arc_scores.shape)
        if valence is None:
            if shape[-3:] == (2, 2, 2):
                raise ValueError(
                    f"arc_scores of shape {shape} may be one word with valence or a batch without it; "
                    "say valence=True or valence=False"
                )
            valence = len(shape) >= 3 and shape[-1] == 2 and shape[-2] == shape[-3]
        self._valence = valence
        shapes = {"arc_scores": "NNV" if valence else "NN", "stop_scores": "N2S"}
        scores = {"arc_scores": arc_scores, "stop_scores": stop_scores}
        super().__init__(scores, shapes, lengths, multiroot, validate_args, valence=valence)
        if stop_scores is not None and self._valences > 1 and stop_scores.shape[-1] != self._valences:
            raise ValueError(
                f"stop_scores must have {self._valences} valences, as arc_scores have, not {stop_scores.shape[-1]}"
            )

    @property
    def _kind(self) -> type:
        return ProjectiveDependencyTree

    @property
    def _valences(self) -> int:
        return self.arc_scores.shape[-1] if self._valence else 1

    @property
    def _program(self) -> TensorProgram:
        stops = 0 if self.stop_scores is None else self.stop_scores.shape[-1]
        return projective.program(self._valences, stops, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> Mapping[str, Tensor]:
        return {**scores, "arc": scores["arc"].squeeze(-1)} if self._valence and self._valences == 1 else scores

    @property
    def _trace(self) -> Trace:
        return projective.arc_numbers(self.event_shape[0] + 1, by_valence=self._valences > 1)

    def _by_part(self, table: Tensor) -> Tensor:
        return over_valences(table) if self._valence else table

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        arc, V = arcs_of(value), self._valences
        events = {"arc": torch.where(value >= 0, arc * V + arc_valences(value, V), -1) if V > 1 else arc}
        if self.stop_scores is not None:
            S = self.stop_scores.shape[-1]
            events["stop"] = stops_of(value, stop_valences(value, S), S)
        return events
