# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What raw text says of its tags before any tree is learnt: which are closed classes, roots, or can be left out.

Tags are classes without a meaning here: nothing knows that VERB is a verb. Words, tags and punctuation are looked at,
heads never.

**References:**

[1] Good, I. J. (1953). The population frequencies of species and the estimation of population parameters. Biometrika
    40, 237-264. (words that occur once are the share of words that are still to come)
[2] Mareček, D. and Žabokrtský, Z. (2012). Exploiting Reducibility in Unsupervised Dependency Parsing. EMNLP.
    https://aclanthology.org/D12-1028/ (what can be left out is a leaf)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.data import Corpus
from pyrogram.data.records import MISSING

from .rules import leaves, of_attach

FEW_TYPES = 960.0  # perplexity of a closed class times the number of tags, see closed_classes
LONGEST_CLAUSE = 15  # words; a longer sentence tends to have several clauses, each with a root of its own
MOST_NEW = 0.2  # greatest share of words that occur once in a closed class
GAIN = 0.005  # least share of sentences for which one more tag among the roots is believed


def closed_classes(
    corpus: Corpus, perplexity: float | None = None, strength: float = 4.0, *, valence_attach: bool = False
) -> Bias:
    """An arc from a tag of few words costs ``strength`` nats: function words have no dependents.

    A closed class is a tag whose words, in lower case, have a perplexity below ``perplexity``, and of which at most a
    fifth occur once: else its words are few because the text is short, see [1].

    :param corpus: tags with their words.
    :param perplexity: by default 60, as for the 16 tags of Universal Dependencies; with V > 16 tags 960 / V, for finer
        tags have fewer words each.
    :param valence_attach: whether the :class:`.DMV` is the extended one.
    :returns: nats of ``attach`` ``(V, 1, 1)``, or ``(V, 1, 1, 1)`` with ``valence_attach``.
    :raises ValueError: if the words are the tags.
    """
    return leaves(corpus.vocab, closed_tags(corpus, perplexity), strength, "Tags of few words", valence_attach)


def closed_tags(corpus: Corpus, perplexity: float | None = None) -> list[str]:
    """The tags that are closed classes, see :func:`closed_classes`, in the order of the vocabulary.

    :param corpus: tags with their words.
    :param perplexity: as in :func:`closed_classes`.
    :raises ValueError: if the words are the tags.
    """
    most = FEW_TYPES / max(16, len(corpus.vocab)) if perplexity is None else perplexity
    words: dict[str, Counter[str]] = {}
    for record in corpus:
        for tag, form in zip(record.tags, record.forms, strict=True):
            words.setdefault(tag, Counter())[form.lower()] += 1
    if all(form in (tag.lower(), MISSING) for tag, counts in words.items() for form in counts):
        raise ValueError(
            "corpus must have words beside its tags, to tell which tags have few words, but has tags alone."
        )
    return [tag for tag in corpus.vocab if tag in words and _is_closed(words[tag], most)]


def _is_closed(words: Counter[str], most: float) -> bool:
    total = words.total()
    entropy = math.log(total) - math.fsum(c * math.log(c) for c in words.values()) / total
    return math.exp(entropy) < most and sum(c == 1 for c in words.values()) <= MOST_NEW * total


def count_once_roots(corpus: Corpus, strength: float = 2.0, *, without: Iterable[str] = ()) -> Bias:
    """A root with one of the tags of which sentences have exactly one gains ``strength`` nats.

    Every sentence has one root. So the tags that begin with the one, and are joined by others as long as the share of
    sentences with exactly one word of them grows further beyond chance, should be those of roots. Chance is that of
    sentences of the same lengths with tags drawn at random. A gain below half a percent, or below the standard error
    of a share of N sentences, 1 / (2 √N) at most, is not believed. Sentences of 2 to 15 words are looked at.

    >>> corpus = Corpus.from_sentences([["N", "V"], ["N", "V", "N"], ["N", "N", "V", "N"]] * 10)
    >>> count_once_roots(corpus).events["root"]
    tensor([0., 2.])

    :param without: tags that are no candidates, such as :func:`closed_tags`.
    :returns: nats of ``root`` ``(V,)``.
    """
    chosen, gain = once_tags(corpus, without)
    root = torch.tensor([strength if tag in chosen else 0.0 for tag in corpus.vocab], dtype=torch.get_default_dtype())
    shown = f"{', '.join(chosen) or 'no tag'} ({100 * gain:.0f} % more sentences have one than by chance)"
    return Bias({"root": root}, told=(f"Roots gain {strength:g} nats if they are {shown}.",))


def once_tags(corpus: Corpus, without: Iterable[str] = ()) -> tuple[list[str], float]:
    """The tags of :func:`count_once_roots`, and the share of sentences with one of them less that of chance."""
    short = corpus.filter(LONGEST_CLAUSE, 2)
    skipped = set(without)
    candidates = [tag for tag in corpus.vocab if tag not in skipped]
    chosen: list[str] = []
    best = 0.0
    least = max(GAIN, 0.5 / math.sqrt(max(1, len(short))))
    while candidates and len(short):
        gains = {tag: _beyond_chance(short, [*chosen, tag]) for tag in candidates}
        tag = max(candidates, key=lambda tag: gains[tag])
        if gains[tag] <= best + least:
            break
        best = gains[tag]
        chosen.append(tag)
        candidates.remove(tag)
    return chosen, best


def _beyond_chance(corpus: Corpus, tags: list[str]) -> float:
    """Share of sentences with exactly one word of some tags, less what chance would give."""
    ids = torch.tensor(corpus.vocab.encode(tags))
    number = torch.isin(corpus.words, ids).sum(-1)
    length = corpus.lengths.double()
    share = number.sum() / length.sum()
    chance = length * share * (1 - share) ** (length - 1)
    return float(((number == 1).double() - chance).mean())


def reducibility(
    corpus: Corpus, strength: float = 0.3, *, pseudocount: float = 10.0, valence_attach: bool = False
) -> Bias:
    """Tags whose words can be left out govern less: ``strength`` times the log of the reducibility of [2].

    A word can be left out if the tags of its segment between punctuation, without it, are those of a segment of the
    corpus. The reducibility of a tag is the share of its words that can be left out, in units of that of all words. In
    [2] sequences of tags are left out, too, and from sentences of words, of which a large corpus is needed.

    :param pseudocount: words of the average share that every tag has beside its own.
    :param valence_attach: whether the :class:`.DMV` is the extended one.
    :returns: nats of ``attach`` ``(V, 1, 1)``, or ``(V, 1, 1, 1)`` with ``valence_attach``; zero if no word can be left
        out.
    """
    logs = log_reducibility(corpus, pseudocount)
    ranked = [corpus.vocab[i] for i in logs.argsort(descending=True, stable=True).tolist()]
    told = f"Arcs from tags cost {strength:g} times their log reducibility, the greatest first: {', '.join(ranked)}."
    cost = -strength * logs[:, None].to(torch.get_default_dtype())
    return Bias({"attach": of_attach(cost, valence_attach)}, told=(told,))


def log_reducibility(corpus: Corpus, pseudocount: float = 10.0) -> Tensor:
    """log of the reducibility of every tag, see :func:`reducibility`, shape ``(V,)``, float64."""
    seen = Counter(_segments(corpus))
    able: Counter[int] = Counter()
    all_words: Counter[int] = Counter()
    for tags, times in seen.items():
        for i, tag in enumerate(tags) if len(tags) > 1 else ():
            all_words[tag] += times
            able[tag] += times * (tags[:i] + tags[i + 1 :] in seen)
    mean = able.total() / max(1, all_words.total())
    if mean == 0:
        return torch.zeros(len(corpus.vocab), dtype=torch.float64)
    V = range(len(corpus.vocab))
    return torch.tensor(
        [math.log((able[v] + pseudocount * mean) / (all_words[v] + pseudocount) / mean) for v in V], dtype=torch.float64
    )


def _segments(corpus: Corpus) -> Iterator[tuple[int, ...]]:
    """The tags of all segments between punctuation."""
    for words, numbers in zip(corpus.words.tolist(), corpus.segments.tolist(), strict=True):
        for number in range(max(numbers) + 1):
            yield tuple(word for word, segment in zip(words, numbers, strict=True) if segment == number)
