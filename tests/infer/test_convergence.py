# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What chains keep of every sweep, and what is made of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from infer.small_corpora import CORPORA, padded
from pyro.infer import MCMC
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from pyrogram import DMV, models
from pyrogram.infer import Convergence, TreeGibbs, TreeHastings, convergence, tree_statistics
from pyrogram.infer.diagnostics.convergence import _by_number

V, SENTENCES = CORPORA["two tags"]
WORDS, GRAMMAR = padded(SENTENCES), DMV(V)
MODEL = models.dirichlet.dirichlet
NAMES = ["depth", "dependency_length", "left_heads", "mean_children", "most_children"]


def by_hand(trees: Tensor) -> dict[str, float]:
    law = GRAMMAR.derivation(GRAMMAR.initial_weights(WORDS, "uniform"), WORDS)
    values = tree_statistics(law, WORDS, trees)
    return {
        f"words.{n}": sum(v for v in x.tolist() if v == v) / sum(v == v for v in x.tolist()) for n, x in values.items()
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_a_trace_has_every_sweep(sampler: Callable[..., Any]) -> None:
    seen = []

    def look(chain: Any) -> None:
        seen.append({**by_hand(chain.trees()), "log joint": float(chain._state.log_joint)})

    chain = sampler(MODEL, seed=0, keep_statistics=True, keep_weights=True)
    chain.run(WORDS, GRAMMAR, num_steps=80, burn_in=10, progress=False, callback=look)
    trace = chain.trace()
    assert set(trace) == {"log joint", *GRAMMAR.blocks, *(f"words.{n}" for n in NAMES)}
    for name in seen[0]:
        assert trace[name].tolist() == pytest.approx([s[name] for s in seen[10:]])
    for name, weights in chain.weights().items():  # which is the average of what was kept
        torch.testing.assert_close(trace[name].mean(0), weights)
    assert float(trace["words.dependency_length"].std()) > 0


def test_nothing_more_is_drawn_for_a_trace() -> None:
    runs = [TreeGibbs(MODEL, seed=0, keep_statistics=k, keep_weights=k) for k in (False, True)]
    assert runs[0].run(WORDS, GRAMMAR, num_steps=9, progress=False).history == (
        runs[1].run(WORDS, GRAMMAR, num_steps=9, progress=False).history
    )
    assert set(runs[0].trace()) == {"log joint"}


def test_traces_are_resumed(tmp_path: Path) -> None:
    found = []
    for stops in ([70], [66, 70]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for stop in stops:
            chain = TreeHastings(MODEL, seed=1, keep_statistics=True, keep_weights=True)
            chain.run(WORDS, GRAMMAR, num_steps=stop, burn_in=1, progress=False, checkpoint=path)
        found.append(chain.trace())
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert len(found[0]["words.depth"]) == 69
    with pytest.raises(ValueError, match="whose averages are others"):
        TreeHastings(MODEL, seed=1).run(WORDS, GRAMMAR, num_steps=70, progress=False, checkpoint=path)


def test_of_samplers_by_themselves() -> None:
    chains = [TreeGibbs(MODEL, seed=i, keep_statistics=True, keep_weights=True) for i in range(3)]
    for chain in chains:
        chain.run(WORDS, GRAMMAR, num_steps=40, burn_in=10, progress=False)
    found = convergence(chains)
    assert (found.num_chains, found.num_draws) == (3, 30)
    for name in ("stop", "words.depth"):
        draws = torch.stack([chain.trace()[name] for chain in chains])
        torch.testing.assert_close(found.r_hat[name], split_gelman_rubin(draws), equal_nan=True)
        torch.testing.assert_close(found.n_eff[name], effective_sample_size(draws), equal_nan=True)
    lines = str(found).splitlines()
    assert lines[0].split() == "numbers greatest R-hat least n_eff (3 x 30 draws)".split()
    assert next(line for line in lines if line.startswith("stop")).split()[1] == str(V * 8)
    with pytest.raises(ValueError, match="have kept the same things"):
        convergence([chains[0], TreeGibbs(MODEL, seed=9).run(WORDS, GRAMMAR, num_steps=30, progress=False)])


@pytest.mark.parametrize("wrong", ["depth", ["depth"], {"depth": 3}, 1, None])
def test_statistics_that_are_none(wrong: Any) -> None:
    with pytest.raises(TypeError, match="keep_statistics must be True, False, or functions of words and derivations"):
        TreeGibbs(MODEL, keep_statistics=wrong)


def test_chains_that_stay_apart_are_seen() -> None:
    """A statistic that never moves in a chain, and differs between two."""
    chains = []
    for value in (0.0, 1.0):
        noise = torch.Generator().manual_seed(int(value))
        own = {"apart": lambda w, h, value=value, noise=noise: value + 0.01 * torch.randn(len(h), generator=noise)}
        chain = TreeGibbs(MODEL, seed=0, keep_statistics=own)
        chains.append(chain.run(WORDS, GRAMMAR, num_steps=30, progress=False))
    found = convergence(chains)
    assert float(found.r_hat["words.apart"]) > 10 and float(found.r_hat["log joint"]) < 2


@pytest.mark.filterwarnings("ignore:num_chains=2 is more than available_cpu")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_in_pyro(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = TreeHastings(MODEL, keep_statistics=True, initial_weights="random")
    mcmc = MCMC(kernel, 20, warmup_steps=5, num_chains=2, disable_progbar=True)
    mcmc.run(WORDS, GRAMMAR)
    samples = mcmc.get_samples(group_by_chain=True)
    assert samples["words.depth"].shape == (2, 20)
    diagnostics, found = mcmc.diagnostics(), convergence(mcmc)
    assert set(found.r_hat) == {"log joint", *GRAMMAR.blocks, *(f"words.{n}" for n in NAMES)}
    for name in ("words.depth", "attach"):
        torch.testing.assert_close(found.r_hat[name], diagnostics[name]["r_hat"].reshape(found.r_hat[name].shape))
        torch.testing.assert_close(found.n_eff[name], diagnostics[name]["n_eff"].reshape(found.n_eff[name].shape))
    mcmc.summary()
    assert "words.dependency_length" in capsys.readouterr().out


def test_numbers_that_never_change() -> None:
    """They have no R-hat, and take none from others."""
    draws = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draws[..., 1] = 1 / 3
    found = _by_number(effective_sample_size, draws), _by_number(split_gelman_rubin, draws)
    for own, statistic in zip(found, (effective_sample_size, split_gelman_rubin), strict=True):
        assert own.isnan().tolist() == [False, True, False]
        torch.testing.assert_close(own[[0, 2]], statistic(draws[..., [0, 2]]))
    table = str(Convergence({"a": found[1], "b": found[1][1:2]}, {"a": found[0], "b": found[0][1:2]}, 2, 40))
    assert table.splitlines()[1].split()[1:] == [
        "3",
        f"{float(found[1][[0, 2]].max()):.3f}",
        f"{float(found[0][[0, 2]].min()):.0f}",
    ]
    assert table.splitlines()[2].split() == ["b", "1", "-", "-"]


def test_effective_sample_sizes_are_positive() -> None:
    swinging = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.1, -1.0], dtype=torch.float64)[None]
    assert not float(_by_number(lambda x: -torch.ones(x.shape[2:]), swinging)) > 0
    assert bool(_by_number(lambda x: -torch.ones(x.shape[2:]), swinging).isnan())
