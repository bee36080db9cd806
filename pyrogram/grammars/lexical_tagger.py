# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A tagger for sentences whose tags are not given: a hidden Markov model over words with their cases, from counts.

Transitions from tag to tag, to the end, and from the beginning are relative frequencies smoothed towards those of the
next tag alone; emissions are P(word | tag) P(case | tag, word), smoothed towards P(word) and P(case | tag). Words that
the lexicon lacks come as classes of their shape, whose tags are those of the rare words of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from pyrogram.choices import DECODERS, Decoder, best, check_choice
from pyrogram.distributions import StateSequence

from .hmm import HMM


class LexicalTagger:
    """A bigram tagger.

    :param triples: counts of (tag, word, case), one row each, integers of shape (M, 4) with the count last.
    :param moves: counts (S+1, S+1) [tag, next tag]; row S is the beginning, column S the end.
    :param num_words: W, and ``num_cases``: how many there are.
    :param smoothing: how many observations each prior is worth.
    """

    def __init__(self, triples: Tensor, moves: Tensor, num_words: int, num_cases: int = 4, smoothing: float = 1.0):
        if triples.dim() != 2 or triples.shape[1] != 4 or moves.dim() != 2 or moves.shape[0] != moves.shape[1]:
            shapes = f"{tuple(triples.shape)} and {tuple(moves.shape)}"
            raise ValueError(f"expected triples of shape (M, 4) and moves of shape (S+1, S+1), actual {shapes}.")
        if triples.is_floating_point() or moves.is_floating_point() or bool((moves < 0).any()):
            raise ValueError("expected triples and moves that are counts, integers from 0 on, actual others.")
        sizes = {"tag": moves.shape[0] - 1, "word": num_words, "case": num_cases}
        for column, (name, size) in enumerate(sizes.items()):
            ids = triples[:, column]
            if bool(((ids < 0) | (ids >= size)).any()) or bool((triples[:, 3] < 0).any()):
                raise ValueError(
                    f"expected triples with counts from 0 on and {name}s from 0 to {size - 1}, actual others."
                )
        if not smoothing > 0:
            raise ValueError(f"expected smoothing greater than 0, actual {smoothing}.")
        self.triples, self.moves = triples, moves
        self.num_tags, self.num_words, self.num_cases = moves.shape[0] - 1, num_words, num_cases
        self.smoothing = smoothing

    @staticmethod
    def learn(
        tags: Tensor, words: Tensor, cases: Tensor, *, num_tags: int, num_words: int, num_cases: int = 4
    ) -> LexicalTagger:
        """The tagger of tagged sentences, tensors of shape (N, n) padded with -1 on the right."""
        inside = tags >= 0
        if bool((tags >= num_tags).any()):
            raise ValueError(f"expected tags from 0 to {num_tags - 1}, actual {int(tags.max())}.")
        rows, counts = torch.stack([tags[inside], words[inside], cases[inside]], -1).unique(dim=0, return_counts=True)
        padded = torch.nn.functional.pad(tags, (1, 1), value=-1)
        padded[:, 0] = num_tags
        before, after = padded[:, :-1], padded[:, 1:]
        after = torch.where(after < 0, num_tags, after)[before >= 0]
        index = before[before >= 0] * (num_tags + 1) + after
        moves = torch.bincount(index, minlength=(num_tags + 1) ** 2).reshape(num_tags + 1, num_tags + 1)
        return LexicalTagger(torch.cat([rows, counts[:, None]], 1), moves, num_words, num_cases)

    @cached_property
    def _model(self) -> tuple[HMM, dict[str, Tensor]]:
        """The hidden Markov model over pairs of word and case, and its log weights."""
        S, W, C = self.num_tags, self.num_words, self.num_cases
        counts = torch.zeros(S, W, C, dtype=torch.float64)
        tag, word, case, count = self.triples.unbind(1)
        counts[tag, word, case] = count.double()
        of_word = _smoothed(counts.sum(-1), _share(counts.sum((0, 2)) + 1 / W), self.smoothing)
        case_of_tag = _smoothed(counts.sum(1), _share(counts.sum((0, 1)) + 1 / C), self.smoothing)
        emission = of_word[..., None] * _smoothed(counts, case_of_tag[:, None, :], self.smoothing)
        moves = _smoothed(self.moves.double(), _share(self.moves.sum(0) + 1 / (S + 1)), self.smoothing)
        weights = {
            "initial": moves[S, :S].log(),  # no sentence ends before it begins: the constant does not matter
            "transition": moves[:S].log(),
            "emission": emission.reshape(S, W * C).log(),
        }
        return HMM(S, W * C), weights

    def posterior(self, words: Tensor, cases: Tensor) -> StateSequence:
        """p(tags | words, cases) of sentences, shape (N, n), padded with -1."""
        hmm, log_weights = self._model
        pairs = torch.where(words >= 0, words * self.num_cases + cases, -1)
        return hmm.derivation(None, pairs, log_weights=log_weights)

    def tag(self, words: Tensor, cases: Tensor, decoder: Decoder = "mbr") -> Tensor:
        """Tags of shape (N, n), padded with -1.

        :param decoder: ``"mbr"``: the most probable tag of each word; ``"viterbi"``: the most probable sequence.
        """
        check_choice("decoder", decoder, DECODERS)
        return best(self.posterior(words, cases), decoder)

    def tensors(self) -> dict[str, Tensor]:
        """What it has learnt, to be saved."""
        return {"triples": self.triples, "moves": self.moves}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], num_words: int, num_cases: int = 4) -> LexicalTagger:
        """The tagger that :meth:`tensors` came from."""
        return LexicalTagger(tensors["triples"], tensors["moves"], num_words, num_cases)


def _share(counts: Tensor) -> Tensor:
    return counts / counts.sum(-1, keepdim=True)


def _smoothed(counts: Tensor, prior: Tensor, strength: float) -> Tensor:
    """Relative frequencies with a prior that is worth so many observations."""
    return (counts + strength * prior) / (counts.sum(-1, keepdim=True) + strength)
