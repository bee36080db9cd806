# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All derivations of one short sentence under a context-free grammar, whatever the weights."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from .cfg_rules import Matches, RuleTable, longest

Derivation = tuple[int, ...]


def enumerate_derivations(rules: RuleTable, matches: Matches, sentence: int = 0) -> Any:
    """All derivations, shape (T, L), int64, padded with -1: event ids from the top down and from left to right."""
    n = int(matches.lengths[sentence])
    own = matches.table[matches.offsets[sentence] : matches.offsets[sentence + 1]]
    lexical: dict[tuple[int, int, int], list[int]] = {}
    for i, k, symbol, event in own.tolist():
        lexical.setdefault((i, k, symbol), []).append(event)
    binary: dict[int, list[list[int]]] = {}
    unary: dict[int, list[list[int]]] = {}
    for parent, *rest in rules.binary.tolist():
        binary.setdefault(parent, []).append(rest)
    for parent, *rest in rules.unary.tolist():
        unary.setdefault(parent, []).append(rest)

    @cache
    def below(A: int, i: int, k: int) -> list[Derivation]:
        found = [_own(event) for event in lexical.get((i, k, A), [])]
        for left, right, event in binary.get(A, []):
            for j in range(i + 1, k):
                found += [_own(event) + a + b for a, b in product(below(left, i, j), below(right, j, k))]
        for child, event in unary.get(A, []):
            found += [_own(event) + a for a in below(child, i, k)]
        return found

    found = below(rules.start, 0, n)
    ids = np.full((len(found), longest(rules, n)), -1, np.int64)
    for t, derivation in enumerate(found):
        ids[t, : len(derivation)] = derivation
    return ids


def _own(event: int) -> Derivation:
    return (event,) if event >= 0 else ()
