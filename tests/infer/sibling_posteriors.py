# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A tiny lexicalised grammar with its training sentences seated; the exact posterior over trees; tests of counts."""

import copy
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import chi2
from torch import Tensor

from pyrogram.grammars.lexical_dependencies import SITES, LexicalDependencies
from pyrogram.grammars.lexical_parser import PitmanYorPredictor
from pyrogram.restaurants.restaurants import Restaurants

sys.path.append(str(Path(__file__).parents[1] / "grammars"))
from lexical_seats import Seats, sentence_events

S, W, C = 2, 2, 2
CONTEXTS = {
    "tags": (("parent_tag", "direction"), ("parent_tag", "parent_word", "sibling_tag", "direction")),
    "words": (("tag",), ("tag", "parent_word")),
    "cases": (("tag",), ("tag", "word")),
}
#: α of both levels, and ε: heavy sharing within a sentence, so that much is rejected.
PARAMETERS = {"tags": ([0.3, 0.2], [0.1, 0.4]), "words": ([0.5, 0.1], [0.2, 0.3]), "cases": ([0.4, 0.3], [0.0, 0.5])}
#: tags, words, cases, heads
TRAINING = [([0, 1, 0], [0, 1, 1], [0, 0, 1], [2, 0, 2]), ([1, 0], [1, 0], [1, 0], [0, 1])]
GRAMMAR = LexicalDependencies(S, W, CONTEXTS, num_cases=C)
#: No tree has nearly all of the probability, and a third of what is proposed is rejected.
SENTENCE = ([0, 0, 0], [1, 0, 1], [0, 1, 0])


def ours(paths: Any, seed: int = 0) -> dict[str, PitmanYorPredictor]:
    """The training sentences, seated."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for site in SITES:
        alpha, epsilon = map(torch.tensor, PARAMETERS[site])
        made = Restaurants(len(CONTEXTS[site]), GRAMMAR.num_values[site], paths)
        for sentence in TRAINING:
            events = GRAMMAR.events(*map(torch.tensor, sentence))[site]
            made.add(events.keys, events.values, alpha, epsilon, generator)
        found[site] = PitmanYorPredictor(made, alpha, epsilon)
    return found


def naive(paths: str) -> Seats:
    """The same by dictionaries, for the rules of minimal and maximal paths."""
    seats = Seats(CONTEXTS, GRAMMAR.num_values, PARAMETERS, paths)
    for sentence in TRAINING:
        seats.sequence(sentence_events(*sentence))
    return seats


def with_one_table_each() -> tuple[dict[str, PitmanYorPredictor], Seats]:
    """Exact seats that are known: a training sentence of one word, all of whose events are first of their kind."""
    found, seats = {}, Seats(CONTEXTS, GRAMMAR.num_values, PARAMETERS, "exact")
    sentence = ([1], [0], [1], [0])
    for site in SITES:
        alpha, epsilon = map(torch.tensor, PARAMETERS[site])
        made = Restaurants(len(CONTEXTS[site]), GRAMMAR.num_values[site], "exact")
        events = GRAMMAR.events(*map(torch.tensor, sentence))[site]
        made.add(events.keys, events.values, alpha, epsilon)
        found[site] = PitmanYorPredictor(made, alpha, epsilon)
    ((share, _),) = list(seats.seatings(sentence_events(*sentence)))
    assert share == 1.0  # there is but one way to sit
    seats.paths = "maximal"
    seats.sequence(sentence_events(*sentence))
    return found, seats


def posterior(seats: Seats, sentence: Sequence[Sequence[int]], trees: Tensor) -> Tensor:
    """P(sentence, tree | training) of each tree, one event after the other."""
    found = []
    for heads in trees.tolist():
        found.append(copy.deepcopy(seats).sequence(sentence_events(*sentence, heads)))
    return torch.tensor(found)


def proposal(seats: Seats, sentence: Sequence[Sequence[int]], trees: Tensor) -> Tensor:
    """Eq. 10 for each tree, normalised: no event learns from another."""
    found = []
    for heads in trees.tolist():
        events = sentence_events(*sentence, heads)
        found.append(math.prod(seats.probability(event) for event in events))
    return torch.tensor(found) / sum(found)


def copies(sentence: Sequence[Sequence[int]], heads: Tensor) -> list[Tensor]:
    """A corpus of the same sentence with many trees."""
    return [torch.tensor(column).expand(len(heads), -1).clone() for column in sentence]


def number_of(rows: Tensor, table: Tensor) -> Tensor:
    """Which row of the table each row is."""
    return (rows[:, None] == table).all(-1).long().argmax(-1)


def p_value(counts: Tensor, expected: Tensor) -> float:
    """Pearson's test of counts against probabilities; what is expected less than five times is taken together."""
    wanted = expected * counts.sum()
    assert int(counts[wanted == 0].sum()) == 0
    often = wanted >= 5
    wanted, counts = (torch.cat([x[often], x[~often].sum()[None]]) for x in (wanted, counts))
    kept = wanted > 0
    statistic = float(((counts - wanted)[kept] ** 2 / wanted[kept]).sum())
    return float(chi2.sf(statistic, int(kept.sum()) - 1))
