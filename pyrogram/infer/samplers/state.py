# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The state of a sampler over derivations, and whether one from a file is one of a problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.running.state import Info, ragged

from .averages import TreeAverages
from .problem import TreeProblem


@dataclass(frozen=True)
class TreeState:
    """The derivations of all sentences, and what goes with them.

    :param weights: of sources that are not integrated out: ``pyro.param`` sites, which stay as they are, and those that
        are computed from the point.
    :param counts: f by source.
    :param point: latent values that are not integrated out, in unconstrained coordinates, by site.
    :param log_joint: log P(x, t | α), plus the log density of these latent values, in nats.
    :param sweep: how many there were before.
    :param generator: the state of the chain's.
    :param derivations: by site, shape (N, L).
    :param tuning: what the kernel of latent values has learnt.
    """

    weights: Weights
    counts: Weights
    point: Weights
    log_joint: Tensor
    sweep: Tensor
    generator: Tensor
    derivations: Weights = ragged(of_sentences=True)
    tuning: Weights = ragged()


@dataclass(frozen=True)
class Swept(Info):
    """What a sweep tells: the log joint before it, and which proposals were accepted, by site, bool (N,)."""

    accepted: Mapping[str, Tensor]


def like(problem: TreeProblem, generator: torch.Generator) -> TreeState:
    """A state with the names and shapes that states of a problem have, whatever its numbers."""
    sources = problem.traced.weight_sources
    return TreeState(
        weights={name: s.value for name, s in sources.items() if s.is_point},
        counts={n: s.value.new_empty(s.shape, dtype=torch.float64) for n, s in sources.items()},
        point=problem.start,
        log_joint=torch.empty((), dtype=torch.float64),
        sweep=torch.tensor(0),
        generator=generator.get_state(),
        derivations={},
        tuning={},
    )


def fits(problem: TreeProblem, state: TreeState) -> bool:
    """Whether derivations are those of the sentences, and counts theirs."""
    if not problem.are_derivations(state.derivations):
        return False
    counts = problem.counted(state.derivations)
    return all(torch.allclose(f, counts[name]) for name, f in state.counts.items())


def averages_fit(
    problem: TreeProblem, averages: TreeAverages, keep_parts: bool, followed: Callable[[Weights], Weights]
) -> bool:
    """Whether averages can be those of the sentences.

    :param followed: from derivations by site to numbers of the names and shapes that traces have.
    """
    if len(averages.joints) != averages.kept or (not averages.best and bool(averages.best_joint > -torch.inf)):
        return False
    if averages.best and not problem.are_derivations(averages.best):
        return False
    expected = {name: x.shape for name, x in followed(averages.best).items()} if averages.best and averages.kept else {}
    if {name: trace.shape[1:] for name, trace in averages.traces.items()} != expected:
        return False
    if any(len(trace) < averages.kept for trace in averages.traces.values()):
        return False
    if not averages.kept or not keep_parts:
        return not averages.parts
    shapes = {site: problem.updates[site].add_parts(None, trees).shape for site, trees in averages.best.items()}
    return {site: total.shape for site, total in averages.parts.items()} == shapes
