# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps against those that know nothing of trees."""

import pytest
import torch
from own_grammars import tied

from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.grammars.cfg import CFG
from pyrogram.infer.model.composed import MixtureGrammar
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

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
    assert isinstance(compiled, RecursiveUpdates)
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
def test_numbers_of_subtypes(subtypes, constant) -> None:
    """Vectors that fill cells and that do not, in turns; concentrations that differ."""
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
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-10)
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


WAYS = {
    "plain": lambda grammar: grammar,
    "tied": tied,
    "tilted": lambda grammar: grammar.tilted({"rules": torch.arange(grammar.rules.num_events) % 3 - 1.0}),
    "two": lambda grammar: MixtureGrammar(grammar, "kind", 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_ties_tilts_and_mixtures(way) -> None:
    """Compiled sweeps, too; and Hastings' sampler has the moments that q has, for one tree has nobody else's counts."""
    torch.set_default_dtype(torch.float64)
    base, trees = grammar_and_trees(3)
    grammar = WAYS[way](base)
    assert isinstance(grammar.collapsed_updates(trees), RecursiveUpdates)
    weights = grammar.initial_weights(trees, "random", seed=1)
    alpha = {n: 0.2 + torch.rand(b.shape) for n, b in grammar.blocks.items()}
    states = []
    for sweeps in (grammar.collapsed_updates(trees), CollapsedUpdates(grammar, trees)):
        log_z, first, own = sweeps.expected_counts(weights)
        field = CorpusCounts(sweeps.total(own), alpha)
        for batch_size in (1, 2):
            entropies, own = sweeps.collapsed_vb(field, own, torch.tensor([2, 0, 1]), batch_size)
        states.append((log_z, first, entropies, field.counts, sweeps.total(own)))
    for found, expected in zip(*states, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    sweeps, given = grammar.collapsed_updates(trees), {n: w / grammar.blocks[n].totals(w) for n, w in weights.items()}
    drawn = sweeps.draw({n: w.log() for n, w in given.items()})
    field = CorpusCounts({n: c.clone() for n, c in sweeps.counts(drawn).items()}, {}, given)
    total = {n: torch.zeros(b.shape) for n, b in grammar.blocks.items()}
    for _ in range(400):
        assert sweeps.hastings(field, drawn, torch.arange(3), 3).all()  # weights are given: proposals are exact
        total = {n: total[n] + c / 400 for n, c in sweeps.counts(drawn).items()}
    expected = sweeps.total(sweeps.expected_counts(given)[2])
    for name in total:
        torch.testing.assert_close(total[name], expected[name], rtol=0.0, atol=0.25)
    torch.set_default_dtype(torch.float32)


def test_counts(both) -> None:
    compiled, plain, weights = both
    torch.manual_seed(0)
    trees = compiled.draw({"rules": weights["rules"].log()})
    torch.testing.assert_close(compiled.counts(trees), plain.counts(trees))
