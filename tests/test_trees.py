# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
import torch
from oracle import (
    all_spanning_trees,
    all_trees,
    events,
    is_projective_tree,
    is_spanning_tree,
    parts_by_sibling,
    parts_by_valence,
)

from pyrogram.distributions.sibling_tree import last_children, siblings_of
from pyrogram.trees import (
    arc_valences,
    is_tree,
    lengths_of,
    nonprojective_trees,
    projective_trees,
    stop_valences,
)

roots = pytest.mark.parametrize("multiroot", [False, True])


def score(heads, arcs, stops):
    """The sum of the tree's parts."""
    own = parts_by_valence(heads, arcs.shape[-1], 0 if stops is None else 2)
    return sum(float((arcs if name == "arc" else stops)[index]) for name, index in own)


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_lists_of_trees(n, multiroot):
    """They are the caller's own."""
    for listed, truth in ((projective_trees, all_trees), (nonprojective_trees, all_spanning_trees)):
        for _ in range(2):
            found = listed(n, multiroot)
            assert found.tolist() == [list(heads) for heads in truth(n, multiroot)]
            found.fill_(-7)


def test_lengths_stop_at_the_first_padding():
    assert lengths_of(torch.tensor([[2, 0, 1], [0, -1, -1], [0, -1, 1], [-1, 0, 0]])).tolist() == [3, 1, 1, 0]
    assert lengths_of(torch.zeros(2, 1000, dtype=torch.int64)).tolist() == [1000, 1000]


@roots
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize(("n", "lowest"), [(1, -2), (2, -2), (3, -2), (4, 0)])
def test_is_tree_on_all_vectors(n, lowest, projective, multiroot):
    """With padding anywhere; values from -2, which is nothing, to n + 1, which is no word."""
    vectors = list(itertools.product(range(lowest, n + 2 if lowest else n + 1), repeat=n))
    is_truly = is_projective_tree if projective else is_spanning_tree
    expected = []
    for heads in vectors:
        words = heads[: heads.index(-1)] if -1 in heads else heads
        rest = heads[len(words) :]
        in_range = all(0 <= h <= len(words) for h in words) and set(rest) <= {-1}
        expected.append(in_range and len(words) > 0 and is_truly(words, multiroot))
    padded = torch.nn.functional.pad(torch.tensor(vectors), (0, 2), value=-1)
    for rows in (torch.tensor(vectors), padded):
        assert is_tree(rows, multiroot, projective=projective).tolist() == expected


def test_is_tree_of_long_chains_and_cycles():
    """Doubling must take enough steps."""
    n = 65
    chain = torch.arange(n)
    assert is_tree(chain).item()
    cycle = chain.clone()
    cycle[1] = n  # 2 -> 3 -> ... -> n -> 2, word 1 under ROOT
    assert not is_tree(cycle, True).item()


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_valences(n, multiroot):
    for heads in all_trees(n, multiroot):
        arcs, stops = events(heads)
        of_arc = {c: v for _, c, v in arcs}
        of_stop = {(h, d): v for h, d, v in stops}
        tensor = torch.tensor([*heads, -1])
        assert arc_valences(tensor)[:n].tolist() == [of_arc[c] for c in range(1, n + 1)]
        computed = stop_valences(tensor)
        assert {(h, d): int(computed[h, d]) for h, d in of_stop} == of_stop


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_siblings_and_last_children_of_all_trees(n, multiroot):
    trees = all_trees(n, multiroot)
    padded = torch.nn.functional.pad(torch.tensor(trees), (0, 2), value=-1)
    siblings, last = siblings_of(padded), last_children(padded)
    for t, heads in enumerate(trees):
        for name, index in parts_by_sibling(heads, stops=True):
            if name == "sibling":
                assert siblings[t, index[1] - 1] == index[2]
            elif name == "stop":
                assert last[t, index[0], index[1]] == index[2]
