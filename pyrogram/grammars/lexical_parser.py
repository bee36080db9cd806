# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parsing with the predictive probabilities of a lexicalised dependency model, held fixed for a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from pyrogram.choices import DECODERS, Decoder
from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.distributions.sibling_tree import SiblingDependencyTree
from pyrogram.restaurants.restaurants import Restaurants

from . import sibling_tags
from .lexical_dependencies import SITES, LexicalDependencies, Predict, TreeScores
from .sibling_tags import TaggedTreeScores

#: Cells of a batch's scores, as far as they need most of the memory: 32 MB; and most sentences.
_BATCH, _MOST = 2**22, 256


@dataclass(frozen=True)
class PitmanYorPredictor:
    """Restaurants with their parameters; called with contexts and values, it gives predictive probabilities.

    :param restaurants: what was observed, and where it sits.
    :param concentration: α of each level, coarsest first, shape (L,).
    :param discount: ε of each level, shape (L,).
    """

    restaurants: Restaurants
    concentration: Tensor
    discount: Tensor

    def __call__(self, keys: tuple[Tensor, ...], values: Tensor) -> Tensor:
        """P(value | context) given all that was observed, shape (M,)."""
        return self.restaurants.predict(keys, values, self.concentration, self.discount)

    def copy(self) -> PitmanYorPredictor:
        """The same observations and seats, independent of these."""
        return PitmanYorPredictor(self.restaurants.copy(), self.concentration.clone(), self.discount.clone())


@dataclass(frozen=True)
class Parses:
    """Trees of N sentences.

    :param heads: by decoder, shape (N, n), padded with -1.
    :param log_likelihood: log P(tags, words, cases) of each sentence, summed over its trees, in nats, shape (N,).
    """

    heads: dict[str, Tensor]
    log_likelihood: Tensor


@dataclass(frozen=True)
class TaggedParses(Parses):
    """Trees and tags of N sentences, both unknown before; the likelihood is log P(words, cases).

    Of ``"viterbi"`` are the tree and the tags that are most probable together; of ``"mbr"`` the tree with the most
    expected right heads, tags summed out, and the most probable tag of each word, trees and other tags summed out.

    :param tags: by decoder, shape (N, n), padded with -1.
    """

    tags: dict[str, Tensor]


class LexicalParser:
    """Trees of tagged and cased sentences, by the sibling chart: O(n^3) for a sentence of n words.

    The probability of a tree is the product of the predictive probabilities of its events given the training data, as
    in Eq. 10 of Wallach, Sutton and McCallum (2008): events do not learn from one another.

    :param grammar: which events a tree has.
    :param predict: probabilities of values in contexts, by "tags", "words", "cases", as
        :class:`PitmanYorPredictor` has them.
    """

    def __init__(self, grammar: LexicalDependencies, predict: Mapping[str, Predict]):
        missing = [site for site in SITES if site not in predict]
        if missing:
            raise ValueError(
                f"expected predictive probabilities of tags, words and cases, actual none of {missing[0]}."
            )
        self.grammar, self.predict = grammar, predict

    def parse(
        self,
        tags: Tensor,
        words: Tensor,
        cases: Tensor,
        decoders: Sequence[Decoder] = DECODERS,
        callback: Callable[[int], object] | None = None,
        *,
        arc_scores: Tensor | None = None,
    ) -> Parses:
        """Trees of all sentences, by each decoder, and the sentences' likelihood.

        :param tags: shape (N, n), padded with -1 on the right, as are words and cases.
        :param decoders: ``"viterbi"``: the most probable tree; ``"mbr"``: the tree with the most expected right heads.
        :param callback: called with the number of sentences that are done, now and then.
        :param arc_scores: nats by which arcs are preferred [head, dependent], shape (N, n+1, n+1), such as those of
            punctuation; trees y then weigh P(y, sentence) exp(their arcs' nats), whose sum is no likelihood.
        :raises ValueError: if shapes or numbers do not fit, or a decoder has another name.
        """
        if isinstance(decoders, str) or not set(decoders) <= set(DECODERS):
            raise ValueError(f"expected decoders from {', '.join(DECODERS)}, in a list, actual {decoders!r}.")
        self.grammar.check(tags, words, cases)
        N, n = tags.shape
        if arc_scores is not None and arc_scores.shape != (N, n + 1, n + 1):
            raise ValueError(f"expected arc_scores of shape {(N, n + 1, n + 1)}, actual {tuple(arc_scores.shape)}.")
        heads: dict[str, Tensor] = {name: torch.full((N, n), -1) for name in decoders}
        log_likelihood = torch.zeros(N, dtype=torch.float64)
        done = 0
        for which, lengths, scores in self.batches(tags, words, cases):
            longest = int(lengths.max())
            arcs = scores.arcs
            if arc_scores is not None:
                arcs = arcs + arc_scores[which, : longest + 1, : longest + 1].to(arcs)
            trees = SiblingDependencyTree(arcs, scores.siblings, scores.stops, lengths, validate_args=False)
            if "mbr" in heads:
                heads["mbr"][which, :longest] = trees.mbr()
            if "viterbi" in heads:
                heads["viterbi"][which, :longest] = trees.argmax()
            log_likelihood[which] = trees.log_partition + scores.cases
            done += len(which)
            if callback is not None:
                callback(done)
        return Parses(heads, log_likelihood)

    def sample(
        self, tags: Tensor, words: Tensor, cases: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Independent trees of every sentence from Eq. 10, shape (num_samples, N, n), padded with -1."""
        self.grammar.check(tags, words, cases)
        heads = torch.full((num_samples, *tags.shape), -1)
        for which, lengths, scores in self.batches(tags, words, cases):
            heads[:, which, : int(lengths.max())] = draw_trees(scores, lengths, num_samples, generator)
        return heads

    def parse_untagged(self, words: Tensor, cases: Tensor) -> TaggedParses:
        """Trees and tags of sentences whose tags are unknown, and the sentences' likelihood, summed over both.

        O(n^3 S^3) for a sentence of n words and S tags: two seconds for 20 words and 36 tags.

        :param words: shape (N, n), padded with -1 on the right, as are cases.
        :raises ValueError: if shapes or numbers do not fit.
        """
        heads = {name: torch.full(words.shape, -1) for name in get_args(Decoder)}
        tags = {name: torch.full(words.shape, -1) for name in get_args(Decoder)}
        log_likelihood = torch.zeros(len(words), dtype=torch.float64)
        for which, lengths, scores in self.untagged_batches(words, cases):
            longest = int(lengths.max())
            tags["viterbi"][which, :longest], heads["viterbi"][which, :longest] = sibling_tags.best(scores, lengths)
            log_likelihood[which], arcs, of_tags = sibling_tags.marginals(scores, lengths)
            trees = ProjectiveDependencyTree(arcs, lengths=lengths, valence=False, validate_args=False)
            heads["mbr"][which, :longest] = trees.argmax()
            inside = torch.arange(longest) < lengths[:, None]
            tags["mbr"][which, :longest] = torch.where(inside, of_tags.argmax(-1), -1)
        return TaggedParses(heads, log_likelihood, tags)

    def sample_untagged(
        self, words: Tensor, cases: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Independent tags and trees of every sentence from Eq. 10, in which tags are unknown, too.

        :returns: tags and heads, (num_samples, N, n) each, padded with -1.
        """
        tags, heads = (torch.full((num_samples, *words.shape), -1) for _ in range(2))
        for which, lengths, scores in self.untagged_batches(words, cases):
            longest = int(lengths.max())
            drawn = sibling_tags.sample(scores, lengths, num_samples, generator)
            tags[:, which, :longest], heads[:, which, :longest] = drawn
        return tags, heads

    def untagged_batches(self, words: Tensor, cases: Tensor) -> Iterator[tuple[Tensor, Tensor, TaggedTreeScores]]:
        """:meth:`batches` of sentences whose tags are unknown."""
        self.grammar.check(words.clamp_max(0), words, cases)  # any tags
        S, lengths = self.grammar.num_tags, (words >= 0).sum(-1)
        for chosen in _alike(lengths, lambda n: (n + 1) * S**2 * (n + 1 + 2 * (S + 1))):
            n = int(lengths[chosen].max())
            scores = self.grammar.tagged_scores(words[chosen, :n], cases[chosen, :n], self.predict)
            yield chosen, lengths[chosen], scores

    def batches(self, tags: Tensor, words: Tensor, cases: Tensor) -> Iterator[tuple[Tensor, Tensor, TreeScores]]:
        """Sentences of about the same length together: their numbers (B,), lengths (B,), and padded scores.

        Sentences without words are in none of them.
        """
        lengths = (tags >= 0).sum(-1)
        for chosen in _alike(lengths, lambda n: (n + 1) ** 3):
            yield chosen, lengths[chosen], self._padded(chosen, lengths, tags, words, cases)

    def _padded(self, which: Tensor, lengths: Tensor, tags: Tensor, words: Tensor, cases: Tensor) -> TreeScores:
        B, N = len(which), int(lengths[which].max()) + 1
        arcs, siblings = torch.zeros(B, N, N, dtype=torch.float64), torch.zeros(B, N, N, N, dtype=torch.float64)
        stops, constant = torch.zeros(B, N, 2, N, dtype=torch.float64), torch.zeros(B, dtype=torch.float64)
        for b, i in enumerate(which.tolist()):
            n = int(lengths[i])
            sentence = (tags[i, :n], words[i, :n], cases[i, :n])
            constant[b] = self.grammar.fill_scores(*sentence, self.predict, arcs[b], siblings[b], stops[b])
        return TreeScores(arcs, siblings, stops, constant)


def _alike(lengths: Tensor, cells: Callable[[int], int]) -> Iterator[Tensor]:
    """Numbers of sentences of about the same length, the longest first; those without words are left out.

    :param cells: of a sentence of so many words.
    """
    order = lengths.argsort(descending=True, stable=True)
    order = order[lengths[order] > 0]
    while len(order):
        most = max(1, min(_MOST, _BATCH // cells(int(lengths[order[0]]))))
        chosen, order = order.tensor_split([most])
        yield chosen


def draw_trees(
    scores: TreeScores, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
) -> Tensor:
    """Independent trees of a padded batch of sentences, shape (num_samples, B, n)."""
    trees = SiblingDependencyTree(scores.arcs, scores.siblings, scores.stops, lengths, validate_args=False)
    return trees._sample(num_samples, generator)
