# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Manners of all charts of trees: strides, threads, batches, refusals, long sentences in float32."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from tree_charts import (
    KINDS,
    Kind,
    dtypes,
    engines,
    kinds,
    problem,
    to,
)

from pyrogram.trees import is_tree


def results(kind: Kind, tables: dict[str, Tensor], lengths: Tensor, engine: str) -> list[Tensor]:
    log_z, marginals = kind.marginals(tables, lengths, False, engine)
    drawn, best = kind.sample(tables, lengths, False, 2), kind.top_k(tables, lengths, False, 3)
    return [kind.log_partition(tables, lengths, False, engine), log_z, *marginals.values(), drawn, *best]


@pytest.mark.one_in(4)
@engines
@dtypes
@kinds
def test_strides_threads_and_inputs(kind: Kind, engine: str, dtype: torch.dtype) -> None:
    """Results are the same however tensors lie, and on any number of threads; inputs stay as they are."""
    tables, lengths = problem(kind, [9, 4, 1] * 4, junk=[math.nan, 1.0], multiroot=False)
    tables = to(tables, dtype)
    copies = {name: x.clone() for name, x in tables.items()}
    expected = results(kind, tables, lengths, engine)
    torch.testing.assert_close(tables, copies, rtol=0, atol=0, equal_nan=True)
    assert not any(x.requires_grad for x in tables.values())
    twisted = {name: x.transpose(0, 1).contiguous().transpose(0, 1) for name, x in tables.items()}
    assert not any(x.is_contiguous() for x in twisted.values())
    strided = torch.stack([lengths, lengths * 0 - 7], 1)[:, 0]
    threads = torch.get_num_threads()
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            for got, wanted in zip(results(kind, twisted, strided, engine), expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=1e-6)
    finally:
        torch.set_num_threads(threads)


@kinds
def test_batches_broadcast(kind: Kind) -> None:
    tables, _ = problem(kind, [3] * 6)
    lengths = torch.tensor([3, 2])
    first, *others = tables
    mixed = {first: tables[first][:3, None], **{name: tables[name][:2] for name in others}}
    log_z = kind.log_partition(mixed, lengths, False)
    assert log_z.shape == (3, 2)
    alone = {first: tables[first][2], **{name: tables[name][1] for name in others}}
    torch.testing.assert_close(log_z[2, 1], kind.log_partition(alone, lengths[1], False))
    heads = kind.sample(mixed, lengths, False, 4)
    assert heads.shape == (4, 3, 2, 3) and (heads[..., 1, 2] == -1).all()
    none = {name: x[:0] for name, x in tables.items()}
    assert kind.log_partition(none, None, False).shape == (0,)


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("siblings", {"arc": torch.zeros(2, 4, 5)}, r"arc_scores must have shape \(\.\.\., n\+1, n\+1\).*, not \(2, 4, 5"),
    ("siblings", {"arc": torch.zeros(1, 1)}, r"n >= 1, not \(1, 1\)"),
    ("siblings", {"arc": torch.zeros(4, 4).long()}, "arc_scores must be floating-point numbers, not torch.int64"),
    ("siblings", {"sibling": torch.zeros(4, 4, 5)}, r"sibling_scores must have shape \(\.\.\., 4, 4, 4\), not"),
    ("siblings", {"sibling": torch.zeros(4, 4, 4).float()}, "sibling_scores are torch.float32 but arc_scores are"),
    ("siblings", {"stop": torch.zeros(4, 2, 2)}, r"stop_scores must have shape \(\.\.\., 4, 2, 4\), not \(4, 2, 2\)"),
    ("siblings", {"lengths": torch.tensor([1.0])}, "lengths must be integers, not torch.float"),
    ("arcs", {"stop": torch.zeros(4, 2, 2).float()}, "stop_scores are torch.float32 but arc_scores are torch.float64"),
    ("crossing arcs", {"arc": torch.zeros(3, 4)}, "arc_scores must have shape"),
    *((name, {"lengths": torch.tensor([4])}, r"lengths must lie in 1\.\.3, not 4\.\.4") for name in KINDS),
]


@pytest.mark.parametrize(("name", "changed", "message"), REFUSALS)
def test_what_is_refused(name: str, changed: dict[str, Any], message: str) -> None:
    kind = KINDS[name]
    tables = {table: torch.zeros(shape) for table, shape in kind.shapes(4).items()} | changed
    lengths = tables.pop("lengths", None)
    with pytest.raises(ValueError, match=message):
        kind.law(tables, lengths, False)


@pytest.mark.slow
@kinds
def test_two_hundred_words_in_float32(kind: Kind) -> None:
    tables, lengths = problem(kind, [200, 150])
    single = {name: (x - 3).float() for name, x in tables.items()}
    log_z, found = kind.marginals(single, lengths, False)
    exact = kind.log_partition(to(single, torch.float64), lengths, False)
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-6, atol=1e-3)
    arcs = found["arc"] if found["arc"].dim() == 3 else found["arc"].sum(-1)
    for b, m in enumerate(lengths.tolist()):
        torch.testing.assert_close(arcs[b, :, 1 : m + 1].sum(0), torch.ones(m).float(), rtol=1e-4, atol=0)
    drawn, (best, scores) = kind.sample(single, lengths, False, 1), kind.top_k(single, lengths, False, 1)
    assert is_tree(drawn, projective=kind is not KINDS["crossing arcs"]).all()
    assert best[0, 1, 150:].max() == -1 and (scores < log_z).all()
