# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars by brute force: all derivations of a sentence by rewriting from the left."""

import torch
from torch import Tensor

from pyrogram import CFG
from pyrogram.grammars import Word


def derivations(grammar: CFG, sentence: list[str]) -> list[list[int]]:
    """All leftmost derivations of a sentence, as event ids."""
    found: list[list[int]] = []

    def rewrite(rest: list[str], word: int, ids: list[int]) -> None:
        if len(rest) > len(sentence) - word:  # every symbol to come takes a word at least
            return
        if not rest:
            if word == len(sentence):
                found.append(ids)
        elif isinstance(rest[0], Word):
            if str(rest[0]) == sentence[word]:
                rewrite(rest[1:], word + 1, ids)
        else:
            for event, (lhs, rhs) in enumerate(grammar.rules):
                if lhs == rest[0]:
                    rewrite([*rhs, *rest[1:]], word, [*ids, event])

    rewrite([grammar.start], 0, [])
    return found


def spans(grammar: CFG, ids: list[int]) -> list[tuple[int, int, str]]:
    """What every rule of a derivation spans: [i, k, left side], words i .. k - 1."""
    coming = iter(ids)
    found: list[tuple[int, int, str]] = []

    def walk(symbol: str, start: int) -> int:
        if isinstance(symbol, Word):
            return start + 1
        lhs, rhs = grammar.rules[next(coming)]
        assert lhs == symbol
        end = start
        for child in rhs:
            end = walk(child, end)
        found.append((start, end, symbol))
        return end

    walk(grammar.start, 0)
    assert next(coming, None) is None
    return found


def span_parts(grammar: CFG, values: Tensor) -> Tensor:
    """Indicators (..., n+1, n+1, K) of the labelled spans of derivations (..., L) of one sentence."""
    rows = [[r for r in row if r >= 0] for row in values.reshape(-1, values.shape[-1]).long().tolist()]
    every = [spans(grammar, row) for row in rows]
    n = max(end for row in every for _, end, _ in row)
    parts = torch.zeros(len(rows), n + 1, n + 1, len(grammar.nonterminals), dtype=torch.float64)
    for t, row in enumerate(every):
        for start, end, symbol in row:
            parts[t, start, end, grammar.nonterminals.index(symbol)] += 1
    return parts.reshape(*values.shape[:-1], *parts.shape[1:])
