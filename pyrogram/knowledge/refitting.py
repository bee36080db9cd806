# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A richer grammar from the trees of an induced one, with what was assumed, punctuation among it, on both sides."""

from __future__ import annotations

from dataclasses import replace

from pyrogram.bias import Bias
from pyrogram.data import Corpus
from pyrogram.grammars import DMV
from pyrogram.infer import refit

from .recipe import Induced


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
    part = corpus.filter(max_length)
    if not len(part):
        raise ValueError(f"corpus must have sentences of at most {max_length} words to learn from, but has none.")
    assumed = replace(induced.assumed, events=_events(induced.assumed.events, induced.grammar, grammar))
    found = refit(
        grammar,
        part.words,
        induced.parse(part),
        bias=assumed.bias(part),
        concentration=concentration,
        num_steps=num_steps,
    )
    return Induced(grammar, found.weights, assumed, found.loop)


def _events(bias: Bias, old: DMV, new: DMV) -> Bias:
    """Nats of a plain DMV's children for all valences, if the new one tells them apart."""
    attach = bias.events.get("attach")
    if attach is None or attach.dim() < 2 or not new.valence_attach or old.valence_attach:
        return bias
    return replace(bias, events={**bias.events, "attach": attach.unsqueeze(-2)})
