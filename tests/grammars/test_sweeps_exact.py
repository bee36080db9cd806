# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings' sampler is exact: against lists of all tuples of derivations of a few sentences."""

import itertools

import pytest
import torch
from sweep_cases import CASES, Case, cases, copied, uniform_logs

from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts
from pyrogram.testing import chi_square

#: Of which all derivations can be listed, which rows of events tell apart.
LONG = ("English", "sparse rules", "chains", "verbs", "dense CFG", "own table", "own DMV, factors")
LISTED = [name for name in CASES if name not in LONG and "states" not in name]
slow = pytest.mark.slow
EXACT = [
    *(pytest.param(*p.values, 2, 1.0, "compiled", marks=p.marks) for p in cases(LISTED)),
    *(pytest.param(name, 2, 2.0, "compiled", marks=slow) for name in LISTED),
    *(pytest.param(name, n, 1.0, "compiled", marks=slow) for name in ("HMM", "repeated rules") for n in (1, 3)),
    *(pytest.param(f"{name}, forbidding", 2, t, "plain", marks=slow) for name in ("DMV", "HMM") for t in (1.0, 2.0)),
    ("repeated rules", 3, 1.0, 1e-230),
    *(pytest.param("repeated rules", n, 1.0, least, marks=slow) for n in (1, 3) for least in (1.0, 1e-40)),
]
SENTENCES = {
    "HMM": [[0, 1, 0], [1, 1, -1], [0, -1, -1]],
    "HMM, three": [[0, 1], [1, -1]],
    "own rules": [[0, 1, 1, 1], [0, 1, 1, -1]],
    **{f"own PCFG{way}": [[0, 1, 0], [1, -1, -1]] for way in ("", ", tied", ", split")},
}


def few_sentences(name, case):
    """Two, or three of which one is known, or has few derivations."""
    if name == "repeated rules":
        words = case.words(0, 0)
    elif name in SENTENCES:
        words = torch.tensor(SENTENCES[name])
    else:
        is_long = case.first in ("CFG", "rules of any form") or ("DMV" in name and name.endswith("both"))
        rows = [[0, 1, 0, 1], [1, 0, 1, -1], [1, 1, 0, -1]] if is_long else [[0, 1, 0], [1, 0, -1], [1, 1, 0]]
        words = torch.tensor(rows if name.endswith("known") else rows[:2])
    return case.sentences(words)


def listed(case, sentences):
    """All derivations of each sentence that agree with what is known of it."""
    own = case.inner.base if case.inner.is_tilted else case.inner
    width, found = case.grammar.collapsed_updates(sentences).draw(uniform_logs(case.grammar)).shape[1], []
    for b, row in enumerate(sentences.words):
        every = own.derivation(None, row[row >= 0], log_weights=uniform_logs(own)).enumerate_support()
        if case.is_mixture:
            components = range(case.grammar.blocks["kind"].shape[-1])
            every = torch.cat([torch.nn.functional.pad(every, (1, 0), value=k) for k in components])
        every = torch.nn.functional.pad(every, (0, width - every.shape[1]), value=-1)
        here = sentences[torch.full((len(every),), b)]
        found.append(every[case.log_factors(here, every) + case.nats(here.words, every) > -torch.inf])
    return found


@pytest.mark.parametrize(("name", "batch_size", "temperature", "way"), EXACT)
def test_a_sweep_leaves_the_posterior_as_it_is(name, batch_size, temperature, way):
    """From every tuple of derivations, as often as it is probable: the same after a sweep.

    At a temperature, weights of the last of several blocks are given. Under a very great concentration all proposals
    come from the same weights, and are accepted; small ones that derivations need are below what draws trust without a
    look at the adjoints.

    :param way: compiled, plain, or under a very great concentration, relative to which the least one is so great.
    """
    case = Case(name, 2)
    grammar, sentences = case.grammar, few_sentences(name, case)
    plain = CollapsedUpdates(grammar, sentences)
    sweeps = plain if way == "plain" else grammar.collapsed_updates(sentences)
    tuples = [torch.stack(chosen) for chosen in itertools.product(*listed(case, sentences))]
    # Concentrations that differ, or else proposals would all have one probability.
    drawn = torch.Generator().manual_seed(2)
    alpha = {n: 0.05 + torch.rand(b.shape, generator=drawn) for n, b in grammar.blocks.items()}
    weights = {n: alpha.pop(n) for n in [*grammar.blocks][1:][-1:] if temperature != 1}
    if isinstance(way, float):
        great = torch.tensor([1.0, 0.2, 0.3, 0.1, 0.4, 0.3, 0.7 * way])
        alpha = {"rules": 1e9 * great / grammar.blocks["rules"].totals(great)}
    scores, counts = [], [plain.counts(trees) for trees in tuples]
    for trees, own in zip(tuples, counts, strict=True):  # log of prod B(f + alpha) / B(alpha), and of given weights
        score = case.nats(sentences.words, trees).sum()
        for n, f in own.items():
            given = n in weights
            pseudo = f + alpha.get(n, 0.0)
            rising = pseudo.lgamma().sum() - grammar.blocks[n].sums(pseudo).lgamma().sum() if not given else 0.0
            score = score + ((f * weights[n].log()).sum() if given else rising)
        scores.append(score / temperature + case.log_factors(sentences, trees).sum())
    exact, every = torch.stack(scores).softmax(0), torch.stack(tuples)
    seen, accepted, generator = torch.zeros(len(tuples)), [], torch.Generator().manual_seed(1)
    copies = max(300 if way == "plain" else 700, 8 * len(tuples))  # or cells are merged
    for start in torch.multinomial(exact, copies, replacement=True, generator=drawn).tolist():
        trees, order = tuples[start].clone(), torch.randperm(len(every[0]), generator=generator)
        corpus = CorpusCounts(copied(counts[start]), alpha, weights)
        accepted.append(sweeps.hastings(corpus, trees, order, batch_size, generator=generator, temperature=temperature))
        seen[(every == trees).all(-1).all(-1)] += 1
    share = torch.stack(accepted).double().mean()
    assert seen.sum() == copies and (share == 1.0 if isinstance(way, float) else 0.1 < share < 1.0)
    assert chi_square(seen, exact) > 1e-4
    assert chi_square(seen, torch.full_like(exact, 1 / len(exact))) < 1e-4  # or else it would say nothing
