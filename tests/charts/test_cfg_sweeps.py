# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of context-free grammars: against plain torch, and against lists of all tuples of trees."""

import itertools
import math

import numpy as np
import pytest
import torch

from pyrogram import CFG, models
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.data import generated_verbs
from pyrogram.grammars.recursive_collapsed import RecursiveUpdates
from pyrogram.infer import TreeHastings
from pyrogram.models import morphology
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


def sparse():
    """Most rules cannot occur in most sentences, or only where others can."""
    grammar = CFG.from_string(SPARSE)
    return grammar, grammar.encode(
        ["a b", "a b c", "c", "a a b b", "d", "b c d", "d d d a b", "a d b", "y x b", "z x z c"]
    )


SPARSE = """
S -> A B | S C | C | P Q | D | A S B
A -> 'a' | 'e' 'e' | X
B -> 'b' | 'e' 'a' 'b' 'e' | 'b' 'b'
C -> D | C C | 'c' | B C
D -> 'd' | 'd' D | Y Z | 'e' X
P -> P P | 'a' | Q P
Q -> 'c' | 'c' Q | X Y
X -> Y X | 'x'
Y -> 'y' | Z
Z -> 'z' Z | 'z' Y Y | 'z'
"""


def dense():
    """Enough symbols for tiles of four rows and of fewer, and sentences of all lengths up to nine."""
    grammar = CFG.dense(5, 6, 7)
    words = torch.randint(7, (19, 9), generator=torch.Generator().manual_seed(0))
    words[torch.arange(9) > torch.arange(19)[:, None] % 9] = -1
    return grammar, words


def chains():
    """Unary chains, above words and above pairs, and a symbol that no sentence can use."""
    rules = "S -> A S | A | C B C\nA -> B | 'a'\nB -> C | S S | 'b' 'b'\nC -> 'a' | 'b' | D 'c'\nD -> 'c' 'c' D | 'c'"
    grammar = CFG.from_string(rules + "\nE -> E E | A E")
    rows = ["a", "b b", "a b", "b b b b a", "a c c b", "c c c c", "a b a b b a", "b b b", "a a", "b a c c c c a"]
    return grammar, grammar.encode(rows)


CASES = {"rules of all kinds": english, "substrings": verbs, "dense": dense, "unary chains": chains, "sparse": sparse}


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 8, 20])
@pytest.mark.parametrize("case", CASES)
def test_collapsed_vb_is_that_of_plain_torch(case, batch_size):
    grammar, words = CASES[case]()
    compiled, plain = grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)
    assert isinstance(compiled, RecursiveUpdates)
    start = grammar.initial_weights(words, seed=1)
    (*found, own), (*expected, plain_own) = compiled.expected_counts(start), plain.expected_counts(start)
    torch.testing.assert_close(found, expected)
    alpha = {"rules": 0.01 + torch.rand(len(grammar.rules))}
    fields = [
        CorpusCounts({"rules": s.total(o)["rules"].clone()}, alpha) for s, o in ((compiled, own), (plain, plain_own))
    ]
    torch.testing.assert_close(fields[0].counts, fields[1].counts)
    for _ in range(3):
        order = torch.randperm(len(words))
        entropies, own = compiled.collapsed_vb(fields[0], own, order, batch_size)
        plain_entropies, plain_own = plain.collapsed_vb(fields[1], plain_own, order, batch_size)
        torch.testing.assert_close(entropies, plain_entropies)
        torch.testing.assert_close(fields[0].counts, fields[1].counts)
        torch.testing.assert_close(compiled.total(own), fields[0].counts)
        some = torch.tensor([1, 0])
        torch.testing.assert_close(compiled.dense_counts(own, some), plain.dense_counts(plain_own, some))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_expected_counts_under_weights_that_are_not_normalised(factor):
    grammar, words = english()
    weights = {"rules": factor * grammar.initial_weights(words, seed=2)["rules"]}
    log_z, entropies, own = grammar.collapsed_updates(words).expected_counts(weights)
    posterior = grammar.derivation(weights, words)
    torch.testing.assert_close(log_z, posterior.log_partition)
    torch.testing.assert_close(entropies, posterior.entropy())
    torch.testing.assert_close(
        grammar.collapsed_updates(words).total(own)["rules"], posterior.expected_counts()["rules"].sum(0)
    )


def test_long_sentences_of_rare_words():
    """Their probability is far below what real space holds, unless it is scaled."""
    grammar = CFG.dense(2, 2, 1000)
    words = torch.randint(1000, (3, 150))
    words[1, 2:] = -1
    weights = grammar.initial_weights(words, seed=0)
    log_z, _, own = grammar.collapsed_updates(words).expected_counts(weights)
    assert log_z[0] < -800
    torch.testing.assert_close(log_z, grammar.log_partition({"rules": weights["rules"].log()}, words))
    expected = grammar.expected_counts({"rules": weights["rules"].log()}, words)[1]
    torch.testing.assert_close(grammar.collapsed_updates(words).total(own), expected)


def kept(sweeps, sentence):
    """The rules for which a value is kept of a sentence."""
    places = sweeps._places(sentence)
    return sorted(set(places[places < len(sweeps.grammar.rules)].tolist()))


def test_own_counts_are_of_events_that_can_occur():
    """All derivations of each sentence, listed, use the events for which a value is kept, and no others."""
    grammar, words = sparse()
    sweeps = grammar.collapsed_updates(words)
    assert isinstance(sweeps, RecursiveUpdates)
    sizes = []
    for i, row in enumerate(words):
        derivation = grammar.derivation({"rules": torch.ones(len(grammar.rules))}, row[row >= 0])
        found = derivation.enumerate_support() if derivation.log_partition > -math.inf else torch.tensor([])
        expected = found[found >= 0].unique().tolist()
        assert kept(sweeps, i) == expected
        sizes.append(len(expected))
    assert 0 in sizes and len(set(sizes)) > 4
    # A list has events, multinomials and what is no event, each of these parts in whole cells of eight numbers.
    assert sweeps.num_own <= 3 * sum(sizes) + 3 * 7 * len(words)


def test_events_of_long_sentences():
    """What can occur has a positive expected count."""
    grammar = CFG.from_string(
        "S -> A S | S B | C | S T | U S\nA -> 'a' | A A\nB -> 'b'\nC -> 'c' 'c'\nT -> B B\nU -> C A"
    )
    rows = ["a " * 70 + "c c", "c c" + " b" * 140, "a a c c b", "c c a " + "a " * 63 + "c c", "a " * 64 + "b"]
    words = grammar.encode(rows)
    counts = grammar.derivation({"rules": torch.ones(len(grammar.rules))}, words).expected_counts()["rules"]
    sweeps = grammar.collapsed_updates(words)
    for i in range(len(words)):
        assert kept(sweeps, i) == counts[i].nonzero()[:, 0].tolist()


def test_one_derivation_beside_more_than_a_number_can_say():
    """Its share of them is zero in float64, but its rules are kept."""
    grammar = CFG.from_string("G -> S | W\nS -> S S | 'a'\nW -> 'a' W | 'a'")
    words = grammar.encode(["a " * 600, "a a"])
    sweeps = grammar.collapsed_updates(words)
    assert kept(sweeps, 0) == kept(sweeps, 1) == list(range(6))
    ones = {"rules": torch.ones(6, dtype=torch.float64)}
    log_z, _, own = sweeps.expected_counts(ones)
    assert log_z[0] > 750 and sweeps.dense_counts(own, torch.tensor([0]))["rules"][0, 1] == 0


def scarce():
    """What 'c' nearly always is hardly ever is in a sentence: no scale suits both."""
    grammar = CFG.from_string("S -> B S | B | A S | A\nA -> 'a' | 'c'\nB -> 'b' | 'c'")
    alpha = {"rules": torch.tensor([1, 1, 1e-300, 1e-300, 1, 1, 1, 1e-250])}
    return grammar, grammar.encode(["b b c b", "c c c c c c c c", "b"]), alpha


def test_what_no_scale_suits_has_no_need_of_one():
    grammar, words, alpha = scarce()
    results = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        *found, own = sweeps.expected_counts(alpha)
        counts = sweeps.total(own)["rules"]
        field = CorpusCounts({"rules": counts.clone()}, alpha)
        entropies, own = sweeps.collapsed_vb(field, own, torch.arange(3), 8)
        results.append((*found, counts, entropies, field.counts["rules"], sweeps.total(own)["rules"]))
    torch.testing.assert_close(*results)


def test_impossible_sentences_have_no_counts():
    grammar = CFG.from_string("S -> 'a' S | 'a' | 'b'")
    words = grammar.encode(["a a", "b a", "b"])
    log_z, entropies, own = grammar.collapsed_updates(words).expected_counts(grammar.initial_weights(words, "uniform"))
    assert log_z[1] == entropies[1] == -math.inf and log_z[[0, 2]].isfinite().all()
    torch.testing.assert_close(grammar.collapsed_updates(words).total(own)["rules"], torch.tensor([1.0, 1.0, 1.0]))


def joint(grammar, counts, alpha):
    """log of the product of B(f + α) / B(α), by lists of multinomials."""
    total, start = 0.0, 0
    for size in grammar.blocks["rules"].sizes:
        f, a = counts[start : start + size].double(), alpha[start : start + size]
        total += float((torch.lgamma(f + a) - torch.lgamma(a)).sum())
        total -= float(torch.lgamma((f + a).sum()) - torch.lgamma(a.sum()))
        start += size
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "temperature"), [pytest.param(1, 1.0, marks=pytest.mark.slow), (3, 1.0), (2, 2.5)]
)
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
    sweeps = grammar.collapsed_updates(words)
    now = torch.stack([t[0] for t in padded]).contiguous()
    field = CorpusCounts(sweeps.counts(now), {"rules": alpha})
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


@pytest.mark.one_in(10)
@pytest.mark.parametrize("least", [1.0, 1e-40, 1e-230])
@pytest.mark.parametrize("batch_size", [3, 20])
def test_proposals_are_draws_from_the_posterior(batch_size, least):
    """Under a very great concentration all proposals come from the same weights, and are accepted.

    Small weights that derivations need are below what draws trust without a look at the adjoints.
    """
    grammar = CFG.from_string("S -> T\nT -> T T | A | 'a' 'b' | 'a'\nA -> 'a' | 'b'")
    weights = torch.tensor([1.0, 0.2, 0.3, 0.1, 0.4, 0.3, 0.7 * least])
    words = grammar.encode(["a b a a", "b", "a b", "b a b", "a a a"] * 4)
    sweeps = grammar.collapsed_updates(words)
    field = CorpusCounts({"rules": torch.zeros(7)}, {"rules": 1e12 * weights / grammar.blocks["rules"].totals(weights)})
    trees = sweeps.draw({"rules": weights.log()}, torch.Generator().manual_seed(0))
    field.counts["rules"] += sweeps.counts(trees)["rules"]
    weights = field.concentration["rules"] / 1e12
    generator, drawn = torch.Generator().manual_seed(1), []
    for _ in range(300 if least > 1e-200 else 40):
        assert sweeps.hastings(field, trees, torch.arange(20), batch_size, generator=generator).all()
        drawn.append(trees.clone())
    for sentence in range(5):
        posterior = grammar.derivation({"rules": weights}, words[sentence])
        support = posterior.enumerate_support()
        found = torch.cat([t[sentence::5, : support.shape[1]] for t in drawn])
        observed = (found[:, None] == support).all(-1)
        assert observed.any(1).all()
        assert chi_square(observed.double().sum(0), posterior.log_prob(support).exp()) > 1e-4


def test_an_interrupted_chain_goes_on(tmp_path):
    grammar, words = dense()
    histories = []
    for name, stops in (("whole", [4]), ("parts", [2, 4])):
        for stop in stops:
            chain = TreeHastings(models.dirichlet.dirichlet, seed=5, order="shuffled", initial_weights="uniform")
            chain.run(words, grammar, num_steps=stop, progress=False, checkpoint=tmp_path / name)
        histories.append(chain.history)
    assert len(histories[0]) == 4 and histories[0] == histories[1]


def test_the_seed_decides():
    grammar, words = verbs()
    sweeps, results = grammar.collapsed_updates(words), []
    start = sweeps.draw({"rules": torch.zeros(len(grammar.rules))}, torch.Generator().manual_seed(3))
    threads = torch.get_num_threads()
    for seed in (0, 0, 1):
        torch.set_num_threads(1 + len(results))  # which decide nothing
        trees, generator = start.clone(), torch.Generator().manual_seed(seed)
        field = CorpusCounts(sweeps.counts(trees), {"rules": torch.full((len(grammar.rules),), 0.1)})
        for _ in range(3):
            sweeps.hastings(field, trees, torch.arange(len(words)), 8, generator=generator)
        results.append(trees)
    torch.set_num_threads(threads)
    assert (results[0] == results[1]).all() and (results[0] != results[2]).any()


def test_lists_lie_as_compiled_code_reads_them():
    """Arrays without gaps, also while the events that sentences use are found; here in several parts."""
    grammar = CFG.from_string(ENGLISH)
    words = grammar.encode(["I saw a man in the park"] * 5 + ["man"] * 20 + ["saw I in the park"] * 9)
    sweeps = grammar.collapsed_updates(words)
    assert isinstance(sweeps, RecursiveUpdates)
    for events in (sweeps._engine.events, sweeps._engine.events.listed()):
        arrays = {name: x for name, x in vars(events).items() if isinstance(x, np.ndarray)}
        assert {"sizes", "ends", "starts", "places", "elements", "owners"} <= arrays.keys()
        assert all(x.flags.c_contiguous for x in arrays.values())
        assert int(events.sizes.sum()) == len(events.places) == len(events.elements)


def test_no_sentences():
    grammar, words = english()
    sweeps = grammar.collapsed_updates(words[:0])
    log_z, entropies, own = sweeps.expected_counts(grammar.initial_weights(words, "uniform"))
    assert log_z.shape == entropies.shape == own["values"].shape == (0,)
    assert sweeps.total(own)["rules"].tolist() == [0.0] * len(grammar.rules)
