# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether every derivation has one weight of each group, as a page claims (:meth:`.Recursion.once`).

Compiled code divides the weights of a group by the greatest of them and multiplies Z by it. If a derivation had none of
them, or two, Z would be wrong, so the claim is checked on all derivations of one, two and three words.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .interpreter import Grounded, Key, Semiring
from .language import Entry, InvalidRecursion, Word
from .recursions import Recursion

_SYMBOLS = 2  # of each size that has a name


class _Uses(Semiring[Any]):
    """How often derivations use each group; None for no derivation, False if derivations differ."""

    zero: Any = None

    def __init__(self, recursion: Recursion) -> None:
        self.tables = recursion.tables
        self.one: Any = Counter()

    def plus(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return a if a == b and a is not False else False

    def times(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        return a + b if a is not False and b is not False else False

    def weight(self, key: Key, value: float) -> Any:
        group = self.group(key)
        return Counter() if group is None else Counter({group: 1})

    def group(self, key: Key) -> tuple[int, tuple[int, ...]] | None:
        """The group that a weight belongs to: the claim, and the values of its axes."""
        once = self.tables[key[0]].once
        return None if once is None else (once[0], tuple(key[1][a] for a in once[1]))


def check_once(recursion: Recursion) -> None:
    """
    :raises InvalidRecursion: if a derivation has none or several weights of a group.
    """
    claimed = [t.name for t in recursion.tables.values() if t.once is not None]
    if not claimed:
        return
    rules = recursion.rules
    for f in (f for rule in rules for f in rule.weights):
        once = recursion.tables[f.table].once
        count = len(f.positions) + len(f.symbols)
        if once is not None and not all(0 <= a < count for a in once[1]):
            raise InvalidRecursion(f"once speaks of axes {once[1]} of {f.table}, which has axes 0 .. {count - 1}")
    if any(isinstance(x, Entry) for rule in rules for f in (rule.head, *rule.factors) for x in f.symbols):
        raise InvalidRecursion(f"{claimed[0]}: once is not for recursions with lists of rules")
    sizes = {v.size: _SYMBOLS for rule in rules for v in rule.variables if isinstance(v.size, str)}
    symbols = [x for rule in rules for f in (rule.head, *rule.factors) for x in f.symbols]
    words = {x.words: (0, 0, 0) for x in symbols if isinstance(x, Word)}
    semiring = _Uses(recursion)
    ones = {t.name: lambda *indices: 1.0 for t in recursion.tables.values()}
    for n in (1, 2, 3):
        grounded = Grounded(recursion, n, sizes=sizes, words=words)
        uses = grounded.goal(semiring, ones)
        used = {semiring.group(key) for xs in grounded.instances.values() for x in xs for key in x.weights} - {None}
        if uses is not None and (uses is False or uses != Counter(used)):
            raise InvalidRecursion(
                f"{' and '.join(claimed)}: once says that every derivation has one weight of each group, and some of "
                f"{n} word{'s' if n > 1 else ''} have not"
            )
