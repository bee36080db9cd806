# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models of the papers, each a page of Pyro.

A module of this package never has the name of a model, so ``pyrogram.models.dirichlet`` can only be the model.
"""

from pyrogram.grammars.segmentation import unigram_grammar, verb_grammar

from . import morphology
from .bilingual_grammars import bilingual
from .dirichlet_priors import dirichlet, maximum_likelihood
from .latent_annotations import annotated_treebank, latent_annotation_pcfg
from .logistic_normal_priors import corpus_logistic_normal, logistic_normal
from .normal_experts import initial_experts, initial_tied_experts
from .pitman_yor_dependencies import PRIORS, Prior, observed, pitman_yor_dependency
from .shared_logistic_normal_priors import corpus_shared_logistic_normal, shared_logistic_normal
from .topics import syntactic_topics

__all__ = [
    "PRIORS",
    "Prior",
    "annotated_treebank",
    "bilingual",
    "corpus_logistic_normal",
    "corpus_shared_logistic_normal",
    "dirichlet",
    "initial_experts",
    "initial_tied_experts",
    "latent_annotation_pcfg",
    "logistic_normal",
    "maximum_likelihood",
    "morphology",
    "observed",
    "pitman_yor_dependency",
    "shared_logistic_normal",
    "syntactic_topics",
    "unigram_grammar",
    "verb_grammar",
]


def __dir__() -> list[str]:
    return __all__
