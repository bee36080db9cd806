# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes over single nodes of trees with latent annotations (Wang and Blunsom 2013, 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import annotation_variables as chart
from pyrogram.charts.annotation_numba import Posteriors
from pyrogram.charts.annotation_sweeps import Layout, make_layout
from pyrogram.grammar import Weights
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.infer.model.collapsed import concentrations, log_collapsed, mean_weights
from pyrogram.infer.model.structure import ModelError, Reading

from .base import GrammarLoop


class VariableCVB(GrammarLoop):
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
        self._q: Tensor | None = None  # (M, K)
        self._counts: Weights = {}  # E[f] under q, by source
        self._layout: Layout | None = None

    def posterior(self) -> Tensor:
        """q of every node's subtype, shape ``(N, L, K)`` in the order of the trees' base rules; 0 in the padding."""
        reading = self._need_reading()
        layout, q, words = self._prepared(reading), self._q, reading.sentences[0].words
        assert q is not None
        out = torch.zeros(*words.shape, q.shape[-1], dtype=q.dtype)
        out[words >= 0] = q[: len(layout.trees.rule)]
        return out

    def _check(self, reading: Reading) -> None:
        grammar = reading.sentences[0].grammar
        if len(reading.sentences) > 1 or not isinstance(grammar, LatentAnnotations):
            raise ModelError(
                "VariableCVB needs one Sentence site, of a LatentAnnotations: the shapes of trees must be known; "
                "CollapsedVB can handle any grammar"
            )
        for source in reading.sources.values():
            if source.concentration is None:
                raise ModelError(f"VariableCVB needs weights {source.name!r} to have a Dirichlet prior; EM needs none")
        if reading.parameters:
            raise ModelError(
                f"VariableCVB cannot learn {sorted(reading.parameters)}; CollapsedVB re-estimates concentrations"
            )
        self._layout, self._q, self._counts = None, None, {}

    def _prepared(self, reading: Reading) -> Layout:
        """The trees, and q under the initial weights."""
        site = reading.sentences[0]
        grammar = site.grammar
        assert isinstance(grammar, LatentAnnotations)
        if self._layout is None:
            trees = grammar.trees(site.words)
            if (trees.lengths == 0).any():
                raise ValueError(f"row {int((trees.lengths == 0).argmax())} of site {site.name!r} is no tree")
            self._layout = make_layout(grammar.rules, trees)
        if self._q is None:
            start = self._weights[site.sources["rules"]].detach().double().log().numpy()
            own = np.zeros(len(site.words), np.int64)
            found = Posteriors(start[None], grammar.rules, self._layout.trees, own)
            if not (found.log_z > -np.inf).all():
                raise ValueError(
                    f"sentence {int((found.log_z == -np.inf).argmax())} of site {site.name!r} has probability zero "
                    "under the initial weights; start from weights without zeros"
                )
            self._q = torch.from_numpy(found.node_marginals())
            self._counts = {site.sources["rules"]: self._counted(self._layout)}
        return self._layout

    def _counted(self, layout: Layout) -> Tensor:
        assert self._q is not None
        return torch.from_numpy(chart.expected_counts(layout.rules, layout.trees, self._q.numpy()))

    def _update(self, reading: Reading) -> float:
        layout = self._prepared(reading)
        ((name, source),) = reading.sources.items()
        alpha = concentrations(lambda: None, reading)[name].contiguous()
        # Anew in every sweep, lest rounding errors of taking out and putting back add up.
        counts = self._counts[name] = self._counted(layout)
        assert self._q is not None
        objective = chart.entropy(self._q.numpy()) + float(log_collapsed(source.block, counts, alpha))
        totals = source.block.sums(counts + alpha).numpy()
        chart.sweep(layout, counts.numpy(), alpha.numpy(), totals, self._q.numpy(), self.average == "geometric")
        counts.clamp_min_(0)
        return objective

    def _point_estimate(self) -> Weights:
        reading = self._need_reading()
        if not self._counts:
            return self._weights
        return mean_weights(reading, self._counts, concentrations(lambda: None, reading), self._weights)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"weights.{name}": w for name, w in self._weights.items()}
        return tensors if self._q is None else {**tensors, "q": self._q}

    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        unknown = [name for name in tensors if name != "q" and not name.startswith("weights.")]
        if unknown:
            raise ValueError(f"this is not the state of VariableCVB: it has {unknown[0]!r}")
        self._weights = {n.removeprefix("weights."): t for n, t in tensors.items() if n != "q"}
        self._q = tensors.get("q")
        self._counts = {}
        if self._q is not None and self._reading is not None:
            site = self._reading.sentences[0]
            self._counts = {site.sources["rules"]: self._counted(self._prepared(self._reading))}
