# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hidden states of given sentences as a Pyro distribution."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts import hmm as chart
from pyrogram.charts.checks import broadcast_shapes, checked_words, keep_nan, lengths_of_checked
from pyrogram.charts.trees import lengths_of
from pyrogram.operators import captured
from pyrogram.printable import plural
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram

from .charted import Recipe, Summed, differ, expected_score, structure, traceable
from .constraints import Scores, _Named
from .structured import StructuredDistribution, divergence

MOST_ENUMERATED = 10_000
_STATES: Trace = {"emission": (0, 1, 0)}  # a state sequence is made of these numbers


class States(_Named):
    """One of K states for every word of sentences of the given lengths, padded with -1."""

    is_discrete = True
    event_dim = 1

    def __init__(self, lengths: Tensor, num_states: int):
        self.lengths, self.num_states = lengths, num_states
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        states = value.long()
        position = torch.arange(states.shape[-1], device=states.device)
        fits = (states >= 0) & (states < self.num_states)
        return ((states == value) & torch.where(position < self.lengths[..., None], fits, states == -1)).all(-1)


class StateSequence(StructuredDistribution):
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

    arg_constraints: dict[str, Any] = {}
    has_enumerate_support = True

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
        self.tables = {"initial": initial, "transition": transition, "emission": emission}
        self.words, self.num_states = checked_words(words, emission.shape[-1]), K
        if bonus is not None and bonus.shape[-2:] != (words.shape[-1], K):
            raise ValueError(f"bonus must have shape (..., {words.shape[-1]}, {K}), not {tuple(bonus.shape)}")
        self.bonus = bonus
        self._cache: dict[str, Any] = {}
        validate = self._validate_args if validate_args is None else validate_args
        if validate:
            for name, table in self.tables.items():
                if not Scores().holds(table):
                    raise ValueError(f"the log weights {name!r} must be real numbers or -inf, but some are NaN or +inf")
        self.lengths = lengths_of(self.words)
        bonus_batch = () if bonus is None else bonus.shape[:-2]
        tables = (table.shape[: table.dim() - self._dims(name)] for name, table in self.tables.items())
        batch = broadcast_shapes(words.shape[:-1], bonus_batch, *tables)
        super().__init__(batch, words.shape[-1:], validate_args=validate_args)
        self._own_batch = self.batch_shape

    @property
    def support(self) -> States:
        """States of the sentences' lengths."""
        return States(self.lengths, self.num_states)

    # ------------------------------------------------------------------ charts

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*self.tables.values(), self.words, self.bonus)

    @property
    def _scores(self) -> dict[str, Tensor]:
        more = {} if self.bonus is None else {"bonus": self.bonus.to(self.tables["initial"].dtype)}
        return {**self.tables, **more}

    def _dims(self, name: str) -> int:
        return 1 if name == "initial" else 2

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        events = state_events(self.words, value, self.num_states, self.tables["emission"].shape[-1])
        if self.bonus is not None:
            place = torch.arange(value.shape[-1], device=value.device)
            events["bonus"] = torch.where(value >= 0, place * self.num_states + value, -1)
        return events

    def _given(self, batch: torch.Size, *, by_word: bool = True) -> tuple[TensorProgram, TensorInputs]:
        """What sums over the sentences of a batch; a table that all sentences share has a batch of 1.

        :param by_word: whether emissions are those of words; if not, of each word at its position.
        """
        flat = {}
        for name, x in self._scores.items():
            dims = self._dims(name)
            event = x.shape[x.dim() - dims :]
            is_shared = x.shape[: x.dim() - dims].numel() == 1
            flat[name] = x.reshape(1, *event) if is_shared else x.expand(*batch, *event).reshape(-1, *event)
        n, K, V = self.words.shape[-1], self.num_states, self.tables["emission"].shape[-1]
        words = self.words.expand(*batch, n).reshape(-1, n)
        weights = {**flat, "transition": flat["transition"][..., :K], "end": flat["transition"][..., K:]}
        if self.bonus is not None:
            weights["bonus"] = _from_one(flat["bonus"].expand(len(words), n, K))
        rows = {"w": words}
        if not by_word:
            table, rows = weights["emission"].transpose(1, 2), {}
            at = words.clamp_min(0)
            weights["emission"] = _from_one(
                table[0][at] if len(table) == 1 else table.gather(1, at[..., None].expand(*at.shape, K))
            )
        program = chart.program(by_word, evidence=self.bonus is not None)
        return program, TensorInputs(weights, lengths_of_checked(words), rows, {"K": K, "V": V}, checked=True)

    def _keep_nan(self, log_z: Tensor) -> Tensor:
        """In the own batch shape; NaN also where a weight is that the sentence does not meet."""
        return keep_nan(log_z.reshape(self._own_batch), *((x, self._dims(name)) for name, x in self.tables.items()))

    def _summed(self) -> Summed:
        program, inputs = self._given(self._own_batch)
        return Summed(program.recursion, inputs, self._own_batch, {})

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        tensors = {**self.tables, "words": self.words, **({} if self.bonus is None else {"bonus": self.bonus})}
        dims = {"initial": 1, "transition": 2, "emission": 2, "words": 1, "bonus": 2}
        options = (("validate_args", self._validate_args),)
        recipe = structure, (StateSequence, tuple(tensors), options), tuple((name, dims[name]) for name in tensors)
        return recipe, list(tensors.values())

    def _posterior(self) -> tuple[Tensor, Tensor, Tensor]:
        """log Z, transitions (..., K, K+1) and states (..., n, K), in the parameters' own batch shape."""
        if captured():
            initial, transition, emission = self.tables.values()
            bonus = initial.new_zeros(self.words.shape[-1], self.num_states) if self.bonus is None else self.bonus
            evident = StateSequence(initial, transition, emission, self.words, self._validate_args, bonus)
            log_z, by_name = evident._traced_gradient()
            return log_z, by_name["transition"], by_name["bonus"]

        def compute() -> tuple[Tensor, ...]:
            program, inputs = self._given(self._own_batch, by_word=False)
            log_z, counts = program.marginals(inputs, by_sentence=True)
            moves = torch.cat([counts["transition"], counts["end"]], -1)
            tables = moves, counts["emission"][:, 1:]
            return self._keep_nan(log_z), *(x.reshape(self._own_batch + x.shape[1:]) for x in tables)

        return self._kept("posterior", compute)  # type: ignore[no-any-return]

    def _posteriors(self) -> tuple[Tensor, ...]:
        log_z, moves, states = self._posterior()
        K, V = self.tables["emission"].shape[-2:]
        words = self.words.expand(states.shape[:-1])
        emitted = torch.where((words >= 0)[..., None], states, 0.0).mT
        index = words.clamp_min(0)[..., None, :].expand(emitted.shape)
        emissions = states.new_zeros(*emitted.shape[:-1], V).scatter_add_(-1, index, emitted)
        return log_z, states[..., 0, :], moves, emissions, *([] if self.bonus is None else [states])

    def _log_partition(self) -> Tensor:
        program, inputs = self._given(self._own_batch)
        return self._keep_nan(program.log_partition(inputs))

    # ------------------------------------------------------------------ probabilities

    def _sample(self, count: int) -> Tensor:
        program, inputs = self._given(self.batch_shape)
        rows = program.draw(inputs, count, _STATES, self.event_shape[0])
        return self._forwards(rows, inputs.lengths)

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        program, inputs = self._given(self.batch_shape)
        scores, rows = program.best(inputs, k, _STATES, self.event_shape[0])
        return self._forwards(rows, inputs.lengths), scores.to(self.tables["initial"]).reshape(k, *self.batch_shape)

    def _forwards(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """States in the order of words: derivations have the last one first."""
        n = self.event_shape[0]
        at = lengths[:, None] - 1 - torch.arange(n, device=lengths.device)
        states = rows.to(lengths.device).gather(-1, at.clamp_min(0).expand_as(rows)).masked_fill(at < 0, -1)
        return states.reshape(len(rows), *self.batch_shape, n)

    def marginals(self) -> Tensor:
        """p(a word's state), shape ``(*batch_shape, n, K)``."""
        states = self._posterior()[2]
        return states.clone().expand(*self.batch_shape, *states.shape[-2:])

    def expected_counts(self) -> dict[str, Tensor]:
        log_z, initial, moves, emissions, *_ = self._posteriors()
        counts = {"initial": initial.clone(), "transition": moves.clone(), "emission": emissions}
        return {name: c.expand(*self.batch_shape, *c.shape[log_z.dim() :]) for name, c in counts.items()}

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        check_states(value, self.words, self.num_states)
        counts = self._indicators(value.long())
        return {name: counts[name] for name in self.tables}

    def emissions(self) -> Tensor:
        """The log weight of every word in every state, evidence included, ``(*batch, n, K)``; zero in the padding."""
        emission, words = self.tables["emission"], self.words.long()
        batch = broadcast_shapes(emission.shape[:-2], words.shape[:-1])
        index = words.clamp_min(0).expand(*batch, -1)[..., None, :].expand(*batch, self.num_states, -1)
        scores = emission.expand(*batch, *emission.shape[-2:]).gather(-1, index).transpose(-1, -2)
        scores = scores if self.bonus is None else scores + self.bonus.to(scores)
        return torch.where((words >= 0)[..., None], scores, 0.0)

    def tilted(self, bonus: Tensor) -> StateSequence:
        """The distribution in proportion to p(states) exp(sum of bonus[i, states[i]] over words i).

        Its log Z is this one's plus log E[exp(sum of bonus)].

        :param bonus: nats, shape ``(*batch, n, K)`` [word, state]; -inf forbids a state.
        :raises ValueError: with validation, if a bonus is NaN or +inf.
        """
        if self._validate_args and not Scores().holds(bonus):
            raise ValueError("bonus must be real numbers or -inf, but some are NaN or +inf")
        total = bonus if self.bonus is None else self.bonus + bonus
        initial, transition, emission = self.tables.values()
        return StateSequence(initial, transition, emission, self.words, self._validate_args, total)

    # ------------------------------------------------------------------ decoding

    @traceable
    def mbr(self) -> Tensor:
        """The sequence with the most expected right states (posterior decoding), shape ``(*batch_shape, n)``.

        Each word gets its own most probable state; the sequence as a whole may be impossible. States are -1 where no
        sequence is possible.
        """
        with torch.no_grad():
            real = (self.words >= 0) & (self.log_partition[..., None] != -torch.inf)
            return torch.where(real, self.marginals().argmax(-1), -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All state sequences, shape ``(K**n, *batch_shape, n)``, or ``(K**n, 1, .., 1, n)`` if not ``expand``.

        :raises NotImplementedError: if there are more than 10,000, or if lengths differ.
        """
        n, K = self.event_shape[0], self.num_states
        if K**n > MOST_ENUMERATED:
            raise NotImplementedError(
                f"there are {K**n} sequences of {plural(n, 'state')} out of {K}; the limit is {MOST_ENUMERATED}"
            )
        if not bool((self.lengths == n).all()):
            raise NotImplementedError("sentences of different lengths have no common support to enumerate")
        states = torch.tensor(list(itertools.product(range(K), repeat=n)), device=self.words.device)
        states = states.reshape(len(states), *(1,) * len(self.batch_shape), n)
        return states.expand(-1, *self.batch_shape, -1) if expand else states


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


def _from_one(by_word: Tensor) -> Tensor:
    """Numbers of words and states (B, n, K) by position (B, n+1, K), of which the first is 1."""
    return torch.nn.functional.pad(by_word, (0, 0, 1, 0))


@register_kl(StateSequence, StateSequence)
def _kl(p: StateSequence, q: StateSequence) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p.event_shape != q.event_shape or p.num_states != q.num_states or differ(p.lengths, q.lengths):
        raise NotImplementedError("p and q are over other numbers of words or states, so the divergence is infinite")
    same_words = not differ(p.words, q.words) and p.tables["emission"].shape[-1] == q.tables["emission"].shape[-1]
    if same_words and p.bonus is None and q.bonus is None:
        return divergence(p, q)
    # The words differ, or evidence on them, and with them what their states weigh.
    total, (_, initial, moves, *_) = q.log_partition - p.log_partition, p._posteriors()
    for name, counts in (("initial", initial), ("transition", moves)):
        total = total + expected_score(counts, p.tables[name] - q.tables[name], p._dims(name))
    total = total + expected_score(p.marginals(), p.emissions() - q.emissions(), 2)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
