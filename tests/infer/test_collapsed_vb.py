# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes against Figures 2 and 3 of Wang and Blunsom (2013), tree by tree."""

import copy

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.collapsed_sums import FieldOfTrees, added, log_joint, log_weight, normalised
from infer.small_corpora import CORPORA, assert_close, padded, tensors
from infer.tree_sums import collapsed, likelihood_and_counts, random_tables, shapes
from pyro import poutine
from torch.distributions import constraints

from pyrogram import DMV, models
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, ModelError, VariationalEM

TINY = {name: corpus for name, corpus in CORPORA.items() if name != "three tags"}


def random_prior(num_tags, valence_attach=False, seed=0):
    generator = np.random.default_rng(seed)
    return {n: generator.uniform(0.1, 2, shape) for n, shape in shapes(num_tags, valence_attach).items()}


def loop_of(num_tags, corpus, prior, start, valence_attach=False, **options):
    grammar = DMV(num_tags, valence_attach=valence_attach)
    loop = CollapsedVB(models.dirichlet.dirichlet, initial_weights=tensors(start), **options)
    return loop, (padded(corpus), grammar), {"concentration": tensors(prior)}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 8, 20])
def test_sweeps_are_those_of_figure_3(name, valence_attach, batch_size):
    """Weights and objective of five sweeps; the order is by length, with one sentence at a time that of the corpus."""
    V, corpus = TINY[name]
    prior, start = random_prior(V, valence_attach), random_tables(V, valence_attach, 1)
    loop, args, kwargs = loop_of(V, corpus, prior, start, valence_attach, batch_size=batch_size)
    truth = FieldOfTrees(corpus, prior, start)
    order = sorted(range(len(corpus)), key=lambda i: len(corpus[i])) if batch_size > 1 else list(range(len(corpus)))
    for _ in range(5):
        assert loop.step(*args, **kwargs) == pytest.approx(truth.objective(), rel=1e-11)
        truth.figure3(order, batch_size)
        assert_close(loop.weights(), truth.weights())


def test_fixed_points_do_not_depend_on_batches_or_order():
    V, corpus = CORPORA["two tags"]
    prior, start = random_prior(V), random_tables(V, False, 1)
    found = []
    for options in ({"batch_size": 1}, {"batch_size": 8}, {"batch_size": 2, "order": "shuffled", "seed": 3}):
        loop, args, kwargs = loop_of(V, corpus, prior, start, **options)
        found.append(loop.run(*args, num_steps=400, tolerance=1e-15, progress=False, **kwargs).weights())
    for other in found[1:]:
        assert_close(other, {n: w.numpy() for n, w in found[0].items()}, rtol=1e-5)


# Error of the posterior means of the weights, and what is to be explained: the distance from the start to the truth.
@pytest.mark.slow
def test_error_of_the_approximation():
    """Against the exact mean field of Figure 2 by enumeration, and both against the exact posterior."""
    lines = []
    for alpha in (0.25, 1.0, 4.0):
        V, corpus = 2, [[0, 1], [1, 0, 1], [0, 0, 1], [0, 1]]
        prior = {n: np.full(s, alpha) for n, s in shapes(V, False).items()}
        start = random_tables(V, False, 1, concentration=20.0)
        exact_field = FieldOfTrees(corpus, prior, start)
        for _ in range(30):
            exact_field.figure2(range(len(corpus)))
        mean_field, truth = exact_field.weights(), collapsed(corpus, prior)[1]
        errors = {}
        loop, args, kwargs = loop_of(V, corpus, prior, start, batch_size=1)
        found = loop.run(*args, num_steps=300, tolerance=1e-14, progress=False, **kwargs).weights()
        errors["Figure 3"] = max(float(np.abs(found[n].numpy() - mean_field[n]).max()) for n in truth)
        errors["Figure 3, truth"] = max(float(np.abs(found[n].numpy() - truth[n]).max()) for n in truth)
        errors["mean field, truth"] = max(float(np.abs(mean_field[n] - truth[n]).max()) for n in truth)
        vb = VariationalEM(models.dirichlet.dirichlet, initial_weights=tensors(start))
        found = vb.run(*args, num_steps=500, tolerance=1e-12, progress=False, **kwargs).weights()
        errors["VB, truth"] = max(float(np.abs(found[n].numpy() - truth[n]).max()) for n in truth)
        lines.append(f"α = {alpha}: " + ", ".join(f"{k} {v:.4f}" for k, v in errors.items()))
        assert errors["Figure 3"] < 0.1
    print("\n".join(lines))  # pytest -s shows them; docs/reproductions.md has them


def test_great_concentrations_leave_the_prior():
    """α -> infinity: the weights are the prior's mean, whatever the others do."""
    V, corpus = CORPORA["two tags"]
    prior = {n: 1e9 * p for n, p in random_prior(V).items()}
    loop, args, kwargs = loop_of(V, corpus, prior, random_tables(V, False, 1))
    loop.run(*args, num_steps=2, tolerance=0, progress=False, **kwargs)
    mean = {n: p / p.sum(-1, keepdims=True) for n, p in prior.items()}
    assert_close(loop._state.counts, likelihood_and_counts(corpus, mean)[1], rtol=1e-6)


def test_sentences_of_one_word_have_one_tree():
    V, corpus = CORPORA["one word"]
    prior = random_prior(V)
    loop, args, kwargs = loop_of(V, corpus, prior, random_tables(V, False, 1))
    loop.run(*args, num_steps=3, tolerance=0, progress=False, **kwargs)
    log_evidence, means = collapsed(corpus, prior)
    assert loop.history[-1] == pytest.approx(log_evidence)
    assert_close(loop.weights(), means)


def test_renaming_tags_renames_the_result():
    V, corpus = CORPORA["two tags"]
    prior = {n: np.full(s, 0.5) for n, s in shapes(V, False).items()}
    results = []
    for flip in (False, True):
        sentences = [[1 - w for w in s] if flip else s for s in corpus]
        start = random_tables(V, False, 1)
        if flip:
            start = {
                "root": start["root"][::-1].copy(),
                "attach": start["attach"][::-1, :, ::-1].copy(),
                "stop": start["stop"][::-1].copy(),
            }
        loop, args, kwargs = loop_of(V, sentences, prior, start)
        results.append(loop.run(*args, num_steps=5, tolerance=0, progress=False, **kwargs))
    assert results[0].history == pytest.approx(results[1].history)
    assert_close(results[1].weights(), {"root": results[0].weights()["root"].flip(0).numpy()})


@pytest.mark.parametrize("batch_size", [1, 8])
def test_parameters_alone_are_em(batch_size):
    """Weights that are pyro.params see no counts: a sweep is an iteration of EM."""
    V, corpus = CORPORA["two tags"]
    start = tensors(random_tables(V, False, 1))
    args = padded(corpus), DMV(V)
    em, loop = (make(models.maximum_likelihood, initial_weights=start) for make in (EM, CollapsedVB))
    loop.batch_size = batch_size
    for step in range(4):
        # Later on, Q and the weights of the objective are half a step apart.
        objective, likelihood = loop.step(*args), em.step(*args)
        assert objective == pytest.approx(likelihood) if step == 0 else objective < likelihood
        assert_close(loop.weights(), {n: w.numpy() for n, w in em.weights().items()})


def mixed(words, grammar, prior):
    """Attachments are estimated, all else has a prior."""
    weights = {}
    for name, block in grammar.blocks.items():
        if name == "attach":
            weights[name] = pyro.param(name, block.uniform(torch.ones(())), constraint=constraints.simplex)
        else:
            weights[name] = pyro.sample(name, dist.Dirichlet(prior[name]).to_event(block.batch_dim))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


def test_some_weights_are_parameters():
    V, corpus = CORPORA["two tags"]
    prior, start = random_prior(V), random_tables(V, False, 1)
    loop = CollapsedVB(mixed, initial_weights=tensors(start), batch_size=1)
    truth = FieldOfTrees(corpus, prior, start)
    attach = start["attach"]
    for _ in range(3):
        loop.step(padded(corpus), DMV(V), tensors(prior))
        # A concentration so great that counts do not matter stands for the parameter.
        truth.prior = {**prior, "attach": 1e12 * attach}
        truth.figure3(range(len(corpus)))
        attach = added(truth.means())["attach"]
        attach = attach / attach.sum(-1, keepdims=True)
        found = loop.weights()
        assert_close(found, {"attach": attach}, rtol=1e-8)
        assert_close({"stop": found["stop"]}, {"stop": truth.weights()["stop"]}, rtol=1e-8)
    assert_close({"attach": pyro.param("attach")}, {"attach": loop.weights()["attach"].numpy()})


def test_impossible_sentence_is_named():
    V, corpus = CORPORA["two tags"]
    start = tensors(random_tables(V, False, 1))
    start["root"], start["attach"] = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]).expand(2, 2, 2)
    with pytest.raises(ValueError, match="sentence 1 of site 'words' has probability zero"):
        CollapsedVB(models.dirichlet.dirichlet, initial_weights=start).step(padded(corpus), DMV(V))


def two_sites(first, second, grammar, prior):
    weights = {
        name: pyro.sample(name, dist.Dirichlet(prior[name]).to_event(block.batch_dim))
        for name, block in grammar.blocks.items()
    }
    for name, words in (("first", first), ("second", second)):
        with pyro.plate(f"{name} plate", len(words)):
            pyro.sample(name, Sentence(grammar, weights), obs=words)


def test_sites_that_share_weights_are_one_corpus():
    V, corpus = CORPORA["two tags"]
    prior, start = random_prior(V), random_tables(V, False, 1)
    one, args, kwargs = loop_of(V, corpus, prior, start, batch_size=1)
    two = CollapsedVB(two_sites, initial_weights=tensors(start), batch_size=1)
    for _ in range(3):
        objective = one.step(*args, **kwargs)
        assert two.step(padded(corpus[:2]), padded(corpus[2:]), args[1], tensors(prior)) == pytest.approx(objective)
    assert_close(two.weights("second"), {n: w.numpy() for n, w in one.weights().items()})


def test_counts_never_fall_below_zero():
    V, corpus = CORPORA["two tags"]
    prior = {n: np.full(s, 1e-3) for n, s in shapes(V, False).items()}
    loop, args, kwargs = loop_of(V, corpus * 5, prior, random_tables(V, False, 1), order="shuffled", seed=1)
    loop.run(*args, num_steps=100, tolerance=0, progress=False, **kwargs)
    assert all(bool((f >= 0).all()) for f in loop._state.counts.values())
    own = {n: f.clone() for n, f in loop._state.counts.items()}
    assert_close(loop._problem.summed(loop._state.sentence_counts), {n: f.numpy() for n, f in own.items()}, rtol=1e-9)


def test_learnt_concentrations_raise_the_objective():
    V, corpus = CORPORA["two tags"]
    loop = CollapsedVB(models.dirichlet.dirichlet, initial_weights=tensors(random_tables(V, False, 1)))
    fixed = CollapsedVB(models.dirichlet.dirichlet, initial_weights=tensors(random_tables(V, False, 1)))
    args = padded(corpus), DMV(V)
    loop.run(*args, concentration=1.0, learn=True, num_steps=30, progress=False, tolerance=0)
    fixed.run(*args, concentration=1.0, num_steps=30, progress=False, tolerance=0)
    assert loop.history[-1] > fixed.history[-1] + 0.5
    learnt = [float(pyro.param(f"concentration.{n}").detach()) for n in args[1].blocks]
    assert all(abs(a - 1.0) > 1e-3 for a in learnt)
    # At a maximum: the derivative of the collapsed joint in each concentration is nought.
    alphas = {n: torch.tensor(a, requires_grad=True) for n, a in zip(args[1].blocks, learnt, strict=True)}
    for name, alpha in alphas.items():
        if float(alpha.detach()) < 100:  # else its maximum lies at infinity
            f = loop._state.counts[name]
            pseudo = f + alpha
            value = (torch.lgamma(pseudo).sum(-1) - torch.lgamma(pseudo.sum(-1))).sum()
            prior = alpha * torch.ones(f.shape)
            value = value - (torch.lgamma(prior).sum(-1) - torch.lgamma(prior.sum(-1))).sum()
            assert float(torch.autograd.grad(value, alpha)[0]) == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize("options", [{}, {"order": "shuffled", "seed": 4, "batch_size": 2}])
def test_resumed_run_is_the_same_to_the_last_bit(tmp_path, options):
    V, corpus = CORPORA["two tags"]
    runs = []
    for stops in ([5], [1, 4, 5]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for stop in stops:
            loop = CollapsedVB(
                models.dirichlet.dirichlet, initial_weights=tensors(random_tables(V, False, 1)), **options
            )
            loop.run(padded(corpus), DMV(V), num_steps=stop, tolerance=0, progress=False, checkpoint=path)
        runs.append(loop)
    assert runs[0].history == runs[1].history
    for name, tensor in runs[0].state_dict().items():
        assert name == "held_out_history" or torch.equal(tensor, runs[1].state_dict()[name]), name


def test_interrupted_sweep_leaves_no_trace(monkeypatch):
    V, corpus = CORPORA["two tags"]
    loop, args, kwargs = loop_of(V, corpus, random_prior(V), random_tables(V, False, 1))
    loop.run(*args, num_steps=2, tolerance=0, progress=False, **kwargs)
    before = loop.state_dict()
    updates = loop._problem.updates["words"]
    whole = type(updates).collapsed_vb

    def interrupted(*args, **kwargs):
        whole(updates, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(updates, "collapsed_vb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.step(*args, **kwargs)
    for name, tensor in loop.state_dict().items():
        assert name == "held_out_history" or torch.equal(tensor, before[name]), name


def test_interrupted_evaluation_leaves_no_trace(monkeypatch):
    """By then the sweep is complete, and its memory must not be mistaken for free."""
    V, corpus = CORPORA["two tags"]
    prior, start = random_prior(V), random_tables(V, False, 1)
    loop, args, kwargs = loop_of(V, corpus, prior, start)
    other, _, _ = loop_of(V, corpus, prior, start)
    for chain in (loop, other):
        chain.run(*args, **kwargs, num_steps=3, tolerance=0, progress=False)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("pyrogram.infer.loops.base.held_out_likelihood", stop)
        loop.run(*args, **kwargs, num_steps=1, held_out=args[0], progress=False)
    for chain in (loop, other):
        chain.run(*args, **kwargs, num_steps=3, tolerance=0, progress=False)
    assert loop.history == other.history


def test_the_best_state_is_kept_whole(monkeypatch):
    """Later sweeps have memory of earlier ones, but not of this one."""
    V, corpus = CORPORA["two tags"]
    prior, start = random_prior(V), random_tables(V, False, 1)
    loop, args, kwargs = loop_of(V, corpus, prior, start)
    other, _, _ = loop_of(V, corpus, prior, start)
    likelihoods = iter([-3.0, -1.0, -2.0, -2.0, -2.0])
    with monkeypatch.context() as patched:
        patched.setattr("pyrogram.infer.loops.base.held_out_likelihood", lambda *_: next(likelihoods))
        loop.run(*args, **kwargs, num_steps=5, held_out=args[0], patience=3, tolerance=0, progress=False)
    other.run(*args, **kwargs, num_steps=2, tolerance=0, progress=False)
    assert len(loop.history) == 5
    assert loop.step(*args, **kwargs) == other.step(*args, **kwargs)
    assert_close(loop.weights(), {n: w.numpy() for n, w in other.weights().items()}, rtol=1e-14)


def test_a_copy_goes_its_own_way():
    V, corpus = CORPORA["two tags"]
    loop, args, kwargs = loop_of(V, corpus, random_prior(V), random_tables(V, False, 1))
    loop.run(*args, **kwargs, num_steps=3, tolerance=0, progress=False)
    other = copy.copy(loop)
    objectives = [[chain.step(*args, **kwargs) for _ in range(4)] for chain in (loop, other)]
    assert objectives[0] == objectives[1]


def test_another_corpus_starts_from_what_was_learnt():
    V, corpus = CORPORA["two tags"]
    loop, args, kwargs = loop_of(V, corpus, random_prior(V), random_tables(V, False, 1))
    loop.run(*args, num_steps=2, tolerance=0, progress=False, **kwargs)
    learnt = loop.weights()
    loop.step(padded([[0, 1], [1]]), args[1], **kwargs)
    assert len(loop.history) == 1
    assert loop.weights()["root"].shape == learnt["root"].shape


def test_memory_is_that_of_the_counts_that_are_not_zero():
    grammar = DMV(200)
    words = torch.randint(200, (50, 6))
    loop = CollapsedVB(models.dirichlet.dirichlet, initial_weights="uniform")
    loop.step(words, grammar)
    assert sum(t.numel() for t in loop._state.sentence_counts["words"].values()) < 50 * 250  # and not 50 * 80,200


def observe(words, weights):
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(DMV(2), weights), obs=words)


def one_concentration(words):
    alpha = pyro.sample("alpha", dist.Gamma(3.0, 2.0))
    observe(words, {n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in DMV(2).blocks.items()})


def test_a_latent_concentration_is_at_its_mode(doubles):
    """Given the expected counts, the mode of log α on a rough grid, and on a fine one near it."""
    _, corpus = CORPORA["two tags"]
    loop = CollapsedVB(one_concentration, initial_weights=tensors(random_tables(2, False, 1)))
    loop.run(padded(corpus), num_steps=80, tolerance=0, progress=False)
    counts = {n: f.numpy() for n, f in loop._state.counts.items()}

    def density(x):
        joint = log_joint(counts, {n: np.full(f.shape, np.exp(x)) for n, f in counts.items()})
        return joint + float(dist.Gamma(3.0, 2.0).log_prob(torch.tensor(np.exp(x)))) + x

    found = float(loop.latents()["alpha"].log())
    rough, fine = np.linspace(-2, 2, 81), found + np.linspace(-0.06, 0.06, 121)
    assert found == pytest.approx(max(rough, key=density), abs=0.03)
    assert found == pytest.approx(max(fine, key=density), abs=2e-3)
    assert loop.plan(padded(corpus)) == {"words": dict.fromkeys(counts, "integrated out")}


def computed_attachments(words):
    """Stops and roots are Dirichlet, attachments a softmax of normals."""
    blocks = DMV(2).blocks
    weights = {n: pyro.sample(n, dirichlet_prior(blocks[n], 0.7)) for n in ("root", "stop")}
    eta = pyro.sample("eta", dist.Normal(torch.zeros(2, 2, 2), 1.0).to_event(3))
    observe(words, {**weights, "attach": eta.softmax(-1)})


class FieldBesideWeights(FieldOfTrees):
    """Q over all trees, whose attachments have weights."""

    attach: np.ndarray = np.ones(())

    def figure3(self, order, batch_size=1):
        for i in order:
            rest, logs = self.others(i, self.means()), {"attach": np.log(self.attach)}
            for n in ("root", "stop"):
                pseudo = rest[n] + 0.7
                logs[n] = np.log(pseudo / pseudo.sum(-1, keepdims=True))
            self.q[i] = normalised([log_weight(t, logs) for t in self.trees[i]])


def test_computed_weights_beside_dirichlets(doubles):
    _, corpus = CORPORA["two tags"]
    shaped = {n: np.full(s, 0.7) for n, s in shapes(2, False).items()}
    begin = random_tables(2, False, 1)
    given = {n: torch.tensor(begin[n]) for n in ("root", "stop")}
    loop = CollapsedVB(computed_attachments, batch_size=1, initial_weights=given)
    loop._read((padded(corpus),), {})
    field = FieldBesideWeights(corpus, shaped, {**begin, "attach": loop.latents()["eta"].softmax(-1).numpy()})
    for _ in range(4):
        eta = loop.latents()["eta"]
        field.attach = eta.softmax(-1).numpy()
        f = added(field.means())
        integrated = {n: f[n] for n in ("root", "stop")}
        entropy = -sum(float((q[q > 0] * np.log(q[q > 0])).sum()) for q in field.q)
        density = float(dist.Normal(0.0, 1.0).log_prob(eta).sum()) + float((f["attach"] * np.log(field.attach)).sum())
        expected = entropy + density + log_joint(integrated, {n: shaped[n] for n in integrated})
        assert loop.step(padded(corpus)) == pytest.approx(expected, rel=1e-9)
        field.figure3(range(len(corpus)))
    assert loop.plan(padded(corpus))["words"]["attach"] == "gradient"
    loop.run(padded(corpus), num_steps=100, tolerance=0, progress=False)
    w, counts = loop.weights()["attach"], loop._state.counts["words.attach"]
    slope = counts - counts.sum(-1, keepdim=True) * w - loop.latents()["eta"]
    assert float(slope.abs().max()) < 1e-3


@pytest.mark.parametrize("model", [one_concentration, computed_attachments])
def test_latent_values_resume_to_the_same_numbers(model, tmp_path):
    words = padded(CORPORA["two tags"][1])
    whole = CollapsedVB(model).run(words, num_steps=6, tolerance=0, progress=False)
    part = CollapsedVB(model).run(words, num_steps=3, tolerance=0, progress=False, checkpoint=tmp_path / "c")
    assert part.history == whole.history[:3]
    resumed = CollapsedVB(model).run(words, num_steps=6, tolerance=0, progress=False, checkpoint=tmp_path / "c")
    assert resumed.history == whole.history
    for name, value in whole.latents().items():
        assert torch.equal(resumed.latents()[name], value)
    assert not torch.equal(part._state.parameters[name], whole._state.parameters[name])


def test_models_without_dirichlets_are_refused():
    words = padded(CORPORA["two tags"][1])
    normal = models.logistic_normal.logistic_normal
    of_the_corpus = models.logistic_normal.corpus_logistic_normal
    for model, cause in ((normal, "the batch shape .5,."), (of_the_corpus, "to be made of entries of.*made of 'root'")):
        with pytest.raises(ModelError, match=f"CollapsedVB needs .*block 'root'.*{cause}.*VariationalEM"):
            CollapsedVB(model).step(words, DMV(2))
    with pytest.raises(ModelError, match="CollapsedVB cannot handle site .* scaled or masked"):
        CollapsedVB(poutine.scale(one_concentration, 0.5)).step(words)


def test_options_are_checked():
    with pytest.raises(ValueError, match="batch_size >= 1"):
        CollapsedVB(models.dirichlet.dirichlet, batch_size=0)
    with pytest.raises(ValueError, match="not the state of CollapsedVB"):
        loop = CollapsedVB(models.dirichlet.dirichlet)
        loop.step(padded([[0]]), DMV(1))
        loop.load_state_dict({**loop.state_dict(), "nonsense": torch.zeros(1)})
