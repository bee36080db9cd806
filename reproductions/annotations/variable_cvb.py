# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes over single nodes of trees with latent annotations (Wang and Blunsom 2013, 3.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.infer import GrammarLoop
from pyrogram.infer.model.collapsed import CollapsedProblem, log_dirichlet_multinomial, posterior_mean
from pyrogram.infer.model.structure import Problem, WeightSource
from pyrogram.infer.running.state import Info
from reproductions.annotations.nodes import Nodes


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
    nodes: Nodes
    source: str
    alpha: Tensor

    def state(self, q: Tensor) -> NodesState:
        """With E[f] counted anew, lest rounding errors of taking out and putting back add up."""
        return NodesState(q, torch.from_numpy(self.nodes.expected_counts(q.numpy())))


class VariableCVB(GrammarLoop[_Problem, NodesState]):
    """Collapsed variational Bayes that takes *all nodes* of the trees for independent, not only different trees.

    The alternative that Wang and Blunsom (2013) sketch in section 3.4 and leave for future work. The weights are
    integrated out, Q is a product of a q for the subtype of every node. An iteration visits each node once, takes
    what its own rule and its parent's count out of the expected counts of the corpus, and sets

        q(a)  to  (E[f of the parent's rule with a] + α) * (E[f of the own rule with a] + α) / (E[f of (A, a)] + sum α)

    normalised, where the neighbours' subtypes are averaged over by their own q: the counts, as in the paper, and not
    their logarithms, as for a mean-field update. E[f] + α stands for exp(E[log(f + α)]).

    The objective is the *approximate* free energy, as for :class:`pyrogram.infer.CollapsedVB`:

        sum over nodes of H(q)  +  sum over multinomials A of log B(E[f_A] + α_A) / B(α_A)

    in nats, E[f] under the product of all q. It is no bound, and may fall by a little. ``weights()`` is the posterior
    mean. The first q are the marginals of the nodes' subtypes under the initial weights.

    Time O(K^3) a node, memory nodes times K besides the counts.

    The model must have one ``Sentence`` site, of a :class:`.LatentAnnotations` with a Dirichlet prior that is no
    parameter, on the CPU, and every row of words be a tree.
    """

    may_fall = True

    def _prepare(self, model: Callable[[], Any]) -> _Problem:
        read = CollapsedProblem.read(model, "VariableCVB", 1)
        traced = read.traced
        (site,) = traced.sentences
        grammar, source = site.grammar, site.source_of_block["rules"]
        assert isinstance(grammar, LatentAnnotations)
        alpha = read.terms({}).alpha[source].detach().contiguous()
        return _Problem(traced, model, grammar, Nodes(grammar.rules, grammar.trees(site.words)), source, alpha)

    def _way(self, problem: _Problem, source: WeightSource) -> str:
        return "integrated out"

    def _init(self, problem: _Problem, start: Weights) -> NodesState:
        words = problem.traced.sentences[0].words
        derivation = problem.grammar.derivation({"rules": start[problem.source].detach().double()}, words)
        return problem.state(derivation.marginals()[words >= 0])

    def _update(self, problem: _Problem, state: NodesState) -> tuple[NodesState, Info]:
        block, alpha = problem.traced.weight_sources[problem.source].block, problem.alpha
        counts, q = state.counts.clone(), state.q.clone()
        objective = float(torch.special.entr(q).sum() + log_dirichlet_multinomial(block, counts, alpha))
        totals = block.sums(counts + alpha)
        problem.nodes.sweep(*(t.numpy() for t in (counts, alpha, totals, q)))
        return problem.state(q), Info(objective)

    def _estimate(self, problem: _Problem, state: NodesState) -> Weights:
        return posterior_mean(problem.traced, {problem.source: state.counts}, {problem.source: problem.alpha}, {})
