# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a sample of states of training sentences says about new ones: predictive probabilities, trees, top words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.topics.evidence import CountHistogram, log_evidence, maximise_evidence
from pyrogram.topics.tokens import batches, check_states, check_words, count, tokens


@dataclass(frozen=True, eq=False)
class SyntacticTopics:
    """Counts of states under heads and of words under states, with the Dirichlets in front of them.

    Their means given the counts are the predictive probabilities of Wallach, Sutton and McCallum (2008), section 4:
    θ̂_k|p = (N_pk + a_k) / (N_p + Σa) and φ̂_w|k = (N_wk + b) / (N_k + V b).

    :param by_parent: N_pk, int32, shape ``(V + 1, K)``; the last row is ROOT's.
    :param by_word: N_wk, int32, shape ``(V, K)``.
    :param base: a = α m, float64, shape ``(K,)``.
    :param b: β / V, the parameter of each word.
    """

    by_parent: Tensor
    by_word: Tensor
    base: Tensor
    b: float

    def __post_init__(self) -> None:
        V, K = tuple(self.by_word.shape) if self.by_word.dim() == 2 else (0, 0)
        for name, shape, text in (("by_word", (V, K), "(V, K)"), ("by_parent", (V + 1, K), "(V + 1, K)")):
            table = getattr(self, name)
            if not V * K or table.shape != shape or table.is_floating_point():
                raise ValueError(f"{name} must be integers of shape {text}, not {table.dtype} of {tuple(table.shape)}")
        if self.base.shape != (K,):
            raise ValueError(f"base must have shape ({K},), one number for each state, not {tuple(self.base.shape)}")

    @classmethod
    def from_states(
        cls, words: Tensor, heads: Tensor, states: Tensor, num_words: int, num_states: int, *, most: int = 1000
    ) -> SyntacticTopics:
        """Topics whose states are seen, such as part-of-speech tags: both Dirichlets maximise their evidence.

        :param words: ids, shape ``(N, n)``, padded with -1, as all else.
        :param heads: as in CoNLL, 0 for ROOT.
        :param states: from 0 to ``num_states`` - 1.
        :param most: iterations of Minka's fixed point.
        """
        parents, children = tokens(words, heads, num_words)
        check_states(words, states, num_states)
        by_parent, by_word = count(parents, children, states[words >= 0], num_words, num_states)
        start = cls(by_parent, by_word, torch.full((num_states,), 0.1, dtype=torch.float64), 0.1)
        return start.optimised(most=most)

    @property
    def num_words(self) -> int:
        """V, the words that are known."""
        return self.by_word.shape[0]

    @property
    def num_states(self) -> int:
        """The number of states, K."""
        return self.by_word.shape[1]

    @property
    def sizes(self) -> Tensor:
        """N_k, how many training tokens have each state, shape ``(K,)``."""
        return self.by_word.sum(0)

    def theta(self, parents: Tensor) -> Tensor:
        """θ̂, float64, shape ``(..., K)``, of heads of shape ``(...)``: ids, V for ROOT."""
        smoothed = self.by_parent[parents] + self.base
        return smoothed / smoothed.sum(-1, keepdim=True)

    def phi(self, words: Tensor) -> Tensor:
        """φ̂_w|k of every state k, float64, shape ``(..., K)``, of words of shape ``(...)``."""
        return (self.by_word[words].double() + self.b) / (self.sizes.double() + self.num_words * self.b)

    def log_joint(self) -> float:
        """log P(s, w | t) of the training sentences, θ and φ integrated out, in nats."""
        b = torch.tensor([self.b], dtype=torch.float64)
        states = log_evidence(CountHistogram.of(self.by_parent), self.base)
        return float(states + log_evidence(CountHistogram.of(self.by_word.T, symmetric=True), b))

    def optimised(self, *, learn_beta: bool = True, most: int = 20, tolerance: float = 1e-4) -> SyntacticTopics:
        """The same counts with α m, and β, that make the training sentences more probable.

        The base measure m and the concentration α are optimised together, as in the paper, which does not say how: by
        Minka's fixed point, see :func:`pyrogram.topics.evidence.maximise_evidence`.
        """
        histogram = CountHistogram.of(self.by_parent)
        base = maximise_evidence(histogram, self.base, most=most, tolerance=tolerance)
        if not learn_beta:
            return SyntacticTopics(self.by_parent, self.by_word, base, self.b)
        histogram = CountHistogram.of(self.by_word.T, symmetric=True)
        b = torch.tensor([self.b], dtype=torch.float64)
        b = maximise_evidence(histogram, b, most=most, tolerance=tolerance)
        return SyntacticTopics(self.by_parent, self.by_word, base, float(b))

    def arc_scores(self, words: Tensor, states: Tensor | None = None) -> Tensor:
        """Log predictive probability of each word as a child of each other, states summed out, in nats.

        :param words: ids, shape ``(N, n)``, padded with -1.
        :param states: those that are seen, same shape; then it is that of the state and the word.
        :returns: shape ``(N, n+1, n+1)`` [head, dependent], what is no arc -inf.
        :raises ValueError: if a word is not known, or if padding is not on the right.
        """
        words, states = self._checked(words, states)
        root = words.new_full((len(words), 1), self.num_words)
        theta = self.theta(torch.cat([root, words.clamp_min(0)], 1))
        phi = self.phi(words.clamp_min(0))
        if states is None:
            scores = (theta @ phi.transpose(1, 2)).log()
        else:
            index = states.clamp_min(0)
            word = phi.gather(2, index[..., None])[..., 0].log()
            seen = index[:, None, :].expand(-1, theta.shape[1], -1)
            scores = theta.gather(2, seen).log() + word[:, None, :]
        real = (words >= 0)[:, None, :] & torch.cat([root >= 0, words >= 0], 1)[..., None]
        scores = torch.nn.functional.pad(scores.masked_fill(~real, -torch.inf), (1, 0), value=-torch.inf)
        scores.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        return scores

    def trees(self, words: Tensor, states: Tensor | None = None) -> ProjectiveDependencyTree:
        """The distribution of trees with one root under the predictive probabilities, states summed out unless seen.

        It takes no account of what repeats within a sentence.
        """
        scores = self.arc_scores(words, states)
        return ProjectiveDependencyTree(scores, lengths=(words >= 0).sum(1), valence=False)

    def parse(
        self, words: Tensor, states: Tensor | None = None, *, decoder: Literal["probable", "mbr"] = "probable"
    ) -> Tensor:
        """Trees of new sentences, shape ``(N, n)``: the most probable ones, or those with most expected right arcs.

        :param words: ids, padded with -1; and ``states``, if they are seen.
        :raises ValueError: if a word is not known, or if padding is not on the right.
        """
        if decoder not in ("probable", "mbr"):
            raise ValueError(f"decoder must be 'probable' or 'mbr', not {decoder!r}")
        words, states = self._checked(words, states)
        heads = torch.full_like(words, -1)
        for rows, n in batches(words, self.num_states):
            seen = None if states is None else states[rows, :n]
            arcs, lengths = self.arc_scores(words[rows, :n], seen), (words[rows] >= 0).sum(1)
            trees = ProjectiveDependencyTree(arcs, lengths=lengths, valence=False, validate_args=False)
            heads[rows, :n] = trees.mbr() if decoder == "mbr" else trees.argmax()
        return heads

    def top_words(self, number: int = 10) -> Tensor:
        """The words most likely to be generated by each state, most probable first: ids, shape ``(K, number)``, or
        ``(K, V)`` if there are fewer words.

        Where a state has fewer words, the rest is -1.
        """
        counts, ids = self.by_word.T.sort(dim=1, descending=True, stable=True)
        words: Tensor = ids[:, :number].masked_fill(counts[:, :number] == 0, -1)
        return words

    def _checked(self, words: Tensor, states: Tensor | None) -> tuple[Tensor, Tensor | None]:
        check_words(words, self.num_words)
        if states is not None:
            check_states(words, states, self.num_states)
        return words.long(), None if states is None else states.long()
