# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pictures: dependency and phrase structure trees as SVG; the course of an inference and logistic normals as plots."""

from pyrogram.viz.bounds import plot_bound
from pyrogram.viz.derivations import draw_derivation
from pyrogram.viz.gaussians import plot_covariance, plot_experts
from pyrogram.viz.trees import TreeDrawing, draw_tree

__all__ = ["TreeDrawing", "draw_derivation", "draw_tree", "plot_bound", "plot_covariance", "plot_experts"]
