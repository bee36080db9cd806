# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Minibatches: sentences of like length together, so that hardly anything of a batch is padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from pyrogram.data.strings import Ints
from pyrogram.printable import plural

T = TypeVar("T")


class Batches(Sequence[T], Generic[T]):
    """Parts of a corpus, each made when it is asked for; see :meth:`pyrogram.data.Corpus.batches`.

    :param rows: of each batch the numbers of its sentences in the corpus: what puts results back into its order.
    :param part: gives the part of the corpus with these sentences.
    """

    def __init__(self, rows: Sequence[Tensor], part: Callable[[Tensor], T]) -> None:
        self.rows = rows
        self._part = part

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Batches[T]: ...

    def __getitem__(self, index: int | slice) -> T | Batches[T]:
        if isinstance(index, slice):
            return Batches(self.rows[index], self._part)
        return self._part(self.rows[index])

    def __repr__(self) -> str:
        return f"<{plural(len(self), 'batch')} of {plural(sum(map(len, self.rows)), 'sentence')}>"


def rows_by_length(lengths: Ints, max_words: int | None, max_sentences: int | None, seed: int | None) -> list[Tensor]:
    """The numbers of all sentences, those of like length together; the parameters are those of ``Corpus.batches``.

    :raises ValueError: if a bound is less than one.
    """
    for name, bound in (("max_words", max_words), ("max_sentences", max_sentences)):
        if bound is not None and bound < 1:
            raise ValueError(f"expected {name} to be at least 1, or None, actual {bound}.")
    random = np.random.default_rng(seed)
    order = np.arange(len(lengths)) if seed is None else random.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]
    longest, rows, start = lengths[order], [], 0
    while start < len(order):
        stop = len(order) if max_sentences is None else min(len(order), start + max_sentences)
        if max_words is not None:
            sizes = np.arange(1, stop - start + 1) * longest[start:stop]  # with padding; they rise
            stop = start + max(1, int(np.searchsorted(sizes, max_words, side="right")))
        rows.append(torch.from_numpy(order[start:stop]))
        start = stop
    return rows if seed is None else [rows[i] for i in random.permutation(len(rows))]
