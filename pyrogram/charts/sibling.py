# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order projective dependency trees: log Z, marginals, samples, best trees, entropy.

An arc's score depends on the child before it on that side, its *sibling*, and a head's stop on its last child. One
signature, two engines (docs/architecture.md). Everywhere

* ``arcs`` (*batch, n+1, n+1) are scores [head, dependent];
* ``siblings`` (*batch, n+1, n+1, n+1) are scores [head, dependent, sibling]: the nearest of the head's other children
  between the two, or the head itself if the dependent is the first child on its side; no other entry is read;
* ``stops`` (*batch, n+1, 2, n+1) are scores [head, direction, last child], or the head itself for a side without
  children; or None;
* ``lengths`` (*batch) are numbers of words, or None if all have n; batch dimensions broadcast;
* position 0 is the wall; its stops, column 0 and the diagonal are not read.

O(n^3) time and, besides the scores, O(n^2) memory a sentence (numba; torch's is O(n^3)), by the chart of McDonald and
Pereira (2006, section 2.1).
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from . import projective, sibling_numba, sibling_torch
from .checks import check_size, is_traced
from .projective import (
    Engine,
    arcs_and_words,
    broadcast,
    check_lengths,
    choose_engine,
    entropy,
    nan_sentences,
    refuse_nan,
    scaled,
    spoilt,
)

__all__ = ["entropy", "flatten", "log_partition", "marginals", "mbr", "sample", "top_k"]


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
    scores, m, batch = flatten(arcs, siblings, stops, lengths)
    if _choose(scores, engine) == "torch":
        return sibling_torch.log_partition(*scores, m, multiroot).reshape(batch)
    chart: Any = _LogPartition.apply if _needs_grad(*scores) else sibling_numba.log_partition
    log_z: Tensor = spoilt(chart(*scores, m, multiroot), _nan_sentences(scores, m))
    return log_z.reshape(batch)


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
    scores, m, batch = flatten(arcs, siblings, stops, lengths)
    if _choose(scores, engine) == "torch":
        results = sibling_torch.marginals(*scores, m, multiroot)
    else:
        chart: Any = _Marginals.apply if _needs_grad(*scores) else sibling_numba.marginals
        bad = _nan_sentences(scores, m)
        results = tuple(spoilt(x, bad) for x in chart(*scores, m, multiroot))
    log_z, by_arcs, by_siblings, by_stops = results
    shaped = [x.reshape(*batch, *x.shape[1:]) for x in (by_arcs, by_siblings)]
    by_stops = None if by_stops is None else by_stops.reshape(*batch, *by_stops.shape[1:])
    return log_z.reshape(batch), shaped[0], shaped[1], by_stops


def sample(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    num_samples: int = 1,
    multiroot: bool = False,
    generator: torch.Generator | None = None,
    engine: Engine | None = None,
) -> Int[Tensor, "S *batch N-1"]:
    """Independent trees drawn in proportion to exp(score), as heads padded with -1.

    :raises ValueError: if a sentence has no possible tree, or a score that is NaN.
    """
    num_samples = check_size("num_samples", num_samples, 0)
    scores, m, batch = flatten(arcs, siblings, stops, lengths)
    chart: Any = sibling_torch if _choose(scores, engine) == "torch" else sibling_numba
    if chart is sibling_numba:
        refuse_nan(_nan_sentences(scores, m))
    heads: Tensor = chart.sample(*_detached(scores), m, multiroot, num_samples, generator)
    return heads.reshape(num_samples, *batch, heads.shape[-1])


def top_k(
    arcs: Float[Tensor, "*#batch N N"],
    siblings: Float[Tensor, "*#batch N N N"],
    stops: Float[Tensor, "*#batch N 2 N"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    k: int = 1,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> tuple[Int[Tensor, "k *batch N-1"], Float[Tensor, "k *batch"]]:
    """The k trees of highest score, best first, and their scores, without a graph.

    Where there are fewer than k possible trees, heads are -1 and scores -inf.
    """
    k = check_size("k", k)
    scores, m, batch = flatten(arcs, siblings, stops, lengths)
    chart: Any = sibling_torch if _choose(scores, engine) == "torch" else sibling_numba
    heads, values = chart.top_k(*_detached(scores), m, multiroot, k)
    return heads.reshape(k, *batch, heads.shape[-1]), values.reshape(k, *batch)


def mbr(
    arc_marginals: Float[Tensor, "*batch N N"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk for attachment errors)."""
    return projective.mbr(arc_marginals[..., None], lengths, multiroot=multiroot, engine=engine)


Flat = tuple[Tensor, Tensor, Tensor | None]


def _nan_sentences(scores: Flat, lengths: Tensor) -> Tensor | None:
    def masks() -> tuple[Any, Any, Any]:
        arc, word = arcs_and_words(scores[0].shape[1], lengths.numpy())
        h, m, r = np.ogrid[tuple(slice(n) for n in scores[1].shape[1:])]
        between = (np.minimum(h, m) < r) & (r < np.maximum(h, m))
        h, d, last = np.ogrid[tuple(slice(n) for n in (arc.shape[1], 2, arc.shape[1]))]
        side = (last > 0) & np.where(d == 1, last >= h, last <= h)
        return arc, arc[..., None] & (between | (r == h)), word[:, :, None, None] & word[:, None, None, :] & side

    return nan_sentences(scores, masks)


def flatten(
    arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor | None
) -> tuple[Flat, Tensor, torch.Size]:
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
        if not is_traced(lengths):
            check_lengths(lengths, N - 1)
    arcs = arcs.expand(*batch, N, N).reshape(-1, N, N)
    siblings = siblings.expand(*batch, N, N, N).reshape(-1, N, N, N)
    stops = None if stops is None else stops.expand(*batch, N, 2, N).reshape(-1, N, 2, N)
    return (arcs, siblings, stops), lengths, batch


def _choose(scores: Flat, engine: Engine | None) -> Engine:
    engines = {choose_engine(x, engine) for x in scores if x is not None}
    return "torch" if "torch" in engines else "numba"


def _needs_grad(*scores: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in scores)


def _detached(scores: Flat) -> list[Tensor | None]:
    return [None if x is None else x.detach() for x in scores]


class _LogPartition(torch.autograd.Function):
    """numba's log Z, with the marginals kept for the first backward pass; what follows it computes them again.

    So nobody else has them when they become the gradient, and they need no copy.
    """

    @staticmethod
    def forward(
        ctx: Any, arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool
    ) -> Any:
        log_z, *ctx.kept = sibling_numba.marginals(arcs, siblings, stops, lengths, multiroot)
        ctx.multiroot = multiroot
        ctx.save_for_backward(arcs, siblings, stops, lengths)
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        kept, ctx.kept = ctx.kept, None
        *scores, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*_derivatives(scores, lengths, ctx.multiroot, [gradients[0], None, None, None]), None, None)
        if kept is None:
            kept = sibling_numba.marginals(scores[0], scores[1], scores[2], lengths, ctx.multiroot)[1:]
        return (*(None if x is None else scaled(x, gradients[0], in_place=True) for x in kept), None, None)


class _Marginals(torch.autograd.Function):
    """numba's log Z and marginals; the gradient of log Z is at hand, any other derivative is torch's."""

    @staticmethod
    def forward(
        ctx: Any, arcs: Tensor, siblings: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool
    ) -> Any:
        log_z, *posteriors = sibling_numba.marginals(arcs, siblings, stops, lengths, multiroot)
        ctx.set_materialize_grads(False)
        ctx.multiroot = multiroot
        ctx.save_for_backward(arcs, siblings, stops, lengths, *posteriors)
        return log_z, *posteriors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        arcs, siblings, stops, lengths, *posteriors = ctx.saved_tensors
        by_log_z, *others = gradients
        if by_log_z is None and all(g is None for g in others):
            return None, None, None, None, None
        if by_log_z is not None and all(g is None for g in others) and not torch.is_grad_enabled():
            return (*(None if x is None else scaled(x, by_log_z, in_place=False) for x in posteriors), None, None)
        return (*_derivatives([arcs, siblings, stops], lengths, ctx.multiroot, list(gradients)), None, None)


def _derivatives(
    scores: list[Tensor | None], lengths: Tensor, multiroot: bool, gradients: list[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Derivatives of log Z and of the marginals in the directions of ``gradients``, as the torch engine has them."""

    def log_z(arcs: Tensor, siblings: Tensor, stops: Tensor | None = None) -> Tensor:
        return sibling_torch.log_partition(arcs, siblings, stops, lengths, multiroot)

    def scalar(*inputs: Tensor) -> Tensor:
        """The sum of the outputs, weighted by their gradients."""
        value, pullback = torch.func.vjp(log_z, *inputs)  # type: ignore[misc]
        outputs = (value, *pullback(torch.ones_like(value)))
        pairs = zip(outputs, gradients, strict=False)
        return torch.stack([(output * g).sum() for output, g in pairs if g is not None]).sum()

    value, pullback = torch.func.vjp(scalar, *(x for x in scores if x is not None))  # type: ignore[misc]
    found = pullback(torch.ones_like(value))
    return (*found, None)[:3]
