# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees with grandparents for the battery."""

import torch
from oracle import all_trees
from torch import Tensor

from pyrogram.distributions import GrandparentDependencyTree
from pyrogram.testing import DistributionCase


def shapes_of(n: int, siblings: bool) -> dict[str, tuple[int, ...]]:
    N = n + 1
    return {"arc": (N,) * 2, "grandparent": (N,) * 3} | ({"grandsibling": (N,) * 4} if siblings else {})


def sibling_of(heads: list[int], c: int) -> int:
    """The head's nearest other child between the two, or the head."""
    h = heads[c - 1]
    between = [x for x in range(min(h, c) + 1, max(h, c)) if heads[x - 1] == h]
    return h if not between else max(between) if c > h else min(between)


def counts_of(heads: Tensor, siblings: bool) -> dict[str, Tensor]:
    """Events of trees (T, n), word by word."""
    counted = {name: torch.zeros(len(heads), *shape) for name, shape in shapes_of(heads.shape[1], siblings).items()}
    for t, row in enumerate(heads.tolist()):
        for c, h in enumerate(row, 1):
            counted["arc"][t, h, c] = 1
            if h > 0:
                counted["grandparent"][t, row[h - 1], h, c] = 1
                if siblings:
                    counted["grandsibling"][t, row[h - 1], h, c, sibling_of(row, c)] = 1
    return counted


def grandparent_case(n, *, siblings=False, multiroot=False, forbidden=False, invalid=None, seed=0) -> DistributionCase:
    generator = torch.Generator().manual_seed(seed)
    log_weights = {
        name: torch.randn(*shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes_of(n, siblings).items()
    }
    if forbidden:
        log_weights["arc"][0, 1] = log_weights["grandparent"][0, 2, 3] = -torch.inf
        if siblings:
            log_weights["grandsibling"][0, 1, 3, 2] = -torch.inf

    def make(weights):
        return GrandparentDependencyTree(
            weights["arc"],
            weights["grandparent"],
            weights.get("grandsibling"),
            multiroot=multiroot,
        )

    return DistributionCase(
        make,
        log_weights,
        invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
        support=torch.tensor(all_trees(n, multiroot)),
        counts=lambda heads: counts_of(heads, siblings),
        rivals=[
            lambda: GrandparentDependencyTree(torch.zeros(4, 4), torch.zeros(4, 4, 4), multiroot=not multiroot),
            lambda: GrandparentDependencyTree(torch.zeros(2, 4, 4), torch.zeros(4, 4, 4), None, torch.tensor([1, 3])),
        ],
    )


def padded_case(lengths: list[int], *, siblings: bool = False, multiroot: bool = False) -> DistributionCase:
    singles = [grandparent_case(m, siblings=siblings, multiroot=multiroot, seed=b) for b, m in enumerate(lengths)]
    log_weights = {}
    for name, shape in shapes_of(max(lengths), siblings).items():
        log_weights[name] = torch.randn(len(lengths), *shape, dtype=torch.float64)
        for b, single in enumerate(singles):
            w = single.log_weights[name]
            log_weights[name][b][tuple(slice(size) for size in w.shape)] = w

    def make(weights):
        return GrandparentDependencyTree(
            weights["arc"],
            weights["grandparent"],
            weights.get("grandsibling"),
            torch.tensor(lengths),
            multiroot=multiroot,
        )

    return DistributionCase(make, log_weights, singles=singles)


TREES = {
    "grandparents": grandparent_case(3, invalid={"a cycle": [0, 3, 2], "two roots": [0, 0, 2], "padding": [0, 1, -1]}),
    "grandparents of four words": grandparent_case(4, invalid={"crossing arcs": [3, 4, 0, 3]}),
    "grandparents and siblings": grandparent_case(4, siblings=True),
    "grandparents and siblings, multiroot": grandparent_case(3, siblings=True, multiroot=True),
    "grandparents and siblings, forbidden": grandparent_case(3, siblings=True, forbidden=True, multiroot=True),
    "grandparents of one word": grandparent_case(1, siblings=True, invalid={"itself": [1], "beyond": [2]}),
    "grandparents, padded": padded_case([3, 1, 4, 2]),
    "grandparents and siblings, padded": padded_case([1, 3, 2], siblings=True, multiroot=True),
}
