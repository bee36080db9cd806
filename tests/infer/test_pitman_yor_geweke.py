# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Getting it right (Geweke 2004): a step of the sampler from a draw of the model leaves the model's joint as it is."""

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import stats
from torch import Tensor

from pyrogram.distributions import Contexts, HierarchicalPitmanYor
from pyrogram.infer import PitmanYorSampler
from pyrogram.restaurants.restaurants import Restaurants

SEEN = Contexts([torch.zeros(12).long(), torch.arange(12) // 4])
BASE = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)


def model(values: Tensor) -> None:
    discount = pyro.sample("discount", dist.Beta(1.0, 1.0).expand([2]).to_event(1))
    strength = pyro.sample("strength", dist.Gamma(1.5, 0.5).expand([2]).to_event(1))
    law = HierarchicalPitmanYor(SEEN, strength - discount, discount, 3, paths="exact", base=BASE)
    pyro.sample("values", law, obs=values)


def draw(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Restaurants]:
    """Hyperparameters, values and seats from the model."""
    discount, strength = dist.Beta(1.0, 1.0).sample((2,)), dist.Gamma(1.5, 0.5).sample((2,))
    made = Restaurants(2, 3, "exact", base=BASE)
    values = made.draw(SEEN.keys, strength - discount, discount, generator)
    return discount, strength, values, made


def summary(discount: Tensor, strength: Tensor, made: Restaurants) -> list[float]:
    draws = [int(made.table(level).t.sum()) for level in (0, 1)]
    joint = float(made.log_joint(strength - discount, discount))
    products = [float(strength[l]) * draws[l] for l in (0, 1)] + [float(discount[l]) * draws[l] for l in (0, 1)]
    return [*discount.tolist(), *strength.tolist(), *map(float, draws), *products, joint]


@pytest.mark.slow
def test_one_step_leaves_the_joint_of_hyperparameters_values_and_seats_as_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    number = 1500
    before, after = [], []
    for _ in range(number):
        before.append(summary(*(x for i, x in enumerate(draw(generator)) if i != 2)))
        discount, strength, values, made = draw(generator)
        sampler = PitmanYorSampler(model, seed=int(torch.randint(2**31, (), generator=generator)))
        sampler.run(values, num_steps=0, progress=False)
        state = sampler.state_dict()
        state["point.discount"], state["point.strength"] = discount.logit(), strength.log()
        state.update({f"seats.values.{name}": x for name, x in made.state_dict().items()})
        sampler.load_state_dict(state)
        sampler.step(values)
        now = sampler.hyperparameters()
        after.append(summary(now["discount"], now["strength"], sampler.restaurants["values"]))
    for old, new in zip(np.array(before).T, np.array(after).T, strict=True):
        assert stats.ks_2samp(old, new).pvalue > 1e-4
