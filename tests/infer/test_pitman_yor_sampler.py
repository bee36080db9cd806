# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PitmanYorSampler against quadrature and, with exact seats, the enumeration of all seatings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.ops.stats import effective_sample_size
from seatings import Process
from torch import Tensor

from pyrogram.distributions import Contexts, HierarchicalPitmanYor
from pyrogram.infer import ModelError, PitmanYorSampler
from pyrogram.restaurants.restaurants import Restaurants

pytestmark = pytest.mark.usefixtures("one_thread")
KEYS = [torch.tensor([1, 1, 1, 1, 2]), torch.tensor([10, 10, 11, 10, 20])]
VALUES = torch.tensor([0, 0, 0, 1, 0])
SEEN = Contexts(KEYS)


def one_strength(values: Tensor, **options: Any) -> None:
    strength = pyro.sample("strength", dist.Gamma(1.5, 0.5))
    epsilon = torch.tensor([0.3, 0.6])
    pyro.sample("values", HierarchicalPitmanYor(SEEN, strength - epsilon, epsilon, 2, **options), obs=values)


def two_sites(values: Tensor, more: Tensor, paths: Any) -> None:
    for name, obs in (("a", values), ("b", more)):
        discount = pyro.sample(f"discount {name}", dist.Beta(1.0, 1.0).expand([2]).to_event(1))
        strength = pyro.sample(f"strength {name}", dist.Gamma(1.0, 0.1).expand([2]).to_event(1))
        law = HierarchicalPitmanYor(SEEN, strength - discount, discount, 3, paths=paths)
        pyro.sample(f"values {name}", law, obs=obs)


MORE = torch.tensor([2, 0, 2, 2, 1])


def assert_mean(chain: Tensor, x: Tensor, log_density: Tensor) -> None:
    """The mean of a chain is that of a density on a grid, as far as its effective size says."""
    weight = torch.softmax(log_density, 0)
    mean = (weight * x).sum()
    deviation = (weight * (x - mean) ** 2).sum().sqrt()
    size = effective_sample_size(chain[None, :]).item()
    assert size > 100 and abs(float(chain.mean() - mean)) < 4 * float(deviation) / size**0.5


@pytest.mark.slow  # a chain of the same density is in test_a_prior_beyond_what_a_process_allows
@pytest.mark.parametrize("options", [{}, {"paths": "maximal"}, {"likelihood": "joint"}], ids=str)
def test_posterior_under_a_path_assumption(options: Any) -> None:
    x = (torch.arange(600) + 0.5) / 20
    epsilon = torch.tensor([0.3, 0.6])
    law = HierarchicalPitmanYor(SEEN, x[:, None] - epsilon, epsilon, 2, **options)
    density = dist.Gamma(1.5, 0.5).log_prob(x) + law.log_prob(VALUES)
    sampler = PitmanYorSampler(one_strength).run(VALUES, num_steps=450, progress=False, **options)
    assert_mean(sampler.trace()["strength"], x, density)


def test_posterior_with_exact_seats() -> None:
    """On a grid, the probability of the values is summed over all seatings."""
    x = (torch.arange(60) + 0.5) / 3
    observations = [((a, b), w) for a, b, w in zip(*(t.tolist() for t in (*KEYS, VALUES)), strict=True)]
    log_p = []
    for s in x.tolist():
        seatings = Process([s - 0.3, s - 0.6], [0.3, 0.6], [0.5, 0.5]).seatings(observations)
        log_p.append(sum(seatings.values()))
    density = dist.Gamma(1.5, 0.5).log_prob(x) + torch.tensor(log_p).log()
    sampler = PitmanYorSampler(one_strength).run(VALUES, num_steps=250, progress=False, paths="exact")
    assert_mean(sampler.trace()["strength"], x, density)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
def test_what_it_knows_after_a_run(paths: Any) -> None:
    sampler = PitmanYorSampler(two_sites).run(VALUES, MORE, paths, num_steps=4, progress=False)
    assert len(sampler.history) == 4
    assert {n: tuple(t.shape) for n, t in sampler.trace().items()} == {
        f"{kind} {site}": (4, 2) for kind in ("discount", "strength") for site in "ab"
    }
    now = sampler.hyperparameters()
    wanted = sum(dist.Beta(1.0, 1.0).log_prob(now[f"discount {s}"]).sum() for s in "ab")
    wanted += sum(dist.Gamma(1.0, 0.1).log_prob(now[f"strength {s}"]).sum() for s in "ab")
    for site, values in (("a", VALUES), ("b", MORE)):
        alpha, epsilon = sampler.concentration[f"values {site}"], sampler.discount[f"values {site}"]
        torch.testing.assert_close(epsilon, now[f"discount {site}"])
        torch.testing.assert_close(alpha, now[f"strength {site}"] - epsilon)
        torch.testing.assert_close(sampler.trace()[f"discount {site}"][-1], epsilon)
        made = sampler.restaurants[f"values {site}"]
        assert made.num_observations == 5 and isinstance(made, Restaurants) and made.paths == paths
        if paths == "exact":
            wanted += made.log_joint(alpha, epsilon)
        else:
            wanted += HierarchicalPitmanYor(SEEN, alpha, epsilon, 3, paths=paths).log_prob(values)
    assert sampler.history[-1] == pytest.approx(float(wanted))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("paths", ["minimal", "exact"])
def test_resumed_and_interrupted_chains(paths: Any, tmp_path: Path) -> None:
    whole = PitmanYorSampler(two_sites, seed=3).run(VALUES, MORE, paths, num_steps=4, progress=False)
    path = tmp_path / "chain" / "state"

    def stop(sampler: Any) -> None:
        if len(sampler.history) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PitmanYorSampler(two_sites, seed=3).run(
            VALUES, MORE, paths, num_steps=4, progress=False, callback=stop, checkpoint=path
        )
    again = PitmanYorSampler(two_sites, seed=8)
    again.run(VALUES, MORE, paths, num_steps=4, progress=False, checkpoint=path)
    assert again.history == whole.history
    for name, trace in whole.trace().items():
        assert torch.equal(again.trace()[name], trace)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        PitmanYorSampler(two_sites).run(MORE, VALUES, paths, num_steps=1, progress=False, checkpoint=path)
    other = PitmanYorSampler(two_sites)
    other.load_state_dict(whole.state_dict())
    assert other.step(VALUES, MORE, paths) == whole.step(VALUES, MORE, paths)


def test_an_interrupted_step_did_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = PitmanYorSampler(two_sites, seed=1).run(VALUES, MORE, "exact", num_steps=2, progress=False)
    twin = PitmanYorSampler(two_sites, seed=1).run(VALUES, MORE, "exact", num_steps=2, progress=False)
    density, calls = sampler._density, 0

    def fails(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return density(*args)

    with monkeypatch.context() as patch:
        patch.setattr(sampler, "_density", fails)
        with pytest.raises(KeyboardInterrupt):
            sampler.step(VALUES, MORE, "exact")
    assert len(sampler.history) == 2
    assert sampler.step(VALUES, MORE, "exact") == twin.step(VALUES, MORE, "exact")


def test_other_values_start_another_chain() -> None:
    sampler = PitmanYorSampler(one_strength).run(VALUES, num_steps=3, progress=False)
    before = sampler.hyperparameters()["strength"]
    sampler.run(1 - VALUES, num_steps=0, progress=False)
    assert sampler.history == [] and sampler.hyperparameters()["strength"] == before
    assert sampler.restaurants["values"].table(1).values.tolist() == [1, 1, 0, 1]


def test_constants_and_parameters_stay() -> None:
    def model(values: Tensor) -> None:
        discount = pyro.param("discount", torch.tensor([0.2, 0.4]))
        strength = pyro.sample("strength", dist.Gamma(1.0, 0.1))
        pyro.deterministic("twice", 2 * strength)
        law = HierarchicalPitmanYor(SEEN, torch.stack([strength, torch.tensor(3.0)]), discount, 2)
        pyro.sample("values", law, obs=values)

    sampler = PitmanYorSampler(model).run(VALUES, num_steps=3, progress=False)
    assert sampler.discount["values"].tolist() == [0.2, 0.4] and sampler.concentration["values"][1] == 3
    assert list(sampler.trace()) == ["strength"]

    def fixed(values: Tensor) -> None:
        law = HierarchicalPitmanYor(SEEN, torch.ones(2), torch.full((2,), 0.5), 2, paths="exact")
        pyro.sample("values", law, obs=values)

    seated = PitmanYorSampler(fixed).run(VALUES, num_steps=3, progress=False)
    assert seated.trace() == {} and len(seated.history) == 3


def test_models_that_it_cannot_handle() -> None:
    def with_site(extra: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
        def model(values: Tensor) -> None:
            strength = pyro.sample("strength", dist.Gamma(1.0, 0.1))
            extra(strength)
            pyro.sample("values", HierarchicalPitmanYor(SEEN, strength.expand(2), torch.zeros(2), 2), obs=values)

        return model

    def masked(values: Tensor) -> None:
        with pyro.poutine.scale(scale=2.0):
            pyro.sample("values", HierarchicalPitmanYor(SEEN, torch.ones(2), torch.zeros(2), 2), obs=values)

    for model, message in [
        (
            with_site(lambda s: pyro.sample("x", dist.Normal(s, 1.0), obs=torch.tensor(1.0))),
            "observed site 'x' .Normal",
        ),
        (with_site(lambda s: pyro.sample("x", dist.Normal(0.0, 1.0))), "no use for latent site 'x'"),
        (with_site(lambda s: pyro.sample("x", dist.Bernoulli(0.5))), "discrete latent site 'x'"),
        (masked, "scaled or masked"),
        (lambda values: None, "no observed HierarchicalPitmanYor"),
    ]:
        with pytest.raises(ModelError, match=message):
            PitmanYorSampler(model).step(VALUES)
    with pytest.raises(RuntimeError, match="call step or run"):
        PitmanYorSampler(one_strength).hyperparameters()
    with pytest.raises(ValueError, match="no 'history'"):
        PitmanYorSampler(one_strength).load_state_dict({})


def fixed(values: Tensor, alpha: Any, epsilon: Any) -> None:
    law = HierarchicalPitmanYor(SEEN, torch.tensor(alpha), torch.tensor(epsilon), 2, paths="exact")
    pyro.sample("values", law, obs=values)


@pytest.mark.parametrize("other", [([1.0, 2.5], [0.1, 0.2]), ([1.0, 2.0], [0.1, 0.3])])
def test_the_checkpoint_of_other_constants_is_refused(other: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_steps": 2, "progress": False, "checkpoint": tmp_path / "state"}
    PitmanYorSampler(fixed).run(VALUES, [1.0, 2.0], [0.1, 0.2], **options)
    again = PitmanYorSampler(fixed).run(VALUES, [1.0, 2.0], [0.1, 0.2], **{**options, "num_steps": 3})
    assert len(again.history) == 3
    with pytest.raises(ValueError, match="checkpoint of another run"):
        PitmanYorSampler(fixed).run(VALUES, *other, **options)


def test_the_checkpoint_of_another_use_of_the_same_sites_is_refused(tmp_path: Path) -> None:
    def scaled(factor: float) -> Callable[[Tensor], None]:
        def model(values: Tensor) -> None:
            strength = pyro.sample("strength", dist.Gamma(1.5, 0.5))
            pyro.sample("values", HierarchicalPitmanYor(SEEN, factor * strength, 0.0, 2), obs=values)

        return model

    options: dict[str, Any] = {"num_steps": 2, "progress": False, "checkpoint": tmp_path / "state"}
    PitmanYorSampler(scaled(1.0)).run(VALUES, **options)
    with pytest.raises(ValueError, match="checkpoint of another run"):
        PitmanYorSampler(scaled(2.0)).run(VALUES, **options)


@pytest.mark.parametrize("nested", [False, True])
def test_values_changed_in_place_start_another_chain(nested: bool) -> None:
    def model(given: Any) -> None:
        one_strength(given["values"][0] if nested else given, paths="minimal")

    values = VALUES.clone()
    given: Any = {"values": [values]} if nested else values
    sampler = PitmanYorSampler(model, seed=2).run(given, num_steps=3, progress=False)
    sampler.run(given, num_steps=1, progress=False)
    assert len(sampler.history) == 4
    values.numpy()[3] = 0  # of which torch counts no version
    sampler.run(given, num_steps=2, progress=False)
    assert len(sampler.history) == 2
    assert sampler.restaurants["values"].table(1).values.tolist() == [0, 0, 0]
    strength = sampler.hyperparameters()["strength"]
    epsilon = torch.tensor([0.3, 0.6])
    law = HierarchicalPitmanYor(SEEN, strength - epsilon, epsilon, 2)
    expected = dist.Gamma(1.5, 0.5).log_prob(strength) + law.log_prob(torch.zeros(5).long())
    assert sampler.history[-1] == pytest.approx(float(expected))


def wide_discount(values: Tensor, most: float) -> None:
    epsilon = pyro.sample("epsilon", dist.Uniform(0.0, most))
    pyro.sample("values", HierarchicalPitmanYor(SEEN, 1.0, epsilon, 2), obs=values)


def wide_concentration(values: Tensor, mean: float) -> None:
    alpha = pyro.sample("alpha", dist.Normal(mean, 2.0))
    pyro.sample("values", HierarchicalPitmanYor(SEEN, alpha, 0.2, 2), obs=values)


def test_a_prior_beyond_what_a_process_allows() -> None:
    """Points where no process can be have density zero; draws from the prior, many of which are, do not matter."""
    x = (torch.arange(200) + 0.5) / 200
    for seed in range(2):
        pyro.set_rng_seed(seed)
        PitmanYorSampler(wide_discount, seed=seed).run(VALUES, 1.6, num_steps=1, progress=False)
        PitmanYorSampler(wide_concentration, seed=seed).run(VALUES, 0.0, num_steps=1, progress=False)
    law = HierarchicalPitmanYor(SEEN, torch.ones(2), x[:, None].expand(-1, 2), 2)
    sampler = PitmanYorSampler(wide_discount).run(VALUES, 1.6, num_steps=200, progress=False)
    assert_mean(sampler.trace()["epsilon"], x, law.log_prob(VALUES))
    x = (torch.arange(1000) + 0.5) / 100 - 0.2
    law = HierarchicalPitmanYor(SEEN, x[:, None].expand(-1, 2), torch.full((2,), 0.2), 2)
    sampler = PitmanYorSampler(wide_concentration).run(VALUES, 0.0, num_steps=200, progress=False)
    assert_mean(sampler.trace()["alpha"], x, law.log_prob(VALUES) + dist.Normal(0.0, 2.0).log_prob(x))


def test_a_start_beyond_what_a_process_allows_is_one_sentence() -> None:
    def constant(values: Tensor) -> None:
        pyro.sample("values", HierarchicalPitmanYor(SEEN, 1.0, 1.0, 2), obs=values)

    for model, arguments, message in [
        (wide_discount, (2.0,), r"latent sites \['epsilon'\] at 0 .*: discount must be .* below 1, not \[1.0, 1.0\]"),
        (constant, (), r"cannot run the model: discount must be .* below 1, not \[1.0, 1.0\]"),
    ]:
        sampler = PitmanYorSampler(model)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=message) as caught:
            sampler.run(VALUES, *arguments, num_steps=1, progress=False)
        assert "\n" not in str(caught.value) and "Trace Shapes" not in str(caught.value)


def test_a_seed_that_is_none() -> None:
    with pytest.raises(TypeError, match="seed must be an integer or None, not 1.5"):
        PitmanYorSampler(one_strength, seed=1.5)  # type: ignore[arg-type]
