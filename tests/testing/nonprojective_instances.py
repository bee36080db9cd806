# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective trees for the battery."""

import torch
from spanning_oracle import all_spanning_trees

from pyrogram.distributions import DependencyTree
from pyrogram.testing import DistributionCase, arcs_of_heads

INVALID_HEADS = {
    "no root": [2, 3, 2],
    "two roots": [0, 0, 2],
    "a cycle": [0, 3, 2],
    "a head beyond the sentence": [0, 1, 4],
    "padding": [0, 1, -1],
    "a negative head": [0, 1, -2],
    "a word as its own head": [0, 2, 1],
}
MANY_ROOTS = {what: row for what, row in INVALID_HEADS.items() if what != "two roots"}


def tree_case(n, *, multiroot=False, forbidden=(), scale=1.0, invalid=None, seed=0):
    """
    :param forbidden: arcs (head, dependent).
    """
    generator = torch.Generator().manual_seed(seed)
    arcs = scale * torch.randn(n + 1, n + 1, generator=generator, dtype=torch.float64)
    for arc in forbidden:
        arcs[arc] = -torch.inf
    return DistributionCase(
        lambda weights: DependencyTree(weights["arc"], multiroot=multiroot),
        {"arc": arcs},
        invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
        support=torch.tensor(all_spanning_trees(n, multiroot)),
        counts=lambda heads: {"arc": arcs_of_heads(heads)},
        rivals=[
            lambda: DependencyTree(torch.zeros(4, 4), multiroot=not multiroot),
            lambda: DependencyTree(torch.zeros(2, 4, 4), torch.tensor([1, 3])),
        ],
    )


def padded_case(lengths, *, multiroot=False):
    singles = [tree_case(m, multiroot=multiroot, seed=b) for b, m in enumerate(lengths)]
    N = max(lengths) + 1
    arcs = torch.randn(len(lengths), N, N, dtype=torch.float64)
    for b, (m, single) in enumerate(zip(lengths, singles, strict=True)):
        arcs[b, : m + 1, : m + 1] = single.log_weights["arc"]
    return DistributionCase(
        lambda weights: DependencyTree(weights["arc"], torch.tensor(lengths), multiroot=multiroot),
        {"arc": arcs},
        singles=singles,
    )


TREES = {
    "arcs that cross": tree_case(3, invalid=INVALID_HEADS),
    "arcs that cross, four words": tree_case(4, scale=0.7),
    "arcs that cross, multiroot": tree_case(3, multiroot=True, invalid=MANY_ROOTS),
    "arcs that cross, forbidden": tree_case(4, forbidden=[(0, 1), (2, 3), (4, 1), (3, 1)]),
    "arcs that cross, a word of ROOT alone": tree_case(3, forbidden=[(1, 2), (3, 2)]),
    "arcs that cross, two words": tree_case(2, invalid={"a cycle": [2, 1], "two roots": [0, 0]}),
    "arcs that cross, one word": tree_case(1, invalid={"itself": [1], "padding": [-1], "beyond": [2]}),
    "arcs that cross, padded": padded_case([3, 1, 4, 2]),
    "arcs that cross, padded multiroot": padded_case([2, 1, 3], multiroot=True),
}
