# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Leaving punctuation out of a sentence and its tree.

Grammar induction is trained and scored without punctuation since Klein and Manning (2004). A token goes by
its universal tag where it has one, else by its Penn tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from pyrogram.data.records import MISSING, Hints, SentenceRecord
from pyrogram.data.strings import Bools, Ints, Strings

#: Universal tags of punctuation. Currency signs are ``SYM`` and stay.
UNIVERSAL_PUNCTUATION = frozenset({"PUNCT"})

#: Penn tags of currency signs (``#`` is the pound sign).
PENN_CURRENCY = frozenset({"$", "#"})

#: Penn tags of punctuation, with the later ``HYPH`` and ``NFP``, and of currency signs: what is left out of
#: a sentence with Penn tags only.
PENN_PUNCTUATION = PENN_CURRENCY | frozenset(
    {
        ".",
        ",",
        ":",
        "``",
        "''",
        '"',
        "(",
        ")",
        "-LRB-",
        "-RRB-",
        "-LSB-",
        "-RSB-",
        "-LCB-",
        "-RCB-",
        "HYPH",
        "NFP",
    }
)

# Text whose words are the alphabet may have tags of either kind in its one column of tags.
_WITHOUT_UPOS = PENN_PUNCTUATION | UNIVERSAL_PUNCTUATION
_UNIVERSAL, _OF_XPOS = dict.fromkeys(UNIVERSAL_PUNCTUATION, True), dict.fromkeys(_WITHOUT_UPOS, True)


def is_punctuation(upos: str, xpos: str) -> bool:
    """Whether a token with these tags (``_`` for none) is punctuation; without any tag it is not."""
    return upos in UNIVERSAL_PUNCTUATION if upos != MISSING else xpos in _WITHOUT_UPOS


def marks(upos: Strings, xpos: Strings) -> Bools:
    """Which tokens with these tags are punctuation, shape ``(T,)``; see :func:`is_punctuation`."""
    without = upos.where({MISSING: True})
    return upos.where(_UNIVERSAL) | (without & xpos.where(_OF_XPOS))


def reattach(heads: Ints, kept: Bools, offsets: Ints) -> Ints:
    """Heads among the kept words, which are numbered anew: each goes to its nearest kept ancestor.

    If the root is removed and several words come to hang on ROOT, the first of them becomes the root and
    head of the others, so that the tree keeps a single root; a projective tree stays projective.

    :param heads: trees of sentences that lie one after the other, 0 for ROOT; -1 for heads that are unknown, shape
        ``(T,)``.
    :param kept: whether each word stays, shape ``(T,)``.
    :param offsets: where sentences begin, and the end of the last, shape ``(N + 1,)``.
    :returns: heads of the words that stay.
    """
    lengths = np.diff(offsets)
    tokens = np.flatnonzero(kept)
    before = np.repeat(offsets[:-1], lengths)  # where the sentence of a token begins
    head, begin = heads[tokens].astype(np.int64), before[tokens]
    astray = np.flatnonzero(head > 0)
    while len(astray):
        astray = astray[~kept[begin[astray] + head[astray] - 1]]
        head[astray] = heads[begin[astray] + head[astray] - 1]
        astray = astray[head[astray] > 0]
    number = np.concatenate([[0], np.cumsum(kept)])  # of kept words up to each token
    known = head > 0
    head[known] = number[begin[known] + head[known]] - number[begin[known]]
    roots = np.flatnonzero(head == 0)
    first = np.ones(len(roots), np.bool_)
    first[1:] = begin[roots[1:]] != begin[roots[:-1]]
    leader = roots[first][np.cumsum(first) - 1]  # of each root the first of its sentence
    others = ~first
    head[roots[others]] = number[tokens[leader[others]]] + 1 - number[begin[leader[others]]]
    return head


def kept_hints(hints: Sequence[Hints], heads: Sequence[int], kept: Sequence[bool]) -> tuple[Hints, ...]:
    """Hints among the kept words of a sentence, which are numbered anew: those at removed heads are left out.

    So are those of a word whose known head is removed: it goes elsewhere, see :func:`reattach`.
    """
    number = [0, *accumulate(map(int, kept))]
    is_kept = [True, *kept]
    rows = zip(hints, heads, kept, strict=True)
    return tuple(
        tuple((number[h], nats) for h, nats in hints if is_kept[h] and is_kept[max(head, 0)])
        for hints, head, keep in rows
        if keep
    )


def attach_punctuation(heads: Sequence[int], kept: Sequence[bool]) -> tuple[int, ...]:
    """Heads of all tokens, from a tree of the kept words: the converse of :func:`reattach`.

    A removed token becomes a child of the dependent of the shortest arc that passes over it, where the arc from the
    ROOT to the root is one of them; where no arc passes over it, it becomes a child of the root. Without any kept word,
    the first token is the root and the head of the others. A projective tree stays projective, for the end of the
    shortest arc over a gap can be reached from that gap without crossing an arc.

    Universal Dependencies attach punctuation much in this way: in the test parts of 47 treebanks, gold heads of words
    given, the rule finds four of five heads of punctuation (a neighbouring word: one of five).

    :param heads: a tree of the kept words, numbered without the others; 0 for ROOT.
    :param kept: for every token whether it is one of these words.
    """
    position = [0, *(c for c, keep in enumerate(kept, 1) if keep)]
    arcs = [(position[h], position[c]) for c, h in enumerate(heads, 1)]
    arcs.sort(key=lambda arc: abs(arc[0] - arc[1]))
    root = next((c for h, c in arcs if h == 0), 1)
    full = {c: h for h, c in arcs} or {1: 0}
    for mark in range(1, len(kept) + 1):
        if mark not in full:
            full[mark] = next((c for h, c in arcs if min(h, c) < mark < max(h, c)), root)
    return tuple(full[c] for c in range(1, len(kept) + 1))


def heads_with_punctuation(
    records: Iterable[SentenceRecord], trees: Iterable[Sequence[int]]
) -> Iterator[tuple[int, ...]]:
    """Heads of all tokens of sentences that were parsed without punctuation.

    :param records: the sentences with punctuation.
    :param trees: heads without it, of each sentence that has other tokens.
    """
    rest = iter(trees)
    for record in records:
        kept = kept_words(record)
        yield attach_punctuation(next(rest) if any(kept) else (), kept)


def kept_words(record: SentenceRecord) -> list[bool]:
    """Which tokens of a sentence are not punctuation."""
    return [not is_punctuation(u, x) for u, x in zip(record.upos, record.xpos, strict=True)]


def segment_numbers(kept: Bools, offsets: Ints, after_mark: Bools) -> Ints:
    """Of every token the number of its segment, from 0: marks stand between segments.

    A mark is of the segment before it, or of the first one. Marks at the ends of a sentence make no segments.

    :param kept: for every token whether it is a word, and no mark, shape ``(T,)``.
    :param offsets: where sentences begin, and the end of the last, shape ``(N + 1,)``.
    :param after_mark: tokens before which a mark was left out, shape ``(T,)``.
    """
    begins, lengths = offsets[:-1], np.diff(offsets)
    words: Ints = np.cumsum(kept) - kept  # before each token, in all sentences
    opens = after_mark.copy()
    opens[1:] |= ~kept[:-1]
    opens &= kept & (words > np.repeat(words[begins], lengths))
    numbers: Ints = np.cumsum(opens)
    first: Ints = np.repeat(numbers[begins], lengths)
    return numbers - first
