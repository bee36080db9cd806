# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models of the papers, each a page of Pyro."""

from .dirichlet import dirichlet, maximum_likelihood
from .logistic_normal import logistic_normal
from .shared_logistic_normal import bilingual, shared_logistic_normal

__all__ = ["bilingual", "dirichlet", "logistic_normal", "maximum_likelihood", "shared_logistic_normal"]
