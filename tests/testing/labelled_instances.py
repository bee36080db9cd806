# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees with labels for the battery."""

import itertools

import torch
from oracle import all_trees
from spanning_oracle import all_spanning_trees
from torch import Tensor

from pyrogram.distributions import LabelledDependencyTree
from pyrogram.testing import DistributionCase

INVALID = {
    "a cycle": [[2, 0], [1, 0]],
    "two roots": [[0, 0], [0, 1]],
    "a label that does not exist": [[0, 0], [1, 2]],
    "a negative label": [[0, 0], [1, -1]],
    "padding": [[0, 0], [-1, -1]],
    "a label in the padding": [[0, 0], [-1, 1]],
}


def indicators(values: Tensor, labels: int) -> Tensor:
    """Zeros and ones (..., n+1, n+1, L) of labelled arcs, by loops."""
    n = values.shape[-2]
    flat = values.long().reshape(-1, n, 2)
    found = torch.zeros(len(flat), n + 1, n + 1, labels, dtype=torch.float64)
    for t, row in enumerate(flat.tolist()):
        for d, (head, label) in enumerate(row, 1):
            if head >= 0:
                found[t, head, d, label] = 1
    return found.reshape(*values.shape[:-2], n + 1, n + 1, labels)


def labelled_case(n, labels=2, *, projective=True, multiroot=False, forbidden=(), invalid=None, seed=0):
    """
    :param forbidden: elements [head, dependent, label] of the scores.
    """
    generator = torch.Generator().manual_seed(seed)
    arcs = torch.randn(n + 1, n + 1, labels, generator=generator, dtype=torch.float64)
    for index in forbidden:
        arcs[index] = -torch.inf
    trees = all_trees(n, multiroot) if projective else all_spanning_trees(n, multiroot)
    pairs = [list(zip(t, l, strict=True)) for t in trees for l in itertools.product(range(labels), repeat=n)]
    options = {"projective": projective, "multiroot": multiroot}
    return DistributionCase(
        lambda weights: LabelledDependencyTree(weights["arc"], **options),
        {"arc": arcs},
        parts=lambda values: indicators(values, labels),
        invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
        support=torch.tensor(pairs),
        counts=lambda values: {"arc": indicators(values, labels)},
        rivals=[lambda: LabelledDependencyTree(torch.zeros(4, 4, 3), projective=not projective)],
    )


def padded_case(lengths, labels=2, **options):
    singles = [labelled_case(m, labels, seed=b, **options) for b, m in enumerate(lengths)]
    N = max(lengths) + 1
    arcs = torch.randn(len(lengths), N, N, labels, dtype=torch.float64)
    for b, (m, single) in enumerate(zip(lengths, singles, strict=True)):
        arcs[b, : m + 1, : m + 1] = single.log_weights["arc"]
    return DistributionCase(
        lambda weights: LabelledDependencyTree(weights["arc"], torch.tensor(lengths), **options),
        {"arc": arcs},
        parts=lambda values: indicators(values, labels),
        singles=singles,
    )


TREES = {
    "labels": labelled_case(2, 2, invalid=INVALID),
    "labels, crossing arcs": labelled_case(3, 2, projective=False),
    "labels, multiroot": labelled_case(2, 3, multiroot=True),
    "labels, forbidden": labelled_case(
        3, 2, forbidden=[(0, 1), (2, 3, 0), (1, 2, 1), (3, 2)], projective=False, multiroot=True
    ),
    "labels, one word": labelled_case(1, 3),
    "one label": labelled_case(3, 1),
    "labels, padded": padded_case([3, 1, 2]),
    "labels, padded crossing arcs": padded_case([1, 3, 2], projective=False),
}
