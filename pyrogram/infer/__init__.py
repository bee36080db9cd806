# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that learn grammars from a Pyro model, and the exact ELBO for Pyro's own SVI."""

from pyrogram.charts.topics.tokens import tokens as topic_tokens
from pyrogram.infer.samplers.tree_gibbs import TreeGibbs

from .comparison import Comparison, Difference, compare
from .elbo import TraceGrammar_ELBO
from .inference_data import to_inference_data
from .lexical.hastings import SiblingHastings
from .loops.base import GrammarLoop
from .loops.collapsed_vb import CollapsedVB
from .loops.em import EM
from .loops.variable_cvb import VariableCVB
from .loops.variational_em import VariationalEM
from .model.structure import ModelError
from .model.tangent import tangent
from .pitman_yor.sampler import PitmanYorSampler
from .prediction import posterior_predictive
from .samplers.tree_hastings import TreeHastings
from .topics.alignment import align_states
from .topics.gibbs import TopicGibbs
from .topics.predictive import SyntacticTopics
from .topics.trees import TopicTrees
from .trees.drawing import infer_trees
from .trees.summing_out import collapse_trees

__all__ = [
    "EM",
    "CollapsedVB",
    "Comparison",
    "Difference",
    "GrammarLoop",
    "ModelError",
    "PitmanYorSampler",
    "SiblingHastings",
    "SyntacticTopics",
    "TopicGibbs",
    "TopicTrees",
    "TraceGrammar_ELBO",
    "TreeGibbs",
    "TreeHastings",
    "VariableCVB",
    "VariationalEM",
    "align_states",
    "collapse_trees",
    "compare",
    "infer_trees",
    "posterior_predictive",
    "tangent",
    "to_inference_data",
    "topic_tokens",
]


def __dir__() -> list[str]:
    return __all__
