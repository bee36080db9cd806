# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of grammars that are recursions against the same in plain torch."""

import numpy as np
import pytest
import torch
from own_grammars import binary_rules, cnf, dmv, hmm, listed, mixed_rules, one_table_grammar, tied

from pyrogram import DMV
from pyrogram.charts import dmv as chart
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammars import CFG, HMM
from pyrogram.grammars.recursive_collapsed import RecursiveUpdates
from pyrogram.infer.model.mixture import MixtureGrammar
from pyrogram.infer.model.tied import TiedGrammar
from pyrogram.recursion.emit.sentence_events import SentenceEvents
from pyrogram.recursion.rules.lowering import lower


def split(base):
    """Ties after which a row of the last block has entries of two multinomials."""
    whole, (*_, last) = tied(base), base.blocks
    entries = {name: index.clone() for name, index in whole.entries.items()}
    own = entries[last].reshape(-1)
    own[[0, -1]] = own[[-1, 0]]
    return TiedGrammar(base, whole.blocks, entries)


# DMVs by their number of tags: the library's, and one of three valences, whose derivations are rows.
GRAMMARS = {
    "DMV": DMV,
    "extended DMV": lambda tags: DMV(tags, valence_attach=True),
    "extended DMV of three valences": lambda tags: DMV(tags, valence_attach=True, num_valences=3),
    "DMV of one valence": lambda tags: DMV(tags, num_valences=1),
    "three valences": lambda tags: dmv(3, tags),
    "tied DMV": lambda tags: tied(DMV(tags)),
    "tied extended DMV": lambda tags: tied(DMV(tags, valence_attach=True)),
    "DMV with split rows": lambda tags: split(DMV(tags)),
    "HMM": lambda words: hmm(2, words),  # those from here on have symbols in their items
    "PCFG": lambda words: cnf(2, words),
    "HMM of five states": lambda words: hmm(5, words),
    "lists of rules": listed,
    "tied HMM": lambda words: tied(hmm(2, words)),
    "tied PCFG": lambda words: tied(cnf(2, words)),
    "the library's HMM, tied": lambda words: tied(HMM(3, words)),
    "the library's CFG, tied": lambda words: tied(CFG(binary_rules(words))),
    "rules of any form, tied": lambda words: tied(CFG(mixed_rules(words))),
    "HMM with split rows": lambda words: split(hmm(2, words)),
    "the library's HMM, with split rows": lambda words: split(HMM(3, words)),
    "two DMVs": lambda tags: MixtureGrammar(DMV(tags), "kind", 2),
    "three valences, two grammars": lambda tags: MixtureGrammar(dmv(3, tags), "kind", 2),
    "three of the library's HMMs": lambda words: MixtureGrammar(HMM(2, words), "kind", 3),
    "two of the library's CFGs": lambda words: MixtureGrammar(CFG(binary_rules(words)), "kind", 2),
    "two DMVs, tied": lambda tags: tied(MixtureGrammar(DMV(tags), "kind", 2)),
}
all_grammars = pytest.mark.parametrize("make", GRAMMARS.values(), ids=GRAMMARS)


def random_words(num_tags, count, longest):
    words = torch.full((count, longest), -1)
    for i in range(count):
        n = int(torch.randint(1, longest + 1, ()))
        words[i, :n] = torch.randint(0, num_tags, (n,))
    return words


def pair(grammar, words, fixed=()):
    """Compiled and plain sweeps, own counts and fields that start alike."""
    start = grammar.initial_weights(words, "random", seed=1)
    alpha = {n: torch.rand(b.shape) + 0.1 for n, b in grammar.blocks.items() if n not in fixed}
    found = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        assert isinstance(sweeps, RecursiveUpdates) == (not found)
        log_z, entropies, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha, {n: start[n] for n in fixed})
        found.append((sweeps, field, own, log_z, entropies))
    return found


def agree(a, b, atol=1e-11):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=atol)


def with_fixed_blocks():
    """Grammars, and blocks that are fixed: without any in the slow stage, where others are in the fast one."""
    for name, make in {**GRAMMARS, "one table": one_table_grammar}.items():
        blocks = make(2).blocks.keys()
        for fixed in ((), ("attach",), ("root", "stop")):
            if blocks >= set(fixed):
                is_slow = fixed == ("attach",) or (fixed == () and "stop" in blocks)
                marks = [pytest.mark.slow] if is_slow else []
                yield pytest.param(make, fixed, id=f"{' and '.join(fixed) or 'none'}-{name}", marks=marks)


@pytest.mark.one_in(20)
@pytest.mark.parametrize(("make", "fixed"), list(with_fixed_blocks()))
@pytest.mark.parametrize("longest", [*[pytest.param(n, marks=pytest.mark.slow) for n in (1, 7)], 18])
def test_sweeps_agree_with_plain_torch(make, fixed, longest):
    grammar = make(3)
    words = random_words(3, 21, longest)
    (fast, fast_field, fast_own, *first), (plain, plain_field, plain_own, *second) = pair(grammar, words, fixed)
    for a, b in zip(first, second, strict=True):
        agree(a, b)
    for batch_size in (1, 3, 8, 12):
        order = torch.randperm(21)
        entropies, fast_own = fast.collapsed_vb(fast_field, fast_own, order, batch_size)
        expected, plain_own = plain.collapsed_vb(plain_field, plain_own, order, batch_size)
        agree(entropies, expected)
        everyone = torch.arange(21)
        for name in grammar.blocks:
            agree(fast_field.counts[name], plain_field.counts[name])
            agree(fast.dense_counts(fast_own, everyone)[name], plain.dense_counts(plain_own, everyone)[name])
            agree(fast.total(fast_own)[name], fast_field.counts[name])


def test_a_sweep_leaves_the_counts_that_it_is_given():
    grammar, words = DMV(3), random_words(3, 9, 5)
    (fast, field, own, *_), _ = pair(grammar, words)
    before = own["values"].clone()
    fast.collapsed_vb(field, own, torch.arange(9), 8)
    assert torch.equal(own["values"], before)


@pytest.mark.parametrize("make", [DMV, GRAMMARS["tied DMV"]])
def test_what_real_space_cannot_hold_is_done_in_logarithms(make):
    """Products of weights far below the range of real space."""
    grammar = make(2)
    words = random_words(2, 10, 12)
    start = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items()}
    start["attach"] = torch.full_like(start["attach"], 1e-60)
    fast, plain = grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)
    results = []
    for sweeps in (fast, plain):
        log_z, entropies, own = sweeps.expected_counts(start)
        assert float(log_z.min()) < -750
        total = sweeps.total(own)
        results.append((log_z, entropies, total))
    agree(results[0][0], results[1][0])
    agree(results[0][1], results[1][1], atol=1e-9)
    # In sweeps, plain torch comes last. Its counts are those of the sentences, and are taken out again.
    _, _, own = fast.expected_counts(start)
    field = CorpusCounts(fast.total(own), {n: start[n] for n in ("root", "stop")}, {"attach": start["attach"]})
    for _ in range(3):
        _, own = fast.collapsed_vb(field, own, torch.arange(10), 1)
        for name, counts in fast.total(own).items():
            agree(field.counts[name], counts, atol=1e-9)
            assert float(counts.sum()) == pytest.approx(float(results[1][2][name].sum()), rel=1e-9)
    # Hastings goes on in plain torch, too.
    trees = fast.draw({n: w.log() for n, w in start.items()}, torch.Generator().manual_seed(0))
    field = CorpusCounts(fast.counts(trees), {n: start[n] for n in ("root", "stop")}, {"attach": start["attach"]})
    accepted = fast.hastings(field, trees, torch.arange(10), 8, generator=torch.Generator().manual_seed(0))
    assert float(accepted.double().mean()) > 0.3
    for name, counts in fast.counts(trees).items():
        agree(field.counts[name], counts)


@pytest.mark.one_in(40)
@all_grammars
@pytest.mark.parametrize("batch_size", [1, pytest.param(5, marks=pytest.mark.slow), 20])
@pytest.mark.parametrize("temperature", [1.0, pytest.param(3.0, marks=pytest.mark.slow)])
def test_a_hastings_sweep_counts_its_derivations(make, batch_size, temperature):
    """By the plain code: counts before and after, and that they move."""
    grammar, words = make(3), random_words(3, 30, 9)
    fast, plain = grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)
    uniform = {n: b.uniform(torch.ones(())).log() for n, b in grammar.blocks.items()}
    trees = fast.draw(uniform)
    before = trees.clone()
    alpha = {n: torch.rand(b.shape, dtype=torch.float64) + 0.1 for n, b in grammar.blocks.items() if n != "stop"}
    fixed = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items() if n == "stop"}
    corpus = CorpusCounts(fast.counts(trees), alpha, fixed)
    generator = torch.Generator().manual_seed(0)
    for name, counts in plain.counts(trees).items():
        agree(corpus.counts[name], counts)
    accepted = fast.hastings(
        corpus, trees, torch.randperm(30), batch_size, generator=generator, temperature=temperature
    )
    moved = (trees != before).any(1)
    assert 5 < moved.sum() <= accepted.sum() and not bool((moved & ~accepted).any())
    assert bool(grammar.derivation(None, words, log_weights=uniform).support.check(trees).all())
    for name, counts in plain.counts(trees).items():
        agree(corpus.counts[name], counts)


def test_parts_of_trees():
    grammar, words = DMV(3), random_words(3, 30, 9)
    sweeps = grammar.collapsed_updates(words)
    trees = sweeps.draw({n: b.uniform(torch.ones(())).log() for n, b in grammar.blocks.items()})
    assert torch.equal(sweeps.add_parts(None, trees)[:, :, 1:].sum(1) > 0, words >= 0)


# The HMM of five states has too many pairs.
INVARIANT = [
    pytest.param(make, id=name, marks=[pytest.mark.slow] if name != "PCFG" else [])
    for name, make in GRAMMARS.items()
    if "five" not in name
]


def support(grammar, words):
    """All derivations of a sentence."""
    if isinstance(grammar, TiedGrammar):
        return support(grammar.base, words)
    if isinstance(grammar, MixtureGrammar):
        own = support(grammar.base, words)
        every = [torch.nn.functional.pad(own, (1, 0), value=k) for k in range(grammar.num_components)]
        return torch.cat(every)
    weights = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in grammar.blocks.items()}
    return grammar.derivation(weights, words).enumerate_support()


@pytest.mark.parametrize("make", INVARIANT)
@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_one_hastings_sweep_leaves_the_posterior_as_it_is(make, temperature):
    """From every pair of derivations of two sentences, as often as they are probable: the same after a batch of two."""
    grammar, words = make(2), torch.tensor([[0, 1, 0], [1, 0, -1]])
    if len(support(grammar, words[0])) == 1:
        words = torch.tensor([[0, 1, 1, 1], [0, 1, 1, -1]])
    uniform = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in grammar.blocks.items()}
    supports = [support(grammar, row[row >= 0]) for row in words]
    width = grammar.collapsed_updates(words).draw({n: w.log() for n, w in uniform.items()}).shape[1]
    supports = [torch.nn.functional.pad(s, (0, width - s.shape[1]), value=-1) for s in supports]
    pairs = [torch.stack([a, b]) for a in supports[0] for b in supports[1]]
    plain = CollapsedUpdates(grammar, words)
    log_joint = []
    # Concentrations that differ, or else proposals would all have one probability.
    drawn = torch.Generator().manual_seed(2)
    alpha = {n: 0.05 + torch.rand(b.shape, generator=drawn, dtype=torch.float64) for n, b in grammar.blocks.items()}
    for pair in pairs:  # log of prod B(f + alpha) / B(alpha)
        pseudo = {n: c + alpha[n] for n, c in plain.counts(pair).items()}
        sums = {n: grammar.blocks[n].sums(c) for n, c in pseudo.items()}
        log_joint.append(sum(c.lgamma().sum() - sums[n].lgamma().sum() for n, c in pseudo.items()))
    exact = (torch.stack(log_joint) / temperature).softmax(0)
    # So many that the posterior is not taken for a uniform one.
    copies = max(1500, int(55 / float((exact - 1 / len(pairs)).abs().max())))
    starts = torch.multinomial(exact, copies, replacement=True, generator=torch.Generator().manual_seed(0))
    seen = torch.zeros(len(pairs), dtype=torch.float64)
    sweeps, generator = grammar.collapsed_updates(words), torch.Generator().manual_seed(1)
    every_pair, own = torch.stack(pairs), [sweeps.counts(pair) for pair in pairs]
    for start in starts.tolist():
        trees = pairs[start].clone()
        corpus = CorpusCounts({n: c.clone() for n, c in own[start].items()}, alpha)
        order = torch.randperm(2, generator=generator)
        sweeps.hastings(corpus, trees, order, 2, generator=generator, temperature=temperature)
        seen[(every_pair == trees).all(-1).all(-1)] += 1
    assert seen.sum() == copies
    expected = exact * copies
    rare = expected < 5
    chi = ((seen - expected) ** 2 / expected)[~rare].sum() + (seen[rare].sum() - expected[rare].sum()) ** 2 / max(
        1e-9, expected[rare].sum()
    )
    cells = int((~rare).sum()) + int(rare.any()) - 1
    assert cells > 4 and chi < cells + 5 * (2 * cells) ** 0.5


def test_two_blocks_of_the_same_weights():
    """The plain code knows what to do: their counts are counted together."""
    grammar = DMV(2, valence_attach=True)  # attachments and stops have the same shape
    words = random_words(2, 6, 4)
    shared = torch.zeros(2, 2, 2, 2)
    alpha = torch.rand(2, 2, 2, 2) + 0.1
    results = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        _, _, own = sweeps.expected_counts(grammar.initial_weights(words, "uniform"))
        total = sweeps.total(own)
        shared = total["attach"] + total["stop"]
        field = CorpusCounts(
            {"root": total["root"], "attach": shared, "stop": shared},
            {"root": torch.ones(2), "attach": alpha, "stop": alpha},
        )
        entropies, own = sweeps.collapsed_vb(field, own, torch.arange(6), 2)
        results.append((entropies, shared))
        total = sweeps.total(own)
        agree(shared, total["attach"] + total["stop"])
    agree(results[0][0], results[1][0])
    agree(results[0][1], results[1][1])


def test_sentences_have_the_events_of_their_words():
    words = np.array([[5, 2, 5], [7, -1, -1]])
    shapes = {name: tuple(block.shape) for name, block in DMV(100).blocks.items()}
    events = SentenceEvents.of(lower(chart.dmv(), widen=True), shapes, words)
    assert events.distinct.tolist() == [2, 1] and events.local[0].tolist() == [1, 0, 1]
    assert events.sizes.tolist() == [32 + 16, 16 + 8]
    assert events.starts.tolist() == [24, 0]
    assert events.places.max() == events.num_numbers - 2 == events.num_events + 1 + 200 + 400
    here = events.places[24:72]
    assert here[:4].tolist() == [2, 5, 100 + 2 * 200 + 2, 100 + 2 * 200 + 5]  # root; attach [2, 0, 2], [2, 0, 5]
    assert here[26:32].tolist() == [events.num_numbers - 2] * 6  # two times nine and eight events
    assert events.multinomials[here[3]] == events.num_events + 1 + 4 and here[33] == events.num_events + 1 + 4
    assert np.bincount(events.places)[100 + 7 * 200 + 7] == 1


def test_rows_of_one_multinomial_have_one_owner():
    """Heads 2 and 5 are tied, and 7 and 8: a sentence has a number for each multinomial that is counted."""
    words = np.array([[5, 2, 5, 9], [7, 8, 2, -1], [9, 9, 9, -1]])
    shapes = {name: tuple(block.shape) for name, block in DMV(10).blocks.items()}
    cells = lower(chart.dmv(), widen=True)
    plain = SentenceEvents.of(cells, shapes, words)
    renumbered = np.arange(plain.num_numbers, dtype=np.int32)
    first = plain.num_events + 1  # multinomials of attachments, by head and direction
    for one, other in ((2, 5), (7, 8)):
        renumbered[first + 2 * other : first + 2 * other + 2] = first + 2 * one + np.arange(2)
    tied = SentenceEvents.of(cells, shapes, words, renumbered=renumbered)
    assert plain.owners is None and tied.repeated == frozenset()  # no two events are one entry
    for b in range(len(words)):
        start, size = tied.starts[b], tied.sizes[b]
        own = tied.places[start : start + size]
        u = plain.distinct[b]
        cells_of_events = -(-(u + 2 * u * u + 8 * u) // 8) * 8
        assert (own[:cells_of_events] == plain.places[plain.starts[b] :][:cells_of_events]).all()
        rows = plain.places[plain.starts[b] + cells_of_events :][: 1 + 2 * u + 4 * u]
        owners = tied.owners[tied.row_starts[b] :][: len(rows)]
        multinomials = renumbered[own[cells_of_events:]]
        assert (multinomials[owners] == renumbered[rows]).all()
        real = multinomials[: tied.owned[b]]
        real = real[real != tied.num_numbers - 2]
        assert sorted(real) == sorted(set(renumbered[rows].tolist()))


def test_long_chains_of_rare_words_stay_in_compiled_code(monkeypatch):
    """Log Z is below the least number; a page without symbols, and that of the library, agree."""
    words = torch.randint(1000, (3, 160))
    monkeypatch.setattr(CollapsedUpdates, "_hastings", None)
    monkeypatch.setattr(CollapsedUpdates, "_sweep_in_torch", None)
    own, library = hmm(2, 1000), HMM(2, 1000)
    start = own.initial_weights(words, "random", seed=1)
    found = []
    for grammar in (own, library):
        sweeps = grammar.collapsed_updates(words)
        log_z, _, counts = sweeps.expected_counts(start)
        assert bool((log_z < -800).all())
        field = CorpusCounts(sweeps.total(counts), {n: torch.full(b.shape, 0.3) for n, b in grammar.blocks.items()})
        entropies, _ = sweeps.collapsed_vb(field, counts, torch.arange(3), 3)
        found.append((log_z, entropies, field.counts))
        trees = sweeps.draw({name: w.log() for name, w in start.items()})
        corpus = CorpusCounts(sweeps.counts(trees), field.concentration)
        sweeps.hastings(corpus, trees, torch.arange(3), 3)
    for one, other in zip(*found, strict=True):
        if isinstance(one, dict):
            for name in one:
                agree(one[name], other[name])
        else:
            agree(one, other)
