# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order trees for the battery."""

import sibling_oracle
import torch
from oracle import all_trees
from torch import Tensor

from pyrogram.distributions import SiblingDependencyTree
from pyrogram.testing import DistributionCase


def shapes_of(n: int, stops: bool) -> dict[str, tuple[int, ...]]:
    N = n + 1
    return {"arc": (N, N), "sibling": (N, N, N)} | ({"stop": (N, 2, N)} if stops else {})


def counts_of(heads: Tensor, stops: bool) -> dict[str, Tensor]:
    """Events of trees (T, n) by the oracle's loops."""
    counted = {name: torch.zeros(len(heads), *shape) for name, shape in shapes_of(heads.shape[1], stops).items()}
    for t, row in enumerate(heads.tolist()):
        own_arcs, own_stops = sibling_oracle.events(row)
        for event in own_arcs:
            counted["arc"][(t, *event[:2])] = counted["sibling"][(t, *event)] = 1
        for event in own_stops if stops else ():
            counted["stop"][(t, *event)] = 1
    return counted


def sibling_case(n, *, stops=False, multiroot=False, forbidden=False, invalid=None, seed=0) -> DistributionCase:
    generator = torch.Generator().manual_seed(seed)
    log_weights = {
        name: torch.randn(*shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes_of(n, stops).items()
    }
    if forbidden:
        log_weights["arc"][0, 1] = log_weights["sibling"][2, 3, 2] = log_weights["sibling"][0, 3, 1] = -torch.inf
        if stops:
            log_weights["stop"][2, 1, 3] = -torch.inf

    def make(weights):
        return SiblingDependencyTree(weights["arc"], weights["sibling"], weights.get("stop"), multiroot=multiroot)

    return DistributionCase(
        make,
        log_weights,
        invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
        support=torch.tensor(all_trees(n, multiroot)),
        counts=lambda heads: counts_of(heads, stops),
        rivals=[
            lambda: SiblingDependencyTree(torch.zeros(4, 4), torch.zeros(4, 4, 4), multiroot=not multiroot),
            lambda: SiblingDependencyTree(
                torch.zeros(2, 4, 4), torch.zeros(4, 4, 4), torch.zeros(4, 2, 4), torch.tensor([1, 3])
            ),
        ],
    )


def padded_case(lengths: list[int], *, stops: bool = False, multiroot: bool = False) -> DistributionCase:
    singles = [sibling_case(m, stops=stops, multiroot=multiroot, seed=b) for b, m in enumerate(lengths)]
    log_weights = {}
    for name, shape in shapes_of(max(lengths), stops).items():
        log_weights[name] = torch.randn(len(lengths), *shape, dtype=torch.float64)
        for b, single in enumerate(singles):
            w = single.log_weights[name]
            log_weights[name][b][tuple(slice(size) for size in w.shape)] = w

    def make(weights):
        return SiblingDependencyTree(
            weights["arc"], weights["sibling"], weights.get("stop"), torch.tensor(lengths), multiroot=multiroot
        )

    return DistributionCase(make, log_weights, singles=singles)


TREES = {
    "siblings": sibling_case(3, invalid={"a cycle": [0, 3, 2], "two roots": [0, 0, 2], "padding": [0, 1, -1]}),
    "siblings of four words": sibling_case(4, stops=True, invalid={"crossing arcs": [3, 4, 0, 3]}),
    "siblings and stops": sibling_case(3, stops=True),
    "siblings, multiroot": sibling_case(3, stops=True, multiroot=True, invalid={"no root": [2, 3, 2]}),
    "siblings, forbidden": sibling_case(3, stops=True, forbidden=True, multiroot=True),
    "siblings of one word": sibling_case(1, stops=True, invalid={"itself": [1], "beyond": [2]}),
    "siblings, padded": padded_case([3, 1, 4, 2]),
    "siblings and stops, padded": padded_case([1, 3, 2], stops=True, multiroot=True),
}
