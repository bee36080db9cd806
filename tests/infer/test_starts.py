# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the documentation says of starts: uniform weights tell no hidden symbols apart, and seeds repeat a run."""

from typing import Any

import pyro
import pytest
import torch

from pyrogram import HMM
from pyrogram.infer import EM, CollapsedVB, TreeHastings, VariationalEM
from pyrogram.models.dirichlet import dirichlet, maximum_likelihood

GRAMMAR, WORDS = HMM(2, 3), torch.tensor([[0, 1, 2, 2], [2, 1, -1, -1], [0, 0, 1, 2]])
LOOPS: dict[str, tuple[Any, Any]] = {
    "EM": (EM, maximum_likelihood),
    "VB": (VariationalEM, dirichlet),
    "CVB": (CollapsedVB, dirichlet),
}


def emission(loop: Any, model: Any, **options: Any) -> torch.Tensor:
    pyro.clear_param_store()
    run = loop(model, **options).run(WORDS, GRAMMAR, num_steps=5, progress=False)
    found: torch.Tensor = run.weights()["emission"]
    return found


@pytest.mark.parametrize("name", LOOPS)
def test_uniform_weights_are_a_saddle_point(name: str) -> None:
    alike = emission(*LOOPS[name], initial_weights="uniform")
    torch.testing.assert_close(alike[0], alike[1], rtol=0, atol=1e-12)
    apart = emission(*LOOPS[name])
    assert (apart[0] - apart[1]).abs().max() > 0.01
    drawn = emission(TreeHastings, dirichlet, initial_weights="uniform", seed=0)
    assert (drawn[0] - drawn[1]).abs().max() > 0.01


@pytest.mark.parametrize("name", [*LOOPS, "Hastings"])
def test_a_seed_repeats_a_run(name: str) -> None:
    loop = LOOPS.get(name, (TreeHastings, dirichlet))

    def run(seed: int) -> torch.Tensor:
        pyro.set_rng_seed(seed)
        return emission(*loop)

    assert torch.equal(run(0), run(0)) and not torch.equal(run(0), run(1))
