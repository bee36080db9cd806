# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling of the states of syntactic topics, against all states of a tiny corpus."""

import math
from dataclasses import replace

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from infer.topic_sums import HEADS, WORDS, V, chi_square_is_fine, log_urns, pairs, posterior

from pyrogram.infer import SyntacticTopics, TopicGibbs

BASE, B = [0.7, 0.2], 0.4
FIXED = {"concentration": torch.tensor(BASE, dtype=torch.float64), "word_concentration": B, "optimize_every": 0}
MASK = WORDS >= 0


def spread(states):
    """Flat states as a padded tensor."""
    found = torch.full_like(WORDS, -1)
    found[MASK] = torch.tensor(states)
    return found


def random_corpus():
    """Forty sentences of six words of twenty, each word the head of the next."""
    words = torch.randint(0, 20, (40, 6), generator=torch.Generator().manual_seed(3))
    return words, torch.arange(6).expand(40, 6).contiguous()


def test_log_joint_is_that_of_the_urns():
    for states in ([0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 1, 0]):
        sampler = TopicGibbs(2, V, **FIXED)
        sampler.set_states(WORDS, HEADS, spread(states))
        expected = log_urns(pairs(WORDS, HEADS), states, BASE, B)
        assert sampler.log_joint() == pytest.approx(expected, abs=1e-12)
        assert sampler.topics().log_joint() == pytest.approx(expected, abs=1e-12)
        assert torch.equal(sampler.states(), spread(states))


def test_one_sweep_leaves_the_posterior_as_it_is():
    """States drawn from all 64, one sweep, and their frequencies again."""
    everything, p, _ = posterior(WORDS, HEADS, BASE, B)
    draws = 3000
    sampler = TopicGibbs(2, V, seed=1, **FIXED)
    index = {states: i for i, states in enumerate(everything)}
    counts, moved = torch.zeros(len(p)), 0
    for i in torch.multinomial(p, draws, replacement=True).tolist():
        sampler.set_states(WORDS, HEADS, spread(everything[i]))
        sampler.step(WORDS, HEADS)
        after = index[tuple(sampler.states()[MASK].tolist())]
        counts[after] += 1
        moved += after != i
    assert moved > draws / 2
    assert chi_square_is_fine(counts, draws * p)


@pytest.mark.slow
def test_chains_converge_to_the_posterior():
    everything, p, logs = posterior(WORDS, HEADS, BASE, B)
    index = {states: i for i, states in enumerate(everything)}
    counts, chains = torch.zeros(len(p)), 1500
    for seed in range(chains):
        sampler = TopicGibbs(2, V, seed=seed, **FIXED)
        sampler.run(WORDS, HEADS, num_steps=12, progress=False)
        counts[index[tuple(sampler.states()[MASK].tolist())]] += 1
    assert chi_square_is_fine(counts, chains * p)
    assert sampler.history[-1] == pytest.approx(min(logs.tolist(), key=lambda l: abs(l - sampler.history[-1])))


def test_new_sentences_see_the_present_counts():
    sampler = TopicGibbs(2, V, **FIXED)
    states = [0, 1, 1, 0, 1, 0]
    sampler.set_states(WORDS, HEADS, spread(states))
    topics = sampler.topics()
    tokens = pairs(WORDS, HEADS)
    theta, phi = topics.theta(torch.arange(V + 1)), topics.phi(torch.arange(V))
    given = [(p, w, k) for (p, w), k in zip(tokens, states, strict=True)]
    for p in range(V + 1):
        for w in range(V):
            for k in range(2):
                expected = log_urns([(p, w)], [k], BASE, B, given)
                assert math.log(theta[p, k] * phi[w, k]) == pytest.approx(expected)
    assert torch.equal(topics.sizes, torch.tensor([3, 3]))
    assert topics.top_words(2).tolist() == [[0, 1], [1, 0]]  # of equals, the first id comes first
    assert topics.top_words(4).tolist() == [[0, 1, 2], [1, 0, -1]]


def test_a_resumed_chain_is_the_same(tmp_path):
    options = {"optimize_after": 2, "optimize_every": 3, "seed": 5}
    words, heads = random_corpus()
    whole = TopicGibbs(3, 20, **options).run(words, heads, num_steps=25, progress=False)
    part = TopicGibbs(3, 20, **options)
    path = tmp_path / "chain.safetensors"
    part.run(words, heads, num_steps=10, progress=False, checkpoint=path, checkpoint_every=4)
    again = TopicGibbs(3, 20, **{**options, "seed": 99})
    again.run(words.clone(), heads, num_steps=25, progress=False, checkpoint=path)
    for one, other in zip(whole.state_dict().items(), again.state_dict().items(), strict=True):
        assert one[0] == other[0] and torch.equal(one[1], other[1])
    assert len(whole.history) == 25 == len(set(whole.history)) and whole.word_concentration != 0.1
    third = TopicGibbs(3, 20, **options)
    third.load_state_dict(part.state_dict())
    third.run(words, heads, num_steps=15, progress=False)
    assert third.history == whole.history
    with pytest.raises(ValueError, match="another run"):
        TopicGibbs(3, 20, **options).run(words.flip(0), heads.flip(0), checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="with 2 states"):
        TopicGibbs(2, 20).load_state_dict(part.state_dict())
    with pytest.raises(ValueError, match="a chain over 240 words, not 6"):
        third.load_state_dict(part.state_dict())
        fourth = TopicGibbs(3, 20, **options)
        fourth.load_state_dict(part.state_dict())
        fourth.step(WORDS, HEADS)


def test_an_interrupted_sweep_is_undone(monkeypatch):
    sampler = TopicGibbs(2, V, seed=0, optimize_after=0, optimize_every=3)
    sampler.run(WORDS, HEADS, num_steps=2, progress=False)
    before = sampler.state_dict()

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SyntacticTopics, "optimised", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sampler.step(WORDS, HEADS)
    for name, tensor in sampler.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    other = TopicGibbs(2, V, seed=0, optimize_after=0, optimize_every=3)
    other.run(WORDS, HEADS, num_steps=6, progress=False)
    sampler.run(WORDS, HEADS, num_steps=4, progress=False)
    assert sampler.history == other.history


def test_optimisation_raises_the_joint_and_only_then():
    words, heads = random_corpus()
    sampler = TopicGibbs(4, 20, seed=0, optimize_every=0).run(words, heads, num_steps=5, progress=False)
    before = sampler.topics()
    after = before.optimised(most=500, tolerance=1e-10)
    half = before.optimised(learn_beta=False)
    assert before.log_joint() < half.log_joint() < after.log_joint() and half.b == before.b
    again = TopicGibbs(4, 20, seed=0, optimize_after=3, optimize_every=2)
    seen = []
    again.run(words, heads, num_steps=7, progress=False, callback=lambda s: seen.append(float(s.concentration.sum())))
    assert [a != b for a, b in zip([0.4, *seen], seen, strict=False)] == [False, False, False, True, False, True, False]


def test_states_that_are_seen():
    """Tags for states: the counts are theirs, the Dirichlets a maximum."""
    tags = spread([0, 1, 0, 2, 1, 1])
    topics = SyntacticTopics.from_states(WORDS, HEADS, tags, V, 3)
    by_parent = np.zeros((V + 1, 3))
    for (p, _), k in zip(pairs(WORDS, HEADS), tags[MASK].tolist(), strict=True):
        by_parent[p, k] += 1
    assert (topics.by_parent.numpy() == by_parent).all() and topics.by_word.sum() == 6
    other = SyntacticTopics(topics.by_parent, topics.by_word, torch.tensor([0.3, 0.5, 0.1]), 0.2)
    assert topics.log_joint() > other.log_joint()


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_states >= 1"):
        TopicGibbs(0, V)
    for wrong in (torch.ones(3), 0.0, math.nan, math.inf, 1e-50):  # the last is zero in single precision
        with pytest.raises(ValueError, match="concentration must be from 1e-12 to 1e[+]12, one number or 2"):
            TopicGibbs(2, V, concentration=wrong)
    for wrong in (-1.0, math.nan, 1e-50):
        with pytest.raises(ValueError, match="word_concentration must be from 1e-12"):
            TopicGibbs(2, V, word_concentration=wrong)
    sampler = TopicGibbs(2, V)
    with pytest.raises(RuntimeError, match="call step or run"):
        sampler.states()
    with pytest.raises(ValueError, match="ids from 0 to 2"):
        sampler.step(WORDS + 1, HEADS)
    with pytest.raises(ValueError, match="heads must be integers, from 0 to the sentence's length"):
        sampler.step(WORDS, HEADS[:, :2])
    wrong = HEADS.clone()
    wrong[2, 0] = 3
    for heads in (wrong, HEADS.double()):
        with pytest.raises(ValueError, match="heads must be"):
            sampler.step(WORDS, heads)
    with pytest.raises(ValueError, match="states must be integers, from 0 to 1"):
        sampler.set_states(WORDS, HEADS, spread([0, 1, 2, 0, 0, 0]))


def test_least_and_greatest_parameters():
    for number in (1e-12, 1e12):
        sampler = TopicGibbs(20, V, concentration=number, word_concentration=number, seed=0)
        sampler.run(WORDS, HEADS, num_steps=30, progress=False)
        assert torch.equal(sampler.states() >= 0, MASK) and int(sampler.states().max()) < 20


def test_the_state_of_another_corpus_is_refused_again_and_again():
    other = TopicGibbs(2, V, seed=0).run(WORDS[:1], HEADS[:1], num_steps=1, progress=False)
    sampler = TopicGibbs(2, V)
    sampler.load_state_dict(other.state_dict())
    for _ in range(2):
        with pytest.raises(ValueError, match="the state is that of a chain over"):
            sampler.step(WORDS, HEADS)


@pytest.mark.slow
def test_calibration():
    """Simulation-based: where states come from the prior, their rank among samples given their words is uniform."""
    from scipy.stats import kstest

    heads = torch.tensor([[2, 0, 2, 3], [0, 1, 1, -1], [2, 3, 0, -1], [0, -1, -1, -1]])
    base, b, length = torch.tensor([1.5, 0.5, 0.2]), 0.3, 15
    g = np.random.default_rng(0)
    ranks = {"joint": [], "first": []}
    for seed in range(500):
        torch.manual_seed(seed)
        theta, phi = dist.Dirichlet(base.expand(V + 1, 3)).sample(), dist.Dirichlet(torch.full((3, V), b)).sample()
        words, states = (torch.full_like(heads, -1) for _ in range(2))
        for i, tree in enumerate(heads.tolist()):
            todo = [c for c, h in enumerate(tree) if h == 0]
            while todo:  # heads before their children
                c = todo.pop()
                parent = V if tree[c] == 0 else int(words[i, tree[c] - 1])
                states[i, c] = dist.Categorical(theta[parent]).sample()
                words[i, c] = dist.Categorical(phi[states[i, c]]).sample()
                todo += [d for d, h in enumerate(tree) if h == c + 1]
        sampler = TopicGibbs(3, V, concentration=base, word_concentration=b, optimize_every=0, seed=seed)
        sampler.set_states(words, heads, states)
        truth = sampler.log_joint(), int((states == 0).sum())
        sampler = TopicGibbs(3, V, concentration=base, word_concentration=b, optimize_every=0, seed=seed)
        samples = []
        for _ in range(length):
            sampler.run(words, heads, num_steps=12, progress=False)
            samples.append((sampler.log_joint(), int((sampler.states() == 0).sum())))
        for j, name in enumerate(ranks):
            less = sum(s[j] < truth[j] - 1e-9 for s in samples)
            ties = sum(abs(s[j] - truth[j]) <= 1e-9 for s in samples)
            ranks[name].append((less + g.integers(0, ties + 1) + g.random()) / (length + 1))
    for name, found in ranks.items():
        assert kstest(found, "uniform").pvalue > 1e-3, name


@pytest.mark.parametrize("cycle", [[1, 0, 2], [2, 1, 0], [2, 3, 1]])
def test_heads_with_a_cycle_are_refused(cycle):
    """A word that heads itself, and cycles of two and three."""
    heads = torch.tensor([[0, 1, 1], cycle])
    message = rf"from every word, but those of sentence 1, \[{', '.join(map(str, cycle))}\], have a cycle"
    words = torch.zeros_like(heads)
    for refused in (
        lambda: TopicGibbs(2, V).step(words, heads),
        lambda: SyntacticTopics.from_states(words, heads, words, V, 2),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


def test_several_roots_crossing_arcs_and_long_chains_are_no_cycles():
    for heads in ([[0, 0, 0]], [[3, 0, 2]], [[0, 4, 1, 1]], [[2, 3, 4, 5, 6, 7, 8, 9, 0]], [[0, *range(1, 9)]]):
        heads = torch.tensor(heads)
        TopicGibbs(2, V).step(torch.zeros_like(heads), heads)


@pytest.mark.parametrize("which", ["words", "heads"])
def test_sentences_changed_in_place_end_the_chain(which):
    words, heads = WORDS.clone(), HEADS.clone()
    sampler = TopicGibbs(2, V, seed=0, **FIXED).run(words, heads, num_steps=3, progress=False)
    sampler.run(words, heads, num_steps=1, progress=False)
    assert len(sampler.history) == 4
    {"words": words, "heads": heads}[which][0, 0] = {"words": 2, "heads": 3}[which]
    heads[0, 2] = 2
    sampler.run(words, heads, num_steps=1, progress=False)
    assert len(sampler.history) == 1
    expected = log_urns(pairs(words, heads), sampler.states()[MASK].tolist(), BASE, B)
    assert sampler.log_joint() == pytest.approx(expected, abs=1e-12)


def test_the_checkpoint_of_other_starting_parameters_is_refused(tmp_path):
    options = {"num_steps": 2, "progress": False, "checkpoint": tmp_path / "chain"}
    TopicGibbs(2, V, concentration=0.2, word_concentration=0.3).run(WORDS, HEADS, **options)
    TopicGibbs(2, V, concentration=torch.full((2,), 0.2), word_concentration=0.3).run(WORDS, HEADS, **options)
    for other in ({"concentration": 0.25}, {"word_concentration": 0.25}):
        with pytest.raises(ValueError, match="another run"):
            TopicGibbs(2, V, **{"concentration": 0.2, "word_concentration": 0.3, **other}).run(WORDS, HEADS, **options)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("states", lambda t: t + 1, "'states' must be integers from 0 to 1"),
        ("states", lambda t: t - 1, "'states' must be integers from 0 to 1"),
        ("states", lambda t: t.double(), "'states' must be integers from 0 to 1"),
        ("states", lambda t: t[None], "'states' must be integers from 0 to 1"),
        ("base", lambda t: t * math.nan, "'base' and 'b' must be finite and greater than 0, not "),
        ("base", lambda t: t * math.inf, "'base' and 'b' must be finite and greater than 0, not "),
        ("base", lambda t: t * 0, "'base' and 'b' must be finite and greater than 0, not "),
        ("b", lambda t: -t, "'base' and 'b' must be finite and greater than 0, not .* and -0.1"),
        ("b", lambda t: t * math.nan, "'base' and 'b' must be finite and greater than 0, not "),
        ("b", lambda t: t.expand(2), "'base' and 'b' must be finite and greater than 0, not "),
        ("base", lambda t: None, "not the state of TopicGibbs"),
    ],
)
def test_states_that_are_none(name, change, message):
    sampler = TopicGibbs(2, V, seed=0)
    sampler.set_states(WORDS, HEADS, spread([0, 1, 0, 1, 0, 1]))
    state = sampler.state_dict()
    new = TopicGibbs(2, V, seed=0)
    with pytest.raises(ValueError, match=message):
        new.load_state_dict({**state, name: change(state[name])})
    new.load_state_dict({**state, "states": state["states"].long()})
    new.step(WORDS, HEADS)


def test_parameters_without_a_possible_state_end_the_sweep():
    sampler = TopicGibbs(2, V, seed=0).run(WORDS, HEADS, num_steps=2, progress=False)
    before = sampler.states()
    sampler._state = replace(sampler._state, base=sampler._state.base * math.nan)
    with pytest.raises(ArithmeticError, match="no state of a word has a positive probability"):
        sampler.step(WORDS, HEADS)
    assert torch.equal(sampler.states(), before) and len(sampler.history) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_states": 3.5}, "num_states must be an integer, not 3.5"),
        ({"num_words": None}, "num_words must be an integer, not None"),
        ({"optimize_every": "often"}, "optimize_every must be an integer, not 'often'"),
        ({"optimize_after": 1.0}, "optimize_after must be an integer, not 1.0"),
        ({"concentration": None}, "concentration must be a tensor or numbers, not None"),
        ({"word_concentration": None}, "word_concentration must be a tensor or numbers, not None"),
        ({"seed": 1.5}, "seed must be an integer or None, not 1.5"),
    ],
)
def test_arguments_of_other_types(arguments, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        TopicGibbs(**{"num_states": 3, "num_words": 3, **arguments})


def test_numbers_are_taken_in_double_precision():
    torch.set_default_dtype(torch.float32)
    try:
        sampler = TopicGibbs(2, V, concentration=[0.1, 0.3], word_concentration=0.7)
    finally:
        torch.set_default_dtype(torch.float64)
    assert sampler.concentration.tolist() == [0.1, 0.3] and sampler.word_concentration == 0.7
