# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion with all that it needs besides weights and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from pyrogram.charts.trees import lengths_of
from pyrogram.recursion.rules.placed import WordWeight
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.on_tensors import Given, TensorProgram, tensor_program

from .recursive_sizes import Fitted


@dataclass(frozen=True)
class Sums:
    """A recursion that fits the blocks of a grammar.

    :param recursion: without words for symbols of items, see :func:`.placed`.
    :param places: the weights in their place.
    """

    recursion: Recursion
    fitted: Fitted
    places: tuple[WordWeight, ...]

    @property
    def program(self) -> TensorProgram:
        """What computes."""
        return tensor_program(self.recursion)

    def given(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Given:
        """What it computes on.

        :param log_weights: by block, shape ``(B, *shape)``, or ``(1, *shape)`` for all sentences alike.
        :param words: shape ``(B, n)``, padded with -1.
        """
        rows = dict.fromkeys(self.fitted.words, words)
        given = Given(log_weights, lengths_of(words), rows, self.fitted.sizes, self.fitted.lists)
        if not self.places:
            return given
        own = {place.name: place.scores(words, self.fitted.sizes, given.dtype) for place in self.places}
        return replace(given, weights={**log_weights, **own})
