# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps over sentences of which a part is known: the same as in plain torch, and exact."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from own_grammars import binary_rules, dmv, hmm, mixed_rules, tied
from torch import Tensor

from pyrogram import DMV
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammar import Grammar
from pyrogram.grammars import CFG, HMM
from pyrogram.grammars.recursive_collapsed import RecursiveUpdates
from pyrogram.sentences import Sentences

KINDS = 2


def random_words(count: int, longest: int) -> Tensor:
    words = torch.full((count, longest), -1)
    for i in range(count):
        n = 1 + i % longest
        words[i, :n] = torch.randint(0, KINDS, (n,))
    return words


def arcs(words: Tensor, forbid: bool, scale: float = 1.0) -> dict[str, Tensor]:
    """Log factors of arcs of each sentence, and that the first word is no root."""
    N, n = words.shape
    scores = scale * torch.randn(N, n + 1, n + 1)
    if forbid:
        scores[words[:, 1:2].ge(0).any(1), 0, 1] = -torch.inf
    return {"arc_scores": scores}


def heads(words: Tensor) -> dict[str, Tensor]:
    """The second word is the root."""
    known = torch.full_like(words, -1)
    known[:, 1] = torch.where(words[:, 1] >= 0, 0, -1)
    return {"heads": known}


def states(words: Tensor) -> dict[str, Tensor]:
    """The second word has the last state, and others have log factors."""
    known = torch.full_like(words, -1)
    known[:, 1] = torch.where(words[:, 1] >= 0, 1, -1)
    return {"states": known, "state_scores": torch.randn(*words.shape, 2)}


def brackets(words: Tensor) -> dict[str, Tensor]:
    """The first two words are a constituent."""
    known = torch.zeros(len(words), words.shape[1] + 1, words.shape[1] + 1, dtype=torch.bool)
    known[:, 0, 2] = words[:, 1] >= 0
    return {"brackets": known}


def factors(grammar: Any, words: Tensor, *names: str) -> dict[str, Tensor]:
    """Log factors of items, whose symbols have known numbers."""
    found = {}
    for name in names:
        sizes = grammar.recursion.tables[name].sizes
        positions = grammar.num_axes(name) - len(sizes)
        found[name] = torch.randn(len(words), *(words.shape[1] + 1,) * positions, *sizes)
    return found


CASES: dict[str, Callable[[Tensor], tuple[Grammar, dict[str, Tensor]]]] = {
    "heads": lambda words: (DMV(KINDS), heads(words)),
    "forbidden arcs": lambda words: (DMV(KINDS), arcs(words, True)),
    "DMV of three valences": lambda words: (DMV(KINDS, num_valences=3), {**arcs(words, False), **heads(words)}),
    "extended DMV": lambda words: (DMV(KINDS, valence_attach=True), {**arcs(words, False), **heads(words)}),
    "three valences": lambda words: (g := dmv(3, KINDS), factors(g, words, "RC", "RO")),
    "states": lambda words: (g := hmm(2, KINDS), factors(g, words, "F")),
    "states of the library's HMM": lambda words: (HMM(2, KINDS), states(words)),
    "brackets": lambda words: (CFG(binary_rules(KINDS)), brackets(words)),
    "brackets, rules of any form": lambda words: (CFG(mixed_rules(KINDS)), brackets(words)),
}
TIED = {name: f"{name}, tied" for name in ("heads", "states of the library's HMM", "brackets")}
LONG = {*TIED.values(), "DMV of three valences", "brackets, rules of any form"}
cases = pytest.mark.parametrize("case", [*CASES, *TIED.values()])


def sweeps(case: str, words: Tensor) -> tuple[RecursiveUpdates, CollapsedUpdates, Any]:
    """Compiled and plain, of sentences of which a part is known, and the grammar."""
    grammar, known = CASES[case.removesuffix(", tied")](words)
    whole = tied(grammar) if case in TIED.values() else grammar
    given = grammar.sentences(words, known)
    some = given[given.is_informed & ~given.is_whole]
    found = whole.collapsed_updates(some)
    assert isinstance(found, RecursiveUpdates) and found.plan.given
    return found, CollapsedUpdates(whole, some), grammar


def agree(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.one_in(36)
@cases
@pytest.mark.parametrize(
    "fixed", [(), *[pytest.param((name,), marks=pytest.mark.slow) for name in ("stop", "transition")]]
)
@pytest.mark.parametrize("longest", [pytest.param(2, marks=pytest.mark.slow), 7])
def test_sweeps_agree_with_plain_torch(case: str, fixed: tuple[str, ...], longest: int) -> None:
    fast, plain, _ = sweeps(case, random_words(21, longest))
    if not fast.blocks.keys() >= set(fixed):
        pytest.skip("it has no such block")
    start = plain.grammar.initial_weights(fast.words, "random", seed=1)
    alpha = {n: torch.rand(b.shape) + 0.1 for n, b in fast.blocks.items() if n not in fixed}
    results = []
    for updates in (fast, plain):
        log_z, entropies, own = updates.expected_counts(start)
        field = CorpusCounts(updates.total(own), alpha, {n: start[n] for n in fixed})
        found = [log_z, entropies]
        for batch_size in (1, 3, 8, 12):
            order = torch.arange(len(fast.words)).flip(0)
            entropies, own = updates.collapsed_vb(field, own, order, batch_size)
            everyone = updates.dense_counts(own, order)
            found += [entropies, *(f.clone() for f in field.counts.values()), *everyone.values()]
        results.append(found)
    for a, b in zip(*results, strict=True):
        agree(a, b)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("base", [DMV(KINDS), HMM(2, KINDS)], ids=["DMV", "HMM"])
def test_sentences_known_not_at_all_partly_and_wholly(base: Any, tie: bool) -> None:
    words = torch.tensor([[0, 1, 1], [1, 0, -1], [0, 1, 0], [1, 1, 0]])
    known = torch.tensor([[-1, -1, -1], [0, 1, -1], [-1, 0, -1], [-1, -1, -1]])  # of the second one all
    given = base.sentences(words, known)
    whole = tied(base) if tie else base
    results = []
    updates = whole.collapsed_updates(given)
    assert isinstance(updates, RecursiveUpdates) and given.is_whole.tolist() == [False, True, False, False]
    for sweeps in (updates, CollapsedUpdates(whole, given)):
        log_z, entropies, own = sweeps.expected_counts(whole.initial_weights(words, "random", seed=1))
        everyone = torch.arange(4)
        found = [log_z, entropies, *sweeps.total(own).values(), *sweeps.dense_counts(own, everyone).values()]
        corpus = CorpusCounts(sweeps.total(own), {n: torch.full(b.shape, 0.3) for n, b in whole.blocks.items()})
        entropies, own = sweeps.collapsed_vb(corpus, own, torch.tensor([0, 3, 1, 2]), 1)
        found += [entropies, *sweeps.total(own).values(), *corpus.counts.values()]
        results.append(found)
    for a, b in zip(*results, strict=True):
        agree(a, b)
    logs = {n: b.uniform(torch.ones(())).log() for n, b in whole.blocks.items()}
    trees = updates.draw(logs)
    of_trees = updates.counts(trees)
    for name, c in CollapsedUpdates(whole, given).counts(trees).items():
        agree(of_trees[name], c)
    corpus = CorpusCounts(
        {n: c.clone() for n, c in of_trees.items()}, {n: torch.ones(c.shape) for n, c in logs.items()}
    )
    for seed in range(5):
        updates.hastings(corpus, trees, torch.randperm(4), 2, generator=torch.Generator().manual_seed(seed))
    for name, c in updates.counts(trees).items():
        agree(corpus.counts[name], c)


def test_great_factors() -> None:
    """No sentence can be trusted in real space; plain torch then does them in their order."""
    words = random_words(12, 7)
    grammar = DMV(KINDS)
    given = grammar.sentences(words, arcs(words, False, 150.0))
    start = grammar.initial_weights(words, "random", seed=1)
    results = []
    for updates in (grammar.collapsed_updates(given), CollapsedUpdates(grammar, given)):
        log_z, _, own = updates.expected_counts(start)
        field = CorpusCounts(updates.total(own), {n: torch.ones(b.shape) for n, b in grammar.blocks.items()})
        entropies, own = updates.collapsed_vb(field, own, torch.arange(12), 1)
        results.append([log_z, entropies, *field.counts.values()])
    for a, b in zip(*results, strict=True):
        agree(a, b)


@pytest.mark.parametrize("case", ["forbidden arcs", "states"])
def test_factors_that_are_no_numbers(case: str) -> None:
    """Their logarithms are: plain torch takes these."""
    words = random_words(6, 4)
    grammar, known = CASES[case](words)
    great = {name: scores * 2000.0 for name, scores in known.items()}
    updates = grammar.collapsed_updates(grammar.sentences(words, great))
    assert not isinstance(updates, RecursiveUpdates)
    log_z, _, own = updates.expected_counts(grammar.initial_weights(words, "random", seed=1))
    assert bool(log_z.isfinite().all()) and bool(updates.total(own)[next(iter(grammar.blocks))].isfinite().all())


def log_factors(grammar: Any, sentence: Sentences, derivations: Tensor) -> Tensor:
    """The log factor of each derivation of a sentence."""
    if isinstance(grammar, (DMV, HMM, CFG)):
        every = torch.zeros(len(derivations), dtype=torch.long)
        return torch.as_tensor(grammar.structure.log_factors(sentence[every], derivations))
    scores = sentence.known["F"][0]
    first = sum(grammar.blocks[name].shape.numel() for name in ("initial", "transition"))
    found = []
    for row in derivations.tolist():  # the last word's events come first
        states = [(e - first) // KINDS for e in row if e >= first][::-1]
        found.append(sum(scores[t, z] for t, z in enumerate(states, 1)))
    return torch.stack(found)


@pytest.mark.one_in(40)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in (*CASES, *TIED.values())
        if name != "three valences"
    ],
)
@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_one_hastings_sweep_leaves_the_posterior_as_it_is(case: str, temperature: float) -> None:
    """From every pair of derivations of two sentences, as often as they are probable: the same after a batch of two."""
    fast, plain, grammar = sweeps(case, torch.tensor([[0, 1, 0, 1], [1, 0, 1, -1]]))
    uniform = {n: b.uniform(torch.ones(())) for n, b in fast.blocks.items()}
    zeros = {n: torch.zeros(b.shape) for n, b in grammar.blocks.items()}
    width = fast.draw({n: w.log() for n, w in uniform.items()}).shape[1]
    supports, bonus = [], []
    for b, own in enumerate(fast.words):
        every = grammar.derivation(zeros, own[own >= 0]).enumerate_support()
        every = torch.nn.functional.pad(every, (0, width - every.shape[1]), value=-1)
        score = log_factors(grammar, fast.sentences[b : b + 1], every)
        supports.append(every[score > -torch.inf])
        bonus.append(score[score > -torch.inf])
    pairs = [torch.stack([a, b]) for a in supports[0] for b in supports[1]]
    bonuses = torch.stack([a + b for a in bonus[0] for b in bonus[1]])
    drawn = torch.Generator().manual_seed(2)
    alpha = {n: 0.05 + torch.rand(b.shape, generator=drawn) for n, b in fast.blocks.items()}
    log_joint = []
    for pair in pairs:  # log of prod B(f + alpha) / B(alpha)
        pseudo = {n: c + alpha[n] for n, c in plain.counts(pair).items()}
        sums = {n: fast.blocks[n].sums(c) for n, c in pseudo.items()}
        log_joint.append(sum(c.lgamma().sum() - sums[n].lgamma().sum() for n, c in pseudo.items()))
    exact = (torch.stack(log_joint) / temperature + bonuses).softmax(0)
    copies, generator = 1200, torch.Generator().manual_seed(1)
    starts = torch.multinomial(exact, copies, replacement=True, generator=torch.Generator().manual_seed(0))
    seen = torch.zeros(len(pairs))
    every_pair, own = torch.stack(pairs), [fast.counts(pair) for pair in pairs]
    for start in starts.tolist():
        trees = pairs[start].clone()
        order = torch.randperm(2, generator=generator)
        corpus = CorpusCounts({n: c.clone() for n, c in own[start].items()}, alpha)
        fast.hastings(corpus, trees, order, 2, generator=generator, temperature=temperature)
        seen[(every_pair == trees).all(-1).all(-1)] += 1
    assert seen.sum() == copies
    expected = exact * copies
    rare = expected < 5
    chi = ((seen - expected) ** 2 / expected)[~rare].sum()
    if rare.any():
        chi += (seen[rare].sum() - expected[rare].sum()) ** 2 / expected[rare].sum().clamp_min(1e-9)
    cells = int((~rare).sum()) + int(rare.any()) - 1
    assert cells > 1 and chi < cells + 5 * (2 * cells) ** 0.5
