# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Word classes: a hidden Markov model in which every word is always emitted by the same state.

It is the Bayesian tagger of Goldwater and Griffiths (2007), :class:`.HMM` with symmetric Dirichlets that are integrated
out, under the constraint that all tokens of a word share their state. The search is the exchange algorithm of Kneser
and Ney (1993): word after word goes to the class that is best for the log joint, all others staying where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrogram.checks import check_size, checked_words

__all__ = ["WordClasses", "word_classes"]

Counts = npt.NDArray[np.int64]
_LEAST_GAIN = 1e-9  # nats: less is rounding


@dataclass(frozen=True)
class WordClasses:
    """What :func:`word_classes` found.

    :param classes: the class of each word, shape ``(V,)``; words that the sentences lack are in :attr:`of_rare_words`.
    :param of_rare_words: the class that has most of the words that occur once: the best guess for words unseen.
    :param log_joint: log p(words, classes) in nats, the multinomials integrated out, before the first sweep and after
        each; it never falls.
    """

    classes: Tensor
    of_rare_words: int
    log_joint: tuple[float, ...]

    def __call__(self, words: Tensor) -> Tensor:
        """The classes of words, in the shape of the words; padding (-1) stays."""
        return torch.where(words >= 0, self.classes[words.clamp(min=0)], words)


def word_classes(
    words: Tensor,
    num_words: int,
    num_classes: int,
    *,
    transition: float = 1.0,
    emission: float = 0.001,
    num_sweeps: int = 30,
) -> WordClasses:
    """Classes of words from sentences alone; a sweep costs O(V K min(K, neighbours of a word)).

    At the start each of the K - 1 most frequent words is a class, and all others are the last one. The result is a
    local optimum: no word alone could move to a better class.

    >>> sentences = torch.tensor([[0, 2], [1, 3], [0, 3], [1, 2]])
    >>> word_classes(sentences, num_words=4, num_classes=2).classes
    tensor([0, 0, 1, 1])

    :param words: shape ``(N, n)``, padded with -1 on the right.
    :param num_words: V.
    :param num_classes: K.
    :param transition: concentration of the symmetric Dirichlets over the first class and over the next class or end.
    :param emission: of those over the V words of a class; with a large one, all words come into one class.
    :param num_sweeps: at most; it ends when no word moves.
    """
    check_size("num_words", num_words)
    check_size("num_classes", num_classes)
    for name, value in (("transition", transition), ("emission", emission)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, not {value}")
    exchange = _Exchange(checked_words(words, num_words), num_words, num_classes, transition, emission)
    history = [exchange.log_joint()]
    for _ in range(num_sweeps):
        if not exchange.sweep():
            break
        history.append(exchange.log_joint())
    classes, frequency = exchange.classes[:num_words], exchange.frequency
    rare = frequency == 1 if (frequency == 1).any() else frequency > 0
    fallback = int(np.bincount(classes[rare], minlength=num_classes).argmax())
    classes = np.where(frequency > 0, classes, fallback)
    return WordClasses(torch.from_numpy(classes), fallback, tuple(history))


class _Exchange:
    """Counts of pairs of classes, and what a move of one word makes of them.

    Row K of ``pairs`` is the beginning of a sentence, column K its end.
    """

    def __init__(self, words: Tensor, num_words: int, num_classes: int, transition: float, emission: float) -> None:
        V, K = num_words, num_classes
        self.V, self.K, self.transition, self.emission = V, K, transition, emission
        flat = words.reshape(-1, words.shape[-1]).cpu().numpy()
        self.frequency: Counts = np.bincount(flat[flat >= 0], minlength=V)
        # Number V stands on both sides of a sentence: a class of its own, K, which never moves.
        framed = np.pad(np.where(flat < 0, V, flat), ((0, 0), (1, 1)), constant_values=V)
        left, right = framed[:, :-1].ravel(), framed[:, 1:].ravel()
        real = (left < V) | (right < V)
        pairs, counts = np.unique(left[real] * (V + 1) + right[real], return_counts=True)
        left, right = pairs // (V + 1), pairs % (V + 1)
        self.after = _neighbours(left, right, counts, V)
        self.before = _neighbours(right, left, counts, V)
        order = np.argsort(-self.frequency, kind="stable")
        self.order = order[self.frequency[order] > 0]
        self.classes: Counts = np.full(V + 1, K - 1)
        self.classes[self.order[: K - 1]] = np.arange(len(self.order[: K - 1]))
        self.classes[V] = K
        self.pairs: Counts = np.zeros((K + 1, K + 1), dtype=np.int64)
        np.add.at(self.pairs, (self.classes[left], self.classes[right]), counts)
        self.totals: Counts = np.bincount(self.classes[:V], weights=self.frequency, minlength=K).astype(np.int64)
        size = int(self.frequency.sum()) + len(flat) + 1
        self.log_gamma = _log_gamma(size, transition)  # of a count, plus the concentration
        self.log_row = _log_gamma(size, (K + 1) * transition)
        self.log_class = _log_gamma(size, V * emission)

    def log_joint(self) -> float:
        """Dirichlet-multinomials of the rows of ``pairs`` and of the words of each class."""
        K, a, b = self.K, self.transition, self.emission
        rows = self.log_gamma[self.pairs[:K]].sum() - self.log_row[self.totals].sum()
        rows += K * (math.lgamma((K + 1) * a) - (K + 1) * math.lgamma(a))
        first = self.pairs[K, :K]
        rows += self.log_gamma[first].sum() - math.lgamma(K * a + first.sum()) + math.lgamma(K * a) - K * math.lgamma(a)
        seen = self.frequency[self.frequency > 0]
        words = _log_gamma(int(seen.max(initial=0)) + 1, b)[seen].sum() - len(seen) * math.lgamma(b)
        return float(rows + words + K * math.lgamma(self.V * b) - self.log_class[self.totals].sum())

    def sweep(self) -> bool:
        """Every word to its best class; whether any has moved."""
        return sum([self._move(int(word)) for word in self.order]) > 0

    def _move(self, word: int) -> bool:
        old, frequency = int(self.classes[word]), int(self.frequency[word])
        before, after, itself = self._around(word)
        self._add(old, before, after, itself, -1)
        self.totals[old] -= frequency
        gain = self._gains(before, after, itself, frequency)
        new = int(gain.argmax())
        new = new if gain[new] > gain[old] + _LEAST_GAIN else old
        self._add(new, before, after, itself, 1)
        self.totals[new] += frequency
        self.classes[word] = new
        return new != old

    def _around(self, word: int) -> tuple[Counts, Counts, int]:
        """How often each class stands before the word, and after it, and how often the word follows itself."""
        counts = []
        itself = 0
        for neighbours, number in (self.before[word], self.after[word]):
            other = neighbours != word
            itself = int(number[~other].sum())
            by_class = np.bincount(self.classes[neighbours[other]], weights=number[other], minlength=self.K + 1)
            counts.append(by_class.astype(np.int64))
        return counts[0], counts[1], itself

    def _add(self, c: int, before: Counts, after: Counts, itself: int, sign: int) -> None:
        self.pairs[:, c] += sign * before
        self.pairs[c] += sign * after
        self.pairs[c, c] += sign * itself

    def _gains(self, before: Counts, after: Counts, itself: int, frequency: int) -> npt.NDArray[np.float64]:
        """By class, the log joint with the word in it, up to a constant; counts are without the word."""
        K, g = self.K, self.log_gamma
        left, right = before.nonzero()[0], after.nonzero()[0]
        into, outof = self.pairs[left][:, :K], self.pairs[:K][:, right]
        gain = (g[into + before[left, None]] - g[into]).sum(0) + (g[outof + after[right]] - g[outof]).sum(1)
        loops = np.diagonal(self.pairs)[:K]  # the class beside itself: counted once, with everything that comes to it
        twice = g[loops + before[:K]] + g[loops + after[:K]] - 2 * g[loops]
        gain += g[loops + before[:K] + after[:K] + itself] - g[loops] - twice
        gain -= self.log_row[self.totals + frequency] - self.log_row[self.totals]
        best: npt.NDArray[np.float64] = gain - self.log_class[self.totals + frequency] + self.log_class[self.totals]
        return best


def _log_gamma(size: int, offset: float) -> npt.NDArray[np.float64]:
    """log Γ(i + offset) of i = 0, ..., size - 1."""
    return torch.lgamma(torch.arange(size, dtype=torch.float64) + offset).numpy()


def _neighbours(word: Counts, other: Counts, counts: Counts, V: int) -> list[tuple[Counts, Counts]]:
    """By word, who stands beside it, and how often."""
    order = np.argsort(word, kind="stable")
    cuts = np.searchsorted(word[order], np.arange(V + 1))
    spans = [order[cuts[w] : cuts[w + 1]] for w in range(V)]
    return [(other[span], counts[span]) for span in spans]
