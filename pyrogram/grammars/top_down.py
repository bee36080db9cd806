# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars that are recursions, and whose sentences are drawn from the top down."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts import leftmost
from pyrogram.grammar import TooLong

from .recursive import RecursiveGrammar


class TopDownGrammar(RecursiveGrammar):
    """A recursion whose events are the rules of a context-free grammar, so that each generates what is below it."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "leftmost_rules"}

    @cached_property
    def leftmost_rules(self) -> leftmost.FlatRules:
        """The events, by number, as rules of a context-free grammar whose leftmost derivations are the rows."""
        return self._leftmost_rules()

    @abstractmethod
    def _leftmost_rules(self) -> leftmost.FlatRules: ...

    def sample_derivations(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: Sequence[int] = (),
        max_length: int = 100,
        *,
        too_long: TooLong = "redraw",
    ) -> tuple[Tensor, Tensor]:
        """Ancestral draws of words, ``(*sample_shape, max_length)``, and derivations, ``(*sample_shape, L)``.

        Both are padded with -1.

        :param weights: normalised; batch dimensions are the last ones of ``sample_shape``.
        :param too_long: what becomes of a longer one, see :class:`.Sentence`.
        :raises ValueError: if a multinomial does not sum to one, or if sentences hardly ever are short enough.
        """
        return self._draw(weights, sample_shape, max_length, too_long)

    def _ancestral(
        self, tables: Sequence[Tensor], model: Tensor, max_length: int, cut: bool, tries: int
    ) -> tuple[Tensor, Tensor]:
        table = torch.cat([t.flatten(1) for t in tables], -1)
        return leftmost.ancestral(table, model, self.leftmost_rules, max_length, cut, tries)
