# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Long rules, chains of unary rules and trees far deeper than Python's recursion goes."""

import math

import pytest
import torch
from nltk.tree import Tree

from pyrogram import CFG
from pyrogram.cli.runs.dmv import _bracketed as dependency_brackets
from pyrogram.cli.runs.pcfg import one_line
from pyrogram.folding import fold, leaves, text_of
from pyrogram.grammars.cfg_text import Word
from pyrogram.grammars.cfg_trees import TreeTransform
from pyrogram.metrics import parseval
from pyrogram.viz import draw_derivation

DEPTH = 3000


def chain(depth):
    """A0 over A1 over .. over a word."""
    tree = Tree(f"A{depth - 1}", ["w"])
    for i in reversed(range(depth - 1)):
        tree = Tree(f"A{i}", [tree])
    return tree


def labels(tree):
    found = []
    while isinstance(tree, Tree):
        found.append(tree.label())
        tree = tree[0]
    return found


def test_a_rule_of_1500_symbols():
    long = ("S", ["A", "b"] * 750)
    grammar = CFG([long, ("S", ["A"]), ("A", ["a"]), ("A", ["c"])])
    log_w = {"rules": torch.tensor([0.5, 0.5, 0.25, 0.75]).log()}
    log_z = grammar.log_partition(log_w, grammar.encode(["a", "c"]))
    assert log_z.tolist() == pytest.approx([math.log(0.5 * 0.25), math.log(0.5 * 0.75)])
    assert grammar.rules[0] == ("S", ("A", Word("b")) * 750)


def test_a_unary_chain_of_3000():
    grammar = CFG([*((f"A{i}", [f"A{i + 1}"]) for i in range(DEPTH - 1)), (f"A{DEPTH - 1}", ["w"])])
    words = grammar.encode([["w"]])
    weights = {"rules": torch.ones(DEPTH)}
    derivation = grammar.derivation(weights, words)
    only = torch.arange(DEPTH)[None]
    assert torch.equal(derivation.sample(), only) and torch.equal(derivation.argmax(), only)
    assert torch.equal(derivation.enumerate_support()[0], only)
    tree = grammar.tree(words[0], only[0])
    assert labels(tree) == [f"A{i}" for i in range(DEPTH)] and leaves(tree) == ["w"]
    assert torch.equal(grammar.derivation_of(tree), only[0])
    assert torch.equal(grammar.derivations([tree])[0], words)
    assert torch.equal(grammar.sample_trees(weights, (1,), 3)[1], only)


@pytest.mark.parametrize("collapse", [True, False])
def test_a_treebank_of_a_deep_tree(collapse):
    grammar = CFG.from_trees([chain(DEPTH)], collapse_unary=collapse, binarize=True)
    derivation = grammar.derivation_of(chain(DEPTH))
    assert labels(grammar.tree(None, derivation)) == labels(chain(DEPTH))
    assert len(derivation) == (3 if collapse else DEPTH + 1)


def test_a_right_branching_tree_is_binarised_and_back():
    tree = Tree("X", ["w"])
    for _ in range(DEPTH):
        tree = Tree("X", [Tree("D", ["d"]), tree, Tree("E", ["e"])])
    transform = TreeTransform("ROOT", binarize=True)
    changed = transform.apply(tree)
    assert text_of(transform.invert(changed)) == text_of(tree)
    assert max(fold(changed, lambda leaf: 0, lambda node, below: max(len(node), *below)) for _ in "1") == 2


def test_scores_and_drawings_of_deep_trees():
    scores = parseval([chain(DEPTH)], [chain(DEPTH)])
    assert scores[-1].f1 == 1.0
    drawing = draw_derivation(chain(DEPTH))
    assert f">A{DEPTH - 1}<" in drawing.svg
    assert one_line(chain(DEPTH)).startswith("(A0 (A1 (A2 ") and one_line(chain(2)) == "(A0 (A1 w))"
    with pytest.raises(ValueError, match="the tree must have words at its leaves, but '.A0 .A1.* has none"):
        draw_derivation(Tree("A0", [Tree("A1", [])]))


def test_a_chain_of_dependents_in_brackets():
    heads = list(range(DEPTH))
    text = dependency_brackets(heads, ["a"] * DEPTH)
    assert text == "a [" * (DEPTH - 1) + "a" + "]" * (DEPTH - 1)
    assert dependency_brackets([2, 0, 2], ["a", "b", "c"]) == "[a] b [c]"
