# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pyro distributions over derivations and sentences, and priors of weights that Pyro lacks."""

from .constraints import DependencyTrees, PaddedWords, Scores
from .gaussian import Gaussian
from .logistic_normal import Mixture, logistic_normal, shared_logistic_normal
from .partition import Experts, Link, PartitionStructure
from .projective_tree import ProjectiveDependencyTree
from .sentence import Sentence
from .tied_start import tied_starts

__all__ = [
    "DependencyTrees",
    "Experts",
    "Gaussian",
    "Link",
    "Mixture",
    "PaddedWords",
    "PartitionStructure",
    "ProjectiveDependencyTree",
    "Scores",
    "Sentence",
    "logistic_normal",
    "shared_logistic_normal",
    "tied_starts",
]
