# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes over single nodes of trees with latent annotations (Wang and Blunsom 2013, 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import annotation_variables as chart
from pyrogram.charts.annotation_numba import Posteriors
from pyrogram.charts.annotation_sweeps import Layout, make_layout
from pyrogram.grammar import Weights
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.infer.model.collapsed import current_concentrations, log_dirichlet_multinomial, posterior_mean
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel, WeightSource
from pyrogram.infer.model.tracing import trace_model
from pyrogram.infer.running.state import Info

from .base import GrammarLoop


@dataclass(frozen=True)
class NodesState:
    """q of the subtype of every node, shape (M, K), and E[f] under it."""

    q: Tensor
    counts: Tensor

    @property
    def weights(self) -> Weights:
        """None are parameters."""
        return {}


@dataclass
class _Problem(Problem):
    """One site of trees, whose weights are one source with concentrations ``alpha``."""

    grammar: LatentAnnotations
    layout: Layout
    source: str
    alpha: Tensor

    def counts(self, q: Tensor) -> Tensor:
        """E[f] under q."""
        return torch.from_numpy(chart.expected_counts(self.layout.rules, self.layout.trees, q.numpy()))


class VariableCVB(GrammarLoop[_Problem, NodesState]):
    """Collapsed variational Bayes that takes *all nodes* of the trees for independent, not only different trees.

    The alternative that Wang and Blunsom (2013) sketch in section 3.4 and leave for future work. The weights are
    integrated out, Q is a product of a q for the subtype of every node. An iteration visits each node once, takes
    what its own rule and its parent's count out of the expected counts of the corpus, and sets

        q(a)  to  (E[f of the parent's rule with a] + α) * (E[f of the own rule with a] + α) / (E[f of (A, a)] + sum α)

    normalised, where the neighbours' subtypes are averaged over by their own q. The paper averages the counts
    (``average="arithmetic"``, the default), for a mean-field update one would average their logarithms
    (``"geometric"``). Both take log(E[f] + α) for E[log(f + α)].

    The objective is the *approximate* free energy, as for :class:`.CollapsedVB`:

        sum over nodes of H(q)  +  sum over multinomials A of log B(E[f_A] + α_A) / B(α_A)

    in nats, E[f] under the product of all q. It is no bound, and may fall by a little. ``weights()`` is the posterior
    mean.

    Time O(K^3) a node, memory nodes times K besides the counts.

    :param model: with one ``Sentence`` site of a :class:`.LatentAnnotations` with a Dirichlet prior, on the CPU.
    :param initial_weights: the first q are the marginals of the nodes' subtypes under these weights.
    """

    may_fall = True

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        average: Literal["arithmetic", "geometric"] = "arithmetic",
        initial_weights: Mapping[str, Tensor] | str | None = None,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if average not in ("arithmetic", "geometric"):
            raise ValueError(f"average must be 'arithmetic' or 'geometric', not {average!r}")
        self.average = average

    def posterior(self) -> Tensor:
        """q of every node's subtype, shape ``(N, L, K)`` in the order of the trees' base rules; 0 in the padding."""
        problem, state = self._present()
        words = problem.traced.sentences[0].words
        out = torch.zeros(*words.shape, state.q.shape[-1], dtype=state.q.dtype)
        out[words >= 0] = state.q[: len(problem.layout.trees.rule)]
        return out

    def _prepare(self, model: Callable[[], Any]) -> _Problem:
        traced = trace_model(model, "VariableCVB")
        grammar = _check(traced)
        (site,) = traced.sentences
        trees = grammar.trees(site.words)
        if (trees.lengths == 0).any():
            raise ValueError(f"row {int((trees.lengths == 0).argmax())} of site {site.name!r} is no tree")
        source = site.source_of_block["rules"]
        alpha = current_concentrations(model, traced)[source].contiguous()
        return _Problem(traced, model, grammar, make_layout(grammar.rules, trees), source, alpha)

    def _way(self, problem: _Problem, source: WeightSource) -> str:
        return "integrated out"

    def _init(self, problem: _Problem, start: Weights) -> NodesState:
        (site,), trees = problem.traced.sentences, problem.layout.trees
        weights = start[problem.source].detach().double().log().numpy()
        found = Posteriors(weights[None], problem.grammar.rules, trees, np.zeros(len(site.words), np.int64))
        if not (found.log_z > -np.inf).all():
            raise ValueError(
                f"sentence {int((found.log_z == -np.inf).argmax())} of site {site.name!r} has probability zero "
                "under the initial weights; start from weights without zeros"
            )
        q = torch.from_numpy(found.node_marginals())
        return NodesState(q, problem.counts(q))

    def _update(self, problem: _Problem, state: NodesState) -> tuple[NodesState, Info]:
        block, alpha = problem.traced.weight_sources[problem.source].block, problem.alpha
        # Counts anew in every sweep, lest rounding errors of taking out and putting back add up.
        counts, q = problem.counts(state.q), state.q.clone()
        objective = chart.entropy(q.numpy()) + float(log_dirichlet_multinomial(block, counts, alpha))
        totals = block.sums(counts + alpha).numpy()
        geometric = self.average == "geometric"
        chart.sweep(problem.layout, counts.numpy(), alpha.numpy(), totals, q.numpy(), geometric)
        return NodesState(q, counts.clamp_min_(0)), Info(objective)

    def _estimate(self, problem: _Problem, state: NodesState) -> Weights:
        return posterior_mean(problem.traced, {problem.source: state.counts}, {problem.source: problem.alpha}, {})

    def _like(self, problem: _Problem) -> NodesState:
        size = len(problem.layout.trees.rule), max(problem.grammar.num_subtypes.values())
        return NodesState(torch.empty(size, dtype=torch.float64), torch.empty_like(problem.alpha))


def _check(traced: TracedModel) -> LatentAnnotations:
    """The grammar of a model that this loop can handle."""
    grammar = traced.sentences[0].grammar
    if len(traced.sentences) > 1 or not isinstance(grammar, LatentAnnotations):
        raise ModelError(
            "VariableCVB needs one Sentence site, of a LatentAnnotations: the shapes of trees must be known; "
            "CollapsedVB can handle any grammar"
        )
    for source in traced.weight_sources.values():
        if source.concentration is None:
            raise ModelError(f"VariableCVB needs weights {source.name!r} to have a Dirichlet prior; EM needs none")
    if traced.hyperparameters:
        raise ModelError(
            f"VariableCVB cannot learn {sorted(traced.hyperparameters)}; CollapsedVB re-estimates concentrations"
        )
    return grammar
