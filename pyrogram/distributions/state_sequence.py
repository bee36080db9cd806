# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hidden states of given sentences as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.checks import broadcast_shapes, checked_words
from pyrogram.operators import captured
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.trees import lengths_of

from .charted import Recipe, differ, expected_score, structure
from .constraints import Scores, States
from .higher_order_chain import Chain
from .structured import divergence


@recursion
def chain(p: Any, evidence: bool = False) -> None:
    """Hidden Markov chains that end: state x emits the word w[t]. Time O(n K^2) a sentence.

    With evidence, each state of each word has a further weight of its own.
    """
    t, w = p.positions("t"), p.words("w")
    x, y = p.symbols("x y", "K")
    F, Z = p.items("F", "K"), p.items("Z")
    initial, emission = p.weights("initial", "K"), p.weights("emission", "K", "V")
    transition, end = p.weights("transition", "K", "K"), p.weights("end", "K", 1)
    bonus = p.weights("bonus", "K") if evidence else None

    def emit(t: Any, x: Any) -> Any:
        return emission[x, w[t]] if bonus is None else bonus[t, x] * emission[x, w[t]]

    F[1, x] += initial[x] * emit(1, x)
    F[t, x] += F[t - 1, y] * transition[y, x] * emit(t, x)
    Z[()] += F[p.n, x] * end[x, 0]


@cache
def program(evidence: bool) -> TensorProgram:
    """The chains, perhaps with evidence."""
    return TensorProgram(chain(evidence=evidence), "state sequence")


class StateSequence(Chain):
    r"""States of a hidden Markov chain that emitted given words, :math:`p(y \mid x) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of states, shape ``(n,)``: for every word an integer in 0 .. K-1, then padding, -1. Its score is
    the sum of the log weights of its first state, of all transitions, the last of which goes into the end, and of
    its emissions. ``log_prob`` is *conditional* on the words, in nats; ``log_prob + log_partition`` is the joint.

    Time O(n K^2), memory O(n K + K^2) a sentence.

    :param initial: log weights of the first state, shape ``(*batch, K)``; -inf forbids it.
    :param transition: log weights, shape ``(*batch, K, K+1)`` [state, next state, or K: the end].
    :param emission: log weights, shape ``(*batch, K, V)`` [state, word].
    :param words: shape ``(*batch, n)``, integers in 0 .. V-1, at least one, padded with -1 on the right.
    :param bonus: the log of a factor for each state of each word, shape ``(*batch, n, K)``: evidence; -inf forbids it.
    :raises ValueError: if shapes do not fit together or, with validation, if words or log weights are not as above.

    **References:**

    [1] Rabiner, L. R. (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
    Proceedings of the IEEE 77(2), section III. (There is no end state there.)
    """

    initial: Tensor
    transition: Tensor
    emission: Tensor
    bonus: Tensor

    def __init__(
        self,
        initial: Tensor,
        transition: Tensor,
        emission: Tensor,
        words: Tensor,
        validate_args: bool | None = None,
        bonus: Tensor | None = None,
    ):
        K = initial.shape[-1] if initial.dim() else 0
        if transition.shape[-2:] != (K, K + 1) or emission.dim() < 2 or emission.shape[-2] != K or K == 0:
            shapes = ", ".join(str(tuple(t.shape)) for t in (initial, transition, emission))
            raise ValueError(
                "initial, transition and emission must have shapes (..., K), (..., K, K+1) and (..., K, V), "
                f"not {shapes}"
            )
        self.words = checked_words(words, emission.shape[-1])
        n = words.shape[-1]
        if bonus is not None and bonus.shape[-2:] != (n, K):
            raise ValueError(f"bonus must have shape (..., {n}, {K}), not {tuple(bonus.shape)}")
        self._is_evident = bonus is not None
        cells = initial.new_zeros(n, K) if bonus is None else bonus.to(initial.dtype)
        scores = {"bonus": cells, "initial": initial, "transition": transition, "emission": emission}
        dims = {"bonus": 2, "initial": 1, "transition": 2, "emission": 2}
        super().__init__(scores, dims, (n,), K, lengths_of(self.words), {}, validate_args)

    @property
    def num_states(self) -> int:
        """K."""
        return self.num_labels

    @property
    def tables(self) -> dict[str, Tensor]:
        """The log weights, by name."""
        return {name: table for name, table in self._scores.items() if name != self._cells}

    def _called(self, name: str) -> str:
        return f"the log weights {name!r}"

    # ------------------------------------------------------------------ the chain

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*super()._inputs(), self.words)

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        tensors = {**self._scores, "words": self.words}
        if not self._is_evident:
            del tensors["bonus"]
        options = (("validate_args", self._validate_args),)
        dims = tuple((name, self._event_dims.get(name, 1)) for name in tensors)
        return (structure, (StateSequence, tuple(tensors), options), dims), list(tensors.values())

    @property
    def _program(self) -> TensorProgram:
        return program(self._is_evident)

    @property
    def _trace(self) -> Trace:
        return {"emission": (0, 1, 0)}

    def _parts(self, rows: Tensor) -> Tensor:
        """In the order of words, from the states of derivations, which have the last one first."""
        K, n, rows = self.num_states, self.event_shape[0], rows.to(self.lengths.device)
        lengths, place = lengths_of(self._words_of(rows.shape[-2])), torch.arange(n, device=rows.device)
        at = lengths[:, None] - 1 - place
        states = rows.gather(-1, at.clamp_min(0).expand_as(rows))
        return torch.where((at >= 0) & (states >= 0), place * K + states, -1)

    def _weighted(self, scores: Mapping[str, Tensor], lengths: Tensor, *, best: bool = False) -> TensorInputs:
        return self._with_words(scores, lengths, self._is_evident)

    def _with_words(self, scores: Mapping[str, Tensor], lengths: Tensor, evidence: bool) -> TensorInputs:
        K, (initial, transition, emission) = self.num_states, (scores[name] for name in self.tables)
        weights = {"initial": initial, "transition": transition[..., :K], "end": transition[..., K:]}
        weights["emission"] = emission
        if evidence:  # the first word is word 1
            weights["bonus"] = torch.nn.functional.pad(scores["bonus"], (0, 0, 1, 0))
        sizes = {"K": K, "V": emission.shape[-1]}
        return TensorInputs(weights, lengths, {"w": self._words_of(len(lengths))}, sizes, checked=True)

    def _marginals(self) -> tuple[Tensor, ...]:
        batch = self._own_batch
        inputs = self._with_words(self._flat(batch), self._flat_lengths(batch), evidence=True)
        log_z, counts = program(True).marginals(inputs, by_sentence=True)
        moves = torch.cat([counts["transition"], counts["end"]], -1)
        tables = log_z, counts["bonus"][:, 1:], counts["initial"], moves, counts["emission"]
        return tuple(x.reshape(batch + x.shape[1:]) for x in tables)

    def _words_of(self, number: int) -> Tensor:
        """The words of so many sentences: of all of the whole batch, or of the own batch; or of one, whatever."""
        n = self.event_shape[0]
        for batch in (self._own_batch, self.batch_shape):
            if batch.numel() == number:
                return self.words.expand(*batch, n).reshape(number, n)
        return self.words.reshape(-1, n)[:1].expand(number, n)

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        events = state_events(self.words, value, self.num_states, self.emission.shape[-1])
        return {**super()._events(value), **events}

    # ------------------------------------------------------------------ probabilities

    def expected_counts(self) -> dict[str, Tensor]:
        counts = super().expected_counts()
        return {name: counts[name] for name in self.tables}

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        check_states(value, self.words, self.num_states)
        counts = self._indicators(value.long())
        return {name: counts[name] for name in self.tables}

    def emissions(self) -> Tensor:
        """The log weight of every word in every state, evidence included, ``(*batch, n, K)``; zero in the padding."""
        emission, words = self.emission, self.words.long()
        batch = broadcast_shapes(emission.shape[:-2], words.shape[:-1])
        index = words.clamp_min(0).expand(*batch, -1)[..., None, :].expand(*batch, self.num_states, -1)
        scores = emission.expand(*batch, *emission.shape[-2:]).gather(-1, index).transpose(-1, -2)
        return torch.where((words >= 0)[..., None], scores + self.bonus, 0.0)

    def tilted(self, bonus: Tensor) -> StateSequence:
        """The distribution in proportion to p(states) exp(sum of bonus[i, states[i]] over words i).

        Its log Z is this one's plus log E[exp(sum of bonus)].

        :param bonus: nats, shape ``(*batch, n, K)`` [word, state]; -inf forbids a state.
        :raises ValueError: with validation, if a bonus is NaN or +inf.
        """
        if self._validate_args and not Scores().holds(bonus):
            raise ValueError("bonus must be real numbers or -inf, but some are NaN or +inf")
        total = self.bonus + bonus if self._is_evident else bonus
        return StateSequence(self.initial, self.transition, self.emission, self.words, self._validate_args, total)


def check_states(states: Tensor, words: Tensor, num_states: int) -> None:
    """
    :raises ValueError: with the first sequence that is not a state for every word and then padding.
    """
    fits = states.dim() >= 1 and states.shape[-1] == words.shape[-1]
    if not fits:
        raise ValueError(f"states must have shape (..., {words.shape[-1]}), like words, not {tuple(states.shape)}")
    if captured():
        return
    valid = States(lengths_of(words), num_states).check(states)
    if not bool(valid.all()):
        first = int((~valid).flatten().nonzero()[0])
        row = states.expand(*valid.shape, -1).reshape(-1, states.shape[-1])[first].tolist()
        raise ValueError(
            f"states must be 0..{num_states - 1} for every word and then padding of -1, but those of sentence {first} "
            f"are {row}"
        )


def state_events(words: Tensor, states: Tensor, num_states: int, num_words: int) -> dict[str, Tensor]:
    """The events of state sequences of words, both ``(*batch, n)``, padded with -1, by table."""
    K, V, batch = num_states, num_words, broadcast_shapes(words.shape[:-1], states.shape[:-1])
    words, ids = words.expand(*batch, -1), states.long().clamp(0, K - 1).expand(*batch, -1)
    real = words >= 0
    following = torch.where(torch.nn.functional.pad(real, (0, 1))[..., 1:], ids.roll(-1, -1), K)
    return {
        "initial": ids[..., :1],
        "transition": torch.where(real, ids * (K + 1) + following, -1),
        "emission": torch.where(real, ids * V + words, -1),
    }


@register_kl(StateSequence, StateSequence)
def _kl(p: StateSequence, q: StateSequence) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p.event_shape != q.event_shape or p.num_states != q.num_states or differ(p.lengths, q.lengths):
        raise NotImplementedError("p and q are over other numbers of words or states, so the divergence is infinite")
    if not differ(p.words, q.words) and p.emission.shape[-1] == q.emission.shape[-1]:
        return divergence(p, q)
    # The words differ, and with them what their states weigh.
    total, (_, _, initial, moves, _) = q.log_partition - p.log_partition, p._posteriors()
    for name, counts in (("initial", initial), ("transition", moves)):
        total = total + expected_score(counts, p._scores[name] - q._scores[name], p._dims(name))
    total = total + expected_score(p.marginals(), p.emissions() - q.emissions(), 2)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
