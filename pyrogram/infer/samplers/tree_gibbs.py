# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling: weights given derivations, derivations given weights (Johnson, Griffiths and Goldwater 2007)."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights

from .base import TreeSampler
from .problem import TreeProblem
from .state import TreeState


class TreeGibbs(TreeSampler):
    """Weights given derivations (Dirichlets), then derivations given weights, all sentences at once: exact.

    Averages of weights are of their means given the derivations. ``batch_size`` and ``order`` play no part.
    """

    _dirichlets = "drawn"

    def _sweep(
        self, problem: TreeProblem, state: TreeState, generator: torch.Generator
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        given = {name: safe_log(w.to(torch.float64)) for name, w in state.weights.items()}
        drawn = {**given, **problem.draw_dirichlets(state, generator)}
        derivations, accepted = {}, {}
        for site in problem.traced.sentences:
            by_block = {block: drawn[source] for block, source in site.source_of_block.items()}
            derivations[site.name] = problem.draw(site, by_block, generator)
            accepted[site.name] = torch.ones(len(site.words), dtype=torch.bool)
        return derivations, problem.counted(derivations), accepted
