# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Punctuation out of columns: the words that stay, their heads and hints, and where marks stood."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyrogram.data.columns import Columns
from pyrogram.data.punctuation import kept_hints, marks, reattach
from pyrogram.data.records import Hints
from pyrogram.data.strings import Bools, narrow, offsets_of


def without_punctuation(columns: Columns) -> Columns:
    """The sentences without punctuation; those of nothing else vanish. Nothing may have been left out before."""
    kept = ~marks(columns.upos, columns.xpos)
    if kept.all():
        return columns
    where, offsets = np.flatnonzero(kept), columns.offsets
    lengths = np.diff(np.searchsorted(where, offsets))
    after_mark = np.zeros(len(kept), np.bool_)
    after_mark[1:] = ~kept[:-1]
    rest = replace(
        columns.take_tokens(where, offsets_of(lengths)),
        heads=narrow(reattach(columns.heads, kept, offsets)),
        trimmed=lengths < columns.lengths,
        after_mark=after_mark[where],
        hints=_hints(columns, kept),
    )
    left = np.flatnonzero(lengths)
    rest = rest.take(left) if len(left) < len(columns) else rest
    later = rest.lines[rest.offsets[:-1]].astype(np.int64)  # the first words, than the first tokens
    lines = rest.lines - np.repeat(later, rest.lengths)
    return replace(rest, first_lines=narrow(rest.first_lines + later), lines=narrow(lines))


def _hints(columns: Columns, kept: Bools) -> dict[int, tuple[Hints, ...]]:
    trimmed = {}
    for i, hints in columns.hints.items():
        tokens = slice(columns.offsets[i], columns.offsets[i + 1])
        # Of a sentence without any heads, no head is one that was left out.
        trimmed[i] = kept_hints(hints, columns.heads[tokens].tolist(), kept[tokens].tolist())
    return trimmed
