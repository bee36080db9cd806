# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which events the elements of tables are, and the numbers that are counted: by hand, for small blocks."""

import numpy as np
import torch

from pyrogram.event_map import NEVER, ONE, EventMap, multinomials_of, numbers_of_entries
from pyrogram.grammar import Block, PackedBlock
from pyrogram.sweeps.events import TableEvents

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
    two = own.mixed(blocks, "share", 2)
    assert two.tables["a"].tolist() == [[2, 3], [10, 11]] and two.tables["share"].tolist() == [0, 1]
    assert two.tables["b"].tolist() == [[[4, 5, NEVER], [7, 8, ONE]], [[12, 13, NEVER], [15, 16, ONE]]]
    assert own.of_components(np.array([0, NEVER]), 2, 1).tolist() == [[2, 10], [NEVER, NEVER]]
