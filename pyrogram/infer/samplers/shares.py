# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sweep over derivations in shares, one for each process: what a share is, and what a process has done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import SentenceOrder
from pyrogram.infer.model.shares import in_order
from pyrogram.infer.model.structure import SentenceSite, TracedModel


@dataclass(frozen=True)
class Share:
    """The sentences of one process: sites, what goes through their sentences, and in which order."""

    sites: Sequence[SentenceSite]
    updates: dict[str, CollapsedUpdates]
    orders: dict[str, SentenceOrder]

    def order(self, site: SentenceSite, kind: str, generator: torch.Generator) -> Tensor:
        """A permutation of the sentences of a site: ``"fixed"``, or ``"shuffled"``."""
        order = self.orders[site.name]
        return order.fixed if kind == "fixed" else order.shuffled(generator)


@dataclass(frozen=True)
class Part:
    """What a sweep has made of a share.

    :param derivations: by site, of the share's sentences.
    :param accepted: by site, which proposals were accepted.
    :param changes: what it adds to the counts, by source; None where they are to be counted.
    """

    derivations: Weights
    accepted: dict[str, Tensor]
    changes: Weights | None = None


def joined(traced: TracedModel, parts: Sequence[Part]) -> Part:
    """The parts of all processes, by rank, as one of all sentences."""
    if len(parts) == 1:
        return parts[0]
    derivations, accepted = {}, {}
    for site in traced.sentences:
        derivations[site.name] = in_order([part.derivations[site.name] for part in parts], site.words)
        accepted[site.name] = in_order([part.accepted[site.name] for part in parts], site.words)
    changes: Weights = {}
    for part in parts:
        for name, change in (part.changes or {}).items():
            changes[name] = changes[name] + change if name in changes else change
    return Part(derivations, accepted, None if parts[0].changes is None else changes)
