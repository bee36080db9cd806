# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Leaving punctuation out of a sentence and its tree.

Grammar induction is trained and scored without punctuation since Klein and Manning (2004). A token goes by
its universal tag where it has one, else by its Penn tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from pyrogram.data.records import MISSING, Hints, SentenceRecord

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


def is_punctuation(upos: str, xpos: str) -> bool:
    """Whether a token with these tags (``_`` for none) is punctuation; without any tag it is not."""
    return upos in UNIVERSAL_PUNCTUATION if upos != MISSING else xpos in _WITHOUT_UPOS


def reattach(heads: tuple[int, ...], kept: list[bool]) -> tuple[int, ...]:
    """Heads among the kept words, which are numbered anew: each goes to its nearest kept ancestor.

    If the root is removed and several words come to hang on ROOT, the first of them becomes the root and
    head of the others, so that the tree keeps a single root; a projective tree stays projective.

    :param heads: a tree, 0 for ROOT; or a part of one, -1 for heads that are unknown.
    :param kept: whether each word stays.
    """
    number = [0] * (len(heads) + 1)
    for c, keep in enumerate(kept, 1):
        number[c] = number[c - 1] + keep
    new = []
    for h, keep in zip(heads, kept, strict=True):
        if keep:
            while h > 0 and not kept[h - 1]:
                h = heads[h - 1]
            new.append(number[h] if h >= 0 else -1)
    root = new.index(0) + 1 if 0 in new else 0
    return tuple(root if h == 0 and c != root else h for c, h in enumerate(new, 1))


def kept_hints(record: SentenceRecord, kept: list[bool]) -> tuple[Hints, ...]:
    """Hints among the kept words, which are numbered anew: those at removed heads are left out.

    So are those of a word whose known head is removed: it goes elsewhere, see :func:`reattach`.
    """
    number = [0, *accumulate(map(int, kept))]
    is_kept = [True, *kept]
    heads = record.heads or record.known_heads or (0,) * len(record)
    rows = zip(record.hints or (), heads, kept, strict=True)
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


def segment_numbers(kept: Sequence[bool]) -> tuple[int, ...]:
    """Of every token the number of its segment, from 0: marks stand between segments.

    A mark is of the segment before it, or of the first one. Marks at the ends of a sentence make no segments.

    >>> segment_numbers([False, True, False, False, True, True, False])
    (0, 0, 0, 0, 1, 1, 1)

    :param kept: for every token whether it is a word, and no mark.
    """
    numbers, number, words, after_mark = [], 0, 0, False
    for keep in kept:
        number += keep and after_mark and words > 0
        words, after_mark = words + keep, not keep
        numbers.append(number)
    return tuple(numbers)


def remove_punctuation(record: SentenceRecord) -> SentenceRecord | None:
    """The sentence without punctuation, or None if nothing is left."""
    kept = kept_words(record)
    if all(kept):
        return record
    if not any(kept):
        return None
    where = [i for i, keep in enumerate(kept) if keep]
    return replace(
        record,
        forms=tuple(record.forms[i] for i in where),
        upos=tuple(record.upos[i] for i in where),
        xpos=tuple(record.xpos[i] for i in where),
        lines=tuple(record.lines[i] for i in where),
        heads=None if record.heads is None else reattach(record.heads, kept),
        known_heads=None if record.known_heads is None else reattach(record.known_heads, kept),
        hints=None if record.hints is None else kept_hints(record, kept),
        segments=tuple(number for number, keep in zip(segment_numbers(kept), kept, strict=True) if keep),
    )
