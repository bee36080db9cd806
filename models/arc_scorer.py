# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of given sentences whose arcs a scorer scores: a conditional random field over projective trees.

1. weights ~ Normal(0, scale^2), each of them, or parameters without a prior;
2. the tree of each sentence ~ ProjectiveDependencyTree(scorer(sentence; weights)).

The scorer is any ``torch.nn.Module``: :class:`pyrogram.knowledge.ArcScorer`, or a network. With the trees of other
languages observed, its weights are learnt by SVI; :meth:`.ArcScorer.fitted` does the same for its own weights by
exact gradients, sentence after sentence.

**Reference:** McDonald, R., Petrov, S. and Hall, K. (2011). Multi-source transfer of delexicalized dependency parsers.
EMNLP. https://aclanthology.org/D11-1006/ (with other features, and a perceptron)
"""

from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

from pyrogram.distributions import ProjectiveDependencyTree

__all__ = ["arc_scorer"]


def arc_scorer(
    scorer: nn.Module,
    inputs: Sequence[Tensor],
    lengths: Tensor,
    heads: Tensor | None = None,
    *,
    scale: float | None = None,
    batch_size: int | None = None,
) -> None:
    """Site ``"trees"`` (N, n); a site for each parameter of the scorer, named after it, or params by ``pyro.module``.

    :param scorer: gives scores of arcs, shape ``(N, n+1, n+1)`` [head, dependent].
    :param inputs: what the scorer is called with, each of N sentences, see :attr:`.Examples.inputs`.
    :param lengths: numbers of words, shape ``(N,)``.
    :param heads: observed trees, shape ``(N, n)``, padded with -1; None: they are drawn.
    :param scale: standard deviation of the prior of every weight; None: the weights are params.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """
    weights = {}
    if scale is None:
        pyro.module("scorer", scorer)
    else:
        for name, weight in scorer.named_parameters():
            prior = dist.Normal(torch.zeros_like(weight), scale).to_event(weight.dim())
            weights[name] = pyro.sample(name, prior)
    with pyro.plate("sentences", len(lengths), subsample_size=batch_size) as index:
        scores = torch.func.functional_call(scorer, weights, tuple(x[index] for x in inputs))
        trees = ProjectiveDependencyTree(scores, lengths=lengths[index], valence=False)
        pyro.sample("trees", trees, obs=None if heads is None else heads[index])
