# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of all grammars, tied, tilted, mixed, and under evidence, against the same in plain torch."""

import itertools
import math
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from own_grammars import hmm, tied
from sweep_cases import CASES, Case, agree, cases, copied, pair, random_words, uniform_logs

from pyrogram import CFG, DMV, HMM
from pyrogram.distributions import Sentence
from pyrogram.event_map import multinomials_of
from pyrogram.infer import CollapsedVB, TreeHastings
from pyrogram.infer.model.collapsed import SentenceOrder, log_dirichlet_multinomial
from pyrogram.infer.model.reading import read
from pyrogram.models.dirichlet import dirichlet
from pyrogram.sweeps import compiled
from pyrogram.sweeps import events as sentence_events
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts, parts_of

slow = pytest.mark.slow
SWEEPS = [("none", 18, 1.0), ("others", 7, 1e-3), ("none", 1, 1.0)]


@pytest.mark.parametrize(
    ("fixed", "longest", "scale"), [("first", 18, 1e3), *(pytest.param(*x, marks=slow) for x in SWEEPS)]
)
@pytest.mark.parametrize("name", cases())
def test_sweeps_agree_with_plain_torch(name, fixed, longest, scale, monkeypatch):
    """Log Z, entropies and counts under given weights, and after sweeps in batches of several sizes.

    Where there are several blocks, the weights of the first one, or of the others, stay as they are given. Numbers and
    factors of sentences are made for a few of them at a time.
    """
    for module in (compiled, sentence_events):
        monkeypatch.setattr(module, "_AT_ONCE", 4)
    case = Case(name)
    sentences = case.sentences(case.words(21, longest))
    first, *others = case.grammar.blocks
    blocks = {"none": [], "first": [first] if others else [], "others": others}[fixed]
    everyone = torch.randperm(len(sentences))
    (fast, field, own, *found), (plain, plain_field, plain_own, *expected) = pair(
        case.grammar, sentences, blocks, scale
    )
    agree(found, expected)
    for batch_size in (1, 3, 8, 12, 2**40):
        order, before = torch.randperm(len(sentences)), own["values"].clone()
        if batch_size > 1:  # of those that are not known: compiled sweeps pass over the others, which come last here
            order = order[sentences.is_whole[order].int().argsort(stable=True)]
        entropies, new = fast.collapsed_vb(field, own, order, batch_size)
        assert torch.equal(own["values"], before)
        own = new
        expected, plain_own = plain.collapsed_vb(plain_field, plain_own, order, batch_size)
        agree(entropies, expected)
        agree(field.counts, plain_field.counts)
        agree(fast.total(own), field.counts)
        agree(fast.dense_counts(own, everyone), plain.dense_counts(plain_own, everyone))


@pytest.mark.parametrize("name", cases([x for x in CASES if "," not in x], fast=["HMM", "English"]))
def test_expected_counts_are_those_of_the_law(name):
    """Under weights that are not normalised, or are zero, or in float32; of sentences in any order, padded."""
    case = Case(name)
    words, order = case.words(9, 7), torch.randperm(9)
    sweeps, start = case.grammar.collapsed_updates(words), case.grammar.initial_weights(words, "random", seed=2)
    padded = case.grammar.collapsed_updates(torch.nn.functional.pad(words, (0, 3), value=-1)[order])
    *_, (last, own) = start.items()
    impossible = {last: own * torch.arange(own.shape[-1]).clamp_max(1)}  # a rule or word
    for weights in (start, {**start, **impossible}, *({n: x * w for n, w in start.items()} for x in (1e-3, 1e3))):
        law, (log_z, entropies, own) = case.grammar.derivation(weights, words), sweeps.expected_counts(weights)
        possible, counts = log_z > -math.inf, law.expected_counts()
        agree(log_z, law.log_partition)
        agree(entropies, torch.where(possible, law.entropy(), -math.inf))
        agree(sweeps.total(own), {n: counts[n].sum(0) for n in case.grammar.blocks})
        log_z_of_padded, _, own_of_padded = padded.expected_counts(weights)
        agree(log_z_of_padded, log_z[order])
        agree(padded.dense_counts(own_of_padded, torch.arange(9)), sweeps.dense_counts(own, order))
    rounded = {n: w.float() for n, w in start.items()}
    agree(sweeps.expected_counts(rounded), sweeps.expected_counts({n: w.double() for n, w in rounded.items()}))


@pytest.mark.parametrize(
    ("batch_size", "temperature"), [(20, 3.0), *(pytest.param(*x, marks=slow) for x in ((1, 3.0), (5, 1.0)))]
)
@pytest.mark.parametrize("name", cases([x for x in CASES if x not in ("own table", "HMM of 1 states")]))
def test_a_sweep_of_hastings_counts_its_derivations(name, batch_size, temperature):
    """Counts, parts and factors before and after, and that derivations move, but for those that are known."""
    case = Case(name)
    grammar, logs, sentences = case.grammar, uniform_logs(case.grammar), case.sentences(case.words(30, 9))
    sentences = sentences[grammar.log_partition(logs, sentences) > -math.inf]
    fast, plain = grammar.collapsed_updates(sentences), CollapsedUpdates(grammar, sentences)
    trees, fixed = fast.draw(logs), [*grammar.blocks][1:][-1:]
    alpha = {n: torch.rand(b.shape) + 0.1 for n, b in grammar.blocks.items() if n not in fixed}
    field = CorpusCounts(fast.counts(trees), alpha, {n: logs[n].exp() for n in fixed})

    def look():
        assert bool(grammar.derivation(None, sentences, log_weights=logs).support.check(trees).all())
        agree(field.counts, plain.counts(trees))
        agree(fast.counts(trees), field.counts)
        for sweeps in [fast, plain] if grammar is case.inner else [fast]:
            agree(sweeps.log_tilt(trees), (case.log_factors(sentences, trees) + case.nats(fast.words, trees)).sum())
        parts = fast.parts(trees)
        agree(parts, parts_of(case.inner, fast.words, case.rows(trees)).float())
        agree(fast.add_parts(parts.clone(), trees), 2 * parts)

    look()
    before, order, generator = trees.clone(), torch.randperm(len(trees)), torch.Generator().manual_seed(0)
    accepted = fast.hastings(field, trees, order, batch_size, generator=generator, temperature=temperature)
    look()
    moved = (trees != before).any(1)
    assert moved.sum() > 3 or name in ("English", "sparse rules", "verbs")  # whose derivations are few
    assert not bool((moved & ~accepted).any())
    if not case.is_mixture:  # nobody knows of which component a known derivation is
        assert bool(accepted[sentences.is_whole].all()) and not bool(moved[sentences.is_whole].any())


# Grammars of sentences whose weights are far below one, or far above it.
SHARP = {
    "rare words, HMM": HMM(2, 1000),
    "rare words, own HMM": hmm(2, 1000),
    "rare words, CFG": CFG.dense(2, 2, 1000),
    "small attachments": DMV(2),
    "small attachments, tied": tied(DMV(2)),
    "great factors": DMV(2),
    "great nats": DMV(2).tilted({"root": torch.tensor([300.0, 250.0]), "stop": torch.tensor([120.0, -90.0])}),
    "great nats, HMM": HMM(2, 4).tilted({"emission": torch.tensor([[0.0] * 4, [-200.0, -620.0, 200.0, 620.0]])}),
    "no scale": CFG.from_string("S -> B S | B | A S | A\nA -> 'a' | 'c'\nB -> 'b' | 'c'"),
    "small transitions": HMM(2, 3),
    "last words": HMM(2, 2),
    "one beside others": HMM(3, 2),
}
STATES = {"last words": (0, 1), "one beside others": (1, 2)}  # with which they begin, and the only ones that matter


def sharp(name, grammar):
    """Sentences, weights, those of them that are given, and the concentration of the others."""
    start = {n: w.exp() for n, w in uniform_logs(grammar).items()}
    if name.startswith("rare words"):
        words = torch.randint(1000, (3, 150))
        words[1, 2:] = -1
        return words, grammar.initial_weights(words, "random", seed=1), (), 0.3
    if name.startswith("small attachments"):
        return random_words(2, 10, 12), {**start, "attach": torch.full_like(start["attach"], 1e-60)}, ("attach",), 0.5
    if name == "great factors":
        return grammar.sentences(random_words(2, 12, 7), {"arc_scores": 150.0 * torch.randn(12, 8, 8)}), start, (), 1.0
    if name == "great nats":
        return random_words(2, 4, 6), start, (), 0.4
    if name == "no scale":  # suits sentences of which 'c' is hardly ever in one, and is nearly always the other
        weights = torch.tensor([1, 1, 1e-300, 1e-300, 1, 1, 1, 1e-250])
        return grammar.encode(["b b c b", "c c c c c c c c", "b"]), {"rules": weights}, (), weights
    if name == "small transitions":  # in some sentences of a block
        words, alpha = random_words(2, 10, 6), 0.4
        words[3] = torch.tensor([0, 2, 1, 2, 2, 0])
        transition, emission = [[1e-280, 1e-20, 0.7], [1e-20, 1e-280, 0.3]], [[0.4, 0.6, 1e-250], [0.8, 0.2, 1e-200]]
    elif name == "great nats, HMM":  # half of Z is a state's that two words take below any double
        words, alpha = torch.arange(4).expand(3, 4), 0.4
        transition, emission = [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]], [[0.25] * 4] * 2
    elif name == "last words":
        # The only possible states of three sentences are beyond any double until their last words make up for the
        # first. Others of the same block are fine.
        words = torch.tensor([[0, 0, 1, 1, 1], [1, 0, -1, -1, -1], [0, 0, 1, 1, 1], [0, -1, -1, -1, -1]])
        transition, emission, alpha = [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]], [[1.0, 1e-200], [1e-200, 1.0]], 0.4
    else:  # after two words state 2 is beyond any double and state 1 is not; eight words later, all of Z is state 2's
        words, alpha = torch.tensor([[0, 0, *[1] * 8]] * 3), 1e9
        transition = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.5, 0.5]]
        emission = [[1.0, 0.0], [1e-150, 1e-7], [1e-165, 1.0]]
    given = {"transition": torch.tensor(transition), "emission": torch.tensor(emission)}
    return words, {**start, **given}, tuple(given), alpha


@pytest.mark.parametrize("name", SHARP)
def test_what_real_space_cannot_hold(name, monkeypatch):
    """Compiled code does it, in collapsed variational Bayes as in Hastings' sampler."""
    for method in ("_others", "_log_predictive"):
        monkeypatch.setattr(RecursiveUpdates, method, None)
    sentences, start, fixed, alpha = sharp(name, grammar := SHARP[name])
    blocks, results = {n: b for n, b in grammar.blocks.items() if n not in fixed}, []
    alpha = {n: torch.as_tensor(alpha).expand(b.shape) for n, b in blocks.items()}
    for sweeps in (fast := grammar.collapsed_updates(sentences), CollapsedUpdates(grammar, sentences)):
        log_z, entropies, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha, {n: start[n] for n in fixed})
        assert log_z.abs().max() > 710 or name == "no scale" or name.startswith("great nats")
        results.append([log_z, entropies, copied(field.counts)])
        for batch_size in (1, 3, 8):
            entropies, own = sweeps.collapsed_vb(field, own, torch.arange(len(log_z)), batch_size)
            results[-1] += [entropies, copied(field.counts), sweeps.total(own)]
    agree(*results, rtol=1e-7, atol=1e-9)
    # Under a very great concentration all proposals come from the same weights, and are accepted, wherever they begin.
    great = {n: 1e12 * start[n] / b.totals(start[n]) for n, b in blocks.items()}
    first, last = STATES.get(name, (0, 0))
    trees = (
        torch.where(fast.words >= 0, first, -1) if name in STATES else fast.draw({n: w.log() for n, w in start.items()})
    )
    field = CorpusCounts(fast.counts(trees), great, field.weights)
    assert fast.hastings(field, trees, torch.arange(len(trees)), 8, generator=torch.Generator().manual_seed(0)).all()
    agree(field.counts, fast.counts(trees))
    assert name not in STATES or bool((trees[[0, 2]] == last).all())


def test_factors_that_are_no_numbers():
    """Their logarithms are: plain torch takes these."""
    words, trees, chains = random_words(2, 6, 4), DMV(2), hmm(2, 2)
    for grammar, sentences in (
        (trees, trees.sentences(words, {"arc_scores": 2000.0 * torch.randn(6, 5, 5)})),
        (chains, chains.sentences(words, {"F": 2000.0 * torch.randn(6, 5, 2)})),
        (trees.tilted({"root": torch.tensor([900.0, -900.0])}), words),
    ):
        sweeps = grammar.collapsed_updates(sentences)
        assert not isinstance(sweeps, RecursiveUpdates)
        log_z, _, own = sweeps.expected_counts({n: w.exp() for n, w in uniform_logs(grammar).items()})
        assert bool(log_z.isfinite().all()) and all(bool(c.isfinite().all()) for c in sweeps.total(own).values())


def kept(sweeps, sentence):
    """The rules for which a value is kept of a sentence."""
    places = sweeps._places[sweeps._places_of(sentence)]
    return sorted(set(places[places < len(sweeps.grammar.rules)].tolist()))


@pytest.mark.parametrize("name", ["sparse rules", "long sentences"])
def test_own_counts_are_of_events_that_can_occur(name):
    """These have positive counts if all weights are one."""
    case = Case(name)
    words, ones = case.words(0, 0), {"rules": torch.ones(len(case.grammar.rules))}
    sweeps, law = case.grammar.collapsed_updates(words), case.grammar.derivation(ones, words)
    sizes = [len(kept(sweeps, i)) for i in range(len(words))]
    for i, counts in enumerate(law.expected_counts()["rules"]):
        assert kept(sweeps, i) == counts.nonzero()[:, 0].tolist()
    assert 0 in sizes and len(set(sizes)) > 3
    # A list has events, multinomials and what is no event, each of these parts in whole cells of eight numbers.
    assert name == "long sentences" or sweeps.num_values <= 3 * sum(sizes) + 3 * 7 * len(words)


def test_one_derivation_beside_more_than_a_number_can_say():
    """Its share of them is zero in float64, but its rules are kept."""
    grammar = CFG.from_string("G -> S | W\nS -> S S | 'a'\nW -> 'a' W | 'a'")
    sweeps = grammar.collapsed_updates(grammar.encode(["a " * 600, "a a"]))
    assert kept(sweeps, 0) == kept(sweeps, 1) == list(range(6))
    log_z, _, own = sweeps.expected_counts({"rules": torch.ones(6)})
    assert log_z[0] > 750 and sweeps.dense_counts(own, torch.tensor([0]))["rules"][0, 1] == 0


@pytest.mark.parametrize("name", ["English", "DMV"])
def test_lists_lie_as_compiled_code_reads_them(name, monkeypatch):
    """Arrays without gaps, here made in several parts; sentences whose tables are alike share lists of rows."""
    monkeypatch.setattr(sentence_events, "_AT_ONCE", 1)
    events = (case := Case(name)).grammar.collapsed_updates(case.words(34, 9))._engine.events
    for lists in (events.places, events.owners, events.rows, events.elements):
        assert all(x.flags.c_contiguous for x in lists) and lists.values.dtype == np.int32
        assert len(lists.values) >= (lists.starts + lists.counts).max()
    assert int(events.places.counts.sum()) == len(events.places.values)
    assert (len(events.elements.values) > 0) == (name == "English")
    assert name == "English" or len(events.rows.values) < events.rows.counts.sum() / 2


@pytest.mark.parametrize("name", ["DMV", "DMV, tied", "HMM, split", "CFG, tied"])
def test_a_sentence_has_a_number_for_each_multinomial(name):
    """Of its events, whatever is tied."""
    case = Case(name, 10)
    sweeps, multinomials = case.grammar.collapsed_updates(random_words(10, 9, 6)), multinomials_of(case.grammar.blocks)
    for places in (torch.from_numpy(sweeps._places[sweeps._places_of(i)]) for i in range(9)):
        events, sums = (
            places[(places >= low) & (places < high)]
            for low, high in itertools.pairwise((0, sweeps._size, sweeps._num_numbers - 2))
        )
        assert sorted((sums - sweeps._size).tolist()) == multinomials[events].unique().tolist()


def test_sentences_have_the_events_of_their_words():
    sweeps: Any = DMV(100).collapsed_updates(torch.tensor([[5, 2, 5], [7, -1, -1]]))
    events, numbers = sweeps._engine.events, len(sweeps._engine.corpus.multinomials)
    (words,) = sweeps._engine._words.values()
    R, padding = sweeps._size, numbers - 2
    assert words.distinct.tolist() == [2, 1] and words.local[0].tolist() == [1, 0, 1]
    assert events.places.counts.tolist() == [32 + 16, 16 + 8] and events.entry_ends.tolist() == [32, 16]
    assert events.places.starts.tolist() == [24, 0]
    assert events.places.values.max() == padding == R + 1 + 200 + 400
    here = events.places.values[24:72]
    assert here[:4].tolist() == [2, 5, 100 + 2 * 200 + 2, 100 + 2 * 200 + 5]  # root; attach [2, 0, 2], [2, 0, 5]
    assert here[26:32].tolist() == [padding] * 6  # two times nine and eight events
    owners = events.owners.values[events.owners.starts[0] :]
    assert here[owners[3]] == here[33] == R + 1 + 4
    assert events.rows.values[events.rows.starts[0] :][:2].tolist() == [[0, 2, 32], [2, 4, 33]]
    assert np.bincount(events.places.values)[100 + 7 * 200 + 7] == 1


def test_sentences_of_which_nothing_is_known_have_one_table_of_factors():
    words = torch.randint(2, (6, 3))
    known = torch.tensor([[-1, -1, -1], [2, -1, -1], [-1, -1, -1], [-1, 1, -1], [0, 1, 2], [-1, -1, -1]])
    sweeps: Any = DMV(2).collapsed_updates(DMV(2).sentences(words, known))
    (table,) = sweeps.plan.factors.values()
    assert len(table.rows) == 4 and table.row.tolist() == [0, 1, 0, 2, 3, 0] and (table.rows[0] == 1).all()


@pytest.mark.parametrize("name", ["DMV", "HMM", "English", "DMV, two, tied"])
def test_no_sentences(name):
    grammar, words = Case(name).grammar, torch.zeros((0, 4), dtype=torch.int64)
    sweeps = grammar.collapsed_updates(words)
    log_z, entropies, own = sweeps.expected_counts(grammar.initial_weights(words, "uniform"))
    assert log_z.shape == entropies.shape == own["values"].shape == (0,)
    agree(sweeps.total(own), {n: torch.zeros(b.shape) for n, b in grammar.blocks.items()})


def test_two_blocks_of_the_same_weights():
    """They are tied: a model that has them is swept as one in which each event names its entry."""
    grammar = DMV(2, valence_attach=True)  # attachments and stops have the same shape
    words = random_words(2, 6, 4)

    def model():
        root = pyro.sample("root", dist.Dirichlet(torch.ones(2)))
        both = pyro.sample("both", dist.Dirichlet(torch.full((2, 2, 2, 2), 0.4)).to_event(3))
        weights = {"root": root, "attach": both, "stop": both}
        pyro.sample("words", Sentence(grammar, weights).expand([6]).to_event(1), obs=words)

    loop = CollapsedVB(model, batch_size=2)
    loop.run(num_steps=3, progress=False)
    ((site,),) = (read(model, "CollapsedVB").sentences,)
    sweeps = CollapsedUpdates(site.grammar, words)
    start = {name: w.double() for name, w in site.grammar.initial_weights(words).items()}
    _, entropies, own = sweeps.expected_counts(start)
    counts, order, bounds = sweeps.total(own), SentenceOrder(words, 2).fixed, []
    alpha = {"root": torch.ones(2).double(), "both": torch.full((2, 2, 2, 2), 0.4).double()}
    for _ in range(3):
        joint = sum(log_dirichlet_multinomial(site.grammar.blocks[n], counts[n], a) for n, a in alpha.items())
        bounds.append(float(entropies.sum() + joint))
        entropies, own = sweeps.collapsed_vb(CorpusCounts(counts, alpha), own, order, 2)
    assert loop.history == pytest.approx(bounds, rel=1e-10)
    with pytest.raises(ValueError, match="each block must have counts of its own"):
        counts = dict.fromkeys(grammar.blocks, counts["both"])
        updates = grammar.collapsed_updates(words)
        _, _, own = updates.expected_counts(grammar.initial_weights(words, "uniform"))
        counts |= {"root": torch.zeros(2).double()}
        updates.collapsed_vb(CorpusCounts(counts, dict(counts)), own, order, 2)


@pytest.mark.parametrize(("name", "stop"), [("HMM", 100), ("dense CFG", 4)])
def test_an_interrupted_chain_goes_on(name, stop, tmp_path):
    """One of Hastings' sampler; and collapsed variational Bayes, which comes to an end."""
    case, histories = Case(name), []
    words, options = case.words(4, 5), {"concentration": 0.3, "progress": False}
    start = case.grammar.initial_weights(words, seed=0)
    for stops in ([stop], [2, stop]):
        for num_steps in stops:
            chain = TreeHastings(dirichlet, seed=5, order="shuffled", initial_weights="uniform")
            chain.run(words, case.grammar, num_steps=num_steps, checkpoint=tmp_path / f"{len(stops)} chain", **options)
            loop, path = CollapsedVB(dirichlet, initial_weights=start), tmp_path / f"{len(stops)} loop"
            loop.run(words, case.grammar, num_steps=num_steps, tolerance=0, checkpoint=path, **options)
        histories.append((chain.history, loop.history))
    assert len(chain.history) == len(loop.history) == stop and histories[0] == histories[1]
    agree({n: b.normalize(loop.weights()[n]) for n, b in case.grammar.blocks.items()}, dict(loop.weights()))
    assert stop < 100 or loop.history[-1] == pytest.approx(loop.history[-2], rel=1e-5)


def test_the_seed_decides():
    """And not how many threads there are."""
    case, results, threads = Case("verbs"), [], torch.get_num_threads()
    words, size = case.words(0, 0), len(case.grammar.rules)
    sweeps = case.grammar.collapsed_updates(words)
    start = sweeps.draw({"rules": torch.zeros(size)}, torch.Generator().manual_seed(3))
    for seed in (0, 0, 1):
        torch.set_num_threads(1 + len(results))
        trees, generator = start.clone(), torch.Generator().manual_seed(seed)
        field = CorpusCounts(sweeps.counts(trees), {"rules": torch.full((size,), 0.1)})
        for _ in range(3):
            sweeps.hastings(field, trees, torch.arange(len(words)), 8, generator=generator)
        results.append(trees)
    torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize("way", ["the same", "in place", "others"])
@pytest.mark.parametrize("name", ["DMV", "HMM", "English"])
def test_derivations_that_somebody_changed_between_two_sweeps(name, way):
    """A sweep begins with the derivations that it is given, whatever it remembers of those that it left."""
    case = Case(name)
    logs, words = uniform_logs(case.grammar), case.words(12, 7)
    used, order = case.grammar.collapsed_updates(words), torch.arange(len(words))
    start, other = (used.draw(logs, torch.Generator().manual_seed(x)) for x in (1, 2))
    alpha = {n: torch.full(b.shape, 0.5) for n, b in case.grammar.blocks.items()}

    def sweep(sweeps, trees):
        field = CorpusCounts(sweeps.counts(trees), alpha)
        accepted = sweeps.hastings(field, trees, order, 4, generator=torch.Generator().manual_seed(3))
        agree(field.counts, sweeps.counts(trees))
        return trees, accepted

    left, _ = sweep(used, start)
    if way == "in place":
        left.copy_(other)
    begin = other if way == "others" else left
    again = begin.clone()
    results = [sweep(used, begin), sweep(case.grammar.collapsed_updates(words), again)]
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
