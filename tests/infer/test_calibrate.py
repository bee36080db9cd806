# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Simulation-based calibration: inferences that are exact pass, and such as are wrong do not."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyrogram import CFG, DMV
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import TreeGibbs, TreeHastings, VariationalEM, calibrate, draws_by_chain, draws_by_guide
from pyrogram.infer.diagnostics.calibration import _rank

CHAINS = CFG.from_string("S -> 'a' S | 'a'")
WORDS = CHAINS.encode([["a"]] * 4)
LEAST = 1e-4
ALPHA = torch.tensor([2.0, 3.0])


def chain(words: Tensor) -> None:
    """Given the sentences, the probability to go on is Beta(2 + words - sentences, 3 + sentences)."""
    w = pyro.sample("rules", dirichlet_prior(CHAINS.blocks["rules"], ALPHA))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(CHAINS, {"rules": w}, max_length=12), obs=words)


def exact(model: Callable[..., Any], *args: Any, scale: float = 1.0) -> Mapping[str, Tensor]:
    """Draws in closed form, of counts times ``scale``."""
    words = pyro.poutine.trace(model).get_trace(*args).nodes["words"]["value"]
    counts = torch.tensor([int((words >= 0).sum()) - len(words), len(words)]).double()
    trees = CHAINS.derivation(CHAINS.initial_weights(words, "uniform"), words).sample((15,))  # there is only one
    return {"rules": dist.Dirichlet(scale * (ALPHA + counts)).sample((15,)), "words.tree": trees}


def p_values(inference: Callable[..., Any], number: int) -> dict[str, float]:
    return calibrate(chain, inference, WORDS, num_simulations=number, progress=False).p_values()


@pytest.mark.parametrize("number", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_the_exact_posterior_passes_though_long_sentences_are_thrown_away(number: int) -> None:
    found = p_values(exact, number)
    assert set(found) == {"rules", "words.depth", "words.rules", "log joint"}
    assert min(found.values()) > 0.005


@pytest.mark.parametrize(
    ("scale", "number"), [(0.1, 40), *(pytest.param(scale, 120, marks=pytest.mark.slow) for scale in (0.25, 4.0))]
)
def test_posteriors_that_are_too_wide_or_too_narrow_do_not(scale: float, number: int) -> None:
    assert p_values(partial(exact, scale=scale), number)["rules"] < LEAST


@pytest.mark.slow
def test_a_posterior_that_is_shifted_does_not() -> None:
    def shifted(model: Callable[..., Any], *args: Any) -> Mapping[str, Tensor]:
        draws = exact(model, *args)
        return {**draws, "rules": (draws["rules"] + torch.tensor([0.2, 0.0])) / 1.2}

    assert p_values(shifted, 120)["rules"] < LEAST


def test_the_same_seed_gives_the_same_ranks_and_leaves_the_random_state() -> None:
    before = torch.get_rng_state()
    runs = [calibrate(chain, exact, WORDS, num_simulations=3, seed=s, progress=False).ranks for s in (1, 1, 2)]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(runs[0]["rules"], runs[1]["rules"]) and not torch.equal(runs[0]["rules"], runs[2]["rules"])
    assert not pyro.get_param_store().keys()


def test_ranks_are_how_many_draws_are_less() -> None:
    found = calibrate(
        chain, lambda m, *a: {"rules": torch.tensor([[1e-6, 1 - 1e-6]]).expand(7, 2)}, WORDS, num_simulations=3
    )
    assert found.num_draws == 7
    assert found.ranks["rules"].tolist() == [[7, 0]] * 3
    assert all(0 <= int(r) <= 7 for r in found.ranks["words.depth"])  # all are as deep: ties are broken at random
    assert len(str(found).splitlines()) == 5


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrogram.infer.diagnostics.calibration.MOST_TRIES", 50)
    with pytest.raises(ValueError, match=r"draws of site 'rules' of shape \(L, 2\), not \(5, 3\)"):
        calibrate(chain, lambda m, *a: {"rules": torch.ones(5, 3)}, WORDS, num_simulations=2, progress=False)
    with pytest.raises(ValueError, match=r"draws of site 'rules' of shape \(L, 2\), not \(0, 2\)"):
        calibrate(chain, lambda m, *a: {"rules": torch.ones(0, 2)}, WORDS, num_simulations=2, progress=False)
    sizes = iter([5, 9])

    def unequal(model: Any, *args: Any) -> dict[str, Tensor]:
        return {"rules": torch.tensor([[0.4, 0.6]]).expand(next(sizes), 2)}

    with pytest.raises(ValueError, match="as many draws of each site, each time, but of 'rules' there are 9, .* 5"):
        calibrate(chain, unequal, WORDS, num_simulations=2, progress=False)

    def endless(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            w = {"rules": torch.tensor([1.0, 0.0])}
            pyro.sample("words", Sentence(CHAINS, w, max_length=3), obs=words)

    with pytest.raises(ValueError, match="take fewer sentences"):
        calibrate(endless, exact, WORDS, num_simulations=2, progress=False)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="num_simulations must be at least 2, not 1"):
        calibrate(chain, exact, WORDS, num_simulations=1)
    with pytest.raises(ValueError, match="inference must return draws by latent site.*not None"):
        calibrate(chain, lambda m, *a: None, WORDS, num_simulations=2, progress=False)  # type: ignore
    with pytest.raises(ValueError, match="need num_draws >= 1 and thin >= 1, not 0 and 1"):
        draws_by_chain(TreeGibbs, num_draws=0, thin=1)
    with pytest.raises(TypeError, match="draws_by_guide needs VariationalEM"):
        draws_by_guide(TreeGibbs)  # type: ignore


def test_what_is_not_there_is_less_than_any_number() -> None:
    """So ranks of statistics that some trees have not are uniform, too."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(10, 2000, generator=generator, dtype=torch.float64)
    drawn[torch.rand(10, 2000, generator=generator) < 0.4] = torch.nan
    ranks = _rank(drawn[0], drawn[1:], generator)
    seen = torch.bincount(ranks, minlength=10).double()
    assert float(((seen - 200) ** 2 / 200).sum()) < 30  # of a chi-square of 9 degrees


GRAMMAR = DMV(2)


def dmv(words: Tensor, factor: float = 1.0) -> None:
    stop = factor * torch.tensor([1.0, 3.0]).expand(2, 2, 2, 2)
    alpha = {"root": factor * torch.tensor([1.5, 0.4]), "attach": factor * torch.ones(2, 2, 2), "stop": stop}
    w = {name: pyro.sample(name, dirichlet_prior(block, alpha[name])) for name, block in GRAMMAR.blocks.items()}
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, w, max_length=6), obs=words)


DMV_WORDS = torch.tensor([[0, 1], [0, -1], [1, -1]])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["TreeGibbs", "TreeHastings", "VariationalEM"])
def test_ready_made_inferences(name: str) -> None:
    """They run, and rank the same things; whether they are right needs more simulations."""
    inference = (
        draws_by_guide(VariationalEM, num_draws=5, num_steps=3)
        if name == "VariationalEM"
        else draws_by_chain(
            {"TreeGibbs": TreeGibbs, "TreeHastings": TreeHastings}[name], num_draws=5, burn_in=2, thin=1
        )
    )
    found = calibrate(dmv, inference, DMV_WORDS, num_simulations=3, progress=False)
    assert found.ranks["stop"].shape == (3, 2, 2, 2, 2)
    assert found.ranks["words.dependency_length"].shape == found.ranks["log joint"].shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_samplers_are_calibrated(sampler: Any) -> None:
    inference = draws_by_chain(sampler, num_draws=31, burn_in=40, thin=6)
    found = calibrate(dmv, inference, DMV_WORDS, num_simulations=250, progress=False)
    assert min(found.p_values().values()) > LEAST


@pytest.mark.slow
def test_tripled_concentrations_are_seen() -> None:
    def wrong(model: Callable[..., Any], words: Tensor) -> Mapping[str, Tensor]:
        seen = pyro.poutine.trace(model).get_trace(words).nodes["words"]["value"]
        return draws_by_chain(TreeGibbs, num_draws=31, burn_in=40, thin=6)(partial(dmv, factor=3.0), seen)

    found = calibrate(dmv, wrong, DMV_WORDS, num_simulations=250, progress=False)
    assert min(found.p_values().values()) < LEAST
