# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The best trees, and draws, of all kinds of trees against enumeration (oracle.py)."""

import itertools
import math

import pytest
import torch
from torch import Tensor
from tree_charts import (
    EXACT,
    KINDS,
    Kind,
    dtypes,
    impossibilities,
    impossible,
    kinds,
    of_any_kind,
    problem,
    roots,
    to,
)

from pyrogram.testing import chi_square, frequencies
from pyrogram.trees import is_tree


def check_best(kind: Kind, tables: dict[str, Tensor], lengths: Tensor, multiroot: bool, k: int) -> None:
    heads, scores = kind.top_k(tables, lengths, multiroot, k)
    dtype = tables["arc"].dtype
    assert heads.shape == (k, len(lengths), tables["arc"].shape[1] - 1) and heads.dtype == torch.long
    assert scores.shape == (k, len(lengths)) and scores.dtype == dtype
    close = {"rel": EXACT[dtype]["rtol"], "abs": EXACT[dtype]["atol"]}
    for b, (m, one) in enumerate(zip(lengths.tolist(), kind.truth(tables, lengths, multiroot), strict=True)):
        ranked = one.ranked()[:k]
        number = len(ranked)
        assert scores[:number, b].tolist() == pytest.approx(ranked, **close)
        assert (scores[number:, b] == -torch.inf).all() and (heads[number:, b] == -1).all()
        assert (heads[:, b, m:] == -1).all()
        found = [tuple(row) for row in heads[:number, b, :m].tolist()]
        own = dict(zip(one.trees, one.scores, strict=True))
        assert len({*found}) == number and [own[tree] for tree in found] == pytest.approx(ranked, **close)


@pytest.mark.one_in(12)
@roots
@dtypes
@kinds
@pytest.mark.parametrize("k", [1, 3, 80])
def test_best_trees(kind: Kind, k: int, dtype: torch.dtype, multiroot: bool) -> None:
    """Of sentences of any kind, of those that have few trees or none; 80 is more than there are of four words."""
    tables, lengths = of_any_kind(kind, multiroot)
    check_best(kind, to(tables, dtype), lengths, multiroot, k)
    for what in impossibilities(kind):
        tables, lengths = impossible(kind, what)
        check_best(kind, to(tables, dtype), lengths, multiroot, k)


@pytest.mark.one_in(2)
@roots
@kinds
def test_equal_scores_give_different_trees(kind: Kind, multiroot: bool) -> None:
    """All of them, once each."""
    trees = kind.trees(4, multiroot)
    tables = {name: torch.zeros(1, *shape) for name, shape in kind.shapes(5).items()}
    heads, scores = kind.top_k(tables, torch.tensor([4]), multiroot, len(trees) + 2)
    assert {tuple(row) for row in heads[: len(trees), 0].tolist()} == {*trees}
    assert (scores[: len(trees)] == 0).all() and (scores[len(trees) :] == -torch.inf).all()


def check_draws(kind: Kind, tables: dict[str, Tensor], lengths: Tensor, multiroot: bool, number: int = 8000) -> None:
    truth = kind.truth(tables, lengths, multiroot)
    possible = torch.tensor([one.log_z > -math.inf for one in truth])
    tables, lengths = {name: x[possible] for name, x in tables.items()}, lengths[possible]
    heads = kind.sample(tables, lengths, multiroot, number)
    assert heads.shape == (number, len(lengths), tables["arc"].shape[1] - 1) and heads.dtype == torch.long
    for b, one in enumerate(itertools.compress(truth, possible.tolist())):
        m = int(lengths[b])
        assert (heads[:, b, m:] == -1).all()
        seen, strange = frequencies(heads[:, b, :m], torch.tensor(one.trees))
        assert strange == 0 and chi_square(seen, torch.tensor(one.probs)) > 1e-4


@pytest.mark.one_in(8)
@roots
@dtypes
@kinds
def test_draws(kind: Kind, dtype: torch.dtype, multiroot: bool) -> None:
    tables, lengths = of_any_kind(kind, multiroot)
    few = [0, 1, 2, 3, 4]
    check_draws(kind, {name: x[few].to(dtype) for name, x in tables.items()}, lengths[few], multiroot)
    tables, lengths = impossible(kind, "one tree")
    heads = kind.sample({name: x[:1] for name, x in tables.items()}, lengths[:1], multiroot, 50)
    assert (heads == torch.tensor([2, 0, 4, 2])).all()


@kinds
def test_draws_depend_on_the_generator_alone(kind: Kind) -> None:
    tables, lengths = problem(kind, [8] * 5)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (kind.sample(tables, lengths, False, 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, again) and not torch.equal(one, other)
    law = kind.law(tables, lengths, False)
    free = [law.sample((3,)) for _ in range(2)]
    torch.set_rng_state(before)
    assert not torch.equal(*free)
    assert torch.equal(law.sample((3,)), free[0])


@kinds
def test_what_cannot_be_drawn_is_named(kind: Kind) -> None:
    for what in impossibilities(kind):
        tables, lengths = impossible(kind, what)
        hopeless = kind.log_partition(tables, lengths, False, "torch") == -torch.inf
        with pytest.raises(ValueError, match=f"sentence {int(hopeless.nonzero()[0])} has no tree of positive weight"):
            kind.sample(tables, lengths, False, 1)
    tables, lengths = problem(kind, [3, 3, 3])
    tables["arc"][1] = torch.nan
    with pytest.raises(ValueError, match="scores of sentence 1 must be numbers, but some are NaN"):
        kind.sample(tables, lengths, False, 1)


@kinds
def test_draws_of_long_sentences_keep_the_marginals(kind: Kind) -> None:
    tables, lengths = problem(kind, [20, 12])
    heads = kind.sample(tables, lengths, False, 1500)
    arcs = kind.marginals(tables, lengths, False)[1]["arc"]
    arcs = arcs if arcs.dim() == 3 else arcs.sum(-1)
    assert is_tree(heads, projective=kind is not KINDS["crossing arcs"]).all()
    for b, m in enumerate(lengths.tolist()):
        drawn = torch.nn.functional.one_hot(heads[:, b, :m], 21).double().mean(0).T  # (head, dependent)
        p = arcs[b, :, 1 : m + 1]
        assert ((drawn - p).abs() / (p * (1 - p) / 1500 + 1e-6).sqrt()).max() < 5
