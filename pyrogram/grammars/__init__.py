# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars: blocks of multinomials with a chart."""

from pyrogram.grammar import Block, Grammar

from .dmv import DMV, DMVDerivation

__all__ = ["DMV", "Block", "DMVDerivation", "Grammar"]
