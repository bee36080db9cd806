# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees whose arcs see the head of the head, as a Pyro distribution."""

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

from . import projective_tree
from .dependency_tree import DependencyTreeDistribution, arc_numbers, arcs_of
from .sibling_tree import siblings_of


@recursion
def third_order(p: Any, siblings: bool = False, multiroot: bool = False) -> None:
    """Models 0 and 1 of Koo and Collins (2010).

    Every word is cut into a left and a right half, i <= k <= j, and g is the head of the half's head:

    IR, IL: an arc between i and j, from i in IR and from j in IL, and all between them;
    RC, LC: head i and all its descendants as far as j (RC), head j and all its descendants as far as i (LC);
    B: neighbouring children i and j of the head g outside, and all between them;
    A, W: the arc from the wall to j and all before j; the trees of the words 1 .. j (if there may be several roots).

    Positions are symbols, too: g is one. Arcs from the wall have no head above them, and no siblings.
    """
    i, j, k, r = p.positions("i j k r")
    g = p.symbols("g", "G")
    RC, LC, IR, IL = p.items("RC LC IR IL", "G")
    Z = p.items("Z")
    root, arc = p.weights("root"), p.weights("arc", "G")
    RC[i, i, g] += 1
    LC[i, i, g] += 1
    if siblings:
        B = p.items("B", "G")
        sibling = p.weights("sibling", "G")  # head, dependent, sibling, or the head for none
        first, later = sibling[i, j, i, g] * LC[i + 1, j, i], sibling[i, j, k, g] * IR[i, k, g] * B[k, j, i]
        IR[i, j, g] += arc[i, j, g] * (first + later)
        first, later = sibling[j, i, j, g] * RC[i, j - 1, j], sibling[j, i, k, g] * B[i, k, j] * IL[k, j, g]
        IL[i, j, g] += arc[j, i, g] * (first + later)
        B[i, j, g] += RC[i, k, g] * LC[k + 1, j, g]
    else:
        IR[i, j, g] += arc[i, j, g] * RC[i, k, g] * LC[k + 1, j, i]
        IL[i, j, g] += arc[j, i, g] * RC[i, k, j] * LC[k + 1, j, g]
    RC[i, j, g] += IR[i, k, g] * RC[k, j, i]
    LC[i, j, g] += LC[i, k, j] * IL[k, j, g]
    if multiroot:
        A, W = p.items("A W")
        A[j] += root[j] * (LC[1, j, 0] + W[k] * LC[k + 1, j, 0])
        W[j] += A[k] * RC[k, j, 0]
        Z[()] += W[p.n]
    else:
        Z[()] += root[r] * LC[1, r, 0] * RC[r, p.n, 0]


@cache
def program(siblings: bool, multiroot: bool) -> TensorProgram:
    """The trees, n words long at most.

    Weights are ``root`` ``(B, n+1)``, ``arc`` ``(B, n+1, n+1, n+1)`` [head, dependent, head of the head] and
    ``sibling`` ``(B, n+1, n+1, n+1, n+1)`` [head, dependent, sibling, head of the head]; the size is G = n + 1.
    """
    return TensorProgram(third_order(siblings=siblings, multiroot=multiroot), "tree")


class GrandparentDependencyTree(DependencyTreeDistribution):
    r"""Projective dependency trees whose arcs are scored together with the head of the head.

    A value is a tensor of heads, shape ``(n,)``, as in :class:`ProjectiveDependencyTree`. The *grandparent* of a word
    is the head of its head, 0 for ROOT. The score of a tree is the sum, over its arcs, of the arc's score and, unless
    the head is ROOT, of its score with the grandparent and, if given, with the grandparent and the *sibling*, the
    head's child before it on that side. These are Models 0 and 1 of Koo and Collins [1], with sums in place of maxima.
    ``log_prob`` is normalised: log p(tree | scores), in nats, never above 0.

    >>> trees = GrandparentDependencyTree(torch.zeros(4, 4), torch.zeros(4, 4, 4))
    >>> round(float(trees.log_partition.exp()), 4)  # three words have seven trees with one root
    7.0

    Time O(n^4), memory O(n^3) a sentence, O(n^4) with siblings.

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent]; -inf forbids an arc. Column 0 and the diagonal
        are not read.
    :param grandparent_scores: shape ``(*batch, n+1, n+1, n+1)`` [grandparent, head, dependent].
    :param grandsibling_scores: shape ``(*batch, n+1, n+1, n+1, n+1)`` [grandparent, head, dependent, sibling]: the
        nearest of the head's other children between the two, or the head itself if there is none; or None.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Koo, T. and Collins, M. (2010). Efficient third-order dependency parsers. ACL, sections 4.1 and 4.2.
    https://aclanthology.org/P10-1001/
    """

    grandparent_scores: Tensor
    grandsibling_scores: Tensor | None

    def __init__(
        self,
        arc_scores: Tensor,
        grandparent_scores: Tensor,
        grandsibling_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        validate_args: bool | None = None,
    ):
        required = {"arc_scores": arc_scores, "grandparent_scores": grandparent_scores}
        check_tensors(required, grandsibling_scores=grandsibling_scores, lengths=lengths)
        scores = {**required, "grandsibling_scores": grandsibling_scores}
        shapes = {"arc_scores": "NN", "grandparent_scores": "NNN", "grandsibling_scores": "NNNN"}
        super().__init__(scores, shapes, lengths, multiroot, validate_args)

    @property
    def _arcs(self) -> TensorProgram:
        return projective_tree.program(1, 0, self.multiroot)

    @property
    def _program(self) -> TensorProgram:
        return program(self.grandsibling_scores is not None, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        arcs, N = scores["arc"], self.event_shape[0] + 1
        # What is in no tree may have any score, and the chart fills cells that no tree needs.
        h, d, x = torch.meshgrid(*[torch.arange(N, device=arcs.device)] * 3, indexing="ij")
        low, high = torch.minimum(h, d), torch.maximum(h, d)
        possible = (h > 0) & (d > 0) & (h != d) & ~((low <= x) & (x <= high))  # of the head's head x
        within = torch.arange(N, device=arcs.device) <= lengths[:, None]
        within = within[:, :, None, None] & within[:, None, :, None] & within[:, None, None, :]
        with_grandparent = arcs[..., None] + scores["grandparent"].permute(0, 2, 3, 1)
        weights = {
            "root": arcs[:, 0],
            "arc": torch.where(possible & within, with_grandparent, -torch.inf),
        }
        if "grandsibling" in scores:
            between = (x == h) | ((low < x) & (x < high))  # the sibling x
            by_sibling = (possible & within)[:, :, :, None, :] & between[..., None]
            weights["sibling"] = torch.where(by_sibling, scores["grandsibling"].permute(0, 2, 3, 4, 1), -torch.inf)
        return weights

    @property
    def _sizes(self) -> dict[str, int]:
        return {"G": self.event_shape[0] + 1}

    @property
    def _trace(self) -> Trace:
        return {"root": (0, 1), **arc_numbers(self.event_shape[0] + 1, by_valence=True)}

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        arc, N, h = arcs_of(value), value.shape[-1] + 1, value.clamp_min(0)
        above = torch.nn.functional.pad(h, (1, 0)).gather(-1, h)  # ROOT's is not read
        with_grandparent = above * N * N + arc
        events = {"grandparent": with_grandparent}
        if self.grandsibling_scores is not None:
            events["grandsibling"] = with_grandparent * N + siblings_of(value).clamp_min(0)
        return {"arc": arc, **{name: torch.where(value > 0, index, -1) for name, index in events.items()}}
