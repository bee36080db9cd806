# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The model of trees with latent annotations under every loop."""

from functools import partial

import pyro
import pytest
import torch
from nltk.tree import Tree

from pyrogram.infer import EM, CollapsedVB, VariationalEM
from pyrogram.models import annotated_treebank
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg

BANK = [
    "(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))",
    "(S (NP (DT the) (JJ old) (NN cat)) (VP (VB sleeps)))",
    "(S (NP (NN it)) (VP (VB sees) (NP (DT the) (NN dog))))",
    "(NP (NP (DT a) (NN dog)) (NP (DT the) (NN cat)))",
]


@pytest.fixture
def bank():
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    yield annotated_treebank([Tree.fromstring(text) for text in BANK], 2)
    torch.set_default_dtype(torch.float32)


def test_trees_come_back(bank) -> None:
    grammar, trees = bank
    for row, text in zip(trees, BANK, strict=True):
        tree = Tree.fromstring(text)
        assert grammar.cfg.tree(tree.leaves(), row) == tree


@pytest.mark.one_in(6)
@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB])
def test_every_loop_learns(bank, loop) -> None:
    grammar, trees = bank
    concentration = None if loop is EM else 0.1
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=concentration)
    start = grammar.initial_weights(trees, "split", noise=0.3, seed=0)
    if loop is EM:
        model = partial(model, initial_weights=start["rules"])
        fitted = loop(model)
    else:
        fitted = loop(model, initial_weights=start)
    fitted.run(trees, num_steps=40, progress=False)
    assert fitted.history[-1] > fitted.history[0] + 0.1
    if not fitted.may_fall:
        assert all(b >= a - 1e-9 for a, b in zip(fitted.history, fitted.history[1:], strict=False))
    weights = fitted.weights()
    totals = grammar.blocks["rules"].sums(weights["rules"])
    torch.testing.assert_close(totals, torch.ones_like(totals))
    parses = grammar.parse(weights, grammar.cfg.encode(["the dog sees a cat"]))
    found = grammar.cfg.tree("the dog sees a cat".split(), parses.rules[0])
    assert found == Tree.fromstring(BANK[0])
