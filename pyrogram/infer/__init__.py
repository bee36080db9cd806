# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that learn grammars from a Pyro model, and the exact ELBO for Pyro's own SVI."""

from pyrogram.topics.tokens import tokens as topic_tokens
from pyrogram.tree_statistics import tree_statistics

from .classes_of_words import WordClasses, word_classes
from .diagnostics.agreement import Consensus, consensus
from .diagnostics.calibration import Calibration, calibrate, draws_by_chain, draws_by_guide
from .diagnostics.comparison import Comparison, Difference, compare
from .diagnostics.convergence import Convergence, convergence
from .diagnostics.inference_data import to_inference_data
from .diagnostics.predictive import PredictiveCheck, predictive_check
from .distributed import AllReduce, all_reduce
from .elbo import TraceGrammar_ELBO
from .lexical.hastings import SiblingHastings
from .loops.base import GrammarLoop
from .loops.collapsed_vb import CollapsedVB
from .loops.constraints import AtLeast, AtMost, Constraint
from .loops.em import EM
from .loops.importance import ImportanceWeightedBound
from .loops.logistic_normal_vb import EStep
from .loops.schedules import Annealed, Curriculum, Decaying, HardSteps, Schedule
from .loops.variational_em import VariationalEM
from .model.structure import ModelError
from .model.tangent import tangent
from .pitman_yor.sampler import PitmanYorSampler
from .pitman_yor.segmentation import SegmentationHastings
from .prediction import posterior_predictive
from .refitting import Refitted, refit
from .running.reduce import Reduce
from .samplers.trees import TreeGibbs, TreeHastings
from .topics.gibbs import TopicGibbs
from .topics.predictive import SyntacticTopics
from .trees.drawing import infer_trees
from .trees.summing_out import collapse_trees

__all__ = [
    "EM",
    "AllReduce",
    "Annealed",
    "AtLeast",
    "AtMost",
    "Calibration",
    "CollapsedVB",
    "Comparison",
    "Consensus",
    "Constraint",
    "Convergence",
    "Curriculum",
    "Decaying",
    "Difference",
    "EStep",
    "GrammarLoop",
    "HardSteps",
    "ImportanceWeightedBound",
    "ModelError",
    "PitmanYorSampler",
    "PredictiveCheck",
    "Reduce",
    "Refitted",
    "Schedule",
    "SegmentationHastings",
    "SiblingHastings",
    "SyntacticTopics",
    "TopicGibbs",
    "TraceGrammar_ELBO",
    "TreeGibbs",
    "TreeHastings",
    "VariationalEM",
    "WordClasses",
    "all_reduce",
    "calibrate",
    "collapse_trees",
    "compare",
    "consensus",
    "convergence",
    "draws_by_chain",
    "draws_by_guide",
    "infer_trees",
    "posterior_predictive",
    "predictive_check",
    "refit",
    "tangent",
    "to_inference_data",
    "topic_tokens",
    "tree_statistics",
    "word_classes",
]


def __dir__() -> list[str]:
    return __all__
