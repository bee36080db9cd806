# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes (Wang and Blunsom 2013), with empirical Bayes for what the priors depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from pyrogram.grammar import Grammar, Weights
from pyrogram.infer.model.collapsed import (
    Order,
    concentrations,
    field_of,
    log_collapsed,
    log_joint,
    mean_weights,
    refuse_mixtures,
)
from pyrogram.infer.model.expected_counts import check_possible
from pyrogram.infer.model.priors import climb, priors_of
from pyrogram.infer.model.structure import Reading
from pyrogram.sweeps import Own, Sweeps
from pyrogram.sweeps_second_order import SecondOrderSweeps

from .base import GrammarLoop

# Sums of counts are formed anew so often, lest rounding errors of many sweeps add up.
_SWEEPS_PER_SUM = 16


class CollapsedVB(GrammarLoop):
    """Collapsed variational Bayes for Dirichlet weights; maximum likelihood for whatever is a ``pyro.param``.

    The weights are integrated out, and the derivations of different sentences are taken for independent: Q(t) =
    prod_i Q(t_i). An iteration visits every sentence i, takes its expected counts out of those of the corpus, and sets
    Q(t_i) to a grammar with weights (E[f^-i] + α) / sum (E[f^-i] + α), whose expected counts are put back (Figure 3 of
    Wang and Blunsom 2013). This update is approximate in two ways: it ignores that an event that occurs twice in
    a derivation is more probable the second time, and takes log(E[f] + α) for E[log(f + α)].

    The objective is the *approximate* free energy

        sum_i H(Q(t_i))  +  sum over multinomials A of log B(E[f_A] + α_A) / B(α_A),

    in nats, B(a) = prod Γ(a_r) / Γ(sum a_r): entropies of the Q(t_i), each at the moment when it was made, and
    the collapsed joint at the expected counts in place of its expectation. It is no bound on the evidence and may
    fall by a little from one iteration to the next.

    Concentrations that depend on ``pyro.param``s are re-estimated after every sweep to maximise the objective, by a few
    steps of L-BFGS; weights that are ``pyro.param``s become normalised expected counts. ``weights()`` is the
    posterior mean (E[f] + α) / sum. All is computed in float64.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = CollapsedVB(pyrogram.models.dirichlet.dirichlet).run(words, grammar, concentration=1.0, progress=False)
    >>> loop.weights()["rules"]  # (1 + 2) / 7 and (1 + 3) / 7
    tensor([0.4286, 0.5714])

    :param batch_size: sentences of a batch see each other as they were before it. One is the paper's algorithm; any
        other has the same fixed points, and the compiled DMV does eight in hardly more time than one.
    :param order: ``"fixed"``, or ``"shuffled"`` anew for every sweep; the result depends on it a little. Batches are
        of sentences of nearly equal length; with ``batch_size=1`` the fixed order is that of the corpus.
    :param second_order: use E[log(f + α)] ≈ log(E[f] + α) - Var[f] / 2(E[f] + α)^2 (Teh et al. 2007). The
        variances of counts need second derivatives of log Z: one more chart for every event of a sentence.
    :param seed: of shuffled orders; by default from torch's global generator.
    """

    may_fall = True

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        batch_size: int = 8,
        order: Literal["fixed", "shuffled"] = "fixed",
        second_order: bool = False,
        initial_weights: Mapping[str, Tensor] | str | None = None,
        seed: int | None = None,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if batch_size < 1 or order not in ("fixed", "shuffled"):
            raise ValueError(f"need batch_size >= 1 and order 'fixed' or 'shuffled', not {batch_size} and {order!r}")
        self.batch_size, self.order, self.second_order = batch_size, order, second_order
        seed = int(torch.randint(2**62, ())) if seed is None and order == "shuffled" else seed or 0
        self._generator = torch.Generator().manual_seed(seed)
        self._counts: Weights = {}  # E[f] by source
        self._own: dict[str, Own] = {}  # by site
        self._spare: dict[str, Own] = {}  # memory of own counts that are out of date
        self._entropy = torch.zeros((), dtype=torch.float64)
        self._sweeps: dict[str, Sweeps] = {}
        self._orders: dict[str, Order] = {}
        self._alpha: Weights | None = None

    # ------------------------------------------------------------------ the loop's parts

    def _check(self, reading: Reading) -> None:
        refuse_mixtures(reading, "CollapsedVB")
        if (
            self._reading is not None
            and self._counts
            and self._fingerprint(self._reading) != self._fingerprint(reading)
        ):
            self._weights = self._point_estimate()
            self._counts, self._own = {}, {}
        self._alpha, self._spare = None, {}
        self._sweeps = {site.name: self._sweeps_of(site.grammar, site.words) for site in reading.sentences}
        self._orders = {site.name: Order(site.words, self.batch_size) for site in reading.sentences}

    def _sweeps_of(self, grammar: Grammar, words: Tensor) -> Sweeps:
        return SecondOrderSweeps(grammar, words) if self.second_order else grammar.sweeps(words)

    def _update(self, reading: Reading) -> float:
        if not self._own:
            self._begin(reading)
        alpha = self._concentrations(reading)
        objective = float(self._entropy) + float(log_joint(reading, self._counts, alpha, self._weights))
        if len(self.history) % _SWEEPS_PER_SUM == 0:
            self._counts = self._summed(reading, self._own)
        entropy = torch.zeros((), dtype=torch.float64)
        fresh: dict[str, Own] = {}
        for site in reading.sentences:
            shared = field_of(site, self._counts, alpha, self._weights)
            order = self._orders[site.name]
            sentences = order.fixed if self.order == "fixed" else order.shuffled(self._generator)
            old = self._own[site.name]
            entropies, fresh[site.name] = self._sweeps[site.name].collapsed_vb(
                shared, old, sentences, self.batch_size, spare=self._spare.get(site.name)
            )
            check_possible(site, entropies)
            entropy += entropies.sum(dtype=torch.float64).cpu()
        self._own, self._spare, self._entropy = fresh, self._own, entropy
        self._maximise(reading)
        return objective

    def _begin(self, reading: Reading) -> None:
        """Q(t_i) under the initial weights."""
        self._entropy = torch.zeros((), dtype=torch.float64)
        for site in reading.sentences:
            weights = {b: self._weights[s].to(torch.float64) for b, s in site.sources.items()}
            log_z, entropies, self._own[site.name] = self._sweeps[site.name].expect(weights)
            check_possible(site, log_z)
            self._entropy += entropies.sum(dtype=torch.float64).cpu()
        self._counts = self._summed(reading, self._own)

    def _summed(self, reading: Reading, own: Mapping[str, Own]) -> Weights:
        """E[f] by source, from the sentences' own."""
        total: Weights = {}
        for site in reading.sentences:
            for block, counts in self._sweeps[site.name].total(own[site.name]).items():
                source = site.sources[block]
                total[source] = total[source] + counts if source in total else counts.clone()
        return total

    def _maximise(self, reading: Reading) -> None:
        """Maximum likelihood for weights that are parameters, and for parameters that concentrations depend on."""
        for name, source in reading.sources.items():
            if source.is_param:
                normal, totals = source.block.normalize(self._counts[name]), source.block.totals(self._counts[name])
                self._weights[name] = torch.where(totals > 0, normal.to(self._weights[name]), self._weights[name])
        if reading.parameters:
            learned = {n: s.block for n, s in reading.sources.items() if s.learns_prior}

            def evidence() -> Tensor:
                priors = priors_of(self._model_now, reading)
                total = torch.zeros((), dtype=torch.float64)
                for name, block in learned.items():
                    alpha = priors[name]
                    assert isinstance(alpha, Tensor)
                    alpha = alpha.to(torch.float64).expand(block.shape)
                    total = total + log_collapsed(block, self._counts[name], alpha).cpu()
                return total

            climb(reading.hyperparameters, evidence)
            self._alpha = None

    def _model_now(self) -> Any:
        args, kwargs = self._args or ((), {})
        return self.model(*args, **kwargs)

    def _concentrations(self, reading: Reading) -> Weights:
        if self._alpha is None:
            self._alpha = concentrations(self._model_now, reading)
        return self._alpha

    def _point_estimate(self) -> Weights:
        reading = self._need_reading()
        if not self._counts:
            return self._weights
        return mean_weights(reading, self._counts, self._concentrations(reading), self._weights)

    # ------------------------------------------------------------------ state

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"weights.{name}": w for name, w in self._weights.items()}
        tensors.update({f"counts.{name}": f for name, f in self._counts.items()})
        for site, own in self._own.items():
            tensors.update({f"own.{key}.{site}": tensor for key, tensor in own.items()})
        if self._reading is not None:
            tensors.update({f"parameter.{name}": p for name, p in self._reading.hyperparameters.items()})
        return {**tensors, "entropy": self._entropy, "generator": self._generator.get_state()}

    def _kept_tensors(self) -> dict[str, Tensor]:
        # A sweep does not write into the old own counts, which are by far the greatest part.
        return {n: t if n.startswith("own.") else t.detach().clone() for n, t in self._tensors().items()}

    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        kinds: dict[str, Weights] = {k: {} for k in ("weights", "counts", "own", "parameter", "entropy", "generator")}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind not in kinds:
                raise ValueError(f"this is not the state of CollapsedVB: it has {name!r}")
            kinds[kind][rest] = tensor
        self._weights, self._counts, self._own, self._alpha = kinds["weights"], kinds["counts"], {}, None
        self._spare = {}  # else, after an interruption, it may be the memory that is now in use again
        for name, tensor in kinds["own"].items():
            key, _, site = name.partition(".")
            self._own.setdefault(site, {})[key] = tensor
        self._entropy = kinds["entropy"][""].cpu()
        self._generator.set_state(kinds["generator"][""].cpu())
        if self._reading is not None:
            with torch.no_grad():
                for name, value in kinds["parameter"].items():
                    self._reading.hyperparameters[name].copy_(value)
