# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a log-linear scorer of arcs looks at: templates over tags, neighbours, distance, punctuation, posteriors.

Every feature is a sum of three codes, of the head, of the dependent and of the pair of both, each times an odd number
of 64 bits; the highest bits of the sum are its place in the table of weights [1].

**Reference:**

[1] Dietzfelbinger, M., Hagerup, T., Katajainen, J. and Penttonen, M. (1997). A reliable randomized algorithm for the
closest-pair problem. Journal of Algorithms 25, 19-51. (multiplicative hashing)
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from pyrogram.knowledge.languages import UNIVERSAL_TAGS

#: Lower bounds of the bins of distances, in words, and of posterior probabilities of arcs.
DISTANCES = (2, 3, 4, 5, 7, 10, 15, 25)
POSTERIORS = (0.001, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
MOST_MARKS = 3  # between segments; more count as so many
#: Kinds of words that are told apart if they stand between head and dependent.
BETWEEN = (("VERB", "AUX"), ("NOUN", "PROPN", "PRON"), ("ADP",), ("CCONJ", "SCONJ"))

_PLAIN = ("", "dist", "marks", "dist marks", "between", "edges", "post", "post rank dist")
#: What is looked at in the head, in the dependent, and in the pair; each template has the direction, too.
#:
#: t: the tag; l, r, lr, ll, rr: with that of the left, right, both, two left, two right neighbours; ends: and whether
#: it is ROOT, the first, or the last word. dist: the distance; marks: the segments of punctuation between; between: the
#: kinds of words between; edges: whether a mark stands before and after each; post: the arc's probability under a
#: grammar; rank: whether it is the dependent's most probable arc, or half as probable.
TEMPLATES: tuple[tuple[str, str, str], ...] = (
    *(("t", "t", pair) for pair in _PLAIN),
    *(("t", "", pair) for pair in ("dist", "marks", "post", "edges")),
    *(("", "t", pair) for pair in ("dist", "marks", "post", "between", "edges")),
    *(("", "", pair) for pair in ("dist marks", "post rank", "post rank dist")),
    *((h, d, pair) for h, d in (("l", "t"), ("r", "t"), ("t", "l"), ("t", "r")) for pair in ("dist", "post")),
    *((h, d, "") for h in "lr" for d in "lr"),
    *((h, d, "") for h, d in (("lr", "t"), ("t", "lr"), ("lr", "lr"), ("t", "ll"), ("t", "rr"))),
    *(("", "lr", "dist"), ("", "lr", "post"), ("lr", "", "dist"), ("", "ends", "dist")),
)
PAIRS = tuple(sorted({pair for _, _, pair in TEMPLATES}))


class Features(NamedTuple):
    """The features of the arcs of B sentences, as arrays of integers of 64 bits for compiled code.

    Feature k of the arc from h to d has its place in the highest ``bits`` bits of
    ``heads[b, h, k] + dependents[b, d, k] + pairs[b, h, d, codes[k]] * odd[k]``, in integers that wrap around.
    """

    heads: Any  # (B, n+1, K)
    dependents: Any  # (B, n+1, K)
    pairs: Any  # (B, n+1, n+1, P)
    codes: Any  # (K,)
    odd: Any  # (K,)
    bits: int


def features(words: Tensor, segments: Tensor, posterior: Tensor, bits: int) -> Features:
    """The features of all arcs.

    :param words: tags by their number in :data:`.UNIVERSAL_TAGS`, shape ``(B, n)``, padded with -1.
    :param segments: the number of the segment of each word, shape ``(B, n)``, padded with -1.
    :param posterior: probabilities of arcs, shape ``(B, n+1, n+1)`` [head, dependent].
    """
    sides, pairs = _sides(words), _pairs(words, segments, posterior)
    a, b, c, e = torch.tensor(_odd_numbers(4 * len(TEMPLATES))).reshape(4, -1)
    heads = torch.stack([sides[h] for h, _, _ in TEMPLATES], -1) * a
    dependents = torch.stack([sides[d] for _, d, _ in TEMPLATES], -1) * b + e
    codes = torch.tensor([PAIRS.index(pair) for _, _, pair in TEMPLATES])
    both = torch.stack([pairs[pair] for pair in PAIRS], -1)
    return Features(heads.numpy(), dependents.numpy(), both.numpy(), codes.numpy(), c.numpy(), bits)


@cache
def _odd_numbers(number: int) -> tuple[int, ...]:
    """Odd numbers that look random, of 64 bits with a sign, the same for ever: the steps of SplitMix64."""
    numbers, most = [], 2**64 - 1
    for i in range(1, number + 1):
        z = i * 0x9E3779B97F4A7C15 & most
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & most
        z = (z ^ z >> 27) * 0x94D049BB133111EB & most
        z = (z ^ z >> 31) | 1
        numbers.append(z - 2**64 if z >= 2**63 else z)
    return tuple(numbers)


def _sides(words: Tensor) -> dict[str, Tensor]:
    """Codes of ROOT and of the words, shape ``(B, n+1)``, by the letters of the templates."""
    B, n = words.shape
    wall, end, W = len(UNIVERSAL_TAGS), len(UNIVERSAL_TAGS) + 1, len(UNIVERSAL_TAGS) + 2
    tags = words.new_full((B, n + 5), wall)  # two walls, ROOT, which is one, too, the words, two ends
    tags[:, 3:] = end
    tags[:, 3:-2] = torch.where(words >= 0, words, end)
    ll, l, t, r, rr = (tags[:, k : k + n + 1] for k in range(5))
    place, last = torch.arange(n + 1), (words >= 0).sum(1, keepdim=True)
    ends = 4 * (place == 0) + 2 * (place == last) + (place == 1).long()
    sides = {"t": t, "l": l * W + t, "r": t * W + r, "lr": (l * W + t) * W + r}
    sides |= {"ll": (ll * W + l) * W + t, "rr": (t * W + r) * W + rr, "ends": ends * W + t}
    return {"": torch.zeros_like(t)} | {name: code + 1 for name, code in sides.items()}


def _pairs(words: Tensor, segments: Tensor, posterior: Tensor) -> dict[str, Tensor]:
    """Codes of arcs, shape ``(B, n+1, n+1)``, by :data:`PAIRS`, each with the direction."""
    B, n = words.shape
    place = torch.arange(n + 1)
    apart = place - place[:, None]
    dist = torch.bucketize(apart.abs(), torch.tensor(DISTANCES), right=True)
    number = pad(segments.clamp_min(0), (1, 0))
    marks = (number[:, :, None] - number[:, None, :]).abs().clamp_max(MOST_MARKS)
    post = torch.bucketize(posterior.contiguous(), torch.tensor(POSTERIORS, dtype=posterior.dtype), right=True)
    best = posterior.amax(1, keepdim=True)
    named = {
        "dist": (dist, len(DISTANCES) + 1),
        "marks": (marks, MOST_MARKS + 1),
        "between": (_between(words), 2 ** len(BETWEEN)),
        "edges": (_edges(segments), 16),
        "post": (post, len(POSTERIORS) + 1),
        "rank": ((posterior >= best).long() + (posterior >= 0.5 * best), 3),
    }
    codes = {}
    for pair in PAIRS:
        code = (apart > 0).long()
        for values, size in (named[name] for name in pair.split()):
            code = code * size + values
        codes[pair] = (code + 1).expand(B, n + 1, n + 1)
    return codes


def _between(words: Tensor) -> Tensor:
    """Which of the kinds stand strictly between two places, a bit for each, shape ``(B, n+1, n+1)``."""
    kinds = torch.zeros(len(UNIVERSAL_TAGS) + 1, dtype=torch.long)  # the last one is that of no word
    for kind, tags in enumerate(BETWEEN, 1):
        kinds[[UNIVERSAL_TAGS.index(tag) for tag in tags]] = kind
    seen = one_hot(pad(kinds[words], (1, 0)), len(BETWEEN) + 1)[..., 1:].cumsum(1)  # up to and with each place
    before = pad(seen, (0, 0, 1, 0))[:, :-1]
    place = torch.arange(seen.shape[1])
    later, earlier = torch.maximum(place, place[:, None]), torch.minimum(place, place[:, None])
    inside = before[:, later] - seen[:, earlier] > 0
    return (inside.long() << torch.arange(len(BETWEEN))).sum(-1)


def _edges(segments: Tensor) -> Tensor:
    """Whether a segment begins and ends at the head, and at the dependent, shape ``(B, n+1, n+1)``."""
    number = pad(pad(segments, (0, 1), value=-1), (1, 0), value=-1)
    mark = (number[:, 1:] != number[:, :-1]).long()  # behind ROOT and every word
    edge = 2 * mark + pad(mark, (1, 0))[:, :-1]
    return edge[:, :, None] * 4 + edge[:, None, :]
