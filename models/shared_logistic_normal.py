# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar with shared logistic normal priors: Cohen and Smith (2009), section 3.2, for any grammar.

For each sentence l:

1. eta[l, n] ~ N(mu[n], Sigma[n]) for each expert n,
2. theta[l, k] = softmax(mean of the segments of experts that make up multinomial k),
3. sentence l ~ Grammar(theta[l]).

The first two are one call of :func:`pyrogram.distributions.shared_logistic_normal`, under the name
``softmax_of_mixed_normals``.
Which segments make up which multinomial is said by a partition structure; :func:`pyrogram.grammars.tie` makes those of
the paper. The paper trains without tying first and adds it then (section 4.1)::

    VariationalEM(logistic_normal).run(words, grammar)
    untied = {b: Gaussian(pyro.param(f"loc.{b}"), pyro.param(f"covariance.{b}")) for b in grammar.blocks}
    start = structure.tied_start(untied)
    VariationalEM(shared_logistic_normal).run(words, grammar, structure, start=start)

**Reference:** Cohen and Smith (2009), "Shared logistic normal distributions for soft parameter tying in unsupervised
grammar induction", https://aclanthology.org/N09-1009
"""

from collections.abc import Mapping

import pyro
from torch import Tensor

from pyrogram.distributions import Gaussian, PartitionStructure, Sentence
from pyrogram.distributions import shared_logistic_normal as softmax_of_mixed_normals
from pyrogram.grammar import Grammar

from .normal_experts import experts_of_families

__all__ = ["corpus_shared_logistic_normal", "shared_logistic_normal"]


def shared_logistic_normal(
    words: Tensor,
    grammar: Grammar,
    structure: PartitionStructure,
    *,
    start: Mapping[str, Gaussian] | None = None,
    prior: Mapping[str, Gaussian] | None = None,
    batch_size: int | None = None,
) -> None:
    """Every sentence has experts of its own: sites ``"weights.<family>.eta"``, and ``"weights.<block>"`` of weights.

    Means and covariances are ``pyro.param`` sites ``"loc.experts.<family>"`` and ``"covariance.experts.<family>"``, or
    ``"variance.experts.<family>"`` if they start at a Gaussian with variances. The names are not those of
    :func:`pyrogram.models.logistic_normal.logistic_normal`, so that one can be run after the other.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param structure: the partition structure of the grammar's blocks.
    :param start: where N(mu, Sigma) of each family of experts starts, for example at ``structure.tied_start(untied)``;
        :func:`.initial_tied_experts` by default.
    :param prior: N(mu, Sigma) of each family, if nothing is to be learnt of it.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    :raises ValueError: if ``start`` or ``prior`` is not given for each family, or if both are given.
    """
    normal = experts_of_families(words, grammar, structure, start, prior)
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as l:
        # eta[n] ~ N(mu[n], Sigma[n]),  theta[k] = softmax(mean of its segments of eta)
        theta = softmax_of_mixed_normals("weights", normal, structure)
        pyro.sample("words", Sentence(grammar, theta), obs=words[l])


def corpus_shared_logistic_normal(
    words: Tensor,
    grammar: Grammar,
    structure: PartitionStructure,
    *,
    start: Mapping[str, Gaussian] | None = None,
    prior: Mapping[str, Gaussian] | None = None,
    batch_size: int | None = None,
) -> None:
    """Experts are drawn once for the whole corpus; all else is as in :func:`shared_logistic_normal`."""
    normal = experts_of_families(words, grammar, structure, start, prior)
    # eta[n] ~ N(mu[n], Sigma[n]),  theta[k] = softmax(mean of its segments of eta)
    theta = softmax_of_mixed_normals("weights", normal, structure)
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as l:
        pyro.sample("words", Sentence(grammar, theta), obs=words[l])
