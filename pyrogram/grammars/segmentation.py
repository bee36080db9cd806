# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars over characters that cut words or utterances into segments, and segmentations as derivations.

The grammars of Johnson, Griffiths and Goldwater [1], section 4, used again by Wang and Blunsom [2], section 4.1: a few
rules say of which parts a word is made, and each part may be *any substring of the corpus*, by a rule of its own.

* :func:`verb_grammar` with the template of the Bantu verb, :data:`VERB_TEMPLATE`: five rules from ``Word`` to subject
  marker, tense, object marker, stem and mood. Without the template's names the grammar knows nothing: whether ``SM``
  turns out to be subject markers is for the data to say.
* :func:`unigram_grammar`: an utterance is a sequence of words that do not depend on each other.

As in the papers, the inventory is of the whole corpus, held-out words included: their substrings have rules, but
get no counts from them. Otherwise most held-out words would be impossible, and no perplexity finite.

**References:**

[1] Johnson, Griffiths and Goldwater (2007), "Bayesian inference for PCFGs via Markov chain Monte Carlo",
    https://aclanthology.org/N07-1018
[2] Wang and Blunsom (2013), "Collapsed variational Bayesian inference for PCFGs",
    https://aclanthology.org/W13-3519
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from pyrogram.random_state import random_state_kept

from .cfg import CFG
from .cfg_text import Word

__all__ = [
    "VERB_TEMPLATE",
    "encode",
    "random_start",
    "segment",
    "segments",
    "substrings",
    "unigram_grammar",
    "verb_grammar",
]

#: Right sides of ``Word``: stem; stem, mood; subject, stem, mood; with tense; with tense and object marker.
VERB_TEMPLATE: tuple[tuple[str, ...], ...] = (
    ("V",),
    ("V", "M"),
    ("SM", "V", "M"),
    ("SM", "T", "V", "M"),
    ("SM", "T", "OM", "V", "M"),
)


def substrings(forms: Iterable[Sequence[str]], max_length: int | None = None) -> list[tuple[str, ...]]:
    """All different substrings of some forms, of up to ``max_length`` symbols, in order of first appearance.

    :param forms: each a string, whose symbols are its characters, or a sequence of symbols.
    """
    strings: dict[tuple[str, ...], None] = {}
    for form in dict.fromkeys(tuple(form) for form in forms):
        n = len(form)
        longest = n if max_length is None else max_length
        for i in range(n):
            for k in range(i + 1, min(n, i + longest) + 1):
                strings[form[i:k]] = None
    return list(strings)


def _terminals(forms: Iterable[Sequence[str]], max_length: int | None) -> list[tuple[str, ...]]:
    """Substrings whose symbols are terminals even where a part has the same name."""
    return substrings((tuple(map(Word, form)) for form in forms), max_length)


def verb_grammar(
    forms: Iterable[Sequence[str]],
    *,
    template: Sequence[Sequence[str]] = VERB_TEMPLATE,
    max_length: int | None = None,
) -> CFG:
    """Words made of parts, each of which may be any substring of the corpus.

    With S substrings and P parts there are P S rules besides those of the template.

    :param forms: the words of the whole corpus, held-out ones included.
    :param template: right sides of ``Word``, sequences of parts.
    :param max_length: of the substrings; all by default.
    """
    parts = dict.fromkeys(part for right in template for part in right)
    pieces = _terminals(forms, max_length)
    rules: list[tuple[str, Sequence[str]]] = [("Word", tuple(right)) for right in template]
    rules += [(part, piece) for part in parts for piece in pieces]
    return CFG(rules, "Word")


def unigram_grammar(forms: Iterable[Sequence[str]], *, max_length: int | None = 10) -> CFG:
    """Utterances of words that do not depend on each other: ``Utterance -> Word Utterance | Word``.

    :param forms: the utterances of the whole corpus, without boundaries.
    :param max_length: of words, in symbols.
    """
    rules: list[tuple[str, Sequence[str]]] = [("Utterance", ("Word", "Utterance")), ("Utterance", ("Word",))]
    rules += [("Word", piece) for piece in _terminals(forms, max_length)]
    return CFG(rules, "Utterance")


def random_start(
    grammar: CFG, words: Tensor, *, seed: int | None = None, concentration: float = 1e-5
) -> dict[str, Tensor]:
    """Where inference may start: the posterior mean of weights given one random derivation of each form.

    All derivations of a form are equally probable. That matters: under random *weights* of many thousand rules a short
    derivation is far more probable than a long one, so everything would start as (and with a sparse prior stay)
    one segment.

    :param words: shape ``(N, n)``.
    :param seed: a whole number for a reproducible draw, or None for torch's global generator.
    :param concentration: of the prior.
    """
    ((name, block),) = grammar.blocks.items()
    with nullcontext() if seed is None else random_state_kept(seed):
        drawn = grammar.derivation(None, words, log_weights={name: torch.zeros(block.shape)}).sample()
    counts = torch.bincount(drawn[drawn >= 0], minlength=block.shape[0]).to(torch.get_default_dtype())
    return {name: block.normalize(counts + concentration)}


def encode(grammar: CFG, forms: Iterable[Sequence[str]]) -> Tensor:
    """Forms as words ``(N, n)`` of a grammar over characters, padded with -1."""
    return grammar.encode([list(form) for form in forms])


def segments(grammar: CFG, derivations: Tensor, *, labels: bool = False) -> list[list[str]]:
    """The segments of derivations ``(N, L)``: what their lexical rules emit, from left to right.

    :param labels: the left sides of these rules in place of the segments.
    """
    rows = []
    for row in derivations.tolist():
        lexical = [grammar.rules[r] for r in row if r >= 0 and all(isinstance(s, Word) for s in grammar.rules[r][1])]
        rows.append([left if labels else "".join(right) for left, right in lexical])
    return rows


def segment(grammar: CFG, weights: Mapping[str, Tensor], forms: Sequence[Sequence[str]]) -> list[list[str]]:
    """The segments of the most probable derivation (Viterbi) of each form."""
    posterior = grammar.derivation(weights, encode(grammar, forms))
    return segments(grammar, posterior.argmax())
