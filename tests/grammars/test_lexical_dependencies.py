# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lexicalised dependency trees as events in contexts, and the scores of their parts."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from lexical_trees import events_of, tree_score
from torch import Tensor

from pyrogram.grammars.lexical_dependencies import PAPER, SITES, LexicalDependencies
from pyrogram.trees import projective_trees

S, W, C = 3, 4, 4


def one_to_one(keys: Sequence[int], contexts: Sequence[tuple[object, ...]]) -> bool:
    """Whether equal keys are equal contexts and the other way round."""
    pairs = set(zip(keys, contexts, strict=True))
    return len(pairs) == len({k for k, _ in pairs}) == len({c for _, c in pairs})


def random_sentence(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tags, words, cases = (torch.randint(size, (n,), generator=generator) for size in (S, W, C))
    return tags, words, cases


def random_tree(n: int, seed: int) -> Tensor:
    """A tree with one root, projective or not: every word but the root hangs on one that came before in an order."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator) + 1
    heads = torch.zeros(n, dtype=torch.long)
    for i in range(1, n):
        heads[order[i] - 1] = order[int(torch.randint(i, (), generator=generator))]
    return heads


def test_a_sentence_by_hand() -> None:
    """ "dogs bark loudly", 0 = noun, 1 = verb, 2 = adverb: the verb is the root."""
    grammar = LexicalDependencies(3, 4)
    tags, words, cases = torch.tensor([0, 1, 2]), torch.tensor([3, 1, 2]), torch.tensor([3, 0, 0])
    events = grammar.events(tags, words, cases, torch.tensor([2, 0, 2]))
    # wall: bark; dogs: STOP STOP; bark: dogs STOP loudly STOP; loudly: STOP STOP
    assert events["tags"].values.tolist() == [1, 3, 3, 0, 3, 2, 3, 3, 3]
    assert events["words"].values.tolist() == [1, 3, 2]
    assert events["cases"].values.tolist() == [3, 0, 0]
    # the coarsest context of a tag is parent tag (3: ROOT) times two plus direction
    assert events["tags"].keys[0].tolist() == [7, 0, 1, 2, 2, 3, 3, 4, 5]
    # with the sibling in the middle (3: START): parent * 8 + sibling * 2 + direction
    assert events["tags"].keys[1].tolist() == [31, 6, 7, 14, 8, 15, 13, 22, 23]
    assert events["words"].keys[0].tolist() == [1, 0, 2]
    assert events["cases"].keys[1].tolist() == [0 * 4 + 3, 1 * 4 + 1, 2 * 4 + 2]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_events_are_those_of_the_definition(n: int) -> None:
    grammar = LexicalDependencies(S, W)
    found: dict[str, list[tuple[tuple[int, ...], int]]] = {site: [] for site in SITES}
    expected: dict[str, list[tuple[dict[str, object], object]]] = {site: [] for site in SITES}
    for seed in range(20):
        sentence, heads = random_sentence(n, seed), random_tree(n, seed)
        for site, e in grammar.events(*sentence, heads).items():
            found[site] += list(zip(zip(*[k.tolist() for k in e.keys], strict=True), e.values.tolist(), strict=True))
        for site, context, value in events_of(*[t.tolist() for t in sentence], heads.tolist()):
            expected[site].append((context, S if value == "stop" else value))
    for site in SITES:
        assert [v for _, v in found[site]] == [v for _, v in expected[site]]
        for level, names in enumerate(PAPER[site]):
            contexts = [tuple(context[name] for name in names) for context, _ in expected[site]]
            assert one_to_one([keys[level] for keys, _ in found[site]], contexts)


def test_some_of_these_trees_are_not_projective() -> None:
    projective = {tuple(t) for t in projective_trees(5).tolist()}
    assert any(tuple(random_tree(5, seed).tolist()) not in projective for seed in range(20))


def test_a_padded_batch_is_its_sentences_one_after_the_other() -> None:
    grammar = LexicalDependencies(S, W)
    lengths = [4, 1, 6]
    padded = torch.full((4, 3, 7), -1)
    for i, n in enumerate(lengths):
        padded[:, i, :n] = torch.stack([*random_sentence(n, i), random_tree(n, i)])
    events = grammar.events(*padded)
    for i, n in enumerate(lengths):
        alone = grammar.events(*padded[:, i, :n])
        for site in SITES:
            ours = slice(*events[site].starts[i : i + 2].tolist())
            assert torch.equal(events[site].values[ours], alone[site].values)
            assert all(torch.equal(a[ours], b) for a, b in zip(events[site].keys, alone[site].keys, strict=True))
    assert [len(events[site]) for site in SITES] == [33, 11, 11]


Tables = dict[str, Callable[[tuple[Tensor, ...], Tensor], Tensor]]


def random_tables(grammar: LexicalDependencies) -> tuple[Tables, dict[tuple[str, tuple[int, ...], int], float]]:
    """A distribution for every context, made when it is first asked for; all that was asked for."""
    asked: dict[tuple[str, tuple[int, ...], int], float] = {}

    def table(site: str) -> Callable[[tuple[Tensor, ...], Tensor], Tensor]:
        def predict(keys: tuple[Tensor, ...], values: Tensor) -> Tensor:
            out = []
            for *key, value in zip(*[k.tolist() for k in keys], values.tolist(), strict=True):
                generator = torch.Generator().manual_seed(hash((SITES.index(site), *key)) % 2**31)
                p = torch.rand(grammar.num_values[site], generator=generator)
                out.append(float(p[value] / p.sum()))
                asked[site, tuple(key), value] = out[-1]
            return torch.tensor(out)

        return predict

    return {site: table(site) for site in SITES}, asked


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_score_of_a_tree_is_the_sum_of_its_events(n: int) -> None:
    grammar = LexicalDependencies(S, W)
    tables, _ = random_tables(grammar)
    sentence = random_sentence(n, 7 + n)
    scores = grammar.scores(*sentence, tables)
    for heads in projective_trees(n):
        events = grammar.events(*sentence, heads)
        expected = sum(tables[site](e.keys, e.values).log().sum() for site, e in events.items())
        actual = tree_score(scores, heads.tolist()) + scores.cases
        assert float(actual) == pytest.approx(float(expected), abs=1e-12)


def test_other_contexts() -> None:
    """Without lexical heads, and with one level: the scores follow the contexts that are given."""
    contexts = {
        "tags": (("direction",), ("sibling_tag", "direction")),
        "words": (("tag",),),
        "cases": (("word",), ("word", "tag")),
    }
    grammar = LexicalDependencies(S, W, contexts)
    tables, asked = random_tables(grammar)
    sentence = random_sentence(4, 1)
    scores = grammar.scores(*sentence, tables)
    assert {len(keys) for site, keys, _ in asked if site == "words"} == {1}
    for heads in projective_trees(4):
        events = grammar.events(*sentence, heads)
        expected = sum(tables[site](e.keys, e.values).log().sum() for site, e in events.items())
        assert float(tree_score(scores, heads.tolist()) + scores.cases) == pytest.approx(float(expected), abs=1e-12)


def test_sentences_and_trees_sum_to_one() -> None:
    """All sentences of up to 4 words of one tag and one word, with all their trees: the mass that ends in time.

    With one tag and one word, each side is a chain that stops with some probability: the number of words has a
    distribution that a recursion over numbers of children gives independently of trees.
    """
    grammar = LexicalDependencies(1, 1, num_cases=1)
    first, later = 0.7, 0.6  # probability of STOP after START, and after a sibling

    def tags(keys: tuple[Tensor, ...], values: Tensor) -> Tensor:
        wall = keys[0] >= 2  # parent tag 1
        stop = torch.where(keys[1] // 2 % 2 == 1, first, later)  # sibling 1: START
        return torch.where(wall, (values == 0).double(), torch.where(values == 1, stop, 1 - stop))

    def certain(keys: tuple[Tensor, ...], values: Tensor) -> Tensor:
        return torch.ones(len(values))

    predict = {"tags": tags, "words": certain, "cases": certain}
    of_size = size_of_families(first, later, 5)
    for n in range(1, 6):
        zeros = torch.zeros(n, dtype=torch.long)
        scores = grammar.scores(zeros, zeros, zeros, predict)
        total = sum(math.exp(float(tree_score(scores, t.tolist()) + scores.cases)) for t in projective_trees(n))
        assert total == pytest.approx(of_size[n], rel=1e-12)


def size_of_families(first: float, later: float, most: int) -> list[float]:
    """The distribution of the size of a family tree in which both sides have geometric numbers of children."""
    children = [first] + [(1 - first) * (1 - later) ** (k - 1) * later for k in range(1, most + 1)]
    size = [0.0] * (most + 1)
    for _ in range(most):  # each round is right for one size more
        side = [0.0] * (most + 1)
        power = [1.0] + [0.0] * most
        for p in children:
            side = [a + p * b for a, b in zip(side, power, strict=True)]
            power = convolve(power, size)
        size = [0.0, *convolve(side, side)[:most]]
    return size


def convolve(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [sum(a[i] * b[k - i] for i in range(k + 1)) for k in range(len(a))]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="add features to the one before, actual without direction"):
        LexicalDependencies(S, W, {**PAPER, "tags": (("direction",), ("parent_tag",))})
    with pytest.raises(ValueError, match="contexts of words from tag, parent_tag.* actual sibling_tag"):
        LexicalDependencies(S, W, {**PAPER, "words": (("sibling_tag",),)})
    with pytest.raises(ValueError, match="62 bits"):
        LexicalDependencies(2**20, 2**30)
    grammar = LexicalDependencies(S, W)
    one = torch.zeros(1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match=r"one root for each sentence, actual \[0, 0\] in sentence 0"):
        grammar.events(one, one, one, one)
    with pytest.raises(ValueError, match="heads of other words"):
        grammar.events(one, one, one, torch.tensor([[0, 2]]))
    three = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"without cycles.* actual \[0, 3, 2\] in sentence 1"):
        grammar.events(three, three, three, torch.tensor([[2, 3, 0], [0, 3, 2]]))
    with pytest.raises(ValueError, match="expected words from 0 to 3"):
        grammar.events(one, one + 4, one, torch.tensor([[0, 1]]))


def test_a_treebank(shared_data: Path) -> None:
    """Every token has one tag, one word and one case, and every token two STOPs."""
    from pyrogram.data import Corpus, LexicalCorpus

    corpus = Corpus.from_conllu(shared_data / "ud" / "en_ewt-ud-dev.conllu", punctuation="keep")
    lexical = LexicalCorpus.from_corpus(corpus)
    assert lexical.tags is not None and lexical.heads is not None
    grammar = LexicalDependencies(len(lexical.tag_vocab), len(lexical.lexicon))
    events = grammar.events(lexical.tags, lexical.words, lexical.cases, lexical.heads)
    assert int((events["tags"].values == grammar.stop).sum()) == 2 * lexical.num_tokens
    assert torch.equal(events["words"].values.bincount(), lexical.words[lexical.words >= 0].bincount())
