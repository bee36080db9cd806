# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What variational EM asks of Dirichlet sites: their q, and their share of the bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch.distributions import kl_divergence

from pyrogram.distributions.packed_dirichlet import dirichlet_prior, expected_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.structure import TracedModel


class DirichletFactors:
    """q of the weights of a model with Dirichlet priors: a Dirichlet for every multinomial.

    A ``prior`` and a ``posterior`` are the concentrations of p and of q by site.
    """

    def __init__(self, traced: TracedModel) -> None:
        self.traced = traced
        self.blocks = {name: s.block for name, s in traced.weight_sources.items() if s.concentration is not None}

    def expected_logs(self, posterior: Weights) -> Weights:
        """E_q[log w], which is ψ(q) - ψ(sum q)."""
        return {name: expected_log(block, posterior[name]) for name, block in self.blocks.items()}

    def divergences(self, posterior: Weights, prior: Mapping[str, Any]) -> list[float]:
        """KL(q || p) of each site, in nats."""
        pairs = [(block, posterior[name], prior[name]) for name, block in self.blocks.items()]
        each = [kl_divergence(dirichlet_prior(b, q), dirichlet_prior(b, p)) for b, q, p in pairs]
        numbers: list[float] = torch.stack(each).tolist() if each else []
        return numbers

    def update(self, prior: Mapping[str, Any], counts: Weights) -> Weights:
        """The best q given the expected counts of the derivations."""
        return {name: prior[name] + counts[name] for name in self.blocks}

    def means(self, posterior: Weights) -> Weights:
        """E_q[w]."""
        return {name: posterior[name] / block.totals(posterior[name]) for name, block in self.blocks.items()}

    def posterior(self, posterior: Weights) -> dict[str, dist.TorchDistribution]:
        """q as distributions of the sites."""
        by_site = {}
        for name, block in self.blocks.items():
            q = posterior[name].clone()
            if self.traced.weight_sources[name].probability is None:
                by_site[name] = dirichlet_prior(block, q)
            else:
                by_site[name] = dist.Beta(q[..., 0], q[..., 1]).to_event(block.batch_dim)
        return by_site
