# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where inference starts, by hand on corpora of two or three words."""

import math

import pytest
import torch
from oracle import all_trees, events

from pyrogram import DMV
from pyrogram.grammars import initial

LEFT, RIGHT = 0, 1
TWO = torch.tensor([[0, 1]])
THREE = torch.tensor([[0, 1, 2]])
HALVES = [0.5, 0.5]

both = pytest.mark.parametrize("valence_attach", [False, True])


def start(words, method="harmonic", num_tags=3, valence_attach=False, **options):
    """Weights, with attach [head, direction, valence, child] in either model."""
    grammar = DMV(num_tags, valence_attach=valence_attach)
    weights = grammar.initial_weights(words, method, **options)
    for name, block in grammar.blocks.items():
        totals = block.totals(weights[name])
        torch.testing.assert_close(totals, torch.ones_like(totals))
    if not valence_attach:
        weights["attach"] = weights["attach"][:, :, None].expand(-1, -1, 2, -1)
    return weights


def equal(actual, expected):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=actual.dtype), rtol=1e-12, atol=1e-12)


@both
def test_harmonic_attachment_of_three_words(valence_attach):
    """ROOT takes a third of each word. The rest of word 3 goes to words 1 and 2 as 1/2 to 1, of word 2 evenly."""
    w = start(THREE, valence_attach=valence_attach)
    equal(w["root"], [1 / 3, 1 / 3, 1 / 3])
    for v in range(2):  # no first and later children yet
        # 2/3 * 1/2 of word 2 and 2/3 * 1/3 of word 3
        equal(w["attach"][0, RIGHT, v], [0.0, 3 / 5, 2 / 5])
        equal(w["attach"][2, LEFT, v], [2 / 5, 3 / 5, 0.0])
        equal(w["attach"][1, LEFT, v], [1.0, 0.0, 0.0])
        equal(w["attach"][1, RIGHT, v], [0.0, 0.0, 1.0])
        equal(w["attach"][0, LEFT, v], [1 / 3, 1 / 3, 1 / 3])  # never seen


def test_distance_flattens():
    """With c = 1, word 3 goes to words 1 and 2 as 1/3 to 1/2; with c = -1/2, as 2/3 to 2."""
    equal(start(THREE, distance=1.0)["attach"][0, RIGHT, 0], [0.0, 5 / 9, 4 / 9])
    equal(start(THREE, distance=-0.5)["attach"][0, RIGHT, 0], [0.0, 2 / 3, 1 / 3])


def test_lengths_add_up():
    """A word alone hangs on ROOT with all its weight."""
    w = start(torch.tensor([[0, 1], [0, -1]]), num_tags=2)
    equal(w["root"], [0.75, 0.25])


@both
def test_stops_half(valence_attach):
    w = start(THREE, stops="half", valence_attach=valence_attach)
    equal(w["stop"], torch.full((3, 2, 2, 2), 0.5).tolist())


@both
def test_stops_expected(valence_attach):
    """Tag 0 can have children on its right in one of its two sentences; it expects E = 1/2 of them, F = 0.45."""
    w = start(torch.tensor([[0, 1], [0, -1]]), num_tags=2, stops="expected", valence_attach=valence_attach)
    equal(w["stop"][0, RIGHT, 0], [0.45 / 2, 1.55 / 2])
    equal(w["stop"][0, RIGHT, 1], [0.1, 0.9])  # (E - F, F) = (0.05, 0.45)
    equal(w["stop"][0, LEFT, 0], [0.0, 1.0])
    equal(w["stop"][0, LEFT, 1], HALVES)  # never seen
    equal(w["stop"][1, LEFT, 0], [0.45, 0.55])  # one token, E = 1/2
    equal(w["stop"][1, RIGHT, 0], [0.0, 1.0])


def test_stops_expected_of_three_words():
    w = start(THREE)
    E = 1 / 3 + 2 / 9
    equal(w["stop"][0, RIGHT, 0], [0.9 * E, 1 - 0.9 * E])
    equal(w["stop"][1, LEFT, 0], [0.4, 0.6])  # E = 2/3 * 2/3


@both
def test_stops_by_e_step_of_two_words(valence_attach):
    """Both trees weigh the same: half a count for everything that only one of them has."""
    w = start(TWO, num_tags=2, stops="e-step", valence_attach=valence_attach)
    equal(w["root"], HALVES)
    equal(w["attach"][0, RIGHT, 0], [0.0, 1.0])
    equal(w["attach"][1, LEFT, 0], [1.0, 0.0])
    equal(w["stop"][0, LEFT, 0], [0.0, 1.0])
    equal(w["stop"][0, RIGHT, 0], HALVES)
    equal(w["stop"][0, RIGHT, 1], [0.0, 1.0])
    equal(w["stop"][0, LEFT, 1], HALVES)  # never seen
    equal(w["attach"][0, RIGHT, 1], HALVES if valence_attach else [0.0, 1.0])


@both
def test_stops_by_e_step_by_enumeration(valence_attach):
    """Trees weigh the product of their soft attachments; their events are counted one by one."""
    words, distance = [0, 2, 0, 1], 0.5
    n = len(words)
    nearness = {(h, c): 1 / (abs(h - c) + distance) for h in range(1, n + 1) for c in range(1, n + 1) if h != c}
    soft = {(0, c): 1 / n for c in range(1, n + 1)}
    for c in range(1, n + 1):
        total = sum(nearness[h, c] for h in range(1, n + 1) if h != c)
        soft |= {(h, c): (1 - 1 / n) * nearness[h, c] / total for h in range(1, n + 1) if h != c}
    trees = all_trees(n, False)
    scores = [math.prod(soft[h, c] for c, h in enumerate(heads, start=1)) for heads in trees]
    root, attach, stop = torch.zeros(3), torch.zeros(3, 2, 2, 3), torch.zeros(3, 2, 2, 2)
    for heads, score in zip(trees, scores, strict=True):
        p = score / sum(scores)
        arcs, stops = events(heads)
        for h, c, v in arcs:
            if h == 0:
                root[words[c - 1]] += p
            else:
                attach[words[h - 1], int(c > h), v, words[c - 1]] += p
                stop[words[h - 1], int(c > h), v, 0] += p
        for h, d, v in stops:
            stop[words[h - 1], d, v, 1] += p
    if not valence_attach:
        attach = attach.sum(2, keepdim=True).expand(-1, -1, 2, -1)
    w = start(torch.tensor([words]), stops="e-step", distance=distance, valence_attach=valence_attach)
    for name, counts in (("root", root), ("attach", attach), ("stop", stop)):
        totals = counts.sum(-1, keepdim=True)
        expected = torch.where(totals > 0, counts / totals, 1 / counts.shape[-1])
        torch.testing.assert_close(w[name], expected)


@both
@pytest.mark.parametrize("stops", ["half", "expected", "e-step"])
def test_a_tag_that_never_occurs_is_uniform(stops, valence_attach):
    w = start(TWO, stops=stops, num_tags=4, valence_attach=valence_attach)
    equal(w["attach"][2:], torch.full((2, 2, 2, 4), 0.25).tolist())
    equal(w["stop"][2:], torch.full((2, 2, 2, 2), 0.5).tolist())
    equal(w["root"][2:], [0.0, 0.0])


def test_noise():
    plain, silent = start(THREE), start(THREE, noise=0.0, seed=3)
    first, again, other = (start(THREE, noise=0.5, seed=seed) for seed in (1, 1, 2))
    for name in plain:
        equal(silent[name], plain[name].tolist())
        equal(again[name], first[name].tolist())
        assert (other[name] != first[name]).any()
        assert ((first[name] == 0) == (plain[name] == 0)).all()  # a count of zero stays zero
    # The soft counts of the roots are equal; so their logarithms differ by normal noise alone.
    tags = 40
    w = start(torch.arange(tags)[:, None], num_tags=tags, noise=0.5, seed=0, stops="half")
    assert w["root"].log().std().item() == pytest.approx(0.5, rel=0.3)


def test_order_and_batches_do_not_matter():
    words = torch.tensor([[0, 1, 2], [2, 1, -1], [1, -1, -1], [0, 0, 1]])
    forward, backward = start(words), start(words.flip(0))
    for name in forward:
        torch.testing.assert_close(forward[name], backward[name])


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("method", ["half", "expected", "e-step", "supervised"])
def test_chunks_and_gaps_do_not_matter(method, valence_attach, monkeypatch):
    """Sentences are counted as many at a time as have room, here one, in numbers of the symbols that they have."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 6, (60, 1), generator=generator)
    real = torch.arange(5) < lengths
    dense = torch.where(real, torch.randint(0, 4, (60, 5), generator=generator), -1)
    used = torch.tensor([0, 3, 6, 9])
    gaps = torch.where(real, used[dense], -1)
    kind, options = ("harmonic", {"stops": method})
    if method == "supervised":
        to_the_right, to_the_left = torch.arange(5).expand(60, 5), torch.arange(2, 7) * (torch.arange(1, 6) < lengths)
        heads = torch.where((torch.arange(60) % 2 == 0)[:, None], to_the_right, to_the_left)
        kind, options = ("supervised", {"heads": torch.where(real, heads, -1), "smoothing": 0.0})
    grammar = DMV(11, valence_attach=valence_attach)
    whole = grammar.initial_weights(gaps, kind, **options)
    few = DMV(4, valence_attach=valence_attach).initial_weights(dense, kind, **options)
    for name, w in whole.items():
        w, expected = w[used], few[name]
        if name == "attach":
            w = w[..., used]
            if valence_attach:  # chains have no second children
                w, expected = w[:, :, 0], expected[:, :, 0]
        torch.testing.assert_close(w, expected)
    monkeypatch.setattr(initial, "CELLS", 1)
    for name, w in grammar.initial_weights(gaps, kind, **options).items():
        torch.testing.assert_close(w, whole[name], rtol=1e-14, atol=0)


@pytest.mark.parametrize("method", ["harmonic", "supervised"])
def test_thousands_of_symbols_fit_into_memory(method):
    """A table of counts for every one of these sentences would take 60 GB."""
    words = torch.arange(1800).reshape(600, 3)
    options = {"heads": torch.tensor([2, 0, 2]).expand(600, 3), "smoothing": 0.0} if method == "supervised" else {}
    grammar = DMV(1800)
    weights = grammar.initial_weights(words, method, **options)
    assert weights["attach"][1, 0, 0] == weights["attach"][1, 1, 2] == 1
    assert weights["attach"][1798, 0, 1797] == 1
    assert weights["attach"][0, 0, 0] == pytest.approx(1 / 1800)  # no child at the left: uniform


def test_uniform():
    w = start(THREE, "uniform")
    equal(w["root"], [1 / 3] * 3)
    equal(w["stop"], torch.full((3, 2, 2, 2), 0.5).tolist())


def test_random():
    first, again, other = (start(THREE, "random", seed=seed) for seed in (1, 1, 2))
    for name in first:
        equal(again[name], first[name].tolist())
        assert (other[name] != first[name]).any()
    torch.manual_seed(0)
    unseeded = start(THREE, "random")
    assert (unseeded["root"] != start(THREE, "random")["root"]).any()
    torch.manual_seed(0)
    equal(start(THREE, "random")["root"], unseeded["root"].tolist())
    # Of a Dirichlet(10000, ...) little strays from the mean; of a Dirichlet(0.001, ...) one event takes nearly all.
    assert (start(THREE, "random", concentration=1e4, seed=0)["attach"] - 1 / 3).abs().max() < 0.05
    assert start(THREE, "random", concentration=1e-3, seed=0)["attach"].amax(-1).median() > 0.99


@both
def test_supervised(valence_attach):
    """Two sentences, both with tag 0 as root, and tag 1 once on its right, once on its left."""
    words, heads = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 1], [2, 0]])
    w = start(words, "supervised", num_tags=2, valence_attach=valence_attach, heads=heads, smoothing=0.1)
    equal(w["root"], [2.1 / 2.2, 0.1 / 2.2])
    for d in (LEFT, RIGHT):
        equal(w["attach"][0, d, 0], [0.1 / 1.2, 1.1 / 1.2])
        equal(w["attach"][0, d, 1], HALVES if valence_attach else [0.1 / 1.2, 1.1 / 1.2])
        equal(w["attach"][1, d, 0], HALVES)
        equal(w["stop"][0, d, 0], [1.1 / 2.2, 1.1 / 2.2])  # once it takes a child on this side, once it stops
        equal(w["stop"][0, d, 1], [0.1 / 1.2, 1.1 / 1.2])
        equal(w["stop"][1, d, 0], [0.1 / 2.2, 2.1 / 2.2])
        equal(w["stop"][1, d, 1], HALVES)


def test_supervised_without_smoothing():
    w = start(TWO, "supervised", heads=torch.tensor([[0, 1]]), smoothing=0.0)
    equal(w["root"], [1.0, 0.0, 0.0])
    equal(w["attach"][0, RIGHT, 0], [0.0, 1.0, 0.0])
    equal(w["attach"][2, RIGHT, 0], [1 / 3] * 3)


def test_supervised_by_trees_that_cross():
    """Word 1 hangs on word 3 and word 2 on word 4, which no projective tree has."""
    words, heads = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[3, 4, 0, 3]])
    w = start(words, "supervised", num_tags=4, heads=heads, smoothing=0.0)
    equal(w["root"], [0.0, 0.0, 1.0, 0.0])
    equal(w["attach"][3, LEFT, 0], [0.0, 1.0, 0.0, 0.0])
    equal(w["attach"][2, LEFT, 0], [1.0, 0.0, 0.0, 0.0])
    equal(w["stop"][2, LEFT], [[1.0, 0.0], [0.0, 1.0]])


def test_padding_plays_no_part():
    heads = torch.tensor([[0, 1, -1]])
    padded = start(torch.tensor([[0, 1, -1]]), "supervised", heads=heads)
    plain = start(TWO, "supervised", heads=heads[:, :2])
    for name in plain:
        equal(padded[name], plain[name].tolist())


def test_default_dtype():
    torch.set_default_dtype(torch.float32)
    for method, options in (("harmonic", {}), ("supervised", {"heads": torch.tensor([[0, 1]])}), ("random", {})):
        assert start(TWO, method, **options)["root"].dtype == torch.float32


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("harmonic", {"distance": -1.0}, "^distance must be greater than -1, not -1.0$"),
        ("harmonic", {"stops": "none"}, "^stops must be 'half', 'expected' or 'e-step', not 'none'$"),
        ("harmonic", {"noise": -0.1}, "^noise must not be negative, not -0.1$"),
        ("supervised", {"heads": torch.tensor([[0]])}, r"^heads must have the shape of words, \(1, 2\), not \(1, 1\)$"),
        ("supervised", {"heads": torch.tensor([[0, 1]]), "smoothing": -1}, "^smoothing must not be negative, not -1$"),
        ("no", {}, r"^there is no initialiser 'no'; choose one of \['harmonic', 'random', 'supervised', 'uniform'\]$"),
    ],
)
def test_options_that_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message):
        DMV(2).initial_weights(TWO, method, **options)


@pytest.mark.parametrize("heads", [[0, 5], [0, 3], [0, -1], [-1, 0], [2, 2]])
def test_supervised_heads_that_do_not_fit(heads):
    """A head out of the sentence, a word without a head, or a word on itself: never counted without an error."""
    with pytest.raises(ValueError, match="heads"):
        DMV(2).initial_weights(TWO, "supervised", heads=torch.tensor([heads]))
