# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of context-free grammars: against plain torch, and against lists of all tuples of trees."""

import itertools
import math

import pytest
import torch
from pyrogram.models import morphology

from pyrogram import CFG
from pyrogram.charts import cfg_sweeps
from pyrogram.data import generated_verbs
from pyrogram.grammars.cfg_sweeps import CFGSweeps
from pyrogram.sweeps import Field, Sweeps
from pyrogram.testing import chi_square

ENGLISH = """
S -> NP VP | VP
NP -> Det N | NP PP | 'I'
VP -> V NP | VP PP | V
PP -> 'in' NP | 'in' 'the' 'park'
Det -> 'a' | 'the'
N -> 'man' | 'park'
V -> 'saw' | 'man'
"""
SENTENCES = ["I saw a man in the park in a park", "man", "a man saw a park in the park", "saw I in the park"]


def english():
    grammar = CFG.from_string(ENGLISH)
    return grammar, grammar.encode(SENTENCES)


def verbs():
    forms = generated_verbs(20, num_roots=3).forms
    grammar = morphology.verb_grammar(forms)
    return grammar, morphology.encode(grammar, forms)


def dense():
    grammar = CFG.dense(3, 4, 5)
    return grammar, torch.tensor([[0, 1, 2, 3, 4, 0], [2, 2, 1, -1, -1, -1], [4, 3, 0, 1, -1, -1]])


CASES = {"rules of all kinds": english, "substrings": verbs, "dense": dense}


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("case", CASES)
def test_collapsed_vb_is_that_of_plain_torch(case, batch_size):
    grammar, words = CASES[case]()
    compiled, plain = grammar.sweeps(words), Sweeps(grammar, words)
    assert isinstance(compiled, CFGSweeps)
    start = grammar.initial_weights(words, seed=1)
    (*found, own), (*expected, plain_own) = compiled.expect(start), plain.expect(start)
    torch.testing.assert_close(found, expected)
    alpha = {"rules": 0.01 + torch.rand(len(grammar.rules))}
    fields = [Field({"rules": s.total(o)["rules"].clone()}, alpha) for s, o in ((compiled, own), (plain, plain_own))]
    torch.testing.assert_close(fields[0].counts, fields[1].counts)
    spare = None
    for _ in range(3):
        order = torch.randperm(len(words))
        entropies, new = compiled.collapsed_vb(fields[0], own, order, batch_size, spare=spare)
        spare, own = own, new
        plain_entropies, plain_own = plain.collapsed_vb(fields[1], plain_own, order, batch_size)
        torch.testing.assert_close(entropies, plain_entropies)
        torch.testing.assert_close(fields[0].counts, fields[1].counts)
        torch.testing.assert_close(compiled.total(own), fields[0].counts)
        some = torch.tensor([1, 0])
        torch.testing.assert_close(compiled.of_sentences(own, some), plain.of_sentences(plain_own, some))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_expected_counts_under_weights_that_are_not_normalised(factor):
    grammar, words = english()
    weights = {"rules": factor * grammar.initial_weights(words, seed=2)["rules"]}
    log_z, entropies, own = grammar.sweeps(words).expect(weights)
    posterior = grammar.derivation(weights, words)
    torch.testing.assert_close(log_z, posterior.log_partition)
    torch.testing.assert_close(entropies, posterior.entropy())
    torch.testing.assert_close(grammar.sweeps(words).total(own)["rules"], posterior.expected_counts()["rules"].sum(0))


def test_long_sentences_of_rare_words():
    """Their probability is far below what real space holds, unless it is scaled."""
    grammar = CFG.dense(2, 2, 1000)
    words = torch.randint(1000, (3, 150))
    words[1, 2:] = -1
    weights = grammar.initial_weights(words, seed=0)
    log_z, _, own = grammar.sweeps(words).expect(weights)
    assert log_z[0] < -800
    layout, out = grammar.sweeps(words)._layout, torch.zeros(len(own["values"]))
    *_, failed = cfg_sweeps.expect(layout, grammar.table, weights["rules"].numpy(), out.numpy())
    assert not failed.any()  # nothing was left to plain torch
    torch.testing.assert_close(log_z, grammar.log_partition({"rules": weights["rules"].log()}, words))
    expected = grammar.expected_counts({"rules": weights["rules"].log()}, words)[1]
    torch.testing.assert_close(grammar.sweeps(words).total(own), expected)


def test_impossible_sentences_are_done_in_plain_torch():
    grammar = CFG.from_string("S -> 'a' S | 'a' | 'b'")
    words = grammar.encode(["a a", "b a", "b"])
    log_z, entropies, own = grammar.sweeps(words).expect(grammar.initial_weights(words, "uniform"))
    assert log_z[1] == entropies[1] == -math.inf and log_z[[0, 2]].isfinite().all()
    torch.testing.assert_close(grammar.sweeps(words).total(own)["rules"], torch.tensor([1.0, 1.0, 1.0]))


def joint(grammar, counts, alpha):
    """log of the product of B(f + α) / B(α), by lists of multinomials."""
    total, start = 0.0, 0
    for size in grammar.blocks["rules"].sizes:
        f, a = counts[start : start + size].double(), alpha[start : start + size]
        total += float((torch.lgamma(f + a) - torch.lgamma(a)).sum())
        total -= float(torch.lgamma((f + a).sum()) - torch.lgamma(a.sum()))
        start += size
    return total


@pytest.mark.parametrize(("batch_size", "temperature"), [(1, 1.0), (3, 1.0), (2, 2.5)])
def test_hastings_samples_the_collapsed_posterior(batch_size, temperature):
    """All tuples of trees of three sentences, with repeated rules, as often as P(t | x, α)^(1/T) says."""
    grammar = CFG.from_string("S -> S S | 'a' | 'b' | T\nT -> 'a' 'b' | 'a'")
    words = grammar.encode(["a b a", "a b", "a a"])
    alpha = torch.tensor([0.3, 0.2, 0.5, 0.4, 0.1, 0.7])
    trees = [grammar.derivation({"rules": torch.ones(6)}, row[row >= 0]).enumerate_support() for row in words]
    width = max(t.shape[-1] for t in trees)
    padded = [torch.nn.functional.pad(t, (0, width - t.shape[-1]), value=-1) for t in trees]
    tuples = list(itertools.product(*(range(len(t)) for t in padded)))
    flat = [torch.cat([padded[i][k] for i, k in enumerate(chosen)]) for chosen in tuples]
    scores = [joint(grammar, torch.bincount(f[f >= 0], minlength=6), alpha) / temperature for f in flat]
    probs = torch.tensor(scores).softmax(0)
    index = {tuple(f.tolist()): i for i, f in enumerate(flat)}
    sweeps = grammar.sweeps(words)
    now = torch.stack([t[0] for t in padded]).contiguous()
    field = Field(sweeps.counts(now), {"rules": alpha})
    generator = torch.Generator().manual_seed(0)
    observed, accepted, thinning = torch.zeros(len(flat)), [], 12
    for step in range(1500 * thinning):
        accepted.append(
            sweeps.hastings(
                field,
                now,
                torch.randperm(3, generator=generator),
                batch_size,
                generator=generator,
                temperature=temperature,
            )
        )
        if step % thinning == 0:
            observed[index[tuple(now.flatten().tolist())]] += 1
    torch.testing.assert_close(field.counts, sweeps.counts(now))
    share = torch.stack(accepted).double().mean()
    assert 0.3 < share < 0.99
    assert chi_square(observed, probs) > 1e-3


def test_the_seed_decides():
    grammar, words = verbs()
    sweeps, results = grammar.sweeps(words), []
    start = sweeps.draw({"rules": torch.zeros(len(grammar.rules))}, torch.Generator().manual_seed(3))
    for seed in (0, 0, 1):
        trees, generator = start.clone(), torch.Generator().manual_seed(seed)
        field = Field(sweeps.counts(trees), {"rules": torch.full((len(grammar.rules),), 0.1)})
        for _ in range(3):
            sweeps.hastings(field, trees, torch.arange(len(words)), 8, generator=generator)
        results.append(trees)
    assert (results[0] == results[1]).all() and (results[0] != results[2]).any()
