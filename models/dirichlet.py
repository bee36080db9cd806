# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar with weights to be estimated, and a grammar with Dirichlet priors: for any grammar.

For each multinomial k of the grammar, and each sentence l:

1. theta[k] ~ Dirichlet(alpha[k]), once for the whole corpus,
2. sentence l ~ Grammar(theta).

The baselines of Cohen, Gimpel and Smith (2008), section 5: :func:`maximum_likelihood` with ``EM`` is their EM;
:func:`dirichlet` is EM-MAP with ``EM`` and a concentration above 1, VB-Dirichlet with ``VariationalEM``, and
VB-EM-Dirichlet with ``VariationalEM`` and ``learn=True``.

**Reference:** Cohen, Gimpel and Smith (2008), "Logistic normal priors for unsupervised probabilistic grammar
induction", Advances in Neural Information Processing Systems 21.
"""

from collections.abc import Mapping

import pyro
import torch
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Sentence, dirichlet_prior, simplex_of
from pyrogram.grammar import Grammar, Known, Weights

__all__ = ["dirichlet", "maximum_likelihood"]


def maximum_likelihood(
    words: Tensor,
    grammar: Grammar,
    *,
    initial_weights: Mapping[str, Tensor] | None = None,
    known: Known | None = None,
    batch_size: int | None = None,
) -> None:
    """Every block is a ``pyro.param`` named after it.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param initial_weights: values at which the parameters start; the grammar's own initialiser by default.
    :param known: what is known of derivations, see :class:`.Sentence`, of all N sentences.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """
    if any(name not in pyro.get_param_store() for name in grammar.blocks) and initial_weights is None:
        initial_weights = grammar.initial_weights(words)
    start = dict(initial_weights or {})
    theta = {
        name: pyro.param(name, start.get(name), constraint=simplex_of(block)) for name, block in grammar.blocks.items()
    }
    sentences(words, grammar, theta, batch_size, known)


def dirichlet(
    words: Tensor,
    grammar: Grammar,
    *,
    concentration: float | Mapping[str, Tensor] = 0.25,
    learn: bool = False,
    known: Known | None = None,
    batch_size: int | None = None,
) -> None:
    """Every block is a Dirichlet site named after it.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param concentration: alpha of every multinomial's symmetric Dirichlet, or a tensor for each block.
    :param learn: make each block's concentration a ``pyro.param`` ``"concentration.<block>"`` that starts there: one
        number for all multinomials of a block.
    :param known: what is known of derivations, see :class:`.Sentence`, of all N sentences.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """
    theta = {}
    for name, block in grammar.blocks.items():
        alpha = torch.as_tensor(concentration[name] if isinstance(concentration, Mapping) else concentration)
        alpha = alpha.to(words.device, torch.get_default_dtype())
        if learn:
            alpha = pyro.param(f"concentration.{name}", alpha.clone(), constraint=constraints.positive)
        theta[name] = pyro.sample(name, dirichlet_prior(block, alpha))
    sentences(words, grammar, theta, batch_size, known)


def sentences(
    words: Tensor, grammar: Grammar, theta: Weights, batch_size: int | None = None, known: Known | None = None
) -> None:
    """The corpus: sentences are independent given the weights."""
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as i:
        batch_known = {kind: t[i] for kind, t in known.items()} if isinstance(known, Mapping) else known
        batch_known = batch_known[i] if isinstance(batch_known, Tensor) else batch_known
        pyro.sample("words", Sentence(grammar, theta, known=batch_known), obs=words[i])
