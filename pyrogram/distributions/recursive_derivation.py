# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of a grammar that is a recursion, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.event_map import joined
from pyrogram.grammar import Weights
from pyrogram.trees import has_cycle

from .charted import expected_score, traceable
from .constraints import RecursiveDerivations
from .row_derivation import RowDerivation

if TYPE_CHECKING:
    from pyrogram.grammars.recursive import RecursiveGrammar


class RecursiveDerivation(RowDerivation):
    r"""p(y | x, w), the derivations y of given words x by a recursion.

    A value is a row of events, shape ``(L,)``: elements of the blocks, numbered block after block in C order, as they
    are met on the way down from the goal. A rule's own weights come first, then those of its items, from left to right.
    So a row is not in the order of the words: a chain that is filled from left to right has the last word's events
    first. :meth:`item_counts` has events by the place in the sentence, :meth:`heads` the heads of dependency trees.
    The row is padded with -1 on the right; L is the greatest number of events that a derivation of at most n words has.

    See :class:`.RowDerivation` for arguments; validation reads every row again in Python, some milliseconds for a
    sentence of ten words. Evidence are logs of factors of items, or of uses of events, by name, see
    :meth:`.RecursiveGrammar.log_partition`.
    """

    grammar: RecursiveGrammar

    @property
    def support(self) -> RecursiveDerivations:
        """Derivations of the words."""
        return RecursiveDerivations(self.grammar.traces, self.words)

    # ------------------------------------------------------------------ sums

    def _num_axes(self, name: str) -> int:
        return self.grammar.num_axes(name)

    def marginals(self) -> Tensor:
        """How often each event is expected, shape ``(*batch_shape, R)``: expected counts in the order of events."""
        return joined(self.expected_counts(), self.grammar.blocks)

    def _log_factors(self, value: Tensor) -> Tensor:
        counts = self.item_counts(value, *self.evidence)
        logs = [self._of_items(name, c, self.evidence[name]) for name, c in counts.items()]
        return sum(logs[1:], logs[0])  # whose batches may differ

    def _expected_log_factors(self) -> Tensor | float:
        items = self._expected_items(self.evidence)
        logs = [self._of_items(name, c, self.evidence[name]) for name, c in items.items()]
        return torch.stack(logs).sum(0) if logs else 0.0

    def _is_alike(self, other: Any) -> bool:
        return bool(self.grammar.identity == other.grammar.identity)

    def _divergence(self, other: Any, total: Tensor) -> Tensor:
        for name, counts in self._expected_items({*self.evidence, *other.evidence}).items():
            bonus, of_other = (x.evidence.get(name, torch.zeros(())).to(counts) for x in (self, other))
            total = total + self._of_items(name, counts, bonus - of_other)
        return total

    def _expected_items(self, names: Iterable[str]) -> Weights:
        """How often items are expected at each place, by name, shape ``(*own batch, n + 1, ..., *sizes)``."""
        items = sorted(names)
        if not items:
            return {}
        return self.grammar.item_counts(self.log_weights, self._wide_words(), *items, evidence=self.evidence)

    def _of_items(self, name: str, counts: Tensor, logs: Tensor) -> Tensor:
        """The sum over an item's places of counts times logs of factors."""
        return expected_score(counts, logs.to(counts), self.grammar.num_axes(name))

    # ------------------------------------------------------------------ values

    def _refusal(self, first: int, row: list[float], words: Tensor) -> str:
        events = [int(x) for x in row if x >= 0]
        if events == [x for x in row if x >= 0] and self.grammar.traces(words[words >= 0].tolist()).ways(events) > 1:
            return (
                f"value {first}, {row}, is the row of more than one derivation of the words: give every rule that "
                f"tells these apart a weight, so that the recursion has an event for the choice"
            )
        return f"values must be derivations of the words, but value {first}, {row}, is none"

    def counts(self, value: Tensor) -> Weights:
        """f(x, y): how often each event is in given rows, shape ``(*value.shape[:-1], *block.shape)`` by block.

        :raises ValueError: if a row has what is no event; whether it is a derivation, ``support.check`` says.
        """
        R = self.grammar.num_events
        if not bool(((value >= -1) & (value < R)).all()):
            raise ValueError(f"values must be rows of events, 0..{R - 1}, and then -1, but some are not")
        return self._indicators(value.long())

    def item_counts(self, value: Tensor, *names: str) -> dict[str, Tensor]:
        """How often items, or events of blocks, are at each place of given derivations, float64, by name.

        Rows have events in the order of the rules. Here they are in the order of the words. The shape of each tensor is
        ``(*value.shape[:-1], n + 1, ..., *sizes)``: positions first, those of words (``w[i]`` stands for i), then
        symbols. :meth:`.RecursiveGrammar.item_counts` has the expected numbers. Rows are read in Python, one by one.

        :param value: rows of events, shape ``(*sample, *batch, L)``; a row of -1 alone has no items.
        :param names: of items or blocks.
        :raises ValueError: if a row is no derivation of its words, or if there is no such item or block.
        """
        return self.grammar.items_of(self.words, value, names) if names else {}

    def heads(self, value: Tensor, **arcs: tuple[int, int]) -> Tensor:
        """The heads of words in given derivations, as in CoNLL, shape ``(*value.shape[:-1], n)``.

        A head is a position, 1 .. n. It is 0 for a root, a word that no arc leads to, and -1 where there is no word or
        no derivation.

        :param value: rows of events, see :meth:`item_counts`.
        :param arcs: by name, items or blocks that a derivation has once for each arc, and which of their positions,
            from 0 on, are those of the head and of the dependent. ``attach=(0, 1)`` is right for rules with
            ``attach[w[i], 1, w[j]]`` and ``attach[w[j], 0, w[i]]``: the first word is the head. ``A=(0, 1), B=(1, 0)``
            is right for items ``A[i, j]`` with the head at i, and ``B[i, j]`` with the head at j.
        :raises ValueError: if a row is no derivation of its words, if an item or a block has no such positions, or if
            the arcs of a row are no tree.
        """
        if not arcs:
            raise ValueError(
                "heads needs the name of an item or a block that has the arcs, as in heads(rows, attach=(0, 1))"
            )
        n, counts = self.words.shape[-1], self.item_counts(value, *arcs)
        total = torch.zeros(n + 1, n + 1, dtype=torch.float64, device=value.device)
        for name, pair in arcs.items():
            positions, sizes = self.grammar.item_axes(name)
            if len({*pair} & {*range(positions)}) != 2:
                raise ValueError(f"{name}={pair} must be two of the {positions} positions of {name}, counted from 0")
            front = counts[name].dim() - positions - len(sizes)
            between = counts[name].movedim([front + place for place in pair], [front, front + 1])
            total = total + between.reshape(*between.shape[:front], n + 1, n + 1, -1).sum(-1)
        number = total.sum(-2)[..., 1:]  # of heads of each word
        heads = (total * torch.arange(n + 1, device=value.device)[:, None]).sum(-2)[..., 1:].long()
        wrong = (number > 1).any(-1) | has_cycle(torch.where(number > 1, 0, heads))
        if bool(wrong.any()):
            raise ValueError(
                f"the arcs of value {int(wrong.flatten().nonzero()[0])} are no tree, for a word has two heads or is "
                f"below itself: look at which positions of {' and '.join(arcs)} are those of head and dependent"
            )
        return torch.where((self.words >= 0) & (value[..., :1] >= 0), heads, -1)

    def parts(self, value: Tensor) -> Tensor:
        """How often each event is in given rows, in the shape of :meth:`marginals`."""
        return joined(self.counts(value), self.grammar.blocks)

    @traceable
    def mbr(self) -> Tensor:
        """The derivation of least expected loss (minimum Bayes risk), shape ``(*batch_shape, L)``; -1 where none is.

        It has the greatest sum of f(y) E[f] over all events: the most expected pairs of an event of y and an equal
        event of the true derivation, wherever in the sentence they are. So long derivations lose less than short ones.
        """
        with torch.no_grad():
            counts = self._posterior()[1]
            gains = {n: torch.where(c > 0, c, -torch.inf) for n, c in counts.items()}  # what is impossible stays so
            allowed = {n: torch.where(t > -torch.inf, 0.0, t) for n, t in self._evidence(self._own_batch).items()}
            return self._wide(self._best_of(gains, 1, allowed)[1][0], ())

    def _listed(self, words: Tensor) -> Tensor:
        rows = self.grammar.traces([w for w in words[0].tolist() if w >= 0]).rows()
        if len(set(rows)) < len(rows):
            raise NotImplementedError(
                "two derivations have the same events in the same order, so rows of events do not tell them apart"
            )
        L = self.event_shape[0]
        return torch.tensor([[*row, *[-1] * (L - len(row))] for row in rows], dtype=torch.long).reshape(len(rows), L)
