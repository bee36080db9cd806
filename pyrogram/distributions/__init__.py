# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pyro distributions over derivations and sentences, and priors of weights that Pyro lacks."""

from .constraints import DependencyTrees, LeftmostDerivations, PaddedWords, Scores
from .experts import Experts, Link
from .gaussian import Gaussian
from .hierarchical_pitman_yor import Contexts, HierarchicalPitmanYor
from .logistic_normal import Mixture, logistic_normal, shared_logistic_normal
from .packed_dirichlet import PackedDirichlet, dirichlet_prior
from .partition import PartitionStructure
from .pcfg_derivation import PCFGDerivation
from .projective_tree import ProjectiveDependencyTree
from .ragged import RaggedSimplex, ragged_simplex, simplex_of
from .sentence import Sentence
from .sibling_tree import SiblingDependencyTree
from .state_sequence import StateSequence
from .tied_start import tied_starts

__all__ = [
    "Contexts",
    "DependencyTrees",
    "Experts",
    "Gaussian",
    "HierarchicalPitmanYor",
    "LeftmostDerivations",
    "Link",
    "Mixture",
    "PCFGDerivation",
    "PackedDirichlet",
    "PaddedWords",
    "PartitionStructure",
    "ProjectiveDependencyTree",
    "RaggedSimplex",
    "Scores",
    "Sentence",
    "SiblingDependencyTree",
    "StateSequence",
    "dirichlet_prior",
    "logistic_normal",
    "ragged_simplex",
    "shared_logistic_normal",
    "simplex_of",
    "tied_starts",
]
