# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_tensors
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram
from pyrogram.trees import arc_valences, over_valences, stop_valences

from .dependency_tree import DependencyTreeDistribution, arc_numbers, arcs_of, stops_of


@recursion
def first_order(p: Any, valences: int = 1, stops: int = 0, multiroot: bool = False) -> None:
    """The split-head algorithm of Eisner and Satta (1999). Position 0 is the wall.

    Every word is cut into a left and a right half, i <= k <= j:

    IR, IL: an arc between i and j, from i in IR and from j in IL, and all between them;
    RO, LO: a half tree without its stop, of head i as far as j (RO), of head j as far as i (LO);
    RC, LC: the same, completed by the head's stop; without stops there is no difference;
    A, W: the arc from the wall to j and all before j; the trees of the words 1 .. j (if there may be several roots).

    A child is its head's first on its side if the open part is the head alone; where more valences are told apart,
    open parts are. The wall has right children only.

    :param valences: V, see above.
    :param stops: U; 0 if there are none.
    """
    i, j, k, r = p.positions("i j k r")
    RC, LC, Z = p.items("RC LC Z")
    most = max(valences, stops)
    arc = p.weights("arc", valences) if valences > 1 else p.weights("arc")
    stop = p.weights("stop", 2, stops) if stops else None

    def a(head: Any, child: Any, valence: Any) -> Any:
        return arc[head, child, valence] if valences > 1 else arc[head, child]

    if most <= 2 and stops != 1:
        IR, IL = p.items("IR IL")
        RO, LO = p.items("RO LO") if stops else (RC, LC)
        RO[i, i] += 1
        LO[i, i] += 1
        IR[i, j] += a(i, j, i < k) * RO[i, k] * LC[k + 1, j]
        IL[i, j] += a(j, i, k + 1 < j) * RC[i, k] * LO[k + 1, j]
        RO[i, j] += IR[i, k] * RC[k, j]
        LO[i, j] += LC[i, k] * IL[k, j]
        if stop is not None:
            RC[i, j] += stop[i, 1, i < j] * RO[i, j]
            LC[i, j] += stop[j, 0, i < j] * LO[i, j]
    else:
        RO, LO, IR, IL = p.items("RO LO IR IL", most)
        RO[i, i, 0] += 1
        LO[i, i, 0] += 1
        for v, more in zip(range(most), [*range(1, most), most - 1], strict=True):
            IR[i, j, more] += a(i, j, v) * RO[i, k, v] * LC[k + 1, j]
            IL[i, j, more] += a(j, i, v) * RC[i, k] * LO[k + 1, j, v]
            RC[i, j] += RO[i, j, v] if stop is None else stop[i, 1, v] * RO[i, j, v]
            LC[i, j] += LO[i, j, v] if stop is None else stop[j, 0, v] * LO[i, j, v]
        for v in range(min(1, most - 1), most):  # of heads with children
            RO[i, j, v] += IR[i, k, v] * RC[k, j]
            LO[i, j, v] += LC[i, k] * IL[k, j, v]
    if multiroot and valences > 2:
        W = p.items("W", valences)  # so many roots so far
        A = p.items("A", valences)
        A[j, 0] += a(0, j, 0) * LC[1, j]
        for v in range(1, valences):
            A[j, v] += a(0, j, v) * W[k, v - 1] * LC[k + 1, j]
        A[j, valences - 1] += a(0, j, valences - 1) * W[k, valences - 1] * LC[k + 1, j]
        for v in range(valences):
            W[j, v] += A[k, v] * RC[k, j]
            Z[()] += W[p.n, v]
    elif multiroot:
        A, W = p.items("A W")
        A[j] += a(0, j, 0) * LC[1, j] + a(0, j, 1) * W[k] * LC[k + 1, j]
        W[j] += A[k] * RC[k, j]
        Z[()] += W[p.n]
    else:
        Z[()] += a(0, r, 0) * LC[1, r] * RC[r, p.n]


@cache
def program(valences: int, stops: int, multiroot: bool) -> TensorProgram:
    """The trees.

    Weights are ``arc`` (B, n+1, n+1) [head, dependent], with a last axis of valences of the dependent if there are
    several, and ``stop`` (B, n+1, 2, stops) [head, direction, valence]; the number of stops is 0 if there are none.
    """
    return TensorProgram(first_order(valences=valences, stops=stops, multiroot=multiroot), "tree")


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
    def _arcs(self) -> TensorProgram:
        return program(1, 0, self.multiroot)

    @property
    def _program(self) -> TensorProgram:
        stops = 0 if self.stop_scores is None else self.stop_scores.shape[-1]
        return program(self._valences, stops, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> Mapping[str, Tensor]:
        return {**scores, "arc": scores["arc"].squeeze(-1)} if self._valence and self._valences == 1 else scores

    @property
    def _trace(self) -> Trace:
        return arc_numbers(self.event_shape[0] + 1, by_valence=self._valences > 1)

    def _by_part(self, table: Tensor) -> Tensor:
        return over_valences(table) if self._valence else table

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        arc, V = arcs_of(value), self._valences
        events = {"arc": torch.where(value >= 0, arc * V + arc_valences(value, V), -1) if V > 1 else arc}
        if self.stop_scores is not None:
            S = self.stop_scores.shape[-1]
            events["stop"] = stops_of(value, stop_valences(value, S), S)
        return events
