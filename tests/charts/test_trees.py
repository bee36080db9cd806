# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
import torch
from oracle import all_trees, events, is_projective_tree, score

from pyrogram.charts.trees import (
    arc_valences,
    is_tree,
    lengths_of,
    projective_trees,
    stop_valences,
    tree_scores,
)
from pyrogram.distributions import ProjectiveDependencyTree

roots = pytest.mark.parametrize("multiroot", [False, True])


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_projective_trees_are_those_of_the_oracle(n, multiroot):
    assert projective_trees(n, multiroot).tolist() == [list(heads) for heads in all_trees(n, multiroot)]


@pytest.mark.parametrize("multiroot, counts", [(False, [1, 2, 7, 30, 143, 728]), (True, [1, 3, 12, 55, 273, 1428])])
def test_number_of_trees(multiroot, counts):
    assert [len(projective_trees(n, multiroot)) for n in range(1, 7)] == counts


def test_a_list_of_trees_is_the_callers_own():
    projective_trees(3).zero_()
    ProjectiveDependencyTree(torch.zeros(4, 4)).enumerate_support().fill_(-7)
    assert projective_trees(3).tolist() == [list(heads) for heads in all_trees(3, False)]


def test_lengths_stop_at_the_first_padding():
    assert lengths_of(torch.tensor([[2, 0, 1], [0, -1, -1], [0, -1, 1], [-1, 0, 0]])).tolist() == [3, 1, 1, 0]
    assert lengths_of(torch.zeros(2, 1000, dtype=torch.int64)).tolist() == [1000, 1000]


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_is_tree_on_all_vectors(n, multiroot):
    vectors = list(itertools.product(range(n + 1), repeat=n))
    expected = [is_projective_tree(heads, multiroot) for heads in vectors]
    assert is_tree(torch.tensor(vectors), multiroot).tolist() == expected
    padded = torch.nn.functional.pad(torch.tensor(vectors), (0, 2), value=-1)
    assert is_tree(padded, multiroot).tolist() == expected


@roots
@pytest.mark.parametrize("n", [1, 2, 3])
def test_is_tree_on_all_vectors_with_padding_anywhere(n, multiroot):
    """Values from -2, which is nothing, to n + 1, which is no word."""
    vectors = list(itertools.product(range(-2, n + 2), repeat=n))
    expected = []
    for heads in vectors:
        words = heads[: heads.index(-1)] if -1 in heads else heads
        rest = heads[len(words) :]
        in_range = all(0 <= h <= len(words) for h in words) and set(rest) <= {-1}
        expected.append(in_range and len(words) > 0 and is_projective_tree(words, multiroot))
    assert is_tree(torch.tensor(vectors), multiroot).tolist() == expected


def test_is_tree_rejects_padding_in_the_middle_and_heads_in_the_padding():
    assert is_tree(torch.tensor([2, 0, -1])).item()
    assert not is_tree(torch.tensor([2, -1, 0])).item()
    assert not is_tree(torch.tensor([0, -1, 1])).item()
    assert not is_tree(torch.tensor([3, 0, -1])).item()
    assert not is_tree(torch.tensor([-1, -1, -1])).item()


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
@pytest.mark.parametrize("V", [1, 2])
@pytest.mark.parametrize("with_stops", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_tree_scores(n, with_stops, V, multiroot):
    arcs = torch.randn(n + 3, n + 3, V)  # room for two words of padding
    stops = torch.randn(n + 3, 2, 2) if with_stops else None
    trees = all_trees(n, multiroot)
    expected = [score(h, arcs.numpy(), stops.numpy() if with_stops else None) for h in trees]
    padded = torch.nn.functional.pad(torch.tensor(trees), (0, 2), value=-1)
    arcs[:, n + 1 :] = arcs[n + 1 :] = torch.nan
    if stops is not None:
        stops[n + 1 :] = stops[0] = torch.nan
    scores = tree_scores(padded, arcs, stops)
    torch.testing.assert_close(scores, torch.tensor(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heads_shape", [(), (3,), (2, 3), (4, 1, 1)])
@pytest.mark.parametrize("arcs_shape", [(), (3,), (1,), (2, 1)])
@pytest.mark.parametrize("stops_shape", [(), (3,), (2, 1)])
def test_tree_scores_broadcast(heads_shape, arcs_shape, stops_shape):
    n = 4
    trees = projective_trees(n)
    heads = trees[torch.randint(len(trees), heads_shape)]
    arcs, stops = torch.randn(*arcs_shape, n + 1, n + 1, 2), torch.randn(*stops_shape, n + 1, 2, 2)
    scores = tree_scores(heads, arcs, stops)
    batch = torch.broadcast_shapes(heads_shape, arcs_shape, stops_shape)
    assert scores.shape == batch
    heads = heads.expand(*batch, n)
    arcs, stops = arcs.expand(*batch, n + 1, n + 1, 2), stops.expand(*batch, n + 1, 2, 2)
    for at in itertools.product(*map(range, batch)):
        expected = score(tuple(heads[at].tolist()), arcs[at].numpy(), stops[at].numpy())
        assert scores[at].item() == pytest.approx(expected)


def test_tree_scores_gradient_counts_events():
    arcs, stops = torch.randn(5, 5, 2, requires_grad=True), torch.randn(5, 2, 2, requires_grad=True)
    heads = (2, 0, 2, 2)
    tree_scores(torch.tensor(heads), arcs, stops).backward()
    expected_arcs, expected_stops = torch.zeros(5, 5, 2), torch.zeros(5, 2, 2)
    for event in events(heads)[0]:
        expected_arcs[event] = 1
    for event in events(heads)[1]:
        expected_stops[event] = 1
    assert torch.equal(arcs.grad, expected_arcs)
    assert torch.equal(stops.grad, expected_stops)
