# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The labelled spans of leftmost derivations."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyrogram.draws import FlatRules
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel

_CHUNK = 2**22  # numbers of spans that are held at a time


def has_spans(
    ids: Int[Tensor, "B L"], spans: Bool[Tensor, "B N N"], rules: FlatRules, num_symbols: int
) -> Bool[Tensor, "B"]:
    """Whether derivations have a node, of whatever symbol, over one of some words i .. k - 1, true at [i, k].

    :param ids: derivations, padded with -1 on the right, on the CPU.
    """
    N = spans.shape[1]
    has_span = torch.zeros(len(ids), dtype=torch.bool)
    for place in torch.arange(len(ids)).split(max(1, _CHUNK // (N * N * num_symbols))):
        total = add_spans(torch.zeros(len(place), N, N, num_symbols), ids[place], rules)
        has_span[place] = ((total > 0).any(-1) & spans[place]).flatten(1).any(-1)
    return has_span


def add_spans(total: Float[Tensor, "B N N S"], ids: Int[Tensor, "B L"], rules: FlatRules) -> Float[Tensor, "B N N S"]:
    """Add one to [b, i, k, A] for every node A over the words i .. k - 1 of derivation b, in place; returns it.

    :param total: on the CPU.
    :param ids: padded with -1 on the right; what is no derivation adds anything.
    """
    _add_all(np.ascontiguousarray(ids.numpy()), rules.lhs, rules.offsets, rules.symbols, total.numpy())
    return total


@kernel
def _add_all(ids: Array, lhs: Array, offsets: Array, symbols: Array, total: Array) -> None:
    # A node is open while its right side is read: its rule, the next symbol of it, and its first word.
    open_ids = np.zeros((ids.shape[1] + 1, 3), np.int64)
    for b in range(len(ids)):
        depth, at, next_id = 0, 0, 0
        while True:
            if depth == 0 or symbols[offsets[open_ids[depth - 1, 0]] + open_ids[depth - 1, 1]] >= 0:
                if next_id == ids.shape[1] or ids[b, next_id] < 0:
                    break
                open_ids[depth, 0], open_ids[depth, 1], open_ids[depth, 2] = ids[b, next_id], 0, at
                next_id += 1
                depth += 1
            else:
                at += 1
                open_ids[depth - 1, 1] += 1
            # Read terminals, and close what is complete.
            while depth > 0:
                rule, place = open_ids[depth - 1, 0], open_ids[depth - 1, 1]
                if offsets[rule] + place < offsets[rule + 1]:
                    break
                total[b, open_ids[depth - 1, 2], at, lhs[rule]] += 1
                depth -= 1
                if depth > 0:
                    open_ids[depth - 1, 1] += 1
            if depth == 0:
                break
