# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A dependency grammar, a chain and a context-free grammar, each with sentences whose derivations are listed."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from infer.tree_sums import tree_events
from oracle import all_trees
from torch import Tensor

from pyrogram import CFG, DMV, HMM, Grammar

Event = tuple[str, tuple[int, ...]]

RULES = CFG.from_string(
    """
    S -> A B | B A | A
    A -> B B | 'a' | 'b' | A B
    B -> 'a' | 'b'
    C -> 'a'
    """
)


@dataclass(frozen=True)
class Small:
    """A grammar, sentences, and the events of each derivation of a sentence."""

    grammar: Grammar
    sentences: list[list[int]]
    derivations: Callable[[list[int]], Iterator[list[Event]]]

    @property
    def words(self) -> Tensor:
        width = max(map(len, self.sentences))
        return torch.tensor([s + [-1] * (width - len(s)) for s in self.sentences])

    def log_likelihood(self, weights: Mapping[str, Tensor]) -> Tensor:
        """log p(sentences | weights), by the list."""
        total = torch.zeros(())
        for sentence in self.sentences:
            logs = [sum(weights[b][i].log() for b, i in events) for events in self.derivations(sentence)]
            total = total + torch.stack([torch.as_tensor(x) for x in logs]).logsumexp(0)
        return total


def trees(sentence: list[int]) -> Iterator[list[Event]]:
    for heads in all_trees(len(sentence), False):
        yield tree_events(sentence, heads, False)


def chains(sentence: list[int]) -> Iterator[list[Event]]:
    for states in itertools.product(range(2), repeat=len(sentence)):
        steps = zip(states, [*states[1:], 2], strict=True)
        yield [
            ("initial", (states[0],)),
            *(("transition", step) for step in steps),
            *(("emission", (s, w)) for s, w in zip(states, sentence, strict=True)),
        ]


def rules(sentence: list[int]) -> Iterator[list[Event]]:
    """Rules numbered as the grammar has them: those of S, of A, of B, of C."""
    for used in expansions("S", [RULES.words[w] for w in sentence]):
        yield [("rules", (r,)) for r in used]


def expansions(symbol: str, words: list[str]) -> Iterator[list[int]]:
    for number, (left, right) in enumerate(RULES.rules):
        names = [str(s) for s in right]
        if left != symbol:
            continue
        if len(names) == 2:
            for i in range(1, len(words)):
                for first in expansions(names[0], words[:i]):
                    yield from ([number, *first, *second] for second in expansions(names[1], words[i:]))
        elif names[0] in "ab":
            if words == names:
                yield [number]
        else:
            yield from ([number, *below] for below in expansions(names[0], words))


SMALL = {
    "DMV": Small(DMV(3), [[0, 2], [2, 0, 2], [0, 2, 1, 0]], trees),
    "HMM": Small(HMM(2, 3), [[0], [2, 1], [1, 1, 0]], chains),
    "CFG": Small(RULES, [[0], [0, 1, 1], [1, 0, 1, 0]], rules),
}
