# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Constraints against trees listed one by one, and the optimum of their dual against scipy's."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.optimize
import torch
from infer.small_corpora import CORPORA, assert_close, padded, random_corpus, tensors
from infer.tree_sums import (
    Corpus,
    Tables,
    derivations,
    divergence,
    likelihood_and_counts,
    normalized,
    random_tables,
    sub_normalized,
)
from torch import Tensor

from pyrogram import DMV
from pyrogram.bias import Bias
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, Annealed, AtLeast, AtMost, Constraint, Curriculum, HardSteps, ModelError, VariationalEM
from pyrogram.infer.loops import dual as dual_of_constraints
from pyrogram.infer.loops.constraints import greatest_share
from pyrogram.infer.loops.dual import minimise
from pyrogram.infer.model.structure import SentenceSite
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import corpus_logistic_normal

V, SENTENCES = CORPORA["two tags"]
WORDS = padded(SENTENCES)
ROOTS = torch.tensor([0.0, 1.0])
TO_THE_LEFT = torch.tensor([1.0, 0.0])[:, None]  # of attach, [head, direction, dependent]

#: Each with its counts by block: f, and the events that it is a share of.
CASES: dict[str, list[tuple[Constraint, Tables, Tables]]] = {}


def case(constraint: Constraint, f: dict[str, Any], of: dict[str, Any]) -> tuple[Constraint, Tables, Tables]:
    shapes = {"root": (V,), "attach": (V, 2, V)}
    return (
        constraint,
        {name: np.broadcast_to(table, shapes[name]) for name, table in f.items()},
        {name: np.broadcast_to(table, shapes[name]) for name, table in of.items()},
    )


ROOT = case(AtLeast({"root": ROOTS}, 0.6), {"root": [0, 1]}, {"root": 1})
LEFT = case(AtMost(Bias({"attach": TO_THE_LEFT}), 0.3), {"attach": np.array([[1], [0]])}, {"attach": 1})
SLACK = case(AtLeast({"root": ROOTS}, 0.01), {"root": [0, 1]}, {"root": 1})
BOTH = {"root": torch.ones(2), "attach": torch.tensor(1.0)}
OF_ALL = case(
    AtLeast({"root": ROOTS, "attach": torch.eye(2)[:, None]}, 0.4, of=BOTH),
    {"root": [0, 1], "attach": np.eye(2)[:, None]},
    {"root": 1, "attach": 1},
)
CASES = {"root": [ROOT], "left": [LEFT], "slack": [SLACK], "two": [ROOT, LEFT], "of all": [OF_ALL, SLACK, LEFT]}
NONE = case(AtMost({"attach": TO_THE_LEFT}, 0.0), {"attach": np.array([[1], [0]])}, {"attach": 1})


def nearest(
    corpus: Corpus, tables: Tables, case: Sequence[tuple[Constraint, Tables, Tables]], beta: float = 1.0
) -> tuple[float, Tables, np.ndarray]:
    """The greatest E_q[log p] + H(q) / β under the constraints, counts and multipliers, by scipy, over listed trees."""
    listed = [list(derivations(sentence, tables)) for sentence in corpus]
    logs = [beta * np.log([w for w, _ in trees]) for trees in listed]
    slack = []
    for trees in listed:
        rows = []
        for _, counts in trees:
            row = []
            for constraint, f, of in case:
                up = sum((counts[n] * t).sum() for n, t in f.items())
                row.append(
                    constraint.sign * (up - constraint.share * sum((counts[n] * t).sum() for n, t in of.items()))
                )
            rows.append(row)
        slack.append(np.array(rows))

    def posterior(multipliers: np.ndarray) -> tuple[float, list[np.ndarray]]:
        scores = [log + g @ multipliers for log, g in zip(logs, slack, strict=True)]
        z = [float(np.logaddexp.reduce(s)) for s in scores]
        return sum(z), [np.exp(s - a) for s, a in zip(scores, z, strict=True)]

    def value(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
        z, q = posterior(multipliers)
        return z, sum(p @ g for p, g in zip(q, slack, strict=True))

    bounds = [(0, None)] * len(case)
    best = scipy.optimize.minimize(
        value, np.zeros(len(case)), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 0, "gtol": 1e-12}
    )
    z, q = posterior(best.x)
    expected = {name: np.zeros(table.shape) for name, table in tables.items()}
    for p, trees in zip(q, listed, strict=True):
        for share, (_, counts) in zip(p, trees, strict=True):
            for name in expected:
                expected[name] += share * counts[name]
    return z / beta, expected, best.x


@pytest.mark.parametrize("name", CASES)
def test_em(name: str) -> None:
    """Step by step, with multipliers that go on from one step to the next."""
    tables = random_tables(V, False, seed=1)
    em = EM(maximum_likelihood, initial_weights=tensors(tables), constraints=[c for c, _, _ in CASES[name]])
    for _ in range(3):
        objective, counts, multipliers = nearest(SENTENCES, tables, CASES[name])
        assert em.step(WORDS, DMV(V)) == pytest.approx(objective, rel=1e-9)
        assert em.multipliers() == pytest.approx(multipliers, rel=1e-4, abs=1e-5)
        assert_close(em.weights(), {n: normalized(counts[n], tables[n]) for n in tables}, rtol=1e-5)
        tables = {n: w.numpy() for n, w in em.weights().items()}


def test_a_constraint_that_holds_anyway_changes_nothing() -> None:
    start = tensors(random_tables(V, False, seed=1))
    em, plain = (EM(maximum_likelihood, initial_weights=start, constraints=own) for own in ([SLACK[0]], []))
    assert em.step(WORDS, DMV(V)) == plain.step(WORDS, DMV(V))
    assert em.multipliers() == [0.0]
    assert plain.multipliers() == []
    for name, w in plain.weights().items():
        assert torch.equal(w, em.weights()[name])


def test_variational_bayes() -> None:
    tables = random_tables(V, False, seed=1)
    prior = {name: np.full(table.shape, 0.4) for name, table in tables.items()}
    vb = VariationalEM(dirichlet, initial_weights=tensors(tables), constraints=[c for c, _, _ in CASES["two"]])
    q = {name: prior[name] + c for name, c in nearest(SENTENCES, tables, CASES["two"])[1].items()}
    for _ in range(2):
        objective, counts, _ = nearest(SENTENCES, {n: sub_normalized(p) for n, p in q.items()}, CASES["two"])
        objective -= sum(divergence(q[name], prior[name]) for name in q)
        assert vb.step(WORDS, DMV(V), concentration=0.4) == pytest.approx(objective, rel=1e-7)
        q = {name: prior[name] + counts[name] for name in q}
    assert_close(vb.weights(), {name: p / p.sum(-1, keepdims=True) for name, p in q.items()}, rtol=1e-5)


def test_schedules_with_constraints() -> None:
    """A constraint is on the sentences that the step sees; q is the nearest to the annealed posterior."""
    tables = random_tables(V, False, seed=1)
    schedule = [Annealed(0.4, until=1), Curriculum([3], every=1)]
    em = EM(maximum_likelihood, initial_weights=tensors(tables), schedule=schedule, constraints=[SLACK[0], LEFT[0]])
    short = [sentence for sentence in SENTENCES if len(sentence) <= 3]
    objective, _, multipliers = nearest(short, tables, [SLACK, LEFT], beta=0.4)
    assert em.step(WORDS, DMV(V)) == pytest.approx(objective, rel=1e-9)
    assert em.multipliers() == pytest.approx(multipliers, rel=1e-4, abs=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [EM, VariationalEM])
def test_the_objective_never_falls(kind: Any, seed: int) -> None:
    tags, sentences = random_corpus(seed)
    first = torch.arange(tags) == 0
    constraints = [AtMost({"attach": TO_THE_LEFT}, 0.25), AtLeast({"attach": first.double()}, 0.1 / tags)]
    start = tensors(random_tables(tags, False, seed))
    loop = kind(dirichlet, initial_weights=start, constraints=constraints)
    loop.run(padded(sentences), DMV(tags), concentration=1.2, num_steps=25, tolerance=0, progress=False)
    assert (np.diff(loop.history) >= -1e-7 * np.abs(loop.history[1:])).all()


def test_shares_hold_in_the_counts() -> None:
    """Under maximum likelihood, weights of roots are shares of roots."""
    em = EM(maximum_likelihood, initial_weights="uniform", constraints=[AtLeast({"root": ROOTS}, 0.75)])
    for _ in range(6):
        em.step(WORDS, DMV(V))
        assert float(em.weights()["root"][1]) >= 0.75 - 1e-7


def test_what_is_forbidden_altogether() -> None:
    """The multiplier has no finite optimum, but q has."""
    em = EM(maximum_likelihood, initial_weights="uniform", constraints=[NONE[0]])
    for _ in range(4):
        em.step(WORDS, DMV(V))
    attach = em.weights()["attach"]
    no_left = EM(maximum_likelihood, initial_weights={**em.weights(), "stop": _no_left(em.weights()["stop"])})
    assert no_left.step(WORDS, DMV(V)) == pytest.approx(em.step(WORDS, DMV(V)), abs=1e-5)
    assert attach.shape == (2, 2, 2)


def _no_left(stop: Tensor) -> Tensor:
    stop = stop.clone()
    stop[:, 0] = torch.tensor([0.0, 1.0])
    return stop


def test_what_cannot_be_had() -> None:
    """The greatest share of roots of tag 1: of five sentences one has no word of this tag."""
    with pytest.raises(ValueError, match="AtLeast 0.9, cannot hold, for the greatest share .* is 0.8; ask"):
        constraint = AtLeast({"root": ROOTS}, 0.9)
        EM(maximum_likelihood, initial_weights="uniform", constraints=[constraint]).step(WORDS, DMV(V))
    words = torch.tensor([[1, 0], [1, 1], [0, -1]])
    with pytest.raises(ValueError, match="constraint 1, AtMost 0.3, cannot hold, for the least share .* is 0.333333"):
        constraints = [AtMost({"root": ROOTS}, 0.9), AtMost({"root": ROOTS}, 0.3)]
        EM(maximum_likelihood, initial_weights="uniform", constraints=constraints).step(words, DMV(V))
    with pytest.raises(ValueError, match="each constraint can hold, but not all together"):
        constraints = [AtMost({"root": ROOTS}, 0.4), AtLeast({"root": ROOTS}, 0.6)]
        EM(maximum_likelihood, initial_weights="uniform", constraints=constraints).step(words, DMV(V))


def test_the_greatest_ratio_of_two_sums() -> None:
    """Of left arcs to a tag 0 in all left arcs and roots, over every choice of trees."""
    tables = random_tables(V, False, seed=1)
    f = {"attach": torch.tensor([[1.0, 0.0], [0.0, 0.0]])[None]}
    of = {"attach": TO_THE_LEFT, "root": torch.ones(2)}
    lists = [[c for _, c in derivations(sentence, tables)] for sentence in SENTENCES[:4]]
    ratios = []
    for chosen in itertools.product(*lists):
        up = sum(c["attach"][:, 0, 0].sum() for c in chosen)
        ratios.append(up / sum(c["attach"][:, 0].sum() + c["root"].sum() for c in chosen))
    with pytest.raises(ValueError, match=f"greatest share that these sentences have is {max(ratios):.6g};"):
        em = EM(maximum_likelihood, initial_weights=tensors(tables), constraints=[AtLeast(f, 0.9, of)])
        em.step(WORDS[:4], DMV(V))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", [AtLeast, AtMost])
def test_the_greatest_ratio_takes_several_steps(kind: type[Constraint], seed: int) -> None:
    """Of events that count 0 to 3 times, whatever share the search begins with, and whatever the derivations weigh."""
    generator = np.random.default_rng(seed)
    f, of = (
        {"attach": torch.tensor(generator.integers(0, 4, size=(V, 2, V)).astype(float))},
        {
            "attach": torch.tensor(generator.integers(0, 4, size=(V, 2, V)).astype(float)),
            "root": torch.ones(V, dtype=torch.float64),
        },
    )
    tables = random_tables(V, False, seed)
    lists = [[c for _, c in derivations(sentence, tables)] for sentence in SENTENCES[:4]]
    ratios = []
    for chosen in itertools.product(*lists):
        up, every = (sum((c[n] * t.numpy()).sum() for c in chosen for n, t in own.items()) for own in (f, of))
        ratios.append(up / every)
    grammar = DMV(V).tilted({"root": torch.tensor([9.0, -9.0]), "stop": torch.tensor([5.0, -5.0])})
    site = SentenceSite("words", grammar, WORDS[:4], {block: block for block in grammar.blocks})
    best = max(ratios) if kind is AtLeast else min(ratios)
    for share in (0.0, best, 0.5 * best, 5.0):
        found = greatest_share([site], {n: t.log() for n, t in tensors(tables).items()}, kind(f, share, of))
        assert found == pytest.approx(best, rel=1e-12)


def tied(words: Tensor, grammar: DMV) -> None:
    """All tags attach alike, so that no weight says which tag is the head."""
    w = {name: pyro.sample(name, dirichlet_prior(grammar.blocks[name], 1.5)) for name in ("root", "stop")}
    shared = pyro.sample("attach", dist.Dirichlet(torch.full((V,), 1.5)).expand([2]).to_event(1))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, {**w, "attach": shared.expand(V, 2, V)}), obs=words)


def test_tied_weights() -> None:
    """A constraint tells events apart that share a weight."""
    tables = random_tables(V, False, seed=1)
    tables["attach"] = np.broadcast_to(tables["attach"][:1], tables["attach"].shape).copy()
    heads = torch.tensor([1.0, 0.0])[:, None, None]
    own = case(AtMost({"attach": heads}, 0.2), {"attach": heads.numpy()}, {"attach": 1})
    start = {name: torch.tensor(t[0] if name == "attach" else t) for name, t in tables.items()}
    em = EM(tied, initial_weights=start, constraints=[own[0]])
    _, counts, multipliers = nearest(SENTENCES, tables, [own])
    em.step(WORDS, DMV(V))
    assert em.multipliers() == pytest.approx(multipliers, rel=1e-4)
    counts["attach"] = np.broadcast_to(counts["attach"].sum(0), counts["attach"].shape)
    assert_close(em.weights(), {n: normalized(counts[n] + 0.5, tables[n]) for n in tables}, rtol=1e-5)


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("kind", [EM, VariationalEM])
def test_a_run_that_is_taken_up_again(tmp_path: Path, kind: Any) -> None:
    found, constraints = [], [ROOT[0], LEFT[0]]
    for parts in ([5], [1, 3, 5]):
        for num_steps in parts:
            path = tmp_path / f"{len(parts)}.safetensors"
            loop = kind(dirichlet, initial_weights="uniform", constraints=constraints, schedule=Annealed(0.5, until=2))
            loop.run(WORDS, DMV(V), concentration=1.5, num_steps=num_steps, progress=False, checkpoint=path)
        found.append(loop)
    assert found[0].history == found[1].history
    assert found[0].multipliers() == found[1].multipliers()
    with pytest.raises(ValueError, match="is the checkpoint of another run"):
        other = kind(dirichlet, constraints=[AtLeast({"root": ROOTS}, 0.61), LEFT[0]], schedule=Annealed(0.5, until=2))
        other.run(WORDS, DMV(V), concentration=1.5, progress=False, checkpoint=path)


@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_under_bounds(seed: int) -> None:
    """Of random log-sum-exps in four coordinates, beside scipy's."""
    generator = np.random.default_rng(seed)
    g = torch.tensor(generator.normal(size=(30, 4)) + 0.3 * generator.normal(size=4))

    def dual(at: Tensor) -> tuple[float, Tensor]:
        scores = g @ at
        return float(scores.logsumexp(0)), scores.softmax(0) @ g

    def numbers(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = dual(torch.tensor(at))
        return value, gradient.numpy()

    own = minimise(dual, torch.zeros(4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.float64), torch.ones(4))
    options = {"ftol": 0, "gtol": 1e-10}
    best = scipy.optimize.minimize(
        numbers, np.zeros(4), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 4, options=options
    )
    assert own is not None
    np.testing.assert_allclose(own.multipliers.numpy(), best.x, atol=1e-5)


def test_a_search_that_ends_too_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """After no step at all, the share of roots is that of the posterior, by enumeration."""
    tables = random_tables(V, False, seed=1)
    expected = likelihood_and_counts(SENTENCES, tables)[1]["root"]
    demand = AtLeast({"root": ROOTS}, 0.9 * expected[1] / expected.sum() + 0.1)
    em = EM(maximum_likelihood, initial_weights=tensors(tables), constraints=[SLACK[0], demand])
    missing = demand.share - expected[1] / expected.sum()
    monkeypatch.setattr(dual_of_constraints, "MOST_STEPS", 0)
    with pytest.warns(UserWarning, match=rf"constraint 1, AtLeast {demand.share:g}, is met to {missing:.1g} of its"):
        em.step(WORDS, DMV(V))


def test_rounding_errors_are_not_told() -> None:
    """In float32 the search ends where values do not tell points apart any more, near enough; warnings are errors."""
    words = torch.tensor(np.random.default_rng(0).integers(0, V, size=(150, 8)))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        for constraints in ([LEFT[0]], [ROOT[0], LEFT[0]]):
            em = EM(dirichlet, initial_weights="uniform", constraints=constraints)
            for _ in range(3):
                em.step(words, DMV(V), concentration=1.5)
            assert em.weights()["root"].dtype == torch.float32
    finally:
        torch.set_default_dtype(before)


def test_a_line_without_an_end_says_how_far_it_is() -> None:
    """A gradient that the values do not bear out: no step is short enough."""
    start, zeros = torch.tensor([1.0, 0.0], dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)

    def dual(at: Tensor) -> tuple[float, Tensor]:
        return float((at - start).abs().sum()), torch.tensor([0.5, 1.0], dtype=torch.float64)

    found = minimise(dual, start, zeros, torch.tensor([2.0, 1.0], dtype=torch.float64))
    assert found is not None
    assert found.multipliers.tolist() == [1.0, 0.0]
    assert found.away.tolist() == [0.25, 0.0]  # the second may not fall below 0


def test_refusals() -> None:
    for share in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="needs a share of at least 0"):
            AtLeast({"root": ROOTS}, share)
    with pytest.raises(ValueError, match="AtMost needs features"):
        AtMost(Bias(), 0.5)
    with pytest.raises(TypeError, match="constraints must be a list of AtLeast and AtMost"):
        EM(maximum_likelihood, constraints=["root"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="constraints must be a list of AtLeast and AtMost"):
        EM(maximum_likelihood, constraints=ROOT[0])  # type: ignore[arg-type]
    for number in (float("nan"), -float("inf")):
        with pytest.raises(ValueError, match=r"AtLeast\(features=\) needs finite numbers, but block 'root'"):
            AtLeast({"root": torch.tensor([number, 1.0])}, 0.5)
        with pytest.raises(ValueError, match=r"AtMost\(of=\) needs finite numbers, but block 'root'"):
            AtMost({"root": ROOTS}, 0.5, of=Bias({"root": torch.tensor([number, 1.0])}))
    with pytest.raises(TypeError, match=r"AtLeast\(features=\) needs tensors by block"):
        AtLeast({"root": [0.0, 1.0]}, 0.5)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="AtLeast needs features, tensors by block or a Bias"):
        AtLeast(ROOTS, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="HardSteps takes no constraints"):
        VariationalEM(dirichlet, constraints=[ROOT[0]], schedule=[HardSteps()])
    for tables, text in (({"roots": ROOTS}, "about block 'roots'"), ({"root": torch.ones(3)}, "must broadcast")):
        with pytest.raises(ValueError, match=text):
            EM(maximum_likelihood, constraints=[AtLeast(tables, 0.5)]).step(WORDS, DMV(V))
    with pytest.raises(ModelError, match="no schedules and no constraints for logistic normals"):
        VariationalEM(corpus_logistic_normal, constraints=[ROOT[0]]).step(WORDS, DMV(V))
