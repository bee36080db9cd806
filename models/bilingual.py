# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars of two or more languages that share normal experts: Cohen and Smith (2009), section 4.3; no parallel text.

For each sentence l of each language:

1. eta[l, n] ~ N(mu[n], Sigma[n]) for each expert n of the language, among them experts that all languages have,
2. theta[l, k] = softmax(mean of the segments of experts that make up multinomial k),
3. sentence l ~ Grammar of the language(theta[l]).

As experts are drawn for every sentence, languages share the experts' mean and covariance.

**Reference:** Cohen and Smith (2009), "Shared logistic normal distributions for soft parameter tying in unsupervised
grammar induction", https://aclanthology.org/N09-1009
"""

from collections.abc import Collection, Mapping

import pyro
from torch import Tensor

from pyrogram.distributions import Gaussian, PartitionStructure, Sentence, tied_starts
from pyrogram.distributions import shared_logistic_normal as softmax_of_mixed_normals
from pyrogram.distributions.tied_start import shared_families
from pyrogram.grammar import Grammar

from .normal_experts import given_or_learnt, initial_experts

__all__ = ["bilingual"]


def bilingual(
    words: Mapping[str, Tensor],
    grammars: Mapping[str, Grammar],
    structures: Mapping[str, PartitionStructure],
    *,
    start: Mapping[str, Mapping[str, Gaussian]] | None = None,
    shared: Collection[str] | None = None,
    batch_size: int | None = None,
) -> None:
    """Sentences ``"<language>.words"`` in plates ``"<language>.sentences"``, with experts that languages share.

    Blocks are sites ``"<language>.<block>"``, families ``"<language>.<family>.eta"``; parameters are
    ``"loc.experts.<family>"`` for families that are shared, ``"loc.experts.<language>.<family>"`` for the others, and
    likewise ``"covariance..."`` or ``"variance..."``.

    :param words: by language, sentences, shape ``(N, n)``, padded with -1.
    :param grammars: by language.
    :param structures: by language.
    :param start: by language, where each family starts, as :func:`pyrogram.distributions.tied_starts` gives it from
        each language's untied experts (the default); what is shared starts where the first language has it.
    :param shared: families whose experts are shared; by default all that several structures have and that are not the
        own experts of a block. Experts of different lengths, as those of attachments under different alphabets are,
        cannot be shared: map the languages to one alphabet, or leave these families out here.
    :param batch_size: sentences of each language per minibatch, for SVI; all by default.
    :raises ValueError: if the languages of arguments differ, or if a family cannot be shared.
    """
    for argument, by_language in (("grammars", grammars), ("structures", structures), ("start", start)):
        if by_language is not None and set(by_language) != set(words):
            raise ValueError(f"{argument} must be given for the languages {list(words)}, not for {list(by_language)}")
    normal = _experts(words, grammars, structures, start, shared_families(structures, shared))
    for language in words:
        with pyro.plate(f"{language}.sentences", len(words[language]), subsample_size=batch_size) as l:
            # eta[n] ~ N(mu[n], Sigma[n]),  theta[k] = softmax(mean of its segments of eta)
            theta = softmax_of_mixed_normals(language, normal[language], structures[language])
            pyro.sample(f"{language}.words", Sentence(grammars[language], theta), obs=words[language][l])


def _experts(
    words: Mapping[str, Tensor],
    grammars: Mapping[str, Grammar],
    structures: Mapping[str, PartitionStructure],
    start: Mapping[str, Mapping[str, Gaussian]] | None,
    shared: frozenset[str],
) -> dict[str, dict[str, Gaussian]]:
    """By language and family, learnt N(mu, Sigma): of shared families the same tensors in every language."""
    names = {l: {f: f if f in shared else f"{l}.{f}" for f in structures[l].experts} for l in words}
    shapes = {name: structures[l].experts[f].shape for l in words for f, name in names[l].items()}

    def joined(starts: Mapping[str, Mapping[str, Gaussian]]) -> dict[str, Gaussian]:
        by_name: dict[str, Gaussian] = {}
        for l, families in names.items():
            if set(starts[l]) != set(families):
                raise ValueError(f"start[{l!r}] must be given for {list(families)}, not for {list(starts[l])}")
            for f, name in families.items():
                by_name.setdefault(name, starts[l][f])
        return by_name

    def default() -> dict[str, Gaussian]:
        untied = {l: initial_experts(words[l], grammars[l]) for l in words}
        return joined(tied_starts(structures, untied, shared=shared))

    normals = given_or_learnt(shapes, "experts.", None if start is None else joined(start), None, default)
    return {l: {f: normals[name] for f, name in names[l].items()} for l in words}
