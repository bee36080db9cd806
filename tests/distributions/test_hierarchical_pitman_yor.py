# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""HierarchicalPitmanYor against the enumeration of all seatings of a few observations."""

import itertools
import math
import pickle
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS, Predictive
from seatings import Process
from torch import Tensor

from pyrogram.distributions import Contexts, HierarchicalPitmanYor

ALPHA, EPSILON, BASE = (torch.tensor(x, dtype=torch.float64) for x in ([0.7, -0.2], [0.3, 0.6], [0.5, 0.2, 0.3]))
KEYS = [(1, 10), (1, 11), (1, 10), (2, 20)]
ALL = torch.tensor(list(itertools.product(range(3), repeat=4)))


def contexts() -> Contexts:
    return Contexts([torch.tensor(level) for level in zip(*KEYS, strict=True)])


def process(**options: Any) -> HierarchicalPitmanYor:
    return HierarchicalPitmanYor(contexts(), ALPHA, EPSILON, 3, base=BASE, **options)


def enumerated(values: Tensor) -> tuple[float, float]:
    """The probability of values, and that of values and minimal paths."""
    observations = list(zip(KEYS, values.tolist(), strict=True))
    seatings = Process(ALPHA.tolist(), EPSILON.tolist(), BASE.tolist()).seatings(observations)
    minimal = [p for s, p in seatings.items() if len({(here, w) for here, w, _ in s}) == len(s)]
    return sum(seatings.values()), sum(minimal)


def test_joint_of_all_values() -> None:
    found = process(likelihood="joint").log_prob(ALL).exp()
    torch.testing.assert_close(found, torch.tensor([enumerated(v)[1] for v in ALL]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_predictive_likelihood_is_a_distribution(paths: Any) -> None:
    """Of which samples are drawn."""
    law = process(paths=paths)
    p = law.log_prob(ALL).exp()
    assert float(p.sum()) == pytest.approx(1)
    keys = contexts().keys
    for values, wanted in zip(ALL[::40], p[::40], strict=True):
        first = HierarchicalPitmanYor(Contexts([k[:1] for k in keys]), ALPHA, EPSILON, 3, paths=paths, base=BASE)
        made, each = first.restaurants(values[:1]), [float(BASE[values[0]])]
        for i in range(1, 4):
            here = [k[i : i + 1] for k in keys]
            each.append(float(made.predict(here, values[i : i + 1], ALPHA, EPSILON)))
            made.add(here, values[i : i + 1], ALPHA, EPSILON)
        assert math.prod(each) == pytest.approx(float(wanted))
    assert_drawn(law, p)


@pytest.mark.parametrize("paths", ["minimal", "exact"])
def test_samples_are_of_the_process_itself(paths: Any) -> None:
    """Unless it is said how they come to be predicted."""
    wanted = torch.tensor([enumerated(v)[0] for v in ALL])
    assert float(wanted.sum()) == pytest.approx(1)
    assert_drawn(process(paths=paths, likelihood="joint"), wanted)


def assert_drawn(law: HierarchicalPitmanYor, p: Tensor) -> None:
    n = 4000
    draws = law.sample((n,))
    counts = torch.bincount((draws * torch.tensor([27, 9, 3, 1])).sum(-1), minlength=81)
    likely = n * p >= 5
    statistic = ((counts - n * p) ** 2 / (n * p))[likely].sum()
    assert float(statistic - likely.sum()) / math.sqrt(2 * int(likely.sum())) < 4


def test_default_likelihood() -> None:
    wanted = {"minimal": "predictive", "maximal": "predictive", "exact": "joint"}
    assert {paths: process(paths=paths).likelihood for paths in wanted} == wanted


def test_batches() -> None:
    many = HierarchicalPitmanYor(contexts(), ALPHA + torch.tensor([[0.0], [1.0]]), EPSILON, 3, base=BASE)
    assert many.batch_shape == (2,) and many.event_shape == (4,)
    one = [HierarchicalPitmanYor(contexts(), ALPHA + shift, EPSILON, 3, base=BASE) for shift in (0.0, 1.0)]
    wanted = torch.stack([d.log_prob(ALL) for d in one], -1)
    torch.testing.assert_close(many.log_prob(ALL[:, None]), wanted)
    torch.testing.assert_close(many.expand([5, 2]).log_prob(ALL[:2]), wanted[:2].diagonal().expand(5, 2))
    assert many.expand([5, 2]).sample((3,)).shape == (3, 5, 2, 4) and many.sample((0,)).shape == (0, 2, 4)
    assert process().log_prob(ALL[:0]).shape == (0,)
    single = HierarchicalPitmanYor(contexts(), ALPHA.float(), EPSILON.float(), 3, base=BASE)
    assert single.log_prob(ALL[0]).dtype == torch.float32
    again = pickle.loads(pickle.dumps(process()))
    assert torch.equal(again.log_prob(ALL), process().log_prob(ALL))


def test_kept_counts_are_of_the_values_at_hand() -> None:
    law, values = process(), ALL[5].clone()
    wanted = law.log_prob(ALL[40])
    assert law.log_prob(values) != wanted
    values.copy_(ALL[40])
    assert law.log_prob(values) == wanted
    base = BASE.clone()
    moved = HierarchicalPitmanYor(law.contexts, ALPHA, EPSILON, 3, base=base)
    assert moved.log_prob(values) == wanted
    base.copy_(torch.tensor([0.1, 0.1, 0.8]))
    fresh = HierarchicalPitmanYor(contexts(), ALPHA, EPSILON, 3, base=base)
    assert moved.log_prob(values) == fresh.log_prob(values) != wanted
    for options in ({"paths": "maximal"}, {"likelihood": "joint"}):
        here = HierarchicalPitmanYor(law.contexts, ALPHA, EPSILON, 3, base=BASE, **options)  # type: ignore[arg-type]
        assert here.log_prob(values) == process(**options).log_prob(values)


def test_what_is_refused() -> None:
    law = process()
    with pytest.raises(NotImplementedError, match="PitmanYorSampler"):
        process(paths="exact").log_prob(ALL[0])
    for wrong, message in [
        (lambda: Contexts([torch.tensor([1, 2]), torch.tensor([5, 5])]), "observation 1 are not nested"),
        (lambda: Contexts([]), "at least one level"),
        (lambda: law.log_prob(ALL[0, :3]), r"shape \(\*batch, 4\)"),
        (lambda: law.log_prob(ALL[0] + 3), r"values must be 0\.\.2"),
        (lambda: HierarchicalPitmanYor(contexts(), ALPHA[:1], EPSILON[:1], 3), r"shape \(\*batch, 2\)"),
        (lambda: HierarchicalPitmanYor(contexts(), -EPSILON - 0.1, EPSILON, 3), "at least -discount"),
        (lambda: HierarchicalPitmanYor(contexts(), ALPHA, EPSILON, 3, base=BASE * 2), "base must be probabilities"),
        (lambda: process(paths="other"), "minimal"),
        (lambda: process(paths="exact", likelihood="predictive"), "likelihood must be"),
        (lambda: law.expand([2]).restaurants(ALL[0]), "not a batch"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


def model(values: Tensor | None, seen: Contexts, **options: Any) -> Any:
    discount = pyro.sample("discount", dist.Beta(2.0, 2.0))
    strength = pyro.sample("strength", dist.Gamma(2.0, 1.0))
    fixed = torch.tensor(0.2)
    epsilon = torch.stack([fixed, discount])
    law = HierarchicalPitmanYor(seen, strength - epsilon, epsilon, 3, **options)
    return pyro.sample("values", law, obs=values)


def test_is_an_ordinary_pyro_distribution() -> None:
    drawn = Predictive(model, num_samples=3)(None, contexts())
    assert drawn["values"].shape == (3, 4)
    traced = pyro.poutine.trace(model).get_trace(ALL[7], contexts())
    assert bool(torch.isfinite(traced.log_prob_sum()))


@pytest.mark.parametrize("likelihood", ["joint", "predictive"])
def test_gradients_are_right(likelihood: Any) -> None:
    """All that NUTS needs beside the density."""
    seen = Contexts([torch.zeros(12).long(), torch.arange(12) // 4])
    values = torch.tensor([0, 0, 1, 0, 1, 1, 1, 2, 0, 0, 0, 0])

    def log_joint(discount: Tensor, strength: Tensor) -> Tensor:
        given = {"discount": discount, "strength": strength}
        trace = pyro.poutine.trace(pyro.condition(model, given)).get_trace(values, seen, likelihood=likelihood)
        return torch.as_tensor(trace.log_prob_sum())

    for discount, strength in ((0.1, 0.4), (0.6, 3.0)):
        at = (torch.tensor(discount, requires_grad=True), torch.tensor(strength, requires_grad=True))
        assert torch.autograd.gradcheck(log_joint, at, check_undefined_grad=False)
    chain = MCMC(NUTS(model, max_tree_depth=2), num_samples=2, warmup_steps=2, disable_progbar=True)
    chain.run(values, seen, likelihood=likelihood)
    assert all(x.shape == (2,) for x in chain.get_samples().values())


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["joint", "predictive"])
def test_nuts_agrees_with_quadrature(likelihood: Any, one_thread: None) -> None:
    """Posterior means under the density that log_prob is, on a grid in both parameters."""
    seen = Contexts([torch.zeros(12).long(), torch.arange(12) // 4])
    values = torch.tensor([0, 0, 1, 0, 1, 1, 1, 2, 0, 0, 0, 0])
    d, s = (torch.arange(40) + 0.5) / 40, (torch.arange(80) + 0.5) / 5
    log_p = dist.Beta(2.0, 2.0).log_prob(d)[:, None] + dist.Gamma(2.0, 1.0).log_prob(s)
    epsilon = torch.stack([torch.full((40, 80), 0.2), d[:, None].expand(40, 80)], -1)
    law = HierarchicalPitmanYor(seen, s[:, None] - epsilon, epsilon, 3, likelihood=likelihood)
    weight = torch.softmax((log_p + law.log_prob(values)).reshape(-1), 0).reshape(40, 80)
    wanted = (weight.sum(1) * d).sum(), (weight.sum(0) * s).sum()
    chain = MCMC(NUTS(model), num_samples=250, warmup_steps=60, disable_progbar=True)
    chain.run(values, seen, likelihood=likelihood)
    samples = chain.get_samples()
    for name, mean in zip(("discount", "strength"), wanted, strict=True):
        assert abs(float(samples[name].mean() - mean)) < 0.25 * float(samples[name].std())


def test_in_inference_mode() -> None:
    """Whose tensors know no versions."""
    law, expected = process(), process().log_prob(ALL[5])
    with torch.inference_mode():
        for base in (BASE.clone(), BASE.clone(), BASE.float()):
            found = HierarchicalPitmanYor(law.contexts, ALPHA, EPSILON, 3, base=base).log_prob(ALL[5])
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)


def test_integers_are_floating_point_numbers() -> None:
    """As parameters: probabilities are none."""
    whole, none = torch.tensor([1, 2]), torch.tensor([0, 0])
    law = HierarchicalPitmanYor(contexts(), whole, none, 3)
    expected = HierarchicalPitmanYor(contexts(), whole.double(), none.double(), 3)
    found = law.log_prob(ALL)
    assert found.dtype == torch.float64 and float(found.exp().sum()) == pytest.approx(1)
    assert torch.equal(found, expected.log_prob(ALL)) and law.concentration.dtype == torch.float64
    mixed = HierarchicalPitmanYor(contexts(), whole, EPSILON.float(), 3)
    assert mixed.log_prob(ALL[0]).dtype == torch.float32 == mixed.concentration.dtype


@pytest.mark.parametrize(
    ("alpha", "epsilon"),
    [(1.0, 0.25), (1, 0.25), (torch.tensor(1), 0.25), ([1.0, 1.0], 0.25), (ALPHA / ALPHA, [0.25, 0.25])],
)
def test_numbers_and_lists_are_parameters(alpha: Any, epsilon: Any) -> None:
    expected = HierarchicalPitmanYor(contexts(), torch.ones(2), torch.full((2,), 0.25), 3, base=BASE)
    law = HierarchicalPitmanYor(contexts(), alpha, epsilon, 3, base=BASE.tolist())
    assert law.batch_shape == () and torch.equal(law.log_prob(ALL), expected.log_prob(ALL))
    assert law.sample((2,)).shape == (2, 4) and law.expand([3]).log_prob(ALL[0]).shape == (3,)
    lists = Contexts([list(level) for level in zip(*KEYS, strict=True)])
    assert torch.equal(HierarchicalPitmanYor(lists, alpha, epsilon, 3, base=BASE).log_prob(ALL), law.log_prob(ALL))
    single = HierarchicalPitmanYor(contexts(), torch.ones(2).float(), 0.25, 3)
    assert single.log_prob(ALL[0]).dtype == torch.float32


@pytest.mark.parametrize("paths", ["minimal", "maximal"])
@pytest.mark.parametrize("likelihood", ["joint", "predictive"])
def test_no_observations(paths: Any, likelihood: Any) -> None:
    nothing = torch.zeros(0).long()
    law = HierarchicalPitmanYor(Contexts([nothing, nothing]), ALPHA, EPSILON, 3, paths=paths, likelihood=likelihood)
    assert law.log_prob(nothing).tolist() == 0.0 and law.sample((2,)).shape == (2, 0)
    assert law.expand([2]).log_prob(nothing).tolist() == [0.0, 0.0]
    assert law.log_prob(nothing.expand(3, 0)).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: HierarchicalPitmanYor(contexts(), None, 0.1, 3), "concentration must be a tensor or numbers, not "),
        (lambda: HierarchicalPitmanYor(contexts(), 1.0, "no", 3), "discount must be a tensor or numbers, not 'no'"),
        (lambda: HierarchicalPitmanYor(contexts(), torch.ones(2) * 1j, 0.1, 3), "must be real numbers, not torch"),
        (lambda: HierarchicalPitmanYor(contexts(), [1.0] * 3, 0.1, 3), r"shape \(\*batch, 2\).*, not \(3,\) and \(\)"),
        (lambda: HierarchicalPitmanYor(contexts(), 1.0, 0.1, 3, base="no"), "base must be a tensor or numbers, "),
        (lambda: HierarchicalPitmanYor(contexts(), 1.0, 0.1, 3, base=[0.5, 0.5]), r"probabilities of shape \(3,\)"),
        (lambda: HierarchicalPitmanYor(None, 1.0, 0.1, 3), "contexts must be Contexts"),  # type: ignore[arg-type]
        (lambda: process().log_prob(None), r"values must be a tensor of integers of shape \(\*batch, 4\), not None"),
        (lambda: Contexts(None), "keys must be a sequence of tensors"),  # type: ignore[arg-type]
        (lambda: Contexts([None]), "keys must be a tensor or numbers, not None"),
        (lambda: Contexts([[0.5]]), r"keys must be integers, .* of level 0 have shape \(1,\)"),
    ],
)
def test_what_is_no_number_is_named(wrong: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)
