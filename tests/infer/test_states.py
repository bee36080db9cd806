# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The states of loops and samplers: a step leaves the old one alone, and a spoilt one is refused in one sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from infer.gaussian_sums import dense
from safetensors.torch import save
from torch import Tensor

from pyrogram import DMV
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.infer.running.checkpoint import save_state
from pyrogram.infer.running.state import flatten, ragged, unflatten
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import logistic_normal

GRAMMAR = DMV(2)
WORDS = torch.tensor([[0, 1, 0], [1, 0, -1], [0, -1, -1], [1, 1, 0]])

ALGORITHMS: dict[str, Callable[[], GrammarLoop]] = {
    "maximum likelihood": lambda: EM(maximum_likelihood, initial_weights="harmonic"),
    "vb": lambda: VariationalEM(dirichlet),
    "logistic normal": lambda: VariationalEM(logistic_normal),
    "cvb": lambda: CollapsedVB(dirichlet, order="shuffled", seed=0),
    "hastings": lambda: TreeHastings(dirichlet, seed=0),
    "gibbs": lambda: TreeGibbs(dirichlet, seed=0),
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    pyro.clear_param_store()


def stepped(name: str, steps: int = 3) -> GrammarLoop:
    loop = ALGORITHMS[name]()
    for _ in range(steps):
        loop.step(WORDS, GRAMMAR)
    return loop


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_is_a_function_of_the_state(name: str) -> None:
    """It does not change the state, and from the same one it leads to the same one."""
    loop = stepped(name)
    problem, state = loop._present()
    before = {n: t.clone() for n, t in flatten(state).items()}
    one, info = loop._update(problem, state)
    first = {n: t.clone() for n, t in flatten(one).items()}
    again, same = loop._update(problem, state)
    assert info.objective == same.objective
    assert all(torch.equal(t, flatten(state)[n]) for n, t in before.items())
    assert first.keys() == flatten(again).keys()
    assert all(torch.equal(t, flatten(again)[n]) for n, t in first.items())
    assert any(not torch.equal(t, before[n]) for n, t in first.items())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_spoilt_states_are_refused(name: str) -> None:
    """Every entry left out, emptied, or longer; an unknown one: and the loop is as it was."""
    after = stepped(name, 4).history[-1]
    pyro.clear_param_store()
    loop = stepped(name)
    good = loop.state_dict()
    spoilt: list[dict[str, Tensor]] = [{**good, "nonsense": torch.zeros(1)}]
    for entry, tensor in good.items():
        spoilt.append({n: t for n, t in good.items() if n != entry})
        if tensor.numel():
            spoilt.append({**good, entry: tensor.flatten()[:0]})
        spoilt.append({**good, entry: torch.cat([tensor.flatten(), tensor.flatten(), tensor.new_ones(1)])})
    for state in spoilt:
        with pytest.raises(ValueError, match="is not the state of") as error:
            loop.load_state_dict(state)
        assert "\n" not in str(error.value)
        assert all(torch.equal(t.nan_to_num(), good[n].nan_to_num()) for n, t in loop.state_dict().items())
    loop.load_state_dict(good)
    assert loop.step(WORDS, GRAMMAR) == after


def test_a_spoilt_checkpoint_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "c"
    loop = EM(maximum_likelihood).run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)
    state = {n: t.contiguous() for n, t in loop.state_dict().items()}
    state["weights.root"] = state["weights.root"][:0]
    save_state(path, state, loop._fingerprint())
    message = f"{path}: .*needs 'weights.root' in shape .2,., not .0,.; delete it or pass resume=False"
    with pytest.raises(ValueError, match=message):
        EM(maximum_likelihood).run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)
    path.write_bytes(save(state, {"format": "pyrogram-loop-1", "fingerprint": loop._fingerprint()}))
    with pytest.raises(ValueError, match="another version of pyrogram; delete it or pass resume=False"):
        EM(maximum_likelihood).run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)


def test_names_of_a_state() -> None:
    @dataclass(frozen=True)
    class Inner:
        x: Tensor

    @dataclass(frozen=True)
    class State:
        a: Tensor
        b: dict[str, Tensor]
        inner: Inner

    state = State(torch.zeros(2), {"x.y": torch.ones(1), "z": torch.ones(3)}, Inner(torch.zeros(())))
    flat = flatten(state)
    assert sorted(flat) == ["a", "b.x.y", "b.z", "inner.x"]
    found = unflatten(state, {**flat, "a": torch.ones(2).double()}, "State")
    assert found.a.dtype == state.a.dtype and float(found.a.sum()) == 2 and found.b.keys() == state.b.keys()
    assert found.inner.x is not state.inner.x
    message = "the state of State, which lacks 'a' and has no use for 'z' and needs 'inner.x' in shape .., not .1,."
    with pytest.raises(ValueError, match=message):
        unflatten(
            state, {**{n: t for n, t in flat.items() if n != "a"}, "z": flat["a"], "inner.x": flat["b.z"][:1]}, "State"
        )


@dataclass(frozen=True)
class Ragged:
    one: dict[str, Tensor] = ragged()
    two: dict[str, dict[str, Tensor]] = ragged()


def test_ragged_fields_take_what_there_is() -> None:
    state = Ragged({"a.b": torch.ones(2)}, {"site.x": {"values": torch.ones(3), "starts": torch.zeros(1)}})
    found = unflatten(Ragged({}, {}), flatten(state), "Ragged")
    assert found.one.keys() == state.one.keys() and found.two["site.x"].keys() == state.two["site.x"].keys()


def test_the_first_m_step_is_about_the_given_start() -> None:
    """The mean over all sentences of q's means, which began at the given weights and not at the model's own."""
    start: dict[str, Any] = GRAMMAR.initial_weights(WORDS, "random", seed=3)
    loop = VariationalEM(logistic_normal, initial_weights=start)
    loop.step(WORDS, GRAMMAR)
    means, _ = dense(loop)
    parameters = {name: p.detach() for name, p in pyro.get_param_store().items()}
    learnt = [p for name, p in parameters.items() if name.startswith("loc")]
    assert len(learnt) == len(means) == 3
    for mean in means.values():
        assert any(p.shape == mean.shape[1:] and torch.allclose(p, mean.mean(0).to(p), atol=1e-5) for p in learnt)
