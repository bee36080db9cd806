# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import re

import pytest
import torch

from pyrogram.metrics import (
    LengthBin,
    ParentErrors,
    SignTest,
    accuracy_by_length,
    accuracy_by_tag,
    attach_left,
    attach_right,
    directed_accuracy,
    errors_by_parent,
    exact_match,
    paired_bootstrap,
    root_accuracy,
    sign_test,
    undirected_accuracy,
)
from pyrogram.metrics.significance import bootstrap_difference

# "Factory payrolls fell in September", its tree and three others.
GOLD = torch.tensor([[2, 3, 0, 3, 4]])


@pytest.mark.parametrize(
    "heads, directed, undirected, root, exact",
    [
        ([2, 3, 0, 3, 4], 5 / 5, 5 / 5, 1, 1),
        # payrolls -> Factory is inverted; ROOT's arc and fell -> payrolls are lost
        ([0, 1, 2, 3, 4], 2 / 5, 4 / 5, 0, 0),
        # right up to "in", which is inverted
        ([2, 3, 4, 0, 4], 3 / 5, 4 / 5, 0, 0),
        # right root, Factory hangs on fell
        ([3, 3, 0, 3, 4], 4 / 5, 4 / 5, 1, 0),
    ],
)
def test_by_hand(heads, directed, undirected, root, exact):
    predicted = torch.tensor([heads])
    assert directed_accuracy(predicted, GOLD) == directed
    assert undirected_accuracy(predicted, GOLD) == undirected
    assert root_accuracy(predicted, GOLD) == root
    assert exact_match(predicted, GOLD) == exact


def test_words_not_sentences_are_averaged():
    gold = torch.tensor([[0, -1, -1, -1], [2, 3, 4, 0]])
    predicted = torch.tensor([[0, -1, -1, -1], [0, 1, 2, 3]])
    assert directed_accuracy(predicted, gold) == 1 / 5
    assert undirected_accuracy(predicted, gold) == 4 / 5
    assert root_accuracy(predicted, gold) == 1 / 2
    assert exact_match(predicted, gold) == 1 / 2


def test_several_roots():
    gold = torch.tensor([[0, 0, 2]])
    assert root_accuracy(torch.tensor([[0, 0, 1]]), gold) == 1
    assert root_accuracy(torch.tensor([[0, 1, 1]]), gold) == 0
    assert root_accuracy(torch.tensor([[0, 0, 0]]), gold) == 0


def random_corpus(generator, num_sentences=60, longest=45):
    """Heads as lists; each word hangs on one that precedes it in a random order, the first on ROOT."""

    def tree(n):
        order = (torch.randperm(n, generator=generator) + 1).tolist()
        heads = [0] * n
        for i, word in enumerate(order[1:], 1):
            heads[word - 1] = order[int(torch.randint(i, (), generator=generator))]
        return heads

    lengths = torch.randint(1, longest + 1, (num_sentences,), generator=generator).tolist()
    gold = [tree(n) for n in lengths]
    # a quarter of the trees are right, others share some heads by chance
    predicted = [g if i % 4 == 0 else tree(len(g)) for i, g in enumerate(gold)]
    return predicted, gold


def pad(trees, width):
    return torch.tensor([heads + [-1] * (width - len(heads)) for heads in trees])


def by_loops(predicted, gold):
    """The definitions again, as sets of arcs."""
    words = directed = undirected = roots = exact = 0
    for p, g in zip(predicted, gold, strict=True):
        arcs = {(head, word) for word, head in enumerate(g, 1)}
        ours = {(head, word) for word, head in enumerate(p, 1)}
        words += len(g)
        directed += len(arcs & ours)
        undirected += len({frozenset(arc) for arc in arcs} & {frozenset(arc) for arc in ours})
        roots += p.index(0) == g.index(0)
        exact += p == g
    return directed / words, undirected / words, roots / len(gold), exact / len(gold)


@pytest.mark.parametrize("seed", range(5))
def test_random_trees(seed):
    p, g = random_corpus(torch.Generator().manual_seed(seed))
    predicted, gold = pad(p, 45), pad(g, 50)
    directed, undirected, root, exact = by_loops(p, g)
    assert directed_accuracy(predicted, gold) == pytest.approx(directed, rel=1e-12)
    assert undirected_accuracy(predicted, gold) == pytest.approx(undirected, rel=1e-12)
    assert root_accuracy(predicted, gold) == pytest.approx(root, rel=1e-12)
    assert exact_match(predicted, gold) == pytest.approx(exact, rel=1e-12)
    for row in accuracy_by_length(predicted, gold):
        keep = [i for i, heads in enumerate(g) if len(heads) <= (row.max_length or 99)]
        directed, undirected, root, _ = by_loops([p[i] for i in keep], [g[i] for i in keep])
        assert row.sentences == len(keep)
        assert row.words == sum(len(g[i]) for i in keep)
        assert (row.directed, row.undirected, row.root) == pytest.approx((directed, undirected, root))


def test_bins():
    gold = torch.tensor([[2, 0, -1], [0, 1, 2]])
    predicted = torch.tensor([[2, 0, -1], [2, 0, 2]])
    scores = accuracy_by_length(predicted, gold, bins=(1, 2, None))
    assert len(scores) == 3
    assert scores[0] == LengthBin(1, 0, 0, None, None, None)
    assert scores[1] == LengthBin(2, 1, 2, 1.0, 1.0, 1.0)
    assert scores[2] == LengthBin(None, 2, 5, 3 / 5, 4 / 5, 1 / 2)
    assert str(scores).splitlines() == [
        "length  sentences    words  directed  undirected   root",
        "   <=1          0        0         -           -      -",
        "   <=2          1        2     100.0       100.0  100.0",
        "   all          2        5      60.0        80.0   50.0",
    ]


def test_words_that_do_not_count():
    """Punctuation is neither right nor wrong, nor does it make a sentence longer."""
    gold = torch.tensor([[2, 0, 2], [0, 1, -1], [0, -1, -1]])
    predicted = torch.tensor([[2, 0, 1], [2, 0, -1], [0, -1, -1]])
    scored = torch.tensor([[True, True, False], [True, True, False], [False, False, False]])
    scores = accuracy_by_length(predicted, gold, bins=(2, None), scored=scored)
    assert scores[0] == LengthBin(2, 2, 4, 1 / 2, 3 / 4, 1 / 2)
    assert scores[1] == LengthBin(None, 2, 4, 1 / 2, 3 / 4, 1 / 2)
    with pytest.raises(ValueError, match=r"a mask of shape \(3, 3\)"):
        accuracy_by_length(predicted, gold, scored=scored.long())


def test_sentences_without_words_count_nowhere():
    gold = torch.tensor([[2, 0], [-1, -1]])
    assert root_accuracy(gold, gold) == exact_match(gold, gold) == 1
    assert accuracy_by_length(gold, gold, bins=(None,))[0].sentences == 1
    nothing = torch.full((2, 3), -1)
    for metric in (directed_accuracy, undirected_accuracy, root_accuracy, exact_match):
        with pytest.raises(ValueError, match="at least one word"):
            metric(nothing, nothing)
    assert accuracy_by_length(nothing[:0], nothing[:0], bins=(None,))[0].directed is None


def test_baselines():
    lengths = torch.tensor([1, 4, 0, 2])
    right = [[0, -1, -1, -1], [2, 3, 4, 0], [-1] * 4, [2, 0, -1, -1]]
    left = [[0, -1, -1, -1], [0, 1, 2, 3], [-1] * 4, [0, 1, -1, -1]]
    assert attach_right(lengths).tolist() == right
    assert attach_left(lengths).tolist() == left
    # one is the other with every arc turned round, but for ROOT's
    assert undirected_accuracy(attach_right(lengths), attach_left(lengths)) == 5 / 7
    assert attach_right(lengths[:0]).shape == (0, 0)


def test_arguments_are_left_alone():
    predicted, gold = GOLD.clone(), GOLD.int()
    assert directed_accuracy(predicted, gold) == 1
    assert predicted.equal(GOLD) and gold.dtype == torch.int32


@pytest.mark.parametrize(
    "predicted, gold, message",
    [
        ([[0], [0]], [[0]], "predicted and gold must hold the same sentences, got shapes (2, 1) and (1, 1)."),
        (
            [[0, -1], [0, -1]],
            [[0, -1], [0, 1]],
            "must agree on the length of every sentence, got 1 and 2 words in sentence 1 (shapes (2, 2) and (2, 2)).",
        ),
        ([0, 1], [[0, 1]], "predicted must be integers of shape (N, n), got torch.int64 of shape (2,)."),
        ([[0, 1]], [[0.0, 1.0]], "gold must be integers of shape (N, n), got torch.float64 of shape (1, 2)."),
        ([[0, 3]], [[0, 1]], "predicted must hold heads from 0 to the sentence's length"),
        ([[0, 1]], [[-1, 0]], "gold must hold heads from 0 to the sentence's length"),
        ([[0, -2]], [[0, -1]], "predicted must hold heads from 0 to the sentence's length"),
    ],
)
def test_errors(predicted, gold, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        directed_accuracy(torch.tensor(predicted), torch.tensor(gold))


@pytest.mark.parametrize("lengths", [[1.0], [[1]], [-1]])
def test_lengths_are_checked(lengths):
    with pytest.raises(ValueError, match="lengths must be non-negative integers of shape"):
        attach_right(torch.tensor(lengths))


def test_by_tag():
    gold = torch.tensor([[2, 3, 0, 3, 4], [2, 0, -1, -1, -1]])
    predicted = torch.tensor([[0, 1, 2, 3, 4], [2, 0, -1, -1, -1]])  # the first three hang the wrong way round
    tags = [["NN", "NNS", "VB", "IN", "NN"], ["NNS", "VB"]]
    found = [(s.tag, s.words, s.directed, s.undirected) for s in accuracy_by_tag(predicted, gold, tags)]
    assert found == [("NN", 2, 1 / 2, 1 / 2), ("NNS", 2, 1 / 2, 1), ("VB", 2, 1 / 2, 1), ("IN", 1, 1, 1)]
    # 1 under 0 is wrong either way; scored words alone
    scored = torch.tensor([[False, True, False, True, True], [True, False, False, False, False]])
    found = [(s.tag, s.words, s.directed) for s in accuracy_by_tag(predicted, gold, tags, scored)]
    assert found == [("NNS", 2, 1 / 2), ("IN", 1, 1), ("NN", 1, 1)]
    assert sum(s.words * s.directed for s in accuracy_by_tag(predicted, gold, tags)) == 7 * directed_accuracy(
        predicted, gold
    )
    with pytest.raises(ValueError, match="a tag for each word"):
        accuracy_by_tag(predicted, gold, tags[:1])


def test_paired_bootstrap_of_trees():
    """It is that of the numbers of right words, sentence by sentence."""
    gold = torch.tensor([[2, 3, 0, 3], [2, 0, -1, -1], [0, 1, 1, -1]])
    first = torch.tensor([[2, 3, 0, 3], [0, 1, -1, -1], [0, 1, 2, -1]])  # 4, 0, 2 right
    second = torch.tensor([[2, 0, 2, 3], [2, 0, -1, -1], [0, 1, 1, -1]])  # 2, 2, 3 right
    found = paired_bootstrap(first, second, gold, samples=500, seed=3)
    assert found == bootstrap_difference([4, 0, 2], [2, 2, 3], [4, 2, 3], samples=500, seed=3)
    assert found.difference == -1 / 9
    scored = gold == 0  # the root alone: right, wrong, right against wrong, right, right
    found = paired_bootstrap(first, second, gold, scored, samples=500)
    assert found == bootstrap_difference([1, 0, 1], [0, 1, 1], [1, 1, 1], samples=500)


# Three sentences; right words of the first parser: 4, 0, 2; of the second: 2, 2, 3.
THREE = torch.tensor([[2, 3, 0, 3], [2, 0, -1, -1], [0, 1, 1, -1]])
FIRST = torch.tensor([[2, 3, 0, 3], [0, 1, -1, -1], [0, 1, 2, -1]])
SECOND = torch.tensor([[2, 0, 2, 3], [2, 0, -1, -1], [0, 1, 1, -1]])


def test_signs_of_words_and_of_sentences():
    # better in words 2 and 3 of the first sentence, worse in both of the second and in the last: 26 of 32 throws
    assert sign_test(FIRST, SECOND, THREE) == SignTest(2, 3, 1.0)
    assert sign_test(FIRST, THREE, THREE) == SignTest(0, 3, pytest.approx(2 / 8))
    assert sign_test(FIRST, SECOND, THREE, unit="sentences") == SignTest(1, 2, 1.0)
    assert sign_test(FIRST, THREE, THREE, unit="sentences") == SignTest(0, 2, pytest.approx(2 / 4))
    assert sign_test(FIRST, SECOND, THREE, THREE == 0) == SignTest(1, 1, 1.0)
    with pytest.raises(ValueError, match="'words' or 'sentences', not 'trees'"):
        sign_test(FIRST, SECOND, THREE, unit="trees")


def test_several_starts():
    """The mean accuracy; the sign of how many starts have a word right; one start stands for as many as there are."""
    wide = torch.cat([SECOND, torch.full((3, 1), -1)], 1)
    starts = torch.stack([torch.cat([FIRST, torch.full((3, 1), -1)], 1), wide])
    found = paired_bootstrap(starts, SECOND, THREE, samples=300, seed=2)
    assert found == bootstrap_difference([6, 2, 5], [4, 4, 6], [8, 4, 6], samples=300, seed=2)
    assert found.difference == pytest.approx(
        (directed_accuracy(FIRST, THREE) + directed_accuracy(SECOND, THREE)) / 2 - directed_accuracy(SECOND, THREE)
    )
    assert sign_test(starts, SECOND, THREE) == sign_test(FIRST, SECOND, THREE)  # the other start is SECOND itself
    assert sign_test(starts, starts.flip(0), THREE) == SignTest(0, 0, 1.0)
    # gold has right what one of both starts has wrong: 2 words of SECOND, 3 of FIRST; 1, 1 and 1 sentences
    assert sign_test(THREE, starts, THREE).better == 5
    assert sign_test(THREE, starts, THREE, unit="sentences").better == 3
    three = torch.stack([FIRST, FIRST, SECOND])
    with pytest.raises(ValueError, match="one start or as many, got 3 and 2 starts"):
        sign_test(three, torch.stack([FIRST, SECOND]), THREE)


def test_errors_by_parent():
    tags = [["noun", "noun", "verb", "adverb"], ["noun", "verb"], ["verb", "noun", "noun"]]
    found = errors_by_parent(FIRST, THREE, tags)
    # lost: a noun under a verb and a verb under ROOT in the second sentence, a noun under a verb in the third
    assert found == (
        ParentErrors("verb", 5, 2, 2 / 3),
        ParentErrors("ROOT", 3, 1, 1 / 3),
        ParentErrors("noun", 1, 0, 0.0),
    )
    assert [e.share for e in errors_by_parent(THREE, THREE, tags)] == [0, 0, 0]
    found = errors_by_parent(FIRST, THREE, tags, THREE == 0)
    assert found == (ParentErrors("ROOT", 3, 1, 1.0),)
    with pytest.raises(ValueError, match="a tag for each word"):
        errors_by_parent(FIRST, THREE, tags[:2])


@pytest.mark.parametrize("seed", range(3))
def test_errors_by_parent_of_random_trees(seed):
    p, g = random_corpus(torch.Generator().manual_seed(seed))
    tags = [[f"t{(7 * i + len(heads)) % 4}" for i in range(len(heads))] for heads in g]
    wrong = [
        "ROOT" if head == 0 else own[head - 1]
        for ours, gold, own in zip(p, g, tags, strict=True)
        for guess, head in zip(ours, gold, strict=True)
        if guess != head
    ]
    found = errors_by_parent(pad(p, 45), pad(g, 50), tags)
    assert {e.tag: e.errors for e in found} == {tag: wrong.count(tag) for tag in {e.tag for e in found}}
    assert sum(e.share for e in found) == pytest.approx(1)
    assert sum(e.words for e in found) == sum(map(len, g))
    assert [e.errors for e in found] == sorted((e.errors for e in found), reverse=True)
