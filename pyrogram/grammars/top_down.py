# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars that are recursions, and whose sentences are drawn from the top down."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from pyrogram.draws import Draws, FlatRules, ancestral
from pyrogram.grammar import Grammar

from .recursive import RecursiveGrammar


class TopDownGrammar(RecursiveGrammar):
    """A recursion whose events are the rules of a context-free grammar, so that each generates what is below it."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "leftmost_rules"}

    @cached_property
    def leftmost_rules(self) -> FlatRules:
        """The events, by number, as rules of a context-free grammar whose leftmost derivations are the rows."""
        return self._leftmost_rules()

    @abstractmethod
    def _leftmost_rules(self) -> FlatRules: ...

    sample_derivations = Grammar._draw

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return ancestral(tables, draws, self.leftmost_rules)
