# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Samplers over trees for weights that are computed: against sums over all tuples of trees, and quadrature."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.computed_models import (
    BLOCKS,
    CORPUS,
    GRAMMAR,
    MODELESS,
    MODELS,
    WORDS,
    V,
    a_root_for_each_sentence,
    observe,
    softmax_of_normals,
    tempered,
)
from infer.tree_sums import derivations, shapes, tree_events
from pyro import poutine
from pyro.infer import MCMC
from scipy.special import gammaln, logsumexp
from torch import Tensor

from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import ModelError, TreeGibbs, TreeHastings
from pyrogram.infer.samplers.latents import _trajectory, _value_and_gradient, hmc_step, slice_step
from pyrogram.sweeps.plain import CollapsedUpdates

pytestmark = pytest.mark.usefixtures("doubles")
GRID = np.linspace(-6.0, 6.0, 241)
PRIOR = -(GRID**2) / 2


def one_number() -> None:
    """A normal that root weights are computed from, and a concentration."""
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    root = (z * torch.tensor([1.0, 0.0, -1.0])).softmax(-1)
    attach = pyro.sample("attach", dirichlet_prior(BLOCKS["attach"], (z / 2).exp()))
    stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
    observe({"root": root, "attach": attach, "stop": stop})


def a_number_for_each_sentence() -> None:
    attach = pyro.sample("attach", dirichlet_prior(BLOCKS["attach"], 0.5))
    stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        root = (z[:, None] * torch.tensor([1.0, 0.0, -1.0])).softmax(-1)
        pyro.sample("words", Sentence(GRAMMAR, {"root": root, "attach": attach, "stop": stop}), obs=WORDS)


# ---------------------------------------------------------------------- the truth


def tuples() -> Iterator[tuple[dict[str, np.ndarray], ...]]:
    ones = {name: np.ones(shape) for name, shape in shapes(V, False).items()}
    yield from itertools.product(*([counts for _, counts in derivations(sentence, ones)] for sentence in CORPUS))


def log_dm(f: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """log of the Dirichlet-multinomial of counts ``(rows, K)`` for symmetric concentrations ``(G,)``."""
    rows = f.reshape(-1, f.shape[-1])
    a = alpha[:, None]
    each = gammaln(rows[None] + a[..., None]).sum(-1) - gammaln(a) * rows.shape[-1]
    return (each + gammaln(rows.shape[-1] * a) - gammaln(rows.sum(-1)[None] + rows.shape[-1] * a)).sum(-1)


def log_root(f: np.ndarray, grid: np.ndarray = GRID) -> np.ndarray:
    logits = grid[:, None] * np.array([1.0, 0.0, -1.0])
    return ((logits - logsumexp(logits, -1, keepdims=True)) * f).sum(-1)


def exact_one_number() -> tuple[np.ndarray, float]:
    """The posterior of arcs from ROOT by sentence, one after the other, and the posterior mean of z."""
    joints, roots = [], []
    for chosen in tuples():
        f = {name: sum(c[name] for c in chosen) for name in BLOCKS}
        own = PRIOR + log_root(f["root"]) + log_dm(f["attach"], np.exp(GRID / 2))
        joints.append(own + log_dm(f["stop"], np.full(len(GRID), 1.5)))
        roots.append(np.concatenate([c["root"] for c in chosen]))
    weights = np.exp(np.array(joints) - np.max(joints))
    weights /= weights.sum()
    return weights.sum(1) @ np.array(roots), float(weights.sum(0) @ GRID)


def exact_for_each() -> np.ndarray:
    joints, roots = [], []
    for chosen in tuples():
        f = {name: sum(c[name] for c in chosen) for name in BLOCKS}
        total = float(log_dm(f["attach"], np.array([0.5]))[0] + log_dm(f["stop"], np.array([1.5]))[0])
        joints.append(total + sum(float(logsumexp(PRIOR + log_root(c["root"]))) for c in chosen))
        roots.append(np.concatenate([c["root"] for c in chosen]))
    weights = np.exp(np.array(joints) - max(joints))
    return weights / weights.sum() @ np.array(roots)


def roots_of(marginals: Tensor) -> np.ndarray:
    """Posterior probabilities of tags as roots, by sentence, one after the other."""
    found = np.zeros((len(CORPUS), V))
    for i, sentence in enumerate(CORPUS):
        for j, tag in enumerate(sentence, 1):
            found[i, tag] += float(marginals[i, 0, j])
    return found.reshape(-1)


# ---------------------------------------------------------------------- exactness


@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_joint_and_density(sampler: type[TreeGibbs] | type[TreeHastings]) -> None:
    """After a sweep the log joint is that of the trees, of z and of its weights; and so is the density that moves z."""
    chain = sampler(one_number, seed=3)
    for _ in range(4):
        chain.step()
        problem, state = chain._present()
        z = float(chain.hyperparameters()["z"])
        f = {name: c.numpy() for name, c in one_count(chain.trees()).items()}
        for at in (z, -0.7, 1.1):
            point = {"z": torch.tensor(at)}
            joint = -(at**2) / 2 - math.log(2 * math.pi) / 2 + float(log_root(f["root"], np.array([at]))[0])
            joint += float(log_dm(f["attach"], np.exp(np.array([at / 2])))[0] + log_dm(f["stop"], np.array([1.5]))[0])
            assert float(problem.density(state.counts, point)) == pytest.approx(joint, rel=1e-10)
            if at == z:
                assert float(state.log_joint) == pytest.approx(joint, rel=1e-10)
        root = (z * torch.tensor([1.0, 0.0, -1.0])).softmax(-1)
        torch.testing.assert_close(state.weights["words.root"], root)


def test_joint_of_numbers_for_each_sentence() -> None:
    chain = TreeGibbs(a_number_for_each_sentence, seed=5)
    for _ in range(3):
        chain.step()
        problem, state = chain._present()
        z, trees = chain.hyperparameters()["z"], chain.trees()
        f = {name: c.numpy() for name, c in one_count(trees).items()}
        joint = float(dist.Normal(0.0, 1.0).log_prob(z).sum())
        for i, number in enumerate(z.tolist()):
            joint += float(log_root(one_count(trees[i : i + 1], i)["root"].numpy(), np.array([number]))[0])
        joint += float(log_dm(f["attach"], np.array([0.5]))[0] + log_dm(f["stop"], np.array([1.5]))[0])
        assert float(state.log_joint) == pytest.approx(joint, rel=1e-10)
        assert float(problem.density(state.counts, state.point)) == pytest.approx(joint, rel=1e-10)
    assert chain.weights()["root"].shape == (len(WORDS), V)
    with pytest.raises(ModelError, match="needs weights that all sentences of site 'words' share; use TreeGibbs"):
        TreeHastings(a_number_for_each_sentence).step()


def one_count(trees: Tensor, first: int = 0) -> dict[str, Tensor]:
    """Events of trees, counted one by one."""
    total = {name: np.zeros(shape) for name, shape in shapes(V, False).items()}
    for sentence, heads in zip(CORPUS[first:], trees.tolist(), strict=False):
        for block, index in tree_events(sentence, heads[: len(sentence)], False):
            total[block][index] += 1
    return {name: torch.tensor(c) for name, c in total.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["slice", "hmc"])
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_one_number(sampler: type[TreeGibbs] | type[TreeHastings], kernel: Any) -> None:
    roots, mean = exact_one_number()
    chain, values = sampler(one_number, seed=3, kernel=kernel), list[float]()
    chain.run(
        num_steps=6000, burn_in=200, progress=False, callback=lambda c: values.append(float(c.hyperparameters()["z"]))
    )
    assert np.abs(roots_of(chain.marginals()) - roots).max() < 0.06
    assert sum(values[200:]) / len(values[200:]) == pytest.approx(mean, abs=0.12)


@pytest.mark.slow
def test_a_number_for_each_sentence() -> None:
    chain = TreeGibbs(a_number_for_each_sentence, seed=5).run(num_steps=4000, burn_in=100, progress=False)
    assert np.abs(roots_of(chain.marginals()) - exact_for_each()).max() < 0.05


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*MODELS, *MODELESS])
def test_coordinates(name: str) -> None:
    """The density that moves latent values has the Jacobian of the coordinates in which Pyro's NUTS moves."""
    model = MODELS[name]() if name in MODELS else MODELESS[name]
    chain = TreeGibbs(model, seed=1)
    try:
        chain.run(num_steps=2, progress=False)
    except ModelError as error:
        assert "scaled or masked" in str(error)
        return
    problem, state = chain._present()
    if state.point:
        with torch.no_grad():
            found = float(problem.density(state.counts, state.point) - state.log_joint)
        assert found == pytest.approx(sum(log_jacobian(model, problem.latents({}, state.point)), 0.0), abs=1e-8)


def log_jacobian(model: Callable[[], None], values: dict[str, Tensor]) -> Iterator[float]:
    """Of the coordinates in which Pyro's NUTS moves."""
    nodes: dict[str, Any] = dict(poutine.trace(poutine.condition(model, values)).get_trace().nodes)
    for name, value in values.items():
        transform = torch.distributions.biject_to(nodes[name]["fn"].support)
        at = transform.inv(value)
        yield float(transform.log_abs_det_jacobian(at, value).sum())


def test_parts() -> None:
    """Those that any grammar has are the compiled ones."""
    trees = torch.tensor([[0, 1, -1, -1], [2, 0, 2, -1], [2, 0, 4, 2]])
    found = CollapsedUpdates(GRAMMAR, WORDS).parts(trees)
    assert torch.equal(found, GRAMMAR.collapsed_updates(WORDS).parts(trees))
    assert found.sum() == 9 and found[1, 2, 3] == 1


# ---------------------------------------------------------------------- kernels


def bent(point: Any) -> Tensor:
    """A density with a tail on one side: x is standard normal, and y given x normal around x squared."""
    return -point["x"].square().sum() / 2 - (point["y"] - point["x"] ** 2).square().sum()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kernel", ["hmc", "slice"])
def test_kernels_leave_a_density_invariant(kernel: str) -> None:
    """Exact draws, moved by one step each, have the moments that they had."""
    generator = torch.Generator().manual_seed(0)
    tuning = {"log_step": torch.tensor(-1.0), "adapted": torch.tensor(9)}
    found = []
    for _ in range(400):
        x = torch.randn(1, generator=generator)
        y = x**2 + torch.randn(1, generator=generator) / math.sqrt(2)
        if kernel == "slice":
            moved = slice_step(bent, {"x": x, "y": y}, generator)
        else:
            moved, kept = hmc_step(bent, {"x": x, "y": y}, tuning, generator, adapt=False)
            assert float(kept["log_step"]) == -1.0
        found.append(torch.cat([moved["x"], moved["y"]]))
    x, y = torch.stack(found).T
    for values, mean in [(x, 0.0), (x**2, 1.0), (y, 1.0), (y**2, 3.5), (x * x * y, 3.0), (x**3 * y, 0.0)]:
        assert float(values.mean()) == pytest.approx(mean, abs=4.5 * float(values.std()) / math.sqrt(len(values)))


def test_trajectories_keep_energy() -> None:
    """Short steps hardly change it: an error is of third order in the step."""
    generator, losses = torch.Generator().manual_seed(0), []
    point = {"x": torch.tensor([0.3]), "y": torch.tensor([-0.8])}
    start = _value_and_gradient(bent, point)
    for size in (0.02, 0.01):
        generator.manual_seed(4)
        end, accept = _trajectory(bent, point, start, size, round(1 / size), generator)
        losses.append(abs(math.log(accept)) if accept < 1 else 0.0)
        assert float((end["x"] - point["x"]).abs()) > 0.1
        assert losses[-1] < 0.5 * size
    for seed in range(20):
        generator.manual_seed(seed)
        assert _trajectory(bent, point, start, 0.003, 100, generator)[1] > 0.995


def test_trajectories_that_gain_energy_are_rejected() -> None:
    """Of many coordinates, with a step that is too long, but not so long that it diverges."""
    generator, accepts = torch.Generator().manual_seed(0), []
    for _ in range(20):
        point = {"x": torch.randn(200, generator=generator)}
        start = _value_and_gradient(lambda at: -at["x"].square().sum() / 2, point)
        accepts.append(_trajectory(lambda at: -at["x"].square().sum() / 2, point, start, 1.6, 5, generator)[1])
    assert sum(accepts) / 20 < 0.6


def test_hmc_finds_its_step() -> None:
    """From the first step, and without a burn-in: of narrow densities, and of wide ones."""
    for scale in (1e-4, 1e3):
        tuning, point, moves = {}, {"x": torch.full((5,), scale / 2)}, 0
        generator = torch.Generator().manual_seed(1)
        for _ in range(60):
            before = point
            point, tuning = hmc_step(
                lambda at, s=scale: -(at["x"] / s).square().sum() / 2, point, tuning, generator, adapt=True
            )
            moves += point is not before
        assert moves > 30
        assert float(tuning["accepted"] / tuning["steps"]) == pytest.approx(moves / 60, abs=0.25)


def test_large_corpora_move() -> None:
    """Without a burn-in, where the density of latent values is narrow; and diagnostics say how often they moved."""
    words, points = WORDS.repeat(500, 1), set()

    def model() -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.5).to_event(3))
        stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
        root = pyro.sample("root", dirichlet_prior(BLOCKS["root"], 1.5))
        observe({"root": root, "attach": eta.softmax(-1), "stop": stop}, words)

    chain = TreeGibbs(model, seed=1, keep_parts=False)
    chain.run(
        num_steps=12,
        progress=False,
        callback=lambda c: points.add(tuple(c.hyperparameters()["eta"].flatten().tolist())),
    )
    assert len(points) >= 5
    assert 0.3 < chain.diagnostics()["acceptance rate of latent values"] <= 1


def test_a_gradient_that_is_not_finite() -> None:
    def model() -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1))
        pyro.factor("bad", (eta - eta).abs().sqrt().sum())
        weights = {n: pyro.sample(n, dirichlet_prior(BLOCKS[n], 1.5)) for n in ("attach", "stop")}
        observe({**weights, "root": eta.softmax(-1)})

    with pytest.raises(ValueError, match="'eta'.*is not finite where the chain is; use kernel='slice'"):
        TreeGibbs(model, seed=0).step()


def test_given_values() -> None:
    """A chain of Pyro's begins where it is told to."""
    chain = TreeGibbs(one_number)
    chain.initial_params = {"z": torch.tensor(1.25)}
    chain._begin()
    assert float(chain.hyperparameters()["z"]) == pytest.approx(1.25)


def test_hmc_adapts() -> None:
    """To an acceptance of about 0.8, from either side."""
    narrow = {"x": torch.zeros(3)}
    for scale in (0.01, 30.0):
        tuning, point, moves = {}, narrow, 0
        generator = torch.Generator().manual_seed(1)
        for step in range(300):
            before = point
            point, tuning = hmc_step(
                lambda at, s=scale: -(at["x"] / s).square().sum() / 2, point, tuning, generator, adapt=step < 200
            )
            moves += step >= 200 and point is not before
        assert 60 <= moves < 100


def test_hmc_refuses_points_without_a_density() -> None:
    def density(point: Any) -> Tensor:
        if float(point["x"].detach()) > 0.5:
            raise ValueError("outside")
        return -(point["x"] ** 2) / 2

    point, tuning, generator = {"x": torch.tensor(0.0)}, {"log_step": torch.tensor(0.5)}, torch.Generator()
    for _ in range(100):
        point, tuning = hmc_step(density, point, tuning, generator, adapt=False)
        assert float(point["x"]) <= 0.5


# ---------------------------------------------------------------------- what users see


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_resumes_to_the_same_numbers(sampler: type[TreeGibbs] | type[TreeHastings], tmp_path: Any) -> None:
    whole = sampler(softmax_of_normals, seed=2).run(num_steps=7, burn_in=4, progress=False)
    path = tmp_path / "chain.pt"
    sampler(softmax_of_normals, seed=2).run(num_steps=3, burn_in=4, progress=False, checkpoint=path)
    again = sampler(softmax_of_normals, seed=2).run(num_steps=7, burn_in=4, progress=False, checkpoint=path)
    assert again.history == whole.history
    torch.testing.assert_close(again.weights(), whole.weights(), rtol=0, atol=0)


def test_in_pyro_mcmc() -> None:
    mcmc = MCMC(TreeGibbs(a_root_for_each_sentence), num_samples=5, warmup_steps=2, disable_progbar=True)
    mcmc.run()
    samples = mcmc.get_samples()
    assert samples["z"].shape == (5, len(WORDS), 2) and samples["attach"].shape == (5, V, 2, V)


def test_scales_are_refused() -> None:
    with pytest.raises(ModelError, match="cannot handle site 'root', which is scaled or masked; VariationalEM can"):
        TreeGibbs(tempered).step()


def test_parameters_stay() -> None:
    """A network's parameters are given, as are those of concentrations."""
    model = MODELS["network"]()
    TreeGibbs(model).run(num_steps=2, progress=False)
    before = [p.detach().clone() for _, p in sorted(pyro.get_param_store().items())]
    TreeGibbs(model).run(num_steps=3, progress=False)
    after = [p.detach() for _, p in sorted(pyro.get_param_store().items())]
    assert before and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
