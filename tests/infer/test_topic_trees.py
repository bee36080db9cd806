# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of new sentences under syntactic topics, against all of them."""

from dataclasses import replace

import pytest
import torch
from infer.topic_sums import HEADS, WORDS, V, log_urns, pairs

from pyrogram.infer import SyntacticTopics, TopicGibbs
from pyrogram.trees import projective_trees

BASE, B = [0.4, 0.15], 0.1
STATES = torch.tensor([[0, 1, 1], [0, -1, -1], [1, 0, -1]])
GIVEN = [(p, w, k) for (p, w), k in zip(pairs(WORDS, HEADS), STATES[WORDS >= 0].tolist(), strict=True)]
SENTENCE = [1, 0, 1]  # the ends are the same word


@pytest.fixture
def topics():
    sampler = TopicGibbs(2, V, concentration=torch.tensor(BASE), word_concentration=B)
    sampler.set_states(WORDS, HEADS, STATES)
    return sampler.topics()


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
    monkeypatch.setattr("pyrogram.topics.tokens._CELLS", 60)
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


def test_bad_arguments(topics):
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
    scores = topics.arc_scores(words)
    torch.set_default_dtype(torch.float32)
    sampler = TopicGibbs(2, V, concentration=torch.tensor(BASE, dtype=torch.float64), word_concentration=B)
    sampler.set_states(WORDS, HEADS, STATES)
    again = sampler.topics()
    assert torch.equal(again.arc_scores(words), scores)
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
