# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which events the elements of tables are, and the numbers that are counted: by hand, for small blocks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyrogram.event_map import NEVER, ONE, EventMap, TableEvents, multinomials_of, numbers_of_entries
from pyrogram.grammar import Block, PackedBlock

A, B = Block(torch.Size([2])), Block(torch.Size([2, 3]))
BLOCKS = {"a": A, "b": B}  # events 0 1 | 2 3 4, 5 6 7; multinomials 8, 9, 10; padding 11; nothing 12


def test_multinomials_are_numbered_through_all_blocks() -> None:
    packed = PackedBlock(torch.Size([5]), (2, 3))
    assert multinomials_of({"a": A, "packed": packed, "b": B}).tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_the_blocks_themselves() -> None:
    events = EventMap.of_blocks(BLOCKS)
    assert events.tables["b"].tolist() == [[2, 3, 4], [5, 6, 7]] and events.is_one_to_one
    assert {n: t.size for n, t in events.tables.items()} == {"a": 2, "b": 6}


def test_a_column_as_a_table_and_elements_that_are_no_events() -> None:
    """The last column of b, b without it, and a list of rules: weight one, an event, one that never occurs."""
    b = np.array([[2, 3, 4], [5, 6, 7]])
    tables = {"a": np.arange(2), "end": b[:, 2:], "b": b[:, :2]}
    assert EventMap(BLOCKS, tables).is_one_to_one
    events = EventMap(BLOCKS, {**tables, "list": np.array([[ONE, 3, NEVER]])})
    assert not events.is_one_to_one
    found = {
        name: table.event(np.arange(3 if name == "list" else 2)).tolist() for name, table in events.lookups.items()
    }
    assert found == {"a": [0, 1], "end": [4, 7], "b": [2, 3], "list": [ONE, 3, NEVER]}
    assert {name: table.shape for name, table in events.lookups.items()}["list"] == (1, 3)


def test_few_elements_that_are_events() -> None:
    """Of a table of two times four the last column and one more."""
    places = np.array([-1, 1, -1, 0, -1, -1, -1, 2])
    few = {"a": TableEvents(places.__getitem__, (2, 4))}
    events = EventMap({"a": Block(torch.Size([3]))}, {"a": np.array([2, 0, 1])}, few)
    assert events.is_one_to_one and events.lookups["a"].shape == (2, 4)
    expected = [NEVER, 0, NEVER, 2, NEVER, NEVER, NEVER, 1]
    assert events.lookups["a"].event(np.arange(8).reshape(2, 4)).reshape(-1).tolist() == expected


def test_numbers_of_entries() -> None:
    """Of events, and where both rows of b are one, backwards; what never occurs and weight one come last."""
    entries, multinomials = numbers_of_entries(BLOCKS, None)
    assert entries.tolist() == [*range(8), 12, 11] and entries[[NEVER, ONE]].tolist() == [12, 11]
    assert multinomials[entries].tolist() == [8, 8, 9, 9, 9, 10, 10, 10, 11, 11]
    sources = {"s": Block(torch.Size([2])), "t": Block(torch.Size([3]))}
    entries, multinomials = numbers_of_entries(sources, np.array([0, 1, 4, 3, 2, 4, 3, 2]))
    assert entries.tolist() == [0, 1, 4, 3, 2, 4, 3, 2, 8, 7]
    assert multinomials[entries].tolist() == [5, 5, *[6] * 6, 7, 7]


def test_components() -> None:
    """Of two: shares 0 1, then a and b of either: 2 3 | 4 to 9, and 10 11 | 12 to 17."""
    own = EventMap(BLOCKS, {"b": np.array([[2, 3, NEVER], [5, 6, ONE]]), "a": np.arange(2)})
    blocks = {"share": A, "a[0]": A, "b[0]": B, "a[1]": A, "b[1]": B}
    own = replace(own, located={"c": np.array([[[0, NEVER]], [[ONE, 3]]])})  # a position, then a symbol
    two = own.mixed(blocks, "share", {"a": 1, "b": 2, "c": 1})
    assert two.tables["a"].tolist() == [[2, 3], [10, 11]] and two.tables["share"].tolist() == [0, 1]
    assert two.tables["b"].tolist() == [[[4, 5, NEVER], [7, 8, ONE]], [[12, 13, NEVER], [15, 16, ONE]]]
    assert two.located["c"].tolist() == [[[[2, NEVER], [10, NEVER]]], [[[ONE, 5], [ONE, 13]]]]


LOCATED = np.array([[ONE, 7], [3, NEVER]])  # of two sentences, each with two elements


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_values_of_elements(rows: int, dtype: torch.dtype) -> None:
    """One set of weights, or one for each of two sentences; the gradient are the counts, summed by event."""
    tables = {"a": np.arange(2), "t": np.array([2, 3, 3, NEVER]), "u": np.array([[6], [ONE]])}
    events = EventMap(BLOCKS, tables, located={"l": LOCATED})
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, *x.shape, generator=generator, dtype=dtype).requires_grad_() for x in (A, B))
    values = events.gathered({"a": a, "b": b})
    first, last, none = 0, rows - 1, -torch.inf
    assert [*values] == ["a", "t", "u", "l"] and torch.equal(values["a"], a)
    assert values["t"].tolist() == [[b[r, 0, 0], b[r, 0, 1], b[r, 0, 1], none] for r in range(rows)]
    assert values["u"].tolist() == [[[b[r, 1, 1]], [0.0]] for r in range(rows)]
    assert values["l"].tolist() == [[0.0, b[first, 1, 2]], [b[last, 0, 1], none]]
    counts = {n: torch.randn(x.shape, generator=generator, dtype=dtype) for n, x in values.items()}
    total = sum((torch.where(values[n] > none, values[n], 0.0) * counts[n]).sum() for n in values)
    assert isinstance(total, torch.Tensor)
    sums = events.summed(counts, rows)
    for name, gradient in zip(("a", "b"), torch.autograd.grad(total, [a, b]), strict=True):
        assert sums[name].dtype == dtype and torch.allclose(sums[name], gradient)


def test_columns_are_views() -> None:
    b = np.array([[2, 3, 4], [5, 6, 7]])
    events = EventMap(BLOCKS, {"a": np.arange(2), "end": b[:, 2:], "b": b[:, :2]})
    values = {"a": torch.arange(2.0)[None], "b": torch.arange(6.0).reshape(1, 2, 3)}
    tables = events.gathered(values)
    assert tables["end"].tolist() == [[[2.0], [5.0]]] and tables["b"].tolist() == [[[0.0, 1.0], [3.0, 4.0]]]
    storages = {table.untyped_storage().data_ptr() for table in (tables["end"], tables["b"], values["b"])}
    assert len(storages) == 1
    assert all(torch.equal(x, values[n]) for n, x in events.summed(tables, 1).items())


def test_rows_of_events() -> None:
    """What is no event is left out; elements of sentences come after those of all."""
    events = EventMap(BLOCKS, {"t": np.array([0, 3, ONE])}, located={"l": LOCATED})
    assert events.strides == {"t": (0, 1), "l": (3, 1)}
    rows = np.array([[[2, 0, 4, 3], [1, 3, -1, -1]], [[-1] * 4, [2, 2, 2, 1]]])
    assert events.of_elements(rows, 3).tolist() == [[[0, 7, -1], [3, 3, -1]], [[-1] * 3, [3, -1, -1]]]
    assert events.of_elements(rows[..., :2], 3).tolist() == [[[0, -1, -1], [3, 3, -1]], [[-1] * 3, [-1] * 3]]
