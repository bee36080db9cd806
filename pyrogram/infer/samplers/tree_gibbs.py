# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling: weights given derivations, derivations given weights (Johnson, Griffiths and Goldwater 2007)."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.structure import Reading

from .base import TreeSampler, log_dirichlet


class TreeGibbs(TreeSampler):
    """Weights given derivations (Dirichlets), then derivations given weights, all sentences at once: exact.

    Averages of weights are of their means given the derivations. ``batch_size`` and ``order`` play no part.
    """

    def _sweep(self, reading: Reading, alpha: Weights) -> dict[str, Tensor]:
        draws = {
            name: log_dirichlet(source.block, self._counts[name] + alpha[name], self._generator)
            if name in alpha
            else safe_log(self._weights[name].to(torch.float64))
            for name, source in reading.sources.items()
        }
        for site in reading.sentences:
            log_weights = {block: draws[source] for block, source in site.sources.items()}
            self._trees[site.name] = self._sweeps[site.name].draw(log_weights, self._generator)
        self._recount(reading)
        return {site.name: torch.ones(len(site.words), dtype=torch.bool) for site in reading.sentences}
