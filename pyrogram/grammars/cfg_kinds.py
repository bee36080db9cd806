# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The symbols and rules of a grammar by kind, as the recursion of grammars (:mod:`.cfg_page`) takes them."""

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pyrogram.event_map import NEVER, ONE

from .cfg_page import SIZES
from .cfg_rules import RuleTable

Numbers = Any  # a numpy array

_LEAST_PART = 0.15  # of all possible rules of a kind, for a table: there a list takes as long


class Kinds(NamedTuple):
    """The symbols and the rules of a grammar by kind.

    :param kind: of each symbol, X, T or Z, shape (S,).
    :param number: of each symbol among those of its kind, shape (S,).
    :param rules: the kinds of rules, and whether they are tables.
    :param events: by kind, the event of each row of the list, or element of the table; :data:`ONE` for weight one and
        no event, :data:`NEVER` for no rule.
    :param lists: columns, by name.
    :param sizes: numbers of symbols and rows, by name.
    """

    kind: Numbers
    number: Numbers
    rules: tuple[tuple[str, bool], ...]
    events: dict[str, Numbers]
    lists: dict[str, Numbers]
    sizes: dict[str, int]

    def symbols(self, number: int) -> dict[str, Numbers]:
        """By kind, those of the first so many symbols that are of the kind."""
        return {kind: np.nonzero(self.kind[:number] == kind)[0] for kind in "XTZ"}


def kinds_of(rules: RuleTable, is_wide: Numbers, start_matches: bool) -> Kinds:
    """The kinds of a grammar; kept with the rules.

    :param is_wide: which symbols match several words, so that they are no preterminals.
    :param start_matches: whether the start symbol matches words, so that it is an X.
    """
    kept = rules.__dict__.setdefault("kinds", {})
    key = is_wide.tobytes(), start_matches
    if key not in kept:
        if len(kept) > 64:
            kept.clear()
        kept[key] = _make_kinds(rules, is_wide, start_matches)
    kinds: Kinds = kept[key]
    return kinds


def _make_kinds(rules: RuleTable, is_wide: Numbers, start_matches: bool) -> Kinds:
    kind = np.where(is_wide, "X", "T")
    kind[rules.binary[:, 0]] = kind[rules.unary[:, 0]] = kind[rules.start] = "X"
    begins = not start_matches and not any((t[:, 1:-1] == rules.start).any() for t in (rules.binary, rules.unary))
    if begins and any((t[:, 0] == rules.start).any() for t in (rules.binary, rules.unary)):
        kind[rules.start] = "Z"
    number = np.zeros(rules.num_symbols, np.int64)
    sizes = {}
    for x, size in SIZES.items():
        ids = np.nonzero(kind == x)[0]
        ids = np.concatenate([ids[ids == rules.start], ids[ids != rules.start]])  # the start symbol is the first X
        number[ids] = np.arange(len(ids))
        sizes[size] = max(len(ids), 1)
    forms: list[tuple[str, bool]] = []
    events: dict[str, Numbers] = {}
    lists: dict[str, Numbers] = {}
    for table, places in (rules.binary, (0, 1, 2)), (rules.unary, (0, 1)):
        event = np.where(table[:, -1] < 0, ONE, table[:, -1])
        names = np.char.add(kind[table[:, 0]], kind[table[:, 1]])
        names = np.char.add(names, kind[table[:, 2]]) if len(places) == 3 else names
        for name in ("".join(x) for x in product("XZ", *["XT"] * (len(places) - 1))):
            rows = np.nonzero(names == name)[0]
            if len(rows) == 0:
                continue
            columns = [number[table[rows, axis]] for axis in places]
            shape = tuple(sizes[SIZES[x]] for x in name if x != "Z")
            at = np.ravel_multi_index([c for c, x in zip(columns, name, strict=True) if x != "Z"], shape)
            is_table = len(places) == 3 and len(rows) >= _LEAST_PART * prod(shape) and len(set(at.tolist())) == len(at)
            forms.append((name, is_table))
            if is_table:
                events[name] = np.full(shape, NEVER)
                events[name].reshape(-1)[at] = event[rows]
            else:
                events[name], sizes[f"R{name}"] = event[rows], len(rows)
                lists |= {f"{name}{axis}": c for axis, c in enumerate(columns) if name[axis] != "Z"}
    return Kinds(kind, number, tuple(forms), events, lists, sizes)
