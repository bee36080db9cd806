# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models of the papers, each a page of Pyro: a module, with the model under the module's own name.

>>> from pyrogram.models.dirichlet import dirichlet
"""

from pyrogram.grammars.segmentation import unigram_grammar, verb_grammar

from . import (
    arc_scorer,
    bilingual,
    dirichlet,
    latent_annotation_pcfg,
    logistic_normal,
    morphology,
    pitman_yor_dependency,
    shared_logistic_normal,
    syntactic_topics,
    word_segmentation,
)
from .dirichlet import maximum_likelihood
from .latent_annotation_pcfg import annotated_treebank
from .logistic_normal import corpus_logistic_normal
from .normal_experts import initial_experts, initial_tied_experts
from .pitman_yor_dependency import PITMAN_YOR_PRIORS, PitmanYorPrior, observed_events
from .shared_logistic_normal import corpus_shared_logistic_normal
from .word_segmentation import GOLDWATER, goldwater_temperatures

__all__ = [
    "GOLDWATER",
    "PITMAN_YOR_PRIORS",
    "PitmanYorPrior",
    "annotated_treebank",
    "arc_scorer",
    "bilingual",
    "corpus_logistic_normal",
    "corpus_shared_logistic_normal",
    "dirichlet",
    "goldwater_temperatures",
    "initial_experts",
    "initial_tied_experts",
    "latent_annotation_pcfg",
    "logistic_normal",
    "maximum_likelihood",
    "morphology",
    "observed_events",
    "pitman_yor_dependency",
    "shared_logistic_normal",
    "syntactic_topics",
    "unigram_grammar",
    "verb_grammar",
    "word_segmentation",
]


def __dir__() -> list[str]:
    return __all__
