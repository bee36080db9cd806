# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the battery is run on: every distribution and grammar of the package, small."""

from typing import Any

import cfg_instances
import grandparent_instances
import labelled_instances
import nonprojective_instances
import pytest
import scored_instances
import sibling_instances
import torch
from oracle import all_trees, events
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.testing import DistributionCase, GrammarCase, checks_for

INVALID_HEADS = {
    "no root": [2, 3, 2],
    "two roots": [0, 0, 2],
    "a cycle": [0, 3, 2],
    "a head beyond the sentence": [0, 1, 4],
    "padding": [0, 1, -1],
    "a negative head": [0, 1, -2],
    "a word as its own head": [0, 2, 1],
}


def tree_counts(heads: Tensor, valence: bool, stops: bool, valences: int = 2) -> dict[str, Tensor]:
    """Events of trees (T, n) by the oracle's loops."""
    T, n = heads.shape
    arcs, stopped = torch.zeros(T, n + 1, n + 1, valences), torch.zeros(T, n + 1, 2, valences)
    for t, row in enumerate(heads.tolist()):
        own_arcs, own_stops = events(row, valences)
        for event in own_arcs:
            arcs[(t, *event)] = 1
        for event in own_stops:
            stopped[(t, *event)] = 1
    return {"arc": arcs if valence else arcs.sum(-1)} | ({"stop": stopped} if stops else {})


def tree_case(
    n: int,
    *,
    valence: bool = False,
    stops: bool = False,
    multiroot: bool = False,
    forbidden: bool = False,
    invalid: dict[str, list[int]] | None = None,
    valences: int = 2,
    seed: int = 0,
) -> DistributionCase:
    generator = torch.Generator().manual_seed(seed)
    log_weights = {"arc": torch.randn(n + 1, n + 1, *[valences] * valence, generator=generator, dtype=torch.float64)}
    if stops:
        log_weights["stop"] = torch.randn(n + 1, 2, valences, generator=generator, dtype=torch.float64)
    if forbidden:
        log_weights["arc"][0, 1] = log_weights["arc"][2, 3] = -torch.inf
        if stops:
            log_weights["stop"][2, 1, 1] = -torch.inf

    def make(weights):
        return ProjectiveDependencyTree(weights["arc"], weights.get("stop"), multiroot=multiroot, valence=valence)

    # Where three valences are told apart, the chart reads those that no tree has.
    read = {name: torch.ones_like(w, dtype=torch.bool) for name, w in log_weights.items()}
    read["arc"][:, 0] = read["arc"][range(n + 1), range(n + 1)] = False
    if stops:
        read["stop"][0] = False
    return DistributionCase(
        make,
        log_weights,
        read=read if valences > 2 else None,
        invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
        support=torch.tensor(all_trees(n, multiroot)),
        counts=lambda heads: tree_counts(heads, valence, stops, valences),
        rivals=[
            lambda: ProjectiveDependencyTree(torch.zeros(4, 4), multiroot=not multiroot),
            lambda: ProjectiveDependencyTree(torch.zeros(2, 4, 4, 2), torch.zeros(4, 2, 2), torch.tensor([1, 3])),
        ],
    )


def padded_case(lengths: list[int], *, valence: bool = False, stops: bool = False, multiroot: bool = False):
    singles = [tree_case(m, valence=valence, stops=stops, multiroot=multiroot, seed=b) for b, m in enumerate(lengths)]
    n = max(lengths)
    log_weights = {}
    for name in singles[0].log_weights:
        shape = (n + 1, n + 1, *[2] * valence) if name == "arc" else (n + 1, 2, 2)
        log_weights[name] = torch.randn(len(lengths), *shape, dtype=torch.float64)
        for b, single in enumerate(singles):
            w = single.log_weights[name]
            log_weights[name][b][tuple(slice(size) for size in w.shape)] = w

    def make(weights):
        return ProjectiveDependencyTree(
            weights["arc"], weights.get("stop"), torch.tensor(lengths), multiroot=multiroot, valence=valence
        )

    return DistributionCase(make, log_weights, singles=singles)


CROSSING = {"crossing arcs": [3, 4, 0, 3]}
MANY_ROOTS = {what: row for what, row in INVALID_HEADS.items() if what != "two roots"}
TREES = {
    "plain": tree_case(3, invalid=INVALID_HEADS),
    "four words": tree_case(4, valence=True, invalid=CROSSING),
    "valence and stops": tree_case(3, valence=True, stops=True, invalid=INVALID_HEADS),
    "stops without valence": tree_case(3, stops=True),
    "multiroot": tree_case(3, multiroot=True, invalid=MANY_ROOTS),
    "multiroot with valence and stops": tree_case(3, valence=True, stops=True, multiroot=True),
    "three valences": tree_case(4, valence=True, stops=True, valences=3),
    "three valences without stops": tree_case(4, valence=True, valences=3),
    "three valences, multiroot": tree_case(4, valence=True, stops=True, valences=3, multiroot=True),
    "stops of three valences": tree_case(3, stops=True, valences=3, multiroot=True),
    "one valence": tree_case(3, valence=True, stops=True, valences=1),
    "forbidden": tree_case(3, forbidden=True),
    "forbidden with valence and stops": tree_case(3, valence=True, stops=True, forbidden=True),
    "two words": tree_case(2, stops=True, invalid={"a cycle": [2, 1], "two roots": [0, 0]}),
    "one word": tree_case(1, valence=True, stops=True, invalid={"itself": [1], "padding": [-1], "beyond": [2]}),
    "padded": padded_case([3, 1, 4, 2]),
    "padded with valence and stops": padded_case([1, 3, 2], valence=True, stops=True),
    "padded multiroot": padded_case([2, 1, 3], stops=True, multiroot=True),
    **sibling_instances.TREES,
}
STRUCTURES = {
    **nonprojective_instances.TREES,
    **labelled_instances.TREES,
    **grandparent_instances.TREES,
    **scored_instances.STRUCTURES,
}
#: Variations of others, for the slow stage.
SLOW = {
    "four words",
    "siblings, forbidden",
    "siblings of one word",
    "grandparents and siblings, forbidden",
    "grandparents of one word",
    "segments of one word",
    "CFG with long rules, padded",
    "spans of one word",
    "multiroot with valence and stops",
    "one valence",
    "padded multiroot",
    "siblings and stops",
    "siblings of four words",
    "siblings, multiroot",
    "chain shorter than its order",
    "stops without valence",
    "multiroot",
    "two words",
    "forbidden",
    "three valences, multiroot",
    "DMV [0, 0, 1]",
    "DMV [1, 0]",
    "DMV with valence_attach [0, 0, 1]",
    "DMV with valence_attach [1, 0]",
    "HMM [1, 1]",
    "chain [1, 1]",
    "labels, one word",
    "grandparents of four words",
    "segments of two words",
    "arcs that cross, two words",
    "arcs that cross, multiroot",
    "chain of order two, alike at all words",
    "three valences without stops",
    "stops of three valences",
    "DMV with one valence",
    "DMV with valence_attach and three valences",
    "arcs that cross, forbidden",
    "arcs that cross, padded multiroot",
    "labels, multiroot",
    "labels, forbidden",
    "one label",
    "labels, padded crossing arcs",
    "grandparents",
    "grandparents and siblings, multiroot",
    "grandparents, padded",
    "spans of four words",
    "spans of three words, any number of children",
    "spans with labels, any number of children",
    "segments with labels",
    "segments wider than the sentence",
    "segments, padded",
    "chain of order one",
    "chain of order three",
    "chain of one word",
    "chain of order one, alike at all words",
    "chain of order three, alike at all words",
    "chain of order two, alike at all words, forbidden",
    "chain alike at all words, shorter than its order",
}


def slow(name: str, of: str) -> bool:
    """Also compiling, which takes a second a case, of all but one."""
    return of in SLOW or (name == "compile" and of != "segments")


def crossed(cases: dict[str, DistributionCase]) -> list[Any]:
    """One parameter for each pair of a case and a check that applies to it."""
    return [
        pytest.param(case, check, id=f"{name}-{of}", marks=[pytest.mark.slow] if slow(name, of) else [])
        for of, case in cases.items()
        for name, check in checks_for(case).items()
    ]


WORDS = torch.tensor([[0, 1, 0], [1, 0, -1], [1, -1, -1], [0, 0, 1]])
STARTS = [
    *[("harmonic", {"stops": stops}) for stops in ("half", "expected", "e-step")],
    ("harmonic", {"distance": 0.5, "noise": 0.3, "seed": 1}),
    ("random", {"concentration": 0.1}),
    ("supervised", {"heads": torch.tensor([[2, 0, 2], [0, 1, -1], [0, -1, -1], [3, 1, 0]])}),
]
HMM_WORDS = torch.tensor([[0, 1, 0], [1, -1, -1], [1, 1, -1], [0, 1, 1]])


def states_of_words(states: Tensor) -> Tensor:
    """Indicators (..., n, 2) of the states of a chain with two."""
    return torch.nn.functional.one_hot(states.long() + 1, 3)[..., 1:].double()


GRAMMARS = {
    "DMV": GrammarCase(DMV(2), WORDS, initialisers=STARTS),
    "DMV with valence_attach": GrammarCase(DMV(2, valence_attach=True), WORDS, initialisers=STARTS),
    "DMV with three valences": GrammarCase(DMV(2, num_valences=3), WORDS, initialisers=STARTS),
    "DMV with one valence": GrammarCase(DMV(2, num_valences=1), WORDS, initialisers=STARTS),
    "DMV with valence_attach and three valences": GrammarCase(
        DMV(2, valence_attach=True, num_valences=3), WORDS, initialisers=STARTS
    ),
    "DMV of one tag": GrammarCase(DMV(1), torch.tensor([[0, 0, 0], [0, -1, -1]])),
    "HMM": GrammarCase(HMM(2, 2), HMM_WORDS, parts=states_of_words),
    "HMM of one state": GrammarCase(HMM(1, 2), HMM_WORDS, parts=None),
}
DERIVATIONS = {
    f"{name} {words}": case
    for name, grammar in GRAMMARS.items()
    if name in ("DMV", "DMV with valence_attach", "HMM")
    for words, case in grammar.derivations().items()
}
GRAMMARS |= cfg_instances.GRAMMARS
DERIVATIONS |= cfg_instances.DERIVATIONS
