# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees and states of new sentences, sampled together by Metropolis and Hastings."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import projective
from pyrogram.charts.topics import trees as topic_trees
from pyrogram.charts.topics.tokens import batches, check_states, check_words, tokens
from pyrogram.infer.samplers.chain import generator_of
from pyrogram.infer.samplers.kernel import Kernel

from .predictive import SyntacticTopics

_PROPOSED = 2**22  # words whose proposals are drawn at a time: one chart serves many


class TopicTrees(Kernel):
    """A chain over the tree and the states of each new sentence: exact for P(s, t | w, D), D the training sentences.

    P(s, w, t | D) is Eq. 12 of Wallach, Sutton and McCallum (2008) with θ and φ integrated out: the words' predictive
    probabilities one after the other, each counted before the next. What repeats within a sentence makes it differ from
    the product of the predictive probabilities given D alone, from which a tree is drawn by the chart, with states
    summed out, and then its states; the proposal is accepted with the exact ratio (Eq. 11, with states for tags).
    Sentences are independent of one another: none is added to D.

    It runs by itself (``TopicTrees(topics).run(words)``) or in Pyro (``MCMC(TopicTrees(topics), 10).run(words)``).

    :param topics: from :meth:`.TopicGibbs.topics`, or with states that are seen.
    :param correct: False accepts every proposal, which ignores repeats: independent draws from the proposal.
    :param seed: of the chain; by default from torch's global generator.
    """

    def __init__(self, topics: SyntacticTopics, *, correct: bool = True, seed: int | None = None):
        self.topics, self.correct, self.seed = topics, correct, seed
        self._end()

    def _end(self) -> None:
        """No chain."""
        self._generator = generator_of(self.seed)
        self._words = torch.empty(0, 0, dtype=torch.long)
        self._seen: Tensor | None = None
        self._arcs: list[tuple[Tensor, Tensor]] = []  # sentences of about the same length, and their scores
        self._params: dict[str, Tensor] = {}
        self._repeats = torch.empty(0)  # log P(s, w, t | D) - log proposal of the present trees, by sentence
        self._accepted, self._proposals = torch.empty(0), 0

    # ------------------------------------------------------------------ public

    def run(
        self, words: Tensor, states: Tensor | None = None, *, num_samples: int = 10, burn_in: int = 20, thin: int = 1
    ) -> Tensor:
        """Sample a tree of every sentence, and its states, again and again.

        :param words: ids, shape ``(N, n)``, padded with -1.
        :param states: those that are seen, same shape; only trees are sampled then.
        :param burn_in: steps before the first sample; what is proposed does not depend on where the chain is, so that
            few will do, but of long sentences (see :meth:`acceptance_by_length`).
        :param thin: steps for each sample.
        :returns: heads, shape ``(num_samples, N, n)``; the last states are in :attr:`states`.
        """
        if num_samples < 1 or burn_in < 0 or thin < 1:
            raise ValueError(
                f"need num_samples >= 1, burn_in >= 0 and thin >= 1, not {num_samples}, {burn_in} and {thin}"
            )
        self._end()
        self._begin(words, states)
        samples, steps = [], burn_in + num_samples * thin
        at_once = max(1, _PROPOSED // words.numel())
        for first in range(0, steps, at_once):
            proposals = self._propose(min(at_once, steps - first))
            for i, proposal in enumerate(zip(*proposals, strict=True), first + 1):
                self._accept(*proposal)
                if i > burn_in and (i - burn_in) % thin == 0:
                    samples.append(self._params["heads"])
        return torch.stack(samples)

    @property
    def heads(self) -> Tensor:
        """The present trees, shape ``(N, n)``."""
        return self._need("heads")

    @property
    def states(self) -> Tensor:
        """The present states, shape ``(N, n)``."""
        return self._need("states")

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted, warmup included; NaN before."""
        return float(self._accepted.double().mean()) / self._proposals if self._proposals else float("nan")

    def acceptance_by_length(self) -> dict[int, float]:
        """The same by the number of words of a sentence."""
        lengths = (self._words >= 0).sum(1)
        if not self._proposals:
            return {}
        return {int(n): float(self._accepted[lengths == n].double().mean()) / self._proposals for n in lengths.unique()}

    # ------------------------------------------------------------------ Pyro's kernel

    def _samples(self) -> dict[str, Tensor]:
        return {name: value.to(torch.get_default_dtype()) for name, value in self._params.items()}

    def _advance(self) -> None:
        self._accept(*(proposed[0] for proposed in self._propose(1)))

    # ------------------------------------------------------------------ inside

    def _begin(self, words: Tensor, states: Tensor | None = None) -> None:
        check_words(words, self.topics.num_words)
        if states is not None:
            check_states(words, states, self.topics.num_states)
        self._words, self._seen = words.long(), None if states is None else states.long()
        self._arcs = []
        for rows, n in batches(self._words, self.topics.num_states):
            seen = None if self._seen is None else self._seen[rows, :n]
            self._arcs.append((rows, self.topics.arc_scores(self._words[rows, :n], seen)[..., None]))
        heads, found, repeats = (proposed[0] for proposed in self._propose(1))
        self._params, self._repeats = {"heads": heads, "states": found}, repeats
        self._accepted = torch.zeros(len(words), dtype=torch.long)

    def _propose(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Trees and states from the predictive probabilities, and what the exact joint has beyond those.

        Shapes ``(number, N, n)`` twice and ``(number, N)``.
        """
        words = self._words
        lengths = (words >= 0).sum(1)
        heads = words.new_full((number, *words.shape), -1)
        for rows, arcs in self._arcs:
            drawn = projective.sample(arcs, None, lengths[rows], num_samples=number, generator=self._generator)
            heads[:, rows, : drawn.shape[-1]] = drawn
        many = words.repeat(number, 1)
        parents, children = tokens(many, heads.reshape(many.shape), self.topics.num_words)
        states = self._states_of(parents, children) if self._seen is None else self._seen_again(number)
        repeats = self._log_repeats(lengths.repeat(number), parents, children, states)
        found = torch.full_like(many, -1)
        found[many >= 0] = states.long()
        return heads, found.reshape(heads.shape), repeats.reshape(number, -1)

    def _states_of(self, parents: Tensor, children: Tensor) -> Tensor:
        states = torch.empty(len(children), dtype=torch.int32)
        uniforms = torch.rand(len(children), generator=self._generator, dtype=torch.float64)
        given = (parents, children, uniforms, states)
        topic_trees.draw_states(self._counts(), *(t.contiguous().numpy() for t in given))
        return states

    def _seen_again(self, number: int) -> Tensor:
        assert self._seen is not None
        return self._seen[self._seen >= 0].int().repeat(number)

    def _log_repeats(self, lengths: Tensor, parents: Tensor, children: Tensor, states: Tensor) -> Tensor:
        starts = torch.from_numpy(np.concatenate([[0], lengths.cumsum(0).numpy()]))
        out = torch.empty(len(lengths), dtype=torch.float64)
        given = (starts, parents, children, states)
        topic_trees.log_repeats(self._counts(), *(t.contiguous().numpy() for t in given), out.numpy())
        return out

    def _counts(self) -> topic_trees.Counts:
        topics = self.topics
        return topic_trees.Counts(
            by_parent=topics.by_parent.contiguous().numpy(),
            parent_totals=topics.by_parent.sum(1).numpy(),
            by_word=topics.by_word.contiguous().numpy(),
            totals=topics.sizes.contiguous().numpy(),
            base=topics.base.contiguous().numpy(),
            b=topics.b,
        )

    def _accept(self, heads: Tensor, states: Tensor, repeats: Tensor) -> None:
        """Take each sentence's proposal with the exact ratio; the states' and trees' predictive terms cancel."""
        uniforms = torch.rand(len(repeats), generator=self._generator, dtype=torch.float64)
        taken = uniforms.log() < repeats - self._repeats if self.correct else torch.ones_like(uniforms).bool()
        self._params = {
            "heads": torch.where(taken[:, None], heads, self._params["heads"]),
            "states": torch.where(taken[:, None], states, self._params["states"]),
        }
        self._repeats = torch.where(taken, repeats, self._repeats)
        self._accepted = self._accepted + taken
        self._proposals += 1

    def _need(self, name: str) -> Tensor:
        if name not in self._params:
            raise RuntimeError(f"{type(self).__name__} has no trees yet; call run first")
        return self._params[name].clone()
