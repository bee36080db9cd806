# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PCFGs with latent annotations: trees of a treebank are seen, the subtypes of their nodes are not.

The model of Matsuzaki, Miyao and Tsujii (2005), Bayesian as in Wang and Blunsom (2013), section 4.3. Every nonterminal
A has K subtypes:

1. theta[A, a] ~ Dirichlet(alpha) for each nonterminal A and each of its subtypes a,
2. each node of subtype A[a] draws a rule A[a] -> B[b] C[c] from theta[A, a], down to the words of tree l.

The subtypes of the nodes are summed out::

    grammar, trees = annotated_treebank(bank.prepared("train"), num_subtypes=2)
    model = partial(latent_annotation_pcfg, grammar=grammar)
    VariationalEM(model).run(trees)                # or CollapsedVB(model), or EM with concentration=None
    parses = grammar.parse(loop.weights(), grammar.cfg.encode(bank.sentences("test")))

Inference must tell subtypes apart: it starts from the treebank's own grammar with a little randomness,
``grammar.initial_weights(trees, "split", noise=0.01)``, the default (Petrov et al. 2006).

**References:** Matsuzaki, Miyao and Tsujii (2005), "Probabilistic CFG with latent annotations",
https://aclanthology.org/P05-1010; Wang and Blunsom (2013), "Collapsed variational Bayesian inference for PCFGs",
https://aclanthology.org/W13-3519
"""

from collections.abc import Iterable
from typing import Any

import pyro
import torch
from torch import Tensor

from pyrogram.distributions import Sentence, dirichlet_prior, simplex_of
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.grammars.cfg import CFG

__all__ = ["annotated_treebank", "latent_annotation_pcfg"]


def annotated_treebank(
    trees: Iterable[Any], num_subtypes: int, *, markov_order: int | None = 0
) -> tuple[LatentAnnotations, Tensor]:
    """The grammar of some trees with ``num_subtypes`` subtypes, and the trees as it reads them, ``(N, L)``.

    Nodes of more than two children are binarised to the right; by default the new nodes remember only their parent's
    label, and subtypes can learn what more there is to remember. Chains of phrases become one, ``S+VP``.

    :param trees: ``nltk.Tree``, their rare words replaced (:mod:`pyrogram.data.treebank`).
    """
    treebank = list(trees)
    cfg = CFG.from_trees(treebank, binarize=True, markov_order=markov_order)
    return LatentAnnotations(cfg, num_subtypes), cfg.derivations(treebank)[1]


def latent_annotation_pcfg(
    trees: Tensor,
    grammar: LatentAnnotations,
    *,
    concentration: float | Tensor | None = 1.0,
    initial_weights: Tensor | None = None,
    batch_size: int | None = None,
) -> None:
    """Trees, given the weights of annotated rules.

    :param trees: base rules in leftmost order, shape ``(N, L)``, padded with -1.
    :param concentration: alpha of the Dirichlet of every (A, a), one number or one for each event; None makes the
        weights a ``pyro.param``, for ``EM``.
    :param initial_weights: value at which that parameter starts, shape ``(R,)``; the grammar's "split" by default.
    :param batch_size: trees per minibatch, for SVI; all by default.
    """
    block = grammar.blocks["rules"]
    if concentration is None:
        if initial_weights is None and "rules" not in pyro.get_param_store():
            initial_weights = grammar.initial_weights(trees)["rules"]
        theta = pyro.param("rules", initial_weights, constraint=simplex_of(block))
    else:
        alpha = torch.as_tensor(concentration).to(trees.device, torch.get_default_dtype())
        theta = pyro.sample("rules", dirichlet_prior(block, alpha))
    with pyro.plate("corpus", len(trees), subsample_size=batch_size) as i:
        pyro.sample("trees", Sentence(grammar, {"rules": theta}), obs=trees[i])
