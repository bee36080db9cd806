# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar as a third party would write it: a Markov chain with hidden states, by enumeration."""

import itertools
from collections.abc import Mapping

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.kl import register_kl

from pyrogram import Block, Grammar
from pyrogram.distributions.sentence import safe_log


class Chain(Grammar):
    """States emit words; after each word the chain moves to a state or stops (the last event of ``move``)."""

    def __init__(self, num_states: int, num_words: int):
        self.num_states, self._num_words = num_states, num_words

    @property
    def blocks(self) -> Mapping[str, Block]:
        K, V = self.num_states, self._num_words
        shapes = {"start": (K,), "move": (K, K + 1), "emit": (K, V)}
        return {name: Block(torch.Size(shape)) for name, shape in shapes.items()}

    @property
    def num_words(self) -> int:
        return self._num_words

    def log_partition(self, log_weights, words):
        return self.derivation(None, words, log_weights=log_weights).log_partition

    def derivation(self, weights, words, *, log_weights=None):
        return ChainDerivation(self, log_weights or {k: safe_log(w) for k, w in weights.items()}, words)

    def sample(self, weights, sample_shape, max_length):
        batch = torch.broadcast_shapes(*(w.shape[: w.dim() - len(self.blocks[k].shape)] for k, w in weights.items()))
        tables = {
            name: w.expand(*batch, *block.shape).expand(*sample_shape, *block.shape).reshape(-1, *block.shape)
            for (name, block), w in zip(self.blocks.items(), weights.values(), strict=True)
        }
        words = torch.full((torch.Size(sample_shape).numel(), max_length), -1)
        todo = torch.ones(len(words), dtype=torch.bool)
        while todo.any():
            rows = {name: w[todo] for name, w in tables.items()}
            words[todo], done = self._run(rows, max_length)
            todo[todo.clone()] = ~done
        return words.reshape(*sample_shape, max_length)

    def _run(self, rows: Mapping[str, Tensor], max_length: int) -> tuple[Tensor, Tensor]:
        """Words of one chain per row, and whether it stopped in time."""
        K, S = self.num_states, len(rows["start"])
        each, words = torch.arange(S), torch.full((S, max_length), -1)
        state = torch.multinomial(rows["start"], 1)[:, 0]
        for t in range(max_length):
            alive = state < K
            emitted = torch.multinomial(rows["emit"][each, state.clamp_max(K - 1)], 1)[:, 0]
            words[:, t] = torch.where(alive, emitted, -1)
            moved = torch.multinomial(rows["move"][each, state.clamp_max(K - 1)], 1)[:, 0]
            state = torch.where(alive, moved, K)
        return words, state == K


class ChainDerivation(TorchDistribution):
    """p(states | words): a value is the state of every word, -1 in the padding."""

    arg_constraints = {}
    has_enumerate_support = True

    def __init__(self, grammar, log_weights, words, validate_args=None):
        self.grammar, self.words = grammar, words
        self.log_weights = dict(log_weights)
        self.lengths = (words >= 0).sum(-1)
        batches = [w.shape[: w.dim() - len(grammar.blocks[k].shape)] for k, w in log_weights.items()]
        super().__init__(torch.broadcast_shapes(words.shape[:-1], *batches), words.shape[-1:], validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(ChainDerivation, _instance)
        new.__dict__.update(self.__dict__)
        super(ChainDerivation, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return States(self.grammar.num_states, self.lengths)

    def counts(self, value):
        K, V = self.grammar.num_states, self.grammar.num_words
        shape = torch.broadcast_shapes(value.shape, self.words.shape)
        states, words = value.long().expand(shape), self.words.expand(shape)
        dtype = self.log_weights["start"].dtype
        real = (words >= 0)[..., None]
        state = torch.nn.functional.one_hot(states.clamp_min(0), K + 1) * real
        stop = torch.nn.functional.one_hot(torch.full(shape[:-1] + (1,), K), K + 1)
        following = torch.cat([state[..., 1:, :], stop * 0], -2)
        following = following + stop * (following.sum(-1, keepdim=True) == 0)
        emitted = torch.nn.functional.one_hot(words.clamp_min(0), V) * real
        return {
            "start": state[..., 0, :K].to(dtype),
            "move": torch.einsum("...ta,...tb->...ab", state[..., :K].to(dtype), following.to(dtype)),
            "emit": torch.einsum("...ta,...tb->...ab", state[..., :K].to(dtype), emitted.to(dtype)),
        }

    def _score(self, value):
        total = 0.0
        for name, counts in self.counts(value).items():
            w = self.log_weights[name]
            dims = len(self.grammar.blocks[name].shape)
            total = total + torch.where(counts == 0, 0.0, counts * w).flatten(-dims).sum(-1)
        return total

    def _all(self):
        """All derivations (T, *batch, n) with padding, and which are repetitions because of it."""
        n = self.event_shape[0]
        rows = torch.tensor(list(itertools.product(range(self.grammar.num_states), repeat=n)))
        rows = rows.reshape(len(rows), *(1 for _ in self.batch_shape), n)
        padding = torch.arange(n) >= self.lengths[..., None]
        repeated = (padding & (rows != 0)).any(-1).expand(len(rows), *self.batch_shape)
        return rows.masked_fill(padding, -1).expand(-1, *self.batch_shape, -1), repeated

    def _log_weights_of_all(self):
        values, repeated = self._all()
        return values, self._score(values).expand(repeated.shape).masked_fill(repeated, -torch.inf)

    @property
    def log_partition(self):
        scores = self._log_weights_of_all()[1]
        shift = scores.detach().amax(0).clamp_min(-1e30)
        return safe_log((scores - shift).exp().sum(0)) + shift

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_z = self.log_partition
        return torch.where(log_z > -torch.inf, self._score(value) - log_z, -torch.inf)

    def _probs(self):
        values, scores = self._log_weights_of_all()
        log_z = self.log_partition
        return values, torch.where(log_z > -torch.inf, (scores - log_z.clamp_min(-1e30)).exp(), 0.0), scores

    def sample(self, sample_shape=()):
        sample_shape = torch.Size(sample_shape)
        values, probs, _ = self._probs()
        drawn = torch.distributions.Categorical(probs.detach().movedim(0, -1)).sample(sample_shape)
        by_value = values.expand(*values.shape).movedim(0, -2).expand(*drawn.shape, *values.movedim(0, -2).shape[-2:])
        return by_value.gather(-2, drawn[..., None, None].expand(*drawn.shape, 1, values.shape[-1]))[..., 0, :]

    def expected_counts(self):
        values, probs, _ = self._probs()
        return {
            name: (c * probs.reshape(*probs.shape, *[1] * len(self.grammar.blocks[name].shape))).sum(0)
            for name, c in self.counts(values).items()
        }

    def parts(self, value):
        return torch.nn.functional.one_hot(value.long() + 1, self.grammar.num_states + 1)[..., 1:].to(torch.float64)

    def marginals(self):
        values, probs, _ = self._probs()
        return (self.parts(values).to(probs.dtype) * probs[..., None, None]).sum(0)

    def entropy(self):
        return _cross(self, self)

    def top_k(self, k):
        values, scores = self._log_weights_of_all()
        T = len(values)
        best, index = scores.topk(min(k, T), 0)
        found = values.gather(0, index[..., None].expand(*index.shape, values.shape[-1]))
        found = found.masked_fill((best == -torch.inf)[..., None], -1)
        log_probs = best - self.log_partition
        if k > T:
            found = torch.cat([found, found.new_full((k - T, *found.shape[1:]), -1)])
            log_probs = torch.cat([log_probs, log_probs.new_full((k - T, *log_probs.shape[1:]), -torch.inf)])
        return found, log_probs

    def argmax(self):
        return self.top_k(1)[0][0]

    @property
    def mode(self):
        return self.argmax()

    def mbr(self):
        best = self.marginals().argmax(-1)
        return best.masked_fill(torch.arange(best.shape[-1]) >= self.lengths[..., None], -1)

    def enumerate_support(self, expand=True):
        if not (self.lengths == self.event_shape[0]).all():
            raise NotImplementedError("sentences of different lengths")
        values = self._all()[0]
        if expand or not self.batch_shape:
            return values.clone()
        return values.flatten(1, -2)[:, 0].reshape(len(values), *(1 for _ in self.batch_shape), -1).clone()


class States(constraints.Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, num_states, lengths):
        self.num_states, self.lengths = num_states, lengths
        super().__init__()

    def check(self, value):
        real = torch.arange(value.shape[-1]) < self.lengths[..., None]
        whole = value == value.long()
        return torch.where(real, (value >= 0) & (value < self.num_states) & whole, value == -1).all(-1)


@register_kl(ChainDerivation, ChainDerivation)
def _kl(p, q):
    return _cross(p, q) - _cross(p, p)


def _cross(p, q):
    """-E_p[log q]."""
    p = p.expand(torch.broadcast_shapes(p.batch_shape, q.batch_shape))
    values, probs, _ = p._probs()
    scores = q._score(values) - q.log_partition
    return -torch.where(probs > 0, probs * scores, 0.0).sum(0)
