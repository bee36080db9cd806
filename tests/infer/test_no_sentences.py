# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A corpus without sentences is refused by every loop and sampler, in one sentence."""

import pyro
import pytest
import torch

from pyrogram import DMV
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM

GRAMMAR = DMV(2)


def model(words):
    weights = {n: pyro.sample(n, dirichlet_prior(b, 1.5)) for n, b in GRAMMAR.blocks.items()}
    pyro.sample("words", Sentence(GRAMMAR, weights), obs=words)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("make", [EM, VariationalEM, CollapsedVB, TreeHastings, TreeGibbs])
def test_no_sentences(make, width):
    none = torch.zeros(0, width, dtype=torch.long)
    for use in (lambda: make(model).step(none), lambda: make(model).run(none, num_steps=2, progress=False)):
        with pytest.raises(ValueError, match=r"^the corpus has no sentences; give one at least$"):
            use()
