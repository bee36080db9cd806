# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of new sentences, sampled together with states by Metropolis and Hastings."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.infer import SyntacticTopics
from pyrogram.topics.tokens import batches, tokens
from reproductions.topics.states import Counts, draw_states, log_repeats

_PROPOSED = 2**22  # words whose proposals are drawn at a time: one chart serves many


def sample_trees(
    topics: SyntacticTopics,
    words: Tensor,
    states: Tensor | None,
    *,
    num_samples: int,
    burn_in: int,
    thin: int,
    seed: int,
) -> tuple[Tensor, float]:
    """A chain over the tree and the states of each sentence: exact for P(s, t | w, D), D the training sentences.

    P(s, w, t | D) is Eq. 12 of Wallach, Sutton and McCallum (2008) with θ and φ integrated out: the words' predictive
    probabilities one after the other, each counted before the next. What repeats within a sentence makes it differ from
    the product of the predictive probabilities given D alone, from which a tree is drawn by the chart, with states
    summed out, and then its states; the proposal is accepted with the exact ratio (Eq. 11, with states for tags), in
    which the predictive terms cancel. Sentences are independent of one another: none is added to D.

    :param words: ids, shape ``(N, n)``, padded with -1.
    :param states: those that are seen, same shape; only trees are sampled then.
    :param burn_in: steps before the first sample; what is proposed does not depend on where the chain is.
    :param thin: steps for each sample.
    :returns: heads, shape ``(num_samples, N, n)``, and the share of proposals that were accepted, burn-in included.
    """
    proposals = Proposals(topics, words, states, seed)
    heads, repeats = (proposed[0] for proposed in proposals.draw(1))
    samples, accepted, steps = [], 0, burn_in + num_samples * thin
    at_once = max(1, _PROPOSED // words.numel())
    for first in range(0, steps, at_once):
        drawn = proposals.draw(min(at_once, steps - first))
        for i, (new_heads, new_repeats) in enumerate(zip(*drawn, strict=True), first + 1):
            uniforms = torch.rand(len(words), generator=proposals.generator, dtype=torch.float64)
            taken = uniforms.log() < new_repeats - repeats
            heads = torch.where(taken[:, None], new_heads, heads)
            repeats = torch.where(taken, new_repeats, repeats)
            accepted += int(taken.sum())
            if i > burn_in and (i - burn_in) % thin == 0:
                samples.append(heads)
    return torch.stack(samples), accepted / len(words) / steps


class Proposals:
    """Trees and states from the predictive probabilities, and what the exact joint has beyond those."""

    def __init__(self, topics: SyntacticTopics, words: Tensor, states: Tensor | None, seed: int) -> None:
        self.topics, self.words = topics, words
        self.generator = torch.Generator().manual_seed(seed)
        self._seen = None if states is None else states[words >= 0].int()
        self._arcs = []  # sentences of about the same length, and their scores
        for rows, n in batches(words, topics.num_states):
            seen = None if states is None else states[rows, :n]
            self._arcs.append((rows, topics.arc_scores(words[rows, :n], seen)))
        self._counts = Counts(
            by_parent=topics.by_parent.contiguous().numpy(),
            parent_totals=topics.by_parent.sum(1).numpy(),
            by_word=topics.by_word.contiguous().numpy(),
            totals=topics.sizes.contiguous().numpy(),
            base=topics.base.contiguous().numpy(),
            b=topics.b,
        )

    def draw(self, number: int) -> tuple[Tensor, Tensor]:
        """Heads, shape ``(number, N, n)``, and log P(s, w, t | D) - log proposal, ``(number, N)``."""
        lengths = (self.words >= 0).sum(1)
        heads = self.words.new_full((number, *self.words.shape), -1)
        for rows, arcs in self._arcs:
            trees = ProjectiveDependencyTree(arcs, lengths=lengths[rows], valence=False, validate_args=False)
            drawn = trees._sample(number, self.generator)
            heads[:, rows, : drawn.shape[-1]] = drawn
        many = self.words.repeat(number, 1)
        parents, children = tokens(many, heads.reshape(many.shape), self.topics.num_words)
        states = self._states_of(parents, children) if self._seen is None else self._seen.repeat(number)
        return heads, self.log_repeats(lengths.repeat(number), parents, children, states).reshape(number, -1)

    def _states_of(self, parents: Tensor, children: Tensor) -> Tensor:
        states = torch.empty(len(children), dtype=torch.int32)
        uniforms = torch.rand(len(children), generator=self.generator, dtype=torch.float64)
        draw_states(self._counts, *(t.numpy() for t in (parents, children, uniforms, states)))
        return states

    def log_repeats(self, lengths: Tensor, parents: Tensor, children: Tensor, states: Tensor) -> Tensor:
        """What the joint has beyond the product, by sentence, of tokens one sentence after the other."""
        starts = np.concatenate([[0], lengths.cumsum(0).numpy()])
        out = torch.empty(len(lengths), dtype=torch.float64)
        log_repeats(self._counts, starts, *(t.numpy() for t in (parents, children, states, out)))
        return out
