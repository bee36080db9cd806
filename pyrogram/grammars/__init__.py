# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars: blocks of multinomials with a chart."""

from pyrogram.bias import Bias
from pyrogram.grammar import Block, Grammar, PackedBlock
from pyrogram.sentences import Sentences

from . import segmentation
from .annotations import LatentAnnotations
from .cfg import CFG
from .cfg_text import Word
from .cfg_trees import TreeTransform
from .distance_dmv import DistanceDMV
from .dmv import DMV, DMVDerivation
from .hmm import HMM
from .lexical_dependencies import LexicalDependencies
from .lexical_parser import LexicalParser, PitmanYorPredictor
from .lexical_tagger import LexicalTagger
from .lexicalised import LexicalisedPCFG
from .low_rank import SimplePCFG, TensorPCFG
from .recursive import RecursiveGrammar
from .sparse_dmv import SparseDMV
from .tying import TIES, family_covariance, start_covariances, tie
from .word_class_weights import weights_of_classes
from .word_segmentation import BigramSegmentation, SegmentedUtterances, UnigramSegmentation

__all__ = [
    "CFG",
    "DMV",
    "HMM",
    "TIES",
    "Bias",
    "BigramSegmentation",
    "Block",
    "DMVDerivation",
    "DistanceDMV",
    "Grammar",
    "LatentAnnotations",
    "LexicalDependencies",
    "LexicalParser",
    "LexicalTagger",
    "LexicalisedPCFG",
    "PackedBlock",
    "PitmanYorPredictor",
    "RecursiveGrammar",
    "SegmentedUtterances",
    "Sentences",
    "SimplePCFG",
    "SparseDMV",
    "TensorPCFG",
    "TreeTransform",
    "UnigramSegmentation",
    "Word",
    "family_covariance",
    "segmentation",
    "start_covariances",
    "tie",
    "weights_of_classes",
]


def __dir__() -> list[str]:
    return __all__
