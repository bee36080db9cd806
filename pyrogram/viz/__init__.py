# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pictures: dependency and phrase structure trees as SVG; inferences, logistic normals, shares as plots."""

from pyrogram.viz.bounds import plot_bound
from pyrogram.viz.charts import ChartDrawing, chart
from pyrogram.viz.derivations import draw_derivation
from pyrogram.viz.gaussians import plot_covariance, plot_experts
from pyrogram.viz.ranks import plot_ranks
from pyrogram.viz.restaurants import expected_draws, plot_contexts, plot_draws, plot_trace
from pyrogram.viz.shares import plot_shares
from pyrogram.viz.topics import TopicDrawing, draw_topics
from pyrogram.viz.trees import TreeDrawing, draw_posterior, draw_tree
from pyrogram.viz.weights import plot_weights

__all__ = [
    "ChartDrawing",
    "TopicDrawing",
    "TreeDrawing",
    "chart",
    "draw_derivation",
    "draw_posterior",
    "draw_topics",
    "draw_tree",
    "expected_draws",
    "plot_bound",
    "plot_contexts",
    "plot_covariance",
    "plot_draws",
    "plot_experts",
    "plot_ranks",
    "plot_shares",
    "plot_trace",
    "plot_weights",
]


def __dir__() -> list[str]:
    return __all__
