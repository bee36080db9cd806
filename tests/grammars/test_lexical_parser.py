# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parsing by a lexicalised dependency model, against all trees; the tagger, against all sequences of tags."""

import itertools

import pytest
import torch
from lexical_trees import tree_score
from torch import Tensor

from pyrogram.grammars.lexical_dependencies import SITES, LexicalDependencies
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.trees import projective_trees

S, W = 3, 5
GRAMMAR = LexicalDependencies(S, W)
LENGTHS = (4, 1, 3, 0, 5)


def padded(seed: int, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(size, (len(LENGTHS), max(LENGTHS)), generator=generator)
    return torch.where(torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None], rows, -1)


SENTENCES = padded(8, S), padded(1, W), padded(2, 4)


def predictors(paths: str = "minimal") -> dict[str, PitmanYorPredictor]:
    """Some random trees of other sentences."""
    generator = torch.Generator().manual_seed(3)
    tags, words, cases = (torch.randint(size, (40, 4), generator=generator) for size in (S, W, 4))
    trees = projective_trees(4)
    heads = trees[torch.randint(len(trees), (40,), generator=generator)]
    found = {}
    for site, events in GRAMMAR.events(tags, words, cases, heads).items():
        levels = len(GRAMMAR.contexts[site])
        alpha, epsilon = torch.full((levels,), 0.7), torch.full((levels,), 0.3)
        made = Restaurants(levels, GRAMMAR.num_values[site], paths)  # type: ignore[arg-type]
        made.add(events.keys, events.values, alpha, epsilon, generator)
        found[site] = PitmanYorPredictor(made, alpha, epsilon)
    return found


@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
def test_parses_against_all_trees(paths: str) -> None:
    predict = predictors(paths)
    parses = LexicalParser(GRAMMAR, predict).parse(*SENTENCES)
    for i, n in enumerate(LENGTHS):
        if n == 0:
            assert float(parses.log_likelihood[i]) == 0
            assert parses.heads["mbr"][i].tolist() == parses.heads["viterbi"][i].tolist() == [-1] * 5
            continue
        trees = projective_trees(n)
        sentence = [column[i, :n] for column in SENTENCES]
        events = [GRAMMAR.events(*sentence, heads) for heads in trees]
        log_p = torch.stack([sum(predict[s](e[s].keys, e[s].values).log().sum() for s in SITES) for e in events])
        torch.testing.assert_close(parses.log_likelihood[i], log_p.logsumexp(0), rtol=1e-10, atol=1e-10)
        best = log_p[trees.tolist().index(parses.heads["viterbi"][i, :n].tolist())]  # or another as good
        assert float(best) == pytest.approx(float(log_p.max()), abs=1e-10)
        posterior = log_p.softmax(0)
        right = [float((posterior * (trees == guess).sum(1)).sum()) for guess in trees]
        chosen = right[trees.tolist().index(parses.heads["mbr"][i, :n].tolist())]
        assert chosen == pytest.approx(max(right), abs=1e-10)
        scores = GRAMMAR.scores(*sentence, predict)
        for heads, expected in zip(trees.tolist(), log_p, strict=True):
            assert float(tree_score(scores, heads) + scores.cases) == pytest.approx(float(expected), abs=1e-10)


def test_nats_of_arcs_against_all_trees() -> None:
    """Trees weigh P(tree, sentence) exp(nats); which nats are whose does not change with the order of sentences."""
    predict, n = predictors(), max(LENGTHS)
    nats = 3 * torch.randn(len(LENGTHS), n + 1, n + 1, generator=torch.Generator().manual_seed(5))
    parses = LexicalParser(GRAMMAR, predict).parse(*SENTENCES, arc_scores=nats)
    plain = LexicalParser(GRAMMAR, predict).parse(*SENTENCES)
    assert not parses.heads["mbr"].equal(plain.heads["mbr"])
    for i, n in enumerate(LENGTHS):
        trees = projective_trees(n)
        sentence = [column[i, :n] for column in SENTENCES]
        logs = []
        for heads in trees if n else ():
            events = GRAMMAR.events(*sentence, heads)
            log_p = sum(float(predict[s](events[s].keys, events[s].values).log().sum()) for s in SITES)
            logs.append(log_p + sum(float(nats[i, h, c]) for c, h in enumerate(heads.tolist(), 1)))
        log_w = torch.tensor(logs or [0.0], dtype=torch.float64)
        torch.testing.assert_close(parses.log_likelihood[i], log_w.logsumexp(0), rtol=1e-6, atol=1e-6)
        if n:
            best = logs[trees.tolist().index(parses.heads["viterbi"][i, :n].tolist())]
            assert best == pytest.approx(max(logs), abs=1e-5)
            posterior = log_w.softmax(0)
            right = [float((posterior * (trees == guess).sum(1)).sum()) for guess in trees]
            assert right[trees.tolist().index(parses.heads["mbr"][i, :n].tolist())] == pytest.approx(
                max(right), abs=1e-6
            )
    with pytest.raises(ValueError, match=r"expected arc_scores of shape \(5, 6, 6\), actual \(5, 5, 5\)"):
        LexicalParser(GRAMMAR, predict).parse(*SENTENCES, arc_scores=nats[:, 1:, 1:])


def test_samples_are_from_the_chart() -> None:
    predict = predictors()
    parser = LexicalParser(GRAMMAR, predict)
    drawn = parser.sample(*SENTENCES, 4000, torch.Generator().manual_seed(0))
    trees = projective_trees(3)
    scores = GRAMMAR.scores(*[column[2, :3] for column in SENTENCES], predict)
    expected = torch.stack([tree_score(scores, heads) for heads in trees.tolist()]).softmax(0)
    found = (drawn[:, 2, None, :3] == trees).all(-1).double().mean(0)
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0)
    assert drawn[:, 3].unique().tolist() == [-1]


@pytest.mark.parametrize("paths", ["minimal", "exact"])
def test_parses_of_untagged_sentences_against_all_tags_and_trees(paths: str) -> None:
    predict = predictors(paths)
    lengths = (3, 1, 2, 0)
    inside = torch.arange(4) < torch.tensor(lengths)[:, None]
    words, cases = (torch.where(inside, column[[4, 1, 0, 3], :4], -1) for column in SENTENCES[1:])
    parser = LexicalParser(GRAMMAR, predict)
    parses = parser.parse_untagged(words, cases)
    drawn = parser.sample_untagged(words, cases, 3, torch.Generator().manual_seed(0))
    for i, n in enumerate(lengths):
        for found in (*parses.heads.values(), *parses.tags.values(), *(x[0] for x in drawn)):
            assert (found[i] >= 0).tolist() == inside[i].tolist()
        if n == 0:
            assert float(parses.log_likelihood[i]) == 0
            continue
        pairs = list(itertools.product(itertools.product(range(S), repeat=n), projective_trees(n).tolist()))
        tags, heads = (torch.tensor([pair[j] for pair in pairs]) for j in range(2))
        many = [column[i, :n].expand(len(pairs), -1).contiguous() for column in (words, cases)]
        log_p = torch.zeros(len(pairs), dtype=torch.float64)
        for site, e in GRAMMAR.events(tags, *many, heads).items():
            owner = torch.repeat_interleave(e.starts.diff())
            log_p.index_add_(0, owner, predict[site](e.keys, e.values).log())
        torch.testing.assert_close(parses.log_likelihood[i], log_p.logsumexp(0), rtol=1e-10, atol=1e-10)
        best = (parses.tags["viterbi"][i, :n].tolist(), parses.heads["viterbi"][i, :n].tolist())
        assert float(log_p[[(list(t), h) for t, h in pairs].index(best)]) == pytest.approx(
            float(log_p.max()), abs=1e-10
        )
        posterior = log_p.softmax(0)
        right = [float((posterior * (heads == guess).sum(1)).sum()) for guess in projective_trees(n)]
        chosen = right[projective_trees(n).tolist().index(parses.heads["mbr"][i, :n].tolist())]
        assert chosen == pytest.approx(max(right), abs=1e-10)
        for m in range(n):
            share = torch.zeros(S, dtype=torch.float64).index_add_(0, tags[:, m], posterior)
            assert float(share[parses.tags["mbr"][i, m]]) == pytest.approx(float(share.max()), abs=1e-10)


def test_bad_arguments_of_the_parser() -> None:
    parser = LexicalParser(GRAMMAR, predictors())
    tags, words, cases = SENTENCES
    for decoders in (("foo",), "mbr"):
        with pytest.raises(ValueError, match="expected decoders from viterbi, mbr, in a list, actual"):
            parser.parse(tags, words, cases, decoders)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected tags of shape \(N, n\)"):
        parser.parse(tags[0], words[0], cases[0])
    for bad in (words + 5, words[:, 1:]):
        with pytest.raises(ValueError, match="expected words from 0 to 4"):
            parser.sample(tags, bad, cases, 2)


def test_tensors_that_are_too_small_for_scores_are_not_written() -> None:
    predict = predictors()
    sentence = [t[0, :2] for t in SENTENCES]
    right = ((3, 3), (3, 3, 3), (3, 2, 3))
    for wrong in (((2, 3), *right[1:]), (right[0], (3, 3, 2), right[2]), (*right[:2], (3, 1, 3)), ((3,), *right[1:])):
        with pytest.raises(ValueError, match=r"expected (arcs|siblings|stops) of shape \(3, .*\) or larger, actual"):
            GRAMMAR.fill_scores(sentence[0], sentence[1], sentence[2], predict, *map(torch.zeros, wrong))
    with pytest.raises(ValueError, match=r"must have one shape \(N, n\), not"):
        GRAMMAR.events_of(*SENTENCES, SENTENCES[0][:1])


def test_bad_arguments_of_the_tagger() -> None:
    tags, words, cases = SENTENCES
    tagger = LexicalTagger.learn(tags, words, cases, num_tags=S, num_words=W)
    with pytest.raises(ValueError, match="'viterbi', 'mbr', actual 'foo'"):
        tagger.tag(words, cases, "foo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="words from 0 to 1"):
        LexicalTagger.learn(tags, words, cases, num_tags=S, num_words=2)
    with pytest.raises(ValueError, match="tags from 0 to 1, actual 2"):
        LexicalTagger.learn(tags, words, cases, num_tags=2, num_words=W)
    for triples, moves in ((tagger.triples.double(), tagger.moves), (tagger.triples, -1 - tagger.moves)):
        with pytest.raises(ValueError, match="counts, integers from 0 on"):
            LexicalTagger(triples, moves, W)


def test_tagger_against_all_sequences() -> None:
    tags, words, cases = SENTENCES
    tagger = LexicalTagger.learn(tags, words, cases, num_tags=S, num_words=W)
    assert int(tagger.triples[:, 3].sum()) == sum(LENGTHS)
    assert int(tagger.moves.sum()) == sum(n + 1 for n in LENGTHS)  # that of no words goes to the end at once
    new_words, new_cases = torch.tensor([[2, 0, 4]]), torch.tensor([[0, 3, 1]])
    # once more from counts: relative frequencies, each with a prior worth one observation
    count = {k: float(c) for *k_, c in tagger.triples.tolist() for k in [tuple(k_)]}

    def total(tag: int | None = None, word: int | None = None, case: int | None = None) -> float:
        wanted = (tag, word, case)
        fits = (all(w is None or w == x for w, x in zip(wanted, key, strict=True)) for key in count)
        return sum(c for c, fit in zip(count.values(), fits, strict=True) if fit)

    N = total()

    def emission(tag: int, word: int, case: int) -> float:
        p_word = (total(tag, word) + (total(None, word) + 1 / W) / (N + 1)) / (total(tag) + 1)
        p_case = (total(tag, None, case) + (total(None, None, case) + 1 / 4) / (N + 1)) / (total(tag) + 1)
        return p_word * (total(tag, word, case) + p_case) / (total(tag, word) + 1)

    moves = tagger.moves.double()

    def move(before: int, after: int) -> float:
        prior = float((moves[:, after].sum() + 1 / (S + 1)) / (moves.sum() + 1))
        return (float(moves[before, after]) + prior) / (float(moves[before].sum()) + 1)

    sequences = list(itertools.product(range(S), repeat=3))
    p = []
    for sequence in sequences:
        at = [emission(t, w, c) for t, w, c in zip(sequence, [2, 0, 4], [0, 3, 1], strict=True)]
        steps = [move(a, b) for a, b in zip((S, *sequence), (*sequence, S), strict=True)]
        p.append(float(torch.tensor([*at, *steps]).prod()))
    expected = torch.tensor(p) / sum(p)
    assert tagger.tag(new_words, new_cases, "viterbi")[0].tolist() == list(sequences[int(expected.argmax())])
    marginals = tagger.posterior(new_words, new_cases).marginals()[0]
    for position, tag in itertools.product(range(3), range(S)):
        share = sum(q for q, sequence in zip(expected.tolist(), sequences, strict=True) if sequence[position] == tag)
        assert float(marginals[position, tag]) == pytest.approx(share, abs=1e-12)
    again = LexicalTagger.from_tensors(tagger.tensors(), W)
    assert torch.equal(again.tag(new_words, new_cases), tagger.tag(new_words, new_cases))
