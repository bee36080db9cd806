# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar with logistic normal priors: Cohen, Gimpel and Smith (2008), Figure 1, for any grammar.

For each sentence l and multinomial k:  eta[l, k] ~ N(mu[k], Sigma[k]),  theta[l, k] = softmax(eta[l, k]), and the
sentence is generated with weights theta[l]. The corpus is used to learn mu and Sigma (empirical Bayes), and softmax(mu)
is the point estimate.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache

import pyro
import torch
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Gaussian, Sentence
from pyrogram.distributions import logistic_normal as draw
from pyrogram.grammar import Grammar

#: Weights start at no less, for an event whose mean is minus infinity could never come back.
LEAST_WEIGHT = 1e-4


def logistic_normal(
    words: Tensor,
    grammar: Grammar,
    *,
    initial_weights: Mapping[str, Tensor] | None = None,
    covariance: Mapping[str, Tensor] | None = None,
    diagonal: bool = False,
    learn: bool = True,
    per_sentence: bool = True,
    batch_size: int | None = None,
) -> None:
    """Every block is a logistic normal named after it; its Gaussian is site ``"<block>.eta"``.

    Means and covariances are ``pyro.param``s ``"loc.<block>"`` and ``"covariance.<block>"``, or ``"variance.<block>"``
    if ``diagonal``. The multinomials of a packed block, as the R rules of a context-free grammar are, have one
    Gaussian: without ``diagonal`` its covariance, of shape ``(R, R)``, also ties multinomials.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param initial_weights: where the means start: at the logarithms of these weights, raised to 1e-4 where they are
        less; by default the grammar's own starting point.
    :param covariance: where covariances start, by block, shape ``(*batch, N, N)``, broadcast over multinomials, as
        :func:`pyrogram.grammars.start_covariances` gives them; a block without one starts at the identity.
    :param diagonal: learn only variances; of given covariances the diagonals are used.
    :param learn: whether means and covariances are parameters, or fixed where they would start.
    :param per_sentence: draw weights for every sentence, as in the papers; else one set for the whole corpus.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """
    check_names("covariance", covariance, grammar.blocks)
    start = cache(lambda: initial_experts(words, grammar, initial_weights, covariance, diagonal))
    priors = {name: prior(name, start, name, block.shape, diagonal, learn) for name, block in grammar.blocks.items()}

    def weights() -> dict[str, Tensor]:
        return {
            name: draw(name, p.loc, p.covariance, variance=p.variance, shape=grammar.blocks[name])
            for name, p in priors.items()
        }

    shared = None if per_sentence else weights()
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as i:
        pyro.sample("words", Sentence(grammar, weights() if shared is None else shared), obs=words[i])


def initial_experts(
    words: Tensor,
    grammar: Grammar,
    initial_weights: Mapping[str, Tensor] | None = None,
    covariance: Mapping[str, Tensor] | None = None,
    diagonal: bool = False,
) -> dict[str, Gaussian]:
    """One expert for each multinomial, at the logarithms of weights: by block, as in :func:`logistic_normal`."""
    weights = grammar.initial_weights(words) if initial_weights is None else initial_weights
    dtype = torch.get_default_dtype()
    found = {}
    for name, block in grammar.blocks.items():
        loc = weights[name].to(words.device, dtype).clamp_min(LEAST_WEIGHT).log()
        given = (covariance or {}).get(name)
        if given is None and diagonal:
            found[name] = Gaussian(loc, variance=loc.new_ones(block.shape[-1]))
        else:
            found[name] = with_covariance(
                loc, (torch.eye(block.shape[-1]) if given is None else given).to(loc), diagonal
            )
    return found


def with_covariance(loc: Tensor, covariance: Tensor, diagonal: bool) -> Gaussian:
    """A Gaussian with a covariance, or with its diagonal alone."""
    if diagonal:
        return Gaussian(loc, variance=covariance.diagonal(dim1=-2, dim2=-1))
    return Gaussian(loc, covariance)


def prior(
    name: str,
    start: Callable[[], Mapping[str, Gaussian]],
    family: str,
    shape: torch.Size,
    diagonal: bool,
    learn: bool,
) -> Gaussian:
    """Means and covariances of a family of experts: parameters that start at ``start()[family]``; or just these.

    :param name: of the parameters, after their kind and a dot.
    :param shape: of the family.
    :raises ValueError: if the start has a covariance where variances are to be learnt, or the other way round.
    """
    if not learn:
        return start()[family]
    kind = "variance" if diagonal else "covariance"
    constraint = constraints.positive if diagonal else constraints.positive_definite
    full = shape if diagonal else torch.Size([*shape, shape[-1]])

    def spread() -> Tensor:
        tensor: Tensor | None = getattr(start()[family], kind)
        if tensor is None:
            raise ValueError(f"with diagonal={diagonal} the start of {family!r} needs a {kind}")
        return tensor.detach().expand(full).clone()

    loc = pyro.param(f"loc.{name}", lambda: start()[family].loc.detach().expand(shape).clone())
    return Gaussian(loc, **{kind: pyro.param(f"{kind}.{name}", spread, constraint=constraint)})


def check_names(argument: str, given: Mapping[str, object] | None, known: Collection[str]) -> None:
    """Refuse what would be ignored.

    :raises ValueError: if ``given`` has a name that is not ``known``.
    """
    unknown = sorted(set(given or ()) - set(known))
    if unknown:
        raise ValueError(f"{argument} has no use for {unknown}; there are {list(known)}")
