# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes (Wang and Blunsom 2013), with point estimates of all that the priors depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import (
    CollapsedProblem,
    log_collapsed_joint,
    make_corpus_counts,
    posterior_mean,
)
from pyrogram.infer.model.reading import ELSEWHERE
from pyrogram.infer.model.structure import ModelError, TracedModel, WeightSource, most_likely
from pyrogram.infer.running.state import Info, ragged
from pyrogram.sweeps.plain import SentenceCounts

from .base import GrammarLoop

# Sums of counts are formed anew so often, lest rounding errors of many sweeps add up.
_SWEEPS_PER_SUM = 16
# Of L-BFGS, after a sweep.
_STEPS = 10


@dataclass(frozen=True)
class CollapsedState:
    """Expected counts, and what goes with them.

    :param weights: of sources that are ``pyro.param`` sites, and constants.
    :param counts: E[f] by source.
    :param sentence_counts: the same of each sentence by itself, by site; see :class:`.CollapsedUpdates`.
    :param parameters: unconstrained parameters and latent values that concentrations, or computed weights, depend on.
    :param entropy: sum of H(Q(t_i)) in nats.
    :param sweep: how many there were before.
    :param generator: of shuffled orders.
    """

    weights: Weights
    counts: Weights
    parameters: Weights
    entropy: Tensor
    sweep: Tensor
    generator: Tensor
    sentence_counts: dict[str, SentenceCounts] = ragged()


def _check(traced: TracedModel) -> None:
    """
    :raises ModelError: if weights are of each sentence, or there is no Dirichlet to integrate out.
    """
    for name, block, source in traced.computed_blocks():
        if source.per_sentence:
            shape = tuple(source.value.shape[: source.value.dim() - len(source.block.shape)])
            raise ModelError(
                f"CollapsedVB needs weights that all sentences share, but block {block!r} of site {name!r} has the "
                f"batch shape {shape}; {ELSEWHERE}"
            )
    if any(source.concentration is not None for source in traced.weight_sources.values()):
        return
    for name, block, source in traced.computed_blocks():
        raise ModelError(
            f"CollapsedVB needs block {block!r} of site {name!r} to be made of entries of Dirichlet or Beta "
            f"sites, pyro.params and constants, for there is nothing else to integrate out, but it is "
            f"{source.computed_from}; {ELSEWHERE}"
        )


class CollapsedVB(GrammarLoop[CollapsedProblem, CollapsedState]):
    """Collapsed variational Bayes for Dirichlet weights; point estimates of all else.

    The weights are integrated out, and the derivations of different sentences are taken for independent: Q(t) =
    prod_i Q(t_i). An iteration visits every sentence i, takes its expected counts out of those of the corpus, and sets
    Q(t_i) to a grammar with weights (E[f^-i] + α) / sum (E[f^-i] + α), whose expected counts are put back (Figure 3 of
    Wang and Blunsom 2013). This update is approximate in two ways: it ignores that an event that occurs twice in
    a derivation is more probable the second time, and takes log(E[f] + α) for E[log(f + α)].

    The objective is the *approximate* free energy

        sum_i H(Q(t_i))  +  sum over multinomials A of log B(E[f_A] + α_A) / B(α_A),

    in nats, B(a) = prod Γ(a_r) / Γ(sum a_r): entropies of the Q(t_i), each at the moment when it was made, and
    the collapsed joint at the expected counts in place of its expectation. It is the bound of :class:`.VariationalEM`
    for these Q(t_i), below the evidence, for log B is convex, but no update maximises it: it may fall by a little from
    one iteration to the next.

    Concentrations may depend on ``pyro.param`` sites and on latent sites: a Gamma, a hierarchical Dirichlet, the sticks
    of a hierarchical Dirichlet process. These are moved up the objective after every sweep, by a few steps of L-BFGS,
    and so are parameters and latent sites from which the weights of other blocks are computed. The objective has then
    the log density of latent values, too, in unconstrained coordinates, where it is finite for any concentration: an
    estimate of the mode (Liang et al. 2007 have such a one at the top of their hierarchy), where
    :class:`.VariationalEM` has a guide. Weights that are ``pyro.param`` sites become normalised expected counts.
    ``weights()`` is the posterior mean (E[f] + α) / sum. All is computed in float64.

    Compiled sweeps are of the CPU. Words on another device are swept by torch, and the host waits for every sentence:
    move them to the CPU.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = CollapsedVB(pyrogram.models.dirichlet.dirichlet).run(words, grammar, concentration=1.0, progress=False)
    >>> loop.weights()["rules"]  # (1 + 2) / 7 and (1 + 3) / 7
    tensor([0.4286, 0.5714])

    :param batch_size: sentences of a batch see each other as they were before it. One is the paper's algorithm; any
        other has the same fixed points, and the compiled DMV does eight in hardly more time than one.
    :param order: ``"fixed"``, or ``"shuffled"`` anew for every sweep; the result depends on it a little. Batches are
        of sentences of nearly equal length; with ``batch_size=1`` the fixed order is that of the corpus.
    :param seed: of shuffled orders; by default from torch's global generator.
    :raises ModelError: if no weights are Dirichlet, and for scaled sites and weights of each sentence.
    """

    may_fall = True

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        batch_size: int = 8,
        order: Literal["fixed", "shuffled"] = "fixed",
        initial_weights: Mapping[str, Tensor] | str | None = None,
        seed: int | None = None,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if batch_size < 1 or order not in ("fixed", "shuffled"):
            raise ValueError(f"need batch_size >= 1 and order 'fixed' or 'shuffled', not {batch_size} and {order!r}")
        self.batch_size, self.order = batch_size, order
        self._seed = int(torch.randint(2**62, ())) if seed is None and order == "shuffled" else seed or 0

    def _prepare(self, model: Callable[[], Any]) -> CollapsedProblem:
        return CollapsedProblem.read(model, "CollapsedVB", self.batch_size, _check)

    def latents(self) -> Weights:
        """The present values of the latent sites that are not integrated out."""
        problem, state = self._present()
        return problem.latents(state.weights, state.parameters)

    def _way(self, problem: CollapsedProblem, source: WeightSource) -> str:
        if source.is_computed:
            return "gradient"
        return "closed form" if source.is_param else "integrated out"

    def _init(self, problem: CollapsedProblem, start: Weights) -> CollapsedState:
        """Q(t_i) under the initial weights."""
        sources, parameters = problem.traced.weight_sources, problem.traced.parameter_values()
        fixed = problem.fixed(start)
        computed = [name for name in start if sources[name].is_computed]
        start = {**problem.terms_at(fixed, parameters).weights(fixed), **start}
        sentence_counts: dict[str, SentenceCounts] = {}
        entropy = torch.zeros((), dtype=torch.float64)
        for site in problem.traced.sentences:
            weights = {b: start[s].to(torch.float64) for b, s in site.source_of_block.items()}
            log_z, entropies, sentence_counts[site.name] = problem.updates[site.name].expected_counts(weights)
            site.check_derivable(log_z)
            entropy += entropies.sum(dtype=torch.float64).cpu()
        counts = problem.summed(sentence_counts)
        if computed:  # values that fit these weights
            parameters = problem.climb(fixed, parameters, counts, _STEPS, problem.multinomials(counts))
        return CollapsedState(
            weights=fixed,
            counts=counts,
            parameters=parameters,
            entropy=entropy,
            sweep=torch.tensor(0),
            generator=torch.Generator().manual_seed(self._seed).get_state(),
            sentence_counts=sentence_counts,
        )

    def _update(self, problem: CollapsedProblem, state: CollapsedState) -> tuple[CollapsedState, Info]:
        traced = problem.traced
        generator = torch.Generator().set_state(state.generator) if self.order == "shuffled" else None
        terms = problem.terms_at(state.weights, state.parameters)
        weights = terms.weights(state.weights)
        joint = log_collapsed_joint(traced, state.counts, terms.alpha, weights)
        objective = float(state.entropy) + float(joint) + float(terms.density + terms.log_jacobian)
        again = int(state.sweep) % _SWEEPS_PER_SUM == 0
        counts = (
            problem.summed(state.sentence_counts) if again else {name: f.clone() for name, f in state.counts.items()}
        )
        sentence_counts: dict[str, SentenceCounts] = {}
        entropy = torch.zeros((), dtype=torch.float64)
        for site in traced.sentences:
            order = problem.order(site, generator)
            shared = make_corpus_counts(site, counts, terms.alpha, weights)
            entropies, sentence_counts[site.name] = problem.updates[site.name].collapsed_vb(
                shared, state.sentence_counts[site.name], order, self.batch_size
            )
            site.check_derivable(entropies)
            entropy += entropies.sum(dtype=torch.float64).cpu()
        new_weights = most_likely(traced, counts, state.weights)
        prior = problem.multinomials(counts)
        parameters = problem.climb(new_weights, state.parameters, counts, _STEPS, prior)
        new = CollapsedState(
            weights=new_weights,
            counts=counts,
            parameters=parameters,
            entropy=entropy,
            sweep=state.sweep + 1,
            generator=state.generator if generator is None else generator.get_state(),
            sentence_counts=sentence_counts,
        )
        return new, Info(objective)

    def __copy__(self) -> Self:
        """With states of its own, for a step of one loop takes the memory of its earlier ones."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _state=deepcopy(self._state), _best=deepcopy(self._best))
        return other

    def _done(self, problem: CollapsedProblem, old: CollapsedState, info: Info) -> None:
        for name, counts in old.sentence_counts.items() if old is not self._best else ():
            problem.updates[name].recycle(counts)

    def _estimate(self, problem: CollapsedProblem, state: CollapsedState) -> Weights:
        terms = problem.terms_at(state.weights, state.parameters)
        return posterior_mean(problem.traced, state.counts, terms.alpha, terms.weights(state.weights))

    # ------------------------------------------------------------------ states that are loaded

    def _accept(self, problem: CollapsedProblem, state: CollapsedState) -> None:
        fits = set(state.sentence_counts) == set(problem.updates)
        fits = fits and all(problem.updates[site].fits(c) for site, c in state.sentence_counts.items())
        total = problem.summed(state.sentence_counts) if fits else {}
        near = partial(torch.allclose, rtol=1e-4, atol=1e-4)
        if not fits or not all(near(total[name], f.to(total[name])) for name, f in state.counts.items()):
            raise ValueError("this is not the state of CollapsedVB: 'sentence_counts' do not add up to 'counts'")
