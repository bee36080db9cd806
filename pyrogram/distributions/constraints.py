# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What parameters and values of grammar distributions must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from pyrogram.checks import broadcast_shapes, fits_compiled
from pyrogram.draws import FlatRules, is_derivation
from pyrogram.operators import captured
from pyrogram.recursion.rules.traces import Traces
from pyrogram.trees import is_tree, lengths_of


class _Named(Constraint):
    """A constraint that error messages call by its name: torch's own repr drops the first letter, an underscore."""

    def __repr__(self) -> str:
        return type(self).__name__


class Scores(_Named):
    """Log weights: real or -inf (an impossible event), not NaN, not +inf."""

    def check(self, value: Tensor) -> Tensor:
        return value < torch.inf

    def holds(self, value: Tensor) -> bool:
        """Whether all scores satisfy it: for few numbers, numpy is quicker. What is traced cannot be looked at."""
        if captured():
            return True
        if fits_compiled(value):
            return bool(value.detach().numpy().max(initial=-np.inf) < np.inf)
        return bool(self.check(value).all())


class DependencyTrees(_Named):
    """Heads of trees over sentences of the given lengths, padded with -1.

    :param lengths: shape ``batch``.
    :param multiroot: whether ROOT may have several children.
    :param projective: whether arcs must not cross.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, lengths: Tensor, multiroot: bool, *, projective: bool = True):
        self.lengths, self.multiroot, self.projective = lengths, multiroot, projective
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        heads = value.long()
        integral = (heads == value).all(-1)
        trees = is_tree(heads, self.multiroot, projective=self.projective)
        return integral & (lengths_of(heads) == self.lengths) & trees


class LabelledDependencyTrees(_Named):
    """Pairs of a head and a label below ``num_labels`` for each word, both -1 in the padding.

    :param trees: the heads.
    """

    is_discrete = True
    event_dim = 2

    def __init__(self, trees: DependencyTrees, num_labels: int):
        self.trees, self.num_labels = trees, num_labels
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        heads, labels = value.unbind(-1)
        fits = torch.where(heads >= 0, (labels >= 0) & (labels < self.num_labels), labels == -1)
        return self.trees.check(heads) & (fits & (labels.long() == labels)).all(-1)


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


class PaddedWords(_Named):
    """At least one word in 0 .. num_words - 1, then only padding, -1."""

    is_discrete = True
    event_dim = 1

    def __init__(self, num_words: int):
        self.num_words = num_words
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        words = value.long()
        position = torch.arange(words.shape[-1], device=words.device)
        length = lengths_of(words)[..., None]
        fits = torch.where(position < length, words < self.num_words, words == -1)
        return (words == value).all(-1) & fits.all(-1) & (length[..., 0] > 0)


class LeftmostDerivations(_Named):
    """Leftmost derivations of given words in the rules of a context-free grammar, padded with -1 on the right."""

    is_discrete = True
    event_dim = 1

    def __init__(self, rules: FlatRules, words: Tensor):
        self.rules, self.words = rules, words
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        batch = broadcast_shapes(value.shape[:-1], self.words.shape[:-1])
        value = value.expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])
        words = self.words.expand(*batch, self.words.shape[-1]).reshape(-1, self.words.shape[-1])
        ids = value.long()
        return ((ids == value).all(-1) & is_derivation(ids, words, self.rules)).reshape(batch)


class RecursiveDerivations(_Named):
    """Rows of events of derivations of given words by a recursion, padded with -1 on the right.

    A row of several derivations, which the events do not tell apart, is refused.

    :param traces: from words to the rows of their derivations.
    :param words: shape ``(*batch, n)``.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, traces: Callable[[Sequence[int]], Traces], words: Tensor):
        self.traces, self.words = traces, words
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        batch = broadcast_shapes(value.shape[:-1], self.words.shape[:-1])
        ids = value.expand(*batch, value.shape[-1]).reshape(batch.numel(), value.shape[-1])
        words = self.words.expand(*batch, self.words.shape[-1]).reshape(batch.numel(), self.words.shape[-1])
        integral = (ids.long() == ids).all(-1).tolist()
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        valid = []
        for fits, row, sentence in zip(integral, ids.long().tolist(), words.tolist(), strict=True):
            key = tuple(sentence), tuple(row)
            if fits and key not in known:
                events, n = [x for x in row if x >= 0], sum(w >= 0 for w in sentence)
                padded = row == events + [-1] * (len(row) - len(events))
                known[key] = padded and self.traces(sentence[:n]).ways(events) == 1
            valid.append(fits and known[key])
        return torch.tensor(valid, dtype=torch.bool, device=value.device).reshape(batch)
