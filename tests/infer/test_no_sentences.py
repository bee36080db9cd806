# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A corpus without sentences is refused by every loop and sampler, in one sentence."""

import pyro
import pytest
import torch

from pyrogram import DMV
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, ModelError, TreeGibbs, TreeHastings, VariationalEM

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


@pytest.mark.parametrize("make", [EM, VariationalEM, CollapsedVB, TreeHastings, TreeGibbs])
def test_a_mask_in_the_distribution(make):
    """The error says which mask does."""
    words, mask = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, False])

    def masked(by_poutine):
        weights = {n: pyro.sample(n, dirichlet_prior(b, 1.5)) for n, b in GRAMMAR.blocks.items()}
        law = Sentence(GRAMMAR, weights)
        with pyro.plate("sentences", 2), pyro.poutine.mask(mask=mask if by_poutine else True):
            pyro.sample("words", law if by_poutine else law.mask(mask), obs=words)

    make(masked).run(True, num_steps=1, progress=False)
    told = (
        rf"^{make.__name__} cannot see through the mask of site 'words'; leave .* `with pyro.poutine.mask\(mask=...\)` "
    )
    with pytest.raises(ModelError, match=told):
        make(masked).run(False, num_steps=1, progress=False)


@pytest.mark.parametrize("make", [EM, VariationalEM, CollapsedVB, TreeHastings, TreeGibbs])
def test_an_obs_mask(make):
    words, mask = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, False])

    def masked():
        weights = {n: pyro.sample(n, dirichlet_prior(b, 1.5)) for n, b in GRAMMAR.blocks.items()}
        with pyro.plate("sentences", 2):
            pyro.sample("words", Sentence(GRAMMAR, weights), obs=words, obs_mask=mask)

    with pytest.raises(ModelError, match=r"^site 'words' has an obs_mask=.* leave them out by `with pyro.poutine.mask"):
        make(masked).run(num_steps=1, progress=False)
