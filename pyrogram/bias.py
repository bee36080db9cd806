# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A bias of derivations: what is preferred or avoided, in nats, and what that assumes, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyrogram.blocks import Block

__all__ = ["Bias"]


@dataclass(frozen=True)
class Bias:
    """A sum over the events of a derivation y, and over its parts in a sentence x: φ(x, y), in nats.

    A grammar that is tilted by it weighs derivations by exp φ. Biases are added, and multiplied by numbers.

    >>> verbs = Bias({"root": torch.tensor([0.0, 1.0])}, told=("Sentences prefer tag 1 for their root.",))
    >>> near = Bias(parts={"arc_scores": torch.zeros(3, 5, 5)}, told=("Nothing is said of arcs.",))
    >>> both = 2.0 * verbs + near
    >>> both.events["root"]
    tensor([0., 2.])
    >>> print(both)
    Sentences prefer tag 1 for their root.
    Nothing is said of arcs.

    :param events: nats by block of a grammar, in shapes that broadcast against those of the blocks.
    :param parts: nats by kind of log factor, such as ``arc_scores`` of a :class:`.DMV`, see :class:`.Sentence`; of N
        sentences, shape ``(N, ...)``.
    :param told: what is assumed, or was found, in sentences.
    :raises TypeError: if ``told`` is one string.
    """

    events: Mapping[str, Tensor] = field(default_factory=dict)
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    told: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.told, str):
            raise TypeError(f"told must be a tuple of sentences, not one string; give told=({self.told!r:.100},)")

    @staticmethod
    def of(bias: Bias | Mapping[str, Tensor] | Tensor, blocks: Mapping[str, Block]) -> Bias:
        """A bias, from nats of events by block and of parts by kind; or of the events of the only block.

        :raises TypeError: if it is no bias.
        """
        if isinstance(bias, Tensor):
            if len(blocks) > 1:
                raise TypeError(f"a bias of {list(blocks)} must be tensors by block, not one tensor")
            bias = {next(iter(blocks)): bias}
        if isinstance(bias, Mapping):
            events = {name: table for name, table in bias.items() if name in blocks}
            bias = Bias(events, {name: table for name, table in bias.items() if name not in events})
        if not isinstance(bias, Bias):
            raise TypeError(f"bias must be a Bias, or tensors by block or kind of part, not {bias!r:.100}")
        for name, table in (*bias.events.items(), *bias.parts.items()):
            if not isinstance(table, Tensor) or not table.is_floating_point():
                kind = table.dtype if isinstance(table, Tensor) else type(table).__name__
                raise TypeError(f"the nats of {name!r} must be a tensor of real numbers, not {kind}")
        return bias

    def nats(self, blocks: Mapping[str, Block]) -> dict[str, Tensor]:
        """The nats of all events of the blocks that it is about, in their shapes.

        :raises ValueError: if they do not fit, or are NaN or inf.
        """
        by_block = {}
        for name, nats in self.events.items():
            if name not in blocks:
                raise ValueError(f"a bias of events is about blocks, which are {list(blocks)}, but {name!r} is none")
            shape = blocks[name].shape
            try:
                by_block[name] = nats.expand(shape)
            except RuntimeError:
                raise ValueError(
                    f"the nats of block {name!r} must broadcast against {tuple(shape)}, but have shape "
                    f"{tuple(nats.shape)}"
                ) from None
            if not bool((nats.detach() < torch.inf).all()):
                raise ValueError(
                    f"the nats of block {name!r} must be real numbers or -inf, which forbids, but some are not"
                )
        return by_block

    @property
    def detached(self) -> Bias:
        """The same numbers, without a graph."""
        events, parts = ({n: t.detach() for n, t in x.items()} for x in (self.events, self.parts))
        return Bias(events, parts, self.told)

    def __add__(self, other: Bias) -> Bias:
        if not isinstance(other, Bias):
            return NotImplemented
        told = self.told + tuple(text for text in other.told if text not in self.told)
        return Bias(_sum(self.events, other.events), _sum(self.parts, other.parts), told)

    def __radd__(self, other: Any) -> Bias:
        """So that ``sum`` adds biases."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, times: float | Tensor) -> Bias:
        if not isinstance(times, (int, float, Tensor)):
            return NotImplemented
        events = {name: _times(table, times) for name, table in self.events.items()}
        return Bias(events, {kind: _times(table, times) for kind, table in self.parts.items()}, self.told)

    __rmul__ = __mul__

    def __getitem__(self, sentences: Any) -> Bias:
        """The bias of some sentences: those of a subsampled plate, say."""
        return Bias(self.events, {kind: table[sentences] for kind, table in self.parts.items()}, self.told)

    def has_same_parts(self, other: Bias | None) -> bool:
        """Whether another one has the same nats of parts."""
        if other is None or self.parts.keys() != other.parts.keys():
            return other is self
        return all(t is other.parts[kind] or torch.equal(t, other.parts[kind]) for kind, t in self.parts.items())

    @property
    def is_learnt(self) -> bool:
        """Whether it has a gradient."""
        return any(table.requires_grad for table in (*self.events.values(), *self.parts.values()))

    def __str__(self) -> str:
        return "\n".join(self.told)


def _sum(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> dict[str, Tensor]:
    both = {}
    for name in a.keys() & b.keys():
        try:
            both[name] = a[name] + b[name]
        except RuntimeError:
            shapes = f"{tuple(a[name].shape)} and {tuple(b[name].shape)}"
            raise ValueError(
                f"the nats of {name!r} of biases that are added must fit, but have shapes {shapes}"
            ) from None
    return {**a, **b, **both}


def _times(table: Tensor, times: float | Tensor) -> Tensor:
    """Zero times what is forbidden allows it."""
    if isinstance(times, Tensor):
        return torch.where(table == 0, 0.0, table * times)
    return table * times if times else torch.zeros_like(table)
