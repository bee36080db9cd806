# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is saved of restaurants is all of them, and no more; what does not fit together is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pyrogram.restaurants.restaurants import PATHS, Restaurants

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


@pytest.mark.parametrize(
    ("name", "to", "message"),
    [
        ("base", lambda t: t * torch.nan, "base must be probabilities"),
        ("base", lambda t: t * 0, "base must be probabilities"),
        ("base", lambda t: t[:-1], "base must be probabilities"),
        ("base", lambda t: None, "'base' .* must be a tensor, not None"),
        ("c", lambda t: t + 0.5, "'c' of the state of restaurants must be a tensor of integers, not torch.float64"),
        ("keys", lambda t: t.double(), "'keys' .* must be a tensor of integers, not torch.float64"),
        ("used", lambda t: t.double(), "'used' .* must be a tensor of integers, not torch.float64"),
        ("t", lambda t: t > 0, "'t' .* must be a tensor of integers, not torch.bool"),
        ("values", lambda t: t.tolist(), "'values' .* must be a tensor of integers, not \\["),
        ("c", lambda t: t.long() + 2**32, "'c' .* must be integers of 32 bits"),
        ("kind", lambda t: None, "this is not the state of Restaurants"),
    ],
)
@pytest.mark.parametrize("paths", ["minimal", "exact"])
def test_tensors_of_another_kind_are_refused(paths: Any, name: str, to: Any, message: str) -> None:
    state = made(paths)[0].state_dict()
    with pytest.raises(ValueError, match=message):
        Restaurants(2, 7, paths).load_state_dict({**state, name: to(state[name])})
    state["more"] = torch.zeros(1)  # nothing that anybody asks for
    Restaurants(2, 7, paths).load_state_dict(state)


@pytest.mark.parametrize("paths", PATHS)
@pytest.mark.parametrize(("of", "within"), [("keys", "levels"), ("values", "contexts")])
def test_what_occurs_twice_is_refused(paths: Any, of: str, within: str) -> None:
    """Two contexts with one key at one level, two dishes with one value in one context."""
    state = made(paths)[0].state_dict()
    groups = state[within].tolist()
    second = next(i for i in range(len(groups)) if groups[i] in groups[:i])
    first = groups.index(groups[second])
    twice = changed(state, of, second, int(state[of][first]))
    with pytest.raises(ValueError, match="do not fit together"):
        Restaurants(2, 7, paths).load_state_dict(twice)


def test_the_base_measure_is_kept_to_the_last_bit() -> None:
    base = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.1]).float()
    old = Restaurants(2, 7, "minimal", base=base)
    state = old.state_dict()
    new = Restaurants(2, 7, "minimal").load_state_dict(state)
    state["base"].fill_(9.0)
    assert torch.equal(new.base, old.base)
