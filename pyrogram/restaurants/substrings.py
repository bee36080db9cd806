# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All substrings of utterances that may be words, and their probabilities before any word was seen.

A new word has k symbols with probability s (1 - s)^(k-1) / (1 - (1 - s)^L), k = 1 .. L, s being the probability that it
stops after a symbol (Goldwater, Griffiths and Johnson 2009, Eq. 2, cut at L symbols), and its symbols are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Substrings:
    """The V different substrings of up to L symbols, numbered from 0, shorter ones first.

    Number V is the end of an utterance, which is a word of no symbols, and V + 1 stands for all other words.
    """

    longest: int  #: L
    spans: Any  #: (T, L or less) int32: the substring of k + 1 symbols that begins at a position, -1 if there is none
    starts: Any  #: (N + 1,) int64: where utterances begin
    prefixes: Any  #: (V,) int32: a substring without its last symbol, or -1
    lasts: Any  #: (V,) int32: the last symbol
    lengths: Any  #: (V,) int32

    def __len__(self) -> int:
        return len(self.lengths)

    def probabilities(self, stop: float, end: float, log_symbols: Any) -> Any:
        """The probabilities of substrings, of the end, and of all other words, shape (V + 2,).

        :param stop: probability s that a word stops after a symbol.
        :param end: probability of the utterance's end among words.
        :param log_symbols: (S,), log probabilities of symbols.
        """
        logs = np.zeros(len(self))
        bounds = np.searchsorted(self.lengths, np.arange(1, self.longest + 2))
        for low, high in zip(bounds[:-1], bounds[1:], strict=True):
            prefix = self.prefixes[low:high]
            logs[low:high] = log_symbols[self.lasts[low:high]] + np.where(prefix >= 0, logs[prefix], 0.0)
        logs += log_lengths(stop, self.longest)[self.lengths]
        probabilities = (1 - end) * np.exp(logs)
        return np.append(probabilities, [end, max(0.0, 1 - end - probabilities.sum())])

    def counts(self, words: Any, times: Any, num_symbols: int) -> tuple[Any, Any]:
        """How often each symbol and each length, 0 .. L, occurs in words.

        :param words: (M,), which may be ends, of length 0; and ``times`` (M,), how often each occurs.
        """
        symbols, lengths = np.zeros(num_symbols, np.int64), np.zeros(self.longest + 1, np.int64)
        is_end = words == len(self)
        lengths[0] = times[is_end].sum()
        words, times = words[~is_end], times[~is_end]
        np.add.at(lengths, self.lengths[words], times)
        while len(words):
            np.add.at(symbols, self.lasts[words], times)
            words = self.prefixes[words]
            words, times = words[words >= 0], times[words >= 0]
        return symbols, lengths


def log_lengths(stop: float, longest: int) -> Any:
    """log P(k) of words of k = 0 .. L symbols; -inf for none."""
    steps = np.arange(longest)
    go = math.log1p(-stop)
    return np.append(-np.inf, math.log(stop) + steps * go - math.log(-math.expm1(longest * go)))


def substrings(symbols: Any, starts: Any, longest: int) -> Substrings:
    """The substrings of utterances.

    :param symbols: (T,), from 0, of all utterances one after the other.
    :param starts: (N + 1,), where utterances begin.
    :param longest: L.
    """
    T, lengths = len(symbols), np.diff(starts)
    width = min(longest, int(lengths.max(initial=1)))
    left = np.repeat(starts[1:], lengths) - np.arange(T)  # symbols of the utterance from here on
    base = int(symbols.max(initial=0)) + 1
    spans = np.full((T, width), -1, np.int32)
    prefixes, lasts, sizes, total = [], [], [], 0
    for k in range(width):
        here = np.flatnonzero(left > k)
        prefix = spans[here, k - 1].astype(np.int64) if k else np.full(len(here), -1, np.int64)
        pairs, number = np.unique((prefix + 1) * base + symbols[here + k], return_inverse=True)
        spans[here, k] = total + number.reshape(-1)
        prefixes.append(pairs // base - 1)
        lasts.append(pairs % base)
        sizes.append(np.full(len(pairs), k + 1))
        total += len(pairs)
    columns = (np.concatenate(x).astype(np.int32) for x in (prefixes, lasts, sizes))
    return Substrings(longest, spans, starts, *columns)
