# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Punctuation: which tokens, and where their children go."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrogram.data import PENN_CURRENCY, PENN_PUNCTUATION, UNIVERSAL_PUNCTUATION, Corpus, SentenceRecord
from pyrogram.data.columns import Sentences
from pyrogram.data.gathering import of_records
from pyrogram.data.punctuation import attach_punctuation, is_punctuation
from pyrogram.data.punctuation import reattach as reattach_all
from pyrogram.data.trimming import without_punctuation
from pyrogram.trees import is_tree, projective_trees


def reattach(heads: tuple[int, ...], kept: list[bool]) -> tuple[int, ...]:
    return tuple(reattach_all(np.array(heads), np.array(kept), np.array([0, len(heads)])).tolist())


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, ...]:
    """Any tree with one root: words in an order in which each has an earlier head."""
    n = draw(st.integers(1, 8))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for i, c in enumerate(order[1:], 1):
        heads[c - 1] = order[draw(st.integers(0, i - 1))]
    return tuple(heads)


def brute_force(heads: tuple[int, ...], kept: list[bool]) -> tuple[int, ...]:
    """The same by contracting a graph: every removed word is merged into its head, deepest first."""
    graph = nx.DiGraph((h, c) for c, h in enumerate(heads, 1))
    for word in reversed(list(nx.topological_sort(graph))):
        if word and not kept[word - 1]:
            (head,) = graph.predecessors(word)
            graph.add_edges_from((head, child) for child in list(graph.successors(word)))
            graph.remove_node(word)
    root, *others = sorted(graph.successors(0))
    for other in others:
        graph.remove_edge(0, other)
        graph.add_edge(root, other)
    number = {word: i for i, word in enumerate(sorted(graph))}
    return tuple(number[next(graph.predecessors(word))] for word in sorted(graph) if word)


@given(trees(), st.data())
def test_reattachment_is_contraction(heads: tuple[int, ...], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads)).filter(any))
    assert reattach(heads, kept) == brute_force(heads, kept)


@settings(max_examples=50)
@given(st.lists(trees(), min_size=1, max_size=6), st.data())
def test_sentences_side_by_side(given: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Each as if it were alone; hints, lines and marks of no sentence get into another."""
    tags = [data.draw(st.lists(st.sampled_from(["PUNCT", "NOUN"]), min_size=len(t), max_size=len(t))) for t in given]
    records = [
        SentenceRecord(
            forms=tuple(f"{i}.{c}" for c in range(len(tree))),
            upos=tuple(row),
            xpos=("_",) * len(tree),
            heads=tree,
            lines=tuple(range(100 * i, 100 * i + len(tree))),
            source=f"{i % 2}",
            sent_id=None if i % 3 else f"é{i}",
        )
        for i, (tree, row) in enumerate(zip(given, tags, strict=True))
    ]
    expected = []
    for record in records:
        kept = [tag != "PUNCT" for tag in record.upos]
        if all(kept):
            expected.append(record)
        elif any(kept):
            own = [c for c, keep in enumerate(kept) if keep]
            runs = [sum(kept[c] and not kept[c - 1] for c in range(1, i + 1) if any(kept[:c])) for i in own]
            columns = {n: tuple(getattr(record, n)[c] for c in own) for n in ("forms", "upos", "xpos", "lines")}
            heads = brute_force(record.heads or (), kept)
            expected.append(replace(record, heads=heads, segments=tuple(runs), **columns))
    columns_ = of_records(records)
    assert list(Sentences(columns_)) == records
    found = without_punctuation(columns_)
    assert [found.records(i, i + 1)[0] for i in range(len(found))] == expected
    assert list(Sentences(found.take(np.arange(len(found))[::-1]))) == expected[::-1]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_projective_trees_stay_projective(n: int) -> None:
    kept = [[bool(code >> i & 1) for i in range(n)] for code in range(1, 2**n)]
    trees: dict[int, list[tuple[int, ...]]] = {}  # by numbers of words that are left
    for heads in map(tuple, projective_trees(n).tolist()):
        for keep in kept:
            trees.setdefault(sum(keep), []).append(tuple(reattach(heads, keep)))
    assert trees.keys() == set(range(1, n + 1)) and sum(map(len, trees.values())) >= 2**n - 1
    for m, found in trees.items():
        assert is_tree(torch.tensor(found)).all(), m


def test_by_hand() -> None:
    # 1 <- 2 <- 3(removed) <- 4, root 4: 2 goes to 4, which becomes number 3.
    assert reattach((2, 3, 4, 0), [True, True, False, True]) == (2, 3, 0)
    # A chain of removed words: 1 hangs on 2, 2 on 3, 3 on the root 4.
    assert reattach((2, 3, 4, 0), [True, False, False, True]) == (2, 0)
    # The root 3 goes, 1, 4 and 5 would hang on ROOT: 1 becomes root, and head of 4 and 5.
    assert reattach((3, 1, 0, 3, 3), [True, True, False, True, True]) == (0, 1, 1, 1)
    assert reattach((0,), [False]) == ()


def test_which_tags() -> None:
    assert UNIVERSAL_PUNCTUATION == {"PUNCT"}
    assert PENN_CURRENCY == {"$", "#"}
    marks = {".", ",", ":", "``", "''", "-LRB-", "-RRB-", "(", ")", "HYPH", "NFP"}
    assert marks | PENN_CURRENCY <= PENN_PUNCTUATION
    assert not {"SYM", "NN", "POS", "LS", "CD", "ADD"} & PENN_PUNCTUATION
    # The universal tag decides where there is one: a currency sign is SYM and stays.
    assert is_punctuation("PUNCT", "NFP")
    assert not is_punctuation("SYM", "$") and not is_punctuation("SYM", "NFP")
    assert is_punctuation("_", "$") and is_punctuation("_", "HYPH") and is_punctuation("_", "PUNCT")
    assert not is_punctuation("_", "_")


def test_sentences_of_only_punctuation_vanish_and_are_counted() -> None:
    corpus = Corpus.from_sentences(
        [["NN", "."], [".", "."], ["``", "VB", "NN", "''"], [","]],
        heads=[[0, 1], [0, 1], [0, 1, 2, 1], [0]],
    )
    assert corpus.dropped == 2
    assert corpus.tags == [["NN"], ["VB", "NN"]]
    assert corpus.heads is not None
    assert corpus.heads.tolist() == [[0, -1], [0, 1]]
    kept = Corpus.from_sentences([["NN", "."], ["."]], heads=[[0, 1], [0]], punctuation="keep")
    assert (kept.dropped, kept.tags) == (0, [["NN", "."], ["."]])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_attached_punctuation_keeps_trees_projective(n: int) -> None:
    """All projective trees of all subsets of n tokens: every token gets a head, and no arc crosses another."""
    for code in range(2**n):
        kept = [bool(code >> i & 1) for i in range(n)]
        trees = projective_trees(sum(kept)).tolist() if any(kept) else [[]]
        full = torch.tensor([attach_punctuation(heads, kept) for heads in trees])
        assert bool(is_tree(full).all()), kept
        for heads, new in zip(trees, full.tolist(), strict=True):
            if any(kept):
                assert reattach(tuple(new), kept) == tuple(heads)  # which also says that no mark has a kept child
            for c, keep in enumerate(kept, 1):
                assert keep or new[c - 1] == rule(c, heads, kept)


def rule(mark: int, heads: list[int], kept: list[bool]) -> int:
    """The head of a mark, looked for outwards from it: the first arc around it, by the length of arcs."""
    words = [c for c, keep in enumerate(kept, 1) if keep]
    if not words:
        return 0 if mark == 1 else 1
    ends = {(0 if h == 0 else words[h - 1], word) for word, h in zip(words, heads, strict=True)}
    for length in range(2, len(kept) + 1):
        for left in range(max(0, mark - length + 1), mark):
            for arc in ((left, left + length), (left + length, left)):
                if arc in ends:
                    return arc[1]
    return words[heads.index(0)]


def test_attached_punctuation_by_hand() -> None:
    # "He , who left , won ." with 1 <- 6, 3 <- 4, 4 <- 1: commas go to the clause "left", the full stop to the root.
    heads = attach_punctuation((4, 3, 1, 0), [True, False, True, True, False, True, False])
    assert heads == (6, 4, 4, 1, 1, 0, 6)
    assert attach_punctuation((), [False, False, False]) == (0, 1, 1)
