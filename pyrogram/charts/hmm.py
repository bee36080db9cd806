# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hidden Markov chains that end: log Z, posteriors, counts, draws, best state sequences.

One signature, two engines (docs/architecture.md). Everywhere

* ``initial`` (#B, K) are log weights of the first state;
* ``transition`` (#B, K, K+1) are log weights [state, next state, or K: the end];
* ``emission`` (#B, K, V) are log weights [state, word];
* ``words`` (B, n) are sentences of at least one word, padded with -1;

and the batch of a table is 1, if all sentences share it, or B. The weight of a state sequence is the product of
its first state's, of all transitions', the last one into the end, and of its emissions. O(n K^2) time a sentence.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from . import hmm_numba, hmm_torch
from .checks import check_sentence_weights, check_size, checked_words, is_traced, keep_nan
from .projective import Engine, choose_engine


def log_partition(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    engine: Engine | None = None,
) -> Float[Tensor, "B"]:
    """log Z = log of the total weight of all state sequences, in nats; -inf if none is possible. Differentiable."""
    tables = initial, transition, emission
    words = _checked(tables, words)
    if _choose(tables, words, engine) == "torch":
        return _keep_nan(hmm_torch.log_partition(*tables, words), tables)
    if _needs_grad(*tables):
        return _keep_nan(_LogPartition.apply(*tables, words), tables)
    return _keep_nan(hmm_numba.log_partition(*tables, words), tables)


def posteriors(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B K K+1"], Float[Tensor, "B n K"]]:
    """log Z, the expected number of each transition, and the probability of each word's states. Differentiable."""
    tables = initial, transition, emission
    words = _checked(tables, words)
    if _choose(tables, words, engine) == "torch" or (engine is None and _needs_grad(*tables)):
        log_z, moves, states = hmm_torch.posteriors(*tables, words)
    else:
        log_z, moves, states = hmm_numba.posteriors(*tables, words)
    return _keep_nan(log_z, tables), moves, states


def expected_counts(
    initial: Float[Tensor, "K"],
    transition: Float[Tensor, "K K+1"],
    emission: Float[Tensor, "K V"],
    words: Int[Tensor, "B n"],
    sentence_weights: Float[Tensor, "B"] | None = None,
    *,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "K"], Float[Tensor, "K K+1"], Float[Tensor, "K V"]]:
    """log Z of each sentence and the weighted sum of the expected counts of all, without a graph.

    Sentences without any state sequence have log Z = -inf and count nothing.
    """
    tables = initial[None].detach(), transition[None].detach(), emission[None].detach()
    words = _checked(tables, words)
    check_sentence_weights(sentence_weights, len(words))
    if _choose(tables, words, engine) == "compiled":
        log_z, *counts = hmm_numba.expected_counts(*tables, words, sentence_weights)
        return _keep_nan(log_z, tables), counts[0], counts[1], counts[2]
    log_z, moves, states = hmm_torch.posteriors(*tables, words)
    if sentence_weights is not None:
        moves, states = moves * sentence_weights[:, None, None], states * sentence_weights[:, None, None]
    log_z = _keep_nan(log_z, tables)
    return log_z, states[:, 0].sum(0), moves.sum(0), emission_counts(states, words, emission.shape[-1]).sum(0)


def sample(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    num_samples: int = 1,
    generator: torch.Generator | None = None,
    engine: Engine | None = None,
) -> Int[Tensor, "S B n"]:
    """Independent state sequences drawn in proportion to their weights, padded with -1.

    :raises ValueError: if a sentence has no state sequence of positive weight.
    """
    tables = initial.detach(), transition.detach(), emission.detach()
    words = _checked(tables, words)
    num_samples = check_size("num_samples", num_samples, 0)
    chart: Any = hmm_torch if _choose(tables, words, engine) == "torch" else hmm_numba
    return chart.sample(*tables, words, num_samples, generator)  # type: ignore[no-any-return]


def top_k(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    k: int = 1,
    engine: Engine | None = None,
) -> tuple[Int[Tensor, "k B n"], Float[Tensor, "k B"]]:
    """The k state sequences of highest weight, best first, and their log weights, without a graph.

    Where there are fewer than k possible ones, states are -1 and log weights -inf.
    """
    tables = initial.detach(), transition.detach(), emission.detach()
    words = _checked(tables, words)
    k = check_size("k", k)
    chart: Any = hmm_torch if _choose(tables, words, engine) == "torch" else hmm_numba
    return chart.top_k(*tables, words, k)  # type: ignore[no-any-return]


def emission_counts(states: Float[Tensor, "B n K"], words: Int[Tensor, "B n"], num_words: int) -> Tensor:
    """Sums (B, K, V) of the posteriors of states by the word they emit."""
    real = torch.where((words >= 0)[..., None], states, 0.0).transpose(1, 2)
    index = words.clamp_min(0)[:, None, :].expand_as(real)
    return real.new_zeros(*real.shape[:2], num_words).scatter_add(-1, index, real)


def _keep_nan(log_z: Tensor, tables: tuple[Tensor, ...]) -> Tensor:
    return keep_nan(log_z, *zip(tables, (1, 2, 2), strict=True))


def _checked(tables: tuple[Tensor, ...], words: Tensor) -> Tensor:
    """Words as int64.

    :raises ValueError: if tables or words have other shapes, or if words are not words and then padding.
    """
    initial, transition, emission = tables
    K = initial.shape[-1] if initial.dim() == 2 else 0
    shapes = transition.dim() == emission.dim() == 3 and transition.shape[1:] == (K, K + 1) and emission.shape[1] == K
    if K == 0 or not shapes or emission.shape[-1] == 0:
        given = ", ".join(str(tuple(t.shape)) for t in tables)
        raise ValueError(
            "initial, transition and emission must have shapes (#B, K), (#B, K, K+1) and (#B, K, V), with 1 for #B if "
            f"all sentences share them, not {given}"
        )
    words = checked_words(words, emission.shape[-1])
    if words.dim() != 2 or any(len(t) not in (1, len(words)) for t in tables):
        raise ValueError(
            "words must have shape (B, n), and the tables a batch of 1 or B, but words have shape "
            f"{tuple(words.shape)} and the tables batches of {[len(t) for t in tables]}"
        )
    return words


def _choose(tables: tuple[Tensor, ...], words: Tensor, engine: Engine | None) -> Engine:
    engines = {choose_engine(t, engine) for t in tables}
    return "torch" if is_traced(words) or "torch" in engines else "compiled"


def _needs_grad(*tables: Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tables)


class _LogPartition(torch.autograd.Function):
    """Log Z of compiled code, and its gradient; higher derivatives are torch's."""

    @staticmethod
    def forward(ctx: Any, initial: Tensor, transition: Tensor, emission: Tensor, words: Tensor) -> Tensor:
        ctx.save_for_backward(initial, transition, emission, words)
        ctx.shared = all(len(t) == 1 for t in (initial, transition, emission))
        tables = initial, transition, emission
        if not ctx.shared:
            return hmm_numba.log_partition(*tables, words)
        # The counts cost as much again, and are what the backward pass will mostly want.
        log_z, *ctx.counts = hmm_numba.expected_counts(*tables, words)
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        initial, transition, emission, words = ctx.saved_tensors
        tables = initial, transition, emission
        if torch.is_grad_enabled() or is_traced(gradient):

            def log_z(initial: Tensor, transition: Tensor, emission: Tensor) -> Tensor:
                return hmm_torch.log_partition(initial, transition, emission, words)

            return (*torch.func.vjp(log_z, *tables)[1](gradient), None)
        if ctx.shared:
            if len(gradient) and bool((gradient == gradient[0]).all()):  # a plate's scale: the usual case
                return (*(gradient[0] * c[None] for c in ctx.counts), None)
            return (*(c[None] for c in hmm_numba.expected_counts(*tables, words, gradient)[1:]), None)
        _, moves, states = hmm_numba.posteriors(*tables, words)
        moves, states = moves * gradient[:, None, None], states * gradient[:, None, None]
        counts = states[:, 0], moves, emission_counts(states, words, tables[2].shape[-1])
        return (*(c if len(t) > 1 else c.sum(0, keepdim=True) for t, c in zip(tables, counts, strict=True)), None)
