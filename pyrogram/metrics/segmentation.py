# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How well predicted segmentations agree with gold ones, and perplexity per word.

A segmentation is a sequence of segments, strings or tuples of symbols: the words of an utterance, the morphs of a word.
Predicted and gold segmentations of an item have the same symbols in the same order. The conventions are those of the
literature on word segmentation [1, 2], with all items pooled (micro-averages):

* *tokens*: a predicted segment is right if gold has a segment of the same symbols at the same place;
* *boundaries*: places between two segments of an item; its two ends, which nobody has to find, are left out;
* *types*: the set of all different segments in the predictions, against the set of those in gold (the lexicon).

Precision is the share of the predicted that are right, recall the share of gold's that were found, F1 their harmonic
mean, ``2 right / (predicted + gold)``. What there are none of has no share: it is None then, never NaN.

**References:**

[1] Brent (1999), "An efficient, probabilistically sound algorithm for segmentation and word discovery",
    Machine Learning 34, section 4.
[2] Goldwater, Griffiths and Johnson (2009), "A Bayesian framework for word segmentation", Cognition 112, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

Segmentation = Sequence[Sequence[str]]

__all__ = [
    "Agreement",
    "Segmentation",
    "SegmentationScores",
    "closest_segmentations",
    "perplexity",
    "segmentation_scores",
]


@dataclass(frozen=True)
class Agreement:
    """What of the predicted is right, and how much there is in gold."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float | None:
        """Share of the predicted that are right."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Share of gold that was found."""
        return self.right / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall."""
        total = self.predicted + self.gold
        return 2 * self.right / total if total else None


@dataclass(frozen=True)
class SegmentationScores:
    """Scores of a corpus; ``print`` shows them in percent.

    :ivar exact: share of the items whose segmentation is right throughout.
    """

    token: Agreement
    boundary: Agreement
    type: Agreement
    exact: float
    items: int

    def __str__(self) -> str:
        lines = ["           precision  recall      F1"]
        for name in ("token", "boundary", "type"):
            agreement: Agreement = getattr(self, name)
            shares = (agreement.precision, agreement.recall, agreement.f1)
            row = "".join(
                f"{'-' if s is None else f'{100 * s:.1f}':>{w}}" for s, w in zip(shares, (12, 8, 8), strict=True)
            )
            lines.append(f"{name:<8}{row}")
        return "\n".join([*lines, f"exact   {100 * self.exact:>28.1f}"])


def segmentation_scores(predicted: Sequence[Segmentation], gold: Sequence[Segmentation]) -> SegmentationScores:
    """Token, boundary and type scores of segmentations, item by item the same symbols.

    >>> scores = segmentation_scores([["the", "dogbarks"]], [["the", "dog", "barks"]])
    >>> scores.token.precision, scores.boundary.recall
    (0.5, 0.5)

    :raises ValueError: if there are no items, or if an item's symbols are not the same.
    """
    if len(predicted) != len(gold) or not gold:
        raise ValueError(
            f"predicted and gold must hold the same items, at least one, got {len(predicted)} and {len(gold)}"
        )
    pairs = [
        (_spans(i, p, "predicted"), _spans(i, g, "gold")) for i, (p, g) in enumerate(zip(predicted, gold, strict=True))
    ]
    for i, (p, g) in enumerate(pairs):
        if _symbols(predicted[i]) != _symbols(gold[i]):
            raise ValueError(f"item {i} is {_shown(predicted[i])!r} predicted but {_shown(gold[i])!r} in gold")
        assert max(p)[1] == max(g)[1]
    token = Agreement(*_sums((len(p & g), len(p), len(g)) for p, g in pairs))
    inner = [({k for _, k in p} - {max(p)[1]}, {k for _, k in g} - {max(g)[1]}) for p, g in pairs]
    boundary = Agreement(*_sums((len(p & g), len(p), len(g)) for p, g in inner))
    own_types, gold_types = ({tuple(s) for item in items for s in item} for items in (predicted, gold))
    kinds = Agreement(len(own_types & gold_types), len(own_types), len(gold_types))
    return SegmentationScores(token, boundary, kinds, sum(p == g for p, g in pairs) / len(pairs), len(pairs))


def closest_segmentations(
    predicted: Sequence[Segmentation], alternatives: Sequence[Sequence[Segmentation]]
) -> list[Segmentation]:
    """Of several gold segmentations of each item the one that agrees best with the predicted, by F1 of tokens.

    Of equally good ones the first, so that what no prediction decides stays as the annotators wrote it.
    """
    chosen = []
    for i, (segmentation, golds) in enumerate(zip(predicted, alternatives, strict=True)):
        spans = _spans(i, segmentation, "predicted")
        gold_spans = [_spans(i, g, "gold") for g in golds]
        shares = [len(spans & g) / (len(spans) + len(g)) for g in gold_spans]
        chosen.append(golds[shares.index(max(shares))])
    return chosen


def perplexity(log_probs: Tensor) -> float:
    """Perplexity per item: exp of minus the mean log probability.

    :param log_probs: log p of each item in nats, shape ``(N,)``, as ``Sentence.log_prob`` gives them. One of -inf makes
        it infinite.
    """
    if log_probs.dim() != 1 or not len(log_probs):
        raise ValueError(f"log_probs must have shape (N,), N at least 1, not {tuple(log_probs.shape)}")
    mean = float(log_probs.detach().to(torch.float64).mean())
    return math.exp(-mean) if mean > -700 else math.inf


def _spans(number: int, segments: Segmentation, side: str) -> set[tuple[int, int]]:
    """Start and end of every segment."""
    if isinstance(segments, str) or not len(segments) or not all(len(s) for s in segments):
        raise ValueError(f"item {number} of {side} must be segments, none of them empty, not {segments!r}")
    ends = list(accumulate(len(s) for s in segments))
    return set(zip([0, *ends[:-1]], ends, strict=True))


def _symbols(segments: Segmentation) -> list[str]:
    return [symbol for segment in segments for symbol in segment]


def _shown(segments: Segmentation) -> str:
    return " ".join("".join(s) for s in segments)


def _sums(triples: object) -> tuple[int, int, int]:
    rows = list(triples)  # type: ignore[call-overload]
    return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows)
