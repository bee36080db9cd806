# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics by enumeration, from Eq. 12-14 alone."""

import itertools
import math
from collections import Counter

import torch

# Three sentences over a vocabulary of 3 words with repeats, one of one word; padded with -1.
V = 3
WORDS = torch.tensor([[0, 1, 0], [2, -1, -1], [1, 1, -1]])
HEADS = torch.tensor([[2, 0, 2], [0, -1, -1], [0, 1, -1]])


def pairs(words, heads):
    """(head, word) of every token, ROOT being V."""
    found = []
    for row, tree in zip(words.tolist(), heads.tolist(), strict=True):
        found += [(V if h == 0 else row[h - 1], w) for w, h in zip(row, tree, strict=True) if w >= 0]
    return found


def log_urns(tokens, states, base, b, given=()):
    """log P(s, w | t, given): every token with the counts of those before it, and of the triples ``given``."""
    N = Counter()
    total = 0.0
    for i, ((p, w), k) in enumerate([*(((p, w), k) for p, w, k in given), *zip(tokens, states, strict=True)]):
        state = (N["pk", p, k] + base[k]) / (N["p", p] + sum(base))
        word = (N["kw", k, w] + b) / (N["k", k] + V * b)
        total += math.log(state * word) if i >= len(given) else 0.0
        N.update([("pk", p, k), ("p", p), ("kw", k, w), ("k", k)])
    return total


def posterior(words, heads, base, b):
    """All states of all tokens, and their probabilities given words and trees."""
    tokens = pairs(words, heads)
    everything = list(itertools.product(range(len(base)), repeat=len(tokens)))
    logs = torch.tensor([log_urns(tokens, s, base, b) for s in everything])
    return everything, logs.softmax(0), logs


def log_predictive(tokens, states, base, b, given):
    """The same without the sentence's own counts: the proposal."""
    return sum(log_urns([token], [k], base, b, given) for token, k in zip(tokens, states, strict=True))


def chi_square_is_fine(counts, expected, least=1e-4):
    """Whether counts agree with expected ones, cells of less than 5 thrown together."""
    from scipy.stats import chi2

    counts, expected = torch.as_tensor(counts).double(), torch.as_tensor(expected).double()
    small = expected < 5
    counts = torch.cat([counts[~small], counts[small].sum()[None]])
    expected = torch.cat([expected[~small], expected[small].sum()[None]])
    kept = expected > 0
    statistic = float(((counts - expected)[kept] ** 2 / expected[kept]).sum())
    assert counts[~kept].sum() == 0
    return chi2.sf(statistic, int(kept.sum()) - 1) > least
