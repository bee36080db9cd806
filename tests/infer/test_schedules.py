# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Schedules against trees listed one by one; what is left of them when they are over; runs that are taken up again."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.small_corpora import CORPORA, assert_close, padded, tensors
from infer.tree_sums import Corpus, Tables, derivations, divergence, normalized, random_tables, sub_normalized
from scipy.special import gammaln
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, Annealed, Curriculum, HardSteps, ModelError, Schedule, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import corpus_logistic_normal

V, SENTENCES = CORPORA["two tags"]
WORDS = padded(SENTENCES)
#: Four steps are not plain ones; the two of the curriculum come first.
ALL = [Annealed(start=0.3, until=4), Curriculum([2], every=2), HardSteps(hard=1, soft=1, until=3)]


def listed(corpus: Corpus, tables: Mapping[str, np.ndarray], beta: float) -> tuple[float, Tables]:
    """The objective of derivations, (1 / β) log Σ p ** β, and counts under p ** β; β = inf is the best tree alone."""
    total, expected = 0.0, {name: np.zeros(table.shape) for name, table in tables.items()}
    for sentence in corpus:
        weights, counts = zip(*derivations(sentence, tables), strict=True)
        if math.isinf(beta):
            shares = [float(w == max(weights)) for w in weights]
            assert sum(shares) == 1
            total += math.log(max(weights))
        else:
            z = math.fsum(w**beta for w in weights)
            shares = [w**beta / z for w in weights]
            total += math.log(z) / beta
        for share, own in zip(shares, counts, strict=True):
            for name in expected:
                expected[name] += share * own[name]
    return total, expected


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize(
    ("schedule", "betas", "lengths"),
    [
        (Annealed(start=0.25, until=2), [0.25, 0.5, 1, 1], [9, 9, 9, 9]),
        (Curriculum([1, 3], every=1), [1, 1, 1, 1], [1, 3, 9, 9]),
        (HardSteps(hard=1, soft=1, until=3), [math.inf, 1, math.inf, 1], [9, 9, 9, 9]),
        ([Annealed(start=0.25, until=2), Curriculum([2], every=3)], [0.25, 0.5, 1, 1], [2, 2, 2, 9]),
        ([Annealed(0.5, 1), Annealed(0.5, 2)], [0.25, math.sqrt(0.5), 1, 1], [9, 9, 9, 9]),
        ([Curriculum([3, 4], every=1), Curriculum([2], every=2)], [1, 1, 1, 1], [2, 2, 9, 9]),
    ],
)
def test_steps_of_em(
    schedule: Schedule | Sequence[Schedule], betas: list[float], lengths: list[int], valence_attach: bool
) -> None:
    """The prior counts once at every temperature."""
    tables = random_tables(V, valence_attach, seed=1)
    em = EM(dirichlet, initial_weights=tensors(tables), schedule=schedule)
    for beta, length in zip(betas, lengths, strict=True):
        seen = [sentence for sentence in SENTENCES if len(sentence) <= length]
        objective, counts = listed(seen, tables, beta)
        for table in tables.values():
            rows, K = table.size // table.shape[-1], table.shape[-1]
            objective += 0.5 * float(np.log(table).sum()) + rows * float(gammaln(1.5 * K) - K * gammaln(1.5))
        found = em.step(WORDS, DMV(V, valence_attach=valence_attach), concentration=1.5)
        assert found == pytest.approx(objective, rel=1e-12)
        tables = {name: normalized(counts[name] + 0.5, tables[name]) for name in tables}
        assert_close(em.weights(), tables)


@pytest.mark.parametrize("beta", [0.3, math.inf])
def test_steps_of_variational_bayes(beta: float) -> None:
    """Only the derivations are annealed; the first q is that of the first step, under the initial weights."""
    schedule: Schedule = HardSteps(hard=1, soft=1, until=1) if math.isinf(beta) else Annealed(beta, until=1)
    tables = random_tables(V, True, seed=1)
    prior = {name: np.full(table.shape, 0.4) for name, table in tables.items()}
    vb = VariationalEM(dirichlet, initial_weights=tensors(tables), schedule=schedule)
    q = {name: prior[name] + counts for name, counts in listed(SENTENCES, tables, beta)[1].items()}
    for at in (beta, 1.0, 1.0):
        objective, counts = listed(SENTENCES, {name: sub_normalized(p) for name, p in q.items()}, at)
        objective -= sum(divergence(q[name], prior[name]) for name in q)
        found = vb.step(WORDS, DMV(V, valence_attach=True), concentration=0.4)
        assert found == pytest.approx(objective, rel=1e-11)
        q = {name: prior[name] + counts[name] for name in q}
    assert_close(vb.weights(), {name: p / p.sum(-1, keepdims=True) for name, p in q.items()})


@pytest.mark.parametrize("beta", [0.2, 0.7])
def test_the_annealed_objective_is_the_greatest_of_expected_score_and_entropy(beta: float) -> None:
    """The maximum over q of E_q[log p] + H(q) / β, sentence by sentence, is in no q that is drawn."""
    tables, generator = random_tables(V, False, seed=5), np.random.default_rng(0)
    em = EM(maximum_likelihood, initial_weights=tensors(tables), schedule=Annealed(beta, until=1))
    objective = em.step(WORDS, DMV(V))
    best, others = 0.0, np.zeros(50)
    for sentence in SENTENCES:
        weights = np.array([weight for weight, _ in derivations(sentence, tables)])
        q = weights**beta / (weights**beta).sum()
        best += float((q * np.log(weights)).sum() - (q * np.log(q)).sum() / beta)
        drawn = generator.dirichlet(100 * q, size=50)
        others += (drawn * np.log(weights)).sum(1) - (drawn * np.log(np.maximum(drawn, 1e-300))).sum(1) / beta
    assert objective == pytest.approx(best, rel=1e-12)
    assert (others < objective).all()
    assert objective > listed(SENTENCES, tables, 1.0)[0]


def test_a_run_goes_through_the_lengths_of_a_curriculum() -> None:
    start: Any = tensors(random_tables(V, True, seed=2))
    found = EM(dirichlet, initial_weights=start, schedule=Curriculum([1, 2, 3], every=2))
    found.run(WORDS, DMV(V, valence_attach=True), num_steps=7, tolerance=0, progress=False, concentration=1.5)
    for i, length in enumerate((1, 1, 2, 2, 3, 3, 9)):
        short = WORDS[(WORDS >= 0).sum(1) <= length]
        pyro.clear_param_store()
        plain = EM(dirichlet, initial_weights=start)
        objective = plain.step(short, DMV(V, valence_attach=True), concentration=1.5)
        assert objective == pytest.approx(found.history[i], rel=1e-12)
        start = plain.weights()


@pytest.mark.parametrize("schedule", [Annealed(1.0, until=5), Curriculum([4], every=3)])
def test_a_schedule_that_changes_nothing_changes_no_bit(schedule: Schedule) -> None:
    for kind, model, options in ((EM, maximum_likelihood, {}), (VariationalEM, dirichlet, {"concentration": 0.5})):
        start: Any = tensors(random_tables(V, True, seed=2))
        runs = []
        for own in ({}, {"schedule": schedule}):
            pyro.clear_param_store()
            loop: Any = kind(model, initial_weights=start, **own)  # type: ignore[operator]
            loop.run(WORDS, DMV(V, valence_attach=True), num_steps=6, tolerance=0, progress=False, **options)
            runs.append(loop)
        assert runs[0].history == runs[1].history
        for name, w in runs[0].weights().items():
            assert torch.equal(w, runs[1].weights()[name])


def test_when_a_schedule_is_over_the_loop_is_the_plain_one() -> None:
    """To the last bit, from the state that the schedule has led to."""
    for kind in (EM, VariationalEM):
        loop = kind(dirichlet, initial_weights="uniform", schedule=ALL)
        plain = kind(dirichlet, initial_weights="uniform")
        for _ in range(4):
            loop.step(WORDS, DMV(V), concentration=1.5)
        plain.step(WORDS, DMV(V), concentration=1.5)
        plain.load_state_dict(loop.state_dict())
        for _ in range(3):
            assert loop.step(WORDS, DMV(V), concentration=1.5) == plain.step(WORDS, DMV(V), concentration=1.5)
        for name, w in loop.weights().items():
            assert torch.equal(w, plain.weights()[name])


def softmaxed(words: Tensor, grammar: DMV) -> None:
    """Weights that are computed from latent values."""
    w = {
        name: block.softmax(pyro.sample(f"{name}.logits", dist.Normal(0.0, 1.0).expand(block.shape).to_event()))
        for name, block in grammar.blocks.items()
    }
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, w), obs=words)


def tied(words: Tensor, grammar: DMV) -> None:
    """All tags stop alike."""
    w = {name: pyro.sample(name, dirichlet_prior(grammar.blocks[name], 1.5)) for name in ("root", "attach")}
    w["stop"] = pyro.sample("stop", dist.Dirichlet(torch.full((2,), 1.5)).expand([2, 2]).to_event(2)).expand(V, 2, 2, 2)
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, w), obs=words)


#: A model, and options of VariationalEM.
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "parameters": (maximum_likelihood, {}),
    "Dirichlets": (partial(dirichlet, concentration=1.5), {}),
    "tied": (tied, {}),
    "computed": (softmaxed, {"guide_steps": 2, "guide_draws": 2}),
}


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", [EM, VariationalEM])
def test_a_run_that_is_taken_up_again(tmp_path: Path, kind: Any, model: str) -> None:
    options = MODELS[model][1] if kind is VariationalEM else {}
    histories, weights = [], []
    schedule = ALL[::2] if model == "parameters" else ALL  # two words leave zeros to maximum likelihood
    for parts in ([6], [1, 3, 6]):
        for num_steps in parts:
            pyro.clear_param_store()
            torch.manual_seed(0)
            loop = kind(MODELS[model][0], schedule=schedule, initial_weights="uniform", **options)
            path = tmp_path / f"{len(parts)}.safetensors"
            loop.run(WORDS, DMV(V), num_steps=num_steps, tolerance=0, progress=False, checkpoint=path)
        histories.append(loop.history)
        weights.append(loop.weights())
    assert histories[0] == histories[1]
    assert len(histories[0]) == 6
    for name, w in weights[0].items():
        assert torch.equal(w, weights[1][name])


def test_the_checkpoint_of_another_schedule_is_refused(tmp_path: Path) -> None:
    path, run = tmp_path / "run.safetensors", partial(EM, maximum_likelihood, initial_weights="uniform")
    options: dict[str, Any] = {"num_steps": 1, "progress": False, "checkpoint": path}
    run(schedule=Annealed(0.3, until=4)).run(WORDS, DMV(V), **options)
    for other in (None, Annealed(0.3, until=5), Annealed(0.4, until=4), [Annealed(0.3, until=4), HardSteps()]):
        with pytest.raises(ValueError, match="is the checkpoint of another run"):
            run(schedule=other).run(WORDS, DMV(V), **options)


def test_a_run_stops_only_when_the_schedule_is_over() -> None:
    em = EM(dirichlet, initial_weights="uniform", schedule=ALL)
    em.run(WORDS, DMV(V), concentration=1.5, tolerance=1e6, progress=False)
    assert len(em.history) == 6  # two objectives are plain ones
    em = EM(dirichlet, initial_weights="uniform", schedule=ALL)
    em.run(WORDS, DMV(V), concentration=1.5, tolerance=0, held_out=WORDS[:1], num_steps=50, progress=False)
    assert [math.isnan(x) for x in em.held_out_history[:6]] == [True] * 4 + [False] * 2
    assert "held-out" in em.stopped


def test_hard_steps_never_lower_the_score_of_the_best_trees() -> None:
    for kind in (EM, VariationalEM):
        start = tensors(random_tables(V, False, seed=3, concentration=0.5))
        loop = kind(dirichlet, initial_weights=start, schedule=HardSteps(hard=20, soft=1, until=20))
        loop.run(WORDS, DMV(V), concentration=1.1, num_steps=20, progress=False)
        assert (np.diff(loop.history) >= -1e-12 * np.abs(loop.history[1:])).all()


def test_one_temperature_never_lowers_its_objective() -> None:
    """β falls from one step to the next by less than a rounding error."""
    for kind in (EM, VariationalEM):
        start = tensors(random_tables(V, False, seed=3, concentration=0.5))
        loop = kind(dirichlet, initial_weights=start, schedule=Annealed(0.3, until=10**17))
        loop.run(WORDS, DMV(V), concentration=1.1, num_steps=20, progress=False)
        assert (np.diff(loop.history) >= -1e-12 * np.abs(loop.history[1:])).all()


def test_tied_weights_count_the_best_trees() -> None:
    """Counts of stops are summed over tags."""
    tables = random_tables(V, False, seed=1)
    tables["stop"] = np.broadcast_to(tables["stop"][:1], tables["stop"].shape).copy()
    start = {name: torch.tensor(t[0] if name == "stop" else t) for name, t in tables.items()}
    em = EM(tied, initial_weights=start, schedule=HardSteps(until=1))
    objective, counts = listed(SENTENCES, tables, math.inf)
    counts["stop"] = np.broadcast_to(counts["stop"].sum(0), counts["stop"].shape)
    em.step(WORDS, DMV(V))
    assert_close(em.weights(), {name: normalized(counts[name] + 0.5, tables[name]) for name in tables}, rtol=1e-6)


@pytest.mark.parametrize("schedule", [Annealed(0.4, until=1), HardSteps(until=1)])
def test_chains(schedule: Schedule) -> None:
    """Every sequence of states of a sentence, listed."""
    grammar, sentence = HMM(2, 3), [0, 2, 1]
    generator = np.random.default_rng(0)
    w = {
        n: torch.tensor(generator.dirichlet(np.ones(b.shape[-1]), size=b.shape[:-1])) for n, b in grammar.blocks.items()
    }
    em = EM(maximum_likelihood, initial_weights=w, schedule=schedule)
    found = em.step(torch.tensor([sentence]), grammar)
    scores = []
    for states in itertools.product(range(2), repeat=3):
        counts = grammar.counts(torch.tensor(sentence), torch.tensor(states))
        scores.append(sum(float(torch.xlogy(counts[name], w[name]).sum()) for name in w))
    best = max(scores) if isinstance(schedule, HardSteps) else math.log(sum(math.exp(0.4 * s) for s in scores)) / 0.4
    assert found == pytest.approx(best, rel=1e-12)


def test_refusals() -> None:
    for arguments, text in (
        ({"start": 0.0}, "0 < start <= 1, an inverse temperature, not 0.0"),
        ({"start": 1.1}, "not 1.1"),
        ({"until": 0.6}, "a number of steps of at least 1, not 0.6"),
    ):
        with pytest.raises(ValueError, match=text):
            Annealed(**arguments)
    for lengths in ([], [3, 2], [2, 2], [0, 3], [2.5]):
        with pytest.raises(ValueError, match="increasing numbers of words"):
            Curriculum(lengths)  # type: ignore[arg-type]
    for name in ("hard", "soft", "until"):
        with pytest.raises(ValueError, match=f"HardSteps needs {name}"):
            HardSteps(**{name: 0})
    with pytest.raises(ValueError, match="Curriculum needs every"):
        Curriculum([2], every=0)
    with pytest.raises(TypeError, match="schedule must be a schedule"):
        EM(maximum_likelihood, schedule=Annealed)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="schedule must be a schedule"):
        EM(maximum_likelihood, schedule=[0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no sentence of at most 1 word;"):
        EM(maximum_likelihood, schedule=Curriculum([1])).step(torch.tensor([[0, 1]]), DMV(2))
    with pytest.raises(ModelError, match="no schedules and no constraints for logistic normals"):
        VariationalEM(corpus_logistic_normal, schedule=Annealed()).step(WORDS, DMV(V))


def test_mixtures_of_grammars() -> None:
    """The best tree is not searched; an annealed component has its share to the power of β, too."""

    def two(words: Tensor, grammar: DMV, tables: Tables) -> None:
        shares = pyro.param("shares", torch.tensor([0.3, 0.7], dtype=torch.float64), dist.constraints.simplex)
        w = {n: pyro.param(n, torch.tensor(t), dist.constraints.simplex) for n, t in tables.items()}
        with pyro.plate("sentences", len(words)):
            k = pyro.sample("k", dist.Categorical(shares), infer={"enumerate": "parallel"})
            pyro.sample("words", Sentence(grammar, {n: t[k] for n, t in w.items()}), obs=words)

    own = [random_tables(V, False, seed) for seed in (1, 2)]
    tables = {name: np.stack([own[0][name], own[1][name]]) for name in own[0]}
    pyro.clear_param_store()
    found = EM(two, schedule=Annealed(0.5, until=1)).step(WORDS, DMV(V), tables)
    roots = np.sqrt([0.3, 0.7])
    weights = [[[w for w, _ in derivations(sentence, part)] for part in own] for sentence in SENTENCES]
    z = [sum(r * np.sqrt(w).sum() for r, w in zip(roots, parts, strict=True)) for parts in weights]
    assert found == pytest.approx(2 * float(np.log(z).sum()), rel=1e-12)
    with pytest.raises(ModelError, match="no HardSteps for mixtures of grammars, such as site 'words'"):
        EM(two, schedule=HardSteps()).step(WORDS, DMV(V), tables)


def test_weights_of_each_sentence() -> None:
    def own_weights(words: Tensor, grammar: DMV) -> None:
        scale = pyro.sample("scale", dist.Normal(0.0, 1.0))
        with pyro.plate("sentences", len(words)):
            places = torch.arange(float(len(words)))
            w = {}
            for name, block in grammar.blocks.items():
                logits = torch.arange(float(block.shape.numel())).reshape(block.shape).cos() * scale
                w[name] = block.softmax(places.reshape(-1, *(1 for _ in block.shape)) * logits)
            pyro.sample("words", Sentence(grammar, w), obs=words)

    EM(own_weights, schedule=Annealed(until=1)).step(WORDS, DMV(V))
    for schedule in (HardSteps(), Curriculum([2])):
        with pytest.raises(ModelError, match="each sentence of site 'words' has its own; use Annealed"):
            EM(own_weights, schedule=schedule).step(WORDS, DMV(V))
