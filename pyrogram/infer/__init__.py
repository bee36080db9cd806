# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that learn grammars from a Pyro model, and the exact ELBO for Pyro's own SVI."""

from .collapsed_vb import CollapsedVB
from .elbo import TraceGrammar_ELBO
from .em import EM
from .inference_data import to_inference_data
from .loop import GrammarLoop
from .sources import ModelError
from .tree_samplers import TreeGibbs, TreeHastings
from .variable_cvb import VariableCVB
from .variational import VariationalEM

__all__ = [
    "EM",
    "CollapsedVB",
    "GrammarLoop",
    "ModelError",
    "TraceGrammar_ELBO",
    "TreeGibbs",
    "TreeHastings",
    "VariableCVB",
    "VariationalEM",
    "to_inference_data",
]
