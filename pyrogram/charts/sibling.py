# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order projective dependency trees: log Z, marginals, samples, best trees, entropy.

An arc's score depends on the child before it on that side, its *sibling*, and a head's stop on its last child.
Everywhere

* ``arcs`` (*batch, n+1, n+1) are scores [head, dependent];
* ``siblings`` (*batch, n+1, n+1, n+1) are scores [head, dependent, sibling]: the nearest of the head's other children
  between the two, or the head itself if the dependent is the first child on its side; no other entry is read;
* ``stops`` (*batch, n+1, 2, n+1) are scores [head, direction, last child], or the head itself for a side without
  children; or None;
* ``lengths`` (*batch) are numbers of words, or None if all have n; batch dimensions broadcast;
* position 0 is the wall; its stops, column 0 and the diagonal are not read.

O(n^3) time and, besides the scores, O(n^2) memory a sentence (O(n^3) in torch), by the chart of McDonald and
Pereira (2006, section 2.1).
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram

from . import projective
from .checks import broadcast, check_lengths, check_size
from .projective import Engine, arc_numbers, by_torch, entropy, heads_of, shaped

__all__ = ["entropy", "flatten", "log_partition", "marginals", "mbr", "sample", "second_order", "top_k"]


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


def log_partition(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Float[Tensor, "*batch"]:
    """log Z = log sum over trees of exp(score), in nats; -inf if no tree is possible. Differentiable."""
    trees, inputs, batch = prepare(arcs, siblings, stops, lengths, multiroot)
    return trees.log_partition(inputs, by_torch=_by_torch(inputs, engine)).reshape(batch)


def marginals(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> tuple[
    Float[Tensor, "*batch"],
    Float[Tensor, "*batch N N"],
    Float[Tensor, "*batch N N N"],
    Float[Tensor, "*batch N 2 N"] | None,
]:
    """log Z and its gradient: the posterior probabilities of arcs, siblings and stops. Differentiable."""
    trees, inputs, batch = prepare(arcs, siblings, stops, lengths, multiroot)
    log_z, posteriors = trees.marginals(inputs, by_torch=_by_torch(inputs, engine))
    by_stops = None if stops is None else shaped(posteriors["stop"].transpose(-1, -2), batch)
    return log_z.reshape(batch), shaped(posteriors["arc"], batch), shaped(posteriors["sibling"], batch), by_stops


def sample(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    num_samples: int = 1,
    multiroot: bool = False,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S *batch N-1"]:
    """Independent trees drawn in proportion to exp(score), as heads padded with -1.

    :raises ValueError: if a sentence has no possible tree, or a score that is NaN.
    """
    num_samples = check_size("num_samples", num_samples, 0)
    trees, inputs, batch = prepare(arcs, siblings, stops, lengths, multiroot)
    N = arcs.shape[-1]
    rows = trees.draw(inputs, num_samples, arc_numbers(N, inputs), N - 1, generator)
    return heads_of(rows, N).to(arcs.device).reshape(num_samples, *batch, N - 1)


def top_k(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    k: int = 1,
    multiroot: bool = False,
) -> tuple[Int[Tensor, "k *batch N-1"], Float[Tensor, "k *batch"]]:
    """The k trees of highest score, best first, and their scores, without a graph.

    Where there are fewer than k possible trees, heads are -1 and scores -inf.
    """
    k = check_size("k", k)
    trees, inputs, batch = prepare(arcs, siblings, stops, lengths, multiroot)
    N = arcs.shape[-1]
    values, rows = trees.best(inputs, k, arc_numbers(N, inputs), N - 1)
    heads = heads_of(rows, N).to(arcs.device)
    return heads.reshape(k, *batch, N - 1), values.to(arcs).reshape(k, *batch)


def mbr(
    arc_marginals: Float[Tensor, "*batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk for attachment errors)."""
    return projective.mbr(arc_marginals[..., None], lengths, multiroot=multiroot)


def prepare(
    arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor | None, multiroot: bool
) -> tuple[TensorProgram, TensorInputs, torch.Size]:
    """The trees, their scores, and the batch shape."""
    (a, r, s), m, batch = flatten(arcs, siblings, stops, lengths)
    weights = {"arc": a, "sibling": r}
    if s is not None:
        weights["stop"] = s.transpose(-1, -2)
    return _program(s is not None, multiroot), TensorInputs(weights, m), batch


@cache
def _program(stops: bool, multiroot: bool) -> TensorProgram:
    return TensorProgram(second_order(stops=stops, multiroot=multiroot), "tree")


def _by_torch(inputs: TensorInputs, engine: Engine | None) -> bool:
    return any(by_torch(x, engine) for x in inputs.weights.values())


def flatten(
    arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor | None
) -> tuple[tuple[Tensor, Tensor, Tensor | None], Tensor, torch.Size]:
    """Check shapes, broadcast batches and make them one dimension: scores, lengths, and the batch shape.

    :raises ValueError: in one sentence that names the argument and its shape.
    """
    if not arcs.is_floating_point():
        raise ValueError(f"arc scores must be floating-point numbers, not {arcs.dtype}")
    N = arcs.shape[-1] if arcs.dim() >= 2 else 0
    if N < 2 or arcs.shape[-2] != N:
        raise ValueError(f"arc scores must have shape (..., n+1, n+1) with n >= 1 words, not {tuple(arcs.shape)}")
    for what, scores, shape in (("sibling", siblings, (N, N, N)), ("stop", stops, (N, 2, N))):
        if scores is not None and scores.shape[-3:] != shape:
            expected = ", ".join(map(str, shape))
            raise ValueError(f"{what} scores must have shape (..., {expected}), not {tuple(scores.shape)}")
        if scores is not None and scores.dtype != arcs.dtype:
            raise ValueError(f"{what} scores are {scores.dtype} but arc scores are {arcs.dtype}; make them the same")
    batch = broadcast(arcs.shape[:-2], siblings.shape[:-3], torch.Size() if stops is None else stops.shape[:-3])
    if lengths is None:
        lengths = torch.full((batch.numel(),), N - 1, dtype=torch.long, device=arcs.device)
    else:
        if lengths.is_floating_point():
            raise ValueError(f"lengths must be integers, not {lengths.dtype}")
        batch = broadcast(batch, lengths.shape)
        lengths = lengths.to(torch.long).expand(batch).reshape(-1)
        check_lengths(lengths, N - 1)
    arcs = arcs.expand(*batch, N, N).reshape(-1, N, N)
    siblings = siblings.expand(*batch, N, N, N).reshape(-1, N, N, N)
    stops = None if stops is None else stops.expand(*batch, N, 2, N).reshape(-1, N, 2, N)
    return (arcs, siblings, stops), lengths, batch
