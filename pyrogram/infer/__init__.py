# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that learn grammars from a Pyro model, and the exact ELBO for Pyro's own SVI."""

from .elbo import TraceGrammar_ELBO
from .em import EM
from .loop import GrammarLoop
from .sources import ModelError
from .variational import VariationalEM

__all__ = ["EM", "GrammarLoop", "ModelError", "TraceGrammar_ELBO", "VariationalEM"]
