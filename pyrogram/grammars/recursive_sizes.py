# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether blocks, sizes and lists fit a recursion: compiled code looks at no bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyrogram.checks import check_size
from pyrogram.grammar import Block
from pyrogram.printable import plural
from pyrogram.recursion.emit.layout import Layout
from pyrogram.recursion.rules.language import Entry, Ref, Size, Word
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.checks import Checks


@dataclass(frozen=True)
class Fitted:
    """What a recursion is run with, besides weights.

    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param words: the recursion's name of the words, as none or one.
    """

    sizes: Mapping[str, int]
    lists: Mapping[str, Any]
    words: tuple[str, ...]


def check_kinds(recursion: Recursion, blocks: Mapping[str, Block]) -> None:
    """:raises TypeError: in one sentence, if the recursion is none, or a block is none."""
    if not isinstance(recursion, Recursion):
        raise TypeError(
            f"recursion must be what a page returns when it is called, page(), not {type(recursion).__name__}"
        )
    if recursion.linked:
        raise TypeError(
            f"{recursion.name} has links, {', '.join(sorted(recursion.linked))}, and sentences of a grammar are words "
            "alone; give links to a pyrogram.recursion.Program"
        )
    for name, block in blocks.items():
        if not isinstance(block, Block) or not isinstance(block.shape, torch.Size):
            raise TypeError(f"block {name!r} must be Block(torch.Size(shape)), not {block!r}")


def fit(
    recursion: Recursion,
    blocks: Mapping[str, Block],
    num_words: int,
    sizes: Mapping[str, int],
    lists: Mapping[str, Sequence[int]],
) -> Fitted:
    """Sizes from the shapes of blocks and the lengths of lists, once everything fits.

    :raises ValueError: in one sentence that says what does not fit.
    """
    cells = lower(recursion)
    layout = Layout(cells)
    _check_names(recursion, layout, blocks, lists)
    known_sizes = {name: check_size(f"size {name}", size) for name, size in sizes.items()}
    for w in layout.weights:
        for axis, size in enumerate(w.sizes):
            if isinstance(size, str) and len(blocks[w.name].shape) == len(w.sizes):
                known_sizes.setdefault(size, blocks[w.name].shape[axis])
    columns: dict[str, Any] = {name: np.asarray(lists[name]) for name in layout.lists}
    for *_, x in _symbols(recursion):
        if isinstance(x, Entry) and isinstance(x.row.size, str):
            known_sizes.setdefault(x.row.size, len(columns[x.column]))
    missing = [name for name in layout.sizes if name not in known_sizes]
    if missing:
        raise ValueError(f"sizes lacks {missing[0]!r}, which {recursion.name} needs and no block's shape tells")
    unknown = sorted(set(sizes) - {*layout.sizes})
    if unknown:
        raise ValueError(f"sizes has {unknown[0]!r}, and {recursion.name} has no size of that name")
    for w in layout.weights:
        expected = tuple(_number(s, known_sizes) for s in w.sizes)
        if tuple(blocks[w.name].shape) != expected:
            raise ValueError(
                f"block {w.name!r} must have the shape of the weight, ({', '.join(map(str, w.sizes))}) = {expected}, "
                f"not {tuple(blocks[w.name].shape)}"
            )
    Checks(cells).check_lists(known_sizes, columns)
    _check_words(recursion, known_sizes, num_words)
    return Fitted(known_sizes, columns, tuple(layout.words))


def _check_names(
    recursion: Recursion, layout: Layout, blocks: Mapping[str, Block], lists: Mapping[str, Sequence[int]]
) -> None:
    weights = {w.name: w for w in layout.weights}
    for name, w in weights.items():
        if name not in blocks:
            raise ValueError(f"the weight {name!r} of {recursion.name} is no block; the blocks are {list(blocks)}")
        if w.num_positions:
            raise ValueError(
                f"the weight {name!r} of {recursion.name} has positions, and the axes of a grammar's weights are "
                f"symbols: for words w of the page, w[i] is the word at position i"
            )
    for name in blocks:
        if name not in weights:
            raise ValueError(f"block {name!r} is a weight in no rule of {recursion.name}; those are {list(weights)}")
    if set(lists) != set(layout.lists):
        raise ValueError(f"lists must have the columns {layout.lists} of {recursion.name}, not {sorted(lists)}")
    if len(layout.words) > 1:
        raise ValueError(f"{recursion.name} has the words {' and '.join(layout.words)}, and a grammar has one sentence")


def _check_words(recursion: Recursion, sizes: Mapping[str, int], num_words: int) -> None:
    """Words are symbols of the axes that they stand at."""
    shared = {(ref.table, axis) for ref, axis, _, x in _symbols(recursion) if not isinstance(x, Word)}
    for ref, axis, size, x in _symbols(recursion):
        if isinstance(x, Word):
            number = _number(size, sizes)
            if number < num_words:
                raise ValueError(
                    f"{ref} in {recursion.name} has room for {plural(number, 'word')}, and num_words is {num_words}"
                )
            if number > num_words and (ref.table, axis) not in shared:
                raise ValueError(
                    f"{ref} in {recursion.name} has room for {plural(number, 'word')}, and num_words is "
                    f"{num_words}, so some events are never used: write num_words={number}, or give the axis of {x} "
                    f"the size {num_words}"
                )


def _symbols(recursion: Recursion) -> Iterator[tuple[Ref, int, Size, Any]]:
    """All symbols in rules: the reference, the axis where they stand, and its size."""
    for rule in recursion.rules:
        for ref in (rule.head, *rule.factors):
            sizes = recursion.tables[ref.table].sizes
            for axis, (size, x) in enumerate(zip(sizes, ref.symbols, strict=True)):
                yield ref, axis, size, x


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else sizes[size]
