# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Arcs across punctuation: of every tree, what its arcs cost, from the marks between head and dependent."""

import torch
from oracle import all_trees

from pyrogram import DMV
from pyrogram.data import Corpus
from pyrogram.knowledge import segments

SENTENCES = [["NOUN", "PUNCT", "VERB", "NOUN", "PUNCT", "PUNCT", "ADV"], ["VERB", "PUNCT"], ["NOUN", "VERB", "ADV"]]


def test_a_tree_pays_for_arcs_over_marks() -> None:
    corpus = Corpus.from_sentences(SENTENCES, tags="upos")
    scores = segments(corpus, strength=2.0).parts["arc_scores"]
    positions = [[i for i, tag in enumerate(tags) if tag != "PUNCT"] for tags in SENTENCES]
    for row, where, tags in zip(scores, positions, SENTENCES, strict=True):
        for tree in all_trees(len(where), False):
            paid = 0.0
            for c, h in enumerate(tree, 1):
                between = sorted((where[c - 1], where[h - 1])) if h else (0, 0)
                paid -= 2.0 * ("PUNCT" in tags[slice(*between)])
            assert paid == sum(float(row[h, c]) for c, h in enumerate(tree, 1))
    assert scores.shape == (3, 5, 5) and not scores[2].any() and not scores[1].any()


def test_they_are_evidence_of_the_grammar() -> None:
    """Of the trees of NOUN , VERB two have an arc across the comma: they cost three nats each, and nothing else."""
    corpus = Corpus.from_sentences([["NOUN", "PUNCT", "VERB"]], tags="upos")
    grammar = DMV(2)
    weights = grammar.initial_weights(corpus.words, "uniform")
    plain = grammar.derivation(weights, corpus.words).log_partition
    given = grammar.sentences(corpus.words, segments(corpus).parts)
    costs = grammar.log_partition({k: w.log() for k, w in weights.items()}, given)
    torch.testing.assert_close(costs, plain - 3.0)
    assert str(segments(corpus)) == "An arc across punctuation costs 3 nats."
