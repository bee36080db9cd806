# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order projective dependency trees, by the chart of McDonald and Pereira (2006, section 2.1).

An arc's score depends on the child before it on that side, its *sibling*, and a head's stop on its last child. Position
0 is the wall; its stops, column 0 and the diagonal are not read.
"""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


@recursion
def second_order(p: Any, stops: bool = False, multiroot: bool = False) -> None:
    """Every word is cut into a left and a right half, i <= k <= j:

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
