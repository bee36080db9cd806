# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models of the papers, each a page of Pyro."""

from .dirichlet import dirichlet, maximum_likelihood
from .latent_annotation_pcfg import annotated_treebank, latent_annotation_pcfg
from .logistic_normal import logistic_normal
from .morphology import unigram_grammar, verb_grammar
from .pitman_yor_dependency import PRIORS, Prior, observed, pitman_yor_dependency
from .shared_logistic_normal import bilingual, shared_logistic_normal
from .syntactic_topics import syntactic_topics

__all__ = [
    "PRIORS",
    "Prior",
    "annotated_treebank",
    "bilingual",
    "dirichlet",
    "latent_annotation_pcfg",
    "logistic_normal",
    "maximum_likelihood",
    "observed",
    "pitman_yor_dependency",
    "shared_logistic_normal",
    "syntactic_topics",
    "unigram_grammar",
    "verb_grammar",
]
