# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What sweeps would follow out of their tables is refused in one sentence; compiled code looks at no bounds."""

import pytest
import torch
from small_grammars import GRAMMARS

from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

KINDS = {"compiled": lambda g, x: g.collapsed_updates(x), "plain": CollapsedUpdates}


def setting(kind, make=KINDS["compiled"]):
    grammar, weights, words = GRAMMARS[kind]()
    sweeps = make(grammar, words)
    trees = sweeps.draw({n: w.log() for n, w in weights.items()})
    counts = sweeps.counts(trees)
    alpha = {n: torch.full(tuple(c.shape), 0.5) for n, c in counts.items()}
    return sweeps, weights, trees, CorpusCounts(counts, alpha)


ORDERS = {
    "too great": torch.tensor([0, 7]),
    "far too great": torch.tensor([0, 2**40]),
    "negative": torch.tensor([0, -1]),
    "twice": torch.tensor([0, 0]),
    "too few": torch.tensor([0]),
    "too many": torch.tensor([0, 1, 0]),
    "a matrix": torch.tensor([[0, 1]]),
    "fractions": torch.tensor([0.0, 1.0]),
    "32 bits": torch.tensor([0, 1], dtype=torch.int32),
}


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("kind", GRAMMARS)
def test_order_and_batch_size(kind, make):
    sweeps, weights, trees, field = setting(kind, KINDS[make])
    own = sweeps.expected_counts(weights)[2]
    right = torch.arange(2)
    for order in ORDERS.values():
        with pytest.raises(ValueError, match="^order must .*"):
            sweeps.collapsed_vb(field, own, order, 1)
        with pytest.raises(ValueError, match="^order must .*"):
            sweeps.hastings(field, trees, order, 1)
    for size in (0, -1, -(2**40)):
        with pytest.raises(ValueError, match=f"batch_size must be at least 1, not {size}"):
            sweeps.collapsed_vb(field, own, right, size)
        with pytest.raises(ValueError, match=f"batch_size must be at least 1, not {size}"):
            sweeps.hastings(field, trees, right, size)
    with pytest.raises(TypeError, match="batch_size must be an integer, not 1.5"):
        sweeps.collapsed_vb(field, own, right, 1.5)
    for temperature in (0.0, -1.0, torch.nan, torch.inf):
        with pytest.raises(ValueError, match="temperature must be positive and finite, not"):
            sweeps.hastings(field, trees, right, 1, temperature=temperature)
    entropies, _ = sweeps.collapsed_vb(field, own, right.flip(0), 2**40)  # more than there are is one batch
    assert entropies.isfinite().all()
    assert sweeps.hastings(field, trees, right, 2**40).shape == (2,)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("kind", GRAMMARS)
def test_tables_of_another_shape(kind, make):
    sweeps, weights, trees, field = setting(kind, KINDS[make])
    own, order = sweeps.expected_counts(weights)[2], torch.arange(2)
    for name in field.counts:
        for table in ("counts", "concentration"):
            full = getattr(field, table)
            for wrong in (full[name][..., :1], full[name].sum(), None):
                tables = {n: t for n, t in {**full, name: wrong}.items() if t is not None}
                given = CorpusCounts(**{"counts": field.counts, "concentration": field.concentration, table: tables})
                for use in (
                    lambda given=given: sweeps.collapsed_vb(given, own, order, 1),
                    lambda given=given: sweeps.hastings(given, trees, order, 1),
                ):
                    with pytest.raises(ValueError, match=r"must have (shape|a concentration)") as error:
                        use()
                    assert repr(name) in str(error.value)
        both = CorpusCounts(field.counts, field.concentration, {name: weights[name]})
        with pytest.raises(
            ValueError, match=f"block '{name}' must have a concentration in corpus.concentration or else weights"
        ):
            sweeps.collapsed_vb(both, own, order, 1)


@pytest.mark.parametrize("kind", GRAMMARS)
def test_counts_of_other_sentences(kind):
    sweeps, weights, _, field = setting(kind)
    own, order = sweeps.expected_counts(weights)[2], torch.arange(2)
    values = own["values"]
    wrong = [values[:-1], values[:0], values.to(torch.float16), torch.stack([values, values], 1)[:, 0], values[None]]
    for bad in [{"values": v} for v in wrong] + [{}]:
        for use in (
            lambda bad=bad: sweeps.collapsed_vb(field, bad, order, 1),
            lambda bad=bad: sweeps.total(bad),
            lambda bad=bad: sweeps.dense_counts(bad, order),
        ):
            with pytest.raises(ValueError, match="sentence counts of these sentences have values of"):
                use()
    for sentences in (torch.tensor([2]), torch.tensor([-1]), torch.tensor([2**40]), torch.tensor([0.0])):
        with pytest.raises(ValueError, match="^sentences must be"):
            sweeps.dense_counts(own, sentences)


@pytest.mark.parametrize("kind", [kind for kind in GRAMMARS if kind != "LatentAnnotations"])
def test_trees_that_are_none(kind):
    """Those of latent annotations are taken by plain torch, which looks at bounds."""
    sweeps, _, trees, field = setting(kind)
    order = torch.arange(2)
    wrong = [trees + 99, trees - 7, trees + 2**40, torch.full_like(trees, -1), trees[:1], trees[:, :1], trees[0]]
    wrong += [trees.double(), trees.int()]
    for bad in wrong:
        with pytest.raises(ValueError, match="^(trees|heads) must be"):
            sweeps.counts(bad)
        with pytest.raises(ValueError, match="^(trees|heads) must be"):
            sweeps.hastings(field, bad.clone(), order, 1)
