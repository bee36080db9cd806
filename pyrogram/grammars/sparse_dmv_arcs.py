# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The events of the arcs of sentences, a few sentences of like lengths at a time; kept for those that come again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts.attachments import Attachments
from pyrogram.charts.trees import lengths_of
from pyrogram.operators import Values, captured, handle_of, number_of, object_of, operate

CELLS = 2**21  # arcs whose weights are held at a time
MOST_KEPT = 2**27  # arcs whose events are kept from one E-step to the next, 4 bytes each


@dataclass(frozen=True)
class Arcs:
    """The events of the arcs of some sentences of like lengths.

    :param sentences: their numbers, shape ``(B,)``.
    :param words: shape ``(B, n)``.
    :param index: see :meth:`.Attachments.table`, shape ``(B, n+1, n+1[, S])``.
    :param logs: as there, shape ``(B, n+1, n+1)``; None: all zero.
    """

    sentences: Tensor
    words: Tensor
    index: Tensor
    logs: Tensor | None


class SentenceArcs:
    """Looks up the events of arcs.

    Those of one corpus are kept, because loops come back to them, unless they are too many: then each E-step finds them
    again, and memory does not grow with the corpus.

    :param attachments: the events.
    """

    def __init__(self, attachments: Attachments) -> None:
        self.attachments = attachments
        self._kept: tuple[Tensor, int, list[Arcs]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def table(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Of sentences ``(*batch, n)``, see :meth:`.Attachments.table`."""
        if captured():
            traced_index, traced_logs = operate(number_of(_table, handle_of(self)), [words])
            return traced_index, traced_logs
        index, logs = self.attachments.table(words.reshape(-1, words.shape[-1]).cpu().numpy())
        batch, device = words.shape[:-1], words.device
        events = torch.from_numpy(index).to(device).reshape(*batch, *index.shape[1:])
        return events, None if logs is None else torch.from_numpy(logs).to(device).reshape(*batch, *logs.shape[1:])

    def of(self, words: Tensor) -> Iterator[Arcs]:
        """All sentences, shape ``(N, n)``, the shortest first."""
        version = -1 if words.is_inference() else words._version
        if self._kept is not None and self._kept[0] is words and self._kept[1] == version >= 0:
            return iter(self._kept[2])
        lengths = lengths_of(words)
        size = int((lengths + 1).square().sum()) * self.attachments.num_valences
        if size > MOST_KEPT or version < 0:
            return self._list(words, lengths)
        arcs = list(self._list(words, lengths))
        self._kept = words, version, arcs
        return iter(arcs)

    def _list(self, words: Tensor, lengths: Tensor) -> Iterator[Arcs]:
        order = lengths.argsort(stable=True)
        cells = (lengths[order] + 1).square() * self.attachments.num_valences
        begin = 0
        while begin < len(order):
            most = cells[begin : begin + CELLS] * torch.arange(1, len(cells[begin : begin + CELLS]) + 1)
            end = begin + max(1, int((most <= CELLS).sum()))  # sentences are padded to the longest of them
            sentences = order[begin:end]
            rows = words[sentences, : int(lengths[sentences[-1]])]
            yield Arcs(sentences, rows, *self.table(rows))
            begin = end


def _table(handle: int) -> Values:
    """The same as an operation; logs are zero where all pairs were seen."""

    def values(words: Tensor) -> list[Tensor]:
        index, logs = object_of(handle).table(words)
        return [index, shapes(words)[1].zero_() if logs is None else logs]

    def shapes(words: Tensor) -> list[Tensor]:
        *batch, n = words.shape
        S = object_of(handle).attachments.num_valences
        valences = () if S == 1 else (S,)
        index = words.new_empty(*batch, n + 1, n + 1, *valences, dtype=torch.int32)
        return [index, words.new_empty(*batch, n + 1, n + 1, dtype=torch.float64)]

    return Values(values, shapes)
