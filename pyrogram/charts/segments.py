# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Semi-Markov chains: sentences cut into labelled segments (Sarawagi and Cohen 2004, section 3)."""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


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
