# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Restaurants against the enumeration of all seatings."""

import itertools
import math
from typing import Any

import pytest
import torch
from seatings import Process, by_tables, tables
from torch import Tensor

from pyrogram.restaurants.restaurants import Restaurants

ALPHA, EPSILON = [0.7, -0.2], [0.3, 0.6]
BASE = [0.5, 0.2, 0.3]
# Seven observations in three fine contexts of two coarse ones; many of one value in one context.
OBSERVATIONS = [
    *[((1, 10), 0), ((1, 10), 0), ((1, 10), 0), ((1, 10), 1)],
    *[((2, 20), 0), ((1, 11), 0), ((1, 10), 0)],
]


def columns(observations: Any) -> tuple[list[Tensor], Tensor]:
    levels = list(zip(*(keys for keys, _ in observations), strict=True))
    return [torch.tensor(level) for level in levels], torch.tensor([w for _, w in observations])


def seated(paths: Any, seed: int = 0, observations: Any = OBSERVATIONS) -> Restaurants:
    made = Restaurants(2, 3, paths, base=torch.tensor(BASE))
    made.add(*columns(observations), torch.tensor(ALPHA), torch.tensor(EPSILON), torch.Generator().manual_seed(seed))
    return made


def tables_of(made: Restaurants) -> tuple[Any, ...]:
    """All tables of exact seats, as the enumeration writes them; checks the counts on the way."""
    a, found = made.arrays, []
    for d in range(a.used[1]):
        h, sizes, b = a.contexts[d], [], a.buckets[d]
        while b >= 0:
            sizes += [int(a.sizes[b])] * int(a.numbers[b])
            b = a.after[b]
        assert (sum(sizes), len(sizes)) == (a.c[d], a.t[d]) and sizes == sorted(sizes, reverse=True)
        found += [((int(a.levels[h]), int(a.keys[h])), int(a.values[d]), size) for size in sizes]
    for h in range(a.used[0]):
        here = [t for t in found if t[0] == (a.levels[h], a.keys[h])]
        assert (sum(size for _, _, size in here), len(here)) == (a.customers[h], a.tables[h])
    return tuple(sorted(found))


PROCESS = Process(ALPHA, EPSILON, BASE)


def joint(made: Restaurants) -> float:
    return math.exp(float(made.log_joint(torch.tensor(ALPHA), torch.tensor(EPSILON))))


def test_the_enumeration_is_a_distribution() -> None:
    """Values and seats of four observations have total probability one."""
    contexts = [keys for keys, _ in OBSERVATIONS[2:6]]
    total = 0.0
    for values in itertools.product(range(3), repeat=4):
        total += sum(PROCESS.seatings(list(zip(contexts, values, strict=True))).values())
    assert total == pytest.approx(1)


@pytest.fixture(scope="module")
def drawn() -> dict[Any, tuple[int, list[float]]]:
    """How often each seating is drawn in 5000 draws, and the joint of the first three of them."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    found: dict[Any, tuple[int, list[float]]] = {}
    for seed in range(5000):
        made = seated("exact", seed)
        now = tables_of(made)
        times, joints = found.get(now, (0, []))
        found[now] = times + 1, [*joints, joint(made)] if times < 3 else joints
    torch.set_default_dtype(dtype)
    return found


def test_joint_of_every_seating(drawn: dict[Any, tuple[int, list[float]]]) -> None:
    """Every seating that is ever drawn has the probability that the enumeration says, and all of them are drawn."""
    wanted: dict[Any, float] = {}
    for seating, p in PROCESS.seatings(OBSERVATIONS).items():
        assert wanted.setdefault(tables(seating), p) == pytest.approx(p)
    for now, (_, joints) in drawn.items():
        assert joints == pytest.approx([wanted[now]] * len(joints), rel=1e-10)
    rare = {t for t, p in by_tables(PROCESS.one_by_one(OBSERVATIONS)).items() if p < 0.003}
    assert set(drawn) | rare == set(wanted)


@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_joint_under_a_path_assumption(paths: str) -> None:
    """It is that of the one seating with a table for every value, or for every customer."""

    def right(seating: Any) -> bool:
        dishes = [(here, w) for here, w, _ in seating]
        if paths == "minimal":
            return len(set(dishes)) == len(dishes)
        return all(len(names) == 1 for _, _, names in seating)

    (wanted,) = [p for seating, p in PROCESS.seatings(OBSERVATIONS).items() if right(seating)]
    assert joint(seated(paths)) == pytest.approx(wanted, rel=1e-10)


def test_predictive_probabilities() -> None:
    """Of every value in known contexts, in a new one of a known reduction, and in one that is new at all levels."""
    contexts = [(1, 10), (1, 11), (2, 20), (2, 21), (3, 30)]
    asked = [(keys, w) for keys in contexts for w in range(3)]
    seatings = {tables(s): s for s in PROCESS.seatings(OBSERVATIONS)}
    alpha, epsilon = torch.tensor(ALPHA), torch.tensor(EPSILON)
    for seed in range(10):
        made = seated("exact", seed)
        here = seatings[tables_of(made)]
        wanted = torch.tensor([PROCESS.predictive(here, keys, w) for keys, w in asked])
        found = made.predict(*columns(asked), alpha, epsilon)
        torch.testing.assert_close(found, wanted)
        rows = made.predict_all(columns([(keys, 0) for keys in contexts])[0], alpha, epsilon)
        torch.testing.assert_close(rows, wanted.reshape(5, 3))
        assert tables_of(made) == tables(here)  # nothing was added


def test_predictive_probability_before_each_is_seated() -> None:
    """Their product, over the probability of the seats drawn, is the joint."""
    made = Restaurants(2, 3, "exact", base=torch.tensor(BASE))
    seating_law = by_tables(PROCESS.one_by_one(OBSERVATIONS[:2]))
    keys, values = columns(OBSERVATIONS[:2])
    log_p = made.add(keys, values, torch.tensor(ALPHA), torch.tensor(EPSILON), torch.Generator().manual_seed(3))
    assert math.exp(float(log_p.sum())) * seating_law[tables_of(made)] == pytest.approx(joint(made))


def distance(counts: dict[Any, int], wanted: dict[Any, float]) -> float:
    """Pearson's statistic over what is expected at least five times, in standard deviations above its mean."""
    total = sum(counts.values())
    scale = total / sum(wanted.values())
    likely = {t: p * scale for t, p in wanted.items() if p * scale >= 5}
    assert set(counts) <= set(wanted)
    statistic = sum((counts.get(t, 0) - e) ** 2 / e for t, e in likely.items())
    return (statistic - len(likely)) / math.sqrt(2 * len(likely))


def test_seats_are_drawn_from_their_conditional(drawn: dict[Any, tuple[int, list[float]]]) -> None:
    counts = {now: times for now, (times, _) in drawn.items()}
    assert distance(counts, by_tables(PROCESS.one_by_one(OBSERVATIONS))) < 4


def test_reseating_leads_to_the_posterior_of_seatings() -> None:
    made = seated("exact")
    generator = torch.Generator().manual_seed(1)
    counts: dict[Any, int] = {}
    for _ in range(5000):
        for _ in range(2):
            made.reseat(torch.tensor(ALPHA), torch.tensor(EPSILON), generator)
        now = tables_of(made)
        counts[now] = counts.get(now, 0) + 1
    assert distance(counts, by_tables(PROCESS.seatings(OBSERVATIONS))) < 4


@pytest.mark.parametrize(
    "steps", [pytest.param(0, id="drawn"), pytest.param(1, id="reseated once", marks=pytest.mark.slow)]
)
def test_reseating_leaves_the_joint_of_values_and_seats_as_it_is(steps: int) -> None:
    contexts = [(1, 10), (1, 10), (1, 11), (1, 10), (1, 10)]
    wanted: dict[Any, float] = {}
    for values in itertools.product(range(3), repeat=5):
        for t, p in by_tables(PROCESS.seatings(list(zip(contexts, values, strict=True)))).items():
            wanted[t] = wanted.get(t, 0.0) + p
    keys = columns([(k, 0) for k in contexts])[0]
    alpha, epsilon = torch.tensor(ALPHA), torch.tensor(EPSILON)
    generator = torch.Generator().manual_seed(5)
    counts: dict[Any, int] = {}
    for _ in range(6000):
        made = Restaurants(2, 3, "exact", base=torch.tensor(BASE))
        made.draw(keys, alpha, epsilon, generator)
        for _ in range(steps):
            made.reseat(alpha, epsilon, generator)
        now = tables_of(made)
        counts[now] = counts.get(now, 0) + 1
    assert distance(counts, wanted) < 4


def test_removal_takes_a_table_in_proportion_to_its_size() -> None:
    """So what remains has the law of the seats of the others, given that these two came after them."""
    wanted: dict[Any, float] = {}
    for seating, p in PROCESS.seatings(OBSERVATIONS[:-2]).items():
        for q, new in PROCESS.arrivals(seating, *OBSERVATIONS[5], 5):
            wanted[tables(seating)] = wanted.get(tables(seating), 0.0) + p * q * PROCESS.predictive(
                new, *OBSERVATIONS[5]
            )
    alpha, epsilon = torch.tensor(ALPHA), torch.tensor(EPSILON)
    made, generator = seated("exact"), torch.Generator().manual_seed(2)
    last = columns(OBSERVATIONS[-2:])
    counts: dict[Any, int] = {}
    for _ in range(5000):
        made.reseat(alpha, epsilon, generator)
        made.remove(*last, alpha, epsilon, generator)
        now = tables_of(made)
        counts[now] = counts.get(now, 0) + 1
        made.add(*last, alpha, epsilon, generator)
    assert distance(counts, wanted) < 4


def test_copies_and_states() -> None:
    made = seated("exact")
    copy = made.copy()
    before = tables_of(made)
    copy.remove(*columns(OBSERVATIONS), torch.tensor(ALPHA), torch.tensor(EPSILON))
    assert tables_of(copy) == () and tables_of(made) == before
    assert copy.num_contexts == copy.num_observations == 0 and made.num_contexts == 5 and made.num_observations == 7
    again = Restaurants(2, 3, "exact", base=torch.tensor(BASE)).load_state_dict(made.state_dict())
    assert tables_of(again) == before and joint(again) == joint(made)
