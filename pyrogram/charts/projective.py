# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""First-order projective dependency trees with valence: log Z, marginals, samples, best trees, entropy.

Everywhere

* ``arcs`` (*batch, n+1, n+1, V) are scores [head, dependent, valence of the dependent]; V = 1 if the score does
  not depend on valence;
* ``stops`` (*batch, n+1, 2, U) are scores [head, direction, valence], or None; U is V, unless V = 1;
* valence is the number of children that the head has nearer by on that side, the greatest standing for more;
* ``lengths`` (*batch) are numbers of words, or None if all have n; batch dimensions broadcast;
* position 0 is the wall; its stops, column 0 and the diagonal are not read.

O(n^3) time and O(n^2) memory a sentence, by the split-head algorithm of Eisner and Satta (1999, section 5).
"""

from functools import cache
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, fits_compiled

from .checks import broadcast, check_lengths, check_size, check_stops

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


def log_partition(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 U"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Float[Tensor, "*batch"]:
    """log Z = log sum over trees of exp(score), in nats; -inf if no tree is possible. Differentiable."""
    trees, inputs, batch = prepare(arcs, stops, lengths, multiroot)
    log_z = trees.log_partition(inputs, by_torch=by_torch(arcs, engine))
    return shaped(log_z, batch)


def marginals(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 U"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch N N V"], Float[Tensor, "*batch N 2 U"] | None]:
    """log Z and its gradient: the posterior probabilities of arcs and stops. Differentiable."""
    trees, inputs, batch = prepare(arcs, stops, lengths, multiroot)
    log_z, posteriors = trees.marginals(inputs, by_torch=by_torch(arcs, engine))
    by_arcs = posteriors["arc"] if arcs.shape[-1] > 1 else posteriors["arc"][..., None]
    by_stops = None if stops is None else shaped(posteriors["stop"], batch)
    return shaped(log_z, batch), shaped(by_arcs, batch), by_stops


def sample(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 U"] | None = None,
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
    trees, inputs, batch = prepare(arcs, stops, lengths, multiroot)
    N = arcs.shape[-2]
    rows = trees.draw(inputs, num_samples, arc_numbers(N, inputs), N - 1, generator)
    return heads_of(rows, N).to(arcs.device).reshape(num_samples, *batch, N - 1)


def top_k(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 U"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    k: int = 1,
    multiroot: bool = False,
) -> tuple[Int[Tensor, "k *batch N-1"], Float[Tensor, "k *batch"]]:
    """The k trees of highest score, best first, and their scores, without a graph.

    Where there are fewer than k possible trees, heads are -1 and scores -inf.
    """
    k = check_size("k", k)
    trees, inputs, batch = prepare(arcs, stops, lengths, multiroot)
    N = arcs.shape[-2]
    scores, rows = trees.best(inputs, k, arc_numbers(N, inputs), N - 1)
    heads = heads_of(rows, N).to(arcs.device)
    return heads.reshape(k, *batch, N - 1), scores.to(arcs).reshape(k, *batch)


def mbr(
    arc_marginals: Float[Tensor, "*batch N N V"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk for attachment errors)."""
    expected = arc_marginals.detach().sum(-1, keepdim=True)
    return top_k(expected, None, lengths, k=1, multiroot=multiroot)[0][0]


def entropy(
    log_z: Float[Tensor, "*batch"],
    expectations: list[tuple[Tensor, Tensor]],
) -> Float[Tensor, "*batch"]:
    """Entropy in nats, log Z minus the expected score, from (scores, marginals) of arcs and of stops.

    0 where no tree is possible.
    """
    impossible = log_z == -torch.inf
    for scores, posterior in expectations:
        # An impossible arc has posterior 0 and contributes 0, not 0 * -inf.
        finite = torch.where(posterior > 0, scores, torch.zeros_like(scores))
        log_z = log_z - (finite * posterior).flatten(log_z.dim()).sum(-1)
    return torch.where(impossible, 0.0, log_z)


def prepare(
    arcs: Tensor, stops: Tensor | None, lengths: Tensor | None, multiroot: bool
) -> tuple[TensorProgram, TensorInputs, torch.Size]:
    """The trees, their scores, and the batch shape."""
    a, s, m, batch = flatten(arcs, stops, lengths)
    valences = a.shape[-1]
    weights = {"arc": a if valences > 1 else a.squeeze(-1)}
    if s is not None:
        weights["stop"] = s
    return _program(valences, 0 if s is None else s.shape[-1], multiroot), TensorInputs(weights, m), batch


@cache
def _program(valences: int, stops: int, multiroot: bool) -> TensorProgram:
    return TensorProgram(first_order(valences=valences, stops=stops, multiroot=multiroot), "tree")


def arc_numbers(N: int, inputs: TensorInputs) -> Trace:
    """Head times N, plus dependent: the number of an arc in the rows of derivations."""
    return {"arc": (0, N, 1, 0)[: inputs.weights["arc"].dim()]}


def heads_of(rows: Int[Tensor, "*batch n"], N: int) -> Int[Tensor, "*batch n"]:
    """Heads of the trees that consist of these arcs, numbered as by :func:`arc_numbers`; -1 in the padding."""
    heads = rows.new_full((*rows.shape[:-1], N), -1)
    return heads.scatter_(-1, torch.where(rows >= 0, rows % N, 0), rows // N)[..., 1:]


def flatten(
    arcs: Tensor, stops: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor, torch.Size]:
    """Check shapes, broadcast batches and make them one dimension; also returns the batch shape.

    :raises ValueError: in one sentence that names the argument and its shape.
    """
    if not arcs.is_floating_point():
        raise ValueError(f"arc scores must be floating-point numbers, not {arcs.dtype}")
    n = arcs.shape[-2] - 1 if arcs.dim() >= 3 else 0
    V = arcs.shape[-1] if n else 0
    if n < 1 or arcs.shape[-3] != n + 1 or V < 1:
        shape = tuple(arcs.shape)
        raise ValueError(f"arc scores must have shape (..., n+1, n+1, V) with n >= 1 words, not {shape}")
    if stops is not None:
        check_stops(stops, n, V)
    if stops is not None and stops.dtype != arcs.dtype:
        raise ValueError(f"stop scores are {stops.dtype} but arc scores are {arcs.dtype}; make them the same")
    batch = arcs.shape[:-3]
    if stops is not None:
        batch = broadcast(batch, stops.shape[:-3])
    if lengths is None:
        lengths = torch.full((batch.numel(),), n, dtype=torch.long, device=arcs.device)
    else:
        if lengths.is_floating_point():
            raise ValueError(f"lengths must be integers, not {lengths.dtype}")
        batch = broadcast(batch, lengths.shape)
        lengths = lengths.to(torch.long).expand(batch).reshape(-1)
        check_lengths(lengths, n)
    arcs = _flat(arcs, batch)
    return arcs, None if stops is None else _flat(stops, batch), lengths, batch


def _flat(scores: Tensor, batch: torch.Size) -> Tensor:
    """One batch dimension. For short sentences an operation of torch that does nothing takes noticeable time."""
    if len(batch) == 1 and scores.shape[:-3] == batch:
        return scores
    return scores.expand((*batch, *scores.shape[-3:])).reshape((-1, *scores.shape[-3:]))


def shaped(tensor: Tensor, batch: torch.Size) -> Tensor:
    return tensor if len(batch) == 1 else tensor.reshape((*batch, *tensor.shape[1:]))


def by_torch(scores: Tensor, engine: Engine | None) -> bool:
    """Whether somebody wants torch; without a wish, the recursion chooses."""
    return engine is not None and choose_engine(scores, engine) == "torch"


def choose_engine(arcs: Tensor, engine: Engine | None) -> Engine:
    """Compiled code on the CPU in float32 and float64, torch for all else."""
    if engine not in (None, "compiled", "torch"):
        raise ValueError(f"engine must be 'compiled', 'torch' or None, not {engine!r}")
    fits = fits_compiled(arcs)
    if engine == "compiled" and not fits:
        raise ValueError(f"compiled code takes float32 or float64 on the CPU, not {arcs.dtype} on {arcs.device}")
    return engine or ("compiled" if fits else "torch")
