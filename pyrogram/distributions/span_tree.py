# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Constituency trees by the scores of their spans, as a Pyro distribution."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_tensors
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram

from .constraints import _Named
from .scored_structure import ScoredStructure


@recursion(first=0)
def span_trees(p: Any, binary: bool = True) -> None:
    """Trees over the words i+1 .. j, between the fence posts i and j:

    T: a constituent, a word or larger ones put together; every constituent has the score of its span;
    P: all the children of one constituent, two or more;
    S: one or more constituents in a row. Binary trees need neither.

    A row is cut after its first constituent, so that each tree has one derivation.
    """
    i, j, k = p.positions("i j k")
    T, Z = p.items("T Z")
    span = p.weights("span")
    T[j - 1, j] += span[j - 1, j]
    if binary:
        T[i, j] += span[i, j] * T[i, k] * T[k, j]
    else:
        P, S = p.items("P S")
        P[i, j] += T[i, k] * S[k, j]
        T[i, j] += span[i, j] * P[i, j]
        S[i, j] += T[i, j] + P[i, j]
    Z[()] += T[0, p.n]


@cache
def program(binary: bool) -> TensorProgram:
    """The trees, of which log scores of spans are the weights, shape ``(B, n, n+1)``."""
    return TensorProgram(span_trees(binary=binary), "tree")


class SpanTrees(_Named):
    """Constituency trees over sentences of the given lengths, as the labels of their spans.

    :param lengths: numbers of words, shape ``batch``.
    :param num_labels: labels are 0 to this number less one.
    :param binary: whether larger constituents have two children.
    """

    is_discrete = True
    event_dim = 2

    def __init__(self, lengths: Tensor, num_labels: int, binary: bool):
        self.lengths, self.num_labels, self.binary = lengths, num_labels, binary
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        labels, inside = value.long(), spans_of(self.lengths, value.shape[-2])
        filled, length = labels >= 0, self.lengths[..., None, None]
        i, j = _posts(value.shape[-2], value.device)
        fits = (labels == value) & (labels < self.num_labels) & torch.where(inside, labels >= -1, labels == -1)
        needed = inside & ((j == i + 1) | ((i == 0) & (j == length)))  # words, and the whole sentence
        complete = (fits & (filled | ~needed)).flatten(-2).all(-1)
        crossing = (i[..., None, None] < i) & (i < j[:, None, None]) & (j[:, None, None] < j)
        both = filled[..., :, :, None, None] & filled[..., None, None, :, :]
        nested = ~(both & crossing).flatten(-4).any(-1)
        number = filled.flatten(-2).sum(-1)  # of a tree whose words and constituents are all binary, 2 n - 1
        return complete & nested & ((number == 2 * self.lengths - 1) if self.binary else (number > 0))


def spans_of(lengths: Tensor, n: int) -> Tensor:
    """Which spans [i, j] lie within sentences of these lengths, shape ``(*batch, n, n+1)``."""
    i, j = _posts(n, lengths.device)
    return (i < j) & (j <= lengths[..., None, None])


def _posts(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where a span begins, ``(n, 1)``, and where it ends, ``(n+1,)``."""
    return torch.arange(n, device=device)[:, None], torch.arange(n + 1, device=device)


class SpanTree(ScoredStructure):
    r"""Constituency trees of given sentences, :math:`p(y) = \exp(\sum_{\text{spans of } y} \mathrm{score}) / Z`.

    A value is a table of labels, shape ``(n, n+1)``: entry [i, j] is the label, 0 .. L-1, of the constituent of the
    words between the fence posts i and j, which are words i+1 .. j, and -1 if there is none.

    1. Each word, [i, i+1], is a constituent, and so is the sentence, [0, n]; for a sentence of one word both are one.
    2. Constituents lie within each other, or apart.
    3. A larger constituent has two children, or any number from two on unless ``binary``.
    4. Entries beyond a sentence's length are -1.

    The score of a tree is the sum of its constituents' scores. ``log_prob`` is normalised: log p(tree | scores), in
    nats, never above 0. Labels are independent of each other, given the tree. This is the tree-structured CRF of
    Stern, Andreas and Klein [1] with the sum in place of the maximum, as in [2].

    >>> trees = SpanTree(torch.zeros(4, 5))
    >>> round(float(trees.log_partition.exp()), 4)  # four words have five binary trees
    5.0
    >>> round(float(SpanTree(torch.zeros(4, 5), binary=False).log_partition.exp()), 4)
    11.0
    >>> SpanTree(torch.zeros(4, 5, 3)).sample((2,)).shape  # with one of three labels for each constituent
    torch.Size([2, 4, 5])

    Time O(n^3 + n^2 L), memory O(n^2 L) a sentence.

    :param scores: of spans, shape ``(*batch, n, n+1)`` [i, j], or labelled, ``(*batch, n, n+1, L)``; -inf forbids a
        constituent. Entries with j <= i are not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param binary: whether larger constituents have two children.
    :param labelled: whether the last dimension is that of labels; needed only where the shape does not tell.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Stern, M., Andreas, J. and Klein, D. (2017). A minimal span-based neural constituency parser. ACL, section 2.
    https://aclanthology.org/P17-1076/

    [2] Zhang, Y., Zhou, H. and Li, Z. (2020). Fast and accurate neural CRF constituency parsing. IJCAI, section 2.
    https://arxiv.org/abs/2008.03736
    """

    _part = "span"

    def __init__(
        self,
        scores: Tensor,
        lengths: Tensor | None = None,
        *,
        binary: bool = True,
        labelled: bool | None = None,
        validate_args: bool | None = None,
    ):
        check_tensors({"scores": scores}, lengths=lengths)
        shape = tuple(scores.shape)
        spans_last = len(shape) >= 2 and shape[-1] == shape[-2] + 1
        labels_last = len(shape) >= 3 and shape[-2] == shape[-3] + 1
        if labelled is None and spans_last and labels_last:
            raise ValueError(
                f"scores of shape {shape} may be a batch of spans or spans with labels; say labelled=True or "
                "labelled=False"
            )
        labelled = labels_last if labelled is None else labelled
        if not (labels_last if labelled else spans_last) or shape[-2 - labelled] < 1 or shape[-1] < 1:
            wanted = "(..., n, n+1, L)" if labelled else "(..., n, n+1) or (..., n, n+1, L)"
            raise ValueError(f"scores must have shape {wanted}, n >= 1, not {shape}")
        self.binary, self._is_labelled = binary, labelled
        n, L = shape[-2 - labelled], shape[-1] if labelled else 1
        options = {"binary": binary, "labelled": labelled}
        super().__init__({"scores": scores}, {"scores": 2 + labelled}, (n, n + 1), L, lengths, options, validate_args)

    @property
    def support(self) -> SpanTrees:
        """Trees of the sentences' lengths."""
        return SpanTrees(self.lengths, self.num_labels, self.binary)

    @property
    def _program(self) -> TensorProgram:
        return program(self.binary)

    def _inside(self, lengths: Tensor) -> Tensor:
        return spans_of(lengths, self.event_shape[0])

    @property
    def _trace(self) -> Trace:
        return {"span": (0, self.event_shape[1], 1)}  # no span begins at n

    @property
    def _most_parts(self) -> int:
        return 2 * self.event_shape[0] - 1
