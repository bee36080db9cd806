# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps that do sentences alone, in one lane, against sweeps in eight lanes and in plain torch."""

import numpy as np
import pytest
import torch
from own_grammars import binary_rules, cnf, hmm, listed, mixed_rules, tied
from sweep_cases import agree, pair, random_words, uniform_logs

from pyrogram import DMV
from pyrogram.grammars import CFG, HMM
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.engine import SweepEngine
from pyrogram.sweeps.plain import CorpusCounts

GRAMMARS = {
    "DMV": lambda: DMV(3),
    "tied extended DMV": lambda: tied(DMV(3, valence_attach=True)),
    "HMM": lambda: hmm(5, 3),
    "PCFG": lambda: cnf(2, 3),
    "lists of rules": lambda: listed(3),
    "the library's HMM, tied": lambda: tied(HMM(9, 3)),
    "rules of any form, tied": lambda: tied(CFG(mixed_rules(3))),
    "the library's CFG, tied": lambda: tied(CFG(binary_rules(3))),
}
OF_TREES = [GRAMMARS["DMV"], GRAMMARS["tied extended DMV"]]
SLOW = {"tied extended DMV", "HMM", "lists of rules", "rules of any form, tied", "the library's CFG, tied"}
grammars = pytest.mark.parametrize(
    "make", [pytest.param(f, id=n, marks=[pytest.mark.slow] if n in SLOW else []) for n, f in GRAMMARS.items()]
)


def in_turn(period):
    """Batches alone and in lanes: of every ``period`` the first one in lanes; with one, none alone."""
    return lambda _, order, size: np.arange(-(-len(order) // size)) % period > 0


@pytest.mark.one_in(2)
@grammars
@pytest.mark.parametrize("batch_size", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_collapsed_vb(make, batch_size, monkeypatch):
    """Whatever batches are alone: the counts of lanes, and those of plain torch.

    Of trees they are the very same; where there are symbols, those of a sentence alone are summed up eight at a time.
    """
    words, order = random_words(3, 23, 9), torch.randperm(23)
    (sweeps, _, own, *_), (plain, plain_field, plain_own, *_) = pair(make(), words)
    alpha, start = plain_field.concentration, sweeps.total(own)
    found = []
    for period in (1, 3):
        monkeypatch.setattr(SweepEngine, "_are_alone", in_turn(period))
        field, new, entropies = CorpusCounts({n: f.clone() for n, f in start.items()}, alpha), own, []
        for _ in range(2):
            scores, new = sweeps.collapsed_vb(field, new, order, batch_size)
            entropies.append(scores)
        found.append((field, new, entropies))
    (lanes, in_lanes, one), (mixed, of_both, other) = found
    pairs = [(in_lanes["values"], of_both["values"]), *((lanes.counts[n], mixed.counts[n]) for n in start)]
    for x, y in pairs:
        assert torch.equal(x, y) if make in OF_TREES else torch.allclose(x, y, rtol=1e-12, atol=1e-13)
    for scores, again in zip(one, other, strict=True):
        agree(scores, again, atol=1e-12)
        expected, plain_own = plain.collapsed_vb(plain_field, plain_own, order, batch_size)
        agree(again, expected)
    for name in start:
        agree(mixed.counts[name], plain_field.counts[name])


@pytest.mark.one_in(2)
@grammars
@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_hastings(make, temperature, monkeypatch):
    """The same random numbers give the same derivations, of sentences that have some."""
    grammar, words = make(), random_words(3, 23, 9)
    words = words[grammar.log_partition(uniform_logs(grammar), words) > -torch.inf]
    order, sweeps = torch.randperm(len(words)), grammar.collapsed_updates(words)
    run, first = sweeps.hastings, sweeps.draw(uniform_logs(grammar))
    alpha = {n: torch.rand(b.shape, dtype=torch.float64) + 0.1 for n, b in grammar.blocks.items()}
    found = []
    for period in (1, 2):
        monkeypatch.setattr(SweepEngine, "_are_alone", in_turn(period))
        trees, generator = first.clone(), torch.Generator().manual_seed(0)
        corpus = CorpusCounts(sweeps.counts(trees), alpha)
        accepted = [run(corpus, trees, order, 4, generator=generator, temperature=temperature) for _ in range(3)]
        found.append((trees, torch.stack(accepted), corpus.counts))
    (trees, accepted, counts), (again, accepted_again, counts_again) = found
    assert torch.equal(trees, again) and torch.equal(accepted, accepted_again)
    assert bool((trees != first).any()) and all(torch.equal(counts[name], counts_again[name]) for name in counts)


def test_one_sentence_of_small_weights_alone():
    """No sentence fails, and those beside it have the numbers that they have without it."""
    words = torch.full((3, 12), -1)
    words[0], words[1, :3], words[2, :2] = torch.arange(12) % 2, 0, 1
    weights = {n: b.uniform(torch.ones(())) for n, b in DMV(2).blocks.items()}
    weights["attach"] = torch.full_like(weights["attach"], 1e-60)
    sweeps = DMV(2).collapsed_updates(words)
    assert isinstance(sweeps, RecursiveUpdates)
    *_, own = sweeps.expected_counts(weights)
    values, out = own["values"].numpy(), np.empty(len(own["values"]))
    counts, alpha = sweeps._shared(CorpusCounts(sweeps.total(own), {}, weights))
    log_z, _ = sweeps._engine.collapsed_vb(counts, alpha, values, out, np.arange(3), 1)
    expected, entropies, own = DMV(2).collapsed_updates(words[1:, :3]).expected_counts(weights)
    agree(torch.from_numpy(log_z)[1:], expected)
    assert out.sum() - out[sweeps._places_of(0)].sum() == pytest.approx(float(own["values"].sum()), rel=1e-12)
    assert torch.from_numpy(out[sweeps._places_of(0)]).allclose(
        torch.from_numpy(values[sweeps._places_of(0)]), rtol=1e-12
    )
    found, _ = sweeps.collapsed_vb(
        CorpusCounts(sweeps.total({"values": torch.from_numpy(values)}), {}, weights),
        {"values": torch.from_numpy(values)},
        torch.arange(3),
        1,
    )
    agree(found[1:], entropies)
    assert bool(found.isfinite().all())


def test_long_sentences_are_alone_where_lanes_would_be_empty():
    """By the lengths of batches; and a sentence of 140 words has the counts that it has in lanes, whose loops align."""
    words = torch.full((24, 140), -1)
    for i, n in enumerate([140, *[20] * 7, *[140] * 8, *[100] * 8]):
        words[i, :n] = torch.randint(3, (n,))
    sweeps = DMV(3).collapsed_updates(words)
    assert isinstance(sweeps, RecursiveUpdates)
    engine, order = sweeps._engine, np.arange(24)
    assert engine._are_alone(order, 8).tolist() == [True, False, False]
    assert engine._are_alone(order, 16).tolist() == [False, False]
    assert engine._are_alone(order[:9], 8).tolist() == [True, True]
    assert engine._are_alone(order[-3:], 8).tolist() == [False]
    assert engine._are_alone(order, 1).all()
    start = DMV(3).initial_weights(words, "random", seed=1)
    *_, own = sweeps.expected_counts(start)
    alpha = {n: torch.full(b.shape, 0.3, dtype=torch.float64) for n, b in DMV(3).blocks.items()}
    found = []
    for is_alone in (True, False):
        engine._are_alone = lambda order, _, is_alone=is_alone: np.full(1, is_alone)
        _, new = sweeps.collapsed_vb(CorpusCounts(sweeps.total(own), alpha), own, torch.arange(24), 24)
        found.append(new["values"])
    assert torch.equal(*found)
