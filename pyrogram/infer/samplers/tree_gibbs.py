# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling: weights given derivations, derivations given weights (Johnson, Griffiths and Goldwater 2007)."""

from __future__ import annotations

import torch

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights

from .base import TreeSampler
from .draws import log_dirichlet
from .problem import TreeProblem
from .shares import Part, Share
from .state import TreeState


class TreeGibbs(TreeSampler):
    """Weights given derivations (Dirichlets), then derivations given weights, all sentences at once: exact.

    Averages of weights are of their means given the derivations. ``batch_size`` and ``order`` play no part. With
    ``reduce`` each process draws derivations of its share of the sentences, which are independent given the weights: a
    chain of the same kind, by other random numbers.
    """

    _dirichlets = "drawn"

    def _drawn(self, problem: TreeProblem, state: TreeState, generator: torch.Generator) -> Weights:
        """Log weights by source."""
        alpha = problem.alpha(state)
        return {
            name: log_dirichlet(source.block, state.counts[name] + alpha[name], generator)
            if name in alpha
            else safe_log(state.weights[name].to(torch.float64))
            for name, source in problem.traced.weight_sources.items()
        }

    def _own_sweep(
        self, problem: TreeProblem, share: Share, state: TreeState, drawn: Weights, generator: torch.Generator
    ) -> Part:
        derivations = {}
        for site in share.sites:
            by_block = {block: drawn[source] for block, source in site.source_of_block.items()}
            derivations[site.name] = problem.draw(share, site, by_block, generator)
        return Part(derivations, {site.name: torch.ones(len(site.words), dtype=torch.bool) for site in share.sites})
