# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees from raw text and knowledge, in one call: the bias, the model, the inference and the decoder.

The grammar is the :class:`.DMV`, tilted by the bias, with Dirichlet priors; variational Bayes begins at uniform
weights, so that no run differs from another, and trees are those of minimum Bayes risk under the same tilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.data import Corpus, Vocabulary
from pyrogram.distributions import ProjectiveDependencyTree, Sentence
from pyrogram.grammar import Weights
from pyrogram.grammars import DMV
from pyrogram.infer import VariationalEM
from pyrogram.models.dirichlet import dirichlet
from pyrogram.printable import plural

from .discovered import closed_classes, closed_tags, count_once_roots, reducibility
from .languages import Sources
from .punctuation import marks_told, segments
from .rules import Heads, function_words_are_leaves, universal_rules

Knowledge = Literal["none", "discovered", "rules", "languages"]
PUNCTUATION = 3.0  # nats that an arc across punctuation costs
CELLS = 500_000  # of charts that are in memory at a time
SHORT = 15  # words of sentences that trees are learnt from
FEW_WORDS = 2000  # where short sentences have fewer, longer ones are learnt from, too
LONGEST = 40  # words of these
TOO_FEW_WORDS = 500  # from which nothing can be discovered


def assumptions(
    corpus: Corpus, knowledge: Knowledge, heads: Heads = "content", *, valence_attach: bool = False
) -> Bias:
    """What is preferred of a grammar's events before trees are learnt.

    :param corpus: all sentences to learn from, with their words.
    :param knowledge: ``"none"``; ``"discovered"``: the sum of :func:`closed_classes`, :func:`count_once_roots` and,
        where content words are heads, :func:`reducibility`, for which tags need no meaning, though 500 words;
        ``"rules"``: :func:`universal_rules` and :func:`function_words_are_leaves`, of universal or Penn tags;
        ``"languages"``: nothing, for what is known of other languages is the prior, see :func:`induce`.
    :param heads: of the rules, ``"content"`` or ``"function"``.
    :param valence_attach: whether the :class:`.DMV` is the extended one.
    :raises ValueError: for another kind of knowledge, for tags that the rules do not know, or without words.
    """
    if knowledge not in get_args(Knowledge):
        raise ValueError(f"knowledge must be 'none', 'discovered', 'rules' or 'languages', not {knowledge!r}.")
    if knowledge == "none":
        return Bias()
    if knowledge == "languages":
        return Bias(told=("The grammar is like a mixture of other languages' grammars, by likelihood of the text.",))
    if knowledge == "discovered":
        number = int(corpus.lengths.sum())
        if number < TOO_FEW_WORDS:
            return Bias(
                told=(
                    f"Nothing was discovered, for {plural(number, 'word is', 'words are')} too few "
                    f"({TOO_FEW_WORDS} are needed).",
                )
            )
        bias = closed_classes(corpus, valence_attach=valence_attach)
        bias = bias + count_once_roots(corpus, without=closed_tags(corpus))
        return bias if heads == "function" else bias + reducibility(corpus, valence_attach=valence_attach)
    rules = universal_rules(corpus.vocab, heads, valence_attach=valence_attach)
    return rules + function_words_are_leaves(corpus.vocab, heads, valence_attach=valence_attach)


@dataclass(frozen=True)
class Assumed:
    """What is assumed of trees besides the text.

    :param events: the bias of a grammar's events: what was assumed or found.
    :param punctuation: nats that an arc across punctuation costs; 0: punctuation is not looked at.
    """

    events: Bias
    punctuation: float = PUNCTUATION

    @property
    def told(self) -> tuple[str, ...]:
        """What was assumed or found, in sentences."""
        return self.events.told + (marks_told(self.punctuation),) * bool(self.punctuation)

    def bias(self, corpus: Corpus) -> Bias:
        """The bias of the trees of some sentences: nats of events by block, and of arcs ``(N, n+1, n+1)``."""
        return self.events + segments(corpus, self.punctuation) if self.punctuation else self.events


@dataclass(frozen=True)
class Induced:
    """A grammar that was induced with knowledge.

    :param grammar: the grammar, without the tilt.
    :param weights: by block, normalised.
    :param assumed: what was assumed or found.
    :param loop: the inference, with the history of its objective.
    :param vocab: the tags that words are numbers of.
    """

    grammar: DMV
    weights: Weights
    assumed: Assumed
    loop: VariationalEM
    vocab: Vocabulary

    @property
    def told(self) -> tuple[str, ...]:
        """What was assumed or found, in sentences."""
        return self.assumed.told

    def bias(self, corpus: Corpus) -> Bias:
        """The bias of the trees of some sentences, see :meth:`.Assumed.bias`."""
        return self.assumed.bias(corpus)

    def parse(self, corpus: Corpus) -> Tensor:
        """The trees with the most expected right heads, under the bias: heads, shape ``(N, n)``, padded with -1.

        :param corpus: sentences of the same vocabulary.
        :raises ValueError: for another vocabulary.
        """
        heads = torch.full_like(corpus.words, -1)
        for chunk, trees in self._trees(corpus):
            heads[chunk, : trees.event_shape[0]] = trees.mbr()
        return heads

    def marginals(self, corpus: Corpus) -> Tensor:
        """Probabilities of arcs under the bias, shape ``(N, n+1, n+1)`` [head, dependent]; zero in the padding.

        :param corpus: sentences of the same vocabulary.
        :raises ValueError: for another vocabulary.
        """
        n = corpus.words.shape[1]
        marginals = self.weights["root"].new_zeros(len(corpus), n + 1, n + 1)
        for chunk, trees in self._trees(corpus):
            size = trees.event_shape[0] + 1
            marginals[chunk, :size, :size] = trees.marginals()
        return marginals

    def _trees(self, corpus: Corpus) -> Iterator[tuple[Tensor, ProjectiveDependencyTree]]:
        """Numbers of sentences of like lengths, and the distribution of their trees."""
        if corpus.vocab.symbols != self.vocab.symbols:
            raise ValueError(
                "corpus must have the vocabulary that the grammar was learnt with; read it with that vocab."
            )
        order = corpus.lengths.argsort(stable=True)
        for chunk in order.split(max(1, CELLS // (corpus.words.shape[1] + 1) ** 2)):
            part = corpus[chunk]
            grammar = self.grammar.tilted(self.bias(part))
            yield chunk, cast("ProjectiveDependencyTree", Sentence(grammar, self.weights).derivation(part.words))


def induce(
    corpus: Corpus,
    knowledge: Knowledge | Bias = "rules",
    *,
    heads: Heads = "content",
    punctuation: float = PUNCTUATION,
    max_length: int | None = None,
    concentration: float | None = None,
    num_steps: int = 50,
    valence_attach: bool = False,
    sources: Sources | None = None,
) -> Induced:
    """Learn a dependency grammar from tagged text and knowledge; nothing is drawn, and no head is looked at.

    >>> corpus = Corpus.builtin(200)
    >>> induced = induce(corpus, "rules", heads="function")
    >>> heads = induced.parse(corpus)
    >>> print("; ".join(induced.told)[:40])
    Arcs of these rules gain 1 nats: ROOT ->

    :param corpus: tagged sentences, with punctuation left out (``punctuation="remove"``) or none.
    :param knowledge: ``"none"``, ``"discovered"``, ``"rules"`` or ``"languages"``, see :func:`assumptions`; or a bias
        of events.
    :param heads: ``"content"``, as in Universal Dependencies, or ``"function"``; see :func:`universal_rules`.
    :param punctuation: nats that an arc across punctuation costs, see :func:`segments`; nothing with ``"none"``.
    :param max_length: trees are learnt from sentences of at most so many words; closed classes and the like are
        discovered in all. By default :func:`length_and_concentration` decides.
    :param concentration: of the Dirichlet priors; with ``"languages"`` they are those of ``sources``. By default
        :func:`length_and_concentration` decides.
    :param num_steps: of variational Bayes.
    :param valence_attach: whether the choice of a child depends on valence, see :class:`.DMV`.
    :param sources: grammars of other languages, for ``"languages"``; by default :meth:`.Sources.shipped`. Whoever
        measures on a language must leave it out, see :meth:`.Sources.without`.
    :raises ValueError: if no sentence is short enough, for a bias of arcs, for ``"languages"`` with
        ``valence_attach``, and as :func:`assumptions` does.
    """
    if isinstance(knowledge, Bias):
        if knowledge.parts:
            raise ValueError("knowledge must be a bias of events, not of arcs; punctuation= says what these cost.")
        events = knowledge
    else:
        events = assumptions(corpus, knowledge, heads, valence_attach=valence_attach)
        punctuation = 0.0 if knowledge == "none" else punctuation
    longest, alpha = length_and_concentration(corpus)
    max_length = longest if max_length is None else max_length
    if sources is not None and knowledge != "languages":
        raise ValueError(f"sources are for knowledge='languages', not {knowledge!r:.40}; leave them out.")
    short = short_sentences(corpus, max_length)
    grammar = DMV(len(corpus.vocab), valence_attach=valence_attach)
    loop = VariationalEM(dirichlet, initial_weights="uniform")
    assumed = Assumed(events, punctuation)
    tilted = grammar.tilted(assumed.bias(short))
    prior: float | Weights = alpha if concentration is None else concentration
    if knowledge == "languages":
        prior = prior_of_languages(corpus, short.words, valence_attach, sources)
    loop.run(short.words, tilted, concentration=prior, num_steps=num_steps, tolerance=0.0, progress=False)
    return Induced(grammar, loop.weights(), assumed, loop, corpus.vocab)


def short_sentences(corpus: Corpus, max_length: int) -> Corpus:
    """The sentences of at most so many words.

    :raises ValueError: if there is none.
    """
    short = corpus.filter(max_length)
    if not len(short):
        raise ValueError(
            f"corpus must have sentences of at most {plural(max_length, 'word')} to learn from, but has none."
        )
    return short


def length_and_concentration(corpus: Corpus) -> tuple[int, float]:
    """The greatest length of sentences to learn from, and the concentration of the priors: 15 and 0.25.

    They are 40 and 1 if the sentences of at most 15 words have fewer than 2,000 words.
    """
    few = int(corpus.filter(SHORT).lengths.sum()) < FEW_WORDS
    return (LONGEST, 1.0) if few else (SHORT, 0.25)


def prior_of_languages(corpus: Corpus, words: Tensor, valence_attach: bool, sources: Sources | None = None) -> Weights:
    """The concentrations of the target's Dirichlets, by block, around its mixture of other languages.

    :param corpus: of the target, whose vocabulary has universal tags.
    :param words: the sentences that trees are learnt from, shape ``(N, n)``, padded with -1.
    :returns: shape ``block.shape`` by block.
    :raises ValueError: with ``valence_attach``.
    """
    if valence_attach:
        raise ValueError("valence_attach must be False with 'languages', for the sources are plain DMVs.")
    return (sources or Sources.shipped()).over(corpus.vocab).concentration(words)
