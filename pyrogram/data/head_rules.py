# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which child of a phrase is its head: rules for the Penn treebank.

The rules are those with which Yamada and Matsumoto (2003) read dependencies off the Penn treebank, after
Magerman (1995) and Collins (1999): for every phrase a direction and groups of labels in order of preference.
The first group that has a member among the children decides, and of several members the first met in that
direction; if no group has any, the first child in that direction. Two things differ: a child that is all
punctuation is never the head while there is another, and currency signs count as punctuation; so that the
tree is the same whether punctuation is then removed or not.

**References:**

1. H. Yamada and Y. Matsumoto (2003). Statistical dependency analysis with support vector machines. IWPT.
2. M. Collins (1999). Head-driven statistical models for natural language parsing. PhD thesis, Appendix A.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrogram.data.strings import Ints

#: Phrase -> (direction, groups in order of preference): ``left`` looks from the left end.
HEAD_RULES: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    phrase: (direction, tuple(tuple(group.split("|")) for group in groups.split()))
    for phrase, direction, groups in (
        ("ADJP", "right", "NNS QP NN ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
        ("ADVP", "left", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
        ("CONJP", "left", "CC RB IN"),
        ("FRAG", "left", ""),
        ("INTJ", "right", ""),
        ("LST", "left", "LS"),
        ("NAC", "right", "NN|NNS|NNP|NNPS NP NAC EX CD QP PRP VBG JJ JJS JJR ADJP FW"),
        ("NP", "right", "POS|NN|NNP|NNPS|NNS NX JJR CD JJ JJS RB QP NP"),
        ("NX", "right", "POS|NN|NNP|NNPS|NNS NX JJR CD JJ JJS RB QP NP"),
        ("PP", "left", "IN TO VBG VBN RP FW"),
        ("PRN", "right", ""),
        ("PRT", "left", "RP"),
        ("QP", "right", "IN NNS NN JJ RB DT CD QP JJR JJS"),
        ("RRC", "left", "VP NP ADVP ADJP PP"),
        ("S", "right", "TO IN VP S SBAR ADJP UCP NP"),
        ("SBAR", "right", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
        ("SBARQ", "right", "SQ S SINV SBARQ FRAG"),
        ("SINV", "right", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
        ("SQ", "right", "VBZ VBD VBP VB MD VP SQ"),
        ("UCP", "left", ""),
        ("VP", "left", "VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP"),
        ("WHADJP", "right", "CC WRB JJ ADJP"),
        ("WHADVP", "left", "CC WRB"),
        ("WHNP", "right", "WDT WP WP$ WHADJP WHPP WHNP"),
        ("WHPP", "left", "IN TO FW"),
        ("X", "right", ""),
    )
}


def head_child(phrase: str, children: Sequence[str]) -> int:
    """The index of the head among the labels of the children of a phrase.

    :param phrase: label without function tags; one without rules looks from the right end.
    :param children: labels without function tags, at least one, punctuation left out.
    """
    direction, groups = HEAD_RULES.get(phrase, ("right", ()))
    order = range(len(children)) if direction == "left" else range(len(children) - 1, -1, -1)
    for group in groups:
        for i in order:
            if children[i] in group:
                return i
    return order[0]


# The rules as arrays, by numbers of labels; the last number is that of all labels that no rule has.
_LABELS = dict.fromkeys(HEAD_RULES) | dict.fromkeys(
    label for _, groups in HEAD_RULES.values() for group in groups for label in group
)
_NUMBERS = {label: i for i, label in enumerate(_LABELS)}
_FROM_RIGHT = np.array([HEAD_RULES.get(label, ("right",))[0] == "right" for label in [*_LABELS, ""]])
_RANKS = np.full((len(_LABELS) + 1, len(_LABELS) + 1), max(len(groups) for _, groups in HEAD_RULES.values()))
for _phrase, (_, _groups) in HEAD_RULES.items():
    for _rank in reversed(range(len(_groups))):
        _RANKS[_NUMBERS[_phrase], [_NUMBERS[label] for label in _groups[_rank]]] = _rank


def label_numbers(labels: Sequence[str]) -> Ints:
    """The numbers by which :func:`head_children` knows labels without function tags."""
    return np.array([_NUMBERS.get(label, len(_NUMBERS)) for label in labels], dtype=np.int64)


def head_children(phrases: Ints, children: Ints, begins: Ints, lasts: Ints) -> Ints:
    """The heads of many phrases at once: of each the place of one of all children.

    :param phrases: the number of the label of each phrase, shape ``(P,)``.
    :param children: those of the children of all phrases, one phrase after the other, shape ``(C,)``.
    :param begins: the place of the first child of each phrase, shape ``(P,)``.
    :param lasts: of each child how many kinds of others go before it, whatever the rules, shape ``(C,)``.
    """
    C = len(children)
    phrase = np.repeat(phrases, np.diff(begins, append=C))
    place, from_right = np.arange(C), _FROM_RIGHT[phrases]
    order = np.where(_FROM_RIGHT[phrase], C - 1 - place, place)
    ranks = lasts * (int(_RANKS.max()) + 1) + _RANKS[phrase, children]
    best = np.minimum.reduceat(ranks * C + order, begins) % C
    return np.where(from_right, C - 1 - best, best)
