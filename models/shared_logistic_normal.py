# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar with shared logistic normal priors, and grammars of several languages that share experts.

Cohen and Smith (2009), section 3.2, for any grammar: for each sentence the experts eta[n] ~ N(mu[n], Sigma[n]) are
drawn; each multinomial is the softmax of the mean of its segments of experts; the sentence is generated with these
weights. :func:`pyrogram.grammars.tie` makes the paper's partition structures.

The paper trains without tying first and adds it then (section 4.1)::

    VariationalEM(models.logistic_normal).run(words, grammar)
    untied = {b: Gaussian(pyro.param(f"loc.{b}"), pyro.param(f"covariance.{b}")) for b in grammar.blocks}
    start = structure.tied_start(untied)
    VariationalEM(models.shared_logistic_normal).run(words, grammar, structure, start=start)
"""

from collections.abc import Collection, Mapping
from functools import cache, partial

import pyro
from torch import Tensor

from pyrogram.distributions import Gaussian, PartitionStructure, Sentence
from pyrogram.distributions import shared_logistic_normal as draw
from pyrogram.distributions.tied_start import shared_families, tied_starts
from pyrogram.grammar import Grammar

from .logistic_normal import check_names, initial_experts, prior

Starts = Mapping[str, Gaussian]


def shared_logistic_normal(
    words: Tensor,
    grammar: Grammar,
    structure: PartitionStructure,
    *,
    start: Starts | None = None,
    initial_weights: Mapping[str, Tensor] | None = None,
    covariance: Mapping[str, Tensor] | None = None,
    diagonal: bool = False,
    learn: bool = True,
    per_sentence: bool = True,
    batch_size: int | None = None,
) -> None:
    """Every block is site ``"weights.<block>"``, every family of experts is site ``"weights.<family>.eta"``.

    Means and covariances are ``pyro.param``s ``"loc.experts.<family>"`` and ``"covariance.experts.<family>"``, or
    ``"variance.experts.<family>"`` if ``diagonal``: other names than those of :func:`.logistic_normal`, so that one can
    be run after the other.

    :param words: sentences, shape ``(N, n)``, padded with -1.
    :param structure: the partition structure of the grammar's blocks.
    :param start: where each family starts, for example from ``structure.tied_start``.
    :param initial_weights: without ``start``: the weights at which softmax of the mixed means starts; by default the
        grammar's own starting point.
    :param covariance: without ``start``: where covariances start, by family, as
        :func:`pyrogram.grammars.start_covariances` gives them; a family without one starts at the identity.
    :param diagonal: learn only variances; ``start`` then has variances.
    :param learn: whether means and covariances are parameters, or fixed where they would start.
    :param per_sentence: draw experts for every sentence, as in the paper; else once for the whole corpus.
    :param batch_size: sentences per minibatch, for SVI; all by default.
    """

    check_names("covariance", covariance, structure.experts)
    if start is not None and set(start) != set(structure.experts):
        raise ValueError(f"start must be given for {list(structure.experts)}, not for {list(start)}")

    @cache
    def starts() -> Starts:
        if start is not None:
            return start
        own = initial_experts(words, grammar, initial_weights, covariance, diagonal)
        return structure.tied_start(own, covariance)

    experts = {
        family: prior(f"experts.{family}", starts, family, e.shape, diagonal, learn)
        for family, e in structure.experts.items()
    }
    shared = None if per_sentence else draw("weights", experts, structure)
    with pyro.plate("sentences", len(words), subsample_size=batch_size) as i:
        weights = draw("weights", experts, structure) if shared is None else shared
        pyro.sample("words", Sentence(grammar, weights), obs=words[i])


def bilingual(
    words: Mapping[str, Tensor],
    grammars: Mapping[str, Grammar],
    structures: Mapping[str, PartitionStructure],
    *,
    start: Mapping[str, Starts] | None = None,
    initial_weights: Mapping[str, Mapping[str, Tensor]] | None = None,
    covariance: Mapping[str, Mapping[str, Tensor]] | None = None,
    shared: Collection[str] | None = None,
    diagonal: bool = False,
    learn: bool = True,
    batch_size: int | None = None,
) -> None:
    """Grammars of two or more languages, tied by experts that they share (2009, section 4.3); no parallel text.

    Experts are drawn for every sentence, so what languages share is the experts' mean and covariance. Blocks are sites
    ``"<language>.<block>"``, families ``"<language>.<family>.eta"``, sentences ``"<language>.words"`` in plates
    ``"<language>.sentences"``; parameters are ``"loc.experts.<family>"`` for families that are shared and
    ``"loc.experts.<language>.<family>"`` for the others, and so on.

    :param words: by language, sentences, shape ``(N, n)``, padded with -1.
    :param grammars: by language.
    :param structures: by language.
    :param start: by language, where each family starts, as :func:`pyrogram.distributions.tied_starts` gives
        it from each language's untied experts; what is shared starts where the first language has it.
    :param initial_weights: without ``start``, by language.
    :param covariance: without ``start``: where covariances start, by language and family.
    :param shared: families whose experts are shared; by default all that several structures have and that are not the
        own experts of a block. Experts of different lengths, as those of attachments under different alphabets are,
        cannot be shared: map the languages to one alphabet, or leave these families out here.
    :param diagonal: learn only variances.
    :param learn: whether means and covariances are parameters, or fixed where they would start.
    :param batch_size: sentences of each language per minibatch, for SVI; all by default.
    :raises ValueError: if the languages of arguments differ, or if a family cannot be shared.
    """
    for argument, given in (("grammars", grammars), ("structures", structures), ("start", start)):
        if given is not None and set(given) != set(words):
            raise ValueError(f"{argument} must be given for the languages {list(words)}, not for {list(given)}")
    check_names("initial_weights", initial_weights, words)
    check_names("covariance", covariance, words)
    for l, matrices in (covariance or {}).items():
        check_names(f"covariance[{l!r}]", matrices, structures[l].experts)
    together = shared_families(structures, shared)

    @cache
    def all_starts() -> Mapping[str, Starts]:
        if start is not None:
            return start
        weights, matrices = initial_weights or {}, covariance or {}
        own = {l: initial_experts(words[l], grammars[l], weights.get(l), matrices.get(l), diagonal) for l in words}
        return tied_starts(structures, own, matrices, shared=together)

    def starts(language: str) -> Starts:
        return all_starts()[language]

    made: dict[str, Gaussian] = {}
    for l in words:
        experts = {}
        for family, e in structures[l].experts.items():
            name = family if family in together else f"{l}.{family}"
            if name not in made:
                made[name] = prior(f"experts.{name}", partial(starts, l), family, e.shape, diagonal, learn)
            experts[family] = made[name]
        with pyro.plate(f"{l}.sentences", len(words[l]), subsample_size=batch_size) as i:
            weights = draw(l, experts, structures[l])
            pyro.sample(f"{l}.words", Sentence(grammars[l], weights), obs=words[l][i])
