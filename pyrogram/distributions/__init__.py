# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pyro distributions over derivations and sentences."""

from .constraints import DependencyTrees, PaddedWords, Scores
from .projective_tree import ProjectiveDependencyTree
from .sentence import Sentence

__all__ = ["DependencyTrees", "PaddedWords", "ProjectiveDependencyTree", "Scores", "Sentence"]
