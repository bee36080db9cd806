# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Passes of blocked sampling over segmentations, against all segmentations with all seatings of tiny corpora."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from infer.segmentation_sums import Model, Words, segmentations
from infer.topic_sums import chi_square_is_fine

from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.restaurants.seats import DONE
from pyrogram.restaurants.segmentation import Process, Text, resample, seat_all
from pyrogram.restaurants.substrings import Substrings, log_lengths, substrings
from pyrogram.runtime.random_numbers import seed_stream

SYMBOLS = {"a": 0.3, "b": 0.7}
UNIGRAM = Model((1.5,), (0.0,), 0.4, 0.3, SYMBOLS, 3)
MODELS = {
    "unigram, Dirichlet": UNIGRAM,
    "unigram, Pitman-Yor": replace(UNIGRAM, alpha=(1.0,), epsilon=(0.5,)),
    "bigram, Dirichlet": replace(UNIGRAM, alpha=(2.0, 1.5), epsilon=(0.0, 0.0)),
    "bigram, Pitman-Yor": replace(UNIGRAM, alpha=(1.0, 0.8), epsilon=(0.4, 0.5)),
}
FORMS = ["abab", "ab", "ba"]


class Chain:
    """Utterances with their words at restaurants."""

    def __init__(self, model: Model, forms: list[str], seed: int = 0, power: float = 1.0):
        self.model, self.forms = model, forms
        starts = np.cumsum([0, *map(len, forms)])
        ids = {symbol: i for i, symbol in enumerate(model.symbols)}
        self.made: Substrings = substrings(np.array([ids[c] for form in forms for c in form]), starts, model.longest)
        end = model.end if model.levels > 1 else 0.0
        logs = np.log(list(model.symbols.values()))
        self.base = torch.from_numpy(self.made.probabilities(model.stop, end, logs))
        ends = np.full(starts[-1], -1, np.int8)
        self.text = Text(self.made.spans, starts, ends, len(self.made))
        more = 1 - model.end if model.levels == 1 else 1.0
        self.process = Process(np.array(model.alpha), np.array(model.epsilon), more, power)
        self.state, self.moves = np.zeros(1, np.uint64), np.zeros(3, np.int64)
        seed_stream(self.state, seed, 0)
        self.restaurants = Restaurants(model.levels, len(self.made) + 2, "exact", base=self.base)

    def move(self) -> None:
        arrays, at = self.restaurants.arrays, 0
        while at != DONE:
            at = resample(arrays, self.text, self.process, self.state, at, self.moves)
            if at != DONE:
                arrays = self.restaurants.with_room(2 * len(self.text.ends) + 4, contexts=len(self.text.ends) + 2)

    def begin(self, words: tuple[Words, ...]) -> None:
        """Seat these words, at restaurants without others."""
        self.restaurants = Restaurants(self.model.levels, len(self.made) + 2, "exact", base=self.base)
        self.text.ends[:] = [i == len(w) - 1 for row in words for w in row for i in range(len(w))]
        arrays = self.restaurants.with_room(len(self.text.ends) + 4, contexts=len(self.text.ends) + 2)
        assert seat_all(arrays, self.text, self.process, self.state, 0) == DONE

    def words(self) -> tuple[Words, ...]:
        found, ends = [], self.text.ends.tolist()
        for form, start in zip(self.forms, self.text.starts.tolist(), strict=False):
            words = [""]
            for c, is_end in zip(form, ends[start : start + len(form)], strict=True):
                words[-1] += c
                words += [""] * is_end
            found.append(tuple(words[:-1]))
        return tuple(found)


def agrees(seen: Counter[tuple[Words, ...]], p: dict[tuple[Words, ...], float]) -> bool:
    assert not set(seen) - set(p)
    return chi_square_is_fine([seen[way] for way in p], [seen.total() * q for q in p.values()])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("steps", [40_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_a_chain_converges_to_the_posterior(name: str, steps: int) -> None:
    chain = Chain(MODELS[name], FORMS, seed=1)
    seen: Counter[tuple[Words, ...]] = Counter()
    for i in range(steps):
        chain.move()
        if i % 8 == 7:
            seen[chain.words()] += 1
    assert agrees(seen, MODELS[name].posterior(FORMS))
    proposed, accepted, changed = chain.moves.tolist()
    assert proposed == 3 * (steps - 1) and 0.5 * proposed < accepted < 0.99 * proposed  # so judging matters
    assert 0.1 * proposed < changed < accepted


def test_one_pass_leaves_the_posterior_as_it_is() -> None:
    """Words drawn from their posterior; with one Dirichlet process, seats do not matter."""
    p = UNIGRAM.posterior(FORMS)
    ways, shares = list(p), list(p.values())
    rng = np.random.default_rng(0)
    chain, seen, moved = Chain(UNIGRAM, FORMS), Counter[tuple[Words, ...]](), 0
    for i in rng.choice(len(ways), 5000, p=np.array(shares) / sum(shares)):
        chain.begin(ways[i])
        chain.move()
        seen[chain.words()] += 1
        moved += chain.words() != ways[i]
    assert agrees(seen, p) and moved > 1500


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_drawn_first(name: str) -> None:
    """The first utterance from the base measure, in which all words are new; judged by nobody."""
    model = MODELS[name]
    alone = replace(model, alpha=[1e9] * model.levels, epsilon=[0.0] * model.levels)  # nobody learns from anything
    p = alone.posterior(["abab"])
    seen: Counter[tuple[Words, ...]] = Counter()
    for seed in range(2000):
        chain = Chain(model, ["abab"], seed)
        chain.move()
        seen[chain.words()] += 1
    assert agrees(seen, p)


@pytest.mark.parametrize("name", ["unigram, Dirichlet", "bigram, Dirichlet"])
def test_tempered(name: str) -> None:
    """Without learning, the probabilities to a power."""
    model = MODELS[name]
    model = replace(model, alpha=[1e9] * model.levels, epsilon=[0.0] * model.levels)
    p = {way: q**0.4 for way, q in model.posterior(["abba"]).items()}
    chain, seen = Chain(model, ["abba"], power=0.4), Counter[tuple[Words, ...]]()
    for _ in range(6000):
        chain.move()
        seen[chain.words()] += 1
    assert agrees(seen, {way: q / sum(p.values()) for way, q in p.items()})


@pytest.mark.parametrize("levels", [1, 2])
def test_long_utterances(levels: int) -> None:
    """The products of 1,500 symbols are beyond the range of numbers: the mean number of words is as in log space."""
    n = 1500
    model = Model([1e15] * levels, [0.0] * levels, 0.4, 0.3, {"a": 1e-3, "b": 1 - 1e-3}, 3)
    p = [math.log(model.base("a" * k)) + (math.log(1 - model.end) if levels == 1 else 0.0) for k in (1, 2, 3)]
    logs, means, squares = [0.0], [0.0], [0.0]
    for t in range(1, n + 1):
        terms = [logs[t - k] + p[k - 1] for k in range(1, min(t, 3) + 1)]
        greatest = max(terms)
        logs.append(greatest + math.log(sum(math.exp(x - greatest) for x in terms)))
        shares = [math.exp(x - logs[t]) for x in terms]
        means.append(sum(s * (means[t - k] + 1) for k, s in enumerate(shares, 1)))
        squares.append(sum(s * (squares[t - k] + 2 * means[t - k] + 1) for k, s in enumerate(shares, 1)))
    assert logs[n] < -3000
    chain, numbers = Chain(model, ["a" * n]), []
    for _ in range(100):
        chain.move()
        numbers.append(sum(chain.text.ends.tolist()))
    deviation = math.sqrt(squares[n] - means[n] ** 2)
    assert abs(np.mean(numbers) - means[n]) < 5 * deviation / math.sqrt(len(numbers))
    assert 0.7 < np.std(numbers) / deviation < 1.4


def test_seats_are_those_of_the_words() -> None:
    """After many passes, with arrays that grew and were compacted on the way."""
    rng = np.random.default_rng(1)
    forms = ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(60)]
    model = MODELS["bigram, Pitman-Yor"]
    chain = Chain(model, forms)
    for _ in range(50):
        chain.move()
    expected = Counter(model.events(chain.words()))
    table, number = chain.restaurants.table(1), chain.text.end
    names = {number: "$"}
    for form, start in zip(forms, chain.text.starts.tolist(), strict=False):
        for i in range(len(form)):
            names |= {int(w): form[i : i + k + 1] for k, w in enumerate(chain.made.spans[start + i]) if w >= 0}
    rows = zip(table.contexts.tolist(), table.values.tolist(), table.c.tolist(), strict=True)
    assert {(names[h], names[w]): c for h, w, c in rows} == expected
    top, drawn = chain.restaurants.table(0), Counter[int]()
    for w, t in zip(table.values.tolist(), table.t.tolist(), strict=True):
        drawn[w] += t
    assert dict(zip(top.values.tolist(), top.c.tolist(), strict=True)) == drawn
    again = Restaurants(2, len(chain.made) + 2, "exact", base=chain.base)
    again.load_state_dict(chain.restaurants.state_dict())  # which checks that tables and customers fit


@pytest.mark.parametrize("longest", [1, 2, 4, 9])
def test_substrings(longest: int) -> None:
    forms, symbols = ["abca", "bc", "abcabc"], {"a": 0.5, "b": 0.2, "c": 0.3}
    model = Model((1.0, 1.0), (0.0, 0.0), 0.4, 0.3, symbols, longest)
    chain = Chain(model, forms)
    text = "".join(forms)
    found: dict[int, str] = {}
    for form, start in zip(forms, chain.text.starts.tolist(), strict=False):
        for i in range(len(form)):
            for k, w in enumerate(chain.made.spans[start + i].tolist()):
                inside = i + k < len(form)
                assert (w >= 0) == inside
                assert not inside or found.setdefault(w, form[i : i + k + 1]) == form[i : i + k + 1]
    expected = {form[i:k] for form in forms for i in range(len(form)) for k in range(i + 1, len(form) + 1)}
    assert set(found.values()) == {w for w in expected if len(w) <= longest}
    assert sorted(found) == list(range(len(chain.made))) and text
    p = chain.base.tolist()
    assert p[:-1] == pytest.approx([*(model.base(found[w]) for w in range(len(found))), 0.3])
    assert sum(p) == pytest.approx(1) and min(p) >= -1e-15
    words = np.array([0, 2, len(found), len(found) - 1])
    of_symbols, of_lengths = chain.made.counts(words, np.array([3, 1, 7, 2]), 3)
    spelt = found[0] * 3 + found[2] + found[len(found) - 1] * 2
    assert of_symbols.tolist() == [spelt.count(c) for c in "abc"]
    sizes = Counter({0: 7}) + Counter(len(found[w]) for w in (0, 0, 0, 2, len(found) - 1, len(found) - 1))
    assert of_lengths.tolist() == [sizes[k] for k in range(longest + 1)]


def test_lengths() -> None:
    assert np.exp(log_lengths(0.4, 7)).sum() == pytest.approx(1)
    assert np.exp(log_lengths(1e-12, 4)[1:]) == pytest.approx([0.25] * 4)
    assert segmentations("abc", 2) == [("a", "b", "c"), ("a", "bc"), ("ab", "c")]
