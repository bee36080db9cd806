# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tilts that decay, against trees listed one by one; what is left of them when they are over."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.small_corpora import CORPORA, assert_close, padded, tensors
from infer.tree_sums import Corpus, Tables, agreeing, derivations, divergence, normalized, random_tables, sub_normalized
from torch import Tensor

from pyrogram import DMV, Bias
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, Annealed, AtLeast, Curriculum, Decaying, HardSteps, Schedule, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

V, SENTENCES = CORPORA["two tags"]
WORDS = padded(SENTENCES)
NATS = {"root": np.array([0.7, -1.0]), "attach": np.array([[[-0.5, 1.5]], [[0.3, -0.7]]])}
BIAS = Bias(tensors(NATS))
OTHER = Bias({"stop": torch.tensor([0.5, -0.5])})
#: The nats of both, in the shapes of the blocks.
OF_BIAS = {"root": NATS["root"], "attach": np.broadcast_to(NATS["attach"], (V, 2, V))}
OF_OTHER = {"stop": np.broadcast_to(np.array([0.5, -0.5]), (V, 2, 2, 2))}


def nats_of(counts: Tables, nats: Mapping[str, np.ndarray]) -> float:
    return math.fsum(float((counts[name] * table).sum()) for name, table in nats.items())


def listed(
    corpus: Corpus,
    tables: Tables,
    nats: Sequence[tuple[float, Mapping[str, np.ndarray]]],
    beta: float = 1.0,
    known: Corpus | None = None,
) -> tuple[float, Tables]:
    """(1 / β) log Σ p ** β exp φ, and counts; φ is the sum of nats times their strengths. β = inf is the best tree."""
    total, expected = 0.0, {name: np.zeros(table.shape) for name, table in tables.items()}
    for i, sentence in enumerate(corpus):
        trees = list(derivations(sentence, tables))
        trees = trees if known is None else [trees[k] for k in agreeing(known[i])]
        hard = math.isinf(beta)
        scores = np.array(
            [(1.0 if hard else beta) * math.log(w) + sum(s * nats_of(c, n) for s, n in nats) for w, c in trees]
        )
        z = scores.max() if hard else float(np.logaddexp.reduce(scores))
        shares = (scores == z).astype(float) if hard else np.exp(scores - z)
        total += z if hard else z / beta
        for share, (_, counts) in zip(shares, trees, strict=True):
            for name in expected:
                expected[name] += share * counts[name]
    return total, expected


BEST = math.inf
STEPS: list[tuple[Any, list[tuple[float, float, float, int]]]] = [  # of each step: s of BIAS, of OTHER, β, longest
    (Decaying(BIAS, until=2), [(1, 0, 1, 9), (0.5, 0, 1, 9), (0, 0, 1, 9), (0, 0, 1, 9)]),
    (Decaying(BIAS, until=2, rest=0.2), [(1, 0, 1, 9), (0.6, 0, 1, 9), (0.2, 0, 1, 9), (0.2, 0, 1, 9)]),
    (Decaying(BIAS, until=1, rest=2.0), [(1, 0, 1, 9), (2, 0, 1, 9)]),
    ([Decaying(BIAS, 2), Annealed(0.25, 2)], [(1, 0, 0.25, 9), (0.5, 0, 0.5, 9), (0, 0, 1, 9)]),
    ([Decaying(BIAS, 2), Decaying(OTHER, 1, 0.5)], [(1, 1, 1, 9), (0.5, 0.5, 1, 9), (0, 0.5, 1, 9)]),
    ([Curriculum([2], 1), Decaying(BIAS, 2), HardSteps(1, 1, 3)], [(1, 0, BEST, 2), (0.5, 0, 1, 9), (0, 0, BEST, 9)]),
]  # fmt: skip


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize(("schedule", "steps"), STEPS)
def test_steps_of_em(
    schedule: Schedule | Sequence[Schedule], steps: list[tuple[float, float, float, int]], valence_attach: bool
) -> None:
    tables = random_tables(V, valence_attach, seed=1)
    nats = OF_BIAS
    if valence_attach:  # nats of [head, direction, child] for all valences
        nats = {**OF_BIAS, "attach": np.broadcast_to(NATS["attach"][:, :, None], (V, 2, 2, V))}
        table = torch.tensor(NATS["attach"])[:, :, None]
        old = [schedule] if isinstance(schedule, Schedule) else schedule
        schedule = [
            Decaying(Bias({**BIAS.events, "attach": table}), s.until, s.rest)
            if isinstance(s, Decaying) and s.bias is BIAS
            else s
            for s in old
        ]
    em = EM(partial(dirichlet, concentration=1.5), initial_weights=tensors(tables), schedule=schedule)
    constant = None
    for own, other, beta, longest in steps:
        seen = [sentence for sentence in SENTENCES if len(sentence) <= longest]
        objective, counts = listed(seen, tables, [(own, nats), (other, OF_OTHER)], beta)
        density = sum(0.5 * float(np.log(t).sum()) for t in tables.values())
        found = em.step(WORDS, DMV(V, valence_attach=valence_attach)) - objective - density
        constant = found if constant is None else constant  # log normaliser of the prior, the same in all steps
        assert found == pytest.approx(constant, abs=1e-9)
        tables = {name: normalized(counts[name] + 0.5, tables[name]) for name in tables}
        assert_close(em.weights(), tables)


def test_steps_of_variational_bayes() -> None:
    """The first q is that of the first step, under the initial weights."""
    tables = random_tables(V, False, seed=1)
    prior = {name: np.full(table.shape, 0.4) for name, table in tables.items()}
    vb = VariationalEM(dirichlet, initial_weights=tensors(tables), schedule=Decaying(BIAS, until=2))
    q = {name: prior[name] + c for name, c in listed(SENTENCES, tables, [(1.0, OF_BIAS)])[1].items()}
    for strength in (1.0, 0.5, 0.0, 0.0):
        objective, counts = listed(SENTENCES, {n: sub_normalized(p) for n, p in q.items()}, [(strength, OF_BIAS)])
        objective -= sum(divergence(q[name], prior[name]) for name in q)
        assert vb.step(WORDS, DMV(V), concentration=0.4) == pytest.approx(objective, rel=1e-11)
        q = {name: prior[name] + counts[name] for name in q}
    assert_close(vb.weights(), {name: p / p.sum(-1, keepdims=True) for name, p in q.items()})


def test_a_tilt_of_the_models_own_and_evidence_stay() -> None:
    known = [[-1] * len(sentence) for sentence in SENTENCES]
    longest = max(range(len(SENTENCES)), key=lambda i: len(SENTENCES[i]))
    known[longest][0] = 2

    def model(words: Tensor, heads: Tensor) -> None:
        grammar, w = DMV(V), {}
        for name, block in grammar.blocks.items():
            w[name] = pyro.param(name, block.uniform(torch.ones((), dtype=torch.float64)), dist.constraints.simplex)
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar.tilted(OTHER), w, known=heads), obs=words)

    tables = random_tables(V, False, seed=1)
    em = EM(model, initial_weights=tensors(tables), schedule=Decaying(BIAS, until=1))
    pyro.clear_param_store()
    for strength in (1.0, 0.0):
        objective, counts = listed(SENTENCES, tables, [(strength, OF_BIAS), (1.0, OF_OTHER)], known=known)
        assert em.step(WORDS, padded(known)) == pytest.approx(objective, rel=1e-11)
        tables = {name: normalized(counts[name], tables[name]) for name in tables}
        assert_close(em.weights(), tables)


def tied(words: Tensor, grammar: DMV) -> None:
    """All tags attach alike, but the tilt tells them apart."""
    w = {name: pyro.sample(name, dirichlet_prior(grammar.blocks[name], 1.5)) for name in ("root", "stop")}
    w["attach"] = pyro.sample("attach", dist.Dirichlet(torch.full((V,), 1.5)).expand([2]).to_event(1)).expand(V, 2, V)
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, w), obs=words)


@pytest.mark.parametrize("beta", [1.0, math.inf])
def test_tied_weights(beta: float) -> None:
    tables = random_tables(V, False, seed=1)
    tables["attach"] = np.broadcast_to(tables["attach"][:1], tables["attach"].shape).copy()
    start = {name: torch.tensor(t[0] if name == "attach" else t) for name, t in tables.items()}
    schedule: list[Schedule] = [Decaying(BIAS, until=1)]
    em = EM(tied, initial_weights=start, schedule=schedule + [HardSteps(until=1)] * math.isinf(beta))
    counts = listed(SENTENCES, tables, [(1.0, OF_BIAS)], beta)[1]
    counts["attach"] = np.broadcast_to(counts["attach"].sum(0), counts["attach"].shape)
    em.step(WORDS, DMV(V))
    assert_close(em.weights(), {name: normalized(counts[name] + 0.5, tables[name]) for name in tables}, rtol=1e-6)


def test_mixtures_of_grammars() -> None:
    """Every component is tilted."""

    def two(words: Tensor, tables: Tables) -> None:
        shares = pyro.param("shares", torch.tensor([0.3, 0.7], dtype=torch.float64), dist.constraints.simplex)
        w = {n: pyro.param(n, torch.tensor(t), dist.constraints.simplex) for n, t in tables.items()}
        with pyro.plate("sentences", len(words)):
            k = pyro.sample("k", dist.Categorical(shares), infer={"enumerate": "parallel"})
            pyro.sample("words", Sentence(DMV(V), {n: t[k] for n, t in w.items()}), obs=words)

    own = [random_tables(V, False, seed) for seed in (1, 2)]
    pyro.clear_param_store()
    em = EM(two, schedule=Decaying(BIAS, until=1))
    found = em.step(WORDS, {name: np.stack([own[0][name], own[1][name]]) for name in own[0]})
    total = 0.0
    for sentence in SENTENCES:
        z = [math.exp(listed([sentence], tables, [(1.0, OF_BIAS)])[0]) for tables in own]
        total += math.log(0.3 * z[0] + 0.7 * z[1])
    assert found == pytest.approx(total, rel=1e-12)


def test_a_constraint_on_roots_outweighs_a_tilt_of_roots() -> None:
    """The share of roots is what the constraint says, and given its root each tree is weighed as without a tilt."""
    start = tensors(random_tables(V, False, seed=1))
    roots = torch.tensor([0.0, 1.0], dtype=torch.float64)
    demand, tilt = AtLeast({"root": roots}, 0.6), Decaying(Bias({"root": -2 * roots}), until=1)
    loops = [EM(maximum_likelihood, initial_weights=start, constraints=[demand], schedule=own) for own in ([], tilt)]
    for loop in loops:
        pyro.clear_param_store()
        loop.step(WORDS, DMV(V))
    assert loops[1].multipliers()[0] == pytest.approx(loops[0].multipliers()[0] + 2, rel=1e-6)
    assert_close(loops[1].weights(), {n: w.numpy() for n, w in loops[0].weights().items()}, rtol=1e-6)


@pytest.mark.parametrize("kind", [EM, VariationalEM])
def test_when_the_tilt_is_gone_the_loop_is_the_plain_one(kind: Any) -> None:
    """To the last bit, from the state that it has led to."""
    loop = kind(dirichlet, initial_weights="uniform", schedule=[Decaying(BIAS, until=3), Decaying(OTHER, until=2)])
    plain = kind(dirichlet, initial_weights="uniform")
    for _ in range(3):
        loop.step(WORDS, DMV(V), concentration=1.5)
    plain.step(WORDS, DMV(V), concentration=1.5)
    plain.load_state_dict(loop.state_dict())
    for _ in range(3):
        assert loop.step(WORDS, DMV(V), concentration=1.5) == plain.step(WORDS, DMV(V), concentration=1.5)
    for name, w in loop.weights().items():
        assert torch.equal(w, plain.weights()[name])


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("kind", [EM, VariationalEM])
def test_a_run_that_is_taken_up_again(tmp_path: Path, kind: Any) -> None:
    histories, weights = [], []
    for parts in ([6], [1, 3, 6]):
        for num_steps in parts:
            pyro.clear_param_store()
            loop = kind(tied, schedule=Decaying(BIAS, until=4, rest=0.1), initial_weights="uniform")
            path = tmp_path / f"{len(parts)}.safetensors"
            loop.run(WORDS, DMV(V), num_steps=num_steps, tolerance=0, progress=False, checkpoint=path)
        histories.append(loop.history)
        weights.append(loop.weights())
    assert histories[0] == histories[1]
    assert len(histories[0]) == 6
    for name, w in weights[0].items():
        assert torch.equal(w, weights[1][name])


def test_the_checkpoint_of_another_tilt_is_refused(tmp_path: Path) -> None:
    """Also where the tensors of two biases print alike."""
    long, other = torch.zeros(2000), torch.zeros(2000)
    other[1000] = 1.0
    a, b = (Decaying(Bias({"attach": table}), until=4) for table in (long, other))
    assert a.identity != b.identity
    path, run = tmp_path / "run.safetensors", partial(EM, maximum_likelihood, initial_weights="uniform")
    options: dict[str, Any] = {"num_steps": 1, "progress": False, "checkpoint": path}
    run(schedule=Decaying(BIAS, until=4)).run(WORDS, DMV(V), **options)
    for schedule in (None, Decaying(BIAS, 5), Decaying(BIAS, 4, 0.1), Decaying(2 * BIAS, 4), Decaying(OTHER, 4)):
        with pytest.raises(ValueError, match="is the checkpoint of another run"):
            run(schedule=schedule).run(WORDS, DMV(V), **options)
    run(schedule=Decaying(1.0 * BIAS, 4)).run(WORDS, DMV(V), **options)


def test_a_run_stops_only_when_the_tilt_rests() -> None:
    em = EM(dirichlet, initial_weights="uniform", schedule=Decaying(BIAS, until=4, rest=0.5))
    em.run(WORDS, DMV(V), concentration=1.5, tolerance=1e6, progress=False)
    assert len(em.history) == 6


def test_refusals() -> None:
    for until in (0, 0.6):
        with pytest.raises(ValueError, match="Decaying needs until, a number of steps of at least 1"):
            Decaying(BIAS, until)  # type: ignore[arg-type]
    for rest in (-0.1, math.inf, math.nan):
        with pytest.raises(ValueError, match="Decaying needs rest >= 0, a strength"):
            Decaying(BIAS, rest=rest)
    with pytest.raises(TypeError, match="needs a Bias, not {'root': "):
        Decaying({"root": torch.ones(2)})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a bias of events, not of arc_scores; nats of parts"):
        Decaying(Bias(parts={"arc_scores": torch.zeros(1, 3, 3)}))
    assert Decaying(Bias()).at(0).tilt is None  # text that shows nothing has such a bias
    with pytest.raises(ValueError, match="cannot learn its bias"):
        Decaying(Bias({"root": torch.ones(2, requires_grad=True)}))
    with pytest.raises(ValueError, match="a bias of events is about blocks"):
        EM(maximum_likelihood, schedule=Decaying(Bias({"rules": torch.ones(2)}))).step(WORDS, DMV(V))
