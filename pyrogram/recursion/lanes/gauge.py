# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A power of two for each word, so that long sentences have plain numbers near one.

Any will do: rules that bring a word into a derivation (:mod:`~pyrogram.recursion.lanes.scaling`) get a weight more, the
word's power, and log Z gets the sum of all back. A good one makes the product of a word's weights one, as they are on
the mean: that of each table, to the power of how many of its weights a word more has in a derivation, and times the
number of derivations that there are more.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..rules.cells import Cells, Head, J, Term
from ..rules.interpreter import Grounded, Reals
from ..rules.language import Entry, Ref, Word
from ..rules.recursions import Recursion, Table
from .scaling import columns
from .tables import GAUGE

_SIZE = 2  # of symbols, where derivations are counted


def with_gauge(cells: Cells) -> Cells:
    """The cells with the powers for weights; as they are, if no rule brings a word alone."""
    found = columns(cells)
    if found is None or found.begin != 1:
        return cells
    power = Ref(GAUGE, False, (J,), ())

    def gauged(term: Term) -> Term:
        return replace(term, factors=(power, *term.factors)) if id(term) in found.bringing else term

    classes = [replace(c, heads=[Head(h.ref, [*map(gauged, h.terms)]) for h in c.heads]) for c in cells.classes]
    recursion = copy.copy(cells.recursion)
    recursion.tables = {**recursion.tables, GAUGE: Table(recursion, GAUGE, False, ())}
    return replace(cells, recursion=recursion, classes=classes, arity={**cells.arity, GAUGE: 1})


@dataclass(frozen=True)
class Growth:
    """What a word more adds to a derivation.

    :param derivations: the logarithm of how many times as many derivations there are.
    :param weights: by table, how many weights more a derivation has on the mean.
    """

    derivations: float
    weights: Mapping[str, float]

    @staticmethod
    def of(recursion: Recursion) -> Growth:
        """From sentences of two to four words, whose weights are all one.

        Numbers of derivations are about n**-a exp(b n), whose ratios are about exp(b) (1 - a / n).
        """
        names = [t.name for t in recursion.tables.values() if not t.is_item]
        if any(isinstance(x, Entry) for rule in recursion.rules for f in (rule.head, *rule.factors) for x in f.symbols):
            return Growth(0.0, {})
        sizes = {v.size: _SIZE for rule in recursion.rules for v in rule.variables if isinstance(v.size, str)}
        words = {x.words: (0,) * 4 for rule in recursion.rules for f in (rule.head, *rule.factors)
                 for x in f.symbols if isinstance(x, Word)}  # fmt: skip
        found: list[tuple[float, dict[str, float]]] = []
        for n in (2, 3, 4):
            grounded = Grounded(recursion, n, sizes=sizes, words=words)

            def log_z(name: str, weight: float, grounded: Grounded = grounded) -> float:
                table = {x: lambda *indices, y=weight if x == name else 1.0: y for x in names}
                z = grounded.goal(Reals(), table)
                return math.log(z) if z > 0 else -math.inf

            whole = log_z("", 1.0)
            if whole == -math.inf:
                return Growth(0.0, {})
            found.append((whole, {x: (log_z(x, 1.001) - whole) / math.log(1.001) for x in names}))
        (two, _), (three, few), (four, many) = found
        ratio = 4 * math.exp(four - three) - 3 * math.exp(three - two)
        return Growth(math.log(max(ratio, 1.0)), {x: round(many[x] - few[x], 2) for x in names})
