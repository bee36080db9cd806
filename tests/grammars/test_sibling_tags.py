# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The chart over trees and tags against all trees with all tags, scored by loops."""

import itertools
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from pyrogram.grammars import sibling_tags
from pyrogram.grammars.sibling_tags import TaggedTreeScores
from pyrogram.trees import projective_trees

S = 2


def random_scores(batch: int, n: int, seed: int) -> TaggedTreeScores:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(n + 1, n + 1, S, S), (n + 1, 2, S, S), (n + 1, 2, S, S, S), (n + 1, 2, S), (n + 1, 2, S, S), (n + 1, S)]
    return TaggedTreeScores(*(torch.randn(batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes))


def one(scores: TaggedTreeScores, b: int) -> TaggedTreeScores:
    return TaggedTreeScores(*(getattr(scores, f.name)[b] for f in fields(scores)))


def score(x: TaggedTreeScores, tags: tuple[int, ...], heads: list[int]) -> float:
    """What a tree with tags scores: ROOT and each word generate their children from the inside out."""
    n = len(heads)
    found = sum(float(x.leaves[m, tags[m - 1]]) for m in range(1, n + 1))
    for h in range(n + 1):
        t = tags[h - 1] if h else 0
        for direction, places in ((0, range(h - 1, 0, -1)), (1, range(h + 1, n + 1))):
            before = None
            for m in places:
                if heads[m - 1] != h:
                    continue
                s = tags[m - 1]
                found += float(x.arcs[h, m, t, s])
                found += float(x.firsts[h, direction, t, s] if before is None else x.nexts[h, direction, t, before, s])
                before = s
            if h:
                found += float(x.childless[h, direction, t] if before is None else x.stops[h, direction, t, before])
    return found


def everything(x: TaggedTreeScores, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """All tags and trees of n words, and their scores."""
    pairs = list(itertools.product(itertools.product(range(S), repeat=n), projective_trees(n).tolist()))
    scores = torch.tensor([score(x, tags, heads) for tags, heads in pairs], dtype=torch.float64)
    tags, heads = (torch.tensor([pair[i] for pair in pairs]) for i in range(2))
    return tags, heads, scores


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_sums_and_marginals(n: int) -> None:
    scores = random_scores(3, n, seed=n)
    log_z, arcs, of_tags = sibling_tags.marginals(scores, torch.full((3,), n))
    torch.testing.assert_close(sibling_tags.log_partition(scores, torch.full((3,), n)), log_z)
    for b in range(3):
        tags, heads, each = everything(one(scores, b), n)
        torch.testing.assert_close(log_z[b], each.logsumexp(0), rtol=1e-10, atol=1e-10)
        p = each.softmax(0)
        for m in range(n):
            by_head = torch.zeros(n + 1, dtype=torch.float64).index_add_(0, heads[:, m], p)
            by_tag = torch.zeros(S, dtype=torch.float64).index_add_(0, tags[:, m], p)
            torch.testing.assert_close(arcs[b, :, m + 1], by_head, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(of_tags[b, m], by_tag, rtol=1e-9, atol=1e-12)


def test_best_and_lengths() -> None:
    """The most probable pair; a shorter sentence does not see what stands behind it."""
    scores, lengths = random_scores(4, 4, seed=9), torch.tensor([4, 2, 1, 3])
    tags, heads = sibling_tags.best(scores, lengths)
    log_z = sibling_tags.log_partition(scores, lengths)
    for b, n in enumerate(lengths.tolist()):
        all_tags, all_heads, each = everything(one(scores, b), n)
        top = int(each.argmax())
        assert tags[b].tolist() == all_tags[top].tolist() + [-1] * (4 - n)
        assert heads[b].tolist() == all_heads[top].tolist() + [-1] * (4 - n)
        torch.testing.assert_close(log_z[b], each.logsumexp(0), rtol=1e-10, atol=1e-10)


def test_draws_have_their_probabilities() -> None:
    scores, number = random_scores(1, 3, seed=4), 20000
    drawn = sibling_tags.sample(scores, torch.tensor([3]), number, torch.Generator().manual_seed(0))
    tags, heads, each = everything(one(scores, 0), 3)
    rows = torch.cat([x[:, 0] for x in drawn], 1)
    found = (rows[:, None] == torch.cat([tags, heads], 1)).all(-1)
    assert bool((found.sum(1) == 1).all())
    expected = each.softmax(0)
    deviation = (expected * (1 - expected) / number).sqrt()
    assert bool(((found.double().mean(0) - expected).abs() < 4.5 * deviation + 1e-12).all())


def test_impossible_events() -> None:
    """Probabilities of zero leave what is possible, and of words far below the others' nothing is lost."""
    scores = random_scores(1, 3, seed=6)
    scores.leaves[:, 1, 0] = -torch.inf
    scores.arcs[:, :, 2] -= 900.0
    tags, _, each = everything(one(scores, 0), 3)
    log_z, _, of_tags = sibling_tags.marginals(scores, torch.tensor([3]))
    torch.testing.assert_close(log_z[0], each.logsumexp(0), rtol=1e-12, atol=0)
    assert float(of_tags[0, 0, 0]) == 0 and int((tags[each > -torch.inf][:, 0] == 0).sum()) == 0
