# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Richer grammars from induced trees: counts event by event, and the same assumptions on both sides."""

from collections import Counter
from typing import Any

import pytest
import torch
from infer.tree_sums import tree_events

from pyrogram import DMV, Bias, Corpus
from pyrogram.data import LexicalCorpus
from pyrogram.knowledge import induce, refit_induced, refit_words, segments, universal_rules
from pyrogram.knowledge import refitting as module

SENTENCES = [
    ["DET", "NOUN", "VERB", "DET", "NOUN"],
    ["PRON", "VERB", "PUNCT", "NOUN", "VERB"],
    ["VERB", "PUNCT", "NOUN", "PUNCT", "ADV", "DET", "NOUN"],
    ["NOUN", "VERB"],
]


@pytest.fixture
def corpus() -> Corpus:
    forms = [[tag.lower() for tag in sentence] for sentence in SENTENCES]
    return Corpus.from_sentences(SENTENCES, forms=forms, tags="upos")


@pytest.mark.parametrize("num_valences", [2, 3])
def test_weights_are_counts_of_the_induced_trees(corpus: Corpus, num_valences: int) -> None:
    """Of sentences of at most 5 words, with 0.2 more of each event."""
    induced = induce(corpus, universal_rules(corpus.vocab))
    grammar = DMV(len(corpus.vocab), valence_attach=True, num_valences=num_valences)
    found = refit_induced(induced, corpus, grammar, max_length=4, concentration=0.2)
    counts = {name: torch.full(block.shape, 0.2) for name, block in grammar.blocks.items()}
    for record, row, heads in zip(corpus, corpus.words.tolist(), induced.parse(corpus).tolist(), strict=True):
        n = len(record)
        for (block, index), times in Counter(_events(row[:n], heads[:n], num_valences)).items() if n <= 4 else ():
            counts[block][index] += times
    for name, table in counts.items():
        torch.testing.assert_close(found.weights[name], table / table.sum(-1, keepdim=True), rtol=1e-5, atol=1e-7)


def _events(tags: list[int], heads: list[int], num_valences: int) -> list[tuple[str, tuple[int, ...]]]:
    """With two valences as elsewhere; with three, those of a head's third child and of its stop after two are new."""
    if num_valences == 2:
        return tree_events(tags, heads, True)
    found: list[tuple[str, tuple[int, ...]]] = [("root", (tags[heads.index(0)],))]
    for h, tag in enumerate(tags, 1):
        for d, outwards in ((0, range(h - 1, 0, -1)), (1, range(h + 1, len(tags) + 1))):
            children = [c for c in outwards if heads[c - 1] == h]
            for v, c in enumerate(children):
                found += [("stop", (tag, d, min(v, 2), 0)), ("attach", (tag, d, min(v, 2), tags[c - 1]))]
            found.append(("stop", (tag, d, min(len(children), 2), 1)))
    return found


def test_what_was_assumed_is_assumed_again(corpus: Corpus) -> None:
    """Punctuation and rules alike: with nats so great that nothing else counts, trees are the same."""
    nouns = torch.zeros(len(corpus.vocab), 1, len(corpus.vocab))
    nouns[corpus.vocab.index("VERB"), :, corpus.vocab.index("NOUN")] = 50.0
    induced = induce(corpus, Bias({"attach": nouns}, told=("Verbs govern nouns.",)), punctuation=200.0)
    richer = refit_induced(induced, corpus, DMV(len(corpus.vocab), valence_attach=True))
    assert richer.told == induced.told == ("Verbs govern nouns.", "An arc across punctuation costs 200 nats.")
    assert richer.assumed.events.events["attach"].shape == (len(corpus.vocab), 1, 1, len(corpus.vocab))
    heads = richer.parse(corpus)
    for row, numbers in zip(heads.tolist(), corpus.segments.tolist(), strict=True):
        arcs = [(h, c) for c, h in enumerate(row, 1) if h > 0]
        across = sum(numbers[h - 1] != numbers[c - 1] for h, c in arcs)
        assert across == max(numbers)  # as few as there can be
    assert [heads[0, 1].item(), heads[0, 4].item()] == [3, 3]


def test_a_parser_of_words(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events are those of the induced trees, and its arcs pay for punctuation as theirs did."""
    seen: list[torch.Tensor] = []
    own = module.LexicalDependencies.events
    monkeypatch.setattr(
        module.LexicalDependencies, "events", lambda self, *given: seen.append(given[-1]) or own(self, *given)
    )
    asked: list[Any] = []
    parse = module.LexicalParser.parse

    def watched(self: Any, *given: Any, arc_scores: Any = None) -> Any:
        asked.append(arc_scores)
        return parse(self, *given, arc_scores=arc_scores)

    monkeypatch.setattr(module.LexicalParser, "parse", watched)
    for nats in (200.0, 0.0):
        induced = induce(corpus, universal_rules(corpus.vocab), punctuation=nats, num_steps=10)
        parser = refit_words(induced, corpus, max_length=5, num_steps=2)
        assert torch.equal(seen[-1], induced.parse(corpus.filter(5)))
        assert len(parser.train) == len(corpus.filter(5))
        scores = segments(corpus, nats).parts["arc_scores"]
        words = LexicalCorpus.from_corpus(corpus, like=parser.train)
        assert words.tags is not None
        expected = parser.parser.parse(words.tags, words.words, words.cases, ["mbr"], arc_scores=scores).heads["mbr"]
        assert torch.equal(parser.parse(corpus), expected)
        assert (asked[-1] is None) if nats == 0.0 else torch.equal(asked[-1], scores)
        arcs = [(i, h, c) for i, row in enumerate(expected.tolist()) for c, h in enumerate(row, 1) if h > 0]
        numbers = corpus.segments.tolist()
        across = sum(numbers[i][h - 1] != numbers[i][c - 1] for i, h, c in arcs)
        assert nats == 0.0 or across == sum(map(max, numbers))  # as few as there can be
    heads = refit_words(induce(corpus, "none", num_steps=2), corpus, num_steps=1).parse(corpus)
    assert ((heads >= 0) == (corpus.words >= 0)).all()


def test_punctuation_on_one_side_is_refused(corpus: Corpus) -> None:
    parser = refit_words(induce(corpus, "none", num_steps=1), corpus, num_steps=1)
    forms = [[tag.lower() for tag in sentence] for sentence in SENTENCES]
    kept = Corpus.from_sentences(SENTENCES, forms=forms, tags="upos", punctuation="keep", vocab=corpus.vocab)
    with pytest.raises(ValueError, match="the corpus has punctuation .* which the training part was without"):
        parser.parse(kept)


def test_refusals(corpus: Corpus) -> None:
    induced = induce(corpus, Bias({"stop": torch.zeros(len(corpus.vocab), 2, 2, 2)}))
    with pytest.raises(ValueError, match="corpus must have sentences of at most 1 word to learn"):
        refit_induced(induced, corpus, DMV(len(corpus.vocab)), max_length=1)
    with pytest.raises(ValueError, match="corpus must have sentences of at most 1 word to learn"):
        refit_words(induced, corpus, max_length=1)
    with pytest.raises(ValueError, match="the nats of block 'stop' must broadcast"):
        refit_induced(induced, corpus, DMV(len(corpus.vocab), num_valences=3))
