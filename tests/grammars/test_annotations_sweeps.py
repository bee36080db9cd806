# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps against those that know nothing of trees."""

import pytest
import torch

from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.grammars.annotations_collapsed import AnnotationUpdates
from pyrogram.grammars.cfg import CFG

# A -> A B occurs twice in the first tree.
TREES = [
    ["S -> A", "A -> A B", "A -> A B", "A -> x", "B -> z", "B -> z"],
    ["S -> A", "A -> x"],
    ["S -> A", "A -> A B", "A -> y", "B -> z"],
]


def grammar_and_trees(num_subtypes: int) -> tuple[LatentAnnotations, torch.Tensor]:
    grammar = LatentAnnotations(CFG.from_string("S -> A\nA -> A B | 'x' | 'y'\nB -> 'z'"), num_subtypes)
    number = {f"{lhs} -> {' '.join(rhs)}": i for i, (lhs, rhs) in enumerate(grammar.cfg.rules)}
    rows = [torch.tensor([number[text] for text in tree]) for tree in TREES]
    return grammar, torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


@pytest.fixture(params=[2, 3])
def both(request):
    torch.set_default_dtype(torch.float64)
    grammar, trees = grammar_and_trees(request.param)
    yield (
        grammar.collapsed_updates(trees),
        CollapsedUpdates(grammar, trees),
        grammar.initial_weights(trees, "random", seed=1),
    )
    torch.set_default_dtype(torch.float32)


def test_expect(both) -> None:
    compiled, plain, weights = both
    assert isinstance(compiled, AnnotationUpdates)
    log_z, entropy, own = compiled.expected_counts(weights)
    expected_log_z, expected_entropy, expected = plain.expected_counts(weights)
    torch.testing.assert_close(log_z, expected_log_z)
    torch.testing.assert_close(entropy, expected_entropy)
    torch.testing.assert_close(compiled.total(own), plain.total(expected))
    chosen = torch.tensor([2, 0])
    torch.testing.assert_close(compiled.dense_counts(own, chosen), plain.dense_counts(expected, chosen))


@pytest.mark.parametrize("subtypes", [2, 8])
def test_a_tree_too_unlikely_for_one_number(subtypes) -> None:
    """Six hundred words: the product of their weights is far below the least double."""
    torch.set_default_dtype(torch.float64)
    grammar, trees = grammar_and_trees(subtypes)
    first, long = trees[0], 600
    trees = torch.cat([first[:1], first[1:2].repeat(long), first[3:4], first[4:5].repeat(long)])[None]
    weights = grammar.initial_weights(trees, "random", seed=1)
    weights["rules"] = weights["rules"] * 0.1  # not normalised, and unlikely
    found = grammar.collapsed_updates(trees).expected_counts(weights)
    expected = CollapsedUpdates(grammar, trees).expected_counts(weights)
    assert float(expected[0]) < -800
    torch.testing.assert_close(found[:2], expected[:2], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        grammar.collapsed_updates(trees).total(found[2]), CollapsedUpdates(grammar, trees).total(expected[2])
    )


@pytest.mark.parametrize("batch_size", [1, 2, 8])
@pytest.mark.parametrize("alpha", [0.1, 1e-3])
def test_collapsed_vb(both, batch_size, alpha) -> None:
    compiled, plain, weights = both
    order = torch.tensor([1, 0, 2])
    concentration = {"rules": torch.full_like(weights["rules"], alpha)}
    states = []
    for sweeps in (compiled, plain):
        _, _, own = sweeps.expected_counts(weights)
        field = CorpusCounts(sweeps.total(own), concentration)
        for _ in range(3):
            entropies, own = sweeps.collapsed_vb(field, own, order, batch_size)
        states.append((entropies, field.counts, sweeps.total(own)))
    for found, expected in zip(*states, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("subtypes", [1, 8, 9, 16, {"A": 8, "B": 3}, {"A": 5, "B": 8}, {"A": 4, "B": 3}])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("single", [False, pytest.param(True, marks=pytest.mark.slow)])  # compiled anew
def test_numbers_of_subtypes(subtypes, constant, single, monkeypatch) -> None:
    """Vectors that fill cells and that do not, in turns; concentrations that differ; own counts in single precision."""
    monkeypatch.setattr("pyrogram.grammars.annotations_collapsed.GREATEST_DOUBLE", 0 if single else 2**26)
    torch.set_default_dtype(torch.float64)
    cfg = CFG.from_string("S -> A\nA -> A A | A B | B A | B | 'x' | 'y'\nB -> 'z' | 'x'")
    grammar = LatentAnnotations(cfg, subtypes)
    number = {f"{lhs} -> {' '.join(rhs)}": i for i, (lhs, rhs) in enumerate(cfg.rules)}
    trees = [*TREES, ["S -> A", "A -> B A", "B -> x", "A -> B A", "B -> z", "A -> B", "B -> x"]]
    trees += [["S -> A", "A -> y"], ["S -> A", "A -> A A", "A -> A A", "A -> x", "A -> y", "A -> x"]]
    rows = [torch.tensor([number[text] for text in tree]) for tree in trees]
    words = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    start = grammar.initial_weights(words, "random", seed=3)
    alpha = {"rules": torch.full(start["rules"].shape, 0.3) if constant else 0.1 + torch.rand(start["rules"].shape)}
    found = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        log_z, first, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha)
        for batch_size in (1, 3, 8):
            entropies, own = sweeps.collapsed_vb(field, own, torch.tensor([5, 3, 0, 4, 2, 1]), batch_size)
        found.append((log_z, first, entropies, field.counts, sweeps.dense_counts(own, torch.arange(6))))
    tolerance = 1e-5 if single else 1e-10
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance)
    torch.set_default_dtype(torch.float32)


def test_extreme_weights_go_through_logs(both) -> None:
    """Subtypes whose weights no double can compare: children that want the one, parents that want the other."""
    compiled, plain, weights = both
    grammar = compiled.grammar
    tiny = weights["rules"].clone()
    for r, (lhs, rhs) in enumerate(grammar.cfg.rules):
        events = grammar.events(r)
        if len(rhs) == 1 and lhs == "A":
            tiny[events[1:]] = 1e-300
        if lhs == "S":
            tiny[events[:, :1]] = 0.0
        if len(rhs) == 2:
            tiny[events[:, 0]] = 1e-200
    log_z, _, own = compiled.expected_counts({"rules": tiny})
    expected, _, plain_own = plain.expected_counts({"rules": tiny})
    torch.testing.assert_close(log_z, expected)
    torch.testing.assert_close(compiled.total(own), plain.total(plain_own))


def test_extreme_concentrations_go_through_logs(both) -> None:
    """Without the tree's own counts there is nothing but alpha, which no product of doubles holds."""
    grammar = both[0].grammar
    _, trees = grammar_and_trees(max(grammar.num_subtypes.values()))
    weights = grammar.initial_weights(trees, "random", seed=1)
    alpha = torch.ones_like(weights["rules"])
    for r, (_, rhs) in enumerate(grammar.cfg.rules):
        if " ".join(rhs) == "y":
            alpha[grammar.events(r)[1:]] = 1e-305
        if len(rhs) == 2:
            alpha[grammar.events(r)[:, 0]] = 1e-300
    found = []
    for sweeps in (grammar.collapsed_updates(trees[2:]), CollapsedUpdates(grammar, trees[2:])):
        _, _, own = sweeps.expected_counts(weights)
        field = CorpusCounts(sweeps.total(own), {"rules": alpha})
        entropies, own = sweeps.collapsed_vb(field, own, torch.tensor([0]), 1)
        found.append((entropies, field.counts, sweeps.total(own)))
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected)


def test_counts(both) -> None:
    compiled, plain, weights = both
    torch.manual_seed(0)
    trees = compiled.draw({"rules": weights["rules"].log()})
    torch.testing.assert_close(compiled.counts(trees), plain.counts(trees))
