# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings' sampler in collapsed space (Johnson, Griffiths and Goldwater 2007)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.grammar import Grammar, Weights
from pyrogram.infer.model.collapsed import make_corpus_counts
from pyrogram.infer.running.state import copied
from pyrogram.sentences import Sentences

from .base import TreeSampler
from .problem import TreeProblem
from .state import TreeState

if TYPE_CHECKING:
    from pyro.distributions import TorchDistribution


class TreeHastings(TreeSampler):
    """Derivations, one sentence after the other, with the weights integrated out: exact for P(t | x, α).

    The derivation of sentence i is proposed from weights (f^-i + α) / sum (f^-i + α), f^-i the events of all others,
    and accepted with probability min(1, P(t') q(t) / (P(t) q(t'))), in which P(t | t^-i) = B(f(t) + f^-i + α) /
    B(f^-i + α) counts repeated events within a derivation. Sentences are proposed ``batch_size`` at a time, from
    weights without the derivations of the whole batch, and accepted one by one: exact, see
    :meth:`.CollapsedUpdates.hastings`. A subclass that overrides :meth:`proposal` proposes from another distribution.

    Acceptance is nearly one on real corpora, and that says nothing about how well the chain mixes.

    Compiled sweeps are of the CPU. Words on another device are swept by torch, and the host waits for every sentence:
    move them to the CPU.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> chain = TreeHastings(pyrogram.models.dirichlet.dirichlet, seed=0)
    >>> chain.run(words, grammar, concentration=1.0, num_steps=5, progress=False).weights()["rules"]
    tensor([0.4286, 0.5714])

    :param annealing: simulated annealing: (T, k) lowers the temperature of the target P(t | x, α)^(1/T) geometrically
        from T to one in k sweeps; or a function from the sweep's number, from zero, to a temperature.
    :param options: of every :class:`.TreeSampler`: ``batch_size``, ``order``, ``initial_weights``, ``seed``,
        ``kernel``, ``keep_parts``, ``keep_statistics``, ``keep_weights``.
    """

    _dirichlets = "integrated out"
    _options = (*TreeSampler._options, "annealing")

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        annealing: tuple[float, int] | Callable[[int], float] | None = None,
        **options: Any,
    ):
        super().__init__(model, **options)
        pair = isinstance(annealing, tuple) and len(annealing) == 2
        if annealing is not None and not callable(annealing):
            if not (pair and annealing[0] > 0 and annealing[1] >= 1):
                raise ValueError(
                    f"annealing must be (T, k) with T > 0 and k >= 1, or a function of the sweep, not {annealing}"
                )
        self.annealing = annealing

    def temperature(self, sweep: int) -> float:
        """The temperature of a sweep, counted from zero."""
        if self.annealing is None:
            return 1.0
        if callable(self.annealing):
            return self.annealing(sweep)
        start, sweeps = self.annealing
        return float(start ** max(0.0, 1 - sweep / sweeps))

    def proposal(self, grammar: Grammar, words: Tensor | Sentences, log_weights: Weights) -> TorchDistribution:
        """What new derivations of a batch of sentences are proposed from; override it in a subclass.

        The chain leaves P(t | x, α) invariant for any distribution that depends on these arguments alone, which know
        nothing of the derivations of the batch, and gives a positive probability to every derivation that has one.
        Sweeps with a proposal of one's own are in plain torch, not in compiled code.

        :param grammar: the grammar of the sentences: with their evidence, and tilted, if the model is.
        :param words: of the batch, shape ``(B, n)``; where something is known of the sentences, :class:`.Sentences`,
            whose ``words`` these are.
        :param log_weights: by block, shape ``block.shape``: (f + α) / sum (f + α), f the counts of the sentences
            outside of the batch, or weights that are given; divided by the temperature.
        :returns: a distribution of batch shape ``(B,)`` over derivations, as those of ``grammar.derivation``: it has
            ``sample`` and a normalised ``log_prob``.
        """
        return grammar.derivation(None, words, log_weights=log_weights)

    def _sweep(
        self, problem: TreeProblem, state: TreeState, generator: torch.Generator
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        counts, derivations, accepted = copied(state.counts), copied(state.derivations), {}
        proposal = None if type(self).proposal is TreeHastings.proposal else self.proposal
        for site in problem.traced.sentences:
            accepted[site.name] = problem.updates[site.name].hastings(
                make_corpus_counts(site, counts, problem.alpha(state), state.weights),
                derivations[site.name],
                problem.order(site, generator if self.order == "shuffled" else None),
                self.batch_size,
                generator=generator,
                temperature=self.temperature(int(state.sweep)),
                proposal=proposal,
            )
        return derivations, counts, accepted
