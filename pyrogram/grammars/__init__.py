# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars: blocks of multinomials with a chart."""

from pyrogram.grammar import Block, Grammar

from .dmv import DMV, DMVDerivation
from .tying import TIES, family_covariance, start_covariances, tie

__all__ = [
    "DMV",
    "TIES",
    "Block",
    "DMVDerivation",
    "Grammar",
    "family_covariance",
    "start_covariances",
    "tie",
]
