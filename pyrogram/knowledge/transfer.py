# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees for tagged text without a treebank of its language: a grammar taught by the text, and a scorer that reads it.

**Reference:** McClosky, D., Charniak, E. and Johnson, M. (2006). Effective self-training for parsing. NAACL.
https://aclanthology.org/N06-1020/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.choices import Decoder
from pyrogram.data import Corpus
from pyrogram.distributions.sentence import safe_log
from pyrogram.printable import plural

from .languages import Sources
from .recipe import Induced
from .scorer import ArcScorer, Examples, grammar_of
from .scorer.examples import CHUNK, short_text, universal_words

OWN = 600  # sentences of at most
LONGEST = 40  # words, from whose trees a scorer learns in self-training
LIKELIEST = 12  # treebanks that a scorer is fine-tuned on
SHOWN = 5  # languages


def self_train(scorer: ArcScorer, text: Examples, *, rate: float = 0.05, seed: int = 0) -> ArcScorer:
    """Another scorer, which has gone on for one epoch with its own trees of some sentences, as if they were gold.

    Adagrad keeps the squares of gradients; where a scorer has none, steps are as small as for often used weights.

    :param text: sentences of the language that is to be parsed; trees in it are not looked at.
    :param rate: see :meth:`.ArcScorer.fitted`.
    """
    trained = scorer.fitted({"own": text.with_heads(scorer.parse(text))}, rate=rate, seed=seed, progress=False)
    return ArcScorer(trained.num_bits, trained.weights.detach(), scorer.treebanks, trained.squares)


@dataclass(frozen=True)
class ZeroShot:
    """A parser of a language of which no tree was seen.

    :param grammar: what the text has taught, with the prior over languages.
    :param scorer: reads the grammar.
    :param drawn_on: how much of the grammar is taken from each language, the greatest share first.
    :param told: what was assumed or found, in sentences.
    """

    grammar: Induced
    scorer: ArcScorer
    drawn_on: Mapping[str, float]
    told: tuple[str, ...]

    def parse(self, corpus: Corpus, decoder: Decoder = "mbr") -> Tensor:
        """Heads, shape ``(N, n)``, padded with -1.

        :param corpus: sentences of the same vocabulary.
        :param decoder: the trees with the most expected right heads, or the most probable ones.
        :raises ValueError: for another vocabulary.
        """
        heads = torch.full_like(corpus.words, -1)
        for chunk in corpus.lengths.argsort(stable=True).split(CHUNK):
            part = corpus[chunk]
            heads[chunk, : part.words.shape[1]] = self.scorer.parse(Examples.of(part, self.grammar), decoder)
        return heads


def zero_shot(
    corpus: Corpus,
    scorer: ArcScorer | None = None,
    sources: Sources | None = None,
    *,
    treebanks: Mapping[str, Examples] | None = None,
    self_training: bool = True,
    seed: int = 0,
) -> ZeroShot:
    """A parser for tagged text, without a treebank of its language; heads are not looked at.

    >>> corpus = Corpus.from_sentences([["DET", "NOUN", "VERB"], ["PRON", "VERB", "DET", "NOUN"]], tags="upos")
    >>> parser = zero_shot(corpus)
    >>> parser.parse(corpus)
    tensor([[ 2,  3,  0, -1],
            [ 2,  0,  4,  2]])

    :param corpus: of universal tags, with punctuation left out; what is to be parsed, or other text of the language.
    :param scorer: by default :meth:`.ArcScorer.shipped`. Whoever measures on a language must leave it out, of the
        sources, too.
    :param sources: treebanks of other languages, by default :meth:`.Sources.shipped`.
    :param treebanks: what the scorer has learnt from, see :func:`examples_of`: it goes on, for one epoch, with the 12
        of them whose grammars find the text likeliest.
    :param self_training: whether the scorer goes on with its own trees of 600 sentences of at most 40 words.
    :param seed: of the order of batches.
    :raises ValueError: if a tag is not universal, or there is no sentence of at most 200 words.
    """
    if not len(corpus):
        raise ValueError("corpus must have sentences to learn from, but has none.")
    universal_words(corpus)
    scorer = ArcScorer.shipped() if scorer is None else scorer
    sources = (Sources.shipped() if sources is None else sources).over(corpus.vocab)
    grammar, words = grammar_of(corpus, sources), short_text(corpus).words
    drawn_on = _drawn_on(grammar, sources, words)
    told = [*grammar.told, f"It draws on {_shown(drawn_on)}."]
    number = f"{plural(len(scorer.treebanks), 'treebank')} of {plural(len(set(scorer.languages)), 'language')}"
    told.append(f"Arcs are scored as in the trees of {number}.")
    if treebanks is not None:
        likely = sources.log_likelihood(words).argsort(descending=True, stable=True)
        names = [name for name in (sources.names[i] for i in likely.tolist()) if name in treebanks][:LIKELIEST]
        scorer = scorer.fitted({name: treebanks[name] for name in names}, seed=seed, progress=False)
        told.append(f"The scorer has gone on with the likeliest treebanks: {', '.join(names)}.")
    text = corpus.filter(LONGEST)[:OWN]
    if self_training and len(text):
        scorer = self_train(scorer, Examples.of(text, grammar), seed=seed)
        told.append(f"The scorer has gone on with its own trees of {plural(len(text), 'sentence')}.")
    return ZeroShot(grammar, scorer, drawn_on, tuple(told))


def _drawn_on(grammar: Induced, sources: Sources, words: Tensor) -> dict[str, float]:
    """The share of each language in the grammar, the greatest first; heads weigh as their events in the text."""
    log_weights = {name: safe_log(w) for name, w in grammar.weights.items()}
    _, counts = grammar.grammar.expected_counts(log_weights, words)
    by_language = dict.fromkeys(sources.languages, 0.0)
    shares = sources.drawn_on(sources.shares(words), counts).tolist()
    for language, share in zip(sources.languages, shares, strict=True):
        by_language[language] += share
    return dict(sorted(by_language.items(), key=lambda item: -item[1]))


def _shown(drawn_on: Mapping[str, float]) -> str:
    """The languages with the greatest shares, with these."""
    first = [f"{language} {100 * share:.0f} %" for language, share in drawn_on.items() if share >= 0.005][:SHOWN]
    others = len(drawn_on) - len(first)
    return ", ".join(first) + (f" and {plural(others, 'other')}" if others else "")
