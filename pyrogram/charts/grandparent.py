# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees whose arcs see the head of the head: Models 0 and 1 of Koo and Collins (2010)."""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


@recursion
def third_order(p: Any, siblings: bool = False, multiroot: bool = False) -> None:
    """Every word is cut into a left and a right half, i <= k <= j, and g is the head of the half's head:

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
