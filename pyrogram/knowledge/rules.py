# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules that most languages share: which tags govern which, and which govern nothing.

They name tags of Universal Dependencies; Penn tags are read as the universal ones of their families.

**Reference:** Naseem, T., Chen, H., Barzilay, R. and Johnson, M. (2010). Using Universal Linguistic Knowledge to Guide
Grammar Induction. EMNLP. https://aclanthology.org/D10-1120/ Table 1 has thirteen rules, under which function words are
heads; as demands on expectations, while these are log factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.data import Vocabulary, tag_families

Heads = Literal["content", "function"]

#: What governs what where content words are heads, as in Universal Dependencies.
CONTENT_RULES: Mapping[str, str] = {
    "ROOT": "VERB",
    "VERB": "NOUN PRON ADV VERB AUX PROPN",
    "NOUN": "ADJ DET NOUN NUM ADP PROPN",
    "ADJ": "ADV",
}
#: What governs what where function words are heads: Table 1 of Naseem et al. (2010), in which nouns are proper nouns,
#: too.
FUNCTION_RULES: Mapping[str, str] = {
    "ROOT": "AUX VERB",
    "VERB": "NOUN PRON ADV VERB PROPN",
    "AUX": "VERB",
    "NOUN": "ADJ DET NOUN NUM PROPN",
    "PROPN": "ADJ DET NOUN NUM PROPN",
    "ADP": "NOUN PROPN",
    "ADJ": "ADV",
}
RULES: Mapping[Heads, Mapping[str, str]] = {"content": CONTENT_RULES, "function": FUNCTION_RULES}
#: Tags of words that govern nothing; where function words are heads, adpositions and the like do govern.
FUNCTION_WORDS: Mapping[Heads, tuple[str, ...]] = {
    "content": ("ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"),
    "function": ("CCONJ", "DET", "PART", "PRON"),
}

_OF_FAMILY = {
    "adjective": "ADJ",
    "adverb": "ADV",
    "conjunction": "CCONJ",
    "determiner": "DET",
    "noun": "NOUN",
    "number": "NUM",
    "particle": "PART",
    "preposition": "ADP",
    "pronoun": "PRON",
    "proper": "PROPN",
    "verb": "VERB",
}
_PENN = {tag: _OF_FAMILY.get(family, "X") for tag, family in tag_families("penn").items()} | {"MD": "AUX"}
_UNIVERSAL = {tag: tag for tag in tag_families("universal")} | {"CONJ": "CCONJ"}


def universal_rules(
    vocab: Vocabulary, heads: Heads = "content", strength: float = 1.0, *, valence_attach: bool = False
) -> Bias:
    """Arcs that a rule has gain ``strength`` nats.

    >>> bias = universal_rules(Vocabulary(("VERB", "NOUN"), (1, 1)))
    >>> bias.events["root"], bias.events["attach"][:, 0]  # [head, dependent]
    (tensor([1., 0.]), tensor([[1., 1.],
            [0., 1.]]))

    :param vocab: universal tags, or Penn's.
    :param heads: ``"content"``: content words are heads, as in Universal Dependencies (:data:`CONTENT_RULES`);
        ``"function"``: auxiliaries and adpositions are, as in most conversions of the Penn treebank
        (:data:`FUNCTION_RULES`).
    :param valence_attach: whether the :class:`.DMV` is the extended one.
    :returns: nats of ``root`` ``(V,)`` and ``attach`` ``(V, 1, V)``, or ``(V, 1, 1, V)`` with ``valence_attach``.
    :raises ValueError: if no tag is universal or Penn's, or for another kind of heads.
    """
    _check_heads(heads)
    tags, rules = universal_tags(vocab), RULES[heads]
    root = torch.tensor([strength * (tag in rules["ROOT"].split()) for tag in tags])
    attach = torch.tensor([[strength * (child in rules.get(head, "").split()) for child in tags] for head in tags])
    listed = "; ".join(f"{head} -> {', '.join(children.split())}" for head, children in rules.items())
    told = f"Arcs of these rules gain {strength:g} nats: {listed}."
    dtype = torch.get_default_dtype()
    return Bias({"root": root.to(dtype), "attach": of_attach(attach.to(dtype), valence_attach)}, told=(told,))


def function_words_are_leaves(
    vocab: Vocabulary, heads: Heads = "content", strength: float = 4.0, *, valence_attach: bool = False
) -> Bias:
    """An arc from one of the :data:`FUNCTION_WORDS` costs ``strength`` nats.

    >>> function_words_are_leaves(Vocabulary(("NOUN", "DET"), (1, 1))).events["attach"][:, 0]
    tensor([[ 0.],
            [-4.]])

    :param vocab: universal tags, or Penn's.
    :param heads: ``"content"`` or ``"function"``, see :func:`universal_rules`; function words that are heads of others
        are none of these.
    :param valence_attach: whether the :class:`.DMV` is the extended one.
    :returns: nats of ``attach`` ``(V, 1, 1)``, or ``(V, 1, 1, 1)`` with ``valence_attach``.
    :raises ValueError: if no tag is universal or Penn's, or for another kind of heads.
    """
    _check_heads(heads)
    tags = FUNCTION_WORDS[heads]
    words = [symbol for symbol, tag in zip(vocab, universal_tags(vocab), strict=True) if tag in tags]
    return leaves(vocab, words, strength, "Function words", valence_attach)


def _check_heads(heads: str) -> None:
    if heads not in get_args(Heads):
        raise ValueError(f"heads must be 'content' or 'function', not {heads!r}.")


def leaves(vocab: Vocabulary, tags: Iterable[str], strength: float, name: str, valence_attach: bool) -> Bias:
    """An arc from any of some tags costs ``strength`` nats."""
    tags = sorted(tags)
    cost = torch.tensor([[-strength if symbol in tags else 0.0] for symbol in vocab], dtype=torch.get_default_dtype())
    told = f"{name} have no dependents ({strength:g} nats for each): {', '.join(tags) or 'there are none'}."
    return Bias({"attach": of_attach(cost, valence_attach)}, told=(told,))


def of_attach(table: Tensor, valence_attach: bool) -> Tensor:
    """Nats of heads and dependents, shape ``(V, V)`` or ``(V, 1)``, for all directions and valences."""
    return table[:, None, None] if valence_attach else table[:, None]


def universal_tags(vocab: Vocabulary) -> list[str]:
    """The universal tag of every symbol; X for one that is none.

    :raises ValueError: if no symbol is a universal tag, or Penn's.
    """
    # Some names, SYM among them, are in both alphabets: the one that knows more of the symbols is meant.
    known = max((_UNIVERSAL, _PENN), key=lambda names: sum(symbol in names for symbol in vocab))
    universal = [known.get(symbol, "X") for symbol in vocab]
    if any(tag != "X" for tag in universal):
        return universal
    shown = ", ".join(vocab.symbols[:5])
    raise ValueError(
        f"vocab must have universal or Penn tags, which rules are about, not {shown}; use discovered biases."
    )
