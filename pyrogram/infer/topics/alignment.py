# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""States of several chains, matched: a state has no name of its own, so what chains share must be looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which states of several chains over the same words correspond.

    :param partners: ``partners[c, k]`` is the state of chain c that corresponds to state k of the reference, or -1 if
        the chain has too few; shape ``(C, K)``.
    :param overlap: how far the two agree: 2 |both| / (|one| + |other|) in words, 0 if both are empty; shape ``(C, K)``.
    :param agreement: the share of all words whose state in chain c corresponds to that in the reference, ``(C,)``.
    """

    partners: Tensor
    overlap: Tensor
    agreement: Tensor


def align_states(chains: Sequence[Tensor], reference: int = 0) -> Alignment:
    """Match the states of every chain with those of one of them, so that as many words as possible agree.

    :param chains: states of the same words, all of one shape, padded with -1.
    :param reference: number of the chain that the others are matched with.
    :raises ValueError: if shapes or padding differ.
    """
    first = chains[reference]
    real = first >= 0
    if any(c.shape != first.shape or not torch.equal(c >= 0, real) for c in chains):
        raise ValueError("all chains must have states of the same words, in one shape with one padding")
    K = int(first.max()) + 1
    partners, overlaps, agreement = [], [], []
    for chain in chains:
        columns = int(chain.max()) + 1
        cells = first[real].long() * columns + chain[real].long()
        both = torch.bincount(cells, minlength=K * columns).reshape(K, columns)
        partner = maximum_matching(both)
        found = both.gather(1, partner.clamp_min(0)[:, None])[:, 0] * (partner >= 0)
        sizes = both.sum(1) + both.sum(0)[partner.clamp_min(0)] * (partner >= 0)
        partners.append(partner)
        overlaps.append(2 * found / sizes.clamp_min(1))
        agreement.append(float(found.sum()) / max(int(real.sum()), 1))
    return Alignment(torch.stack(partners), torch.stack(overlaps), torch.tensor(agreement))


def maximum_matching(weights: Tensor) -> Tensor:
    """For each row a column of its own, so that the sum of weights is greatest; -1 for rows left over, ``(R,)``.

    The Hungarian method with shortest augmenting paths, O(n^3), rows of operations by numpy.

    :param weights: shape ``(R, C)``.
    """
    R, C = weights.shape
    n = max(R, C)
    cost = np.zeros((n + 1, n + 1))
    cost[1 : R + 1, 1 : C + 1] = -weights.to(torch.float64).numpy()
    row_price, column_price = np.zeros(n + 1), np.zeros(n + 1)
    row_of = np.zeros(n + 1, np.int64)  # the row that has each column; column 0 is where a path begins
    for row in range(1, n + 1):
        row_of[0], column = row, 0
        nearest, before = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
        done = np.zeros(n + 1, bool)
        while True:
            done[column] = True
            at = row_of[column]
            distance = cost[at] - row_price[at] - column_price
            closer = ~done & (distance < nearest)
            closer[0] = False
            nearest[closer], before[closer] = distance[closer], column
            following = int(np.where(done, np.inf, nearest).argmin())
            step = nearest[following]
            row_price[row_of[done]] += step
            column_price[done] -= step
            nearest[~done] -= step
            column = following
            if row_of[column] == 0:
                break
        while column:
            row_of[column] = row_of[before[column]]
            column = before[column]
    found = torch.full((n + 1,), -1, dtype=torch.long)
    found[torch.from_numpy(row_of[1 : C + 1])] = torch.arange(C)
    return found[1 : R + 1]
