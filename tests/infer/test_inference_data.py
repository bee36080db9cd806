# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Chains as ArviZ knows them: groups, dimensions and coordinates."""

import sys
import types
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.small_corpora import CORPORA, padded
from pyro.infer import MCMC
from torch import Tensor

from pyrogram import CFG, DMV, HMM, models
from pyrogram.distributions import Sentence
from pyrogram.infer import TreeGibbs, to_inference_data

V, SENTENCES = CORPORA["two tags"]
WORDS = padded(SENTENCES)
MODEL = models.dirichlet.dirichlet
TAGS = {"head": ["N", "V"], "child": ["N", "V"]}


@pytest.fixture(params=["0.21.0", "1.0.0"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What ArviZ is given: groups by name, since 1.0 in a mapping."""
    found: list[dict[str, Any]] = []
    fake: Any = types.ModuleType("arviz")
    fake.__version__ = request.param
    fake.from_dict = lambda *args, **kwargs: found.append({**(args[0] if args else {}), **kwargs})
    monkeypatch.setitem(sys.modules, "arviz", fake)
    return found


def check(call: dict[str, Any]) -> None:
    """Every named dimension is as long as its labels, in all variables."""
    for site, dims in call["dims"].items():
        assert call["posterior"][site].shape[2:] == tuple(len(call["coords"][d]) for d in dims)


def test_of_pyro(calls: list[dict[str, Any]]) -> None:
    mcmc = MCMC(TreeGibbs(MODEL, keep_statistics=True), 5, warmup_steps=2, disable_progbar=True)
    mcmc.run(WORDS, DMV(V))
    to_inference_data(mcmc, coords=TAGS)
    check(calls[0])
    assert calls[0]["dims"]["attach"] == ["head", "direction", "child"]
    assert calls[0]["dims"]["stop"] == ["head", "direction", "valence", "decision"]
    assert calls[0]["coords"]["child"] == ["N", "V"] and calls[0]["coords"]["direction"] == ["left", "right"]
    assert set(calls[0]["posterior"]) == {"root", "attach", "stop"}
    assert calls[0]["sample_stats"]["words.depth"].shape == calls[0]["sample_stats"]["lp"].shape == (1, 5)
    with pytest.raises(ValueError, match=r"coords has 3 names for the axis 'head', which has 2"):
        to_inference_data(mcmc, coords={"head": ["N", "V", "X"]})
    with pytest.raises(ValueError, match=r"for the axis 'tag', which is not among \['child'"):
        to_inference_data(mcmc, coords={"tag": ["N", "V"]})


@pytest.mark.parametrize("grammar", [CFG.from_string("S -> 'a' S | 'b' S | 'a' | 'b'"), HMM(2, 2)])
def test_of_samplers_by_themselves(calls: list[dict[str, Any]], grammar: Any) -> None:
    chains = [TreeGibbs(MODEL, seed=i, keep_weights=True) for i in range(2)]
    to_inference_data([c.run(WORDS, grammar, num_steps=4, progress=False) for c in chains])
    check(calls[0])
    assert set(calls[0]["dims"]) == set(grammar.blocks)
    if isinstance(grammar, CFG):
        assert calls[0]["coords"]["rule"][0] == "S -> 'a' S"
    else:
        assert calls[0]["dims"]["transition"] == ["state", "next_state"]
        assert calls[0]["coords"]["next_state"] == ["0", "1", "end"]


def tied(words: Tensor) -> None:
    """Both tags attach alike, and stop by a Beta; nothing of it is a block."""
    root = pyro.sample("root", dist.Dirichlet(torch.ones(V)))
    row = pyro.sample("row", dist.Dirichlet(torch.ones(V)))
    p = pyro.sample("p", dist.Beta(torch.ones(V, 2, 2), 1.0).to_event(3))
    weights = {"root": root, "attach": row.expand(V, 2, V), "stop": torch.stack([p, 1 - p], -1)}
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(DMV(V), weights), obs=words)


def test_axes_that_are_no_blocks_have_no_names(calls: list[dict[str, Any]]) -> None:
    mcmc = MCMC(TreeGibbs(tied), 3, warmup_steps=1, disable_progbar=True)
    mcmc.run(WORDS)
    to_inference_data(mcmc)
    check(calls[0])
    assert "row" not in calls[0]["dims"]


def test_a_grammar_that_is_given(calls: list[dict[str, Any]]) -> None:
    mcmc = MCMC(TreeGibbs(tied), 3, warmup_steps=1, disable_progbar=True)
    mcmc.run(WORDS)
    to_inference_data(mcmc, grammar=DMV(V))
    assert calls[0]["dims"] == {"root": ["child"]}


def test_with_arviz_itself() -> None:
    pytest.importorskip("arviz")
    mcmc = MCMC(TreeGibbs(MODEL, keep_statistics=True), 5, warmup_steps=2, disable_progbar=True)
    mcmc.run(WORDS, DMV(V))
    data: Any = to_inference_data(mcmc, coords=TAGS)
    draws = data["posterior"]["attach"].sel(head="N", direction="left", child="V")
    torch.testing.assert_close(torch.as_tensor(draws.values[0]), mcmc.get_samples()["attach"][:, 0, 0, 1])
