# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which events the elements of tables are, and the numbers that are counted: by hand, for small blocks."""

import numpy as np
import pytest
import torch

from pyrogram.event_map import NEVER, ONE, EventMap, multinomials_of
from pyrogram.grammar import Block, PackedBlock

A, B = Block(torch.Size([2])), Block(torch.Size([2, 3]))
BLOCKS = {"a": A, "b": B}  # events 0 1 | 2 3 4, 5 6 7; multinomials 8, 9, 10; padding 11; nothing 12


def test_multinomials_are_numbered_through_all_blocks() -> None:
    packed = PackedBlock(torch.Size([5]), (2, 3))
    assert multinomials_of({"a": A, "packed": packed, "b": B}).tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_the_blocks_themselves() -> None:
    events = EventMap.of_blocks(BLOCKS)
    assert events.tables["b"].tolist() == [[2, 3, 4], [5, 6, 7]]
    assert (
        events.counted is None
        and events.padding == 11
        and {n: t.size for n, t in events.tables.items()} == {"a": 2, "b": 6}
    )
    assert events.shapes == {"a": (2,), "b": (2, 3)}


def test_a_column_as_a_table_and_elements_that_are_no_events() -> None:
    """The last column of b, b without it, and a list of rules: weight one, an event, one that never occurs."""
    b = np.array([[2, 3, 4], [5, 6, 7]])
    events = EventMap(BLOCKS, {"a": np.arange(2), "end": b[:, 2:], "b": b[:, :2], "list": np.array([[ONE, 3, NEVER]])})
    assert events.shapes == {
        "a": (2,),
        "end": (2, 1),
        "b": (2, 2),
        "list": (1, 3, 1),
    }  # weight one is of no multinomial
    assert events.counted is not None
    elements, rows = events.counted[:11].tolist(), events.counted[11:].tolist()
    assert elements == [0, 1, 4, 7, 2, 3, 5, 6, 11, 3, 12]
    assert rows == [8, 9, 10, 9, 10, 11, 9, 11, 11, 12]


def test_a_row_of_what_never_occurs_is_one_row() -> None:
    events = EventMap(BLOCKS, {"list": np.array([[5, NEVER], [NEVER, NEVER]])})
    assert events.shapes == {"list": (2, 2)}
    assert events.counted is not None and events.counted.tolist() == [5, 12, 12, 12, 10, 11, 11, 12]


def test_ties_compose() -> None:
    """Both rows of b are one, backwards; then its entries are those of a block of five, of which 1 is a constant."""
    one = EventMap.of_blocks(BLOCKS).tied({"s": Block(torch.Size([2])), "t": Block(torch.Size([3]))}, entries())
    assert one.tables["b"].tolist() == [[4, 3, 2], [4, 3, 2]] and one.padding == 7
    assert one.counted is not None
    assert one.counted.tolist() == [0, 1, 4, 3, 2, 4, 3, 2, 5, 6, 6, 7, 8]
    again = {"s": torch.tensor([3, 4]), "t": torch.tensor([0, 1, 2])}
    two = one.tied({"u": Block(torch.Size([5]))}, again)
    assert two.tables["a"].tolist() == [3, 4] and two.tables["b"].tolist() == [[2, 1, 0], [2, 1, 0]]
    assert two.counted is not None and two.counted.tolist() == [3, 4, 2, 1, 0, 2, 1, 0, 5, 5, 5, 6, 7]


def entries() -> dict[str, torch.Tensor]:
    return {"a": torch.tensor([0, 1]), "b": torch.tensor([[4, 3, 2], [4, 3, 2]])}


def test_rows_of_several_multinomials_are_split() -> None:
    events = EventMap(BLOCKS, {"b": np.array([[2, 3, 7], [5, 6, 7]])})
    assert events.shapes == {"b": (2, 3, 1)}
    assert events.counted is not None and events.counted[6:].tolist() == [9, 9, 10, 10, 10, 10, 11, 12]


def test_components() -> None:
    """Of two: shares 0 1, then a and b of either: 2 3 | 4 to 9, and 10 11 | 12 to 17."""
    own = EventMap(BLOCKS, {"b": np.array([[2, 3, NEVER], [5, 6, ONE]]), "a": np.arange(2)})
    blocks = {"share": A, "a[0]": A, "b[0]": B, "a[1]": A, "b[1]": B}
    two = own.mixed(blocks, "share", 2)
    assert two.tables["a"].tolist() == [[2, 3], [10, 11]] and two.tables["share"].tolist() == [0, 1]
    assert two.tables["b"].tolist() == [[[4, 5, NEVER], [7, 8, ONE]], [[12, 13, NEVER], [15, 16, ONE]]]
    assert own.by_component(2).tolist() == [[2, 3, 4, 5, 6, 7, 14, 15], [8, 9, 10, 11, 12, 13, 16, 17]]


@pytest.mark.parametrize("given", [{"a": torch.tensor([0.5, -1.0])}, {"b": -torch.arange(6.0).reshape(2, 3)}])
def test_values_of_elements(given: dict[str, torch.Tensor]) -> None:
    events = EventMap(BLOCKS, {"list": np.array([1, ONE, 7, NEVER, 0])})
    expected = [-1.0, 0, 0, 0, 0.5] if "a" in given else [0, 0, -5.0, 0, 0]
    assert events.values(given).tolist() == expected
