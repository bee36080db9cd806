# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Segmentations of sentences, with labels or without, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_tensors
from pyrogram.printable import plural
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram

from .constraints import _Named
from .scored_structure import ScoredStructure


@recursion(first=0)
def segments(p: Any, widest: int) -> None:
    """Segments between the fence posts i and j, of ``widest`` words at most:

    E: everything up to j, the end of a segment. Labels are independent, and summed out of the scores.
    """
    i, j = p.positions("i j")
    E, Z = p.items("E Z")
    segment = p.weights("segment")
    E[0] += 1
    E[j] += E[i] * segment[i, j] * (i < j) * (j <= i + widest)
    Z[()] += E[p.n]


@recursion(first=0)
def labelled_segments(p: Any, widest: int) -> None:
    """The same, where a label depends on the one before:

    E: everything up to j, the end of a segment of label x; B: the same, and the next label is y.
    """
    i, j = p.positions("i j")
    x, y = p.symbols("x y", "L")
    E, B, Z = p.items("E", "L"), p.items("B", "L"), p.items("Z")
    segment, transition = p.weights("segment", "L"), p.weights("transition", "L", "L")
    B[0, y] += 1
    E[j, y] += B[i, y] * segment[i, j, y] * (i < j) * (j <= i + widest)
    B[j, y] += E[j, x] * transition[x, y]
    Z[()] += E[p.n, x]


@cache
def program(widest: int, by_label: bool) -> TensorProgram:
    """The segmentations.

    Weights are log scores of segments, shape ``(B, n, n+1)`` or ``(B, n, n+1, L)``, and of pairs of labels, shape
    ``(B, L, L)``.
    """
    page = labelled_segments if by_label else segments
    return TensorProgram(page(widest=widest), "segmentation")


class Segmentations(_Named):
    """Segmentations of sentences of the given lengths, as the labels of their segments.

    :param lengths: numbers of words, shape ``batch``.
    :param num_labels: labels are 0 to this number less one.
    """

    is_discrete = True
    event_dim = 2

    def __init__(self, lengths: Tensor, num_labels: int):
        self.lengths, self.num_labels = lengths, num_labels
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        n, W = value.shape[-2:]
        labels, inside = value.long(), segments_of(self.lengths, n, W)
        i, d = torch.arange(n, device=value.device)[:, None], torch.arange(W, device=value.device)
        fits = (labels == value) & (labels < self.num_labels) & torch.where(inside, labels >= -1, labels == -1)
        word = torch.arange(n, device=value.device)
        covers = (i[..., None] <= word) & (word <= (i + d)[..., None])  # (n, W, n)
        times = ((labels >= 0)[..., None] & covers).sum((-3, -2))
        return fits.flatten(-2).all(-1) & (times == (word < self.lengths[..., None])).all(-1)


def segments_of(lengths: Tensor, n: int, W: int) -> Tensor:
    """Which segments lie within sentences of these lengths, shape ``(*batch, n, W)``."""
    first, more = torch.arange(n, device=lengths.device)[:, None], torch.arange(W, device=lengths.device)
    return first + more < lengths[..., None, None]


class Segmentation(ScoredStructure):
    r"""Segmentations of given sentences, :math:`p(y) = \exp(\sum_{\text{segments of } y} \mathrm{score}) / Z`.

    A value is a table of labels, shape ``(n, W)``: entry [i, w] is the label, 0 .. L-1, of the segment of w + 1 words
    that begins with word i, counted from 0, and -1 if there is none. Segments follow each other, and cover the sentence
    up to its length.

    The score of a segmentation is the sum of the scores of its segments and, if given, of all pairs of labels that
    follow each other. ``log_prob`` is normalised: log p(segmentation | scores), in nats, never above 0. This is a
    semi-Markov conditional random field [1].

    >>> cuts = Segmentation(torch.zeros(4, 3))
    >>> round(float(cuts.log_partition.exp()), 4)  # of the eight ways to cut four words, one has a segment of four
    7.0
    >>> Segmentation(torch.zeros(4, 3, 2), torch.zeros(2, 2)).argmax().shape
    torch.Size([4, 3])

    Time O(n W L + n L^2), memory O(n^2 L) a sentence; without pairs of labels O(n W L).

    :param scores: of segments, shape ``(*batch, n, W)`` [first word, number of words - 1], or labelled,
        ``(*batch, n, W, L)``; -inf forbids a segment. Entries beyond the sentence are not read.
    :param transition_scores: shape ``(*batch, L, L)`` [label, next label], or None; they make scores labelled.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param labelled: whether the last dimension of the scores is that of labels.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Sarawagi, S. and Cohen, W. W. (2004). Semi-Markov conditional random fields for information extraction. NeurIPS,
    section 3. https://papers.nips.cc/paper/2648
    """

    transition_scores: Tensor | None
    _part = "segment"

    def __init__(
        self,
        scores: Tensor,
        transition_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        labelled: bool | None = None,
        validate_args: bool | None = None,
    ):
        check_tensors({"scores": scores}, transition_scores=transition_scores, lengths=lengths)
        labelled = transition_scores is not None if labelled is None else labelled
        shape = tuple(scores.shape)
        if len(shape) < 2 + labelled or 0 in shape[-2 - labelled :]:
            wanted = "(..., n, W, L)" if labelled else "(..., n, W)"
            raise ValueError(f"scores must have shape {wanted}, none of them 0, not {shape}")
        table = scores if labelled else scores[..., None]
        n, W, L = table.shape[-3:]
        if transition_scores is not None and (not labelled or transition_scores.shape[-2:] != (L, L)):
            raise ValueError(
                f"transition_scores must have shape (..., {L}, {L}) for {plural(L, 'label')}, and "
                f"scores (..., n, W, L), not "
                f"{tuple(transition_scores.shape)} and {shape}"
            )
        self._is_labelled = labelled
        self._labels_are_independent = transition_scores is None
        tables = {"scores": scores, "transition_scores": transition_scores}
        dims = {"scores": 2 + labelled, "transition_scores": 2}
        super().__init__(tables, dims, (n, W), L, lengths, {"labelled": labelled}, validate_args)

    @property
    def support(self) -> Segmentations:
        """Segmentations of the sentences' lengths."""
        return Segmentations(self.lengths, self.num_labels)

    @property
    def _program(self) -> TensorProgram:
        return program(self.event_shape[1], self.transition_scores is not None)

    def _inside(self, lengths: Tensor) -> Tensor:
        return segments_of(lengths, *self.event_shape)

    @property
    def _sizes(self) -> dict[str, int]:
        return {} if self._labels_are_independent else {"L": self.num_labels}

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        n, W = self.event_shape
        i, w = torch.meshgrid(*(torch.arange(x, device=self.lengths.device) for x in (n, W)), indexing="ij")
        i, w = i[i + w < n], w[i + w < n]
        spans = scores["segment"]
        table = spans.new_full((len(spans), n, n + 1, *spans.shape[3:]), -torch.inf)
        table = table.index_put((torch.arange(len(spans), device=spans.device)[:, None], i, i + w + 1), spans[:, i, w])
        if "transition" not in scores:
            return {"segment": table}
        pairs = scores["transition"]
        if n == 1:  # there are none: what the scores are, NaN say, does not matter
            pairs = pairs.masked_fill(torch.ones_like(pairs, dtype=torch.bool), 0.0)
        return {"segment": table, "transition": pairs}

    @property
    def _trace(self) -> Trace:
        W, L = self.event_shape[1], 1 if self._labels_are_independent else self.num_labels
        # Of the segment from i to j: (1 + i W + j - i - 1) L, plus the label.
        return {"segment": (0, (W - 1) * L, L, *([] if self._labels_are_independent else [1]))}

    def _parts(self, rows: Tensor) -> Tensor:
        labels = 1 if self._labels_are_independent else self.num_labels
        return torch.where(rows >= 0, rows - labels, -1).to(self.lengths.device)

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        events = super()._events(value)
        if self.transition_scores is not None:
            # Cells in order are segments in order: of each, the label of the one before.
            labels = value.flatten(-2)
            real = labels >= 0
            place = torch.where(real, torch.arange(labels.shape[-1], device=value.device), -1).cummax(-1)[0]
            last = torch.nn.functional.pad(place, (1, -1), value=-1)
            before = labels.gather(-1, last.clamp_min(0))
            events["transition"] = torch.where(real & (last >= 0), before * self.num_labels + labels, -1)
        return events
