# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pyro distributions over derivations and sentences, and priors of weights that Pyro lacks."""

from pyrogram.restaurants.restaurants import Paths

from .constraints import (
    DependencyTrees,
    LabelledDependencyTrees,
    LeftmostDerivations,
    PaddedWords,
    RecursiveDerivations,
    Scores,
)
from .dependency_tree import of_heads
from .experts import Experts, Link
from .gaussian import Gaussian
from .grandparent_tree import GrandparentDependencyTree
from .hierarchical_pitman_yor import Contexts, HierarchicalPitmanYor
from .higher_order_chain import HigherOrderChain
from .known_derivation import KnownDerivation
from .labelled_tree import LabelledDependencyTree
from .logistic_normals import LogisticNormalWeights, logistic_normal, shared_logistic_normal
from .nonprojective_tree import DependencyTree
from .packed_dirichlet import PackedDirichlet, dirichlet_prior
from .partition import PartitionStructure
from .pcfg_derivation import PCFGDerivation
from .projective_tree import ProjectiveDependencyTree
from .ragged import RaggedSimplex, ragged_simplex, simplex_of
from .recursive_derivation import RecursiveDerivation
from .segmentation import Segmentation, Segmentations
from .sentence import Sentence
from .sibling_tree import SiblingDependencyTree
from .span_tree import SpanTree, SpanTrees
from .state_sequence import StateSequence
from .tied_start import tied_starts

__all__ = [
    "Contexts",
    "DependencyTree",
    "DependencyTrees",
    "Experts",
    "Gaussian",
    "GrandparentDependencyTree",
    "HierarchicalPitmanYor",
    "HigherOrderChain",
    "KnownDerivation",
    "LabelledDependencyTree",
    "LabelledDependencyTrees",
    "LeftmostDerivations",
    "Link",
    "LogisticNormalWeights",
    "PCFGDerivation",
    "PackedDirichlet",
    "PaddedWords",
    "PartitionStructure",
    "Paths",
    "ProjectiveDependencyTree",
    "RaggedSimplex",
    "RecursiveDerivation",
    "RecursiveDerivations",
    "Scores",
    "Segmentation",
    "Segmentations",
    "Sentence",
    "SiblingDependencyTree",
    "SpanTree",
    "SpanTrees",
    "StateSequence",
    "dirichlet_prior",
    "logistic_normal",
    "of_heads",
    "ragged_simplex",
    "shared_logistic_normal",
    "simplex_of",
    "tied_starts",
]


def __dir__() -> list[str]:
    return __all__
