# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lexicalised grammars: their trees and heads, evidence, and the equivalent grammar without heads."""

import copy
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from listed_grammars import Event, lexical_trees
from torch import Tensor

from pyrogram import CFG
from pyrogram.grammars import LexicalisedPCFG

N, T = 2, 3
S = N + 1
GRAMMAR = LexicalisedPCFG(N, T)
WORDS = torch.tensor([[0, 1, 1, 2], [2, 0, 1, -1], [1, 1, -1, -1], [2, -1, -1, -1]])


def log_weights(seed: int = 0, grammar: LexicalisedPCFG = GRAMMAR) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(*b.shape, generator=generator, dtype=torch.float64) for n, b in grammar.blocks.items()}


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float64) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 3e-5
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


def test_the_grammar_without_heads() -> None:
    """Symbols that are pairs of a symbol and a tag, on longer sentences; heads are told apart."""
    grammar = LexicalisedPCFG(2, 2)
    weights = {n: w.double() for n, w in grammar.initial_weights(WORDS, "random", seed=1).items()}
    rules: dict[tuple[str, tuple[str, ...]], float] = {}
    for s, h in np.ndindex(S, 2):
        rules["ROOT", (f"{s}{h}",)] = float(weights["root"][s] * weights["top"][s, h])
    for h in range(2):
        rules[f"0{h}", ("xy"[h],)] = 1.0
    for a, h, m, side, b, c in np.ndindex(2, 2, 2, 2, S, S):
        p = weights["rule"][a, h, (side * S + b) * S + c] * weights["attach"][side, c, h, m]
        right = (f"{b}{h}", f"{c}{m}") if side == 1 else (f"{c}{m}", f"{b}{h}")
        rules[f"{a + 1}{h}", right] = rules.get((f"{a + 1}{h}", right), 0.0) + float(p)
    other = CFG(list(rules), weights=list(rules.values()))
    words = torch.randint(2, (30, 12), generator=torch.Generator().manual_seed(0))
    words = torch.where(torch.arange(12) < torch.arange(30)[:, None] % 12 + 1, words, -1)
    texts = [["xy"[w] for w in row if w >= 0] for row in words.tolist()]
    assert other.weights is not None
    logs = {name: w.log() for name, w in weights.items()}
    close(
        grammar.log_partition(logs, words),
        other.log_partition({"rules": other.weights["rules"].double().log()}, other.encode(texts)),
        torch.float32,
    )


def test_rows_heads_and_trees() -> None:
    """Events from the top down and from left to right; which word depends on which; brackets."""
    weights = GRAMMAR.initial_weights(WORDS, "random", seed=0)
    for sentence in ([1, 1, 2], [0, 1], [2]):
        listed = list(lexical_trees(sentence, S))
        d = GRAMMAR.derivation(weights, torch.tensor(sentence))
        rows = [tuple(GRAMMAR.number(*event) for event in row) for row, _, _ in listed]
        assert Counter(map(tuple, d.enumerate_support().tolist())) == Counter(rows)
        heads = GRAMMAR.heads(torch.tensor(rows))
        assert heads.tolist() == [[own[i] for i in range(len(sentence))] for _, own, _ in listed]
        for row, (_, _, text) in zip(rows, listed, strict=True):
            tree = GRAMMAR.tree([str(i) for i in range(len(sentence))], torch.tensor(row))
            assert " ".join(str(tree).split()) == text
    for n in range(1, 6):
        assert GRAMMAR.longest(n) == super(LexicalisedPCFG, copy.copy(GRAMMAR)).longest(n)


def test_what_is_no_tree_is_refused() -> None:
    row: list[Event] = [("root", (1,)), ("top", (1, 2)), ("rule", (0, 2, S * S)), ("attach", (1, 0, 2, 0))]
    derivation = torch.tensor([*(GRAMMAR.number(*event) for event in row), -1, -1])
    assert str(GRAMMAR.tree(None, derivation)) == "(N1[2] (word 2) (word 0))"
    assert GRAMMAR.heads(derivation).tolist() == [0, 1, -1]
    assert GRAMMAR.heads(torch.full((2, 4), -1)).tolist() == [[-1, -1]] * 2
    other = GRAMMAR.number("attach", (0, 0, 2, 0))
    for bad, message in (
        (derivation[1:], r"has top\[1, 2\] after 0 words, not a root"),
        (derivation.index_fill(0, torch.tensor(3), other), r"has attach\[0, 0, 2, 0\] after 1 word, not a attach"),
        (derivation[:3], r"has nothing\[\] after 1 word"),
        (derivation[[0, 1, 2, 3, 3]], "goes on after its last word, word 2"),
        (derivation[None], "must be one"),
    ):
        with pytest.raises(ValueError, match=message):
            GRAMMAR.tree(None, bad)
    with pytest.raises(ValueError, match="has 2 words, not 1"):
        GRAMMAR.tree(["a"], derivation)


def test_evidence() -> None:
    """Phrases that are known to be none: brackets that cross them are left, and heads are known to be outside."""
    logs, words = log_weights(2), WORDS[0]
    bonus = torch.zeros(5, 5, S, T)
    bonus[0, 2] = -math.inf  # no phrase of the first two words
    bonus[2, 4, :, 1] = -math.inf  # a phrase of the last two has the last for its head
    z = 0.0
    for row, heads, text in lexical_trees(words.tolist(), S):
        spans = [sorted(int(x) for x in part if x.isdigit()) for part in _phrases(text)]
        if [0, 1] not in spans and not ([2, 3] in spans and heads[3] == 3):
            z += math.exp(sum(float(logs[name][index]) for name, index in row))
    close(GRAMMAR.log_partition(logs, words, evidence={"X": bonus}), torch.tensor(math.log(z)))
    assert GRAMMAR.item_counts(logs, WORDS, "X")["X"].shape == (4, 5, 5, S, T)


def _phrases(text: str) -> Iterator[list[str]]:
    """The words of each phrase of brackets."""
    stack: list[list[str]] = []
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append([])
        elif token == ")":
            part = stack.pop()
            yield part
            if stack:
                stack[-1] += part
        elif token.isdigit():
            stack[-1].append(token)


def test_names() -> None:
    assert GRAMMAR.symbols == ["word", "N1", "N2"] and repr(GRAMMAR) == "LexicalisedPCFG(2, 3)"
    assert GRAMMAR.axes["rule"]["children"][1] == "N1 word*"
    with pytest.raises(ValueError, match="num_nonterminals must be at least 1"):
        LexicalisedPCFG(0, 3)


def test_the_harmonic_start() -> None:
    """Near words attach; rules and symbols are told apart."""
    words = torch.tensor([[0, 1, 2], [0, 1, 2]])
    found = GRAMMAR.initial_weights(words, "harmonic", seed=0)
    for block, w in found.items():
        torch.testing.assert_close(w.sum(-1), torch.ones(GRAMMAR.blocks[block].shape[:-1]))
    torch.testing.assert_close(found["attach"][1, :, 0], torch.tensor([[0.0, 3 / 5, 2 / 5]] * S))
    torch.testing.assert_close(found["top"], torch.full((S, T), 1 / 3))
    assert len(found["rule"].unique()) > S * S
