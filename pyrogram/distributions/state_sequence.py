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
from pyrogram.charts.checks import broadcast_shapes, check_shape, check_size, checked_words
from pyrogram.charts.trees import lengths_of
from pyrogram.operators import captured
from pyrogram.printable import plural

from .charted import ChartDistribution, Recipe, Summed, conditional, differ, expected_score, structure, traceable
from .constraints import Scores, _Named

MOST_ENUMERATED = 10_000


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


class StateSequence(ChartDistribution):
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
        batch = broadcast_shapes(words.shape[:-1], bonus_batch, *(t.shape[:-d] for t, d in self._dimensions()))
        super().__init__(batch, words.shape[-1:], validate_args=validate_args)
        self._own_batch = self.batch_shape

    def _dimensions(self) -> list[tuple[Tensor, int]]:
        return list(zip(self.tables.values(), (1, 2, 2), strict=True))

    @property
    def support(self) -> States:
        """States of the sentences' lengths."""
        return States(self.lengths, self.num_states)

    # ------------------------------------------------------------------ charts

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*self.tables.values(), self.words, self.bonus)

    def _flat(self, batch: torch.Size) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tables and words with one batch dimension; a table that all sentences share keeps a batch of 1."""
        flat = []
        for table, dims in self._dimensions():
            leading, shape = table.shape[:-dims], table.shape[table.dim() - dims :]
            wanted = batch if leading.numel() != 1 else torch.Size([1])
            table = table if leading.numel() != 1 else table.reshape(shape)
            flat.append(table.expand(*wanted, *shape).reshape(-1, *shape))
        words = self.words.long().expand(*batch, self.words.shape[-1]).reshape(-1, self.words.shape[-1])
        return flat[0], flat[1], flat[2], words

    def _flat_bonus(self, batch: torch.Size) -> Tensor | None:
        """The log factors of states with one batch dimension."""
        if self.bonus is None:
            return None
        shape = self.bonus.shape[-2:]
        return self.bonus.expand(*batch, *shape).reshape(-1, *shape)

    def _summed(self) -> Summed:
        inputs = chart.prepare(*self._flat(self._own_batch), self._flat_bonus(self._own_batch))
        return Summed(chart.program(evidence=self.bonus is not None).recursion, inputs, self._own_batch, {})

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
            tables = chart.posteriors(*self._flat(self._own_batch), bonus=self._flat_bonus(self._own_batch))
            return tuple(f.reshape(self._own_batch + f.shape[1:]) for f in tables)

        return self._kept("posterior", compute)  # type: ignore[no-any-return]

    def _log_partition(self) -> Tensor:
        flat, bonus = self._flat(self._own_batch), self._flat_bonus(self._own_batch)
        return chart.log_partition(*flat, bonus=bonus).reshape(self._own_batch)

    # ------------------------------------------------------------------ probabilities

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(states | words), in nats.

        :param value: states, shape ``(*sample, *batch, n)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        score, log_z = self._score(value.long()), self.log_partition
        return conditional(score, log_z)

    def _score(self, states: Tensor) -> Tensor:
        """Log weight of state sequences, the joint with the words."""
        batch = broadcast_shapes(states.shape[:-1], self.batch_shape)
        n, K = self.event_shape[0], self.num_states
        states, words = states.expand(*batch, n), self.words.long().expand(*batch, n)
        real, ids = words >= 0, states.clamp(0, K - 1)
        following = torch.where(torch.nn.functional.pad(real, (0, 1))[..., 1:], ids.roll(-1, -1), K)
        V = self.tables["emission"].shape[-1]
        initial = self.tables["initial"].expand(*batch, K).gather(-1, ids[..., :1])[..., 0]
        moves = self.tables["transition"].flatten(-2)
        moves = moves.expand(*batch, moves.shape[-1]).gather(-1, ids * (K + 1) + following)
        emitted = self.tables["emission"].flatten(-2)
        emitted = emitted.expand(*batch, emitted.shape[-1]).gather(-1, ids * V + words.clamp_min(0))
        if self.bonus is not None:
            factors = self.bonus.to(emitted).expand(*batch, n, K)
            emitted = emitted + factors.gather(-1, ids[..., None])[..., 0]
        return initial + torch.where(real, moves + emitted, 0.0).sum(-1)

    @traceable
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent state sequences, exact, shape ``(*sample_shape, *batch_shape, n)``.

        :raises ValueError: if a sentence has no possible sequence.
        """
        sample_shape = check_shape("sample_shape", sample_shape)
        with torch.no_grad():
            flat, bonus = self._flat(self.batch_shape), self._flat_bonus(self.batch_shape)
            states = chart.sample(*flat, num_samples=sample_shape.numel(), bonus=bonus)
        return states.reshape(*sample_shape, *self.batch_shape, states.shape[-1])

    def marginals(self) -> Tensor:
        """p(a word's state), shape ``(*batch_shape, n, K)``."""
        states = self._posterior()[2]
        return states.clone().expand(*self.batch_shape, *states.shape[-2:])

    def expected_counts(self) -> dict[str, Tensor]:
        """The gradient of log Z: E[f | x] of every event, shape ``(*batch_shape, *)`` per table."""
        _, moves, states = self._posterior()
        emitted = chart.emission_counts(
            states.reshape(-1, *states.shape[-2:]),
            self._flat(self._own_batch)[3],
            self.tables["emission"].shape[-1],
        ).reshape(*self._own_batch, *self.tables["emission"].shape[-2:])
        counts = {"initial": states[..., 0, :].clone(), "transition": moves.clone(), "emission": emitted}
        dims = len(self._own_batch)
        return {name: c.expand(*self.batch_shape, *c.shape[dims:]) for name, c in counts.items()}

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """f(x, y): the events of given state sequences, shape ``(*value.shape[:-1], *)`` per table."""
        check_states(value, self.words, self.num_states)
        batch = broadcast_shapes(value.shape[:-1], self.words.shape[:-1])
        (K, V), dtype = self.tables["emission"].shape[-2:], self.tables["initial"].dtype
        return state_counts(self.words.expand(*batch, -1), value.expand(*batch, -1), K, V, dtype)

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``."""
        log_z = self._posterior()[0]
        expected = self.expected_counts()
        total = log_z.expand(self.batch_shape)
        for name, table in self.tables.items():
            dims = expected[name].dim() - len(self.batch_shape)
            total = total - expected_score(expected[name], table, dims)
        if self.bonus is not None:
            states = self.marginals()
            total = total - expected_score(states, self.bonus.to(states), 2)
        return total

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
    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable sequences, best first: states ``(k, *batch_shape, n)`` and log probabilities.

        Where there are fewer than k possible ones, states are -1 and log probabilities -inf.
        """
        k = check_size("k", k)
        with torch.no_grad():
            states, scores = chart.top_k(*self._flat(self.batch_shape), k=k, bonus=self._flat_bonus(self.batch_shape))
        scores = scores.reshape(k, *self.batch_shape)
        log_z = self.log_partition.detach()
        log_probs = torch.where(scores == -torch.inf, scores, scores - log_z)
        return states.reshape(k, *self.batch_shape, states.shape[-1]), log_probs

    @traceable
    def argmax(self) -> Tensor:
        """The most probable sequence (Viterbi), shape ``(*batch_shape, n)``."""
        return self.top_k(1)[0][0]

    @property
    def mode(self) -> Tensor:
        """The most probable sequence."""
        return self.argmax()

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


def state_counts(
    words: Tensor, states: Tensor, num_states: int, num_words: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The events of state sequences of words, both ``(*batch, n)``, padded with -1, by table."""
    K, V = num_states, num_words
    real, ids = words >= 0, states.long().clamp(0, K - 1)
    following = torch.where(torch.nn.functional.pad(real, (0, 1))[..., 1:], ids.roll(-1, -1), K)
    ones = real.to(dtype)

    def count(index: Tensor, size: int, weights: Tensor) -> Tensor:
        return weights.new_zeros(*index.shape[:-1], size).scatter_add(-1, index, weights)

    moves = count(ids * (K + 1) + following, K * (K + 1), ones)
    emitted = count(ids * V + words.long().clamp_min(0), K * V, ones)
    return {
        "initial": count(ids[..., :1], K, ones[..., :1]),
        "transition": moves.unflatten(-1, (K, K + 1)),
        "emission": emitted.unflatten(-1, (K, V)),
    }


@register_kl(StateSequence, StateSequence)
def _kl(p: StateSequence, q: StateSequence) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p.event_shape != q.event_shape or p.num_states != q.num_states or differ(p.lengths, q.lengths):
        raise NotImplementedError("p and q are over other numbers of words or states, so the divergence is infinite")
    total = q.log_partition - p.log_partition
    same_words = not differ(p.words, q.words) and p.tables["emission"].shape[-1] == q.tables["emission"].shape[-1]
    if same_words and p.bonus is None and q.bonus is None:
        pairs = [(c, p.tables[name], q.tables[name]) for name, c in p.expected_counts().items()]
    else:  # the words differ, or evidence on them, and with them what their states weigh
        expected = p.expected_counts()
        pairs = [(expected[name], p.tables[name], q.tables[name]) for name in ("initial", "transition")]
        pairs.append((p.marginals(), p.emissions(), q.emissions()))
    for counts, table, other in pairs:
        dims = 1 if table is p.tables["initial"] else 2
        batch = broadcast_shapes(counts.shape[:-dims], table.shape[:-dims], other.shape[:-dims])
        shape = batch + counts.shape[counts.dim() - dims :]
        difference = torch.where(counts.expand(shape) > 0, table - other, torch.zeros((), dtype=counts.dtype))
        total = total + (counts * difference).flatten(-dims).sum(-1)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
