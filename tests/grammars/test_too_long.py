# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What becomes of sentences that grow too long: drawn again, or cut."""

import pyro
import pytest
import torch
from pyro.infer import Predictive

from pyrogram import CFG, DMV, HMM, LatentAnnotations
from pyrogram.distributions import Sentence, dirichlet_prior


def supercritical_dmv():
    """Every head goes on taking children with probability 0.99: hardly any tree ends."""
    grammar = DMV(2)
    weights = grammar.initial_weights(torch.tensor([[0, 1]]), "uniform")
    return grammar, {**weights, "stop": torch.tensor([0.99, 0.01]).expand(2, 2, 2, 2)}


def supercritical_hmm():
    weights = {
        "initial": torch.tensor([0.5, 0.5]),
        "transition": torch.tensor([[0.5, 0.49999, 0.00001]]).expand(2, 3),
        "emission": torch.full((2, 2), 0.5),
    }
    return HMM(2, 2), weights


def supercritical_cfg():
    rules = [("S", ("S", "S")), ("S", ("a", "X")), ("X", ("X", "X")), ("X", ("b", "b", "b")), ("X", ("c", "S"))]
    return CFG(rules), {"rules": torch.tensor([0.999, 0.001, 0.5, 0.1, 0.4])}


def supercritical_annotations():
    base = CFG([("S", ("A", "A")), ("A", ("A", "A")), ("A", ("a",))])
    grammar = LatentAnnotations(base, 2)
    weights = grammar.initial_weights(torch.tensor([[0, 2, 2]]), "uniform")["rules"].clone()
    for a in range(2):
        weights[grammar.events(1)[a]] = 0.9999 / 4
        weights[grammar.events(2)[a]] = 0.0001
    return grammar, {"rules": weights}


KINDS = [supercritical_dmv, supercritical_hmm, supercritical_cfg, supercritical_annotations]


@pytest.mark.parametrize("make", KINDS)
def test_truncated_draws_are_sentences_of_the_grammar(make):
    grammar, weights = make()
    cut = Sentence(grammar, weights, max_length=9, too_long="truncate")
    words = cut.sample((500,))
    assert words.shape == (500, 9)
    assert (words[:, 0] >= 0).all() and ((words >= 0).sum(-1) >= 7).float().mean() > 0.9
    assert (cut.log_prob(words) > -torch.inf).all()
    assert cut.expand((2,)).sample().shape == (2, 9)
    with pytest.raises(ValueError, match="in a row had more than 9 .*say too_long='truncate'"):
        Sentence(grammar, {n: _colder(b, weights[n]) for n, b in grammar.blocks.items()}, max_length=9).sample((5,))


def _colder(block, w):
    """What has a probability below 0.02 gets far less, so that 10,000 tries are in vain."""
    return block.normalize(torch.where(w < 0.02, w * 1e-9, w))


def subcritical_dmv():
    """A fifth of a child on each side of every word."""
    grammar, weights = supercritical_dmv()
    return grammar, {**weights, "stop": torch.tensor([1 / 6, 5 / 6]).expand(2, 2, 2, 2)}


def subcritical_hmm():
    grammar, weights = supercritical_hmm()
    return grammar, {**weights, "transition": torch.full((2, 3), 1 / 3)}


def subcritical_cfg():
    return supercritical_cfg()[0], {"rules": torch.tensor([0.1, 0.9, 0.05, 0.9, 0.05])}


@pytest.mark.parametrize("make", [subcritical_dmv, subcritical_hmm, subcritical_cfg])
def test_short_sentences_are_drawn_as_ever(make):
    """Where nothing is too long, cutting changes no draw."""
    grammar, weights = make()
    drawn = []
    for too_long in ("redraw", "truncate"):
        torch.manual_seed(1)
        drawn.append(Sentence(grammar, weights, max_length=200, too_long=too_long).sample((400,)))
    longest = int((drawn[0] >= 0).sum(-1).max())
    assert 5 < longest < 200 and torch.equal(drawn[0], drawn[1])


def test_short_trees_of_annotations_are_drawn_as_ever():
    """An A has two As below it with probability 0.1: it has 1 / (1 - 0.2) nodes on average, and S, above two, 3.5."""
    grammar, weights = supercritical_annotations()
    mild = {"rules": weights["rules"].clone()}
    for a in range(2):
        mild["rules"][grammar.events(1)[a]] = 0.1 / 4
        mild["rules"][grammar.events(2)[a]] = 0.9
    torch.manual_seed(1)
    drawn = Sentence(grammar, mild, max_length=200, too_long="truncate").sample((4000,))
    sizes = (drawn >= 0).sum(-1).double()
    assert abs(sizes.mean() - 3.5) < 5 * sizes.std() / 4000**0.5 and sizes.max() < 200


def test_the_end_that_is_taken():
    """A leftmost derivation in three words: S S, then each S that can no more be two becomes a."""
    grammar = CFG([("S", ("S", "S")), ("S", ("a",))])
    sure = {"rules": torch.tensor([1.0, 0.0])}
    with pytest.raises(ValueError, match="no sentence of at most 3 words"):
        Sentence(grammar, sure, max_length=3, too_long="truncate").sample()
    words, derivation = grammar.sample_trees({"rules": torch.tensor([1 - 1e-12, 1e-12])}, (), 3, too_long="truncate")
    assert words.tolist() == [0, 0, 0] and derivation.tolist() == [0, 0, 1, 1, 1]


def test_other_words_are_refused():
    grammar, weights = supercritical_dmv()
    for use in (
        lambda: Sentence(grammar, weights, too_long="cut"),
        lambda: grammar.sample(weights, (2,), 5, too_long="cut"),
    ):
        with pytest.raises(ValueError, match="too_long must be 'redraw', 'truncate' or 'raise', not 'cut'"):
            use()


def test_a_prior_predictive_survives_supercritical_draws():
    grammar = CFG([("S", ("S", "S")), ("S", ("a",)), ("S", ("b",))])

    def model(too_long):
        prior = dirichlet_prior(grammar.blocks["rules"], torch.tensor([5.0, 0.01, 0.01]))
        weights = {"rules": pyro.sample("rules", prior)}
        return pyro.sample("words", Sentence(grammar, weights, max_length=12, too_long=too_long))

    torch.manual_seed(0)
    with pytest.raises(ValueError, match="too_long='truncate'"):
        Predictive(model, num_samples=20)("redraw")
    assert Predictive(model, num_samples=20)("truncate")["words"].shape == (20, 12)
    batch = Predictive(model, num_samples=20, parallel=True)("truncate")["words"]
    assert batch.shape == (20, 12)
