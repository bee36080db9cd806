# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Coarse families of part-of-speech tags, for priors that tie tags of one family together.

The families are the twelve of Cohen, Gimpel and Smith (2008, footnote 6): adjective, adverb, conjunction,
foreign, interjection, noun, number, particle, preposition, pronoun, proper, verb. They leave some tags
without a home, so there are four more: determiner, punctuation, symbol, other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

#: The twelve families of the paper.
PAPER_FAMILIES = (
    "adjective",
    "adverb",
    "conjunction",
    "foreign",
    "interjection",
    "noun",
    "number",
    "particle",
    "preposition",
    "pronoun",
    "proper",
    "verb",
)
#: All families.
FAMILIES = (*PAPER_FAMILIES, "determiner", "punctuation", "symbol", "other")

_PENN = {
    "adjective": "JJ JJR JJS AFX",
    "adverb": "RB RBR RBS WRB",
    "conjunction": "CC",
    "foreign": "FW",
    "interjection": "UH",
    "noun": "NN NNS",
    "number": "CD",
    "particle": "POS RP TO",
    "preposition": "IN",
    "pronoun": "EX PRP PRP$ WP WP$",
    "proper": "NNP NNPS",
    "verb": "MD VB VBD VBG VBN VBP VBZ",
    "determiner": "DT PDT WDT",
    "punctuation": ". , : `` '' \" ( ) -LRB- -RRB- -LSB- -RSB- -LCB- -RCB- HYPH NFP",
    "symbol": "$ # SYM",
    "other": "ADD GW LS XX",
}

# CONJ is version 1 of Universal Dependencies; treebanks of 2015 to 2017 still have it.
_UNIVERSAL = {
    "adjective": "ADJ",
    "adverb": "ADV",
    "conjunction": "CCONJ SCONJ CONJ",
    "interjection": "INTJ",
    "noun": "NOUN",
    "number": "NUM",
    "particle": "PART",
    "preposition": "ADP",
    "pronoun": "PRON",
    "proper": "PROPN",
    "verb": "VERB AUX",
    "determiner": "DET",
    "punctuation": "PUNCT",
    "symbol": "SYM",
    "other": "X",
}


def _invert(families: dict[str, str]) -> Mapping[str, str]:
    return MappingProxyType({tag: family for family, tags in families.items() for tag in tags.split()})


_MAPS = {"penn": _invert(_PENN), "universal": _invert(_UNIVERSAL)}


def tag_families(tagset: Literal["penn", "universal"]) -> Mapping[str, str]:
    """The family of every tag of a tagset, read only.

    :param tagset: ``"penn"``, the Penn treebank's tags with those added for the English Web Treebank, or
        ``"universal"``, the seventeen of Universal Dependencies.
    :returns: tag -> one of :data:`FAMILIES`.
    :raises ValueError: for another tagset.
    """
    try:
        return _MAPS[tagset]
    except KeyError:
        raise ValueError(f"expected tagset 'penn' or 'universal', actual {tagset!r}.") from None
