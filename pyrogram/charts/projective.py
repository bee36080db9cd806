# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""First-order projective dependency trees with valence: log Z, marginals, samples, best trees, entropy.

One signature, two engines (docs/architecture.md). Everywhere

* ``arcs`` (*batch, n+1, n+1, V) are scores [head, dependent, valence of the dependent]; V = 2, or V = 1 if
  the score does not depend on valence;
* ``stops`` (*batch, n+1, 2, 2) are scores [head, direction, valence], or None;
* ``lengths`` (*batch) are numbers of words, or None if all have n; batch dimensions broadcast;
* position 0 is the wall; its stops, column 0 and the diagonal are not read.

O(n^3) time and O(n^2) memory a sentence, by the split-head algorithm of Eisner and Satta (1999, section 5).
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from . import projective_numba, projective_torch
from .checks import check_size, is_traced

Engine = Literal["numba", "torch"]


def log_partition(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 2"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Float[Tensor, "*batch"]:
    """log Z = log sum over trees of exp(score), in nats; -inf if no tree is possible. Differentiable."""
    a, s, m, batch = flatten(arcs, stops, lengths)
    if choose_engine(a, engine) == "torch":
        return projective_torch.log_partition(a, s, m, multiroot).reshape(batch)
    chart: Any = _LogPartition.apply if _needs_grad(a, s) else projective_numba.log_partition
    return _shaped(spoilt(chart(a, s, m, multiroot), _nan_sentences(a, s, m)), batch)


def marginals(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 2"] | None = None,
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch N N V"], Float[Tensor, "*batch N 2 2"] | None]:
    """log Z and its gradient: the posterior probabilities of arcs and stops. Differentiable."""
    a, s, m, batch = flatten(arcs, stops, lengths)
    if choose_engine(a, engine) == "torch":
        log_z, arc_marginals, stop_marginals = projective_torch.marginals(a, s, m, multiroot)
    else:
        chart = _marginals if _needs_grad(a, s) else projective_numba.marginals
        bad = _nan_sentences(a, s, m)
        log_z, arc_marginals, stop_marginals = (spoilt(x, bad) for x in chart(a, s, m, multiroot))
    stop_marginals = None if stop_marginals is None else _shaped(stop_marginals, batch)
    return _shaped(log_z, batch), _shaped(arc_marginals, batch), stop_marginals


def sample(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 2"] | None = None,
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
    a, s, m, batch = flatten(arcs, stops, lengths)
    chart: Any = projective_torch if choose_engine(a, engine) == "torch" else projective_numba
    if chart is projective_numba:
        refuse_nan(_nan_sentences(a, s, m))
    heads: Tensor = chart.sample(a.detach(), _detach(s), m, multiroot, num_samples, generator)
    return heads.reshape(num_samples, *batch, heads.shape[-1])


def top_k(
    arcs: Float[Tensor, "*#batch N N V"],
    stops: Float[Tensor, "*#batch N 2 2"] | None = None,
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
    a, s, m, batch = flatten(arcs, stops, lengths)
    chart: Any = projective_torch if choose_engine(a, engine) == "torch" else projective_numba
    heads, scores = chart.top_k(a.detach(), _detach(s), m, multiroot, k)
    return heads.reshape(k, *batch, heads.shape[-1]), scores.reshape(k, *batch)


def mbr(
    arc_marginals: Float[Tensor, "*batch N N V"],
    lengths: Int[Tensor, "*#batch"] | None = None,
    *,
    multiroot: bool = False,
    engine: Engine | None = None,
) -> Int[Tensor, "*batch N-1"]:
    """The tree of greatest expected number of right heads (minimum Bayes risk for attachment errors)."""
    expected = arc_marginals.detach().sum(-1, keepdim=True)
    return top_k(expected, None, lengths, k=1, multiroot=multiroot, engine=engine)[0][0]


def entropy(
    log_z: Float[Tensor, "*batch"],
    expectations: list[tuple[Tensor, Tensor]],
) -> Float[Tensor, "*batch"]:
    """Entropy in nats, log Z minus the expected score, from (scores, marginals) of arcs and of stops."""
    for scores, posterior in expectations:
        # An impossible arc has posterior 0 and contributes 0, not 0 * -inf.
        finite = torch.where(posterior > 0, scores, torch.zeros_like(scores))
        log_z = log_z - (finite * posterior).flatten(log_z.dim()).sum(-1)
    return log_z


def flatten(
    arcs: Tensor, stops: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor, torch.Size]:
    """Check shapes, broadcast batches and make them one dimension; also returns the batch shape.

    :raises ValueError: in one sentence that names the argument and its shape.
    """
    if not arcs.is_floating_point():
        raise ValueError(f"arc scores must be floating-point numbers, not {arcs.dtype}")
    n = arcs.shape[-2] - 1 if arcs.dim() >= 3 else 0
    if n < 1 or arcs.shape[-3] != n + 1 or arcs.shape[-1] not in (1, 2):
        shape = tuple(arcs.shape)
        raise ValueError(f"arc scores must have shape (..., n+1, n+1, 1 or 2) with n >= 1 words, not {shape}")
    if stops is not None and stops.shape[-3:] != (n + 1, 2, 2):
        raise ValueError(f"stop scores must have shape (..., {n + 1}, 2, 2), not {tuple(stops.shape)}")
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
        if not is_traced(lengths):
            check_lengths(lengths, n)
    arcs = _flat(arcs, batch)
    return arcs, None if stops is None else _flat(stops, batch), lengths, batch


def check_lengths(lengths: Tensor, n: int) -> None:
    """
    :raises ValueError: if a length is not in 1..n.
    """
    values = lengths.numpy() if lengths.device.type == "cpu" else lengths  # for few numbers, numpy is quicker
    if lengths.numel() and not (1 <= values.min() and values.max() <= n):
        raise ValueError(f"lengths must lie in 1..{n}, not {int(values.min())}..{int(values.max())}")


def nan_sentences(scores: Sequence[Tensor | None], masks: Callable[[], Sequence[Any]]) -> Tensor | None:
    """Which sentences have NaN among the scores that are read, shape ``(B,)``; None for none.

    Lanes look for the greatest score and do not see NaN, whether or not a tree has it; their log Z is then any number.

    :param masks: which numbers of each of the scores are read, asked for only where some are NaN.
    """
    arrays = [None if x is None else x.detach().numpy() for x in scores]
    with np.errstate(all="ignore"):  # a sum of numbers is NaN if one of them is
        if not any(np.isnan(x.sum()) for x in arrays if x is not None):
            return None
    given = [(x, mask) for x, mask in zip(arrays, masks(), strict=True) if x is not None]
    found = [(np.isnan(x) & mask).reshape(len(x), -1).any(1) for x, mask in given]
    return torch.from_numpy(np.any(found, 0)) if np.any(found) else None


def _nan_sentences(arcs: Tensor, stops: Tensor | None, lengths: Tensor) -> Tensor | None:
    def masks() -> tuple[Any, Any]:
        arc, word = arcs_and_words(arcs.shape[1], lengths.numpy())
        return arc[..., None], word[:, :, None, None]

    return nan_sentences((arcs, stops), masks)


def arcs_and_words(N: int, lengths: Any) -> tuple[Any, Any]:
    """What is an arc [head, dependent], (B, N, N), and what is a word, (B, N), of sentences of these lengths."""
    position = np.arange(N)
    inside = position <= lengths[:, None]
    word = inside & (position > 0)
    return inside[:, :, None] & word[:, None, :] & ~np.eye(N, dtype=np.bool_), word


def spoilt(values: Tensor | None, sentences: Tensor | None) -> Any:
    """NaN for these sentences."""
    if values is None or sentences is None:
        return values
    return torch.where(sentences.reshape(-1, *(1,) * (values.dim() - 1)), torch.nan, values)


def refuse_nan(sentences: Tensor | None) -> None:
    """
    :raises ValueError: for the first of these sentences.
    """
    if sentences is not None:
        raise ValueError(f"scores of sentence {int(sentences.long().argmax())} must be numbers, but some are NaN")


def _flat(scores: Tensor, batch: torch.Size) -> Tensor:
    """One batch dimension. For short sentences an operation of torch that does nothing takes noticeable time."""
    if len(batch) == 1 and scores.shape[:-3] == batch:
        return scores
    return scores.expand((*batch, *scores.shape[-3:])).reshape((-1, *scores.shape[-3:]))


def _shaped(tensor: Tensor, batch: torch.Size) -> Tensor:
    return tensor if len(batch) == 1 else tensor.reshape((*batch, *tensor.shape[1:]))


def broadcast(*shapes: torch.Size) -> torch.Size:
    """What torch.broadcast_shapes gives, which takes longer than short sentences do: mostly all are equal."""
    result = torch.Size()
    for shape in shapes:
        if len(shape) and shape != result:
            result = torch.broadcast_shapes(result, shape) if len(result) else shape
    return result


def choose_engine(arcs: Tensor, engine: Engine | None) -> Engine:
    """numba on the CPU in float32 and float64, torch for all else and under torch's transforms."""
    if engine not in (None, "numba", "torch"):
        raise ValueError(f"engine must be 'numba', 'torch' or None, not {engine!r}")
    fits = arcs.device.type == "cpu" and arcs.dtype in (torch.float32, torch.float64) and not is_traced(arcs)
    if engine == "numba" and not fits:
        raise ValueError(f"the numba engine takes float32 or float64 on the CPU, not {arcs.dtype} on {arcs.device}")
    return engine or ("numba" if fits else "torch")


def _needs_grad(arcs: Tensor, stops: Tensor | None) -> bool:
    return torch.is_grad_enabled() and (arcs.requires_grad or (stops is not None and stops.requires_grad))


def _detach(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


def _marginals(
    arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    return _Marginals.apply(arcs, stops, lengths, multiroot)  # type: ignore[no-any-return]


def scaled(marginals: Tensor, by_log_z: Tensor, in_place: bool) -> Tensor:
    """The product, by numpy where it can: torch would wake its threads, which then spin and get in our way."""
    if choose_engine(by_log_z, None) == "torch":
        return marginals * by_log_z.reshape(-1, *[1] * (marginals.dim() - 1))
    factors = by_log_z.detach().numpy()
    expanded = factors.size > 0 and factors.strides == (0,)  # the gradient of a sum is one number, mostly 1
    if in_place and (factors.item(0) == 1 if expanded else (factors == 1).all()):
        return marginals
    values = marginals.detach().numpy()
    factors = factors.reshape(-1, *[1] * (values.ndim - 1))
    return torch.from_numpy(np.multiply(values, factors, out=values if in_place else None))


class _LogPartition(torch.autograd.Function):
    """numba's log Z, with the marginals kept for the first backward pass; what follows it computes them again.

    So nobody else has them when they become the gradient, and they need no copy.
    """

    @staticmethod
    def forward(ctx: Any, arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool) -> Any:
        log_z, *ctx.kept = projective_numba.marginals(arcs, stops, lengths, multiroot)
        ctx.multiroot = multiroot
        ctx.save_for_backward(arcs, stops, lengths)
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        kept, ctx.kept = ctx.kept, None
        if torch.is_grad_enabled():
            arcs, stops, lengths = ctx.saved_tensors
            return _derivatives(arcs, stops, lengths, ctx.multiroot, (gradients[0], None, None))
        if kept is None:  # saved tensors are unpacked only where they are needed
            arcs, stops, lengths = ctx.saved_tensors
            kept = projective_numba.marginals(arcs, stops, lengths, ctx.multiroot)[1:]
        marginals = kept
        products = [None if m is None else scaled(m, gradients[0], in_place=True) for m in marginals]
        return *products, None, None


class _Marginals(torch.autograd.Function):
    """numba's log Z and marginals; the gradient of log Z is at hand, any other derivative is torch's."""

    @staticmethod
    def forward(ctx: Any, arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool) -> Any:
        log_z, arc_marginals, stop_marginals = projective_numba.marginals(arcs, stops, lengths, multiroot)
        ctx.set_materialize_grads(False)
        ctx.multiroot = multiroot
        ctx.save_for_backward(arcs, stops, lengths, arc_marginals, stop_marginals)
        return log_z, arc_marginals, stop_marginals

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        arcs, stops, lengths, arc_marginals, stop_marginals = ctx.saved_tensors
        by_log_z, by_arcs, by_stops = gradients
        if by_arcs is None and by_stops is None and (by_log_z is None or not torch.is_grad_enabled()):
            if by_log_z is None:
                return None, None, None, None
            stop_gradient = None if stops is None else scaled(stop_marginals, by_log_z, in_place=False)
            return scaled(arc_marginals, by_log_z, in_place=False), stop_gradient, None, None
        return _derivatives(arcs, stops, lengths, ctx.multiroot, gradients)


def _derivatives(
    arcs: Tensor, stops: Tensor | None, lengths: Tensor, multiroot: bool, gradients: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    """Derivatives of log Z and of the marginals in the directions of ``gradients``, as the torch engine has them."""

    def scalar(arcs: Tensor, stops: Tensor | None = None) -> Tensor:
        """The sum of the outputs, weighted by their gradients."""

        def log_z(arcs: Tensor, stops: Tensor | None = None) -> Tensor:
            return projective_torch.log_partition(arcs, stops, lengths, multiroot)

        inputs = (arcs,) if stops is None else (arcs, stops)
        value, pullback = torch.func.vjp(log_z, *inputs)  # type: ignore[misc]
        outputs = (value, *pullback(torch.ones_like(value)))
        pairs = zip(outputs, gradients, strict=False)
        return torch.stack([(output * g).sum() for output, g in pairs if g is not None]).sum()

    inputs = (arcs,) if stops is None else (arcs, stops)
    value, pullback = torch.func.vjp(scalar, *inputs)  # type: ignore[misc]
    arc_gradient, *stop_gradients = pullback(torch.ones_like(value))
    return arc_gradient, (stop_gradients[0] if stop_gradients else None), None, None
