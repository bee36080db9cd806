# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What grammars have in common whose weights are those of another grammar in another arrangement."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from torch import Tensor
from typing_extensions import Self

from pyrogram.bias import Bias
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammar import Block, Grammar
from pyrogram.sentences import Evidence, Known, Sentences


class ComposedGrammar(Grammar):
    """A grammar that derives sentences as another one does, its base, whose bias and evidence are its own.

    :param base: the other grammar.
    :param blocks: of this grammar.
    """

    def __init__(self, base: Grammar, blocks: Mapping[str, Block]) -> None:
        self.base, self.bias, self._blocks = base, base.bias, dict(blocks)

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self._blocks

    @property
    def num_words(self) -> int:
        return self.base.num_words

    def rows_of_base(self, derivations: Tensor) -> Tensor:
        """Derivations as the base grammar has them."""
        return derivations

    def evidence(self, known: Known | None) -> Evidence | None:
        return self.base.evidence(known)

    def tilted(self, bias: Bias | Mapping[str, Tensor] | Tensor) -> Self:
        """The same over the tilted base: the bias is one of the events of the base grammar."""
        return self._over(self.base.tilted(bias))

    def without_parts(self) -> Self:
        return self._over(self.base.without_parts())

    def at_temperature(self, temperature: float) -> Self:
        return self._over(self.base.at_temperature(temperature))

    def _over(self, base: Grammar) -> Self:
        composed = copy.copy(self)
        composed.base, composed.bias = base, base.bias
        return composed


class ComposedUpdates(CollapsedUpdates):
    """Sweeps in plain torch; tilts and parts are those of derivations of the base grammar.

    :param base: sweeps of the base grammar over the same sentences.
    """

    def __init__(self, grammar: ComposedGrammar, words: Tensor | Sentences, base: CollapsedUpdates) -> None:
        super().__init__(grammar, words)
        self._base = base

    def log_tilt(self, trees: Tensor) -> Tensor:
        return self._base.log_tilt(self.grammar.rows_of_base(trees))

    def parts(self, trees: Tensor) -> Tensor:
        return self._base.parts(self.grammar.rows_of_base(trees))
