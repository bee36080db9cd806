# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees whose arcs see their siblings, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_tensors
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram

from . import projective_tree
from .dependency_tree import DependencyTreeDistribution, arcs_of, stops_of


@recursion
def second_order(p: Any, stops: bool = False, multiroot: bool = False) -> None:
    """The chart of McDonald and Pereira (2006, section 2.1). Position 0 is the wall.

    Every word is cut into a left and a right half, i <= k <= j:

    IR, IL: an arc between i and j, from i in IR and from j in IL, and all between them;
    B: neighbouring children i and j of a head outside, and all between them;
    RO, LO: a head alone, before its children on the right and on the left;
    RC, LC: head i and all its descendants as far as j (RC), head j and all its descendants as far as i (LC);
    A: the arc from the wall to j and all before j (if there may be several roots).
    """
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, B, Z = p.items("RC LC IR IL B Z")
    RO, LO = p.items("RO LO") if stops else (RC, LC)
    arc, sibling = p.weights("arc sibling")
    RO[i, i] += 1
    LO[i, i] += 1
    IR[i, j] += arc[i, j] * (sibling[i, j, i] * RO[i, i] * LC[i + 1, j] + sibling[i, j, k] * IR[i, k] * B[k, j])
    IL[i, j] += arc[j, i] * (sibling[j, i, j] * RC[i, j - 1] * LO[j, j] + sibling[j, i, k] * B[i, k] * IL[k, j])
    B[i, j] += RC[i, k] * LC[k + 1, j]
    if stops:
        stop = p.weights("stop", 2)  # head, last child, direction; the head stands for no child
        RC[i, i] += stop[i, i, 1] * RO[i, i]
        LC[i, i] += stop[i, i, 0] * LO[i, i]
        RC[i, j] += stop[i, k, 1] * IR[i, k] * RC[k, j]
        LC[i, j] += stop[j, k, 0] * LC[i, k] * IL[k, j]
    else:
        RC[i, j] += IR[i, k] * RC[k, j]
        LC[i, j] += LC[i, k] * IL[k, j]
    if multiroot:
        A = p.items("A")
        A[j] += arc[0, j] * sibling[0, j, 0] * LC[1, j] + arc[0, j] * sibling[0, j, k] * A[k] * B[k, j]
        Z[()] += A[k] * RC[k, p.n]
    else:
        Z[()] += arc[0, r] * sibling[0, r, 0] * LC[1, r] * RC[r, p.n]


@cache
def program(stops: bool, multiroot: bool) -> TensorProgram:
    """The trees.

    Weights are ``arc`` (B, n+1, n+1) [head, dependent]; ``sibling`` (B, n+1, n+1, n+1) [head, dependent, sibling], the
    nearest of the head's other children between the two, or the head itself if there is none; and ``stop``
    (B, n+1, n+1, 2) [head, last child, direction], the head itself standing for a side without children.
    """
    return TensorProgram(second_order(stops=stops, multiroot=multiroot), "tree")


class SiblingDependencyTree(DependencyTreeDistribution):
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
    def _arcs(self) -> TensorProgram:
        return projective_tree.program(1, 0, self.multiroot)

    @property
    def _program(self) -> TensorProgram:
        return program(self.stop_scores is not None, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> Mapping[str, Tensor]:
        return {**scores, "stop": scores["stop"].transpose(-1, -2)} if "stop" in scores else scores

    def _of_weights(self, counts: Mapping[str, Tensor], *_: object) -> dict[str, Tensor]:
        return {**counts, "stop": counts["stop"].transpose(-1, -2)}  # for one sentence autograd takes noticeable time

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        arc, N = arcs_of(value), value.shape[-1] + 1
        events = {"arc": arc, "sibling": torch.where(value >= 0, arc * N + siblings_of(value), -1)}
        if self.stop_scores is not None:
            events["stop"] = stops_of(value, last_children(value), N)
        return events


def siblings_of(heads: Tensor) -> Tensor:
    """The sibling of each word, or its head if it is the first child on its side; anything in the padding.

    :param heads: shape ``(*batch, n)``, as is what is returned.
    """
    c = torch.arange(1, heads.shape[-1] + 1, device=heads.device)
    h, r = heads[..., :, None], c
    same_head = heads[..., None, :] == h
    right = c > heads
    inner = torch.where(right[..., None], (h < r) & (r < c[:, None]), (c[:, None] < r) & (r < h))
    sibling = torch.where(same_head & inner, r, h)
    return torch.where(right, sibling.amax(-1), sibling.amin(-1))


def last_children(heads: Tensor) -> Tensor:
    """The outermost child of each position on its left and on its right, or the position itself if it has none.

    :param heads: shape ``(*batch, n)``.
    :returns: shape ``(*batch, n+1, 2)``.
    """
    n = heads.shape[-1]
    h = torch.arange(n + 1, device=heads.device)[:, None]
    c = torch.arange(1, n + 1, device=heads.device)
    child = torch.where(heads[..., None, :] == h, c, h)
    return torch.stack([child.amin(-1).minimum(h[:, 0]), child.amax(-1).maximum(h[:, 0])], -1)
