# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Treebank grammars: rules read off, weights counted, and every tree back as it was."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from nltk.tree import Tree

from pyrogram import CFG
from pyrogram.grammars import TreeTransform, Word

TREES = [
    Tree.fromstring(text)
    for text in (
        "(S (NP (PRP she)) (VP (VBD saw) (NP (DT the) (JJ big) (JJ old) (NN dog))) (. .))",
        "(S (VP (VB go) (ADVP (RB there)) (PP (IN with) (NP (PRP her))) (NP (NN today)) (. .)))",
        "(FRAG (NP (NP (NN dog)) (, ,) (NP (NN dog)) (, ,) (NP (NN dog))))",
        "(NP (NN dog))",
        "(S (S (NP (NN dog))))",
    )
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"collapse_unary": False},
    {"binarize": True},
    {"binarize": True, "markov_order": 0},
    {"binarize": True, "markov_order": 1},
    {"binarize": True, "markov_order": 2, "collapse_unary": False},
    {"start": "TOP"},
]


def usable(options: dict[str, Any]) -> list[Tree]:
    """S over S is a unary cycle unless it is collapsed."""
    return TREES if options.get("collapse_unary", True) else TREES[:4]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("options", OPTIONS)
def test_trees_come_back(options: dict[str, Any]) -> None:
    trees = usable(options)
    before = [str(t) for t in trees]
    grammar = CFG.from_trees(trees, **options)
    words, ids = grammar.derivations(trees)
    assert words.shape[0] == ids.shape[0] == len(trees)
    assert [str(t) for t in trees] == before
    assert grammar.weights is not None
    assert grammar.derivation(grammar.weights, words).support.check(ids).all()
    assert grammar.derivation(grammar.weights, words).log_partition.isfinite().all()
    for tree, w, d in zip(trees, words, ids, strict=True):
        assert grammar.tree(w, d) == tree
        assert grammar.tree(None, d) == tree
        assert grammar.encode([tree.leaves()])[0].tolist() == w[w >= 0].tolist()
        assert torch.equal(grammar.derivation_of(tree), d[d >= 0])


@pytest.mark.parametrize("options", OPTIONS)
def test_weights_are_relative_frequencies(options: dict[str, Any]) -> None:
    trees = usable(options)
    grammar = CFG.from_trees(trees, **options)
    counts: Counter[Any] = Counter()
    for tree in trees:
        changed = grammar.tree(None, grammar.derivation_of(tree), original=False)
        for p in changed.productions():
            counts[str(p.lhs()), tuple(s if isinstance(s, str) else s.symbol() for s in p.rhs())] += 1
    totals: dict[str, int] = defaultdict(int)
    for (lhs, _), count in counts.items():
        totals[lhs] += count
    assert grammar.weights is not None and len(counts) == len(grammar.rules)
    for (lhs, rhs), w in zip(grammar.rules, grammar.weights["rules"].tolist(), strict=True):
        assert w == pytest.approx(counts[lhs, tuple(map(str, rhs))] / totals[lhs])


def test_full_binarisation_keeps_the_probabilities_of_trees() -> None:
    plain, binary = CFG.from_trees(TREES), CFG.from_trees(TREES, binarize=True)
    assert all(len(rhs) <= 2 for _, rhs in binary.rules)
    for tree in TREES:
        logs = []
        for grammar in (plain, binary):
            assert grammar.weights is not None
            logs.append(grammar.weights["rules"].log()[grammar.derivation_of(tree)].sum())
        torch.testing.assert_close(logs[0], logs[1])


def test_labels_of_changed_trees() -> None:
    tree = Tree.fromstring("(S (S (VP (VB go) (NP (NN dog)))))")
    assert str(TreeTransform("ROOT").apply(tree)) == "(ROOT (S+S+VP (VB go) (NP (NN dog))))"
    assert str(TreeTransform().apply(tree)) == "(S (S+VP (VB go) (NP (NN dog))))"
    flat = Tree.fromstring("(NP (DT a) (JJ b) (JJ c) (NN d))")
    shown = {h: " ".join(str(TreeTransform(None, False, True, h).apply(flat)).split()) for h in (None, 0, 1)}
    assert shown[None] == "(NP (DT a) (NP<JJ JJ NN> (JJ b) (NP<JJ NN> (JJ c) (NN d))))"
    assert shown[0] == "(NP (DT a) (NP<> (JJ b) (NP<> (JJ c) (NN d))))"
    assert shown[1] == "(NP (DT a) (NP<JJ> (JJ b) (NP<JJ> (JJ c) (NN d))))"
    grammar = CFG.from_trees(TREES)
    assert grammar.start == "ROOT" and ("ROOT", ("S+S+NP",)) in grammar.rules
    assert ("NN", (Word("dog"),)) in grammar.rules and ("NP", ("NN",)) in grammar.rules


def test_a_start_symbol_that_is_there_already_is_not_added() -> None:
    trees = [Tree("TOP", [t]) for t in TREES]
    grammar = CFG.from_trees(trees, start="TOP")
    assert grammar.start == "TOP"
    assert grammar.tree(None, grammar.derivation_of(trees[0])) == trees[0]
    same = CFG.from_trees(TREES[:1], start=None)
    assert same.start == "S" and same.tree(None, same.derivation_of(TREES[0])) == TREES[0]


def test_leaves_may_be_other_than_terminals() -> None:
    """Rare words may have been replaced by classes; the tree can show the words themselves."""
    grammar = CFG.from_trees([Tree.fromstring("(S (NP (NN UNK)) (VP (VBD saw)))")], start=None)
    ids = grammar.derivation_of(Tree.fromstring("(S (NP (NN UNK)) (VP (VBD saw)))"))
    assert grammar.tree(["cat", "saw"], ids).leaves() == ["cat", "saw"]
    assert grammar.tree(grammar.encode(["UNK saw"])[0], ids).leaves() == ["UNK", "saw"]
    for wrong in (["cat"], grammar.encode(["saw UNK"])[0]):
        with pytest.raises(ValueError, match="the derivation is one of"):
            grammar.tree(wrong, ids)


@pytest.mark.parametrize(
    ("tree", "options", "message"),
    [
        ("(S (NP ) (VP (VB go)))", {}, "tree 1 cannot be used: node 'NP' has no children"),
        ("(S+X (VB go) (VB go))", {}, r"tree 1 cannot be used: label 'S\+X' holds '\+', which collapse_unary needs"),
        ("(S< (VB go))", {"binarize": True}, "label 'S<' holds '<', which binarize needs"),
        ("(NP (VP (NP (NN a))))", {"collapse_unary": False}, "the unary rules .* form a cycle"),
        ("(FRAG (NN a))", {"start": None}, r"trees have different labels on top, \['FRAG', 'S'\]"),
        ("(S (NN a))", {"markov_order": 1}, "markov_order has no effect without binarize"),
        ("(S (NN a))", {"markov_order": -1, "binarize": True}, "markov_order must be None or at least 0"),
    ],
)
def test_errors(tree: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CFG.from_trees([TREES[0], Tree.fromstring(tree)], **options)


def test_errors_of_derivations() -> None:
    grammar = CFG.from_trees(TREES)
    with pytest.raises(ValueError, match="the tree has the rule NN -> 'cat', which the grammar lacks"):
        grammar.derivation_of(Tree.fromstring("(NP (NN cat))"))
    with pytest.raises(ValueError, match="at least one tree"):
        CFG.from_trees([])
    plain = CFG.from_string("S -> A S | A\nA -> 'a' | 'b'")
    with pytest.raises(ValueError, match="the tree starts from 'A', not from 'S'"):
        plain.derivation_of(Tree.fromstring("(A a)"))
    for ids, message in [
        ([0, 2], "must rewrite 'S', but ends"),
        ([0, 0], "must rewrite 'A', but S -> A S"),
        ([1, 2, 2], "the derivation is over before A -> 'a'"),
        ([], "the derivation is empty"),
        ([2], "the derivation starts from 'A', not from 'S'"),
        ([7], "the derivation has rule 7, but rules are 0..3"),
    ]:
        with pytest.raises(ValueError, match=message):
            plain.tree(None, torch.tensor(ids))
    with pytest.raises(ValueError, match=r"words has 3, not 0\.\.1; tree takes words, then a derivation"):
        plain.tree(torch.tensor([0, 2, 1, 3]), torch.tensor([0, 1]))


def test_deep_trees() -> None:
    grammar = CFG.from_string("S -> 'a' S | 'a'")
    ids = torch.tensor([0] * 3000 + [1])
    tree = grammar.tree(None, ids)
    assert torch.equal(grammar.derivation_of(tree), ids)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{}, {"binarize": True, "markov_order": 1}])
@pytest.mark.parametrize("part", ["dev", pytest.param("train", marks=pytest.mark.slow)])
def test_a_real_treebank(part: str, options: dict[str, Any], shared_data: Path) -> None:
    lines = (shared_data / "wsj-sample" / f"{part}.mrg").read_text().splitlines()
    trees = [Tree.fromstring(line, remove_empty_top_bracketing=True) for line in lines if line.strip()]
    grammar = CFG.from_trees(trees, **options)
    words, ids = grammar.derivations(trees)
    assert all(grammar.tree(w, d) == t for w, d, t in zip(words, ids, trees, strict=True))
    assert grammar.weights is not None
    assert grammar.derivation(grammar.weights, words[:50]).support.check(ids[:50]).all()
