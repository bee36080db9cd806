# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Constituency trees by the scores of their spans."""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


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
