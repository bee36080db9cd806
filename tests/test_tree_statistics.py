# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Statistics of derivations against their definitions in plain Python, over all derivations of short sentences."""

import math
from statistics import fmean

import pytest
import torch

from pyrogram.grammars import CFG, DMV, HMM
from pyrogram.tree_statistics import corpus_means, tree_statistics
from pyrogram.trees import projective_trees


def by_definition(heads: list[int]) -> dict[str, float]:
    words = range(1, len(heads) + 1)

    def depth(word: int) -> int:
        return 0 if word == 0 else 1 + depth(heads[word - 1])

    arcs = [(heads[word - 1], word) for word in words if heads[word - 1] > 0]
    children = [sum(h == word for h in heads) for word in words]
    parents = [c for c in children if c]
    return {
        "depth": max(map(depth, words)),
        "dependency_length": fmean(abs(h - d) for h, d in arcs) if arcs else math.nan,
        "left_heads": fmean(h < d for h, d in arcs) if arcs else math.nan,
        "mean_children": fmean(parents) if parents else math.nan,
        "most_children": max(children),
    }


@pytest.mark.parametrize("multiroot", [False, True])
def test_of_all_trees(multiroot: bool) -> None:
    """Of up to five words, padded and not, and with a batch in front."""
    rows = [row for n in range(1, 6) for row in projective_trees(n, multiroot).tolist()]
    heads = torch.tensor([row + [-1] * (6 - len(row)) for row in rows])
    words = torch.where(heads >= 0, 0, -1)
    law = DMV(1).derivation(DMV(1).initial_weights(words, "uniform"), words)
    found = tree_statistics(law, words, heads[None].expand(2, -1, -1))
    expected = [by_definition(row) for row in rows]
    assert set(found) == set(expected[0])
    for name, values in found.items():
        column = torch.tensor([float(e[name]) for e in expected])
        torch.testing.assert_close(values, column.expand(2, -1), equal_nan=True)
        mean = fmean(e[name] for e in expected if not math.isnan(e[name]))
        assert float(corpus_means(found)[name][1]) == pytest.approx(mean)


def test_of_all_leftmost_derivations() -> None:
    """Against the trees of nltk; rules with one, two and three nonterminals."""
    grammar = CFG.from_string("S -> S S | A | 'a' S | A S A\nA -> B | 'a' | 'b'\nB -> 'b' B 'a' | 'b'")
    for sentence in (["a"], ["b", "b", "a"], ["a", "b", "b", "a"]):
        words = grammar.encode([sentence])
        law = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
        rows = law.enumerate_support()
        trees = [grammar.tree(words[0], row[0]) for row in rows]
        found = tree_statistics(law, words, rows)
        inner = [tree.height() - 1 for tree in trees]  # nltk counts the word, too
        assert found["depth"][:, 0].tolist() == inner
        assert found["rules"][:, 0].tolist() == [len(list(tree.subtrees())) for tree in trees]
    assert len(trees) > 20


def test_rules_that_there_are_not_are_refused() -> None:
    grammar = CFG.from_string("S -> 'a' S | 'a'")
    words = grammar.encode([["a"]])
    law = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
    with pytest.raises(ValueError, match=r"derivations must have rules 0\.\.1, not 7"):
        tree_statistics(law, words, torch.tensor([[7]]))


def test_of_all_state_sequences() -> None:
    grammar, words = HMM(3, 2), torch.tensor([[0, 1, 1, 0]])
    law = grammar.derivation(grammar.initial_weights(words), words)
    rows = law.enumerate_support()
    padded = torch.cat([rows, torch.full((*rows.shape[:-1], 2), -1)], -1)
    expected = [sum(a != b for a, b in zip(row, row[1:], strict=False)) for row in rows[:, 0].tolist()]
    assert tree_statistics(law, words, padded)["changes"][:, 0].tolist() == expected


def test_of_ones_own() -> None:
    """They see the words; a wrong shape is refused by name."""
    words, heads = torch.tensor([[0, 1, 1], [1, 0, -1]]), torch.tensor([[[2, 0, 2], [0, 1, -1]]])
    law = DMV(2).derivation(DMV(2).initial_weights(words, "uniform"), words)
    root = {"root is a 1": lambda w, h: ((h == 0) & (w == 1)).any(-1)}
    assert tree_statistics(law, words, heads, root)["root is a 1"].tolist() == [[1.0, 1.0]]
    with pytest.raises(ValueError, match=r"statistic 'all' must return a number for each derivation, shape \(1, 2\)"):
        tree_statistics(law, words, heads, {"all": lambda w, h: h.sum()})
