# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps over tilted sentences: the same as in plain torch, and exact."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from own_grammars import binary_rules, hmm, tied
from torch import Tensor

from pyrogram import DMV
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammars import CFG, HMM
from pyrogram.grammars.recursive_collapsed import RecursiveUpdates
from pyrogram.infer.model.mixture import MixtureGrammar

GRAMMARS: dict[str, Callable[[], Any]] = {
    "DMV": lambda: DMV(2),
    "extended DMV": lambda: DMV(2, valence_attach=True),
    "HMM": lambda: HMM(2, 2),
    "CFG": lambda: CFG(binary_rules(2)),
    "own chain": lambda: hmm(2, 2),
}


def tilted(base: Any, forbid: bool = True) -> Any:
    """Nats of all blocks; of the DMV, word 0 takes no child on its left."""
    generator = torch.Generator().manual_seed(3)
    nats = {n: torch.randn(b.shape, generator=generator, dtype=torch.float64) for n, b in base.blocks.items()}
    if isinstance(base, DMV) and forbid:
        nats["attach"][0, 0] = -torch.inf
    return base.tilted(nats)


def random_words(count: int, longest: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    words = torch.full((count, longest), -1)
    for i in range(count):
        n = 1 + i % longest
        words[i, :n] = torch.randint(0, 2, (n,), generator=generator)
    return words


def agree(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


def cases() -> list[Any]:
    kinds = [(name, "") for name in GRAMMARS]
    kinds += [(name, "tied") for name in ("DMV", "HMM", "CFG")] + [(name, "mixture") for name in ("DMV", "CFG")]
    return [pytest.param(name, how, id=f"{name} {how}".strip()) for name, how in kinds]


@pytest.mark.one_in(18)
@pytest.mark.parametrize(("name", "how"), cases())
def test_sweeps_agree_with_plain_torch(name: str, how: str) -> None:
    grammar = tilted(GRAMMARS[name]())
    whole = {"": lambda g: g, "tied": tied, "mixture": lambda g: MixtureGrammar(g, "k", 2)}[how](grammar)
    words = random_words(8, 4)
    words = words[[len(row[row >= 0]) > 1 for row in words]]  # the CFG derives no single word
    fast, plain = whole.collapsed_updates(words), CollapsedUpdates(whole, words)
    assert isinstance(fast, RecursiveUpdates)
    start = whole.initial_weights(words, "random", seed=1)
    alpha = {n: torch.full(b.shape, 0.4, dtype=torch.float64) for n, b in whole.blocks.items()}
    results = []
    for updates in (fast, plain):
        log_z, entropies, own = updates.expected_counts(start)
        field = CorpusCounts({n: f.double() for n, f in updates.total(own).items()}, alpha)
        found = [log_z, entropies]
        for batch_size in (1, 12):
            order = torch.arange(len(words)).flip(0)
            entropies, own = updates.collapsed_vb(field, own, order, batch_size)
            found += [entropies, *(f.clone() for f in field.counts.values())]
        results.append(found)
    for a, b in zip(*results, strict=True):
        agree(a.double(), b.double())
    trees = fast.draw({n: w.double().log() for n, w in start.items()}, torch.Generator().manual_seed(0))
    agree(fast.log_tilt(trees), _nats(whole, words, trees))
    if how == "":
        agree(plain.log_tilt(trees), fast.log_tilt(trees))


def _nats(grammar: Any, words: Tensor, trees: Tensor) -> Tensor:
    """Of trees, the sum over their events, by the counts of the grammar that is tilted."""
    if isinstance(grammar, MixtureGrammar):
        return _nats(grammar.base, words, trees[:, 1:])
    grammar = grammar.base if not grammar.nats else grammar
    ones = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in grammar.blocks.items()}
    counts = grammar.base.derivation(None, words, log_weights=ones).counts(trees)
    return torch.stack([torch.where(c > 0, c * grammar.nats[n], 0.0).sum() for n, c in counts.items()]).sum()


@pytest.mark.slow
@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("base", [DMV(2), HMM(2, 2)], ids=["DMV", "HMM"])
def test_sentences_known_not_at_all_partly_and_wholly(base: Any, tie: bool) -> None:
    words = torch.tensor([[0, 1, 1], [1, 0, -1], [0, 1, 0], [1, 1, 0]])
    known = torch.tensor([[-1, -1, -1], [0, 1, -1], [-1, 0, -1], [-1, -1, -1]])  # of the second one all
    grammar = tilted(base, forbid=False)
    given = grammar.sentences(words, known)
    whole = tied(grammar) if tie else grammar
    updates, results = whole.collapsed_updates(given), []
    assert isinstance(updates, RecursiveUpdates)
    for sweeps in (updates, CollapsedUpdates(whole, given)):
        log_z, entropies, own = sweeps.expected_counts(whole.initial_weights(words, "random", seed=1))
        found = [log_z, entropies, *sweeps.total(own).values()]
        corpus = CorpusCounts(sweeps.total(own), {n: torch.full(b.shape, 0.3) for n, b in whole.blocks.items()})
        entropies, own = sweeps.collapsed_vb(corpus, own, torch.tensor([0, 3, 1, 2]), 1)
        results.append([*found, entropies, *sweeps.total(own).values(), *corpus.counts.values()])
    for a, b in zip(*results, strict=True):
        agree(a.double(), b.double())
    trees = updates.draw({n: b.uniform(torch.ones(())).log() for n, b in whole.blocks.items()})
    agree(updates.log_tilt(trees), _nats(grammar, words, trees))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", ["DMV", "HMM"])
@pytest.mark.parametrize("way", ["compiled", pytest.param("plain", marks=pytest.mark.slow)])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_one_hastings_sweep_leaves_the_posterior_as_it_is(name: str, way: str, temperature: float) -> None:
    """From every pair of derivations of two sentences, as often as they are probable: the same after a batch of two."""
    grammar, words = tilted(GRAMMARS[name]()), torch.tensor([[0, 1, 0], [1, 0, -1]])
    updates = grammar.collapsed_updates(words) if way == "compiled" else CollapsedUpdates(grammar, words)
    zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in grammar.blocks.items()}
    every = [grammar.base.derivation(None, row[row >= 0], log_weights=zeros).enumerate_support() for row in words]
    every[1] = torch.nn.functional.pad(every[1], (0, 1), value=-1)
    alpha = {n: torch.linspace(0.1, 1.0, b.shape.numel()).reshape(b.shape).double() for n, b in grammar.blocks.items()}
    pairs = [torch.stack([a, b]) for a in every[0] for b in every[1]]
    law, log_joint = grammar.base.derivation(None, words, log_weights=zeros), []
    for pair in pairs:  # log of prod B(f + alpha) / B(alpha), and the nats
        counts = {n: c.sum(0).double() for n, c in law.counts(pair).items()}
        score = _nats(grammar, words, pair)
        for n, c in counts.items():
            score = score + (c + alpha[n]).lgamma().sum() - (c + alpha[n]).sum(-1).lgamma().sum()
        log_joint.append(score)
    exact = (torch.stack(log_joint) / temperature).softmax(0)
    generator, copies, seen = (
        torch.Generator().manual_seed(1),
        600 if way == "compiled" else 200,
        torch.zeros(len(pairs)),
    )
    starts = torch.multinomial(exact, copies, replacement=True, generator=torch.Generator().manual_seed(0))
    every_pair, own = torch.stack(pairs), [updates.counts(pair) for pair in pairs]
    for start in starts.tolist():
        trees = pairs[start].clone()
        corpus = CorpusCounts({n: c.double().clone() for n, c in own[start].items()}, alpha)
        updates.hastings(corpus, trees, torch.arange(2), 2, generator=generator, temperature=temperature)
        seen[(every_pair == trees).all(-1).all(-1)] += 1
    assert seen.sum() == copies
    expected = exact * copies
    assert float(seen[exact == 0].sum()) == 0
    rare = expected < 5
    chi = ((seen - expected) ** 2 / expected)[~rare].sum()
    if float(expected[rare].sum()) > 0:
        chi += (seen[rare].sum() - expected[rare].sum()) ** 2 / expected[rare].sum()
    cells = int((~rare).sum())
    assert cells > 1 and chi < cells + 4 * (2 * cells) ** 0.5


def test_great_nats() -> None:
    """What real space cannot hold is done in plain torch."""
    words = random_words(4, 6)
    grammar = DMV(2).tilted({"root": torch.tensor([300.0, 250.0]), "stop": torch.tensor([120.0, -90.0])})
    start = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in grammar.blocks.items()}
    found, expected = (
        u.expected_counts(start) for u in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words))
    )
    agree(found[0], expected[0])
    agree(found[1], expected[1])
