# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expected items, evidence, and the derivation with most expected items, against trees and against one another."""

from collections import Counter

import pytest
import torch
from own_grammars import cnf, dmv, hmm
from test_recursive import corpus, log_weights

from pyrogram import DMV
from pyrogram.distributions import ProjectiveDependencyTree

WORDS = corpus(3)[:9]
N = WORDS.shape[1] + 1


def trees(logs: dict[str, torch.Tensor]) -> ProjectiveDependencyTree:
    return DMV(3).derivation(None, WORDS, log_weights=logs)


@pytest.mark.parametrize("own", [False, True])
def test_expected_items_of_trees_are_arcs(own: bool) -> None:
    """An arc is a trapezoid of its own kind, and one attachment."""
    grammar = dmv(2, 3)
    logs = log_weights(grammar, (len(WORDS),) if own else ())
    arcs = trees(logs).marginals()
    found = grammar.item_counts(logs, WORDS, "IR", "IL", "attach", "RC")
    torch.testing.assert_close(found["IR"].sum(-1)[:, 1:], arcs.triu(1)[:, 1:], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found["IL"].sum(-1)[:, 1:, 1:], arcs.tril(-1).mT[:, 1:, 1:], rtol=1e-10, atol=1e-12)
    heads = found["attach"].sum(-1)  # of heads and children
    torch.testing.assert_close(heads[:, 1:], arcs[:, 1:], rtol=1e-10, atol=1e-12)
    lengths = (WORDS >= 0).sum(-1).double()
    torch.testing.assert_close(found["RC"].sum((1, 2)), lengths, rtol=1e-10, atol=0)  # a half tree for every head


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("grammar", "item"), [(cnf(2, 3), "X"), (hmm(2, 3), "F"), (dmv(3, 3), "RC")], ids=repr)
def test_an_item_is_expected_as_often_as_it_is_missed_where_it_is_forbidden(grammar, item: str) -> None:
    logs, words = log_weights(grammar), WORDS[:3]
    log_z = grammar.log_partition(logs, words)
    counts = grammar.item_counts(logs, words, item)[item]
    assert 0.1 < counts.max() <= 1 + 1e-9
    for place in (counts > 1e-3).nonzero()[::5].tolist():
        forbidden = torch.zeros(counts.shape[1:], dtype=torch.float64)
        forbidden[tuple(place[1:])] = -torch.inf
        less = grammar.log_partition(logs, words, evidence={item: forbidden})
        missed = 1 - (less - log_z).exp()[place[0]]
        torch.testing.assert_close(missed, counts[tuple(place)], rtol=1e-8, atol=1e-10)
    nothing = grammar.log_partition(logs, words, evidence={item: torch.full_like(counts, -torch.inf)})
    assert (nothing == -torch.inf).all()


def test_known_heads_leave_one_tree() -> None:
    grammar = dmv(2, 3)
    logs = log_weights(grammar)
    tree = trees(logs)
    heads = tree.sample()
    attach = torch.full((len(WORDS), N, N, 2), -torch.inf, dtype=torch.float64)
    root = torch.full((len(WORDS), N), -torch.inf, dtype=torch.float64)
    for b, row in enumerate(heads.tolist()):
        for child, head in enumerate(row, start=1):
            if head == 0:
                root[b, child] = 0.0
            elif head > 0:
                attach[b, head, child] = 0.0
    found = grammar.log_partition(logs, WORDS, evidence={"attach": attach, "root": root})
    torch.testing.assert_close(found, tree.log_prob(heads) + tree.log_partition, rtol=1e-10, atol=1e-10)
    evidence, flat = {"attach": attach, "root": root}, grammar.expanded(logs, WORDS.shape[:-1])
    scores, rows = grammar.best(flat, WORDS, 2, evidence=evidence)
    torch.testing.assert_close(scores[0], found, rtol=1e-10, atol=1e-10)
    assert (scores[1] == -torch.inf).all() and (rows[1] == -1).all()
    assert (grammar.draw(flat, WORDS, 5, evidence=evidence) == rows[0]).all()
    for name in ("attach", "RC"):
        assert torch.equal(grammar.mbr(logs, WORDS, name, evidence=evidence), rows[0])
    derivation = grammar.derivation(None, WORDS, log_weights=logs)
    torch.testing.assert_close(derivation.log_prob(rows[0]), tree.log_prob(heads), rtol=1e-9, atol=1e-9)


def test_counts_under_evidence_are_its_gradient() -> None:
    grammar = cnf(2, 3)
    logs, words = log_weights(grammar), WORDS[:4]
    shape = grammar.item_counts(logs, words, "X")["X"].shape
    bonus = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    log_z = grammar.log_partition(logs, words, evidence={"X": bonus})
    (gradient,) = torch.autograd.grad(log_z.sum(), [bonus])
    with torch.no_grad():
        counts = grammar.item_counts(logs, words, "X", evidence={"X": bonus})["X"]
    torch.testing.assert_close(counts, gradient, rtol=1e-10, atol=1e-12)
    assert (counts - grammar.item_counts(logs, words, "X")["X"]).abs().max() > 0.05


def test_the_derivation_with_most_expected_items() -> None:
    """On attachments, the tree that is best for attachment errors."""
    grammar = dmv(2, 3)
    logs = log_weights(grammar, (len(WORDS),))
    tree, rows = trees(logs), grammar.mbr(logs, WORDS, "attach")
    expected = tree.counts(tree.mbr())
    roots = grammar.item_counts(logs, WORDS, "root")["root"]
    assert rows.shape[0] == len(WORDS) and roots.shape == (len(WORDS), N)
    alike = 0
    for b, row in enumerate(rows.tolist()):
        found = Counter(grammar.event(x) for x in row if x >= 0)
        attached = {index: k for (name, index), k in found.items() if name == "attach"}
        exact = {tuple(i): int(expected["attach"][(b, *i)]) for i in expected["attach"][b].nonzero().tolist()}
        alike += attached == exact
    assert alike >= len(WORDS) - 2  # the tree's own criterion also counts the child of ROOT


def test_refusals() -> None:
    grammar = cnf(2, 3)
    logs = log_weights(grammar)
    with pytest.raises(ValueError, match="chomsky has no item or weight Y; it has X, "):
        grammar.item_counts(logs, WORDS, "Y")
    with pytest.raises(ValueError, match=r"evidence on X must have shape \(\*batch, 9, 9, 2\), not \(9, 9\)"):
        grammar.log_partition(logs, WORDS, evidence={"X": torch.zeros(9, 9)})
