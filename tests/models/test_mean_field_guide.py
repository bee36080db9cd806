# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""guides.MeanFieldDirichlet as a Pyro module: parameters, states, pickles, refusals."""

import io
import pickle
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor

from pyrogram import DMV
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import TraceGrammar_ELBO
from pyrogram.models.dirichlet import dirichlet

GRAMMAR = DMV(2, valence_attach=True)
WORDS = torch.tensor([[0, -1, -1], [1, 0, -1], [0, 1, 1], [1, 0, -1]])


@pytest.fixture(autouse=True, params=[False, True], ids=["global", "local"])
def module_local_params(request: pytest.FixtureRequest) -> Any:
    with pyro.settings.context(module_local_params=request.param):
        yield


def concentrations(guide: MeanFieldDirichlet) -> dict[str, Tensor]:
    trace = poutine.trace(guide).get_trace(WORDS, GRAMMAR)
    found = {}
    for name in GRAMMAR.blocks:
        function = trace.nodes[name]["fn"]
        while isinstance(function, torch.distributions.Independent):
            function = function.base_dist
        found[name] = function.concentration.detach()
    return found


def test_where_it_starts() -> None:
    """At the prior's concentration plus one, or plus what is given."""
    for name, c in concentrations(MeanFieldDirichlet(dirichlet)).items():
        torch.testing.assert_close(c, torch.full(GRAMMAR.blocks[name].shape, 1.25))
    pyro.clear_param_store()
    counts = {name: torch.rand(block.shape) for name, block in GRAMMAR.blocks.items()}
    kept = {name: c.clone() for name, c in counts.items()}
    for name, c in concentrations(MeanFieldDirichlet(dirichlet, initial_counts=counts)).items():
        torch.testing.assert_close(c, counts[name] + 0.25)
        assert torch.equal(counts[name], kept[name]) and not counts[name].requires_grad


def test_parameters_have_names() -> None:
    guide = MeanFieldDirichlet(dirichlet)
    guide(WORDS, GRAMMAR)
    assert {name for name, _ in guide.named_parameters()} == {
        f"concentrations.{name}_unconstrained" for name in GRAMMAR.blocks
    }
    assert guide.concentrations.attach.shape == GRAMMAR.blocks["attach"].shape


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGrammar_ELBO])
def test_states_go_through_files(elbo: type[Any]) -> None:
    """Without unpickling anything: weights_only=True."""
    guide = MeanFieldDirichlet(dirichlet)
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.1}), elbo())  # type: ignore[attr-defined]
    for _ in range(3):
        svi.step(WORDS, GRAMMAR)
    learnt = concentrations(guide)
    file = io.BytesIO()
    torch.save(guide.state_dict(), file)
    file.seek(0)
    pyro.clear_param_store()
    other = MeanFieldDirichlet(dirichlet)
    other(WORDS, GRAMMAR)  # makes the parameters
    other.load_state_dict(torch.load(file, weights_only=True))
    for name, c in concentrations(other).items():
        assert torch.equal(c, learnt[name])
        assert not torch.allclose(c, torch.full_like(c, 1.25))


def test_pickles() -> None:
    guide = MeanFieldDirichlet(dirichlet)
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.1}), TraceGrammar_ELBO())  # type: ignore[attr-defined]
    svi.step(WORDS, GRAMMAR)
    learnt = concentrations(guide)
    data = pickle.dumps(guide)
    pyro.clear_param_store()
    other = pickle.loads(data)
    for name, c in concentrations(other).items():
        assert torch.equal(c, learnt[name])


def test_torch_optimisers() -> None:
    """With an ELBO module and a torch optimiser, once the parameters are there."""
    guide = MeanFieldDirichlet(dirichlet)
    loss = TraceGrammar_ELBO()(dirichlet, guide)
    with torch.no_grad():
        first = float(loss(WORDS, GRAMMAR))
    optimiser = torch.optim.Adam(guide.parameters(), lr=0.1)
    for _ in range(20):
        optimiser.zero_grad()
        value = loss(WORDS, GRAMMAR)
        value.backward()
        optimiser.step()
    assert float(value.detach()) < first - 0.1


def test_a_site_that_is_no_dirichlet_is_refused_by_name() -> None:
    def model(words: Tensor) -> None:
        pyro.sample("alpha", dist.Gamma(1.0, 1.0))
        dirichlet(words, GRAMMAR)

    with pytest.raises(NotImplementedError, match=r"no family for latent site 'alpha' \(Gamma\); subclass it"):
        MeanFieldDirichlet(model)(WORDS)


def test_a_subclass_may_know_more() -> None:
    class Guide(MeanFieldDirichlet):
        def get_posterior(self, name: str, prior: Any) -> Any:
            return dist.Delta(torch.tensor(0.5)) if name == "alpha" else super().get_posterior(name, prior)

    def model(words: Tensor) -> None:
        alpha = pyro.sample("alpha", dist.Gamma(1.0, 1.0))
        dirichlet(words, GRAMMAR, concentration=alpha)

    assert float(Guide(model)(WORDS)["alpha"]) == 0.5


def test_names_with_dots() -> None:
    def model() -> None:
        pyro.sample("a.b.c", dist.Dirichlet(torch.ones(3)))
        pyro.sample("a.b.d", dist.Dirichlet(torch.ones(2, 3)).to_event(1))

    guide = MeanFieldDirichlet(model)
    first = dict(guide.named_parameters()) or guide()
    assert first["a.b.d"].shape == (2, 3)
    guide()
    assert len(list(guide.parameters())) == 2


def test_plates_instead_of_events() -> None:
    def model() -> None:
        with pyro.plate("heads", 4):
            pyro.sample("attach", dist.Dirichlet(torch.ones(3)))

    guide = MeanFieldDirichlet(model)
    assert guide()["attach"].shape == (4, 3)
    assert Trace_ELBO().loss(model, guide) == pytest.approx(Trace_ELBO(num_particles=200).loss(model, guide), abs=10)


def test_two_guides_do_not_meet() -> None:
    one, other = MeanFieldDirichlet(dirichlet), MeanFieldDirichlet(dirichlet)
    one(WORDS, GRAMMAR)
    other(WORDS, GRAMMAR)
    if pyro.settings.get("module_local_params"):
        with torch.no_grad():
            one.concentrations.root_unconstrained.add_(1.0)
        assert not torch.equal(concentrations(one)["root"], concentrations(other)["root"])
