# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees and states of new sentences under syntactic topics, against all of them."""

import itertools
import pickle
from dataclasses import replace

import pytest
import torch
from infer.topic_sums import HEADS, WORDS, V, chi_square_is_fine, log_predictive, log_urns, pairs
from pyro.infer import MCMC

from pyrogram.charts.trees import projective_trees
from pyrogram.infer import SyntacticTopics, TopicGibbs, TopicTrees

BASE, B = [0.4, 0.15], 0.1
STATES = torch.tensor([[0, 1, 1], [0, -1, -1], [1, 0, -1]])
GIVEN = [(p, w, k) for (p, w), k in zip(pairs(WORDS, HEADS), STATES[WORDS >= 0].tolist(), strict=True)]
SENTENCE = [1, 0, 1]  # the ends are the same word


@pytest.fixture
def topics():
    sampler = TopicGibbs(2, V, concentration=torch.tensor(BASE), word_concentration=B)
    sampler.set_states(WORDS, HEADS, STATES)
    return sampler.topics()


def everything(sentence, states=None):
    """Every tree and all its states, with log P(s, t, w | D) and the log of the predictive product."""
    words = torch.tensor([sentence])
    found = []
    for tree in projective_trees(len(sentence)).tolist():
        tokens = pairs(words, torch.tensor([tree]))
        for s in itertools.product(range(2), repeat=len(sentence)) if states is None else [tuple(states)]:
            exact = log_urns(tokens, s, BASE, B, GIVEN)
            found.append((tuple(tree), s, exact, log_predictive(tokens, s, BASE, B, GIVEN)))
    return found


def test_arc_scores_and_parses(topics):
    words = torch.tensor([[1, 0, 1, 2], [2, 1, 0, -1], [0, -1, -1, -1]])
    scores = topics.arc_scores(words)
    for i, row in enumerate(words.tolist()):
        ids = [V, *row]
        for h in range(5):
            for d in range(5):
                impossible = d == 0 or h == d or ids[h] < 0 or ids[d] < 0
                logs = [] if impossible else [log_urns([(ids[h], ids[d])], [k], BASE, B, GIVEN) for k in range(2)]
                expected = torch.tensor(logs).exp().sum().log()
                torch.testing.assert_close(scores[i, h, d], expected)
    heads, mbr = topics.parse(words), topics.parse(words, decoder="mbr")
    for i, n in enumerate([4, 3, 1]):
        trees = projective_trees(n)  # equal words make some equally good
        log_p = torch.stack([sum(scores[i, h, c] for c, h in enumerate(t, 1)) for t in trees.tolist()])
        p = log_p.softmax(0)
        right = torch.stack([(p[:, None] * (trees == t)).sum() for t in trees])
        for found, goodness in ((heads, log_p), (mbr, right)):
            mine = (trees == found[i, :n]).all(1)
            assert goodness[mine] == pytest.approx(float(goodness.max())) and (found[i, n:] == -1).all()
    assert torch.equal(topics.trees(words).argmax(), heads)


def test_sentences_of_many_lengths_are_parsed_as_each_alone(topics, monkeypatch):
    monkeypatch.setattr("pyrogram.charts.topics.tokens._CELLS", 60)
    torch.manual_seed(0)
    words = torch.randint(0, V, (9, 6))
    for i, n in enumerate([6, 1, 3, 5, 2, 2, 6, 4, 1]):
        words[i, n:] = -1
    heads = topics.parse(words)
    for i, row in enumerate(words):
        n = int((row >= 0).sum())
        assert torch.equal(heads[i, :n], topics.parse(row[None, :n])[0])


def test_states_that_are_seen(topics):
    scores = topics.arc_scores(torch.tensor([SENTENCE]), torch.tensor([[0, 1, 0]]))
    assert scores[0, 2, 1] == pytest.approx(log_urns([(0, 1)], [0], BASE, B, GIVEN))
    assert scores[0, 0, 2] == pytest.approx(log_urns([(V, 0)], [1], BASE, B, GIVEN))
    alone = SyntacticTopics(topics.by_parent, topics.by_word, topics.base, topics.b)
    assert alone.parse(torch.tensor([SENTENCE]), torch.tensor([[0, 1, 0]])).shape == (1, 3)


def test_the_transition_matrix_leaves_the_posterior_as_it_is(topics):
    """From all 56 trees and states to all, with the sampler's own log ratios."""
    support = everything(SENTENCE)
    exact, proposal = (torch.tensor([x[j] for x in support]) for j in (2, 3))
    heads, states = (torch.tensor([x[j] for x in support]) for j in (0, 1))
    kernel = TopicTrees(topics)
    words = torch.tensor([SENTENCE]).expand(len(support), -1)
    ids = torch.cat([torch.full((len(support), 1), V), words], 1)
    given = torch.full((len(support),), 3), ids.gather(1, heads).flatten().int(), words.flatten().int()
    repeats = kernel._log_repeats(*given, states.flatten().int())
    torch.testing.assert_close(repeats, exact - proposal)
    assert repeats.abs().max() > 0.5  # or this test would be of nothing
    p, q = exact.softmax(0), proposal.softmax(0)
    move = q[None, :] * (repeats[None, :] - repeats[:, None]).clamp_max(0).exp()
    matrix = move - move.diag().diag() + (1 - (move.sum(1) - move.diag())).diag()
    torch.testing.assert_close(p @ matrix, p)
    assert (p - q).abs().sum() > 0.05


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seen", [None, (0, 1, 0)])
@pytest.mark.parametrize("correct", [True, False])
def test_chains_reach_the_posterior(topics, seen, correct):
    """Of many copies of a sentence, each a chain; without correction, the proposal."""
    support = everything(SENTENCE, seen)
    copies = 20000
    words = torch.tensor([SENTENCE]).expand(copies, 3).contiguous()
    states = None if seen is None else torch.tensor([seen]).expand(copies, 3).contiguous()
    kernel = TopicTrees(topics, seed=1, correct=correct)
    heads = kernel.run(words, states, num_samples=1, burn_in=25)[0]
    cells = {x[:2]: i for i, x in enumerate(support)}
    found = zip(map(tuple, heads.tolist()), map(tuple, kernel.states.tolist()), strict=True)
    counts = torch.bincount(torch.tensor([cells[x] for x in found]), minlength=len(support))
    target, other = torch.tensor([x[2] for x in support]), torch.tensor([x[3] for x in support])
    target, other = (target, other) if correct else (other, target)
    assert chi_square_is_fine(counts, copies * target.softmax(0))
    assert not chi_square_is_fine(counts, copies * other.softmax(0))
    assert kernel.acceptance == 1 if not correct else 0.3 < kernel.acceptance < 0.98
    assert set(kernel.acceptance_by_length()) == {3}


def test_samples_are_trees_and_repeatable(topics):
    words = torch.tensor([[1, 0, 1, 2], [2, 1, 0, -1], [0, -1, -1, -1]])
    kernel = TopicTrees(topics, seed=3)
    heads = kernel.run(words, num_samples=4, burn_in=2, thin=3)
    assert (
        heads.shape == (4, 3, 4) and (kernel.states[words >= 0] >= 0).all() and (kernel.states[words < 0] == -1).all()
    )
    assert topics.trees(words).support.check(heads).all()
    assert torch.equal(kernel.run(words, num_samples=4, burn_in=2, thin=3), heads)
    assert torch.equal(heads[-1], kernel.heads)
    assert len(TopicTrees(topics).run(words, num_samples=30).unique(dim=0)) > 1


def test_few_proposals_at_a_time(topics, monkeypatch):
    words = torch.tensor([[1, 0, 1], [2, 1, 0]])
    monkeypatch.setattr("pyrogram.infer.topics.trees._PROPOSED", 12)
    kernel = TopicTrees(topics, seed=3)
    assert kernel.run(words, num_samples=5, burn_in=4, thin=2).shape == (5, 2, 3)
    assert kernel._proposals == 14


def test_runs_in_pyro(topics):
    words = torch.tensor([[1, 0, 1], [2, 1, -1]])
    kernel = pickle.loads(pickle.dumps(TopicTrees(topics)))
    mcmc = MCMC(kernel, 20, warmup_steps=5, disable_progbar=True)
    mcmc.run(words)
    samples = mcmc.get_samples()
    assert {n: tuple(s.shape) for n, s in samples.items()} == {"heads": (20, 2, 3), "states": (20, 2, 3)}
    assert topics.trees(words).support.check(samples["heads"].long()).all()
    assert mcmc.diagnostics()["acceptance rate"]["chain 0"] == kernel.acceptance


def test_bad_arguments(topics):
    kernel = TopicTrees(topics)
    with pytest.raises(RuntimeError, match="call run first"):
        kernel.heads  # noqa: B018
    with pytest.raises(ValueError, match="ids from 0 to 2"):
        kernel.run(torch.tensor([[3]]))
    with pytest.raises(ValueError, match="states must be"):
        kernel.run(torch.tensor([[1, 2]]), torch.tensor([[0, 2]]))
    with pytest.raises(ValueError, match="num_samples >= 1"):
        kernel.run(torch.tensor([[1, 2]]), num_samples=0)
    with pytest.raises(ValueError, match="decoder"):
        topics.parse(torch.tensor([[1]]), decoder="best")
    for use in (topics.parse, topics.trees, topics.arc_scores):
        for wrong in ([[0, V]], [[0, -1, 1]], [[-1, 0, 1]], [[0, 1], [-1, -1]]):
            with pytest.raises(ValueError, match="words must be ids from 0 to 2"):
                use(torch.tensor(wrong))
        with pytest.raises(ValueError, match="words must be integers"):
            use(torch.tensor([0, 1]))
        for states in ([[0, 2]], [[0, -1]], [[0]]):
            with pytest.raises(ValueError, match="states must be integers, from 0 to 1"):
                use(torch.tensor([[0, 1]]), torch.tensor(states))


def test_narrow_integers(topics):
    words, states = torch.tensor([[1, 0, 1, 2], [2, 1, 0, -1]]), torch.tensor([[1, 0, 1, 1], [0, 1, 0, -1]])
    assert torch.equal(topics.parse(words.int()), topics.parse(words))
    assert torch.equal(topics.parse(words.int(), states.int()), topics.parse(words, states))


def test_single_precision_elsewhere_changes_nothing(topics):
    """Counts are counted in float64, whatever torch's default is."""
    words = torch.tensor([[1, 0, 1, 2], [2, 1, 0, -1]])
    scores, heads = topics.arc_scores(words), TopicTrees(topics, seed=0).run(words)
    torch.set_default_dtype(torch.float32)
    sampler = TopicGibbs(2, V, concentration=torch.tensor(BASE, dtype=torch.float64), word_concentration=B)
    sampler.set_states(WORDS, HEADS, STATES)
    again = sampler.topics()
    assert torch.equal(again.arc_scores(words), scores) and torch.equal(TopicTrees(again, seed=0).run(words), heads)
    assert again.log_joint() == pytest.approx(topics.log_joint(), abs=1e-12)
    assert sampler.log_joint() == pytest.approx(topics.log_joint(), abs=1e-12)
    assert torch.equal(again.optimised().base, topics.optimised().base)


def test_tables_that_do_not_fit_together_are_refused(topics):
    """Compiled code would read beyond them."""
    K = topics.num_states
    wrong = {
        "by_parent": [topics.by_parent[:-1], topics.by_parent[:, :1], topics.by_parent.double()],
        "by_word": [topics.by_word[:, :0], topics.by_word[0], topics.by_word.double()],
        "base": [topics.base[:1], topics.base[None]],
    }
    for name, tables in wrong.items():
        for table in tables:
            with pytest.raises(ValueError, match=f"^{name} must (be integers of shape|have shape \\({K},\\))"):
                replace(topics, **{name: table})
    with pytest.raises(ValueError, match=r"^by_parent must be integers of shape \(V \+ 1, K\)"):
        replace(topics, by_word=topics.by_word[:-1])
