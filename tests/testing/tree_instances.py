# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dependency trees for the battery: of all classes and options, listed with their parts by plain loops."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from oracle import Parts, all_spanning_trees, all_trees, children, events, parts_by_arc, parts_by_sibling
from torch import Tensor

from pyrogram.distributions import (
    DependencyTree,
    GrandparentDependencyTree,
    LabelledDependencyTree,
    ProjectiveDependencyTree,
    SiblingDependencyTree,
)
from pyrogram.testing import DistributionCase, arcs_of_heads

Tables = Mapping[str, Tensor]
Forbidden = Sequence[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Family:
    """Trees of one class.

    :param make: from tables, lengths or None, and whether there may be several roots, to the distribution.
    :param shapes: of the tables, by name, from N = n + 1.
    :param parts: the elements of tables that a tree consists of.
    :param rows: all trees of n words.
    :param of_values: the parts that ``mbr`` gets right, as in :class:`DistributionCase`.
    :param reads_all: whether the chart reads elements that no tree has, but for these.
    """

    make: Callable[[Tables, Tensor | None, bool], Any]
    shapes: Callable[[int], dict[str, tuple[int, ...]]]
    parts: Callable[[Any], Parts]
    rows: Callable[[int, bool], list[Any]] = all_trees
    of_values: Callable[[Tensor], Tensor] = arcs_of_heads
    reads_all: bool = False

    def counts(self, values: Tensor) -> dict[str, Tensor]:
        """Zeros and ones (T, *shape) of the parts of trees."""
        shapes = self.shapes(values.shape[1] + 1)
        found = {name: torch.zeros(len(values), *shape) for name, shape in shapes.items()}
        for t, row in enumerate(values.tolist()):
            for name, index in self.parts(row):
                found[name][(t, *index)] = 1
        return found

    def case(
        self,
        n: int,
        *,
        multiroot: bool = False,
        forbidden: Forbidden = (),
        invalid: Mapping[str, Any] | None = None,
        scale: float = 1.0,
        seed: int = 0,
    ) -> DistributionCase:
        """One sentence of n words.

        :param forbidden: indices into tables, whose scores are -inf.
        """
        generator, log_weights = torch.Generator().manual_seed(seed), {}
        for name, shape in self.shapes(n + 1).items():
            log_weights[name] = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
        for name, index in forbidden:
            log_weights[name][index] = -torch.inf
        zeros = {name: torch.zeros(shape) for name, shape in self.shapes(4).items()}
        read = {name: torch.ones_like(w, dtype=torch.bool) for name, w in log_weights.items()}
        read["arc"][:, 0] = read["arc"][range(n + 1), range(n + 1)] = False
        if "stop" in read:
            read["stop"][0] = False
        return DistributionCase(
            lambda weights: self.make(weights, None, multiroot),
            log_weights,
            parts=self.of_values,
            read=read if self.reads_all else None,
            invalid={what: torch.tensor(row) for what, row in (invalid or {}).items()},
            support=torch.tensor(self.rows(n, multiroot)),
            counts=self.counts,
            rivals=[
                lambda: self.make(zeros, None, not multiroot),
                lambda: self.make(
                    {name: x.expand(2, *x.shape) for name, x in zeros.items()}, torch.tensor([1, 3]), False
                ),
            ],
        )

    def padded(self, lengths: Sequence[int], *, multiroot: bool = False) -> DistributionCase:
        """Sentences of several lengths as one batch."""
        singles = [self.case(m, multiroot=multiroot, seed=b) for b, m in enumerate(lengths)]
        log_weights = {}
        for name, shape in self.shapes(max(lengths) + 1).items():
            log_weights[name] = torch.randn(len(lengths), *shape, dtype=torch.float64)
            for b, single in enumerate(singles):
                w = single.log_weights[name]
                log_weights[name][b][tuple(map(slice, w.shape))] = w
        return DistributionCase(
            lambda weights: self.make(weights, torch.tensor(lengths), multiroot),
            log_weights,
            parts=self.of_values,
            singles=singles,
        )


# ---------------------------------------------------------------------- families


def first_order(valences: int = 0, stops: int = 0) -> Family:
    """Arcs [head, dependent], or by so many valences; stops by valence, if any."""

    def parts(heads: Sequence[int]) -> Parts:
        own, ends = events(heads, max(valences, stops, 1))
        found: Parts = [("arc", event if valences else event[:2]) for event in own]
        return found + [("stop", event) for event in ends if stops]

    return Family(
        lambda w, lengths, multiroot: ProjectiveDependencyTree(
            w["arc"], w.get("stop"), lengths, multiroot=multiroot, valence=valences > 0
        ),
        lambda N: {"arc": (N, N, *[valences] * (valences > 0))} | ({"stop": (N, 2, stops)} if stops else {}),
        parts,
        reads_all=max(valences, stops) > 2,
    )


def second_order(stops: bool = False) -> Family:
    return Family(
        lambda w, lengths, multiroot: SiblingDependencyTree(
            w["arc"], w["sibling"], w.get("stop"), lengths, multiroot=multiroot
        ),
        lambda N: {"arc": (N, N), "sibling": (N, N, N)} | ({"stop": (N, 2, N)} if stops else {}),
        functools.partial(parts_by_sibling, stops=stops),
    )


def grandparents(siblings: bool = False) -> Family:
    def parts(heads: Sequence[int]) -> Parts:
        found: Parts = []
        for h, _, own in children(heads):
            for before, c in itertools.pairwise([h, *own]):
                above = (heads[h - 1], h, c) if h else ()
                found += [("arc", (h, c)), *[("grandparent", above)] * (h > 0)]
                found += [("grandsibling", (*above, before))] * (siblings and h > 0)
        return found

    return Family(
        lambda w, lengths, multiroot: GrandparentDependencyTree(
            w["arc"], w["grandparent"], w.get("grandsibling"), lengths, multiroot=multiroot
        ),
        lambda N: {"arc": (N, N), "grandparent": (N, N, N)} | ({"grandsibling": (N, N, N, N)} if siblings else {}),
        parts,
    )


def labelled(labels: int, projective: bool = True) -> Family:
    def indicators(values: Tensor) -> Tensor:
        """Zeros and ones (..., n+1, n+1, L) of labelled arcs."""
        flat = values.long().reshape(-1, *values.shape[-2:])
        found = family.counts(flat)["arc"].double()
        return found.reshape(*values.shape[:-2], *found.shape[1:])

    def rows(n: int, multiroot: bool) -> list[Any]:
        trees = all_trees(n, multiroot) if projective else all_spanning_trees(n, multiroot)
        return [list(zip(t, l, strict=True)) for t in trees for l in itertools.product(range(labels), repeat=n)]

    family = Family(
        lambda w, lengths, multiroot: LabelledDependencyTree(
            w["arc"], lengths, projective=projective, multiroot=multiroot
        ),
        lambda N: {"arc": (N, N, labels)},
        lambda pairs: [("arc", (head, d, label)) for d, (head, label) in enumerate(pairs, 1) if head >= 0],
        rows,
        indicators,
    )
    return family


ARCS, BOTH, STOPS, SIBLINGS, ENDS = (
    first_order(),
    first_order(2, 2),
    first_order(stops=2),
    second_order(),
    second_order(True),
)
CROSSING_ARCS = Family(
    lambda w, lengths, multiroot: DependencyTree(w["arc"], lengths, multiroot=multiroot),
    lambda N: {"arc": (N, N)},
    parts_by_arc,
    all_spanning_trees,
)

# ---------------------------------------------------------------------- cases

NO_TREES = {
    "no root": [2, 3, 2],
    "two roots": [0, 0, 2],
    "a cycle": [0, 3, 2],
    "a head beyond the sentence": [0, 1, 4],
    "padding": [0, 1, -1],
    "a negative head": [0, 1, -2],
    "a word as its own head": [0, 2, 1],
}
OF_MANY_ROOTS = {what: row for what, row in NO_TREES.items() if what != "two roots"}
OF_TWO = {"a cycle": [2, 1], "two roots": [0, 0]}
OF_ONE = {"itself": [1], "padding": [-1], "beyond": [2]}
CROSSING = {"crossing arcs": [3, 4, 0, 3]}
NO_LABELS = {
    "a cycle": [[2, 0], [1, 0]],
    "two roots": [[0, 0], [0, 1]],
    "a label that does not exist": [[0, 0], [1, 2]],
    "a negative label": [[0, 0], [1, -1]],
    "padding": [[0, 0], [-1, -1]],
    "a label in the padding": [[0, 0], [-1, 1]],
}
FEW: Forbidden = [("arc", (0, 1)), ("arc", (2, 3))]
OF_SIBLINGS: Forbidden = [("arc", (0, 1)), ("sibling", (2, 3, 2)), ("sibling", (0, 3, 1)), ("stop", (2, 1, 3))]
OF_GRANDPARENTS: Forbidden = [("arc", (0, 1)), ("grandparent", (0, 2, 3)), ("grandsibling", (0, 1, 3, 2))]
OF_LABELS: Forbidden = [("arc", index) for index in ((0, 1), (2, 3, 0), (1, 2, 1), (3, 2))]

TREES = {
    "plain": ARCS.case(3, invalid=NO_TREES),
    "four words": first_order(2).case(4, invalid=CROSSING),
    "valence and stops": BOTH.case(3, invalid=NO_TREES),
    "stops without valence": STOPS.case(3),
    "multiroot": ARCS.case(3, multiroot=True, invalid=OF_MANY_ROOTS),
    "multiroot with valence and stops": BOTH.case(3, multiroot=True),
    "three valences": first_order(3, 3).case(4),
    "three valences without stops": first_order(3).case(4),
    "three valences, multiroot": first_order(3, 3).case(4, multiroot=True),
    "stops of three valences": first_order(stops=3).case(3, multiroot=True),
    "one valence": first_order(1, 1).case(3),
    "forbidden": ARCS.case(3, forbidden=FEW),
    "forbidden with valence and stops": BOTH.case(3, forbidden=[*FEW, ("stop", (2, 1, 1))]),
    "two words": STOPS.case(2, invalid=OF_TWO),
    "one word": BOTH.case(1, invalid=OF_ONE),
    "padded": ARCS.padded([3, 1, 4, 2]),
    "padded with valence and stops": BOTH.padded([1, 3, 2]),
    "padded multiroot": STOPS.padded([2, 1, 3], multiroot=True),
    "siblings": SIBLINGS.case(3, invalid=NO_TREES),
    "siblings of four words": ENDS.case(4, invalid=CROSSING),
    "siblings and stops": ENDS.case(3),
    "siblings, multiroot": ENDS.case(3, multiroot=True, invalid=OF_MANY_ROOTS),
    "siblings, forbidden": ENDS.case(3, forbidden=OF_SIBLINGS, multiroot=True),
    "siblings of one word": ENDS.case(1, invalid=OF_ONE),
    "siblings, padded": SIBLINGS.padded([3, 1, 4, 2]),
    "siblings and stops, padded": ENDS.padded([1, 3, 2], multiroot=True),
}
STRUCTURES = {
    "arcs that cross": CROSSING_ARCS.case(3, invalid=NO_TREES),
    "arcs that cross, four words": CROSSING_ARCS.case(4, scale=0.7),
    "arcs that cross, multiroot": CROSSING_ARCS.case(3, multiroot=True, invalid=OF_MANY_ROOTS),
    "arcs that cross, forbidden": CROSSING_ARCS.case(
        4, forbidden=[("arc", arc) for arc in ((0, 1), (2, 3), (4, 1), (3, 1))]
    ),
    "arcs that cross, a word of ROOT alone": CROSSING_ARCS.case(3, forbidden=[("arc", (1, 2)), ("arc", (3, 2))]),
    "arcs that cross, two words": CROSSING_ARCS.case(2, invalid=OF_TWO),
    "arcs that cross, one word": CROSSING_ARCS.case(1, invalid=OF_ONE),
    "arcs that cross, padded": CROSSING_ARCS.padded([3, 1, 4, 2]),
    "arcs that cross, padded multiroot": CROSSING_ARCS.padded([2, 1, 3], multiroot=True),
    "labels": labelled(2).case(2, invalid=NO_LABELS),
    "labels, crossing arcs": labelled(2, False).case(3),
    "labels, multiroot": labelled(3).case(2, multiroot=True),
    "labels, forbidden": labelled(2, False).case(3, forbidden=OF_LABELS, multiroot=True),
    "labels, one word": labelled(3).case(1),
    "one label": labelled(1).case(3),
    "labels, padded": labelled(2).padded([3, 1, 2]),
    "labels, padded crossing arcs": labelled(2, False).padded([1, 3, 2]),
    "grandparents": grandparents().case(3, invalid=NO_TREES),
    "grandparents of four words": grandparents().case(4, invalid=CROSSING),
    "grandparents and siblings": grandparents(True).case(4),
    "grandparents and siblings, multiroot": grandparents(True).case(3, multiroot=True),
    "grandparents and siblings, forbidden": grandparents(True).case(3, forbidden=OF_GRANDPARENTS, multiroot=True),
    "grandparents of one word": grandparents(True).case(1, invalid=OF_ONE),
    "grandparents, padded": grandparents().padded([3, 1, 4, 2]),
    "grandparents and siblings, padded": grandparents(True).padded([1, 3, 2], multiroot=True),
}
