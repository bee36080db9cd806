# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mixtures of grammars under the loops: each sentence's component is summed out, or drawn, with its tree."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.computed_models import BLOCKS, CORPUS, GRAMMAR, WORDS, V, sentences
from infer.tree_sums import derivations, divergence, shapes, sub_normalized, tree_events
from pyro.infer.autoguide import AutoNormal
from pyro.ops.indexing import Vindex
from scipy.special import gammaln
from torch import Tensor
from torch.distributions import constraints

from pyrogram import CFG
from pyrogram.distributions import PackedDirichlet, Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, ModelError, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.infer.model.composed import MixtureGrammar
from pyrogram.infer.model.expected_counts import expected_counts
from pyrogram.infer.model.indicators import summed_out
from pyrogram.infer.model.reading import read

pytestmark = pytest.mark.usefixtures("doubles")
K = 2


def two_grammars() -> None:
    """Shares are drawn, roots are learnt, the children of heads differ, and stops are the same."""
    pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
    attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(K, V, 2, V)).to_event(3))
    stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
    root = pyro.param("root", lambda: START.clone(), constraint=constraints.simplex)
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", dist.Categorical(pi), infer={"enumerate": "parallel"})
        weights = {"root": Vindex(root)[z], "attach": attach[z], "stop": stop}
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def two_sites() -> None:
    """Sentences in two languages, say, of one component."""
    weights = {
        n: pyro.sample(n, dist.Dirichlet(torch.ones(K, *b.shape)).to_event(b.batch_dim + 1)) for n, b in BLOCKS.items()
    }
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", dist.Categorical(torch.ones(K)))
        for name in ("words", "others"):
            pyro.sample(name, Sentence(GRAMMAR, {n: w[z] for n, w in weights.items()}), obs=WORDS)


@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB, TreeGibbs])
def test_two_sentences_of_one_component_are_refused(loop: Any) -> None:
    """Their components would be summed out one by one."""
    with pytest.raises(ModelError, match="of one Sentence site, but 'z' belongs to several; .*TraceEnum_ELBO can"):
        loop(two_sites).run(num_steps=1, progress=False)


START = torch.tensor([[0.5, 0.2, 0.3], [0.2, 0.2, 0.6]], dtype=torch.float64)


def by_beta() -> None:
    """Sites of their own for each component, chosen by a Bernoulli."""
    p = pyro.sample("p", dist.Beta(2.0, 3.0))
    drawn = [{n: pyro.sample(f"{n}.{k}", dirichlet_prior(b, 1.5)) for n, b in BLOCKS.items()} for k in range(K)]
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", dist.Bernoulli(p))
        weights = {
            n: torch.where(z.reshape(*z.shape, *(1 for _ in b.shape)) == 1, drawn[1][n], drawn[0][n])
            for n, b in BLOCKS.items()
        }
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


# ---------------------------------------------------------------------- the truth


def components(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    return [{n: weights[f"{n}[{k}]"] for n in BLOCKS} for k in range(K)]


def log_likelihood(weights: Mapping[str, Tensor]) -> Tensor:
    """Trees and components listed."""
    each = torch.stack([sentences(own) for own in components(weights)])
    return (each + weights["z"].log()[:, None]).logsumexp(0).sum()


def log_prior(model: Callable[[], None], latents: Mapping[str, Tensor]) -> Tensor:
    nodes: dict[str, Any] = dict(pyro.poutine.trace(pyro.poutine.condition(model, dict(latents))).get_trace().nodes)
    return torch.stack([nodes[name]["fn"].log_prob(value).sum() for name, value in latents.items()]).sum()


def log_collapsed(chain: Any, alphas: Mapping[str, float | list[float]]) -> float:
    """log P(words, components, trees) with Dirichlets integrated out, from events counted one by one."""
    totals = {"z": np.zeros(K)}
    for sentence, (k, *heads) in zip(CORPUS, chain.trees().tolist(), strict=True):
        totals["z"][k] += 1
        for block, index in tree_events(sentence, heads[: len(sentence)], False):
            f = totals.setdefault(f"{block}[{k}]", np.zeros(shapes(V, False)[block]))
            f[index] += 1
    for k, (name, shape) in itertools.product(range(K), shapes(V, False).items()):
        totals.setdefault(f"{name}[{k}]", np.zeros(shape))
    joint = 0.0
    for name, alpha in alphas.items():
        # Blocks that all components share have one prior.
        f = np.sum([c for key, c in totals.items() if name in (key, key.partition("[")[0])], axis=0)
        a = np.broadcast_to(alpha, f.shape)
        joint += float((gammaln(f + a).sum(-1) - gammaln(a).sum(-1)).sum())
        joint += float((gammaln(a.sum(-1)) - gammaln((f + a).sum(-1))).sum())
    return joint


# ---------------------------------------------------------------------- the loops


@pytest.mark.parametrize("model", [two_grammars, by_beta])
def test_em(model: Callable[[], None]) -> None:
    loop = EM(model, initial_weights="random")
    torch.manual_seed(3)
    loop.step()
    for _ in range(5):
        expected = float(log_likelihood(loop.weights()) + log_prior(model, loop.latents()))
        assert loop.step() == pytest.approx(expected, rel=1e-10)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(loop.history))
    assert set(loop.plan()["words"].values()) == {"closed form"}


def test_variational_bound() -> None:
    """That of components and trees listed, under exp E_q[log w]."""
    loop = VariationalEM(by_beta)
    loop.step()
    for _ in range(3):
        q = {name: getattr(d, "base_dist", d) for name, d in loop.posterior().items()}
        p = torch.stack([q["p"].concentration1, q["p"].concentration0])  # of the second component, and of the first
        tables = {n: d.concentration.numpy() for n, d in q.items() if n != "p"}
        given = {f"{n}[{k}]": torch.tensor(sub_normalized(tables[f"{n}.{k}"])) for n in BLOCKS for k in range(K)}
        given["z"] = torch.tensor(sub_normalized(p.numpy()[None])[0]).flip(0)
        bound = float(log_likelihood(given)) - divergence(p.numpy()[None], np.array([[2.0, 3.0]]))
        bound -= sum(divergence(table, np.full(table.shape, 1.5)) for table in tables.values())
        assert loop.step() == pytest.approx(bound, rel=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_samplers(sampler: type[TreeGibbs] | type[TreeHastings]) -> None:
    """The log joint is that of the components and trees that are drawn."""

    def model() -> None:
        pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
        attach = pyro.sample("attach", dist.Dirichlet(0.7 * torch.ones(K, V, 2, V)).to_event(3))
        stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
        root = pyro.sample("root", dist.Dirichlet(torch.ones(K, V)).to_event(1))
        with pyro.plate("sentences", len(WORDS)):
            z = pyro.sample("z", dist.Categorical(pi))
            pyro.sample("words", Sentence(GRAMMAR, {"root": root[z], "attach": attach[z], "stop": stop}), obs=WORDS)

    chain, seen = sampler(model, seed=1), set()
    for _ in range(8):
        chain.step()
        components_of = chain.trees()[:, 0].tolist()
        seen.add(tuple(components_of))
        joint = log_collapsed(chain, {"z": [1.5, 2.5], "stop": 1.5})
        for k in range(K):
            joint += log_collapsed(chain, {f"attach[{k}]": 0.7, f"root[{k}]": 1.0})
        assert float(chain._state.log_joint) == pytest.approx(joint, rel=1e-9)  # type: ignore[union-attr]
    assert len(seen) > 1
    assert chain.run(num_steps=10, progress=False).marginals().shape == (len(WORDS), 5, 5)


def test_collapsed_vb() -> None:
    loop = CollapsedVB(two_grammars).run(num_steps=30, progress=False)
    assert loop.history[-1] > loop.history[0]
    assert float(loop.weights()["z"].sum()) == pytest.approx(1.0)


def test_components_come_apart() -> None:
    """Sentences of two languages that have no rule in common end in two components."""
    grammar = CFG.from_string("S -> 'a' S | 'b' S | 'a' | 'b'")
    words = grammar.encode([["a"] * n for n in (2, 3, 4, 5)] + [["b"] * n for n in (2, 3, 4, 5)])

    def model(words: Tensor) -> None:
        pi = pyro.sample("pi", dist.Dirichlet(torch.ones(2)))
        rules = pyro.sample("rules", dist.Dirichlet(torch.full((2, 4), 1.1)).to_event(1))
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Categorical(pi))
            pyro.sample("words", Sentence(grammar, {"rules": rules[z]}), obs=words)

    weights = EM(model).run(words, num_steps=60, progress=False).weights()
    a = torch.tensor([0, 2])
    shares = sorted(float(weights[f"rules[{k}]"][a].sum()) for k in range(2))
    assert shares[0] < 0.1 and shares[1] > 0.9


# ---------------------------------------------------------------------- weights that are computed


def mixed(weights: Mapping[str, Tensor], choice: Any) -> None:
    """Sentences whose children of heads are of a component."""
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", choice, infer={"enumerate": "parallel"})
        own = {"attach": weights["attach"][z.long()], "root": weights["root"], "stop": weights["stop"]}
        pyro.sample("words", Sentence(GRAMMAR, own), obs=WORDS)


def dirichlets(*names: str) -> dict[str, Tensor]:
    return {name: pyro.sample(name, dirichlet_prior(BLOCKS[name], 1.5)) for name in names}


def from_normals() -> None:
    pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
    eta = pyro.sample("eta", dist.Normal(torch.zeros(K, V, 2, V), 1.5).to_event(4))
    mixed({**dirichlets("root", "stop"), "attach": eta.softmax(-1)}, dist.Categorical(pi))


def from_parameters() -> None:
    pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
    theta = pyro.param("theta", lambda: torch.linspace(-1, 1, K * V * 2 * V).reshape(K, V, 2, V).sin())
    mixed({**dirichlets("root", "stop"), "attach": theta.softmax(-1)}, dist.Categorical(pi))


def shares_from_a_normal() -> None:
    share = pyro.sample("share", dist.Normal(0.3, 1.0)).sigmoid()
    attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(K, V, 2, V)).to_event(3))
    mixed({**dirichlets("root", "stop"), "attach": attach}, dist.Bernoulli(share))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("model", [from_normals, from_parameters, shares_from_a_normal])
def test_em_by_gradient(model: Callable[[], None]) -> None:
    loop = EM(model, initial_weights="random")
    torch.manual_seed(3)
    loop.step()
    for _ in range(5):
        expected = float(log_likelihood(loop.weights()) + log_prior(model, loop.latents()))
        assert loop.step() == pytest.approx(expected, rel=1e-10)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(loop.history))
    ways = loop.plan()["words"]
    assert ways["z"] == ("gradient" if model is shares_from_a_normal else "closed form")
    assert ways["attach[1]"] == ("closed form" if model is shares_from_a_normal else "gradient")


def test_variational_bound_by_gradient() -> None:
    """Of Dirichlets in closed form, beside weights from parameters; it never falls."""
    loop = VariationalEM(from_parameters)
    loop.step()
    for _ in range(4):
        q = {name: getattr(d, "base_dist", d).concentration.numpy() for name, d in loop.posterior().items()}
        given = {n: w for n, w in loop.weights().items() if n.startswith("attach")}
        given |= {f"{n}[{k}]": torch.tensor(sub_normalized(q[n])) for n in ("root", "stop") for k in range(K)}
        given["z"] = torch.tensor(sub_normalized(q["pi"][None])[0])
        bound = float(log_likelihood(given)) - divergence(q["pi"][None], np.array([[1.5, 2.5]]))
        bound -= sum(divergence(q[n], np.full(q[n].shape, 1.5)) for n in ("root", "stop"))
        assert loop.step() == pytest.approx(bound, rel=1e-10)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(loop.history))


def test_a_guide_beside_an_indicator() -> None:
    loop = VariationalEM(from_normals, guide=AutoNormal, guide_steps=5).run(num_steps=12, progress=False)
    assert np.mean(loop.history[-3:]) > np.mean(loop.history[:3])
    assert loop.plan()["words"] | {"z": ""} == {"z": ""} | {
        f"{n}[{k}]": "guide" if n == "attach" else "closed form" for n in BLOCKS for k in range(K)
    }
    assert loop.plan()["words"]["z"] == "closed form"


@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_samplers_of_latent_values(sampler: type[TreeGibbs] | type[TreeHastings]) -> None:
    """The log joint: Dirichlets integrated out, weights from normals where the chain is."""
    chain = sampler(from_normals, seed=1)
    for _ in range(6):
        chain.step()
        eta = chain.hyperparameters()["eta"]
        joint = log_collapsed(chain, {"z": [1.5, 2.5], "stop": 1.5, "root": 1.5})
        joint += float(dist.Normal(0.0, 1.5).log_prob(eta).sum())
        for sentence, (k, *heads) in zip(CORPUS, chain.trees().tolist(), strict=True):
            for block, index in tree_events(sentence, heads[: len(sentence)], False):
                joint += float(eta[k].log_softmax(-1)[index]) if block == "attach" else 0.0
        assert float(chain._state.log_joint) == pytest.approx(joint, rel=1e-9)  # type: ignore[union-attr]


def test_collapsed_vb_of_latent_values() -> None:
    loop = CollapsedVB(from_normals).run(num_steps=8, progress=False)
    assert loop.history[-1] > loop.history[0]
    assert set(loop.latents()) == {"eta"}


def test_an_indicator_is_summed_out_as_components_are_read() -> None:
    """One run with all values, or a run for each: the same mixture, with evidence."""
    known = torch.full_like(WORDS, -1)
    known[1, 0] = 0

    def model() -> None:
        pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
        attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(K, V, 2, V)).to_event(3))
        with pyro.plate("sentences", len(WORDS)):
            z = pyro.sample("z", dist.Categorical(pi))
            weights = {"root": START[0], "attach": attach[z], "stop": STOP}
            pyro.sample("words", Sentence(GRAMMAR, weights, known=known), obs=WORDS)

    torch.manual_seed(0)
    drawn = {"pi": torch.tensor([0.3, 0.7]), "attach": torch.rand(K, V, 2, V).log_softmax(-1).exp()}
    traced = read(summed_out(model, "EM"), "EM")
    log_z, counts = expected_counts(traced, {n: drawn.get(n, s.value).log() for n, s in traced.weight_sources.items()})
    leaves = {name: w.log().requires_grad_() for name, w in drawn.items()}
    fixed = {"root": START[0].log(), "stop": STOP.log()}
    joint = [
        Sentence(GRAMMAR, log_weights={**fixed, "attach": leaves["attach"][k]}, known=known, normalized=False).log_prob(
            WORDS
        )
        + leaves["pi"][k]
        for k in range(K)
    ]
    truth = torch.stack(joint).logsumexp(0).sum()
    torch.testing.assert_close(torch.as_tensor(log_z), truth.detach().to(torch.as_tensor(log_z)))
    for name, expected in zip(leaves, torch.autograd.grad(truth, list(leaves.values())), strict=True):
        torch.testing.assert_close(counts[name], expected.to(counts[name]))


def test_shares_are_those_of_their_site() -> None:
    """Another site of the same size begins at the same values, and constants are equal to both."""

    def model(constant: bool) -> None:
        pyro.sample("other", dist.Dirichlet(torch.tensor([3.0, 3.0])))
        pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([2.0, 3.0])))
        eta = pyro.sample("eta", dist.Normal(torch.zeros(K, V, 2, V), 1.5).to_event(4))
        choice = dist.Categorical(torch.tensor([0.5, 0.5]) if constant else pi)
        mixed({**dirichlets("root", "stop"), "attach": eta.softmax(-1)}, choice)

    drawn = partial(model, False)
    loop = EM(drawn).run(num_steps=3, progress=False)
    expected = log_likelihood(loop.weights()) + log_prior(drawn, loop.latents())
    assert loop.step() == pytest.approx(float(expected), rel=1e-10)
    fixed = EM(partial(model, True)).run(num_steps=3, progress=False)
    assert torch.equal(fixed.weights()["z"], torch.tensor([0.5, 0.5]))
    assert fixed.plan()["words"]["z"] == "constant"


def test_shares_from_logits_are_shared() -> None:
    def model() -> None:
        logits = pyro.sample("logits", dist.Normal(torch.zeros(K), 1.0).to_event(1))
        attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(K, V, 2, V)).to_event(3))
        mixed({**dirichlets("root", "stop"), "attach": attach}, dist.Categorical(logits=logits))

    for loop in (TreeHastings(model, seed=0), CollapsedVB(model)):
        assert loop.run(num_steps=2, progress=False).weights()["z"].shape == (K,)


@pytest.mark.parametrize("block", BLOCKS)
def test_one_block_by_component_alone(block: str) -> None:
    """As Pyro's own enumeration has it: the other blocks have no dimension for it."""
    torch.manual_seed(0)
    weights = {n: b.normalize(torch.rand(b.shape)) for n, b in BLOCKS.items()}
    each = BLOCKS[block].normalize(torch.rand(K, 1, *BLOCKS[block].shape))
    found = Sentence(GRAMMAR, {**weights, block: each}).log_prob(WORDS)
    for k in range(K):
        torch.testing.assert_close(found[k], Sentence(GRAMMAR, {**weights, block: each[k, 0]}).log_prob(WORDS))


def test_draws_of_sentences_that_one_component_cannot_derive() -> None:
    grammar = CFG.from_string("S -> 'a' S | 'b' S | 'a' | 'b'")
    words = grammar.encode([["a", "a"], ["b"], ["b", "b"]])
    rules = torch.tensor([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]])
    mixture = MixtureGrammar(grammar, "z", 2)
    weights = {"z": torch.tensor([0.5, 0.5]), "rules[0]": rules[0], "rules[1]": rules[1]}
    assert mixture.derivation(weights, words).sample()[:, 0].tolist() == [0, 1, 1]


# ---------------------------------------------------------------------- the grammar


def test_derivations() -> None:
    """Draws and expected counts are those of all pairs of a component and a tree."""
    grammar = MixtureGrammar(GRAMMAR, "z", K)
    torch.manual_seed(0)
    weights = {n: b.normalize(torch.rand(b.shape)) for n, b in grammar.blocks.items()}
    words = WORDS[1:2, :3]
    law = grammar.derivation(weights, words)
    listed: dict[tuple[int, int], float] = {}
    expected = {n: np.zeros(b.shape) for n, b in grammar.blocks.items()}
    for k, own in enumerate(components(weights)):
        tables = {n: w.numpy() for n, w in own.items()}
        for t, (weight, counts) in enumerate(derivations(CORPUS[1], tables)):
            listed[k, t] = share = weight * float(weights["z"][k])
            expected["z"][k] += share
            for n, c in counts.items():
                expected[f"{n}[{k}]"] += share * c
    total = sum(listed.values())
    assert float(law.log_partition) == pytest.approx(np.log(total), rel=1e-12)
    for n, c in law.expected_counts().items():
        np.testing.assert_allclose(c[0].numpy(), expected[n] / total, atol=1e-12)
    many = words.expand(1500, -1)
    draws = grammar.derivation(weights, many).sample()
    assert bool(law.check(draws).all()) and draws.shape == (1500, 4)
    found = float((draws[:, 0] == 1).double().mean())
    assert found == pytest.approx(expected["z"][1] / total, abs=0.05)
    mean = {n: c.double().mean(0).numpy() for n, c in grammar.derivation(weights, many).counts(draws).items()}
    for n, c in mean.items():
        np.testing.assert_allclose(c, expected[n] / total, atol=0.1)


# ---------------------------------------------------------------------- refused


def test_refused() -> None:
    def two_choices() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        with pyro.plate("sentences", len(WORDS)):
            z = pyro.sample("z", dist.Categorical(torch.ones(2) / 2))
            y = pyro.sample("y", dist.Bernoulli(0.5))
            weights = {"root": theta[(z + y.long()) % 2], "attach": ATTACH, "stop": STOP}
            pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)

    def more_than_sentences() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        with pyro.plate("sentences", len(WORDS)):
            z = pyro.sample("z", dist.Categorical(torch.ones(2) / 2))
            pyro.sample("x", dist.Normal(torch.arange(2.0)[z], 1.0), obs=torch.zeros(len(WORDS)))
            pyro.sample("words", Sentence(GRAMMAR, {"root": theta[z], "attach": ATTACH, "stop": STOP}), obs=WORDS)

    def for_all() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        z = pyro.sample("z", dist.Categorical(torch.ones(2) / 2))
        with pyro.plate("sentences", len(WORDS)):
            weights = {"root": theta[z], "attach": ATTACH, "stop": STOP}
            pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)

    def groups() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        with pyro.plate("groups", 1):
            z = pyro.sample("z", dist.Categorical(torch.ones(2) / 2))
            weights = {"root": theta[z][..., None, :], "attach": ATTACH, "stop": STOP}
            group = Sentence(GRAMMAR, weights).expand([1, len(WORDS)]).to_event(1)
            pyro.sample("words", group, obs=WORDS[None])

    def scales() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        with pyro.plate("sentences", len(WORDS)):
            with pyro.poutine.scale(scale=2.0):
                z = pyro.sample("z", dist.Categorical(torch.ones(2) / 2))
            pyro.sample("words", Sentence(GRAMMAR, {"root": theta[z], "attach": ATTACH, "stop": STOP}), obs=WORDS)

    causes = {
        groups: "can handle a discrete latent site of each sentence, but 'z' belongs to groups of them",
        two_choices: "can handle one discrete latent site of each sentence, not both 'z' and 'y'",
        more_than_sentences: "cannot sum out the discrete latent site 'z', on which site 'x' depends as well",
        for_all: "cannot handle the discrete latent site 'z'",
    }
    with pytest.raises(
        ModelError, match="needs one scale for the discrete latent site 'z' and the sentences of 'words'"
    ):
        EM(scales).step()
    for model, cause in causes.items():
        for loop in (EM, VariationalEM, TreeGibbs):
            with pytest.raises(ModelError, match=f"{cause}.*TraceEnum_ELBO can"):
                loop(model).step()


ATTACH = torch.full((V, 2, V), 1 / V, dtype=torch.float64)
STOP = torch.full((V, 2, 2, 2), 0.5, dtype=torch.float64)


RULES = CFG.from_string("S -> 'a' A | S 'b' | 'a'\nA -> 'b' S | 'b'")


def of_components(in_a_plate: bool) -> Callable[[], None]:
    """Rules of two components, drawn together or one after the other."""
    block, words = RULES.blocks["rules"], RULES.encode([["a", "b"], ["a", "b", "b"], ["a", "b", "a"]])
    alpha = torch.linspace(1.1, 2.0, 2 * block.shape[0]).reshape(2, -1)

    def model() -> None:
        if in_a_plate:
            with pyro.plate("components", 2):
                rules = pyro.sample("rules", PackedDirichlet(alpha, block.sizes))
        else:
            rules = torch.stack([pyro.sample(f"rules.{k}", dirichlet_prior(block, a)) for k, a in enumerate(alpha)])
        shares = pyro.sample("shares", dist.Dirichlet(torch.tensor([2.0, 3.0])))
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Categorical(shares), infer={"enumerate": "parallel"})
            pyro.sample("words", Sentence(RULES, {"rules": rules[z]}), obs=words)

    return model


@pytest.mark.one_in(2)
@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB])
def test_rules_in_a_plate_of_components(loop: Any) -> None:
    """As with a site for each component, which lists of derivations test."""
    rules = RULES.blocks["rules"]
    start = {f"rules[{k}]": rules.softmax(torch.linspace(k, 1, rules.shape[0]).cos()) for k in range(2)}
    start["z"] = torch.tensor([0.4, 0.6])
    one, other = (
        loop(of_components(together), initial_weights=start).run(num_steps=4, progress=False)
        for together in (True, False)
    )
    assert one.history == pytest.approx(other.history, rel=1e-12)
    for name, w in other.weights().items():
        torch.testing.assert_close(one.weights()[name], w)
    if loop is VariationalEM:
        assert one.posterior()["rules"].event_shape == (2, len(RULES.rules))


@pytest.mark.parametrize("sampler", [pytest.param(TreeGibbs, marks=pytest.mark.slow), TreeHastings])
def test_samplers_of_rules_in_a_plate(sampler: Any) -> None:
    chain = sampler(of_components(True), seed=0).run(num_steps=120, burn_in=20, progress=False)
    other = sampler(of_components(False), seed=1).run(num_steps=120, burn_in=20, progress=False)
    assert float(chain._samples()["rules"].sum(-1)[0]) == pytest.approx(2)  # of two multinomials
    assert np.mean(chain.history) == pytest.approx(np.mean(other.history), abs=0.5)


def test_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    VariationalEM(two_grammars).run(num_steps=2, progress=False)
    assert torch.equal(before, torch.get_rng_state())


def shared_weights(computed: bool) -> tuple[Tensor, dict[str, Tensor]]:
    pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
    if computed:
        attach = pyro.sample("eta", dist.Normal(torch.zeros(K, V, 2, V), 1.5).to_event(4)).softmax(-1)
    else:
        attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(K, V, 2, V)).to_event(3))
    return pi, {**dirichlets("root", "stop"), "attach": attach}


def some_sentences(words: Tensor, end: int, pi: Tensor, w: Mapping[str, Tensor]) -> None:
    z = pyro.sample(f"z{end}", dist.Categorical(pi))
    own = {"attach": w["attach"][z], "root": w["root"], "stop": w["stop"]}
    pyro.sample(f"words{end}", Sentence(GRAMMAR, own), obs=words)


def one_by_one(computed: bool) -> None:
    shared = shared_weights(computed)
    for i in pyro.plate("sentences", len(WORDS)):
        some_sentences(WORDS[i], i, *shared)


def by_document(computed: bool) -> None:
    shared = shared_weights(computed)
    for i in pyro.plate("documents", 2):
        words = WORDS[:2] if i == 0 else WORDS[2:]
        with pyro.plate(f"sentences{i}", len(words)):
            some_sentences(words, i, *shared)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("plates", [one_by_one, by_document])
def test_plates_that_are_loops(plates: Callable[[bool], None], computed: bool) -> None:
    """A component for each sentence, with sentences one by one, or in a plate for each document."""

    def model() -> None:
        plates(computed)

    loop = EM(model, initial_weights="random")
    torch.manual_seed(3)
    loop.step()
    for _ in range(4):
        weights = {"z" if name == "z0" else name: w for name, w in loop.weights("words0").items()}
        expected = float(log_likelihood(weights) + log_prior(model, loop.latents()))
        assert loop.step() == pytest.approx(expected, rel=1e-10)
