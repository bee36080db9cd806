# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Small grammars of all kinds, whose derivations are listed with their events by the definitions, in plain Python."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle
import own_grammars
import rewriting
import torch
from torch import Tensor

from pyrogram import CFG, DMV, HMM
from pyrogram.grammars import DistanceDMV, LexicalisedPCFG, SimplePCFG, TensorPCFG, Word

Event = tuple[str, tuple[int, ...]]
#: A derivation as the grammar writes it, and its events.
Derivation = tuple[tuple[int, ...], list[Event]]
Sentence = tuple[int, ...]
WORDS = torch.tensor([[0, 1, 1, 2], [2, 0, 1, -1], [1, 1, -1, -1], [2, -1, -1, -1], [0, 2, 1, -1]])


@dataclass(frozen=True)
class Listed:
    """A grammar with all derivations of a sentence.

    :param listed: from a sentence to its derivations.
    :param draws: the name of the method that draws sentences with their derivations; None if there is none.
    :param words: shape ``(N, n)``; every sentence has a derivation.
    :param likely: by block, events that make sentences short.
    """

    grammar: Any
    listed: Callable[[Sequence[int]], list[Derivation]]
    draws: str | None = None
    words: Tensor = WORDS
    likely: Mapping[str, Any] | None = None

    def log_weights(self, *batch: int, seed: int = 0, forbidden: bool = False) -> dict[str, Tensor]:
        """Of no multinomials; some are -inf."""
        generator = torch.Generator().manual_seed(seed)
        found = {}
        for name, block in self.grammar.blocks.items():
            w = torch.randn(*batch, *block.shape, generator=generator, dtype=torch.float64)
            rare = torch.rand(w.shape, generator=generator) < 0.15 * forbidden
            found[name] = w.masked_fill(rare, -math.inf)
        return found

    def weights(self, seed: int = 0) -> dict[str, Tensor]:
        return {n: w.double() for n, w in self.grammar.initial_weights(self.words, "random", seed=seed).items()}

    def short_weights(self) -> dict[str, Tensor]:
        """Normalised, under which sentences are short."""
        factors = {name: torch.as_tensor(x) for name, x in (self.likely or {}).items()}
        blocks = self.grammar.blocks
        return {n: blocks[n].normalize(w * factors.get(n, 1.0)) for n, w in self.weights(seed=5).items()}

    def sums(self, logs: Mapping[str, Tensor], sentence: Sequence[int]) -> tuple[float, dict[str, Tensor], list[float]]:
        """log Z, expected counts, and the probability of each derivation in the list."""
        tables = {name: w.detach().double().numpy() for name, w in logs.items()}
        rows = [events for _, events in self.listed(sentence)]
        scores = [sum(float(tables[name][index]) for name, index in row) for row in rows]
        best = max(scores)
        log_z = best + math.log(math.fsum(math.exp(s - best) for s in scores)) if best > -math.inf else best
        shares = [math.exp(s - log_z) if s > -math.inf else 0.0 for s in scores]
        counts = {name: np.zeros(w.shape) for name, w in tables.items()}
        for row, share in zip(rows, shares, strict=True):
            for name, index in row:
                counts[name][index] += share
        return log_z, {name: torch.from_numpy(c) for name, c in counts.items()}, shares

    def truth(self, logs: Mapping[str, Tensor], words: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """log Z of each sentence, and expected counts ``(N, *shape)``; with one set of weights, or one for each."""
        words = self.words if words is None else words
        found = []
        for b, row in enumerate(words.tolist()):
            blocks = self.grammar.blocks
            own = {n: w[b] if w.dim() > len(blocks[n].shape) else w for n, w in logs.items()}
            found.append(self.sums(own, [w for w in row if w >= 0]))
        counts = {name: torch.stack([c[name] for _, c, _ in found]) for name in logs}
        return torch.tensor([log_z for log_z, *_ in found], dtype=torch.float64), counts

    def drawn(self, number: int, longest: int, too_long: Any) -> list[tuple[Sentence, tuple[int, ...]]]:
        """Sentences with derivations, without padding."""
        method = getattr(self.grammar, self.draws or "")
        words, rows = method(self.short_weights(), (number,), longest, too_long=too_long)
        assert words.shape == (number, longest) and words.dtype == rows.dtype == torch.int64
        both = zip(words.tolist(), rows.tolist(), strict=True)
        return [(tuple(w for w in s if w >= 0), tuple(x for x in row if x >= 0)) for s, row in both]


def numbered(grammar: Any, rows: Iterator[list[Event]]) -> list[Derivation]:
    """Of grammars whose derivations are rows of events."""
    return [(tuple(grammar.number(*event) for event in row), row) for row in rows]


# ---------------------------------------------------------------------- dependency trees


def dmv_events(
    words: Sequence[int], heads: Sequence[int], by_class: bool, state: Callable[[Sequence[int], int, int], list[int]]
) -> list[Event]:
    """Events of a tree, head by head.

    :param by_class: whether the choice of a child depends on the state of its head.
    :param state: from heads, a head and a direction to its state before each decision.
    """
    found: list[Event] = []
    for h, d, own in oracle.children(heads):
        if h == 0:
            found += [("root", (words[c - 1],)) for c in own]
            continue
        tag, states = words[h - 1], state(heads, h, d)
        for c, s in zip(own, states[:-1], strict=True):
            found.append(("attach", (tag, d, *[s] * by_class, words[c - 1])))
            found.append(("stop", (tag, d, s, 0)))
        found.append(("stop", (tag, d, states[-1], 1)))
    return found


def valences(heads: Sequence[int], h: int, d: int, number: int) -> list[int]:
    (own,) = [own for g, e, own in oracle.children(heads) if (g, e) == (h, d)]
    return [min(v, number - 1) for v in range(len(own) + 1)]


def distances(heads: Sequence[int], h: int, d: int, widths: Sequence[int]) -> list[int]:
    """Classes of how many words the children have so far, with all that is below them."""

    def below(word: int) -> list[int]:
        return [word, *itertools.chain(*(below(c) for c, g in enumerate(heads, 1) if g == word))]

    (own,) = [own for g, e, own in oracle.children(heads) if (g, e) == (h, d)]
    reached = [h, *((max if d else min)(below(c)) for c in own)]
    return [sum(abs(r - h) >= width for width in widths) for r in reached]


def trees_of(grammar: DMV) -> Listed:
    state = functools.partial(valences, number=grammar.num_valences)

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        trees = oracle.all_trees(len(words), False)
        return [(heads, dmv_events(words, heads, grammar.valence_attach, state)) for heads in trees]

    likely = {"stop": [0.5, 2.0]}
    return Listed(grammar, lambda words: listed(tuple(words)), "sample_trees", likely=likely)


def rows_of_trees(grammar: Any, by_class: bool, state: Callable[..., list[int]], **options: Any) -> Listed:
    """Of a recursion, which writes the events of trees in an order of its own: in that of their numbers here."""

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        rows = [dmv_events(words, heads, by_class, state) for heads in oracle.all_trees(len(words), False)]
        return [(tuple(sorted(grammar.number(*event) for event in row)), row) for row in rows]

    return Listed(grammar, lambda words: listed(tuple(words)), **options)


def by_distance(widths: tuple[int, ...], attach: bool) -> Listed:
    grammar = DistanceDMV(3, widths=widths, distance_attach=attach)
    state = functools.partial(distances, widths=widths)

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        return [(heads, dmv_events(words, heads, attach, state)) for heads in oracle.all_trees(len(words), False)]

    return Listed(grammar, lambda words: listed(tuple(words)), "sample_trees", likely={"stop": [0.5, 2.0]})


# ---------------------------------------------------------------------- chains


def chain_events(words: Sequence[int], states: Sequence[int], K: int) -> list[Event]:
    moves: list[Event] = [("transition", pair) for pair in itertools.pairwise([*states, K])]
    return [("initial", (states[0],)), *moves, *(("emission", pair) for pair in zip(states, words, strict=True))]


def chains(K: int, V: int) -> Listed:
    def listed(words: Sequence[int]) -> list[Derivation]:
        return [(s, chain_events(words, s, K)) for s in itertools.product(range(K), repeat=len(words))]

    return Listed(HMM(K, V), listed, "sample_states")


def own_chains(K: int, V: int) -> Listed:
    grammar = own_grammars.hmm(K, V)

    def listed(words: Sequence[int]) -> list[Derivation]:
        rows = [chain_events(words, s, K) for s in itertools.product(range(K), repeat=len(words))]
        return [(tuple(sorted(grammar.number(*event) for event in row)), row) for row in rows]

    return Listed(grammar, listed)


# ---------------------------------------------------------------------- phrases

TEXTS = {
    "CFG": ("S -> A S | A | A 'b' S A\nA -> B | 'a' | 'a' 'b' | 'b' 'b'\nB -> 'b'", ["a b a", "b a a", "a a", "b b a"]),
    "CFG in normal form": ("S -> S S | A S | 'a'\nA -> S A | 'b'", ["a b a", "b a a", "a a", "b b a"]),
}


def rules(text: str, sentences: list[str]) -> Listed:
    grammar = CFG.from_string(text)

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        found = rewriting.derivations(grammar, [grammar.words[w] for w in words])
        return [(tuple(row), [("rules", (r,)) for r in row]) for row in found]

    longer = [3.0 if all(isinstance(x, Word) for x in rhs) else 0.3 for _, rhs in grammar.rules]
    words = grammar.encode(sentences)
    return Listed(grammar, lambda words: listed(tuple(words)), "sample_trees", words, {"rules": longer})


def low_rank(grammar: Any) -> Listed:
    N, S = grammar.num_nonterminals, grammar.num_nonterminals + grammar.num_preterminals
    has_rank = "rank" in grammar.blocks

    def below(symbol: int, part: Sequence[int]) -> Iterator[list[Event]]:
        if symbol >= N:
            if len(part) == 1:
                yield [("emission", (symbol - N, part[0]))]
            return
        for r in range(grammar.blocks["rank"].shape[1]) if has_rank else [symbol]:
            own: list[Event] = [("rank", (symbol, r))] if has_rank else []
            for k, b, c in itertools.product(range(1, len(part)), range(S), range(S)):
                for left, right in itertools.product(below(b, part[:k]), below(c, part[k:])):
                    yield [*own, ("left", (r, b)), *left, ("right", (r, c)), *right]

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        rows = ([("root", (symbol,)), *rest] for symbol in range(S) for rest in below(symbol, words))
        return numbered(grammar, rows)

    likely = {side: [0.1] * N + [1.0] * (S - N) for side in ("left", "right")}
    return Listed(grammar, lambda words: listed(tuple(words)), "sample_derivations", likely=likely)


def own_rules(grammar: Any, S: int) -> Listed:
    """Of grammars in Chomsky normal form with a table of rules, and with a list of them."""

    def below(A: int, words: Sequence[int]) -> Iterator[list[Event]]:
        if len(words) == 1:
            yield [("word", (A, words[0]))]
        for k, B, C in itertools.product(range(1, len(words)), range(S), range(S)):
            if "binary" in grammar.blocks:
                used: list[Event] = [("binary", (A, B, C))]
            else:
                rows = zip(*(own_grammars.LISTS[x] for x in ("parent", "left", "right")), strict=True)
                used = [("rule", (r,)) for r, row in enumerate(rows) if row == (A, B, C)]
            for event, left, right in itertools.product(used, below(B, words[:k]), below(C, words[k:])):
                yield [event, *left, *right]

    def listed(words: Sequence[int]) -> list[Derivation]:
        if "start" not in grammar.blocks:
            return numbered(grammar, below(0, words))
        return numbered(grammar, ([("start", (A,)), *rest] for A in range(S) for rest in below(A, words)))

    return Listed(grammar, listed, words=torch.where(WORDS > 1, 0, WORDS)[[0, 1, 2, 4]])


def phrases(
    symbol: int, words: Sequence[int], first: int, end: int, S: int
) -> Iterator[tuple[int, list[Event], dict[int, int], str]]:
    """Head positions, events, heads and brackets of a phrase of words first .. end - 1, from its rule down."""
    if symbol == 0:
        if end == first + 1:
            yield first, [], {}, f"(word {first})"
        return
    for k, b, c, side in itertools.product(range(first + 1, end), range(S), range(S), range(2)):
        ends = [(k, end), (first, k)] if side == 0 else [(first, k), (k, end)]
        for h, below, heads, one in phrases(b, words, *ends[0], S):
            for m, others, more, two in phrases(c, words, *ends[1], S):
                rule = ("rule", (symbol - 1, words[h], side * S * S + b * S + c))
                attach = ("attach", (side, c, words[h], words[m]))
                both = [attach, *others, *below] if side == 0 else [*below, attach, *others]
                text = f"(N{symbol}[{h}] {two} {one})" if side == 0 else f"(N{symbol}[{h}] {one} {two})"
                yield h, [rule, *both], {**heads, **more, m: h + 1}, text


def lexical_trees(words: Sequence[int], S: int) -> Iterator[tuple[list[Event], dict[int, int], str]]:
    """All trees of a lexicalised grammar: events in order, heads by position, brackets."""
    for symbol in range(S):
        for h, below, heads, text in phrases(symbol, words, 0, len(words), S):
            yield [("root", (symbol,)), ("top", (symbol, words[h])), *below], {**heads, h: 0}, text


def lexicalised(N: int, T: int) -> Listed:
    grammar, S = LexicalisedPCFG(N, T), N + 1

    @functools.cache
    def listed(words: tuple[int, ...]) -> list[Derivation]:
        return numbered(grammar, (events for events, _, _ in lexical_trees(words, S)))

    children = [4.0 if b == c == 0 else 0.3 for b, c in itertools.product(range(S), repeat=2)] * 2
    likely = {"root": [0.2] + [0.8 / N] * N, "rule": children}
    return Listed(grammar, lambda words: listed(tuple(words)), "sample_derivations", likely=likely)


CASES: dict[str, Listed] = {
    "DMV": trees_of(DMV(3)),
    "DMV with valence_attach": trees_of(DMV(3, valence_attach=True)),
    "DMV of one valence": trees_of(DMV(3, num_valences=1)),
    "extended DMV of three valences": trees_of(DMV(3, valence_attach=True, num_valences=3)),
    "distances": by_distance((1, 3), True),
    "three distances": by_distance((1, 2, 4), False),
    "wide distances": by_distance((2, 3), True),
    "HMM": chains(3, 3),
    **{name: rules(*text) for name, text in TEXTS.items()},
    "tensor": low_rank(TensorPCFG(2, 2, 3, 3)),
    "simple": low_rank(SimplePCFG(2, 2, 3)),
    "lexicalised": lexicalised(2, 3),
    "own DMV": rows_of_trees(own_grammars.dmv(3, 3), False, functools.partial(valences, number=3)),
    "own HMM": own_chains(2, 3),
    "own PCFG": own_rules(own_grammars.cnf(2, 2), 2),
    "own rules": own_rules(own_grammars.listed(), 2),
}
