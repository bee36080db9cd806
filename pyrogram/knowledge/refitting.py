# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A richer grammar from the trees of an induced one, with what was assumed, punctuation among it, on both sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.data import Corpus, LexicalCorpus
from pyrogram.grammars import DMV, LexicalDependencies, LexicalParser, PitmanYorPredictor
from pyrogram.infer import PitmanYorSampler, refit
from pyrogram.models import observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency

from .punctuation import segments
from .recipe import Induced, short_sentences


def refit_induced(
    induced: Induced,
    corpus: Corpus,
    grammar: DMV,
    *,
    max_length: int = 40,
    concentration: float = 0.1,
    num_steps: int = 0,
) -> Induced:
    """Learn another grammar from the trees that an induced one finds, see :func:`.refit`.

    Sentences that are learnt from, and those that are parsed later, are looked at under the same assumptions, each
    with its own punctuation.

    >>> corpus = Corpus.builtin(100)
    >>> induced = pyrogram.knowledge.induce(corpus, "rules", heads="function")
    >>> richer = refit_induced(induced, corpus, DMV(len(corpus.vocab), valence_attach=True))
    >>> richer.told == induced.told
    True

    :param induced: what trees are found by.
    :param corpus: the sentences to learn from, of the same vocabulary.
    :param grammar: a DMV that is extended, or of more valences.
    :param max_length: trees are learnt from sentences of at most so many words.
    :param concentration: of the Dirichlet priors.
    :param num_steps: iterations of variational Bayes after that, with the words alone.
    :raises ValueError: if nats of events do not fit the grammar, or no sentence is short enough.
    """
    part = short_sentences(corpus, max_length)
    assumed = replace(induced.assumed, events=_events(induced.assumed.events, induced.grammar, grammar))
    refitted = refit(
        grammar,
        part.words,
        induced.parse(part),
        bias=assumed.bias(part),
        concentration=concentration,
        num_steps=num_steps,
    )
    return Induced(grammar, refitted.weights, assumed, refitted.loop, corpus.vocab)


@dataclass(frozen=True)
class WordParser:
    """A parser of words and tags that has learnt from induced trees; see :func:`refit_words`.

    :param train: what it has learnt from.
    :param parser: trees by their predictive probabilities.
    :param punctuation: nats that an arc across punctuation costs; 0: punctuation is not looked at.
    """

    train: LexicalCorpus
    parser: LexicalParser
    punctuation: float

    def parse(self, corpus: Corpus) -> Tensor:
        """The trees with the most expected right heads: heads, shape ``(N, n)``, padded with -1.

        :param corpus: sentences of the same vocabulary, read as those that it has learnt from.
        :raises ValueError: if one of the two has punctuation and the other is without.
        """
        lexical = LexicalCorpus.from_corpus(corpus, like=self.train)
        assert lexical.tags is not None
        scores = segments(corpus, self.punctuation).parts["arc_scores"] if self.punctuation else None
        return self.parser.parse(lexical.tags, lexical.words, lexical.cases, ["mbr"], arc_scores=scores).heads["mbr"]


def refit_words(
    induced: Induced, corpus: Corpus, *, max_length: int = 40, num_steps: int = 10, seed: int = 0
) -> WordParser:
    """Learn the parser of words of Wallach, Sutton and McCallum (2008) from the trees that an induced grammar finds.

    An arc across punctuation costs as much as it did where trees were found.

    :param induced: what trees are found by.
    :param corpus: the sentences to learn from, with their words, of the same vocabulary.
    :param max_length: trees are learnt from sentences of at most so many words.
    :param num_steps: of the chain over hyperparameters.
    :param seed: of the chain.
    :raises ValueError: if no sentence is short enough.
    """
    part = short_sentences(corpus, max_length)
    train = LexicalCorpus.from_corpus(part)
    assert train.tags is not None
    grammar = LexicalDependencies(len(train.tag_vocab), len(train.lexicon))
    events = grammar.events(train.tags, train.words, train.cases, induced.parse(part))
    chain = PitmanYorSampler(pitman_yor_dependency, seed=seed)
    chain.run(
        *observed_events(events), grammar.num_values, prior="pitman-yor-sampled", num_steps=num_steps, progress=False
    )
    learnt = {
        name: PitmanYorPredictor(chain.restaurants[name], chain.concentration[name], chain.discount[name])
        for name in events
    }
    return WordParser(train, LexicalParser(grammar, learnt), induced.assumed.punctuation)


def _events(bias: Bias, old: DMV, new: DMV) -> Bias:
    """Nats of a plain DMV's children for all valences, if the new one tells them apart."""
    attach = bias.events.get("attach")
    if attach is None or attach.dim() < 2 or not new.valence_attach or old.valence_attach:
        return bias
    return replace(bias, events={**bias.events, "attach": attach.unsqueeze(-2)})
