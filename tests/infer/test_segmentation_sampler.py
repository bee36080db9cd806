# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sampler of segmentations and hyperparameters, against sums over all segmentations and seatings, and a grid."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.segmentation_sums import Model, Words
from infer.topic_sums import chi_square_is_fine
from torch import Tensor

from pyrogram.data import generated_utterances
from pyrogram.grammars import BigramSegmentation, SegmentedUtterances, UnigramSegmentation
from pyrogram.infer import ModelError, SegmentationHastings
from pyrogram.infer.model.sites import base_distribution
from pyrogram.metrics import segmentation_scores
from pyrogram.models.word_segmentation import GOLDWATER, goldwater_temperatures, word_segmentation

FORMS = ["abab", "ab"]
UNIGRAM, BIGRAM = UnigramSegmentation("ab", max_length=3), BigramSegmentation("ab", max_length=3)
UTTERANCES = UNIGRAM.encode(FORMS)
HALVES = {"a": 0.5, "b": 0.5}


def fixed(utterances: Tensor, grammar: UnigramSegmentation, symbols: Any = None) -> None:
    L = grammar.num_levels
    law = SegmentedUtterances(grammar, [1.0, 0.8][:L], [0.4, 0.5][:L], stop=0.4, end=0.3, symbols=symbols)
    pyro.sample("utterances", law, obs=utterances)


def learnt(utterances: Tensor, grammar: UnigramSegmentation) -> None:
    """The probability that words stop is random."""
    stop = pyro.sample("stop", dist.Beta(2.0, 2.0))
    L = grammar.num_levels
    law = SegmentedUtterances(grammar, [1.0, 0.8][:L], [0.4, 0.5][:L], stop=stop, end=0.3)
    pyro.sample("utterances", law, obs=utterances)


def oracle(levels: int, stop: float = 0.4, symbols: dict[str, float] = HALVES) -> Model:
    return Model([1.0, 0.8][:levels], [0.4, 0.5][:levels], stop, 0.3, symbols, 3)


@pytest.mark.parametrize("grammar", [UNIGRAM, BIGRAM])
def test_the_log_joint_of_different_words_has_no_seats_to_sum(grammar: UnigramSegmentation) -> None:
    """All words of this one utterance are different, so that there is only one seating."""
    words: tuple[Words, ...] = (("ab", "a", "b"),)
    utterances, ends = grammar.encode(["abab"]), grammar.boundaries(words)
    symbols = {"a": 0.3, "b": 0.7}
    sampler = SegmentationHastings(fixed)
    sampler.set_boundaries(ends, utterances, grammar, torch.tensor([0.3, 0.7], dtype=torch.float64))
    p = oracle(grammar.num_levels, symbols=symbols).probability(words)
    assert sampler.log_joint == pytest.approx(math.log(p), abs=1e-12)
    other = SegmentationHastings(learnt)
    other.set_boundaries(ends, utterances, grammar)
    p = oracle(grammar.num_levels, stop=0.5).probability(words)  # where chains begin
    assert other.log_joint == pytest.approx(math.log(p) + float(dist.Beta(2.0, 2.0).log_prob(torch.tensor(0.5))))
    assert torch.equal(other.boundaries, ends) and other.segments() == [list(words[0])]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("steps", [250, pytest.param(4000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grammar", [UNIGRAM, BIGRAM])
def test_words_and_hyperparameters_are_from_their_posterior(grammar: UnigramSegmentation, steps: int) -> None:
    """Words against a sum over a grid of what is learnt with them, and that against a sum over words."""
    grid = (np.arange(20) + 0.5) / 20
    weights = grid * (1 - grid)
    ways = list(oracle(1).posterior(FORMS))
    table = np.array([[oracle(grammar.num_levels, s).probability(way) for s in grid] for way in ways]) * weights
    table /= table.sum()
    sampler, seen, stops = SegmentationHastings(learnt, seed=0), Counter[tuple[Words, ...]](), list[float]()

    def note(now: SegmentationHastings) -> None:
        if len(now.history) % 2:
            seen[tuple(map(tuple, now.segments()))] += 1
            stops.append(float(now.hyperparameters()["stop"]))

    sampler.run(UTTERANCES, grammar, num_steps=steps, progress=False, callback=note)
    shares = table.sum(1)
    assert chi_square_is_fine([seen[way] for way in ways], shares * seen.total())
    found = np.histogram(stops, bins=5, range=(0, 1))[0]
    assert chi_square_is_fine(found, table.sum(0).reshape(5, 4).sum(1) * len(stops))
    assert torch.equal(sampler.trace()["stop"][::2].double(), torch.tensor(stops).double())
    expected = {(i, t): 0.0 for i, form in enumerate(FORMS) for t in range(len(form))}
    for way, share in zip(ways, shares, strict=True):
        for i, words in enumerate(way):
            for t in np.cumsum([len(w) for w in words]) - 1:
                expected[i, t] += share
    marginals = sampler.marginals()
    assert all(abs(float(marginals[i, t]) - p) < 3 / math.sqrt(steps) for (i, t), p in expected.items())
    assert marginals[1, 2:].tolist() == [0, 0] and 0.5 < sampler.acceptance < 1


def test_a_resumed_chain_is_the_same(tmp_path: Path) -> None:
    corpus = generated_utterances(15, num_roots=3)
    grammar = BigramSegmentation("".join(corpus.forms))
    utterances, path = grammar.encode(corpus.forms), tmp_path / "chain.safetensors"
    options: dict[str, Any] = {"temperatures": [3.0, 2.0, 1.5, 1.2], "seed": 5}
    whole = SegmentationHastings(word_segmentation, **options)
    whole.run(utterances, grammar, num_steps=8, burn_in=3, progress=False)
    part = SegmentationHastings(word_segmentation, **options)
    part.run(utterances, grammar, num_steps=5, burn_in=3, progress=False, checkpoint=path, checkpoint_every=2)
    again = SegmentationHastings(word_segmentation, **{**options, "seed": 99})
    again.run(utterances.clone(), grammar, num_steps=8, burn_in=3, progress=False, checkpoint=path)
    for one, other in zip(whole.state_dict().items(), again.state_dict().items(), strict=True):
        if not one[0].startswith("seats."):  # words that nobody uses any more are dropped at other times
            assert one[0] == other[0] and torch.equal(one[1], other[1]), one[0]
    assert len(whole.history) == 8 == len(set(whole.history)) and whole.log_joint == whole.history[-1]
    assert torch.equal(whole.marginals(), again.marginals()) and whole.acceptance == again.acceptance
    assert whole.trace()["discount"].shape == (8, 2)
    with pytest.raises(ValueError, match="another run"):
        SegmentationHastings(word_segmentation, seed=5).run(utterances, grammar, checkpoint=path, progress=False)
    state = part.state_dict()
    letters = {**state, "ends": torch.ones_like(state["ends"])}
    keys, finest = state["seats.keys"].clone(), state["seats.levels"] == 1
    keys[finest] = keys[finest].flip(0)  # the same words, in other contexts
    swapped = {**state, "seats.keys": keys}
    for wrong in ({}, letters, swapped, {**state, "ends": state["ends"][:-1]}):
        with pytest.raises(ValueError, match="this is not the state of SegmentationHastings"):
            again.load_state_dict(wrong)


def test_a_seed_is_a_chain_and_torchs_own_numbers_stay() -> None:
    before = torch.get_rng_state()
    runs = [
        SegmentationHastings(word_segmentation, seed=seed).run(UTTERANCES, BIGRAM, num_steps=2, progress=False)
        for seed in (1, 1, 2)
    ]
    assert runs[0].history == runs[1].history != runs[2].history
    assert torch.equal(torch.get_rng_state(), before)


def test_it_finds_words() -> None:
    """Of three words that come often, in random order, with known hyperparameters."""
    rng = np.random.default_rng(0)
    rows = [[("kala", "mo", "tisu")[i] for i in rng.integers(0, 3, 4)] for _ in range(60)]
    grammar = UnigramSegmentation("".join(w for row in rows for w in row))
    utterances = grammar.encode(["".join(row) for row in rows])
    sampler = SegmentationHastings(word_segmentation, temperatures=goldwater_temperatures(60), seed=0)
    sampler.run(utterances, grammar, "dirichlet", num_steps=80, progress=False, **GOLDWATER[1])
    scores = segmentation_scores(sampler.segments(), rows)
    assert scores.token.f1 is not None and scores.token.f1 > 0.8
    assert sampler.restaurants.num_observations == scores.token.predicted


def test_annealing() -> None:
    temperatures = goldwater_temperatures(20)
    assert temperatures[:2] == [10, 10] and temperatures[-2:] == [1, 1] and temperatures[2] == 5
    with pytest.raises(ValueError, match="temperatures must be greater than 0 and finite, not 0"):
        SegmentationHastings(word_segmentation, temperatures=[2.0, 0.0])


def test_models_that_are_refused() -> None:
    def no_site(utterances: Tensor, grammar: UnigramSegmentation) -> None:
        pyro.sample("stop", dist.Beta(1.0, 1.0))

    def another(utterances: Tensor, grammar: UnigramSegmentation) -> None:
        learnt(utterances, grammar)
        pyro.sample("x", dist.Normal(0.0, 1.0), obs=torch.tensor(1.0))

    def scaled(utterances: Tensor, grammar: UnigramSegmentation) -> None:
        with pyro.poutine.scale(scale=2.0):
            fixed(utterances, grammar)

    for model, message in (
        (no_site, "needs one observed SegmentedUtterances site, and found 0"),
        (another, r"cannot handle observed site 'x' \(Normal\)"),
        (scaled, "cannot handle site 'utterances' in a subsampled plate, scaled or masked"),
    ):
        with pytest.raises(ModelError, match=message):
            SegmentationHastings(model).step(UTTERANCES, UNIGRAM)
    with pytest.raises(ValueError, match="expected the prior dirichlet or pitman-yor, actual 'gamma'"):
        word_segmentation(UTTERANCES, UNIGRAM, "gamma")  # type: ignore[arg-type]


def test_utterances_and_boundaries_that_are_refused() -> None:
    sampler = SegmentationHastings(fixed)
    with pytest.raises(RuntimeError, match="has no words yet; call step or run first"):
        _ = sampler.log_joint
    holes = torch.tensor([[0, -1, 1]])
    for wrong in (UTTERANCES.double(), UTTERANCES[0], holes, torch.full((1, 2), -1), UTTERANCES[:0]):
        with pytest.raises(ValueError, match=r"utterances must be integers of shape \(N, n\)"):
            sampler.step(wrong, UNIGRAM)
    with pytest.raises(ValueError, match="made of symbols 0..1, not 2"):
        sampler.step(UTTERANCES + (UTTERANCES == 1), UNIGRAM)
    ends = UNIGRAM.boundaries([["a", "bab"], ["ab"]])
    for boundaries, message in (
        (ends[:1], "boundaries must be 0 or 1 in shape"),
        (torch.where(UTTERANCES < 0, 0, ends), "boundaries must be 0 or 1 in shape"),
        (ends * (torch.arange(4) < 3), "boundaries must be 0 or 1 in shape"),
        (torch.zeros_like(ends).where(ends >= 0, ends), "must be 1 at the last symbol"),
        (UNIGRAM.boundaries([["abab"], ["ab"]]), "must leave words of at most 3 symbols, not one of 4"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler.set_boundaries(boundaries, UTTERANCES, UNIGRAM)


def test_parameters_that_are_refused() -> None:
    given: dict[str, Any] = {"concentration": 1.0, "discount": 0.5, "stop": 0.5, "end": 0.5, "validate_args": True}
    assert SegmentedUtterances(BIGRAM, **given).concentration.tolist() == [1, 1]
    for name, value, message in (
        ("concentration", -0.5, "concentration must be greater than -discount"),
        ("concentration", [1.0, 2.0, 3.0], r"concentration must have shape \(2,\), not \(3,\)"),
        ("discount", 1.0, "discount must be at least 0 and below 1"),
        ("stop", 0.0, "stop must be greater than 0 and less than 1"),
        ("end", 1.0, "end must be greater than 0 and less than 1"),
        ("symbols", [0.5, 0.6], "symbols must be positive and sum to 1"),
        ("symbols", 0.5, r"symbols must have shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            SegmentedUtterances(BIGRAM, **{**given, name: value})
    law = SegmentedUtterances(BIGRAM, **given)
    with pytest.raises(NotImplementedError, match="sample segmentations with SegmentationHastings"):
        law.log_prob(UTTERANCES)
    assert base_distribution(law) is law
    with pytest.raises(ValueError, match="utterance 1 has the symbol 'c'"):
        BIGRAM.encode(["ab", "ac"])
    with pytest.raises(ValueError, match="utterance 0 has no symbols"):
        BIGRAM.encode([""])
