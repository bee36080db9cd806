# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar whose weights are entries of other multinomials: tied rows, expanded ones, pairs [p, 1 - p], constants.

Every event e of the grammar has the weight of an entry s(e) of some *source*. So log Z as a function of the sources
has the gradient sum over e with s(e) = s of the expected count of e, and the sources are blocks of a grammar like any
other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.event_map import first_events, joined, sums_of_entries
from pyrogram.grammar import Block, Grammar, Weights
from pyrogram.sentences import Sentences

from .composed import ComposedGrammar, ComposedUpdates


class TiedGrammar(ComposedGrammar):
    """A grammar over the sources of the weights of another one.

    :param base: the other grammar.
    :param sources: the sources, which are the blocks of this grammar, by name.
    :param entries: by block of the base grammar, the entry of each event, shape ``block.shape``: an index into all
        sources, flattened and one after the other.
    """

    def __init__(self, base: Grammar, sources: Mapping[str, Block], entries: Mapping[str, Tensor]) -> None:
        super().__init__(base, sources)
        self.entries = dict(entries)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for name, entries in self.entries.items():
            digest.update(f"{name}{tuple(entries.shape)}".encode())
            digest.update(entries.cpu().contiguous().numpy().tobytes())
        return f"{self.base.identity} tied {digest.hexdigest()}"

    # ------------------------------------------------------------------ from sources to events, and back

    def by_event(self, values: Mapping[str, Tensor]) -> Weights:
        """Values of entries, ``(*batch, *source.shape)`` by source, as values of events by block of the base."""
        flat = joined(values, self._blocks)
        return {
            name: flat.index_select(-1, entries.to(flat.device).flatten()).unflatten(-1, entries.shape)
            for name, entries in self.entries.items()
        }

    def by_entry(self, counts: Mapping[str, Tensor]) -> Weights:
        """Values of events, ``(*batch, *block.shape)`` by block of the base, summed over those of each entry."""
        return sums_of_entries(counts, self._blocks, self.entries)

    def sources_of_blocks(self) -> dict[str, list[str]]:
        """By block of the base grammar, the sources of its weights."""
        names, firsts = list(self._blocks), torch.tensor(list(first_events(self._blocks).values()))
        numbers = {b: torch.searchsorted(firsts, e.cpu().unique(), right=True) - 1 for b, e in self.entries.items()}
        return {block: [names[i] for i in n.unique().tolist()] for block, n in numbers.items()}

    # ------------------------------------------------------------------ a grammar

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Tensor:
        return self.base.log_partition(self.by_event(log_weights), words)

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> tuple[Tensor, Weights]:
        log_z, counts = self.base.expected_counts(self.by_event(log_weights), words)
        return log_z, self.by_entry(counts)

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> Any:
        """The derivations of the base grammar; their counts are those of the sources' entries."""
        up, logs = (None if w is None else self.by_event(w) for w in (weights, log_weights))
        return _TiedDerivation(self, self.base.derivation(up, words, log_weights=logs))

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        base = self.base.collapsed_updates(words)
        return base.tied(self, self.entries) or ComposedUpdates(self, words, base)

    def initial_weights(self, words: Tensor, *method: Any, **options: Any) -> Weights:
        """The base grammar's, summed over the events of each entry and normalised."""
        return self.normalised_sums(self.base.initial_weights(words, *method, **options))

    def normalised_sums(self, weights: Mapping[str, Tensor]) -> Weights:
        """Weights of the sources from weights of events, by block of the base."""
        return {name: self._blocks[name].normalize(total) for name, total in self.by_entry(weights).items()}


class _TiedDerivation:
    """A distribution over derivations whose counts are summed over the events of each entry."""

    def __init__(self, grammar: TiedGrammar, base: Any) -> None:
        self._grammar, self._base = grammar, base

    def expected_counts(self) -> Weights:
        return self._grammar.by_entry(self._base.expected_counts())

    def counts(self, value: Tensor) -> Weights:
        return self._grammar.by_entry(self._base.counts(value))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)
