# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""States of two chains, matched: a state has no name of its own, so what chains share must be looked for."""

from __future__ import annotations

import torch
from torch import Tensor


def align_states(chain: Tensor, other: Tensor) -> tuple[Tensor, float]:
    """Match the states of two chains, so that as many words as possible agree.

    :param chain: states of words, shape ``(T,)``, K at most; ``other``: of the same words in another chain.
    :returns: for each state of ``chain`` how far the corresponding one agrees with it, 2 |both| / (|one| + |other|) in
        words and 0 where there is none, shape ``(K,)``; and the share of all words whose states correspond.
    """
    import networkx as nx  # on demand, as in :mod:`pyrogram.data.export`

    K, columns = int(chain.max()) + 1, int(other.max()) + 1
    both = torch.bincount(chain * columns + other, minlength=K * columns).reshape(K, columns)
    graph: nx.Graph[int] = nx.Graph()
    rows, places = both.nonzero().T.tolist()
    graph.add_weighted_edges_from(
        (k, K + j, n) for k, j, n in zip(rows, places, both[rows, places].tolist(), strict=True)
    )
    pairs = torch.tensor([sorted(pair) for pair in nx.max_weight_matching(graph)])
    mine, theirs = pairs[:, 0], pairs[:, 1] - K
    common = both[mine, theirs]
    overlap = torch.zeros(K)
    overlap[mine] = 2 * common / (both.sum(1)[mine] + both.sum(0)[theirs])
    return overlap, int(common.sum()) / len(chain)
