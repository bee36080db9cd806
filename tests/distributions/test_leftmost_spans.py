# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Labelled spans of derivations, against those read off drawn trees and against marginals by enumeration."""

import pytest
import torch

from pyrogram import CFG

GRAMMARS = {
    "normal form": ("S -> A B | B A | 'a'\nA -> 'a' | A B\nB -> 'b' | 'a'", ["a a", "a b a", "a a a b"]),
    "any form": (
        "S -> A B | A | 'x' 'y'\nA -> 'a' | S B | 'b' A 'c'\nB -> 'b' | B B",
        ["a b b", "b a c b", "x y b", "x y", "a"],
    ),
}


def spans_of(tree, start=0):
    """(label, i, k) of every node, and the end, by recursion over an nltk.Tree."""
    if isinstance(tree, str):
        return [], start + 1
    found, end = [], start
    for child in tree:
        below, end = spans_of(child, end)
        found += below
    return [(tree.label(), start, end), *found], end


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", GRAMMARS)
def test_spans_are_those_of_the_trees(name):
    text, sentences = GRAMMARS[name]
    cfg = CFG.from_string(text)
    for sentence in sentences:
        (words,) = cfg.encode([sentence.split()])
        d = cfg.derivation(cfg.initial_weights(words[None], "random", seed=1), words)
        derivations = d.enumerate_support()
        assert len(derivations)
        parts = d.parts(derivations)
        for derivation, found in zip(derivations, parts, strict=True):
            expected = torch.zeros_like(found)
            for label, i, k in spans_of(cfg.tree(words, derivation))[0]:
                expected[i, k, cfg.nonterminals.index(label)] += 1
            assert torch.equal(found, expected)
        mean = (d.log_prob(derivations).exp()[:, None, None, None] * parts).sum(0)
        torch.testing.assert_close(mean, d.marginals())


def test_batches_and_padding():
    text, sentences = GRAMMARS["any form"]
    cfg = CFG.from_string(text)
    words = cfg.encode([s.split() for s in sentences])
    d = cfg.derivation(cfg.initial_weights(words, "uniform"), words)
    drawn = d.sample((3,))
    parts = d.parts(drawn)
    assert parts.shape == (3, *d.marginals().shape)
    for s in range(3):
        for b, row in enumerate(words):
            single = cfg.derivation(cfg.initial_weights(words, "uniform"), row[row >= 0])
            n = single.words.shape[-1]
            own = single.parts(drawn[s, b])
            assert torch.equal(parts[s, b, : n + 1, : n + 1], own) and parts[s, b].sum() == own.sum()
