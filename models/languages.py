# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A prior over languages: the grammar of a target is drawn around mixtures of the grammars of K source languages.

For the root, and for each head on each side (its children and its stops alike):

1. pi ~ Dirichlet(1 + alpha base): the shares of the sources, base being who is likely at all;
2. theta[r] ~ Dirichlet(strength * sum over k of pi[k] theta[k, r] + floor) for each multinomial r of the target.

And for each sentence l of the target:

3. sentence l ~ Grammar(theta), its tree summed out.

In :func:`languages` the sources' theta[k] are given, as :meth:`.Sources.weights` has them. In
:func:`languages_with_trees` they are drawn, too, and the sources' sentences are observed with their trees:

0. theta[k, r] ~ Dirichlet(own);  sentence and tree l of source k ~ Grammar(theta[k]).

What the target takes from whom is the posterior of pi, under any inference: ``VariationalEM(languages)``,
``EM(languages, unconstrained=True)``, ``TreeHastings(languages)``, NUTS. :meth:`.Sources.shares` is the limit of
infinite strength, by EM. The logistic normal of Cohen and Smith (2009) over all languages, whose mean and covariance
are those of the sources, is ``corpus_logistic_normal(words, grammar, prior=sources.gaussians())``.

**References:**

[1] Cohen, S. B., Das, D. and Smith, N. A. (2011). Unsupervised structure prediction with non-parallel multilingual
guidance. EMNLP. https://aclanthology.org/D11-1005/ [2] Cohen, S. B. and Smith, N. A. (2009). Shared logistic normal
distributions for soft parameter tying in unsupervised grammar induction. https://aclanthology.org/N09-1009
"""

from collections.abc import Mapping

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammar import Known, Weights
from pyrogram.grammars import DMV

from .dirichlet import sentences

__all__ = ["languages", "languages_with_trees"]


def languages(
    words: Tensor,
    grammar: DMV,
    sources: Mapping[str, Tensor],
    *,
    base: Tensor | None = None,
    alpha: float = 50.0,
    strength: float = 1000.0,
    floor: float = 0.1,
    known: Known | None = None,
    batch_size: int | None = None,
) -> None:
    """Sites ``"shares.root"`` (K,) and ``"shares.heads"`` (V, 2, K); a site for each block, named after it.

    :param words: sentences of the target, shape ``(N, n)``, padded with -1.
    :param sources: the grammars of the sources, by block, shape ``(K, *block.shape)``.
    :param base: who is likely at all, shape ``(K,)``, sums to one; all alike by default.
    :param alpha: how many events the base counts as.
    :param strength: how many events the mixture counts as, in each multinomial.
    :param floor: is added to every concentration.
    :param known: what is known of derivations, see :class:`.Sentence`: a punctuation's costs of arcs, say.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """
    K, V = sources["root"].shape
    base = torch.full((K,), 1 / K, dtype=sources["root"].dtype) if base is None else base
    # pi ~ Dirichlet(1 + alpha base)
    of_root = pyro.sample("shares.root", dist.Dirichlet(1 + alpha * base))
    of_heads = pyro.sample("shares.heads", dist.Dirichlet((1 + alpha * base).expand(V, 2, K)).to_event(2))
    mean = {
        "root": torch.einsum("k,kc->c", of_root, sources["root"]),
        "attach": torch.einsum("hdk,khd...->hd...", of_heads, sources["attach"]),
        "stop": torch.einsum("hdk,khd...->hd...", of_heads, sources["stop"]),
    }
    # theta[r] ~ Dirichlet(strength * mean[r] + floor)
    theta = {
        name: pyro.sample(name, dirichlet_prior(block, strength * mean[name] + floor))
        for name, block in grammar.blocks.items()
    }
    sentences(words, grammar, theta, batch_size, known)


def languages_with_trees(
    words: Tensor,
    grammar: DMV,
    treebanks: Mapping[str, tuple[Tensor, Tensor]],
    *,
    own: float = 0.5,
    base: Tensor | None = None,
    alpha: float = 50.0,
    strength: float = 1000.0,
    floor: float = 0.1,
    known: Known | None = None,
) -> None:
    """Sites of :func:`languages`, and for each source ``"<source>.<block>"`` and the observed ``"<source>.words"``.

    :param treebanks: by source, words and heads, each of shape ``(N, n)``, padded with -1.
    :param own: the concentration of the sources' multinomials.

    The others are those of :func:`languages`.
    """
    drawn: list[Weights] = []
    for source, (text, heads) in treebanks.items():
        # theta[k, r] ~ Dirichlet(own);  sentence and tree ~ Grammar(theta[k])
        theta = {b: pyro.sample(f"{source}.{b}", dirichlet_prior(block, own)) for b, block in grammar.blocks.items()}
        with pyro.plate(f"{source}.sentences", len(text)):
            pyro.sample(f"{source}.words", Sentence(grammar, theta, known=heads), obs=text)
        drawn.append(theta)
    sources = {name: torch.stack([theta[name] for theta in drawn]) for name in grammar.blocks}
    languages(words, grammar, sources, base=base, alpha=alpha, strength=strength, floor=floor, known=known)
