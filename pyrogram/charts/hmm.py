# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hidden Markov chains that end: log Z, posteriors, counts, draws, best state sequences.

Everywhere

* ``initial`` (#B, K) are log weights of the first state;
* ``transition`` (#B, K, K+1) are log weights [state, next state, or K: the end];
* ``emission`` (#B, K, V) are log weights [state, word];
* ``words`` (B, n) are sentences of at least one word, padded with -1;
* ``bonus`` (B, n, K) are logs of factors for the state of each word, evidence, or None;

and the batch of a table is 1, if all sentences share it, or B. The weight of a state sequence is the product of
its first state's, of all transitions', the last one into the end, and of its emissions. O(n K^2) time a sentence.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram

from .checks import check_size, checked_words, keep_nan, lengths_of_checked
from .projective import Engine, by_torch

_STATES: Trace = {"emission": (0, 1, 0)}  # a state sequence is made of these numbers


@recursion
def chain(p: Any, by_word: bool = True, evidence: bool = False) -> None:
    """State x emits the word w[t] or, where scores of words are given by position, word t.

    With evidence, each state of each word has a further weight of its own.
    """
    t, w = p.positions("t"), p.words("w")
    x, y = p.symbols("x y", "K")
    F, Z = p.items("F", "K"), p.items("Z")
    initial = p.weights("initial", "K")
    transition, end = p.weights("transition", "K", "K"), p.weights("end", "K", 1)
    emission = p.weights("emission", "K", "V") if by_word else p.weights("emission", "K")
    bonus = p.weights("bonus", "K") if evidence else None

    def emit(t: Any, x: Any) -> Any:
        emitted = emission[x, w[t]] if by_word else emission[t, x]
        return emitted if bonus is None else bonus[t, x] * emitted

    F[1, x] += initial[x] * emit(1, x)
    F[t, x] += F[t - 1, y] * transition[y, x] * emit(t, x)
    Z[()] += F[p.n, x] * end[x, 0]


@cache
def program(by_word: bool = True, evidence: bool = False) -> TensorProgram:
    """Chains, with emissions by word or by position, and perhaps evidence."""
    return TensorProgram(chain(by_word=by_word, evidence=evidence), "state sequence")


def log_partition(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    bonus: Float[Tensor, "B n K"] | None = None,
    engine: Engine | None = None,
) -> Float[Tensor, "B"]:
    """log Z = log of the total weight of all state sequences, in nats; -inf if none is possible. Differentiable."""
    tables = initial, transition, emission
    words = _checked(tables, words)
    inputs = prepare(*tables, words, bonus)
    log_z = program(evidence=bonus is not None).log_partition(inputs, by_torch=_by_torch(tables, engine))
    return _keep_nan(log_z, tables)


def posteriors(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    bonus: Float[Tensor, "B n K"] | None = None,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B K K+1"], Float[Tensor, "B n K"]]:
    """log Z, the expected number of each transition, and the probability of each word's states. Differentiable."""
    tables = initial, transition, emission
    words = _checked(tables, words)
    emitted = _by_position(emission, words)
    inputs = prepare(initial, transition, emitted if bonus is None else emitted + from_one(bonus).to(emitted), words)
    log_z, expected = program(by_word=False).marginals(inputs, by_sentence=True, by_torch=_by_torch(tables, engine))
    moves = torch.cat([expected["transition"], expected["end"]], -1)
    return _keep_nan(log_z, tables), moves, expected["emission"][:, 1:]


def sample(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    num_samples: int = 1,
    bonus: Float[Tensor, "B n K"] | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B n"]:
    """Independent state sequences drawn in proportion to their weights, padded with -1.

    :raises ValueError: if a sentence has no state sequence of positive weight.
    """
    tables = initial.detach(), transition.detach(), emission.detach()
    words = _checked(tables, words)
    num_samples = check_size("num_samples", num_samples, 0)
    inputs = prepare(*tables, words, bonus)
    rows = program(evidence=bonus is not None).draw(inputs, num_samples, _STATES, words.shape[1], generator)
    return _forwards(rows, words)


def top_k(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    *,
    k: int = 1,
    bonus: Float[Tensor, "B n K"] | None = None,
) -> tuple[Int[Tensor, "k B n"], Float[Tensor, "k B"]]:
    """The k state sequences of highest weight, best first, and their log weights, without a graph.

    Where there are fewer than k possible ones, states are -1 and log weights -inf.
    """
    tables = initial.detach(), transition.detach(), emission.detach()
    words = _checked(tables, words)
    k = check_size("k", k)
    scores, rows = program(evidence=bonus is not None).best(prepare(*tables, words, bonus), k, _STATES, words.shape[1])
    return _forwards(rows, words), scores.to(initial)


def emission_counts(states: Float[Tensor, "B n K"], words: Int[Tensor, "B n"], num_words: int) -> Tensor:
    """Sums (B, K, V) of the posteriors of states by the word they emit."""
    real = torch.where((words >= 0)[..., None], states, 0.0).transpose(1, 2)
    index = words.clamp_min(0)[:, None, :].expand_as(real)
    return real.new_zeros(*real.shape[:2], num_words).scatter_add_(-1, index, real)


def prepare(
    initial: Tensor, transition: Tensor, emission: Tensor, words: Tensor, bonus: Tensor | None = None
) -> TensorInputs:
    """Checked tables and sentences as the recursion takes them; tables without a batch are those of all sentences."""
    K, V = initial.shape[-1], emission.shape[-1]
    weights = {"initial": initial, "transition": transition[..., :K], "end": transition[..., K:], "emission": emission}
    if bonus is not None:
        weights["bonus"] = from_one(bonus).to(initial.dtype)
    lengths, batched = lengths_of_checked(words), initial.dim() > 1
    return TensorInputs(weights, lengths, {"w": words}, {"K": K, "V": V}, checked=True, batched=batched)


def from_one(by_word: Tensor) -> Tensor:
    """Numbers of words and states (B, n, K) by position (B, n+1, K), of which the first is 1."""
    return torch.nn.functional.pad(by_word, (0, 0, 1, 0))


def _by_position(emission: Tensor, words: Tensor) -> Tensor:
    """Emissions (B, n+1, K) of the words at their positions, of which the first is 1."""
    by_word = emission.transpose(1, 2)
    index = words.clamp_min(0)
    if len(emission) == 1:
        scores = by_word[0][index]
    else:
        scores = by_word.gather(1, index[..., None].expand(*index.shape, by_word.shape[-1]))
    return from_one(scores)


def _forwards(rows: Tensor, words: Tensor) -> Tensor:
    """States in the order of words: derivations have the last one first."""
    rows = rows.to(words.device)
    at = lengths_of_checked(words)[:, None] - 1 - torch.arange(words.shape[1], device=words.device)
    return rows.gather(-1, at.clamp_min(0).expand_as(rows)).masked_fill(at < 0, -1)


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
        shown = ", ".join(str(tuple(t.shape)) for t in tables)
        raise ValueError(
            "initial, transition and emission must have shapes (#B, K), (#B, K, K+1) and (#B, K, V), with 1 for #B if "
            f"all sentences share them, not {shown}"
        )
    words = checked_words(words, emission.shape[-1])
    if words.dim() != 2 or any(len(t) not in (1, len(words)) for t in tables):
        raise ValueError(
            "words must have shape (B, n), and the tables a batch of 1 or B, but words have shape "
            f"{tuple(words.shape)} and the tables batches of {[len(t) for t in tables]}"
        )
    return words


def _by_torch(tables: tuple[Tensor, ...], engine: Engine | None) -> bool:
    return any(by_torch(t, engine) for t in tables)
