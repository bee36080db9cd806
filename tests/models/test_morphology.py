# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars over characters: their rules on paper, segmentations, and what inference makes of a generated language."""

import math

import pytest
import torch

from pyrogram.data import generated_utterances, generated_verbs
from pyrogram.distributions import Sentence
from pyrogram.infer import EM, CollapsedVB, TreeHastings
from pyrogram.metrics import closest_segmentations, segmentation_scores
from pyrogram.models import maximum_likelihood
from pyrogram.models import morphology as m


def weights_of(grammar, probabilities):
    """Weights by rule, written as left and right side; zero where nothing is said."""
    weights = torch.zeros(len(grammar.rules))
    for event, (left, right) in enumerate(grammar.rules):
        weights[event] = probabilities.get((left, " ".join(map(str, right))), 0.0)
    return {"rules": weights}


def test_substrings():
    assert ["".join(s) for s in m.substrings(["aba", "ab"])] == ["a", "ab", "aba", "b", "ba"]
    assert ["".join(s) for s in m.substrings(["aba", "ab"], max_length=2)] == ["a", "ab", "b", "ba"]
    assert m.substrings([("TH", "AH")]) == [("TH",), ("TH", "AH"), ("AH",)]


def test_the_rules_of_the_verb():
    grammar = m.verb_grammar(["aba", "ab"])
    assert grammar.nonterminals == ("Word", "V", "M", "SM", "T", "OM")
    assert [" ".join(right) for left, right in grammar.rules if left == "Word"] == [
        "V",
        "V M",
        "SM V M",
        "SM T V M",
        "SM T OM V M",
    ]
    assert len(grammar.rules) == 5 + 5 * 5 and grammar.words == ("a", "b")
    assert len(m.verb_grammar(["aba"], template=[["A", "B"]], max_length=1).rules) == 1 + 2 * 2


def test_a_symbol_that_looks_like_a_part():
    """A character V is a terminal, although V is a part of the verb."""
    grammar = m.verb_grammar(["VM"])
    words = m.encode(grammar, ["VM"])
    found, log_probs = grammar.derivation(grammar.initial_weights(words, "uniform"), words).top_k(3)
    assert sorted(m.segments(grammar, found[:2, 0])) == [["V", "M"], ["VM"]] and log_probs[2, 0] == -math.inf


def test_a_verb_on_paper():
    grammar = m.verb_grammar(["aba"])
    probabilities = {
        ("Word", "V"): 0.5,
        ("Word", "V M"): 0.3,
        ("Word", "SM V M"): 0.2,
        ("V", "a b a"): 0.1,
        ("V", "a b"): 0.2,
        ("V", "a"): 0.3,
        ("V", "b"): 0.4,
        ("M", "a"): 0.9,
        ("M", "b a"): 0.1,
        ("SM", "a"): 1.0,
    }
    weights = weights_of(grammar, probabilities)
    parses = {
        ("aba",): 0.5 * 0.1,
        ("ab", "a"): 0.3 * 0.2 * 0.9,
        ("a", "ba"): 0.3 * 0.3 * 0.1,
        ("a", "b", "a"): 0.2 * 1.0 * 0.4 * 0.9,
    }
    words = m.encode(grammar, ["aba"])
    total = sum(parses.values())
    torch.testing.assert_close(
        Sentence(grammar, weights, normalized=False).log_prob(words).exp(), torch.tensor([total])
    )
    found, log_probs = grammar.derivation(weights, words).top_k(5)
    listed = sorted(parses.items(), key=lambda item: -item[1])
    assert [tuple(s) for s in m.segments(grammar, found[:4, 0])] == [s for s, _ in listed]
    torch.testing.assert_close(log_probs[:4, 0].exp(), torch.tensor([p / total for _, p in listed]))
    assert log_probs[4, 0] == -math.inf
    assert m.segment(grammar, weights, ["aba"]) == [["a", "b", "a"]]
    assert m.segments(grammar, found[:1, 0], labels=True) == [["SM", "V", "M"]]
    assert m.form_perplexity(grammar, weights, ["aba"]) == pytest.approx(1 / total)
    assert m.form_perplexity(grammar, weights, ["aba", "b"]) == pytest.approx((total * 0.5 * 0.4) ** -0.5)


def test_utterances_on_paper():
    grammar = m.unigram_grammar(["aab", "ab"], max_length=2)
    probabilities = {
        ("Utterance", "Word Utterance"): 0.4,
        ("Utterance", "Word"): 0.6,
        ("Word", "a"): 0.5,
        ("Word", "a b"): 0.3,
        ("Word", "b"): 0.2,
    }
    weights = weights_of(grammar, probabilities)
    words = m.encode(grammar, ["ab", "aab"])
    ab = 0.6 * 0.3 + 0.4 * 0.5 * 0.6 * 0.2
    aab = 0.4 * 0.5 * ab  # "aa" has no weight
    torch.testing.assert_close(
        Sentence(grammar, weights, normalized=False).log_prob(words).exp(), torch.tensor([ab, aab])
    )
    assert m.segment(grammar, weights, ["ab", "aab"]) == [["ab"], ["a", "ab"]]


def test_a_random_start_is_a_tree_for_each_word():
    """All derivations of a word are equally probable: of the four of three letters two have two parts."""
    grammar = m.verb_grammar(["aba"], template=[["V"], ["V", "M"], ["A", "V", "M"]])
    words = m.encode(grammar, ["aba"] * 3000)
    weights = m.random_start(grammar, words, seed=0)
    assert torch.allclose(weights["rules"][:3], torch.tensor([1.0, 2.0, 1.0]) / 4, atol=0.03)
    torch.testing.assert_close(grammar.blocks["rules"].sums(weights["rules"]), torch.ones(4))
    again, other = (m.random_start(grammar, words, seed=seed) for seed in (0, 1))
    assert (again["rules"] == weights["rules"]).all() and (other["rules"] != weights["rules"]).any()


@pytest.mark.parametrize("loop", ["CollapsedVB", pytest.param("TreeHastings", marks=pytest.mark.slow)])
def test_collapsed_inference_finds_morphs(loop):
    """On a generated language far more than trivial segmentations and random ones do, on held-out words too."""
    corpus = generated_verbs(400 if loop == "TreeHastings" else 200, seed=0, num_roots=15)
    train, test = corpus.split(0.1, seed=0)
    grammar = m.verb_grammar(corpus.forms)
    words = m.encode(grammar, train.forms)
    start = m.random_start(grammar, words, seed=1)
    if loop == "CollapsedVB":
        learner = CollapsedVB(m.morphology, initial_weights=start)
        learner.run(words, grammar, num_steps=20, progress=False)
    else:
        learner = TreeHastings(m.morphology, initial_weights=start, seed=0, keep_parts=False)
        learner.run(words, grammar, num_steps=150, burn_in=100, progress=False)
    found = {name: m.segment(grammar, w, test.forms) for name, w in (("start", start), ("end", learner.weights()))}
    found |= {"whole": [[form] for form in test.forms], "letters": [list(form) for form in test.forms]}
    scores = {name: segmentation_scores(f, closest_segmentations(f, test.alternatives)) for name, f in found.items()}
    assert scores["end"].token.f1 > 0.1 + max(scores[name].token.f1 for name in ("start", "whole", "letters"))
    perplexities = [m.form_perplexity(grammar, w, test.forms) for w in (start, learner.weights())]
    assert perplexities[1] < 0.5 * perplexities[0]


def test_em_climbs_on_utterances():
    spoken = generated_utterances(100, seed=0)
    grammar = m.unigram_grammar(spoken.forms, max_length=8)
    em = EM(maximum_likelihood, initial_weights=grammar.initial_weights(m.encode(grammar, spoken.forms), seed=0))
    em.run(m.encode(grammar, spoken.forms), grammar, num_steps=8, progress=False)
    assert all(later > earlier for earlier, later in zip(em.history, em.history[1:], strict=False))
