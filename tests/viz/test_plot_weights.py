# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import re

import pytest
import torch

from pyrogram import CFG, DMV, HMM
from pyrogram.viz import plot_weights

TAGS = ["noun", "verb"]


def labels(texts):
    return [text.get_text() for text in texts]


def test_rows_and_columns_of_a_dmv():
    grammar = DMV(2)
    weights = grammar.initial_weights(torch.tensor([[0, 1, 0]]), "random")
    ax = plot_weights(grammar, weights, "attach", symbols=TAGS)
    assert labels(ax.get_yticklabels()) == ["noun left", "noun right", "verb left", "verb right"]
    assert labels(ax.get_xticklabels()) == TAGS
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("child", "head, direction", "attach")
    printed = {text.get_position(): text.get_text() for text in ax.texts}
    for h in range(2):
        for d in range(2):
            for c in range(2):
                p = float(weights["attach"][h, d, c])
                assert printed.get((c, 2 * h + d)) == (f"{p:.2f}".lstrip("0") if p >= 0.095 else None)
    ax = plot_weights(grammar, weights, "root", symbols=TAGS, title="The root")
    assert labels(ax.get_yticklabels()) == [""]
    assert ax.get_title() == "The root"


def test_names_that_are_not_numbers_stay():
    grammar = HMM(2, 3)
    weights = grammar.initial_weights(torch.tensor([[0, 1, 2]]), "uniform")
    ax = plot_weights(grammar, weights, "transition", symbols=TAGS)
    assert labels(ax.get_xticklabels()) == [*TAGS, "end"]
    rules = CFG.from_string("S -> A B\nA -> 'a'\nB -> 'b' | 'c'")
    ax = plot_weights(rules, {"rules": torch.tensor([1.0, 1.0, 0.25, 0.75])}, "rules")
    assert labels(ax.get_yticklabels()) == [str(x) for x in rules.axes["rules"]["rule"]]
    assert labels(ax.texts) == ["1.00", "1.00", ".25", ".75"]


def test_errors():
    grammar = DMV(2)
    weights = grammar.initial_weights(torch.tensor([[0, 1, 0]]), "uniform")
    for block, given, message in [
        ("atach", weights, "there is no block 'atach'; the grammar has root, attach, stop"),
        ("root", {"root": torch.ones(3)}, "weights of block 'root' must have shape (2,), got (3,)"),
        ("root", {"root": torch.tensor([2.0, 1.0])}, "weights of block 'root' must be probabilities, from 0 to 1"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            plot_weights(grammar, given, block)
