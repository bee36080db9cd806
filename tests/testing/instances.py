# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the battery is run on: every distribution and grammar of the package, small."""

from typing import Any

import cfg_instances
import own_grammars
import pytest
import scored_instances
import torch
import tree_instances
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.grammars import DistanceDMV, LexicalisedPCFG, SimplePCFG, SparseDMV, TensorPCFG
from pyrogram.testing import DistributionCase, GrammarCase, checks_for

TREES = tree_instances.TREES
STRUCTURES = tree_instances.STRUCTURES | scored_instances.STRUCTURES
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


def events_of(grammar: Any, words: Tensor) -> GrammarCase:
    """Of a grammar whose derivations are rows of events: of these, mbr gets as many right as can be."""
    R = grammar.num_events
    return GrammarCase(
        grammar, words, lambda rows: torch.nn.functional.one_hot(rows.long() + 1, R + 1)[..., 1:].sum(-2).double()
    )


TWO, THREE = torch.tensor([[0, 1], [1, -1]]), torch.tensor([[0, 1], [1, -1], [1, 1]])
PAIRS = [("harmonic", {}), ("supervised", {"heads": torch.tensor([[2, 0], [0, -1]])})]
#: For the slow stage, with all their derivations.
MORE = {
    "distances": events_of(DistanceDMV(2, widths=(1, 2)), TWO),
    "lexicalised": events_of(LexicalisedPCFG(1, 2), THREE),
    "tensor": events_of(TensorPCFG(1, 2, 2, 2), THREE),
    "simple": events_of(SimplePCFG(1, 2, 2), THREE),
    "sparse DMV": GrammarCase(SparseDMV.of(TWO, 3), TWO, initialisers=PAIRS),
    "own DMV with three valences": events_of(own_grammars.dmv(3, 2), WORDS),
    "own DMV with draws": GrammarCase(own_grammars.dmv(2, 2, sample=DMV(2).sample), WORDS[:2], parts=None),
    "own HMM": events_of(own_grammars.hmm(2, 2), WORDS),
    "own PCFG": events_of(own_grammars.cnf(2, 2), WORDS),
    "own comparisons": events_of(own_grammars.of_lengths(2, 2), WORDS),
    "own rules": events_of(own_grammars.listed(), WORDS[[0, 2, 3]]),
}
DERIVATIONS = {
    f"{name} {words}": case
    for name, grammar in (GRAMMARS | MORE).items()
    if name in ("DMV", "DMV with valence_attach", "HMM", *MORE)
    for words, case in grammar.derivations().items()
}
GRAMMARS |= MORE
SLOW |= {name for name in (*GRAMMARS, *DERIVATIONS) if name.startswith(tuple(MORE))}
GRAMMARS |= cfg_instances.GRAMMARS
DERIVATIONS |= cfg_instances.DERIVATIONS
