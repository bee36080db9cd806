# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that learn grammars from a Pyro model, and the exact ELBO for Pyro's own SVI."""

from .collapsed_vb import CollapsedVB
from .elbo import TraceGrammar_ELBO
from .em import EM
from .inference_data import to_inference_data
from .loop import GrammarLoop
from .pitman_yor import PitmanYorSampler
from .sibling_hastings import SiblingHastings
from .sources import ModelError
from .topic_sampler import TopicGibbs
from .topic_sampler_alignment import align_states
from .topic_sampler_predictive import SyntacticTopics
from .topic_sampler_trees import TopicTrees
from .tree_samplers import TreeGibbs, TreeHastings
from .variable_cvb import VariableCVB
from .variational import VariationalEM

__all__ = [
    "EM",
    "CollapsedVB",
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
    "to_inference_data",
]
