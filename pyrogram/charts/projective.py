# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""First-order projective dependency trees with valence, by the split-head algorithm of Eisner and Satta (1999).

Valence is the number of children that the head has nearer by on that side, the greatest standing for more. Position 0
is the wall; its stops, column 0 and the diagonal are not read.
"""

from functools import cache
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, fits_compiled

Engine = Literal["compiled", "torch"]


@recursion
def first_order(p: Any, valences: int = 1, stops: int = 0, multiroot: bool = False) -> None:
    """Every word is cut into a left and a right half, i <= k <= j:

    IR, IL: an arc between i and j, from i in IR and from j in IL, and all between them;
    RO, LO: a half tree without its stop, of head i as far as j (RO), of head j as far as i (LO);
    RC, LC: the same, completed by the head's stop; without stops there is no difference;
    A, W: the arc from the wall to j and all before j; the trees of the words 1 .. j (if there may be several roots).

    A child is its head's first on its side if the open part is the head alone; where more valences are told apart,
    open parts are. The wall has right children only.

    :param valences: V, see above.
    :param stops: U; 0 if there are none.
    """
    i, j, k, r = p.positions("i j k r")
    RC, LC, Z = p.items("RC LC Z")
    most = max(valences, stops)
    arc = p.weights("arc", valences) if valences > 1 else p.weights("arc")
    stop = p.weights("stop", 2, stops) if stops else None

    def a(head: Any, child: Any, valence: Any) -> Any:
        return arc[head, child, valence] if valences > 1 else arc[head, child]

    if most <= 2 and stops != 1:
        IR, IL = p.items("IR IL")
        RO, LO = p.items("RO LO") if stops else (RC, LC)
        RO[i, i] += 1
        LO[i, i] += 1
        IR[i, j] += a(i, j, i < k) * RO[i, k] * LC[k + 1, j]
        IL[i, j] += a(j, i, k + 1 < j) * RC[i, k] * LO[k + 1, j]
        RO[i, j] += IR[i, k] * RC[k, j]
        LO[i, j] += LC[i, k] * IL[k, j]
        if stop is not None:
            RC[i, j] += stop[i, 1, i < j] * RO[i, j]
            LC[i, j] += stop[j, 0, i < j] * LO[i, j]
    else:
        RO, LO, IR, IL = p.items("RO LO IR IL", most)
        RO[i, i, 0] += 1
        LO[i, i, 0] += 1
        for v, more in zip(range(most), [*range(1, most), most - 1], strict=True):
            IR[i, j, more] += a(i, j, v) * RO[i, k, v] * LC[k + 1, j]
            IL[i, j, more] += a(j, i, v) * RC[i, k] * LO[k + 1, j, v]
            RC[i, j] += RO[i, j, v] if stop is None else stop[i, 1, v] * RO[i, j, v]
            LC[i, j] += LO[i, j, v] if stop is None else stop[j, 0, v] * LO[i, j, v]
        for v in range(min(1, most - 1), most):  # of heads with children
            RO[i, j, v] += IR[i, k, v] * RC[k, j]
            LO[i, j, v] += LC[i, k] * IL[k, j, v]
    if multiroot and valences > 2:
        W = p.items("W", valences)  # so many roots so far
        A = p.items("A", valences)
        A[j, 0] += a(0, j, 0) * LC[1, j]
        for v in range(1, valences):
            A[j, v] += a(0, j, v) * W[k, v - 1] * LC[k + 1, j]
        A[j, valences - 1] += a(0, j, valences - 1) * W[k, valences - 1] * LC[k + 1, j]
        for v in range(valences):
            W[j, v] += A[k, v] * RC[k, j]
            Z[()] += W[p.n, v]
    elif multiroot:
        A, W = p.items("A W")
        A[j] += a(0, j, 0) * LC[1, j] + a(0, j, 1) * W[k] * LC[k + 1, j]
        W[j] += A[k] * RC[k, j]
        Z[()] += W[p.n]
    else:
        Z[()] += a(0, r, 0) * LC[1, r] * RC[r, p.n]


@cache
def program(valences: int, stops: int, multiroot: bool) -> TensorProgram:
    """The trees.

    Weights are ``arc`` (B, n+1, n+1) [head, dependent], with a last axis of valences of the dependent if there are
    several, and ``stop`` (B, n+1, 2, stops) [head, direction, valence]; the number of stops is 0 if there are none.
    """
    return TensorProgram(first_order(valences=valences, stops=stops, multiroot=multiroot), "tree")


def mbr(
    expected: Float[Tensor, "*batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk), or of greatest sum of any scores.

    Heads are -1 where no tree is possible.
    """
    *batch, N, _ = expected.shape
    of_each = torch.tensor(N - 1, device=expected.device) if lengths is None else lengths.long()
    inputs = TensorInputs({"arc": expected.detach().reshape(-1, N, N)}, of_each.expand(batch).reshape(-1))
    rows = program(1, 0, multiroot).best(inputs, 1, arc_numbers(N), N - 1)[1][0]
    return heads_of(rows, N).to(expected.device).reshape(*batch, N - 1)


def arc_numbers(N: int, *, by_valence: bool = False) -> Trace:
    """Head times N, plus dependent: the number of an arc in the rows of derivations."""
    return {"arc": (0, N, 1, 0) if by_valence else (0, N, 1)}


def heads_of(rows: Int[Tensor, "*batch n"], N: int) -> Int[Tensor, "*batch n"]:
    """Heads of the trees that consist of these arcs, numbered as by :func:`arc_numbers`; -1 in the padding."""
    heads = rows.new_full((*rows.shape[:-1], N), -1)
    return heads.scatter_(-1, torch.where(rows >= 0, rows % N, 0), rows // N)[..., 1:]


def choose_engine(arcs: Tensor, engine: Engine | None) -> Engine:
    """Compiled code on the CPU in float32 and float64, torch for all else."""
    if engine not in (None, "compiled", "torch"):
        raise ValueError(f"engine must be 'compiled', 'torch' or None, not {engine!r}")
    fits = fits_compiled(arcs)
    if engine == "compiled" and not fits:
        raise ValueError(f"compiled code takes float32 or float64 on the CPU, not {arcs.dtype} on {arcs.device}")
    return engine or ("compiled" if fits else "torch")
