# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Samplers over trees against the collapsed posterior of tiny corpora, over all tuples of trees."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.small_corpora import CORPORA, assert_close, padded, tensors
from infer.tree_chains import TinyCorpus, p_value
from infer.tree_sums import collapsed, random_tables, shapes
from torch.distributions import constraints
from toy import Chain

from pyrogram import models
from pyrogram.distributions import Sentence
from pyrogram.grammar import Grammar
from pyrogram.grammars import CFG, DMV, HMM
from pyrogram.infer import ModelError, TreeGibbs, TreeHastings
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

# Trees that repeat an event, so that acceptance is below one.
REPEATS = [[0, 0, 0], [0, 0], [0, 1]]


def random_alpha(grammar: Grammar, seed: int = 0, least: float = 0.1):
    generator = np.random.default_rng(seed)
    return {n: generator.uniform(least, 1.5, tuple(b.shape)) for n, b in grammar.blocks.items()}


def tiny(name: str) -> TinyCorpus:
    grammar, sentences = {
        "dmv": (DMV(2), REPEATS),
        "extended dmv": (DMV(2, valence_attach=True), REPEATS),
        "chain": (Chain(2, 2), [[0, 0, 0], [0, 1], [1]]),
        "hmm": (HMM(2, 2), [[0, 0, 0], [0, 1], [1]]),
        "cfg": (CFG.from_string("S -> S S | A | 'a' S\nA -> 'a' | 'b'"), [[0, 0, 1], [0, 1], [1]]),
    }[name]
    return TinyCorpus(grammar, padded(sentences), random_alpha(grammar))


CASES = ["dmv", "extended dmv", "chain", "hmm", "cfg"]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", ["dmv", "chain", "cfg"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_chain_is_right(name, temperature):
    """Detailed balance of a single sentence's step, invariance of batches, irreducibility: of the exact matrices."""
    corpus = tiny(name)
    target = corpus.tempered(temperature)
    for i in range(3):
        flow = target[:, None] * corpus.batch([i], temperature)
        np.testing.assert_allclose(flow, flow.T, atol=1e-14)
    for batch_size in (1, 2, 3):
        matrix = corpus.sweep([0, 1, 2], batch_size, temperature)
        np.testing.assert_allclose(matrix.sum(1), 1)
        np.testing.assert_allclose(target @ matrix, target, atol=1e-14)
        assert (np.linalg.matrix_power(matrix, 3) > 0).all()
    proposed = [corpus.proposal(0, corpus.total(s, [0]), temperature)[s[0]] for s in corpus.states]
    assert target @ (corpus.batch([0], temperature).diagonal() - proposed) > 0.01  # turned down


@pytest.mark.one_in(40)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("batch_size", "temperature"),
    [(1, 1.0), *[pytest.param(size, 1.0, marks=pytest.mark.slow) for size in (2, 8)], (2, 2.0)],
)
def test_one_sweep_has_the_exact_transition_probabilities(name, plain, batch_size, temperature):
    corpus = tiny(name)
    sweeps = CollapsedUpdates(corpus.grammar, corpus.words) if plain else corpus.grammar.collapsed_updates(corpus.words)
    if not plain and type(sweeps) is CollapsedUpdates:
        pytest.skip("no compiled sweeps")
    matrix = corpus.sweep([0, 1, 2], batch_size, temperature)
    alpha, generator = tensors(corpus.alpha), torch.Generator().manual_seed(1)
    repeats = 100 if plain else 600
    for start in (0, len(corpus.states) // 2):
        observed = np.zeros(len(corpus.states))
        counts = sweeps.counts(corpus.as_trees(corpus.states[start]))
        at = corpus.as_trees(corpus.states[start])
        for _ in range(repeats):
            trees = at.clone()
            field = CorpusCounts({n: f.clone() for n, f in counts.items()}, alpha)
            sweeps.hastings(field, trees, torch.arange(3), batch_size, generator=generator, temperature=temperature)
            observed[corpus.number[corpus.as_state(trees)]] += 1
        assert_close(field.counts, {n: f.numpy() for n, f in sweeps.counts(trees).items()})
        assert p_value(observed, matrix[start]) > 1e-4


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_one_sweep_leaves_the_posterior_invariant(name, sampler):
    corpus = tiny(name)
    kernel = sampler(models.dirichlet.dirichlet, seed=1, initial_weights="random", batch_size=2)
    kernel.setup(0, corpus.words, corpus.grammar, concentration=tensors(corpus.alpha))
    problem, observed = kernel._problem, np.zeros(len(corpus.states))
    generator, draws = np.random.default_rng(2), torch.Generator().manual_seed(1)
    for s in generator.choice(len(corpus.states), size=300 if name == "dmv" else 150, p=corpus.posterior):
        before = replace(kernel._state, derivations={"words": corpus.as_trees(corpus.states[s])})
        derivations, counts, _ = kernel._sweep(problem, kernel._recounted(problem, before), draws)
        assert_close(counts, {n: f.numpy() for n, f in problem.counted(derivations).items()})
        observed[corpus.number[corpus.as_state(derivations["words"])]] += 1
    assert p_value(observed, corpus.posterior) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_averages_are_those_of_the_posterior(sampler):
    """Weights, arcs, log joint and acceptance of a long chain."""
    corpus = tiny("dmv")
    chain = sampler(models.dirichlet.dirichlet, seed=3, initial_weights="random", order="shuffled")
    kwargs = {"concentration": tensors(corpus.alpha)}
    chain.run(corpus.words, corpus.grammar, num_steps=2500, burn_in=100, progress=False, **kwargs)
    for name, mean in corpus.posterior_mean().items():
        np.testing.assert_allclose(chain.weights()[name].numpy(), mean, atol=0.05)
    log_evidence, means = collapsed(REPEATS, corpus.alpha)
    assert log_evidence == pytest.approx(corpus.evidence)
    assert_close(corpus.posterior_mean(), means)
    arcs = np.zeros((3, 4, 4))
    for share, s in zip(corpus.posterior, corpus.states, strict=True):
        for i, k in enumerate(s):
            for x, h in enumerate(corpus.trees[i][k]):
                arcs[i, h, x + 1] += share
    np.testing.assert_allclose(chain.marginals().numpy(), arcs, atol=0.06)
    joints = np.array([corpus.log_joint(corpus.total(s)) for s in corpus.states])
    assert np.mean(chain.history[100:]) == pytest.approx(float(corpus.posterior @ joints), abs=0.2)
    trees, joint = chain.best()
    assert joint == pytest.approx(joints.max())
    assert corpus.as_state(trees) == corpus.states[int(joints.argmax())]


@pytest.mark.parametrize("name", ["hmm", "cfg"])
def test_parts_average_to_marginals(name):
    """Of states of words, and of spans: the mean under p(derivation | sentence) is what ``marginals()`` says."""
    corpus = tiny(name)
    uniform = {n: b.uniform(torch.ones(())) for n, b in corpus.grammar.blocks.items()}
    given = corpus.grammar.derivation(uniform, corpus.words)
    trees = [corpus.as_trees(s) for s in corpus.states]
    shares = torch.stack([given.log_prob(t).sum().exp() for t in trees])
    assert float(shares.sum()) == pytest.approx(1)
    sweeps, mean = CollapsedUpdates(corpus.grammar, corpus.words), 0
    for share, t in zip(shares, trees, strict=True):
        mean = mean + share * sweeps.parts(t)
    torch.testing.assert_close(mean, given.marginals())


def test_acceptance_is_reported_by_length():
    """A sentence of one word has one tree; of all others some are turned down."""
    V, corpus = CORPORA["one tag"]
    chain = TreeHastings(models.dirichlet.dirichlet, seed=0).run(padded(corpus), DMV(V), num_steps=500, progress=False)
    rates = chain.acceptance_by_length()
    assert rates.keys() == {1, 2, 3} and rates[1] == 1 and 0.3 < rates[3] < 0.99
    assert chain.acceptance == pytest.approx(np.mean(list(rates.values())))


def test_long_sentences_do_not_underflow():
    """Weights far below the range of real space: the same as in plain torch, which works with logarithms."""
    torch.manual_seed(0)
    grammar = DMV(2)
    words = torch.randint(0, 2, (3, 90))
    alpha = {n: torch.full(b.shape, 0.5) for n, b in grammar.blocks.items()}
    alpha["attach"] = torch.tensor([1e-12, 1.0]).expand(2, 2, 2).clone()
    sweeps, trees = grammar.collapsed_updates(words), None
    uniform = {n: b.uniform(torch.ones(())).log() for n, b in grammar.blocks.items()}
    trees = sweeps.draw(uniform, torch.Generator().manual_seed(0))
    field = CorpusCounts(sweeps.counts(trees), alpha)
    for _ in range(3):
        sweeps.hastings(field, trees, torch.arange(3), 8, generator=torch.Generator().manual_seed(1))
    assert_close(field.counts, {n: f.numpy() for n, f in CollapsedUpdates(grammar, words).counts(trees).items()})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{}, {"order": "shuffled"}, {"annealing": (5.0, 10)}])
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_killed_and_resumed_chain_is_the_same(tmp_path, sampler, options):
    if sampler is TreeGibbs and "annealing" in options:
        pytest.skip("Gibbs does not anneal")
    V, corpus = CORPORA["two tags"]
    chains = []
    for stops in ([25], [3, 18, 25]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for stop in stops:
            chain = sampler(models.dirichlet.dirichlet, seed=5, **options)

            def killed(sampler, stop=stop):
                if len(sampler.history) == stop and stop == 18:
                    raise KeyboardInterrupt

            kwargs = {"num_steps": 25, "burn_in": 5, "progress": False, "checkpoint": path, "callback": killed}
            try:
                chain.run(padded(corpus), DMV(V), **{**kwargs, "num_steps": stop})
            except KeyboardInterrupt:
                pass
        chains.append(chain)
    assert chains[0].history == chains[1].history
    for name, tensor in chains[0].state_dict().items():
        assert name == "held_out_history" or torch.equal(tensor, chains[1].state_dict()[name]), name


def test_seeds_make_chains():
    V, corpus = CORPORA["two tags"]
    histories = [
        TreeHastings(models.dirichlet.dirichlet, seed=seed)
        .run(padded(corpus), DMV(V), num_steps=20, progress=False)
        .history
        for seed in (1, 1, 2)
    ]
    assert histories[0] == histories[1] != histories[2]


def test_burn_in_counts_from_the_start_of_the_chain():
    V, corpus = CORPORA["two tags"]
    arguments = padded(corpus), DMV(V)

    def run(chain, *steps):
        for num_steps, burn_in in steps:
            chain.run(*arguments, num_steps=num_steps, burn_in=burn_in, progress=False)
        return chain

    whole = run(TreeHastings(models.dirichlet.dirichlet, seed=0), (30, 25))
    parts = run(
        TreeHastings(models.dirichlet.dirichlet, seed=0), (20, 0), (10, 25)
    )  # the averages of the first run begin anew
    assert parts.history == whole.history and parts.acceptance == whole.acceptance
    torch.testing.assert_close(parts.marginals(), whole.marginals(), rtol=0, atol=0)
    torch.testing.assert_close(parts.weights(), whole.weights(), rtol=0, atol=0)
    with pytest.raises(ValueError, match="burn_in of at most 25, or of at least 30"):
        run(parts, (5, 27))
    assert len(parts.history) == 30
    run(parts, (5, 3))  # a smaller one brings nothing back
    assert len(parts.diagnostics()["log joint"]) == 10


def test_annealing_lowers_the_temperature():
    schedule = TreeHastings(models.dirichlet.dirichlet, annealing=(16.0, 4))
    assert [schedule.temperature(k) for k in (0, 1, 2, 4, 9)] == pytest.approx([16, 8, 4, 1, 1])
    assert TreeHastings(models.dirichlet.dirichlet, annealing=lambda k: 1 + k).temperature(2) == 3
    for wrong in ((0.0, 4), 3.0, (2.0,)):
        with pytest.raises(ValueError, match="annealing must be"):
            TreeHastings(models.dirichlet.dirichlet, annealing=wrong)


def test_parameters_stay_as_they_are():
    V, corpus = CORPORA["two tags"]
    start = tensors(random_tables(V, False, 1))
    chain = TreeHastings(models.maximum_likelihood, seed=1)
    chain.run(padded(corpus), DMV(V), initial_weights=start, num_steps=5, progress=False)
    assert_close(chain.weights(), {n: w.numpy() for n, w in start.items()})
    assert chain.acceptance == 1  # given the weights, proposals come from the posterior itself


@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_a_named_start_leaves_parameters_alone(sampler):
    """An initialiser says where derivations start; weights that are parameters are part of the model."""
    words = padded(REPEATS)
    given = DMV(2).initial_weights(words, "random", seed=3)["stop"]

    def model(words):
        stop = pyro.param("stop", given.clone(), constraint=constraints.simplex)
        blocks = {n: b for n, b in DMV(2).blocks.items() if n != "stop"}
        weights = {
            n: pyro.sample(n, dist.Dirichlet(torch.ones(b.shape)).to_event(b.batch_dim)) for n, b in blocks.items()
        }
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(DMV(2), {**weights, "stop": stop}), obs=words)

    chain = sampler(model, initial_weights="random", seed=0).run(words, num_steps=2, progress=False)
    torch.testing.assert_close(chain.weights()["stop"], given)
    torch.testing.assert_close(pyro.param("stop").detach(), given)


def test_impossible_sentence_is_named():
    V, corpus = CORPORA["two tags"]
    start = tensors(random_tables(V, False, 1))
    start["root"], start["attach"] = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]).expand(2, 2, 2)
    with pytest.raises(ValueError, match="sentence 1 of site 'words' has probability zero"):
        TreeHastings(models.dirichlet.dirichlet, initial_weights=start).step(padded(corpus), DMV(V))


def test_logistic_normals_of_each_sentence():
    words, model = padded(CORPORA["two tags"][1]), models.logistic_normal.logistic_normal
    chain = TreeGibbs(model, seed=0).run(words, DMV(2), num_steps=3, progress=False)
    assert chain.weights()["root"].shape == (len(words), 2)
    with pytest.raises(ModelError, match="TreeHastings needs weights that all sentences of site 'words' share"):
        TreeHastings(model).step(words, DMV(2))


def test_errors():
    chain = TreeHastings(models.dirichlet.dirichlet)
    with pytest.raises(RuntimeError, match="call step or run first"):
        chain.trees()
    with pytest.raises(ValueError, match="burn_in"):
        chain.run(padded([[0]]), DMV(1), burn_in=-1)
    with pytest.raises(ValueError, match="batch_size"):
        TreeGibbs(models.dirichlet.dirichlet, batch_size=0)
    with pytest.raises(ValueError, match="kernel 'slice' or 'hmc'"):
        TreeGibbs(models.dirichlet.dirichlet, kernel="nuts")
    chain.run(padded([[0]]), DMV(1), num_steps=2, burn_in=2, progress=False)
    assert chain.weights()["root"].tolist() == [1.0]
    with pytest.raises(RuntimeError, match="more sweeps than burn_in"):
        chain.marginals()


class Tempered(TreeHastings):
    """A sampler with a number of its own."""

    def __init__(self, model, *, power, **options):
        super().__init__(model, **options)
        self.power = power


def test_a_sampler_of_ones_own_travels():
    """To another process it goes without its chain, and with what it was made of."""
    chain = Tempered(models.dirichlet.dirichlet, power=0.5, seed=3, annealing=(2.0, 3))
    chain.run(padded(REPEATS), DMV(2), num_steps=3, progress=False)
    other = pickle.loads(pickle.dumps(chain))
    assert other.power == 0.5 and other.annealing == (2.0, 3) and other.history == []
    again = other.run(padded(REPEATS), DMV(2), num_steps=3, progress=False)
    assert again.history == chain.history


def test_a_statistic_that_fails_leaves_the_chain_as_it_was():
    calls = []

    def size(words, trees):
        calls.append(len(words))
        if len(calls) == 4:
            raise ArithmeticError("no")
        return torch.ones(len(words))

    chain = TreeGibbs(models.dirichlet.dirichlet, seed=0, keep_statistics={"size": size})
    with pytest.raises(ArithmeticError):
        chain.run(padded(REPEATS), DMV(2), num_steps=9, progress=False)
    assert len(chain.history) == 3 == len(chain.trace()["words.size"])
    chain.run(padded(REPEATS), DMV(2), num_steps=6, progress=False)
    whole = TreeGibbs(models.dirichlet.dirichlet, seed=0).run(padded(REPEATS), DMV(2), num_steps=9, progress=False)
    assert chain.history == whole.history and len(chain.trace()["words.size"]) == 9
    torch.testing.assert_close(chain.marginals(), whole.marginals(), rtol=0, atol=0)


def test_states_are_all_tuples():
    corpus = tiny("dmv")
    assert len(corpus.states) == 7 * 2 * 2 == len(list(itertools.product(range(7), range(2), range(2))))
    assert corpus.posterior.sum() == pytest.approx(1)
    assert shapes(2, False)["root"] == (2,)
