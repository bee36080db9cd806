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
from pyrogram.charts.checks import broadcast_shapes, check_shape, check_size
from pyrogram.grammar import TooLong, check_normalized, is_cut, num_tries

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

    def sample(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: torch.Size,
        max_length: int,
        *,
        too_long: TooLong = "redraw",
    ) -> Tensor:
        return self.sample_derivations(weights, sample_shape, max_length, too_long=too_long)[0]

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
        sample_shape = check_shape("sample_shape", sample_shape)
        max_length, cut = check_size("max_length", max_length), is_cut(too_long)
        check_normalized(self, weights)
        batch = self._batch(weights)
        full = broadcast_shapes(sample_shape, batch)
        flat = self.flat(weights, batch, own=True)
        table = torch.cat([flat[name].flatten(1) for name in self.blocks], -1)
        own = torch.arange(len(table)).reshape(batch).expand(full).reshape(-1)
        words, rows = leftmost.ancestral(table, own, self.leftmost_rules, max_length, cut, num_tries(too_long))
        device = table.device
        return words.reshape(*full, max_length).to(device), rows.reshape(*full, rows.shape[-1]).to(device)
