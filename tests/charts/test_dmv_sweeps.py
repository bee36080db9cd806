# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of the DMV against the same in plain torch, and logarithms in lanes."""

import numpy as np
import pytest
import torch

from pyrogram import DMV
from pyrogram.charts import lanes_log
from pyrogram.charts.dmv_sweeps import make_layout
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import load, store
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts


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
        log_z, entropies, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha, {n: start[n] for n in fixed})
        found.append((sweeps, field, own, log_z, entropies))
    return found


def agree(a, b, atol=1e-11):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("fixed", [(), ("attach",), ("root", "stop")])
@pytest.mark.parametrize("longest", [1, 7, 18])
def test_sweeps_agree_with_plain_torch(valence_attach, fixed, longest):
    grammar = DMV(3, valence_attach=valence_attach)
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


def test_a_sweep_writes_into_spare_memory():
    grammar, words = DMV(3), random_words(3, 9, 5)
    (fast, field, own, *_), _ = pair(grammar, words)
    before = own["values"].clone()
    spare = {"values": torch.full_like(before, torch.nan)}
    _, new = fast.collapsed_vb(field, own, torch.arange(9), 8, buffer=spare)
    assert new["values"].data_ptr() == spare["values"].data_ptr()
    assert torch.equal(own["values"], before) and bool(new["values"].isfinite().all())


def test_what_real_space_cannot_hold_is_done_in_logarithms():
    """Products of weights far below the range of real space."""
    grammar = DMV(2)
    words = random_words(2, 10, 12)
    start = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items()}
    start["attach"] = torch.full((2, 2, 2), 1e-60)
    fast, plain = grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)
    results = []
    for sweeps in (fast, plain):
        log_z, entropies, own = sweeps.expected_counts(start)
        assert float(log_z.min()) < -750
        field = CorpusCounts(sweeps.total(own), {n: start[n] for n in ("root", "stop")}, {"attach": start["attach"]})
        for _ in range(2):
            own_entropies, own = sweeps.collapsed_vb(field, own, torch.arange(10), 1)
        results.append((log_z, entropies, field.counts, sweeps.total(own)))
    agree(results[0][0], results[1][0])
    agree(results[0][1], results[1][1], atol=1e-9)
    # Hastings goes on in plain torch, too.
    trees = fast.draw({n: w.log() for n, w in start.items()}, torch.Generator().manual_seed(0))
    field = CorpusCounts(fast.counts(trees), {n: start[n] for n in ("root", "stop")}, {"attach": start["attach"]})
    accepted = fast.hastings(field, trees, torch.arange(10), 8, generator=torch.Generator().manual_seed(0))
    assert float(accepted.double().mean()) > 0.5
    for name, counts in fast.counts(trees).items():
        agree(field.counts[name], counts)


@pytest.mark.parametrize("valence_attach", [False, True])
def test_counts_of_trees_agree_with_plain_torch(valence_attach):
    grammar = DMV(3, valence_attach=valence_attach)
    words = random_words(3, 30, 9)
    fast, plain = grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)
    uniform = {n: b.uniform(torch.ones(())).log() for n, b in grammar.blocks.items()}
    trees = fast.draw(uniform)
    for name, counts in plain.counts(trees).items():
        agree(fast.counts(trees)[name], counts)
    assert torch.equal(fast.add_parts(None, trees)[:, :, 1:].sum(1) > 0, words >= 0)


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


def test_layout_touches_what_occurs():
    layout = make_layout(np.array([[5, 2, 5], [7, -1, -1]]), 100, 1)
    assert layout.distinct.tolist() == [2, 1]
    assert layout.sizes.tolist() == [32 + 16, 16 + 8]
    assert layout.places.max() == layout.num_events + layout.num_sums


def test_logarithms_in_lanes():
    @kernel
    def logs(numbers, out):
        for i in range(len(numbers) // 8):
            store(out, i, lanes_log.log(load(numbers, i)))

    generator = np.random.default_rng(0)
    numbers = np.concatenate([np.exp(generator.uniform(-700, 700, 4000)), 1 + generator.normal(0, 1e-3, 4000)])
    out = np.empty_like(numbers)
    logs(numbers, out)
    np.testing.assert_allclose(out, np.log(numbers), rtol=4e-16, atol=2e-16)
    edges = np.array([0.0, 1.0, 2.0, 0.5, 5e-324, 2.2250738585072014e-308, 1e308, 4.0])
    out = np.empty(8)
    logs(edges, out)
    assert out[1] == 0 and out[0] == out[4] == out[5] == pytest.approx(-708.3964185322641)
    np.testing.assert_allclose(out[[2, 3, 6, 7]], np.log(edges[[2, 3, 6, 7]]), rtol=4e-16)
