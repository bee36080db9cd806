# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Punctuation as knowledge of trees: few arcs cross it.

**Reference:** Spitkovsky, V., Alshawi, H. and Jurafsky, D. (2011). Punctuation: Making a Point in Unsupervised
Dependency Parsing. CoNLL. https://aclanthology.org/W11-0303/ Their constraints are hard; these are log factors.
"""

from __future__ import annotations

import torch

from pyrogram.bias import Bias
from pyrogram.data import Corpus


def segments(corpus: Corpus, strength: float = 3.0) -> Bias:
    """Arcs between words of different segments cost ``strength`` nats, however many marks they cross.

    An arc from ROOT costs nothing.

    >>> corpus = Corpus.from_sentences([["NOUN", "PUNCT", "VERB"]], tags="upos")
    >>> segments(corpus).parts["arc_scores"][0]
    tensor([[ 0.,  0.,  0.],
            [ 0.,  0., -3.],
            [ 0., -3.,  0.]])

    :param corpus: N sentences of at most n words, read with ``punctuation="remove"``, or with ``"keep"``.
    :returns: ``arc_scores`` [head, dependent], shape ``(N, n+1, n+1)``.
    """
    number = corpus.segments
    cross = (number[:, :, None] != number[:, None, :]) & (number[:, :, None] >= 0) & (number[:, None, :] >= 0)
    scores = torch.nn.functional.pad(cross.to(torch.get_default_dtype()) * -strength, (1, 0, 1, 0)) + 0.0  # no -0
    return Bias(parts={"arc_scores": scores}, told=(marks_told(strength),))


def marks_told(strength: float) -> str:
    """What :func:`segments` assumes, in words."""
    return f"An arc across punctuation costs {strength:g} nats."
