# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The draws of several chains, whoever ran them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pyro.infer import MCMC
from torch import Tensor

from pyrogram.infer.samplers.trees import TreeSampler

Chains = MCMC | TreeSampler | Sequence[TreeSampler]
"""A finished ``pyro.infer.MCMC``; or samplers over trees that ran by themselves, one for each chain."""


@dataclass(frozen=True)
class ChainDraws:
    """Draws by name, shape ``(C, T, *shape)``: C chains of T draws.

    :param values: of latent sites.
    :param statistics: of trees, and ``"log joint"`` in nats, as far as they are there.
    :param kernel: one of the samplers, if they are of this package and ran in this process; else None.
    """

    values: dict[str, Tensor]
    statistics: dict[str, Tensor]
    kernel: TreeSampler | None


def draws_of(chains: Chains) -> ChainDraws:
    """
    :raises RuntimeError: if there are no draws yet.
    :raises ValueError: if chains have different numbers of draws, or follow different things.
    """
    if isinstance(chains, MCMC):
        return _of_pyro(chains)
    samplers = [chains] if isinstance(chains, TreeSampler) else list(chains)
    traces = [sampler.trace() for sampler in samplers]
    kept = {tuple((name, *x.shape) for name, x in trace.items()) for trace in traces}
    if len(kept) != 1:
        raise ValueError(
            "chains must be at least one, and have kept the same things of as many sweeps: run them with the same "
            "num_steps, burn_in, keep_statistics and keep_weights"
        )
    by_site = {name: torch.stack([trace[name] for trace in traces]) for name in traces[0]}
    statistics = {n: by_site.pop(n) for n in ["log joint", *samplers[0].statistics_names]}
    return ChainDraws(by_site, statistics, samplers[0])


def _of_pyro(mcmc: Any) -> ChainDraws:
    samples = mcmc.get_samples(group_by_chain=True)
    if samples is None:
        raise RuntimeError("the MCMC has no samples yet; call run first")
    by_site = {name: draws.detach().cpu() for name, draws in samples.items()}
    statistics = {n: by_site.pop(n) for n in mcmc._diagnostics[0].get("tree statistics", [])}
    joints = [chain.get("log joint", []) for chain in mcmc._diagnostics]
    if all(len(joint) == mcmc.num_samples for joint in joints):
        statistics["log joint"] = torch.tensor(joints, dtype=torch.float64)
    kernel = mcmc.kernel
    return ChainDraws(by_site, statistics, kernel if isinstance(kernel, TreeSampler) and kernel.history else None)
