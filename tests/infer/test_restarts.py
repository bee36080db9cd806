# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Restarts of the E-step of logistic normals, against the bound over listed trees, climbed from many places."""

from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from infer.gaussian_sums import bound, dense
from infer.small_corpora import padded
from infer.test_logistic_normal_em import KINDS, THREE, by_family, model_of
from infer.tree_sums import Corpus
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Sentence, logistic_normal
from pyrogram.distributions.partition import PartitionStructure
from pyrogram.grammars.tying import tie
from pyrogram.infer import EStep, VariationalEM
from pyrogram.infer.logistic_normal.posterior import ExpertPosterior
from pyrogram.models import initial_tied_experts
from pyrogram.models.shared_logistic_normal import shared_logistic_normal as shared_model

GRAMMAR, VARIANCE = DMV(2), 4.0
SENTENCES: Corpus = [[0, 1], [1, 0], [0, 1, 0]]
BLOCKS, DOUBLE = GRAMMAR.blocks, torch.float64
MEANS = {name: torch.zeros(block.shape, dtype=DOUBLE) for name, block in BLOCKS.items()}
MEANS["root"] = torch.tensor([1.0, -1.0], dtype=DOUBLE)
VARIANCES = {name: torch.full(block.shape, VARIANCE, dtype=DOUBLE) for name, block in BLOCKS.items()}

# Where q begins: at the root that the prior does not like, who takes all, in which some sentences are caught.
CAUGHT = {name: block.uniform(torch.ones((), dtype=DOUBLE)) for name, block in BLOCKS.items()}
CAUGHT["root"] = torch.tensor([0.2, 0.8], dtype=DOUBLE)
CAUGHT["stop"][0] = torch.tensor([0.99, 0.01], dtype=DOUBLE)


def wide(words: Tensor, root_is_learnt: bool = False) -> None:
    """Wide priors, under which every sentence has several optima."""
    weights = {}
    if root_is_learnt:
        weights["root"] = pyro.param("root", CAUGHT["root"], constraints.simplex)
    with pyro.plate("sentences", len(words)):
        for name in BLOCKS:
            if name not in weights:
                weights[name] = logistic_normal(name, MEANS[name], variance=VARIANCES[name])
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=words)


def tight(restarts: int) -> VariationalEM:
    return VariationalEM(wide, initial_weights=CAUGHT, e_step=EStep(1e-13, 500, restarts))


def climbed(sentence: list[int], seed: int) -> float:
    """An optimum of the bound over listed trees, by L-BFGS from a draw from the prior."""
    generator = torch.Generator().manual_seed(seed)
    start = {n: loc + VARIANCE**0.5 * torch.randn(loc.shape, generator=generator) for n, loc in MEANS.items()}
    means = {name: m[None].clone().requires_grad_() for name, m in start.items()}
    logs = {name: v[None].log().clone().requires_grad_() for name, v in VARIANCES.items()}
    structure = PartitionStructure.untied(BLOCKS)
    optimiser = torch.optim.LBFGS(
        [*means.values(), *logs.values()], max_iter=200, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        variances = {name: x.exp() for name, x in logs.items()}
        value = -bound([sentence], structure, means, variances, MEANS, VARIANCES)
        value.backward()
        return value

    optimiser.step(loss)
    return -float(loss().detach())


def test_the_best_optimum_is_found() -> None:
    sentence = [0, 1]
    found = torch.tensor([climbed(sentence, seed) for seed in range(6)])
    words = padded([sentence])
    caught, free = tight(0).step(words), tight(10).step(words)
    assert caught < float(found.max()) - 0.1
    assert free == pytest.approx(float(found.max()), abs=1e-6)


def test_each_sentence_keeps_its_best() -> None:
    """What a corpus gains is what its sentences gain, although they are caught, or free, in different starts."""
    one_by_one = [tight(10).step(padded([sentence])) for sentence in SENTENCES]
    gains = [free - tight(0).step(padded([s])) for free, s in zip(one_by_one, SENTENCES, strict=True)]
    assert max(gains) > 0.1
    assert tight(10).step(padded(SENTENCES)) == pytest.approx(sum(one_by_one), abs=1e-9)


@pytest.mark.parametrize("root_is_learnt", [False, True])
def test_counts_and_bound_are_those_of_the_kept_ends(root_is_learnt: bool) -> None:
    """With sentences that stay and sentences that move: the bound of all, and what the root's M-step counts."""
    words = padded(SENTENCES)
    loop = tight(2)
    objective = loop.step(words, root_is_learnt=root_is_learnt)
    pyro.clear_param_store()
    assert objective > tight(0).step(words, root_is_learnt=root_is_learnt) + 0.1
    means, variances = map(by_family, dense(loop))
    root = CAUGHT["root"].log().requires_grad_()
    shared = {"root": root} if root_is_learnt else {}
    blocks = {name: block for name, block in BLOCKS.items() if name not in shared}
    structure = PartitionStructure.untied(blocks)
    value = bound(SENTENCES, structure, means, variances, MEANS, VARIANCES, shared)
    assert objective == pytest.approx(float(value.detach()), rel=1e-10)
    if root_is_learnt:
        (counts,) = torch.autograd.grad(value, root)
        torch.testing.assert_close(loop.weights()["root"], counts / len(SENTENCES))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_never_falls(kind: str) -> None:
    pyro.clear_param_store()
    loop = VariationalEM(model_of(DMV(3), 1, **KINDS[kind]), e_step=EStep(restarts=3, restart_every=2))
    for _ in range(12):
        loop.step(padded(THREE))
    assert float(torch.tensor(loop.history).diff().min()) >= -1e-9


def test_the_bound_of_shared_experts_never_falls() -> None:
    grammar, words = DMV(3), padded(THREE)
    structure = tie(grammar, ["verb", "verb", "noun"], "V&N")

    def model(words: Tensor) -> None:
        shared_model(words, grammar, structure, start=initial_tied_experts(words, grammar, structure))

    loop = VariationalEM(model, e_step=EStep(restarts=2, restart_every=2))
    for _ in range(8):
        loop.step(words)
    assert float(torch.tensor(loop.history).diff().min()) >= -1e-9


def test_a_resumed_run_gives_the_same_numbers(tmp_path: Path) -> None:
    """To the last bit, where it stops between two E-steps with restarts; random numbers of others are left alone."""
    words = padded(THREE)

    def run(path: Path | None, steps: int) -> VariationalEM:
        pyro.clear_param_store()
        loop = VariationalEM(model_of(DMV(3), 1), e_step=EStep(restarts=3, restart_every=4))
        return loop.run(words, num_steps=steps, tolerance=0, progress=False, checkpoint=path)

    torch.manual_seed(0)
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    whole = run(None, 10)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()  # type: ignore[index]
    path = tmp_path / "state.safetensors"
    run(path, 6)
    resumed = run(path, 10)
    assert resumed.history == whole.history
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name].nan_to_num(), tensor.nan_to_num())


def test_which_iterations_have_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and every third; the draws of one iteration are not those of another."""
    drawn: list[tuple[int, np.ndarray]] = []
    draw = ExpertPosterior.start_at_draw

    def spy(q: ExpertPosterior, generator: np.random.Generator) -> None:
        draw(q, generator)
        drawn.append((len(loop.history), q.mean.copy()))

    monkeypatch.setattr(ExpertPosterior, "start_at_draw", spy)
    loop = VariationalEM(wide, e_step=EStep(restarts=3, restart_every=3))
    for _ in range(5):
        loop.step(padded(SENTENCES))
    posteriors = len(BLOCKS)
    assert [iteration for iteration, _ in drawn] == [0] * 2 * posteriors + [3] * 2 * posteriors
    roots = [mean for _, mean in drawn[::posteriors]]
    assert len({tuple(mean) for mean in roots}) == 4


@pytest.mark.parametrize(
    "options",
    [
        *({"tolerance": -1.0}, {"rounds": 0}, {"restarts": -1}, {"restart_every": 0}),
        *(
            {"tolerance": float("nan")},
            {"tolerance": "0.1"},
            {"rounds": 1.5},
            {"restarts": 2.5},
            {"restart_every": None},
        ),
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="restarts >= 0 and restart_every >= 1, not EStep"):
        EStep(**options)


def test_an_e_step_that_is_none() -> None:
    wrong: Any = {"restarts": 2}
    with pytest.raises(TypeError, match=r"e_step must be an EStep\(tolerance, rounds, restarts\), not {'restarts': 2}"):
        VariationalEM(wide, e_step=wrong)
