# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences with evidence, and sums over all their derivations that agree with it, one derivation after the other."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import own_grammars
import torch
from torch import Tensor

from pyrogram import CFG, DMV, HMM
from pyrogram.grammar import Grammar, Known

#: Of a sentence and the values of one of its derivations: the log of its factor, -inf if it disagrees.
Bonus = Callable[[int, list[int]], float]

UNKNOWN = -1


@dataclass
class EvidenceCase:
    """A grammar, sentences, and what is known of them."""

    grammar: Grammar
    words: Tensor
    known: Known
    bonus: Bonus
    seed: int = 3

    def weights(self) -> dict[str, Tensor]:
        return self.grammar.initial_weights(self.words, "random", seed=self.seed)

    def derivations(self, sentence: int) -> list[tuple[list[int], dict[str, Tensor], float]]:
        """All that agree: values, counts of events, log of the factor."""
        words = self.words[sentence][self.words[sentence] >= 0]
        uniform = self.grammar.initial_weights(self.words, "uniform")
        law: Any = self.grammar.derivation(uniform, words)
        values = law.enumerate_support()
        counts, found = law.counts(values), []
        for k, row in enumerate(values.tolist()):
            bonus = self.bonus(sentence, [x for x in row if x >= 0])
            if bonus > -math.inf:
                found.append((row, {name: c[k] for name, c in counts.items()}, bonus))
        return found

    def sums(self, log_weights: Mapping[str, Tensor], sentence: int) -> tuple[float, dict[str, Tensor], list[float]]:
        """log Z, expected counts, and the probabilities of the derivations that agree."""
        found = self.derivations(sentence)
        logs = {n: w.nan_to_num(neginf=0.0) for n, w in log_weights.items()}
        scores = [bonus + sum(float((c[n] * w).sum()) for n, w in logs.items()) for _, c, bonus in found]
        log_z = float(torch.tensor(scores).logsumexp(0)) if scores else -math.inf
        shares = [math.exp(score - log_z) for score in scores]
        expected = {n: torch.zeros_like(w) for n, w in log_weights.items()}
        for share, (_, counts, _) in zip(shares, found, strict=True):
            for n in expected:
                expected[n] += share * counts[n]
        return log_z, expected, shares


def _trees(valence_attach: bool, kinds: set[str]) -> EvidenceCase:
    """Nothing, one head, all heads, a root, a short sentence wholly known, one head of a short sentence."""
    words = torch.tensor([[0, 1, 2, 1], [1, 1, 0, 2], [2, 0, 1, 0], [0, 0, 1, 1], [1, 2, 0, -1], [0, 2, -1, -1]])
    heads = torch.full(words.shape, UNKNOWN)
    heads[1, 0], heads[2], heads[3, 1] = 3, torch.tensor([2, 0, 2, 3]), 0
    heads[4, :3], heads[5, 0] = torch.tensor([0, 1, 2]), 2
    scores = torch.randn(6, 5, 5, generator=torch.Generator().manual_seed(1))
    scores[0], scores[3, 2, 3], scores[1, 0, 2] = 0.0, -torch.inf, -torch.inf

    def bonus(b: int, tree: list[int]) -> float:
        total = 0.0
        for j, h in enumerate(tree):
            if "heads" in kinds and heads[b, j] not in (UNKNOWN, h):
                return -math.inf
            total += float(scores[b, h, j + 1]) if "arc_scores" in kinds else 0.0
        return total

    tables = {kind: t for kind, t in {"heads": heads, "arc_scores": scores}.items() if kind in kinds}
    return EvidenceCase(DMV(3, valence_attach=valence_attach), words, heads if kinds == {"heads"} else tables, bonus)


def _states(kinds: set[str]) -> EvidenceCase:
    words = torch.tensor([[0, 1, 2, 3], [1, 1, 0, 2], [2, 0, 3, 0], [0, 0, 1, -1], [3, 2, -1, -1]])
    states = torch.full(words.shape, UNKNOWN)
    states[1, 2], states[2], states[3, 0], states[4, :2] = 1, torch.tensor([0, 2, 1, 1]), 2, torch.tensor([1, 0])
    scores = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(1))
    scores[0], scores[1, 1, 0] = 0.0, -torch.inf

    def bonus(b: int, row: list[int]) -> float:
        total = 0.0
        for j, x in enumerate(row):
            if "states" in kinds and states[b, j] not in (UNKNOWN, x):
                return -math.inf
            total += float(scores[b, j, x]) if "state_scores" in kinds else 0.0
        return total

    tables = {kind: t for kind, t in {"states": states, "state_scores": scores}.items() if kind in kinds}
    return EvidenceCase(HMM(3, 4), words, states if kinds == {"states"} else tables, bonus)


RULES = """
S -> S S | A S A | A A | 'a' | 'b' 'a'
A -> 'a' | 'b' | A A | B
B -> 'a' | S A S
"""


def _brackets(kinds: set[str]) -> EvidenceCase:
    """A grammar with unary rules, a rule of three symbols, and terminals that come together."""
    grammar = CFG.from_string(RULES)
    words = grammar.encode(["a a a a", "b a a a", "a a b a a", "a b", "a a a a"])
    brackets = torch.zeros(5, 6, 6, dtype=torch.bool)
    for b, i, k in ((0, 1, 3), (1, 0, 2), (2, 1, 4), (2, 2, 4)):
        brackets[b, i, k] = True
    law = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
    derivations = torch.full((5, law.event_shape[0]), UNKNOWN)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        derivations[3:] = law.sample()[3:]

    @functools.cache
    def law_of(b: int) -> Any:
        return grammar.derivation(grammar.initial_weights(words, "uniform"), words[b][words[b] >= 0])

    def bonus(b: int, row: list[int]) -> float:
        if "derivations" in kinds and bool((derivations[b] >= 0).any()):
            return 0.0 if [x for x in derivations[b].tolist() if x >= 0] == row else -math.inf
        if "brackets" not in kinds:
            return 0.0
        law = law_of(b)
        padded = torch.tensor(row + [-1] * (law.event_shape[0] - len(row)))
        spans = [(i, k) for i, k, _ in law.parts(padded).nonzero().tolist()]
        known = brackets[b].nonzero().tolist()
        crossing = any(a < i < z < k or i < a < k < z for a, z in known for i, k in spans)
        return -math.inf if crossing else 0.0

    tables = {kind: t for kind, t in {"brackets": brackets, "derivations": derivations}.items() if kind in kinds}
    return EvidenceCase(grammar, words, brackets if kinds == {"brackets"} else tables, bonus)


def _own(kinds: set[str]) -> EvidenceCase:
    """A chain of one's own, whose rows have the last word's events first, and factors of its items F[t, z]."""
    grammar = own_grammars.hmm(2, 3)
    words = torch.tensor([[0, 1, 2], [1, 1, 0], [2, 0, -1], [0, 2, 1]])
    scores = torch.zeros(4, 4, 2)
    scores[1], scores[1, 2, 0] = torch.randn(4, 2, generator=torch.Generator().manual_seed(1)), -torch.inf
    scores[2, 2, 1] = 0.7
    law = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
    derivations = torch.full((4, law.event_shape[0]), UNKNOWN)
    derivations[3] = law.argmax()[3]

    def bonus(b: int, row: list[int]) -> float:
        if "derivations" in kinds and b == 3 and [x for x in derivations[3].tolist() if x >= 0] != row:
            return -math.inf
        states = [index[0] for name, index in map(grammar.event, row) if name == "emission"][::-1]
        return sum(float(scores[b, t, z]) for t, z in enumerate(states, 1)) if "F" in kinds else 0.0

    tables = {kind: t for kind, t in {"derivations": derivations, "F": scores}.items() if kind in kinds}
    return EvidenceCase(grammar, words, derivations if kinds == {"derivations"} else tables, bonus)


CASES: dict[str, Callable[[], EvidenceCase]] = {
    "DMV heads": lambda: _trees(False, {"heads"}),
    "DMV arcs": lambda: _trees(False, {"arc_scores"}),
    "DMV both": lambda: _trees(False, {"heads", "arc_scores"}),
    "EVG heads": lambda: _trees(True, {"heads"}),
    "EVG both": lambda: _trees(True, {"heads", "arc_scores"}),
    "HMM states": lambda: _states({"states"}),
    "HMM scores": lambda: _states({"state_scores"}),
    "HMM both": lambda: _states({"states", "state_scores"}),
    "CFG brackets": lambda: _brackets({"brackets"}),
    "CFG derivations": lambda: _brackets({"derivations"}),
    "CFG both": lambda: _brackets({"brackets", "derivations"}),
    "own derivations": lambda: _own({"derivations"}),
    "own items": lambda: _own({"F"}),
    "own both": lambda: _own({"derivations", "F"}),
}
