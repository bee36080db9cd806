# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar with logistic normal priors: Cohen, Gimpel and Smith (2008), Figure 1, for any grammar.

For each sentence l and multinomial k:

1. eta[l, k] ~ N(mu[k], Sigma[k]),
2. theta[l, k] = softmax(eta[l, k]),
3. sentence l ~ Grammar(theta[l]).

The first two are one call of :func:`pyrogram.distributions.logistic_normal`, under the name ``softmax_of_normal``.
The corpus is used to learn mu and Sigma (empirical Bayes), and softmax(mu) is the point estimate of the weights::

    loop = VariationalEM(logistic_normal).run(words, grammar)

:func:`corpus_logistic_normal` draws one theta for the whole corpus in place of one for each sentence. mu and Sigma
start as :mod:`.normal_experts` says.

The bound is below the evidence by some nats a sentence, and with full covariances by ``(log |Sigma| + sum_i log
(Sigma^-1)_ii) / 2`` more for each Gaussian that a sentence does not use: compare bounds of one kind of covariance
alone, or ``loop.importance_weighted_bound()``. See docs/logistic-normals.md.

**Reference:** Cohen, Gimpel and Smith (2008), "Logistic normal priors for unsupervised probabilistic grammar
induction", Advances in Neural Information Processing Systems 21.
"""

from collections.abc import Mapping

import pyro
from torch import Tensor

from pyrogram.distributions import Gaussian, Sentence
from pyrogram.distributions import logistic_normal as softmax_of_normal
from pyrogram.grammar import Grammar

from .normal_experts import experts_of_blocks

__all__ = ["corpus_logistic_normal", "logistic_normal"]


def logistic_normal(
    words: Tensor,
    grammar: Grammar,
    *,
    start: Mapping[str, Gaussian] | None = None,
    prior: Mapping[str, Gaussian] | None = None,
    batch_size: int | None = None,
) -> None:
    """Every sentence has weights of its own: sites ``"<block>.eta"`` and ``"<block>"`` in the plate ``"sentences"``.

    Means and covariances are ``pyro.param`` sites ``"loc.<block>"`` and ``"covariance.<block>"``, or
    ``"variance.<block>"`` if they start at a Gaussian with variances. The multinomials of a packed block, as the R
    rules of a context-free grammar are, have one Gaussian: a covariance, of shape ``(R, R)``, also ties multinomials,
    variances do not.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param start: where N(mu, Sigma) of each block starts; :func:`.initial_experts` by default.
    :param prior: N(mu, Sigma) of each block, if nothing is to be learnt of it.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    :raises ValueError: if ``start`` or ``prior`` is not given for each block, or if both are given.
    """
    normal = experts_of_blocks(words, grammar, start, prior)
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as l:
        # eta ~ N(mu, Sigma),  theta = softmax(eta)
        theta = {k: softmax_of_normal(k, normal[k], shape=block) for k, block in grammar.blocks.items()}
        pyro.sample("words", Sentence(grammar, theta), obs=words[l])


def corpus_logistic_normal(
    words: Tensor,
    grammar: Grammar,
    *,
    start: Mapping[str, Gaussian] | None = None,
    prior: Mapping[str, Gaussian] | None = None,
    batch_size: int | None = None,
) -> None:
    """One set of weights serves the whole corpus; all else is as in :func:`logistic_normal`."""
    normal = experts_of_blocks(words, grammar, start, prior)
    # eta ~ N(mu, Sigma),  theta = softmax(eta)
    theta = {k: softmax_of_normal(k, normal[k], shape=block) for k, block in grammar.blocks.items()}
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as l:
        pyro.sample("words", Sentence(grammar, theta), obs=words[l])
