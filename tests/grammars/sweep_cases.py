# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Cases of sweeps, by name: a grammar, then what is done to it, and what is known of its sentences."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from own_grammars import binary_rules, cnf, dmv, hmm, listed, mixed_rules, one_table_grammar, tied
from torch import Tensor

from pyrogram import CFG, DMV, HMM
from pyrogram.data import generated_verbs
from pyrogram.grammar import Weights
from pyrogram.infer.model.composed import MixtureGrammar, TiedGrammar
from pyrogram.models import morphology
from pyrogram.sentences import Known, Sentences
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

VERBS = generated_verbs(20, num_roots=3).forms
#: Grammars by their number of words.
GRAMMARS: dict[str, Callable[[int], Any]] = {
    "DMV": DMV,
    "extended DMV": lambda words: DMV(words, valence_attach=True),
    "extended DMV of three valences": lambda words: DMV(words, valence_attach=True, num_valences=3),
    "DMV of three valences": lambda words: DMV(words, num_valences=3),
    "DMV of one valence": lambda words: DMV(words, num_valences=1),
    "HMM": lambda words: HMM(words, words),
    "CFG": lambda words: CFG(binary_rules(words)),
    "rules of any form": lambda words: CFG(mixed_rules(words)),
    "dense CFG": lambda words: CFG.dense(5, 6, words),
    "own DMV": lambda words: dmv(3, words),
    "own HMM": lambda words: hmm(2, words),
    "own HMM of 5 states": lambda words: hmm(5, words),
    "own PCFG": lambda words: cnf(2, words),
    "own rules": listed,
    "own table": one_table_grammar,
    "verbs": lambda words: morphology.verb_grammar(VERBS),
    **{f"HMM of {K} states": lambda words, K=K: HMM(K, words) for K in (1, 4, 8, 9, 17, 33)},
}
#: Grammars with sentences of their own.
TEXTS: dict[str, tuple[str, str]] = {
    "English": (
        "S -> NP VP | VP; NP -> Det N | NP PP | 'I'; VP -> V NP | VP PP | V; PP -> 'in' NP | 'in' 'the' 'park'; "
        "Det -> 'a' | 'the'; N -> 'man' | 'park'; V -> 'saw' | 'man'",
        "I saw a man in the park in a park, man, a man saw a park in the park, saw I in the park",
    ),
    "sparse rules": (  # most cannot occur in most sentences, or only where others can
        "S -> A B | S C | C | P Q | D | A S B; A -> 'a' | 'e' 'e' | X; B -> 'b' | 'e' 'a' 'b' 'e' | 'b' 'b'; "
        "C -> D | C C | 'c' | B C; D -> 'd' | 'd' D | Y Z | 'e' X; P -> P P | 'a' | Q P; Q -> 'c' | 'c' Q | X Y; "
        "X -> Y X | 'x'; Y -> 'y' | Z; Z -> 'z' Z | 'z' Y Y | 'z'",
        "a b, a b c, c, a a b b, d, b c d, d d d a b, a d b, y x b, z x z c",
    ),
    "chains": (  # of unary rules, above words and above pairs; and a symbol that no sentence can use
        "S -> A S | A | C B C; A -> B | 'a'; B -> C | S S | 'b' 'b'; C -> 'a' | 'b' | D 'c'; D -> 'c' 'c' D | 'c'; "
        "E -> E E | A E",
        "a, b b, a b, b b b b a, a c c b, c c c c, a b a b b a, b b b, a a, b a c c c c a",
    ),
    "repeated rules": ("S -> T; T -> T T | A | 'a' 'b' | 'a'; A -> 'a' | 'b'", "b a b, a b, a a"),
    "long sentences": (
        "S -> A S | S B | C | S T | U S; A -> 'a' | A A; B -> 'b'; C -> 'c' 'c'; T -> B B; U -> C A",
        ", ".join(["a " * 70 + "c c", "c c" + " b" * 140, "a a c c b", "c c a " + "a " * 63 + "c c", "a " * 64 + "b"]),
    ),
}


def split(base: Any) -> TiedGrammar:
    """Ties after which a row of the last block has entries of two multinomials."""
    whole, (*_, last) = tied(base), base.blocks
    entries = {name: index.clone() for name, index in whole.entries.items()}
    own = entries[last].reshape(-1)
    own[[0, -1]] = own[[-1, 0]]
    return TiedGrammar(base, whole.blocks, entries)


def tilted(base: Any, forbid: bool = False) -> Any:
    """Nats of all events; -inf of some of the second block, which no sentence needs."""
    generator = torch.Generator().manual_seed(3)
    nats = {n: torch.randn(b.shape, generator=generator, dtype=torch.float64) for n, b in base.blocks.items()}
    if forbid:
        list(nats.values())[1][0, 0] = -torch.inf
    return base.tilted(nats)


WAYS: dict[str, Callable[[Any], Any]] = {
    "tied": tied,
    "split": split,
    "tilted": tilted,
    "forbidding": lambda grammar: tilted(grammar, forbid=True),
    "two": lambda grammar: MixtureGrammar(grammar, "kind", 2),
    "three": lambda grammar: MixtureGrammar(grammar, "kind", 3),
}


def some(grammar: Any, words: Tensor | Sentences) -> dict[str, Tensor]:
    """Nothing of every third sentence, the first choice of the next, all of the next; of rows, all or nothing."""
    logs, L = uniform_logs(grammar), grammar.structure.length(Sentences.of(words).words.shape[1])
    known, possible = torch.full((len(words), L), -1), grammar.log_partition(logs, words) > -torch.inf
    known[possible] = grammar.derivation(None, words[possible], log_weights=logs).sample()
    known[::3], known[1::3, 0 if grammar.structure.is_by_row else 1 :] = -1, -1
    return {grammar.structure.derivation: known}


def factors(grammar: Any, words: Tensor) -> dict[str, Tensor]:
    """Log factors of arcs, of which one is forbidden; of states; of items, whose symbols have known numbers."""
    N, n = words.shape
    if isinstance(grammar, DMV):
        arcs = torch.randn(N, n + 1, n + 1)
        arcs[words[:, 1:2].ge(0).any(1), 0, 1] = -torch.inf
        return {"arc_scores": arcs}
    if isinstance(grammar, HMM):
        return {"state_scores": torch.randn(N, n, grammar.num_states)}
    found = {}
    for name in {"F", "RC", "RO"} & grammar.recursion.tables.keys():
        sizes = grammar.recursion.tables[name].sizes
        found[name] = torch.randn(N, *(n + 1,) * (grammar.num_axes(name) - len(sizes)), *sizes)
    return found


def second(grammar: Any, words: Tensor) -> dict[str, Tensor]:
    """The second word is the root, or has the last state, beside factors."""
    kind, value = ("heads", 0) if isinstance(grammar, DMV) else ("states", grammar.num_states - 1)
    known = torch.full_like(words, -1)
    known[:, 1:2] = torch.where(words[:, 1:2] >= 0, value, -1)
    return {kind: known, **{name: x.masked_fill(x.isinf(), 0.0) for name, x in factors(grammar, words).items()}}


def brackets(grammar: Any, words: Tensor) -> dict[str, Tensor]:
    """The first two words are a constituent, or the last two are, by turns."""
    known = torch.zeros(len(words), words.shape[1] + 1, words.shape[1] + 1, dtype=torch.bool)
    for i, n in enumerate((words >= 0).sum(1).tolist()):
        begin = i % 2 * (n - 2)
        if n > 1:
            known[i, begin, begin + 2] = True
    return {"brackets": known}


KNOWN: dict[str, Callable[[Any, Tensor], Known]] = {
    "some known": some,
    "factors": factors,
    "both": second,
    "brackets": brackets,
    "brackets and some known": lambda g, words: {**(b := brackets(g, words)), **some(g, g.sentences(words, b))},
}
#: Those that the fast stage has.
FAST = [
    *("HMM, both", "HMM, tied, some known", "HMM, tilted, two"),
    *("DMV, tilted, some known", "own PCFG, split", "CFG, brackets"),
]
CASES = [
    *(*FAST, *GRAMMARS, "English", "sparse rules", "chains", "repeated rules"),
    *(f"{name}, tied" for name in ("DMV", "extended DMV", "own HMM", "HMM", "own PCFG", "CFG", "rules of any form")),
    *(f"{name}, split" for name in ("DMV", "own HMM", "HMM")),
    *("DMV, two", "own DMV, two", "HMM, three", "CFG, two", "DMV, two, tied"),
    *(f"{name}, tilted" for name in ("DMV", "extended DMV", "HMM", "CFG", "own HMM")),
    *("DMV, forbidding", "HMM, forbidding", "DMV, tilted, two", "CFG, tilted, two"),
    *(f"{name}, tilted, tied" for name in ("DMV", "HMM", "CFG")),
    *(f"{name}, factors" for name in ("DMV", "own DMV", "own HMM", "DMV, tied")),
    *(f"{name}, both" for name in ("DMV of three valences", "extended DMV", "HMM, tied", "DMV, two", "DMV, tilted")),
    *("rules of any form, brackets", "CFG, tied, brackets", "CFG, two, brackets", "CFG, brackets and some known"),
    *(f"{name}, some known" for name in ("DMV", "HMM", "own HMM", "rules of any form", "DMV, two")),
    *(f"{name}, some known" for name in ("DMV, tied", "HMM, tilted, tied", "CFG, tilted")),
]


def cases(names: Iterable[str] = CASES, fast: Iterable[str] = FAST) -> list[Any]:
    """Parameters of a test: those of some cases, most of them in the slow stage."""
    return [pytest.param(name, marks=[] if name in fast else [pytest.mark.slow]) for name in names]


def random_words(num_words: int, count: int, longest: int) -> Tensor:
    lengths = torch.randint(1, longest + 1, (count,))
    return torch.where(torch.arange(longest) < lengths[:, None], torch.randint(num_words, (count, longest)), -1)


def uniform_logs(grammar: Any) -> Weights:
    return {n: b.uniform(torch.ones((), dtype=torch.float64)).log() for n, b in grammar.blocks.items()}


def copied(counts: Weights) -> Weights:
    return {name: c.clone() for name, c in counts.items()}


def agree(a: Any, b: Any, rtol: float = 1e-10, atol: float = 1e-11) -> None:
    torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def pair(grammar: Any, words: Tensor | Sentences, fixed: Iterable[str] = (), scale: float = 1.0) -> list[Any]:
    """Compiled and plain sweeps, each with fields and own counts that start alike, log Z and entropies.

    :param fixed: blocks whose weights are given.
    :param scale: of the weights that they start with.
    """
    start = {n: scale * w for n, w in grammar.initial_weights(Sentences.of(words).words, "random", seed=1).items()}
    alpha = {n: torch.rand(b.shape) + 0.1 for n, b in grammar.blocks.items() if n not in fixed}
    found = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        assert isinstance(sweeps, RecursiveUpdates) == (not found)
        log_z, entropies, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha, {n: start[n] for n in fixed})
        found.append((sweeps, field, own, log_z, entropies))
    return found


class Case:
    """A grammar, what is known of its sentences, and factors of derivations by their definition."""

    def __init__(self, name: str, num_words: int = 3) -> None:
        self.first, *ways = name.split(", ")
        text = TEXTS.get(name, ("",))[0].replace("; ", "\n")
        self.grammar: Any = CFG.from_string(text) if text else GRAMMARS[self.first](num_words)
        self.inner = self.grammar  # with a tilt, but whose weights are not tied, and without components
        for way in ways:
            self.grammar = WAYS.get(way, lambda same: same)(self.grammar)
            self.inner = self.grammar if "tilted" in way or way == "forbidding" else self.inner
        self.known, self.is_mixture = KNOWN.get(ways[-1]) if ways else None, "kind" in self.grammar.blocks

    def words(self, count: int, longest: int) -> Tensor:
        """The case's own, again and again; random ones of up to so many words, if it has none."""
        if self.first == "verbs":
            return morphology.encode(self.grammar, VERBS)
        if self.first not in TEXTS:
            return random_words(3, count, longest)
        own = self.grammar.encode(TEXTS[self.first][1].split(", "))
        return own[torch.arange(max(count, len(own))) % len(own)]

    def sentences(self, words: Tensor) -> Sentences:
        return self.grammar.sentences(words, self.known(self.inner, words) if self.known else None)

    def rows(self, trees: Tensor) -> Tensor:
        """Derivations of the inner grammar."""
        return trees[:, 1:] if self.is_mixture else trees

    def nats(self, words: Tensor, trees: Tensor) -> Tensor:
        """Of each derivation, the nats of its events, which are counted by the grammar that is tilted."""
        own, total = self.inner, torch.zeros(len(words))
        if own.nats:
            law = own.base.derivation(None, words, log_weights=uniform_logs(own))
            for name, c in law.counts(self.rows(trees)).items():
                total += torch.where(c > 0, c * own.nats[name], 0.0).flatten(1).sum(1)
        return total

    def log_factors(self, sentences: Sentences, trees: Tensor) -> Tensor:
        """Of each derivation, the log factor that evidence has; -inf, where it does not agree with it."""
        if {"RC", "RO"} & sentences.known.keys():
            return self.inner.structure.log_factors(sentences, trees)
        found = torch.zeros(len(trees))
        for b, row in enumerate(self.rows(trees).tolist()):
            own = [x for x in row if x >= 0]
            found[b] = sum(self._log_factor(kind, table[b], own) for kind, table in sentences.known.items())
        return found

    def _log_factor(self, kind: str, known: Tensor, row: list[int]) -> float:
        if kind == "arc_scores":
            return sum(float(known[h, x]) for x, h in enumerate(row, 1))
        if kind == "state_scores":
            return sum(float(known[t, z]) for t, z in enumerate(row))
        if kind == "F":  # of states of an own HMM, whose last word's events come first
            first = sum(self.inner.blocks[name].shape.numel() for name in ("initial", "transition"))
            states = [(e - first) // self.inner.num_words for e in row if e >= first][::-1]
            return sum(float(known[t, z]) for t, z in enumerate(states, 1))
        if kind == "brackets":
            spans, pairs = self._spans(row), known.nonzero().tolist()
            agrees = not any(a < i < b < k or i < a < k < b for i, k in spans for a, b in pairs)
        else:  # choices, or a row of events; -1 is unknown
            agrees = all(x in (-1, y) for x, y in zip(known.tolist(), row, strict=False))
        return 0.0 if agrees else -torch.inf

    def _spans(self, row: list[int]) -> list[tuple[int, int]]:
        """Those of a leftmost derivation."""
        rules, found = iter(row), []

        def grow(start: int) -> int:
            end = start
            for symbol in self.inner.rules[next(rules)][1]:
                end = grow(end) if symbol in self.inner.nonterminals else end + 1
            found.append((start, end))
            return end

        grow(0)
        return found
