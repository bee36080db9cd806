# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over subtypes: which rows are trees, compiled code against torch's, weights of any size, threads."""

import itertools

import numpy as np
import pytest
import torch

from pyrogram import LatentAnnotations
from pyrogram.grammars.annotations_page import BLOCK, Annotations, positions, program
from pyrogram.grammars.annotations_rules import AnnotationRules, Forest, link, replace_subtypes
from pyrogram.recursion.run import engine

# 0: S -> A, 1: A -> A B, 2: A -> x, 3: B -> C, 4: C -> z, 5: C -> A C
RULES = AnnotationRules(
    parent=np.array([0, 1, 1, 2, 3, 3]),
    left=np.array([1, 1, -1, 3, -1, 1]),
    right=np.array([-1, 2, -1, -1, -1, 3]),
    word=np.array([-1, -1, 0, -1, 1, -1]),
    subtypes=np.array([1, 3, 2, 4]),
    start=0,
)
TREES = np.array(
    [
        [0, 1, 2, 3, 5, 1, 2, 3, 4, 4],  # S(A(A x, B(C(A(A x, B(C z)), C z))))
        [0, 2, -1, -1, -1, -1, -1, -1, -1, -1],
        [0, 1, 1, 2, 3, 4, 3, 4, -1, -1],
    ]
)


def some_weights(seed: int = 0, spread: float = 1.0, rules: AnnotationRules = RULES) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(1, rules.num_events, generator=generator, dtype=torch.float64)


class Tabulated(LatentAnnotations):
    """A grammar of base rules as arrays."""

    def __init__(self, rules: AnnotationRules) -> None:
        self.rules, self.annotations, self._linked = rules, Annotations(rules), {}

    @property
    def num_words(self) -> int:
        return len(self.rules.parent)


def expected_counts(
    weights: torch.Tensor, rules: AnnotationRules = RULES, rows: np.ndarray = TREES
) -> tuple[torch.Tensor, torch.Tensor]:
    """log Z of trees, and counts under one grammar, shape ``(1, R)``."""
    log_z, counts = Tabulated(rules).expected_counts({BLOCK: weights[0]}, torch.from_numpy(rows))
    return log_z, counts[BLOCK][None]


def in_torch(weights: torch.Tensor, rules: AnnotationRules, trees: Forest) -> torch.Tensor:
    """log Z of trees under one grammar, by torch's engine."""
    annotations = Annotations(rules)
    n, words = annotations.nodes(trees)
    rows = {name: torch.from_numpy(table) for name, table in words.items()}
    tables = annotations.events.gathered({BLOCK: weights})
    return program().torch_engine.log_partition(tables, torch.from_numpy(n), rows, annotations.sizes, {})


def test_events_are_numbered_without_gaps() -> None:
    events = np.concatenate([RULES.events(r).reshape(-1) for r in range(6)])
    assert sorted(events) == list(range(RULES.num_events))
    # the multinomial of (A, a) is A's rules one after the other
    assert RULES.events(1).shape == (3, 3, 2)
    assert RULES.events(1)[0].reshape(-1).tolist() == list(range(3, 9))
    assert RULES.events(2)[0].item() == 9
    assert RULES.events(1)[1, 0, 0] == 10
    assert RULES.sizes.tolist() == [3, 7, 7, 7, 4, 4, 13, 13, 13, 13]


def test_link() -> None:
    trees = link(RULES, TREES)
    assert trees.lengths.tolist() == [10, 2, 8]
    assert trees.left[:10].tolist() == [1, 2, -1, 4, 5, 6, -1, 8, -1, -1]
    assert trees.right[:10].tolist() == [-1, 3, -1, -1, 9, 7, -1, -1, -1, -1]


@pytest.mark.parametrize(
    "row", [[0], [2], [0, 2, 2], [0, 1, 2], [0, 4], [1, 2, 3, 4], [0, 1, 1, 1, 1, 1], [0, 1, 3, 4, 2]]
)
def test_what_is_no_tree(row: list[int]) -> None:
    width = max(len(row), 2)
    rows = np.array([row + [-1] * (width - len(row)), [0, 2] + [-1] * (width - 2)])
    trees = link(RULES, rows)
    assert trees.lengths.tolist() == [0, 2]
    log_z, counts = expected_counts(some_weights(), rows=rows)
    assert log_z[0] == -torch.inf and log_z[1] > -torch.inf
    assert counts.sum() == pytest.approx(2.0)
    assert in_torch(some_weights(), RULES, trees)[0] == -torch.inf


def test_link_refuses_what_is_no_rule() -> None:
    for rows in ([[0, 6]], [[0, -2]], [[0, -1, 2]]):
        with pytest.raises(ValueError, match=r"trees must be base rules in 0\.\.5"):
            link(RULES, np.array(rows))


def test_start_has_one_subtype() -> None:
    with pytest.raises(ValueError, match="the start symbol must have one subtype"):
        replace_subtypes(RULES, np.array([2, 2, 2, 2]))


def both_engines(weights: torch.Tensor, rules: AnnotationRules = RULES) -> list[tuple[torch.Tensor, torch.Tensor]]:
    trees = link(rules, TREES)
    leaf = weights.clone().requires_grad_()
    log_z = in_torch(leaf, rules, trees)
    (gradient,) = torch.autograd.grad(log_z[log_z > -torch.inf].sum(), leaf)
    return [expected_counts(weights, rules), (log_z.detach(), gradient)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_engines_agree_at_every_scale(spread: float) -> None:
    """Products of a hundred e-folds each underflow; the scaled engine must notice where it matters."""
    for seed in range(5):
        (log_z, counts), (expected, gradient) = both_engines(some_weights(seed, spread))
        torch.testing.assert_close(log_z, expected, rtol=1e-12, atol=1e-9)
        torch.testing.assert_close(counts, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("spread", [1.0, 1000.0])
@pytest.mark.parametrize("subtypes", [[1, 1, 1, 1], [1, 8, 8, 8], [1, 9, 8, 16], [1, 16, 3, 8], [1, 17, 24, 5]])
def test_engines_agree_for_every_number_of_subtypes(subtypes: list[int], spread: float) -> None:
    """Vectors that fill cells of eight and that do not; and posteriors of nodes, by what they add up to."""
    rules = replace_subtypes(RULES, np.array(subtypes))
    weights, trees = some_weights(1, spread, rules), link(rules, TREES)
    (log_z, counts), (expected, gradient) = both_engines(weights, rules)
    torch.testing.assert_close(log_z, expected, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(counts, gradient, rtol=1e-9, atol=1e-9)
    row, place = positions(trees)
    marginals = Tabulated(rules).node_marginals({BLOCK: weights}, torch.from_numpy(TREES)).numpy()[row, 1 + place]
    for A in range(len(subtypes)):
        own = [gradient[0, rules.events(r)].numpy().sum((1, 2)) for r in np.flatnonzero(rules.parent == A)]
        nodes = marginals[rules.parent[trees.rule] == A]
        np.testing.assert_allclose(nodes.sum(0)[: subtypes[A]], sum(own), rtol=1e-9, atol=1e-9)
        assert not nodes[:, subtypes[A] :].any()


def test_each_tree_has_a_weight() -> None:
    """Also one that is done in logarithms."""
    weights, factors = some_weights(), torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    weights[0, RULES.events(2)[0]] += 800.0
    weights[0, RULES.events(1)[:, 0]] -= 1000.0
    trees = link(RULES, TREES)
    leaf = weights.clone().requires_grad_()
    log_z = in_torch(leaf, RULES, trees)
    (gradient,) = torch.autograd.grad((log_z * factors).sum(), leaf)
    leaf = weights.clone().requires_grad_()
    found_z = Tabulated(RULES).log_partition({BLOCK: leaf[0]}, torch.from_numpy(TREES))
    (found,) = torch.autograd.grad((found_z * factors).sum(), leaf)
    torch.testing.assert_close(found, gradient)


# e^700 is a number, but more than is trusted; e^-738 is one of few digits; e^-800 is zero
@pytest.mark.parametrize("gap", [700.0, 738.0, 800.0])
def test_conflicts_that_no_double_can_hold_go_through_logs(gap: float) -> None:
    """Children that want one subtype, and parents that want another by even more."""
    weights = some_weights()
    weights[0, RULES.events(2)[0]] += gap  # A -> x wants a = 0
    weights[0, RULES.events(1)[:, 0]] -= 1000.0  # A -> A B does not
    (log_z, counts), (expected, gradient) = both_engines(weights)
    torch.testing.assert_close(log_z, expected)
    torch.testing.assert_close(counts, gradient)


def test_impossible_weights() -> None:
    weights = some_weights()
    weights[0, RULES.events(4).reshape(-1)] = -torch.inf
    (log_z, counts), (expected, gradient) = both_engines(weights)
    assert log_z.tolist()[0] == log_z.tolist()[2] == -torch.inf
    torch.testing.assert_close(log_z, expected)
    torch.testing.assert_close(counts, gradient)
    assert not counts.isnan().any()


def test_counts_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.concatenate([TREES] * 50)
    run = engine.run_workers
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            monkeypatch.setattr(engine, "run_workers", lambda work, cost: run(work, 1e12))
            found.append(expected_counts(some_weights(), rows=rows))
    finally:
        torch.set_num_threads(before)
    for log_z, counts in found[1:]:
        assert torch.equal(log_z, found[0][0])
        assert torch.equal(counts, found[0][1])


def test_one_grammar_for_each_tree() -> None:
    weights = torch.cat([some_weights(seed) for seed in range(3)])
    log_z, counts = Tabulated(RULES).sentence_counts({BLOCK: weights}, torch.from_numpy(TREES))
    for b in range(3):
        one, own = expected_counts(weights[b : b + 1], rows=TREES[b : b + 1])
        torch.testing.assert_close(log_z[b], one[0])
        torch.testing.assert_close(counts[BLOCK][b], own[0])


def total_weight(weights: torch.Tensor, rules: AnnotationRules, trees: Forest, nodes: torch.Tensor) -> float:
    """The log weight of one annotation of one tree."""
    total = 0.0
    for v, r in enumerate(trees.rule):
        b, c = (int(nodes[child[v]]) if child[v] >= 0 else 0 for child in (trees.left, trees.right))
        total += float(weights[0, int(rules.events(r)[int(nodes[v]), b, c])])
    return total


@pytest.mark.parametrize("shift", [0.0, 5.0])  # log weights above zero: no bound on what is still to come
@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_top_k(k: int, shift: float) -> None:
    """The best of all annotations, in order, each once."""
    rules = replace_subtypes(RULES, np.array([1, 2, 3, 2]))
    weights, trees = some_weights(3, 3.0, rules) + shift, link(rules, TREES[2:])
    choices = [range(rules.subtypes[rules.parent[r]]) for r in trees.rule]
    listed = [total_weight(weights, rules, trees, torch.tensor(nodes)) for nodes in itertools.product(*choices)]
    grammar = Tabulated(rules)
    scores, rows = grammar.best({BLOCK: weights}, torch.from_numpy(TREES[2:]), k)
    found = torch.from_numpy(grammar.annotations.subtype)[rows[:, 0, : len(trees.rule)]]
    expected = torch.tensor(sorted(listed, reverse=True)[:k], dtype=torch.float64)
    torch.testing.assert_close(scores[:, 0], expected)
    totals = [total_weight(weights, rules, trees, nodes) for nodes in found]
    torch.testing.assert_close(torch.tensor(totals, dtype=torch.float64), expected)
    assert len(found.unique(dim=0)) == k
