# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where in the sentence the events of a derivation are: items at their places, states of words, heads."""

import re
from typing import Any

import pytest
import torch
from own_grammars import dmv, hmm
from test_recursive import GRAMMARS, log_weights

from pyrogram import DMV
from pyrogram.trees import projective_trees


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GRAMMARS)
def test_items_of_all_derivations_are_those_that_are_expected(name: str) -> None:
    """Their mean over all derivations is the gradient of log Z."""
    make, words = GRAMMARS[name]
    grammar = make()
    logs = log_weights(grammar)
    names = [table for table in grammar.recursion.tables if table != grammar.recursion.goal]
    expected = grammar.item_counts(logs, words, *names)
    for b, sentence in enumerate(words):
        d = grammar.derivation(None, sentence, log_weights=logs)
        rows = d.enumerate_support()
        found = d.item_counts(rows, *names)
        for table in names:
            mean = torch.tensordot(d.log_prob(rows).exp(), found[table], 1)
            torch.testing.assert_close(mean, expected[table][b], rtol=1e-9, atol=1e-12)


def test_states_are_in_the_order_of_the_words() -> None:
    """Each state emits a word of its own, so that the states are the words; rows have the last word's first."""
    grammar = hmm(3, 3)
    weights = {name: torch.full(block.shape, 1 / block.shape[-1]) for name, block in grammar.blocks.items()}
    weights["emission"] = torch.eye(3)
    words = torch.tensor([[0, 1, 2, 2], [2, 1, -1, -1]])
    d = grammar.derivation(weights, words)
    rows = d.argmax()
    states = d.item_counts(rows, "emission")["emission"][:, 1:].argmax(-1)
    assert torch.where(words >= 0, states, -1).tolist() == words.tolist()
    events = [grammar.event(int(x)) for x in rows[0] if x >= 0]
    assert [index[0] for block, index in events if block == "emission"] == [2, 2, 1, 0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_heads_of_all_trees(n: int) -> None:
    """Where all words differ, the events say the heads; and the DMV gives the trees the same probabilities."""
    grammar, words = dmv(2, n), torch.arange(n)
    logs = log_weights(grammar)
    d = grammar.derivation(None, words, log_weights=logs)
    rows = d.enumerate_support()
    heads = d.heads(rows, attach=(0, 1))
    for row, tree in zip(rows.tolist(), heads.tolist(), strict=True):
        events = [grammar.event(x) for x in row if x >= 0]
        arcs = {index[2] + 1: index[0] + 1 for block, index in events if block == "attach"}
        assert tree == [arcs.get(word, 0) for word in range(1, n + 1)]
    assert sorted(heads.tolist()) == sorted(projective_trees(n).tolist())
    trees = DMV(n).derivation(None, words, log_weights=logs)
    torch.testing.assert_close(trees.log_prob(heads), d.log_prob(rows), rtol=1e-10, atol=1e-10)
    assert (d.heads(rows, IR=(0, 1), IL=(1, 0)) == heads).all()
    alike = grammar.derivation(None, torch.zeros_like(words), log_weights=logs)
    found = alike.heads(alike.enumerate_support(), attach=(0, 1))
    assert sorted(found.tolist()) == sorted(projective_trees(n).tolist())


def test_heads_of_a_batch() -> None:
    """Padding, sentences without a derivation, and draws; mbr of attachments has the arcs of the best tree."""
    grammar, own = dmv(2, 3), DMV(3)
    words = torch.tensor([[0, 1, 2, 1], [2, 0, -1, -1], [1, -1, -1, -1]])
    logs = log_weights(grammar)
    d, trees = grammar.derivation(None, words, log_weights=logs), own.derivation(None, words, log_weights=logs)
    assert d.heads(d.argmax(), attach=(0, 1)).tolist() == trees.argmax().tolist()
    assert d.heads(grammar.mbr(logs, words, "attach"), attach=(0, 1)).tolist() == trees.mbr().tolist()
    draws = d.sample((2, 3))
    heads = d.heads(draws, attach=(0, 1))
    assert heads.shape == (2, 3, 3, 4)
    torch.testing.assert_close(trees.log_prob(heads), d.log_prob(draws))
    nothing = d.argmax()
    nothing[1] = -1
    assert d.heads(nothing, attach=(0, 1))[1].tolist() == [-1] * 4


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({}, "heads needs the name of an item or a block that has the arcs"),
    "one place twice": ({"attach": (0, 0)}, "attach=(0, 0) must be two of the 2 positions of attach, counted from 0"),
    "a symbol": ({"attach": (0, 2)}, "attach=(0, 2) must be two of the 2 positions of attach, counted from 0"),
    "too few positions": ({"root": (0, 1)}, "root=(0, 1) must be two of the 1 positions of root, counted from 0"),
    "the wrong way": ({"attach": (1, 0)}, "the arcs of value 0 are no tree, for a word has two heads"),
    "no item": ({"no": (0, 1)}, "valences has no item or weight no"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_has_no_heads(what: str) -> None:
    arcs, message = WRONG[what]
    grammar, words = dmv(2, 3), torch.tensor([0, 1, 2])
    d = grammar.derivation(grammar.initial_weights(words[None], "uniform"), words)
    rows = d.enumerate_support()
    fan = rows[(d.heads(rows, attach=(0, 1)) == 2).sum(-1) == 2]  # the second word has two dependents
    with pytest.raises(ValueError, match=re.escape(message)):
        d.heads(fan, **arcs)
    with pytest.raises(ValueError, match="is no derivation of a sentence of 3 words"):
        d.heads(rows.flip(-1), attach=(0, 1))
