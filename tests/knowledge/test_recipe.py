# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Induction with knowledge, from all trees of a few short sentences; and what it assumes."""

import itertools

import pytest
import torch
from oracle import all_trees

from pyrogram import DMV, Corpus
from pyrogram.bias import Bias
from pyrogram.data import Vocabulary
from pyrogram.grammar import Weights
from pyrogram.infer import VariationalEM
from pyrogram.knowledge import Sources, assumptions, closed_classes, induce, segments, universal_rules
from pyrogram.knowledge import recipe as module
from pyrogram.models.dirichlet import dirichlet

SENTENCES = [
    ["DET", "NOUN", "VERB"],
    ["PRON", "VERB", "PUNCT", "NOUN"],
    ["VERB", "PUNCT", "NOUN", "PUNCT", "ADV", "DET"],
]
FORMS = [["the", "dog", "barks"], ["it", "eats", ",", "cats"], ["go", ",", "Bob", ",", "back", "the"]]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.from_sentences(SENTENCES, forms=FORMS, tags="upos")


def posterior(
    grammar: DMV, log_weights: Weights, words: torch.Tensor, arcs: torch.Tensor
) -> list[tuple[tuple[int, ...], float]]:
    """All trees of a sentence with their probabilities under log weights and log factors of arcs."""
    trees = [tuple(heads) for heads in all_trees(len(words), False)]
    logs = []
    for heads in trees:
        counts = grammar.counts(words, torch.tensor(heads))
        log = sum(float((counts[name] * log_weights[name]).sum()) for name in counts)
        logs.append(log + sum(float(arcs[h, c]) for c, h in enumerate(heads, 1)))
    return list(zip(trees, torch.tensor(logs).softmax(0).tolist(), strict=True))


def test_it_is_variational_bayes_under_the_tilt(corpus: Corpus) -> None:
    """Three steps over all trees, from uniform weights; then the trees with the most expected right heads."""
    alpha, steps = 0.5, 3
    bias = universal_rules(corpus.vocab) + closed_classes(corpus, strength=1.0)
    arcs = segments(corpus, 2.0).parts["arc_scores"]
    grammar = DMV(len(corpus.vocab))
    tilt = {
        k: bias.events[k].expand(b.shape) if k in bias.events else torch.zeros(b.shape)
        for k, b in grammar.blocks.items()
    }
    logs = {name: w.log() for name, w in grammar.initial_weights(corpus.words, "uniform").items()}
    for _ in range(steps + 1):  # q begins with an E-step under the initial weights
        pseudo = {name: torch.full(block.shape, alpha) for name, block in grammar.blocks.items()}
        for words, factors, n in zip(corpus.words, arcs, corpus.lengths.tolist(), strict=True):
            tilted = {name: logs[name] + tilt[name] for name in logs}
            for heads, p in posterior(grammar, tilted, words[:n], factors):
                for name, count in grammar.counts(words[:n], torch.tensor(heads)).items():
                    pseudo[name] += p * count
        logs = {k: c.digamma() - c.sum(-1, keepdim=True).digamma() for k, c in pseudo.items()}
    means = {name: c / c.sum(-1, keepdim=True) for name, c in pseudo.items()}

    induced = induce(corpus, bias, punctuation=2.0, concentration=alpha, num_steps=steps)
    for name, expected in means.items():
        torch.testing.assert_close(induced.weights[name], expected)

    found = induced.parse(corpus)
    tilted = {name: means[name].log() + tilt[name] for name in means}
    for row, words, factors, n in zip(found, corpus.words, arcs, corpus.lengths.tolist(), strict=True):
        trees = posterior(grammar, tilted, words[:n], factors)
        right = {t: sum(p * sum(map(int.__eq__, t, other)) for other, p in trees) for t, _ in trees}
        assert right[tuple(row[:n].tolist())] == pytest.approx(max(right.values()))
        assert (row[n:] == -1).all()


def test_sentences_are_parsed_one_by_one(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    induced = induce(corpus, "rules", num_steps=2)
    together = induced.parse(corpus)
    monkeypatch.setattr(module, "CELLS", 1)
    assert torch.equal(induced.parse(corpus), together)


def test_numbers_that_are_not_given_are_those_of_the_documentation() -> None:
    """Of sentences of at most 15 words, 50 steps from uniform weights; there is one of 16 words."""
    corpus = Corpus.from_sentences([*SENTENCES * 250, ["DET", "NOUN"] * 8], tags="upos")  # more than 2,000 words
    plain = induce(corpus, "rules")
    assert len(plain.loop.history) == 50
    documented = induce(corpus, "rules", max_length=15, concentration=0.25, num_steps=50, punctuation=3.0)
    long = induce(corpus, "rules", max_length=16)
    for name, w in plain.weights.items():
        assert torch.equal(w, documented.weights[name])
    assert any(not torch.equal(w, long.weights[name]) for name, w in plain.weights.items())
    assert induce(corpus, "none").assumed.punctuation == 0.0
    short = corpus.filter(15)
    loop = VariationalEM(dirichlet, initial_weights="uniform")
    tilted = DMV(len(corpus.vocab)).tilted(plain.assumed.events + segments(short, 3.0))
    loop.run(short.words, tilted, concentration=0.25, num_steps=50, tolerance=0.0, progress=False)
    for name, w in loop.weights().items():
        torch.testing.assert_close(w, plain.weights[name])


def test_sentences_are_parsed_under_their_own_punctuation() -> None:
    """Nouns are learnt to depend on the verb before them; of two verbs beside a comma, that of their own segment."""
    learnt = [["VERB", "NOUN"]] * 20
    asked = [["VERB", "NOUN", "PUNCT", "VERB"], ["VERB", "PUNCT", "NOUN", "VERB"]]
    whole = Corpus.from_sentences(learnt + asked, tags="upos")
    verbs = torch.tensor([100.0 * (tag == "VERB") for tag in whole.vocab])
    induced = induce(whole[:20], Bias({"root": verbs, "attach": verbs[:, None, None]}), punctuation=50.0, num_steps=5)
    heads = induced.parse(whole[20:]).tolist()
    assert heads[0][1] == 1 and heads[1][1] == 3


def test_closed_classes_are_no_roots() -> None:
    """Every sentence has one determiner and one verb."""
    sentences = [["D", "N", "V"] + ["N"] * (i % 2) for i in range(200)]
    forms = [["the", f"n{i % 70}", f"v{i % 70}"] + [f"m{i % 70}"] * (i % 2) for i in range(200)]
    corpus = Corpus.from_sentences(sentences, forms=forms)
    root = assumptions(corpus, "discovered").events["root"]
    assert {tag for tag, nats in zip(corpus.vocab, root, strict=True) if nats > 0} == {"V"}


def test_each_kind_of_knowledge(corpus: Corpus) -> None:
    assert assumptions(corpus, "none") == Bias() and induce(corpus, "none", num_steps=1).told == ()
    rules = induce(corpus, "rules", num_steps=1)
    assert [text.split(" ")[0] for text in rules.told] == ["Arcs", "Function", "An"]
    function = assumptions(corpus, "rules", "function")
    assert len(function.told) == 2 and "AUX -> VERB" in str(function) and str(function).endswith("DET, PRON.")
    text = corpus[[0, 1, 2] * 50]
    found = induce(text, "discovered", num_steps=1)
    assert [text.split(" ")[0] for text in found.told] == ["Tags", "Roots", "Arcs", "An"]
    assert induce(text, "discovered", num_steps=1, punctuation=0.0).told == found.told[:3]
    assert assumptions(text, "discovered", "function").told == found.told[:2]


def test_nothing_is_discovered_in_a_short_text(corpus: Corpus) -> None:
    words = corpus.num_words  # 10
    assert assumptions(corpus[[0, 1, 2] * 50], "discovered").events  # 500
    found = assumptions(corpus[[*[0, 1, 2] * 49, 0, 1]], "discovered")
    assert words == 10 and not found.events
    assert str(found) == "Nothing was discovered, for 496 words are too few (500 are needed)."


def test_a_short_text_is_learnt_from_whole() -> None:
    long, short = ["N"] * 40, ["N"] * 10
    few = Corpus.from_sentences([short] * 199 + [long, [*long, "N"]])
    assert module.length_and_concentration(few) == (40, 1.0)
    assert module.length_and_concentration(Corpus.from_sentences([short] * 200 + [long])) == (15, 0.25)
    learnt = induce(few, "none", num_steps=2)
    same = induce(few, "none", num_steps=2, max_length=40, concentration=1.0)
    other = induce(few, "none", num_steps=2, max_length=15, concentration=0.25)
    assert torch.equal(learnt.weights["stop"], same.weights["stop"])
    assert not torch.equal(learnt.weights["stop"], other.weights["stop"])


def test_names_of_tags_play_no_part_in_discoveries() -> None:
    """The same text under other names, which leave the order of the vocabulary as it is, has the same trees."""
    sentences = [list(s) for s in itertools.product(("D", "N", "V"), repeat=3)] * 7
    forms = [[f"{tag}{i}" if tag != "D" else "the" for tag in s] for i, s in enumerate(sentences)]
    renamed = [[{"D": "E", "N": "O", "V": "W"}[tag] for tag in s] for s in sentences]
    trees = [
        induce(c, "discovered", num_steps=5).parse(c)
        for c in (Corpus.from_sentences(s, forms=forms) for s in (sentences, renamed))
    ]
    assert torch.equal(*trees)


@pytest.mark.parametrize("knowledge", ["none", "discovered", "rules"])
def test_the_extended_model(corpus: Corpus, knowledge: str) -> None:
    induced = induce(corpus, knowledge, num_steps=2, valence_attach=True)  # type: ignore[arg-type]
    assert induced.grammar.valence_attach and (induced.parse(corpus) >= 0).sum() == corpus.num_words


def test_what_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="'none', 'discovered', 'rules' or 'languages', not 'all'"):
        induce(corpus, "all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sentences of at most 2 words to learn from, but has none"):
        induce(corpus, "none", max_length=2)
    with pytest.raises(ValueError, match="sources are for knowledge='languages', not 'rules'; leave them out"):
        induce(corpus, "rules", sources=Sources.shipped())
    with pytest.raises(ValueError, match="knowledge must be a bias of events, not of arcs; punctuation= says"):
        induce(corpus, segments(corpus))
    induced = induce(corpus, "none", num_steps=1)
    symbols = corpus.vocab.symbols[::-1]
    other = Corpus.from_sentences([list(symbols)], vocab=Vocabulary(symbols, (1,) * len(symbols)))
    for look in (induced.parse, induced.marginals):
        with pytest.raises(ValueError, match="must have the vocabulary that the grammar was learnt with"):
            look(other)
