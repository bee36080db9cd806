# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is saved of restaurants is all of them, and no more; what does not fit together is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pyrogram.charts.pitman_yor import PATHS, Restaurants

ALPHA, EPSILON = torch.tensor([0.5, 0.3]), torch.tensor([0.2, 0.6])


def made(paths: Any, number: int = 300) -> tuple[Restaurants, list[Tensor], Tensor]:
    """Observations of which the first half has gone again."""
    generator = torch.Generator().manual_seed(1)
    fine = torch.randint(12, (number,), generator=generator)
    keys, values = [fine // 4, fine], torch.randint(7, (number,), generator=generator)
    found = Restaurants(2, 7, paths)
    found.add(keys, values, ALPHA, EPSILON, generator)
    half = number // 2
    found.remove([k[:half] for k in keys], values[:half], ALPHA, EPSILON, generator)
    return found, [k[half:] for k in keys], values[half:]


@pytest.mark.parametrize("paths", PATHS)
def test_goes_on_as_before(paths: Any) -> None:
    old, keys, values = made(paths)
    new = Restaurants(2, 7, paths).load_state_dict(old.state_dict())
    for level in (0, 1):
        for ours, theirs in zip(old.table(level), new.table(level), strict=True):
            assert torch.equal(ours, theirs)
    assert torch.equal(old.predict_all(keys, ALPHA, EPSILON), new.predict_all(keys, ALPHA, EPSILON))
    assert torch.equal(old.log_joint(ALPHA, EPSILON), new.log_joint(ALPHA, EPSILON))
    seats = []
    for restaurants in (old, new):
        generator = torch.Generator().manual_seed(2)
        for _ in range(3):
            restaurants.add(keys, values, ALPHA, EPSILON, generator)
            restaurants.remove([k[:20] for k in keys], values[:20], ALPHA, EPSILON, generator)
            if paths == "exact":
                restaurants.reseat(ALPHA, EPSILON, generator)
        seats.append(restaurants.state_dict())
    assert seats[0].keys() == seats[1].keys()
    for name, x in seats[0].items():
        assert torch.equal(x, seats[1][name]), name


@pytest.mark.parametrize("paths", PATHS)
def test_room_to_spare_is_not_saved(paths: Any) -> None:
    state = made(paths)[0].state_dict()
    contexts, dishes = 12 + 3, 12 * 7 + 3 * 7
    assert all(len(state[name]) <= contexts for name in ("keys", "levels", "parents"))
    assert all(len(state[name]) <= dishes for name in ("contexts", "values", "c", "t"))
    assert ("buckets" in state) == (paths == "exact")


def changed(state: dict[str, Tensor], name: str, index: int, to: int) -> dict[str, Tensor]:
    tensor = state[name].clone()
    tensor[index] = to
    return {**state, name: tensor}


@pytest.mark.parametrize(
    ("name", "index", "to"),
    [
        ("used", 0, 3),
        ("levels", 0, 2),
        ("parents", -1, 99),
        ("parents", -1, -1),
        ("contexts", 0, 50),
        ("values", 0, 7),
        ("values", 0, -1),
        ("c", 0, -4),
        ("t", 0, 1000),
        ("buckets", 0, 10**6),
        ("sizes", 0, 40),
        ("numbers", 0, 0),
        ("after", 0, 0),
    ],
)
def test_what_does_not_fit_is_refused(name: str, index: int, to: int) -> None:
    state = made("exact")[0].state_dict()
    Restaurants(2, 7, "exact").load_state_dict(state)
    with pytest.raises(ValueError, match="do not fit together"):
        Restaurants(2, 7, "exact").load_state_dict(changed(state, name, index, to))


def test_what_is_missing_is_named() -> None:
    state = made("minimal")[0].state_dict()
    del state["parents"]
    with pytest.raises(ValueError, match="it has no 'parents'"):
        Restaurants(2, 7, "minimal").load_state_dict(state)
