# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PCFGDerivation beyond the battery: impossible sentences, errors, decoding criteria, Pyro."""

import math

import pyro
import pytest
import torch
from pyro import poutine
from torch.distributions import kl_divergence

from pyrogram import CFG
from pyrogram.distributions import LeftmostDerivations, PCFGDerivation, Sentence

GRAMMAR = CFG.from_string("""
    S -> S A | A S | 'a' | B
    A -> A S | 'b'
    B -> 'b' 'b' | 'b'
""")
R = len(GRAMMAR.rules)


def random_weights(*batch: int, seed: int = 0) -> dict[str, torch.Tensor]:
    return {"rules": 0.1 + torch.rand(*batch, R, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)}


def words_of(*sentences: str) -> torch.Tensor:
    return GRAMMAR.encode(sentences)


def test_a_sentence_without_derivations() -> None:
    grammar = CFG.from_string("S -> A B\nA -> 'a' | A A\nB -> 'b'")
    words = grammar.encode(["a b", "b a", "a a b"])
    logs = torch.zeros(4, requires_grad=True)
    d = grammar.derivation(None, words, log_weights={"rules": logs})
    assert d.log_partition.tolist() == [0, -math.inf, 0]
    assert d.entropy().tolist() == [0, 0, 0]
    assert (d.argmax()[1] == -1).all() and (d.mbr()[1] == -1).all() and (d.top_k(2)[0][:, 1] == -1).all()
    assert d.top_k(2)[1][:, 1].tolist() == [-math.inf] * 2
    possible = torch.stack([d.argmax()[0], d.argmax()[0], d.argmax()[2]])
    with pyro.validation_enabled(False):
        unchecked = grammar.derivation(None, words, log_weights={"rules": logs})
        assert unchecked.log_prob(possible).tolist() == [0, -math.inf, 0]
    assert (d.marginals()[1] == 0).all() and (d.expected_counts()["rules"][1] == 0).all()
    (gradient,) = torch.autograd.grad(d.log_partition[[0, 2]].sum(), logs)
    torch.testing.assert_close(gradient, d.expected_counts()["rules"].sum(0))
    with pytest.raises(ValueError, match="sentence 1 has no derivation"):
        d.sample()


def test_weights_of_zero_are_impossible_and_have_no_gradient_of_nan() -> None:
    w = torch.tensor([0.5, 0.5, 0.0, 1.0, 0.0, 1.0, 0.5, 0.5], requires_grad=True)
    d = GRAMMAR.derivation({"rules": w}, words_of("b b b")[0])
    gradients = torch.autograd.grad(d.log_partition + d.entropy(), w)
    assert gradients[0].isfinite().all()
    assert (d.sample((200,)) != 4).all()
    assert GRAMMAR.derivation({"rules": w}, words_of("a")[0]).log_partition == -math.inf


def test_enumeration_has_limits() -> None:
    grammar = CFG.from_string("S -> S S | 'a'")
    one = {"rules": torch.ones(2)}
    assert len(grammar.derivation(one, torch.zeros(9).long()).enumerate_support()) == 1430  # a Catalan number
    with pytest.raises(NotImplementedError, match=r"too many derivations to enumerate, about 2.08e\+05; the limit"):
        grammar.derivation(one, torch.zeros(13).long()).enumerate_support()
    with pytest.raises(NotImplementedError, match="different sentences have no common support"):
        grammar.derivation(one, torch.tensor([[0, 0], [0, -1]])).enumerate_support()


def test_errors_are_one_sentence() -> None:
    words, weights = words_of("b b a")[0], random_weights()
    with pytest.raises(ValueError, match="give either weights or log_weights"):
        PCFGDerivation(GRAMMAR, None, words)
    with pytest.raises(ValueError, match=r"^weights\['rules'\] must have shape \(..., 8\), not \(7,\)"):
        PCFGDerivation(GRAMMAR, {"rules": torch.ones(7)}, words)
    with pytest.raises(ValueError, match=r"^weights lacks block 'rules' of shape \(8,\)"):
        PCFGDerivation(GRAMMAR, {"rule": torch.ones(8)}, words)
    with pytest.raises(ValueError, match="words must have shape"):
        PCFGDerivation(GRAMMAR, weights, torch.zeros(2, 0).long())
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        PCFGDerivation(GRAMMAR, weights, words).top_k(0)
    with pytest.raises(ValueError, match="criterion must be 'spans' or 'rules'"):
        PCFGDerivation(GRAMMAR, weights, words).mbr("words")
    with pyro.validation_enabled(True):
        for bad in (-1.0, torch.nan, torch.inf):
            spoilt = weights["rules"].clone()
            spoilt[2] = bad
            with pytest.raises(ValueError, match="weights must be non-negative and finite"):
                PCFGDerivation(GRAMMAR, {"rules": spoilt}, words)
        with pytest.raises(ValueError, match=r"sentence 1 is \[0, 5\]"):
            PCFGDerivation(GRAMMAR, weights, torch.tensor([[0, 1], [0, 5]]))
        d = PCFGDerivation(GRAMMAR, weights, words)
        good = d.sample()
        bad_value = good.clone()
        bad_value[0] = 7
        with pytest.raises(ValueError, match=r"leftmost derivations of the words, but value 1, \[7, .*, is not"):
            d.log_prob(torch.stack([good, bad_value]))


def test_kl_is_for_the_same_sentences_and_grammar() -> None:
    p = GRAMMAR.derivation(random_weights(), words_of("b b a"))
    with pytest.raises(NotImplementedError, match="different sentences"):
        kl_divergence(p, GRAMMAR.derivation(random_weights(), words_of("b b b")))
    other = CFG.from_string("S -> S S | 'b' | 'a'")
    with pytest.raises(NotImplementedError, match="different grammars"):
        kl_divergence(p, other.derivation({"rules": torch.ones(3)}, torch.tensor([[0, 0, 1]])))
    w = random_weights()["rules"].clone()
    w[5] = 0.0  # A -> 'b'
    forbidden = GRAMMAR.derivation({"rules": w}, words_of("b b a"))
    assert kl_divergence(p, forbidden).tolist() == [math.inf]
    assert kl_divergence(forbidden, p).isfinite().all() or forbidden.log_partition.isinf().any()


def test_support_of_batches() -> None:
    words = words_of("b b", "a", "b b a")
    support = LeftmostDerivations(GRAMMAR.flat, words)
    d = GRAMMAR.derivation(random_weights(), words)
    drawn = d.sample((4,))
    assert support.check(drawn).tolist() == [[True] * 3] * 4
    assert not support.check(drawn[:, [1, 2, 0]]).any()
    assert support.check(drawn[0, 0]).tolist() == [True, False, False]
    assert not support.check(drawn + 0.5).any()


def test_derivations_as_latent_sites() -> None:
    """In a plate, with the words observed through the derivation's own weights: the joint is the sum of both."""
    words, weights = words_of("b b a", "b b", "a"), random_weights()

    def model() -> torch.Tensor:
        with pyro.plate("sentences", 3):
            pyro.sample("words", Sentence(GRAMMAR, weights, normalized=False), obs=words)
            value: torch.Tensor = pyro.sample("y", Sentence(GRAMMAR, weights, normalized=False).derivation(words))
        return value

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    ids = trace.nodes["y"]["value"]
    joint = weights["rules"].log()[ids.clamp_min(0)].masked_fill(ids < 0, 0.0).sum(-1)
    torch.testing.assert_close(trace.nodes["y"]["log_prob"] + trace.nodes["words"]["log_prob"], joint)


def test_draws_of_expanded_batches_are_independent() -> None:
    d = GRAMMAR.derivation(random_weights(1), words_of("b b a b b a")[:, None])  # batch (1, 1)
    for shape in ((5, 1, 1), (1, 40), (40, 1), (2, 40, 3)):
        drawn = d.expand(torch.Size(shape)).sample()
        assert drawn.shape == (*shape, d.event_shape[0])
        if math.prod(shape) >= 40:
            assert len(drawn.reshape(-1, drawn.shape[-1]).unique(dim=0)) > 1
    assert d.expand(torch.Size([2, 40, 3])).support.check(drawn).all()


@pytest.mark.parametrize("words", [[0, 0, 0], [[0, 0, 0], [0, 0, -1]]])
def test_the_best_of_expanded_batches(words) -> None:
    cfg = CFG.from_string("S -> S S | A | 'a'\nA -> 'a' | 'a' 'a'")
    d = cfg.derivation({"rules": torch.tensor([0.3, 0.5, 0.2, 0.6, 0.4])}, torch.tensor(words))
    own = d.batch_shape
    for shape in ((2,), (4, 2), (3, 2)):
        wide, k = d.expand(torch.Size([*shape, *own])), 2
        for found, one in zip(wide.top_k(k), d.top_k(k), strict=True):
            event = one.shape[1 + len(own) :]
            repeated = one.reshape(k, *(1 for _ in shape), *own, *event).expand(k, *shape, *own, *event)
            assert torch.equal(found, repeated)
