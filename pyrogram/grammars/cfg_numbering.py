# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules as they are written to rules as numbers, grouped by left-hand side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cfg_text import Rule, Word, show


@dataclass(frozen=True)
class Numbered:
    """Rules by event: those of the first left-hand side, then those of the second, in order of first appearance.

    :param nonterminals: the left-hand sides, numbered from 0.
    :param words: the terminals, numbered from 0.
    :param order: the place of each event's rule in what was given, shape (R,).
    :param lhs: the nonterminal on the left, shape (R,), not decreasing.
    :param rhs: the right side, nonterminals as they are, terminal w as -1 - w.
    :param rules: the same as strings, in which terminals are a :class:`Word`.
    """

    nonterminals: tuple[str, ...]
    words: tuple[str, ...]
    order: Any
    lhs: Any
    rhs: list[tuple[int, ...]]
    rules: tuple[Rule, ...]


def numbered(rules: Iterable[tuple[str, Sequence[str]]]) -> Numbered:
    """Number what rules are made of; a plain string is a nonterminal if it is some rule's left side.

    :raises ValueError: if a rule is malformed, its right side is empty, or it is there twice.
    """
    pairs = [_checked(i, rule) for i, rule in enumerate(rules)]
    if not pairs:
        raise ValueError("a grammar needs at least one rule")
    index = {name: k for k, name in enumerate(dict.fromkeys(lhs for lhs, _ in pairs))}
    owner = np.array([index[lhs] for lhs, _ in pairs])
    order = np.argsort(owner, kind="stable")
    words: dict[str, int] = {}
    plain: dict[str, tuple[str, int]] = {name: (name, k) for name, k in index.items()}

    def resolve(symbol: str) -> tuple[str, int]:
        if symbol.__class__ is Word:
            return symbol, -1 - words.setdefault(str(symbol), len(words))
        entry = plain.get(symbol)
        if entry is None:
            entry = plain[symbol] = Word(symbol), -1 - words.setdefault(symbol, len(words))
        return entry

    resolved, codes = [], []
    for i in order.tolist():
        lhs, rhs = pairs[i]
        symbols, numbers = zip(*map(resolve, rhs), strict=True)
        resolved.append((lhs, symbols))
        codes.append(numbers)
    if not words:
        raise ValueError("the grammar has no terminals, so it generates no sentence; quote them in a text")
    _refuse_duplicates(pairs, owner[order].tolist(), codes, order)
    return Numbered(tuple(index), tuple(words), order, owner[order], codes, tuple(resolved))


def _checked(number: int, rule: Any) -> Rule:
    """A rule as a left and a right side."""
    lhs, rhs = rule
    if isinstance(rhs, str):
        raise ValueError(f"the right side of rule {number} must be a sequence of symbols, not the string {rhs!r}")
    rhs = tuple(rhs)
    if not isinstance(lhs, str) or isinstance(lhs, Word):
        raise ValueError(f"the left side of rule {number} must be a nonterminal, a string, not {lhs!r}")
    if not rhs:
        raise ValueError(f"rule {number}, {lhs} -> , has an empty right side; remove it and add rules without {lhs}")
    for symbol in rhs:
        if not isinstance(symbol, str):
            raise ValueError(f"the right side of rule {number} has {symbol!r}, which is no string")
    return lhs, rhs


def _refuse_duplicates(rules: Sequence[Rule], lhs: Sequence[int], rhs: Sequence[tuple[int, ...]], order: Any) -> None:
    """Twice the same rule would be two events that no sentence can tell apart."""
    keys = list(zip(lhs, rhs, strict=True))
    if len(set(keys)) == len(keys):
        return
    seen: dict[Any, int] = {}
    for event, key in enumerate(keys):
        first = seen.setdefault(key, event)
        if first != event:
            one, two = int(order[first]), int(order[event])
            raise ValueError(
                f"rules {one} and {two} are both {show(rules[two])}; give it once, with their sum of weights"
            )
