# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models of the papers, each a page of Pyro."""

from .dirichlet import dirichlet, maximum_likelihood

__all__ = ["dirichlet", "maximum_likelihood"]
