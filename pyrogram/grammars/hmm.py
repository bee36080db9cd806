# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hidden Markov model: with priors over its multinomials, the Bayesian tagger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.checks import check_size, checked_words
from pyrogram.distributions.state_sequence import StateSequence, chain, check_states, state_events
from pyrogram.distributions.structured import counted
from pyrogram.draws import Draws
from pyrogram.event_map import EventMap
from pyrogram.grammar import (
    Block,
    Grammar,
    Weights,
    checked_inputs,
    logarithms,
)
from pyrogram.sentences import Sentences

from . import expansions
from .recursive import RecursiveGrammar
from .structures import StateStructure


class HMM(RecursiveGrammar):
    """A Markov chain of hidden states, each of which emits a word, until it ends.

    The blocks are

    * ``initial`` (K,): the first state;
    * ``transition`` (K, K+1) [state, next state, or K: the end];
    * ``emission`` (K, V) [state, word].

    The end is an event of its own, so with normalised weights from which the end can be reached this is a
    distribution over sentences of *all* lengths of at least one word: their probabilities sum to one, unlike those
    of the textbook model without an end, which is a distribution for each length. Equal weights for all states are a
    saddle point of the likelihood: start from the ``random`` initial weights, the default, not from ``uniform``.

    >>> grammar = HMM(num_states=1, num_words=2)
    >>> weights = {"initial": [1.0], "transition": [[0.5, 0.5]], "emission": [[0.9, 0.1]]}
    >>> words = torch.tensor([[0, -1], [1, 0]])
    >>> grammar.log_partition({name: torch.tensor(w).log() for name, w in weights.items()}, words).exp()
    tensor([0.4500, 0.0225])

    :param num_states: K.
    :param num_words: V, the size of the alphabet.
    """

    def __init__(self, num_states: int, num_words: int):
        for name, value in (("num_states", num_states), ("num_words", num_words)):
            check_size(name, value)
        self.num_states, K, V = num_states, num_states, num_words
        shapes = {"initial": (K,), "transition": (K, K + 1), "emission": (K, V)}
        blocks = {name: Block(torch.Size(shape)) for name, shape in shapes.items()}
        moves = EventMap.of_blocks(blocks).tables["transition"]  # into a state, or to the end
        super().__init__(blocks, chain(), V, where={"transition": moves[:, :K], "end": moves[:, K:]})

    def __repr__(self) -> str:
        return f"HMM({self.num_states}, {self.num_words})"

    @property
    def identity(self) -> str:
        return ""  # the shapes of the blocks tell all

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        states, words = ([str(i) for i in range(size)] for size in (self.num_states, self.num_words))
        return {
            "initial": {"state": states},
            "transition": {"state": states, "next_state": [*states, "end"]},
            "emission": {"state": states, "word": words},
        }

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> StateSequence:
        """p(y | x, w): the states of given words.

        :param evidence: logs of factors of states, of the items ``F``, see :meth:`log_partition`; of nothing else.
        :raises ValueError: if it is evidence on something else, or has another shape.
        """
        log_weights = logarithms(weights, log_weights)
        words = checked_inputs(self, log_weights, words)
        bonus, shape = None, (words.shape[-1] + 1, self.num_states)
        for name, scores in (evidence or {}).items():
            if name != "F":
                raise ValueError(f"state sequences have evidence on states, the items F, alone, not on {name}")
            if tuple(scores.shape[-2:]) != shape:
                raise ValueError(
                    f"evidence on F must have shape (*batch, {shape[0]}, {shape[1]}), not {tuple(scores.shape)}"
                )
            bonus = scores[..., 1:, :]
        return StateSequence(*self._in_order(log_weights), words, bonus=bonus)

    @property
    def structure(self) -> StateStructure:
        """States of words, of which some may be known; log factors of states, too: a tag dictionary, say."""
        return StateStructure(self)

    def _in_order(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return weights["initial"], weights["transition"], weights["emission"]

    def counts(self, words: Tensor, states: Tensor) -> Weights:
        """Events of given state sequences by block, shape ``(*batch, *block.shape)``."""
        words = checked_words(words, self.num_words)
        check_states(states, words, self.num_states)
        events = state_events(words, states, self.num_states, self.num_words)
        dtype = torch.get_default_dtype()
        return {name: counted(index, tuple(self.blocks[name].shape), dtype) for name, index in events.items()}

    sample_states = Grammar._draw

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.hmm(tables, draws)
