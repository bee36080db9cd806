# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All derivations of one short sentence under a context-free grammar, whatever the weights."""

from itertools import product
from typing import Any

import numpy as np

from .cfg_rules import Matches, RuleTable, longest

Cell = tuple[int, int, int]  # a symbol and the words that it spans, i .. k - 1
Derivation = tuple[int, ...]


def enumerate_derivations(rules: RuleTable, matches: Matches, sentence: int = 0) -> Any:
    """All derivations, shape (T, L), int64, padded with -1: event ids from the top down and from left to right."""
    n = int(matches.lengths[sentence])
    table = matches.table[matches.offsets[sentence] : matches.offsets[sentence + 1]]
    lexical: dict[tuple[int, int, int], list[int]] = {}
    for i, k, symbol, event in table.tolist():
        lexical.setdefault((i, k, symbol), []).append(event)
    binary: dict[int, list[list[int]]] = {}
    unary: dict[int, list[list[int]]] = {}
    for parent, *rest in rules.binary.tolist():
        binary.setdefault(parent, []).append(rest)
    for parent, *rest in rules.unary.tolist():
        unary.setdefault(parent, []).append(rest)

    def rewrites(cell: Cell) -> list[tuple[int, list[Cell]]]:
        """The rules that a cell may be rewritten by, by event, and the cells that then are to be rewritten."""
        A, i, k = cell
        pairs: list[tuple[int, list[Cell]]] = []
        for left, right, event in binary.get(A, []):
            pairs += [(event, [(left, i, j), (right, j, k)]) for j in range(i + 1, k)]
        return pairs + [(event, [(child, i, k)]) for child, event in unary.get(A, [])]

    below: dict[Cell, list[Derivation]] = {}
    agenda: list[Cell] = [(rules.start, 0, n)]
    while agenda:
        A, i, k = cell = agenda[-1]
        ways = rewrites(cell)
        missing = [c for _, cells in ways for c in cells if c not in below]
        if cell not in below and missing:
            agenda += missing
            continue
        agenda.pop()
        if cell in below:
            continue
        below[cell] = [_own(event) for event in lexical.get((i, k, A), [])]
        for event, cells in ways:
            for combination in product(*(below[c] for c in cells)):
                below[cell].append(sum(combination, _own(event)))
    derivations = below[rules.start, 0, n]
    ids = np.full((len(derivations), longest(rules, n)), -1, np.int64)
    for t, derivation in enumerate(derivations):
        ids[t, : len(derivation)] = derivation
    return ids


def _own(event: int) -> Derivation:
    return (event,) if event >= 0 else ()
