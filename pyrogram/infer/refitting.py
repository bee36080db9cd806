# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A richer grammar from trees that a poorer one has found.

Induction searches; a model with many weights searches badly. So a small model finds trees, and a larger one learns from
them as if they were a treebank, and perhaps goes on from there on the words alone. In both a bias may weigh trees: what
is known of the sentences, such as where their punctuation was. A grammar that has learnt from trees under one has to
parse under it, too, and one that has learnt without any must not: its own weights then say nothing, or have said it
already. Here neither can be forgotten.

**Reference:** Spitkovsky, V., Alshawi, H. and Jurafsky, D. (2013). Breaking Out of Local Optima with Count Transforms
and Model Recombination. EMNLP. https://aclanthology.org/D13-1204/ (simple models whose trees others learn from)
"""

from __future__ import annotations

from dataclasses import dataclass

import pyro
import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammar import Grammar, Weights
from pyrogram.trees import lengths_of

from .loops.variational_em import VariationalEM

_CELLS = 500_000  # of charts that are in memory at a time


@dataclass(frozen=True)
class Refitted:
    """A grammar that has learnt from trees, and under which bias; see :func:`refit`.

    :param grammar: the grammar, without the tilt.
    :param weights: by block, normalised.
    :param events: nats of its events, which parsing has as well.
    :param parts: the kinds of nats of sentences that it has learnt under, such as ``arc_scores``.
    :param loop: the inference, with the history of its objective.
    """

    grammar: Grammar
    weights: Weights
    events: Bias
    parts: frozenset[str]
    loop: VariationalEM

    def parse(self, words: Tensor, bias: Bias | None = None) -> Tensor:
        """The trees with the most expected right heads, under the bias: heads, shape ``(N, n)``, padded with -1.

        :param words: shape ``(N, n)``, padded with -1.
        :param bias: nats of parts of these sentences, of the kinds that the grammar has learnt under; nats of events
            are those that it has learnt under, whatever this one has.
        :raises ValueError: if kinds are missing, or were unknown in training.
        """
        nats = {} if bias is None else bias.parts
        _check_alike(self.parts, frozenset(nats))
        bias = self.events + Bias(parts=nats)
        heads = torch.full_like(words, -1)
        for chunk in lengths_of(words).argsort(stable=True).split(max(1, _CELLS // (words.shape[1] + 1) ** 2)):
            grammar = _tilted(self.grammar, bias[chunk])
            heads[chunk] = Sentence(grammar, self.weights).derivation(words[chunk]).mbr()
        return heads


def refit(
    grammar: Grammar,
    words: Tensor,
    heads: Tensor,
    *,
    bias: Bias | None = None,
    concentration: float | Weights = 0.1,
    num_steps: int = 0,
) -> Refitted:
    """Learn a grammar from trees that another one has found.

    Weights are posterior means under Dirichlet priors, given the trees. With ``num_steps``, so many iterations of
    variational Bayes follow, with the words alone and under the bias, from there.

    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> refitted = refit(pyrogram.DMV(2, valence_attach=True), words, torch.tensor([[2, 0, 2], [0, 1, -1]]))
    >>> refitted.parse(torch.tensor([[0, 1]]))
    tensor([[2, 0]])

    :param grammar: a grammar of dependency trees, such as the extended :class:`.DMV`, or one of more valences.
    :param words: shape ``(N, n)``, padded with -1.
    :param heads: the trees, which must be projective, shape ``(N, n)``, padded with -1.
    :param bias: what the trees were found under: nats of events of ``grammar``, and nats of parts of these sentences;
        None: nothing.
    :param concentration: of the Dirichlets, in all, or by block.
    :param num_steps: iterations in which the trees are forgotten.
    :raises ValueError: if sentences have no such trees.
    """
    if heads.shape != words.shape:
        raise ValueError(f"heads must have the shape of words, {tuple(words.shape)}, not {tuple(heads.shape)}.")
    bias = Bias() if bias is None else bias
    tilted = _tilted(grammar, bias)
    loop = VariationalEM(_model, initial_weights="uniform")
    loop.run(words, tilted, concentration, heads, num_steps=1, tolerance=0.0, progress=False)
    weights = loop.weights()
    if num_steps:
        loop = VariationalEM(_model, initial_weights=weights)
        loop.run(words, tilted, concentration, None, num_steps=num_steps, tolerance=0.0, progress=False)
        weights = loop.weights()
    return Refitted(grammar, weights, Bias(bias.events, told=bias.told), frozenset(bias.parts), loop)


def _model(words: Tensor, grammar: Grammar, concentration: float | Weights, known: Tensor | None) -> None:
    """Dirichlets and sentences, of which trees are known, or nothing is."""
    weights = {}
    for name, block in grammar.blocks.items():
        alpha = concentration[name] if isinstance(concentration, dict) else concentration
        weights[name] = pyro.sample(name, dirichlet_prior(block, alpha))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights, known=known), obs=words)


def _tilted(grammar: Grammar, bias: Bias) -> Grammar:
    return grammar.tilted(bias) if bias.events or bias.parts else grammar


def _check_alike(learnt: frozenset[str], kinds: frozenset[str]) -> None:
    """
    :raises ValueError: if sentences are not treated alike in training and in parsing.
    """
    if learnt - kinds:
        raise ValueError(
            f"the trees that were learnt from were found under {', '.join(sorted(learnt - kinds))}, and these "
            "sentences have none; give bias= of the same kind, such as segments(corpus)"
        )
    if kinds - learnt:
        raise ValueError(
            f"these sentences have {', '.join(sorted(kinds - learnt))}, and the trees that were learnt from were found "
            "without; give refit the bias of its sentences, or leave it out here"
        )
