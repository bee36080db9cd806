# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The bound and the evidence of logistic normal models, tree by tree and multinomial by multinomial."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from infer.tree_sums import Corpus, tree_events
from oracle import all_trees
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from pyrogram import DMV
from pyrogram.distributions.partition import PartitionStructure
from pyrogram.infer import VariationalEM

Tensors = dict[str, Tensor]


def dense(loop: VariationalEM) -> tuple[Tensors, Tensors]:
    """q's means and variances by Gaussian site, shape (groups, *family), absent experts at their prior's optimum."""
    problem: Any = loop._need_problem()
    experts_of = problem.q  # which has the priors of the last E-step
    means, variances = {}, {}
    for key, q in experts_of.posteriors.items():
        flat = {name: np.broadcast_to(x, (q.num_groups, len(x))).copy() for name, x in prior_arrays(q).items()}
        r, p = q.rows, q._priors
        for e, (group, expert) in enumerate(zip(r.expert_group, r.expert, strict=True)):
            own, place = slice(r.expert_start[e], r.expert_start[e + 1]), slice(p.start[expert], p.start[expert + 1])
            flat["mean"][group, place], flat["variance"][group, place] = q.mean[own], q.variance[own]
        first = 0
        for family, experts in q.structure.experts.items():
            size = experts.shape.numel()
            for found, kind in ((means, "mean"), (variances, "variance")):
                piece = torch.tensor(flat[kind][:, first : first + size])
                found[experts_of.sites[key][family]] = piece.reshape(q.num_groups, *experts.shape)
            first += size
    return means, variances


def prior_arrays(q: Any) -> dict[str, np.ndarray]:
    return {"mean": q._priors.mu, "variance": 1 / q._priors.precision_diag}


def log_weighted(means: Tensor, variances: Tensor) -> Tensor:
    """psi = u - log zeta."""
    return means - (means + variances / 2).logsumexp(-1, keepdim=True)


def tree_sum(sentence: Sequence[int], log_weights: Mapping[str, Tensor], extended: bool = False) -> Tensor:
    """log of the sum over trees of the weight."""
    scores = []
    for heads in all_trees(len(sentence), False):
        events = tree_events(sentence, heads, extended)
        scores.append(torch.stack([log_weights[block][index] for block, index in events]).sum())
    return torch.stack(scores).logsumexp(0)


def divergence(mean: Tensor, variance: Tensor, loc: Tensor, spread: Tensor) -> Tensor:
    """KL(N(mean, diag variance) || N(loc, spread)), summed over everything; spread is a matrix or variances."""
    if spread.shape == loc.shape:
        return kl_divergence(Normal(mean, variance.sqrt()), Normal(loc, spread.sqrt())).sum()
    q = MultivariateNormal(mean, torch.diag_embed(variance))
    return kl_divergence(q, MultivariateNormal(loc, spread).expand(q.batch_shape)).sum()


def bound(
    corpus: Corpus,
    structure: PartitionStructure,
    means: Tensors,
    variances: Tensors,
    locs: Tensors,
    spreads: Tensors,
    shared: Tensors | None = None,
) -> Tensor:
    """The evidence lower bound with the best q(trees): tensors by family, q's with a group for each sentence or one.

    :param shared: log weights of blocks that are no logistic normals.
    """
    total = torch.zeros(())
    logs = {}
    for block in structure.blocks:
        u, w = structure.average(block, means), structure.average(block, variances, variances=True)
        logs[block] = log_weighted(u, w)
    for l, sentence in enumerate(corpus):
        own = {block: table[l if len(table) > 1 else 0] for block, table in logs.items()}
        total = total + tree_sum(sentence, {**own, **(shared or {})})
    for family in structure.experts:
        total = total - divergence(means[family], variances[family], locs[family], spreads[family])
    return total


def log_evidence(sentence: Sequence[int], locs: Tensors, variances: Tensors, points: int = 60) -> float:
    """log p(sentence) of a per-sentence logistic normal over two tags, exactly: multinomials are independent.

    Each multinomial has two events, so that a moment E[theta_0^a theta_1^b] is an integral over the difference of its
    two Gaussians, done by Gauss-Hermite quadrature.
    """
    nodes, quadrature = np.polynomial.hermite_e.hermegauss(points)
    share = quadrature / quadrature.sum()
    total = 0.0
    for heads in all_trees(len(sentence), False):
        counts = {name: np.zeros(tuple(loc.shape)) for name, loc in locs.items()}
        for block, index in tree_events(sentence, heads, False):
            counts[block][index] += 1
        weight = 1.0
        for name, count in counts.items():
            for k in itertools.product(*map(range, count.shape[:-1])):
                mean, spread = locs[name][k], math.sqrt(float(variances[name][k].sum()))
                theta = 1 / (1 + np.exp(-(float(mean[0] - mean[1]) + spread * nodes)))
                weight *= float((share * theta ** count[k][0] * (1 - theta) ** count[k][1]).sum())
        total += weight
    return math.log(total)


def random_start(grammar: DMV, seed: int) -> tuple[Tensors, Tensors, Tensors]:
    """Means, covariances and variances by block."""
    generator = torch.Generator().manual_seed(seed)
    locs, covariances, variances = {}, {}, {}
    for name, block in grammar.blocks.items():
        n = block.shape[-1]
        locs[name] = torch.randn(block.shape, generator=generator)
        factor = torch.randn(*block.shape, n, generator=generator)
        covariances[name] = 0.5 * factor @ factor.mT + 0.5 * torch.eye(n)
        variances[name] = 0.3 + torch.rand(block.shape, generator=generator)
    return locs, covariances, variances
