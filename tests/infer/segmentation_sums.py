# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All segmentations of tiny corpora, and their probabilities by all seatings of their words, with dictionaries."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Words = tuple[str, ...]
#: By level, context and word, the sizes of its tables, sorted.
Seats = frozenset[tuple[tuple[int, str, str], tuple[int, ...]]]
END = "$"


def segmentations(form: str, longest: int) -> list[Words]:
    """All ways to cut a form into words of at most so many symbols."""
    if not form:
        return [()]
    return [
        (form[:k], *rest) for k in range(1, min(longest, len(form)) + 1) for rest in segmentations(form[k:], longest)
    ]


@dataclass(frozen=True)
class Model:
    """With one level, words without contexts; with two, bigrams."""

    alpha: Sequence[float]
    epsilon: Sequence[float]
    stop: float
    end: float
    symbols: dict[str, float]
    longest: int

    @property
    def levels(self) -> int:
        return len(self.alpha)

    def base(self, word: str) -> float:
        bigram = self.levels > 1
        if word == END:
            return self.end if bigram else 0.0
        lengths = [self.stop * (1 - self.stop) ** (k - 1) for k in range(1, self.longest + 1)]
        p = lengths[len(word) - 1] / sum(lengths) * math.prod(self.symbols[c] for c in word)
        return p * (1 - self.end) if bigram else p

    def events(self, utterances: Sequence[Words]) -> list[tuple[str, str]]:
        """Contexts and words in the order of generation."""
        found = []
        for words in utterances:
            seen = [*words, END] if self.levels > 1 else list(words)
            contexts = [END, *words] if self.levels > 1 else [""] * len(words)
            found += list(zip(contexts, seen, strict=True))
        return found

    def probability(self, utterances: Sequence[Words]) -> float:
        """Of these words, summed over all seats."""
        states: dict[Seats, float] = {frozenset(): 1.0}
        for context, word in self.events(utterances):
            new: dict[Seats, float] = defaultdict(float)
            for state, p in states.items():
                for after, q in self._seated(state, self.levels - 1, context, word):
                    new[after] += p * q
            states = new
        total = sum(states.values())
        if self.levels == 1:
            number = sum(map(len, utterances))
            total *= self.end ** len(utterances) * (1 - self.end) ** (number - len(utterances))
        return total

    def _seated(self, state: Seats, level: int, context: str, word: str) -> Iterator[tuple[Seats, float]]:
        """All seats of one more word, and their probabilities together with the word."""
        if level < 0:
            yield state, self.base(word)
            return
        tables = dict(state)
        here = [sizes for (l, h, _), sizes in tables.items() if (l, h) == (level, context)]
        C, T = sum(map(sum, here)), sum(map(len, here))
        alpha, epsilon = self.alpha[level], self.epsilon[level]
        own = tables.get((level, context, word), ())
        for i, size in enumerate(own):
            more = tuple(sorted((*own[:i], size + 1, *own[i + 1 :])))
            yield frozenset({**tables, (level, context, word): more}.items()), (size - epsilon) / (alpha + C)
        new = (alpha + epsilon * T) / (alpha + C) if C else 1.0
        for after, p in self._seated(state, level - 1, "", word):
            found = dict(after)
            found[level, context, word] = tuple(sorted((*own, 1)))
            yield frozenset(found.items()), new * p

    def posterior(self, forms: Sequence[str]) -> dict[tuple[Words, ...], float]:
        """Of all segmentations of all forms together."""
        ways = itertools.product(*(segmentations(form, self.longest) for form in forms))
        found = {way: self.probability(way) for way in ways}
        total = sum(found.values())
        return {way: p / total for way, p in found.items()}
