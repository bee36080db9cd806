# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What raw text says of tags, in corpora so small that all can be counted by hand."""

import itertools
import math

import pytest
import torch

from pyrogram import DMV
from pyrogram.data import Corpus
from pyrogram.knowledge import closed_classes, count_once_roots, reducibility
from pyrogram.knowledge.discovered import _beyond_chance, closed_tags, log_reducibility, once_tags


def tagged(text: str) -> Corpus:
    """Sentences of word/TAG, with lines for sentences."""
    rows = [[token.split("/") for token in line.split()] for line in text.strip().splitlines()]
    return Corpus.from_sentences([[t for _, t in row] for row in rows], forms=[[w for w, _ in row] for row in rows])


# D has two words, twice each: perplexity 2. N has six words, the first of which thrice. I has two words, once each.
TEXT = tagged("""
The/D dog/N barks/V
the/D cat/N sees/V a/D dog/N
A/D dog/N of/N men/N goes/V oh/I
ah/I mice/N eat/V cheese/N
""")


def test_closed_classes_are_tags_of_few_words() -> None:
    assert closed_tags(TEXT, perplexity=2.001) == ["D"]
    assert closed_tags(TEXT, perplexity=1.999) == []
    # exp of the entropy of 3, 1, 1, 1, 1, 1 out of 8, and five of eight words occur once
    nouns = math.exp(-(3 / 8 * math.log(3 / 8) + 5 / 8 * math.log(1 / 8)))
    assert nouns > 5 and closed_tags(TEXT, perplexity=60) == ["D"]
    assert closed_tags(TEXT) == ["D"]
    repeated = TEXT[[0, 1, 2, 3] * 2]
    assert closed_tags(repeated, perplexity=nouns + 1e-9) == ["N", "D", "V", "I"]
    assert closed_tags(repeated, perplexity=nouns - 1e-9) == ["D", "V", "I"]


@pytest.mark.parametrize(("V", "most"), [(10, 60), (16, 60), (32, 30)])
def test_finer_tags_have_fewer_words(V: int, most: int) -> None:
    """A tag whose words are as frequent as one another: their number is their perplexity."""
    for number in (most - 1, most + 1):
        words = [f"word {i}" for i in range(number)] * 5
        others = [f"T{tag}" for tag in range(V - 1)]
        corpus = Corpus.from_sentences([["F"] * len(words), others], forms=[words, [f"once {tag}" for tag in others]])
        assert closed_tags(corpus) == ["F"] * (number < most)


@pytest.mark.parametrize("once, closed", [(2, True), (3, False)])
def test_a_fifth_of_the_words_may_occur_once(once: int, closed: bool) -> None:
    """Of ten words of D."""
    words = ["a"] * (10 - once) + [f"new{i}" for i in range(once)]
    corpus = tagged("\n".join(f"{word}/D x{i}/N" for i, word in enumerate(words)))
    assert closed_tags(corpus) == ["D"] * closed


def test_tags_without_words_are_not_closed() -> None:
    """Of the vocabulary, but of none of these sentences."""
    assert closed_tags(TEXT[[1, 1, 1]]) == ["N", "D", "V"]


def test_arcs_from_closed_classes_cost() -> None:
    bias = closed_classes(TEXT, strength=3.0)
    (nats,) = bias.events.values()
    assert nats.shape == (4, 1, 1) and nats.flatten().tolist() == [-3.0 * (tag == "D") for tag in TEXT.vocab]
    assert str(bias) == "Tags of few words have no dependents (3 nats for each): D."
    extended = closed_classes(TEXT, valence_attach=True).events["attach"]
    assert extended.expand(DMV(4, valence_attach=True).blocks["attach"].shape).sum() == -4.0 * 2 * 2 * 4


def test_words_are_needed() -> None:
    with pytest.raises(ValueError, match="must have words beside its tags"):
        closed_classes(Corpus.from_sentences([["D", "N"]]))


def test_chance_is_that_of_random_tags() -> None:
    """Of sentences with 2 and 4 words, of which half are V: all choices of which words are V, each as likely."""
    corpus = Corpus.from_sentences([["N", "V"], ["N", "V", "V", "N"]])
    chance = 0.0
    for n in (2, 4):
        tags = list(itertools.product((0, 1), repeat=n))
        chance += sum(sum(t) == 1 for t in tags) / len(tags) / 2
    assert _beyond_chance(corpus, ["V"]) == pytest.approx(0.5 - chance)


def test_roots_are_tags_that_sentences_have_once() -> None:
    """Every sentence has one verb or one predicate, never both; the others come as they like."""
    corpus = Corpus.from_sentences(
        [s.split() for s in ("N V", "N N V", "N J", "J N N N", "N V N N N", "N N J N", "N N V")] * 10
    )
    found, gain = once_tags(corpus)
    assert found == ["V", "J"] and gain == _beyond_chance(corpus, ["V", "J"])
    assert once_tags(corpus, without=["V"])[0] == ["J"]
    bias = count_once_roots(corpus, strength=1.5)
    assert bias.events["root"].tolist() == [0.0 if tag == "N" else 1.5 for tag in corpus.vocab]
    assert (
        str(bias)
        == f"Roots gain 1.5 nats if they are V, J ({100 * gain:.0f} % more sentences have one than by chance)."
    )


def test_what_may_be_chance_is_not_believed() -> None:
    """V is in half of the sentences, all of two words, once: 0.5 beside 2 · 1/4 · 3/4 by chance."""
    rows = [["N", "V"], ["N", "N"]]
    gain = 0.5 - 2 * 0.25 * 0.75
    for number in (16, 18):
        found = once_tags(Corpus.from_sentences(rows * (number // 2)), without=["N"])
        assert found == ((["V"], gain) if gain > 0.5 / math.sqrt(number) else ([], 0.0))
        assert bool(found[0]) == (number == 18)


def test_sentences_of_one_word_are_not_looked_at() -> None:
    """They have exactly one of whatever tag they are."""
    corpus = Corpus.from_sentences([s.split() for s in ("N V", "N N V", "N N N V", "V N N")] + [["N"]] * 20)
    assert once_tags(corpus) == once_tags(corpus.filter(min_length=2))
    assert once_tags(corpus)[0] == ["V"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("times, found", [(120, ["V"]), (800, ["V", "J"])])
def test_a_tag_that_adds_less_than_half_a_per_cent_is_not_believed(times: int, found: list[str]) -> None:
    """Of 40,000 sentences N V, so many are N J: with J among the roots, the share of sentences with one is 1.

    The gain over chance is f - f² / 2, f the share of N J: see the definition in two words of each sentence.
    """
    pair = Corpus.from_sentences([["N", "V"], ["N", "J"]])
    corpus = pair[[0] * (40_000 - times) + [1] * times]
    f = times / 40_000
    assert _beyond_chance(corpus, ["V", "J"]) - _beyond_chance(corpus, ["V"]) == pytest.approx(f - f * f / 2)
    assert once_tags(corpus, without=["N"])[0] == found


def test_pseudo_words_are_of_the_average_share() -> None:
    """DET can be left out once of once, NOUN and VERB never; three more words of each tag are of share 1 / 5."""
    corpus = Corpus.from_sentences([["DET", "NOUN", "VERB"], ["NOUN", "VERB"]])
    expected = {"DET": (1 + 3 / 5) / 4, "NOUN": (0 + 3 / 5) / 5, "VERB": (0 + 3 / 5) / 5}
    found = log_reducibility(corpus, pseudocount=3.0)
    torch.testing.assert_close(
        found, torch.tensor([math.log(5 * expected[t]) for t in corpus.vocab]), check_dtype=False
    )


def test_no_tag_need_be_found() -> None:
    corpus = Corpus.from_sentences([["N"], ["N", "N"]])
    assert once_tags(corpus) == ([], 0.0) and not count_once_roots(corpus).events["root"].any()
    long = Corpus.from_sentences([["V", *["N"] * 15]])  # of 16 words
    assert once_tags(long) == ([], 0.0)


def test_words_that_can_be_left_out() -> None:
    """Segments N V (twice), D N V, V: without N, V is there; without V, N is not; without D, N V is; and so on."""
    corpus = Corpus.from_sentences(
        [["NOUN", "VERB"], ["DET", "NOUN", "VERB", "PUNCT", "VERB"], ["NOUN", "VERB"]], tags="upos"
    )
    # NOUN: of N V both times, of D N V not (D V is no segment); VERB: never (N, D N are none); DET: once of once
    shares, mean = {"NOUN": (2, 3), "VERB": (0, 3), "DET": (1, 1)}, 3 / 7
    expected = [math.log((shares[t][0] + mean) / (shares[t][1] + 1) / mean) for t in corpus.vocab]
    torch.testing.assert_close(log_reducibility(corpus, pseudocount=1.0), torch.tensor(expected))
    bias = reducibility(corpus, 0.5, pseudocount=1.0)
    torch.testing.assert_close(bias.events["attach"].flatten(), -0.5 * torch.tensor(expected))
    assert str(bias).endswith("the greatest first: DET, NOUN, VERB.")


def test_nothing_can_be_left_out() -> None:
    assert not log_reducibility(Corpus.from_sentences([["N"]])).any()
    assert not reducibility(Corpus.from_sentences([["N", "V"]])).events["attach"].any()
