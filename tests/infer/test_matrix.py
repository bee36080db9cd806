# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The cells of docs/priors-and-inferences.md: the words of all, and the numbers of those that are no refusals.

Derivations are listed, see matrix_truth.py. By default some cells are checked, and with --slow all.
"""

import functools
import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from infer.matrix_cells import (
    INFERENCES,
    LOOPS,
    cell,
    elbo_and_guide,
    latent_sites,
    model_of,
    potential,
)
from infer.matrix_models import GRAMMARS, PRIORS, Model, waves
from infer.matrix_truth import (
    CollapsedField,
    concentration,
    counts_of_each,
    is_sentence,
    log_collapsed,
    log_evidence,
    log_jacobian,
    log_joint,
    nodes_of,
    normalised,
    pairs,
    sources_of,
)
from priors.prior_cases import multinomials
from priors.small_grammars import Small
from pyro import poutine
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram.grammar import Block, Weights
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "priors-and-inferences.md").read_text(encoding="utf-8")

# ---------------------------------------------------------------------- the page


def sections() -> dict[str, str]:
    """The tables of the page by grammar."""
    spec = importlib.util.spec_from_file_location("make_matrix", DOCS / "make_matrix.py")
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    found = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
    return {grammar: found[title] for grammar, title in maker.GRAMMARS.items()}


def words_of_the_page() -> dict[tuple[str, str, str], str]:
    """By grammar, prior and inference; a number for a refusal."""
    found = {}
    for grammar, table in sections().items():
        for line in table.strip().splitlines()[2:]:
            prior, *cells = line.strip("| ").split(" | ")
            found |= {(grammar, prior, inference): word for inference, word in zip(INFERENCES, cells, strict=True)}
    return found


WORDS = words_of_the_page()
ACCEPTED = [key for key, word in WORDS.items() if word[0] != "("]
#: Rows whose numbers are checked for every grammar; those of CFG are all checked, for it is small.
CENTRAL = (
    "maximum likelihood (`pyro.param`)",
    "Dirichlet, symmetric, 1.5",
    "Laplace on logits",
    "compound: a vector for each sentence",
)


def test_the_page_has_all_cells() -> None:
    assert set(WORDS) == set(itertools.product(GRAMMARS, PRIORS, INFERENCES))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(
    "grammar", ["DMV", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CFG", "HMM", "own"))]
)
def test_the_page_is_current(grammar: str, inference: str) -> None:
    """For the words of cells; refusals have numbers."""
    for (of, prior, by), word in WORDS.items():
        if (of, by) == (grammar, inference):
            said, cause = cell(grammar, prior, inference)
            assert said == word if said else word.startswith("("), (prior, inference, said, cause, "run make docs")


def test_no_row_is_refused() -> None:
    """What the page is there to show."""
    for key in itertools.product(GRAMMARS, PRIORS, ("EM, unconstrained", "VariationalEM", "TreeGibbs", "SVI")):
        assert WORDS[key][0] != "(", key


# ---------------------------------------------------------------------- the numbers


def cells(
    *inferences: str, keep: Any = lambda word: True, of: Any = lambda grammar, prior: True, slow: str = ""
) -> Any:
    """Accepted cells of some inferences, of which all but a few are slow; of mixtures see test_mixtures.py.

    :param slow: a prior whose cells all are.
    """
    chosen = [key for key in ACCEPTED if key[2] in inferences and keep(WORDS[key]) and of(*key[:2])]
    chosen = [key for key in chosen if "indicator" not in key[1] or key[2] not in LOOPS]
    quick = [key for key in chosen if (key[0] == "CFG" or key[1] in CENTRAL) and key[1] != slow]
    marked = [pytest.param(*key, marks=() if key in quick else pytest.mark.slow) for key in chosen]
    return pytest.mark.parametrize(("grammar", "prior", "inference"), marked)


def smooth(grammar: str, prior: str) -> bool:
    """Of the smallest grammar, priors whose density has a slope everywhere, and an optimum: learnt scales have none."""
    without = "Laplace on logits", "horseshoe on logits", "logistic normal, Σ = W Wᵀ + D of `pyro.param`s"
    return grammar == "CFG" and prior not in without


def with_one_optimum(grammar: str, prior: str) -> bool:
    """Vectors of sentences have several, and two ways up may end at two of them."""
    return smooth(grammar, prior) and prior != "compound: a vector for each sentence"


def start_of(small: Small) -> Weights:
    """Weights in which no two events are alike."""
    return {name: block.softmax(waves(*block.shape)) for name, block in small.grammar.blocks.items()}


def expected_counts(small: Small, model: Model, values: Weights) -> dict[str, Weights]:
    """Of all sentences, by Sentence site and block: the slope of log Z."""
    nodes, found = nodes_of(model, values), {}
    for name, own in pairs(nodes):
        field = CollapsedField(
            small, {name: own}, {name: {n: w.detach() for n, w in nodes[name]["fn"].weights.items()}}
        )
        found[name] = field.expected({(name, block): block for block in small.grammar.blocks})
    return found


def pseudo_counts(small: Small, model: Model, values: Weights) -> dict[str, tuple[Block, Tensor, Tensor]]:
    """By Dirichlet site that weights are: its block, α and expected counts of the events."""
    nodes, counts = nodes_of(model, values), expected_counts(small, model, values)
    found: dict[str, tuple[Block, Tensor, Tensor]] = {}
    for (site, block), source in sources_of(nodes).items():
        before = found[source][2] if source in found else torch.zeros(())
        alpha = concentration(nodes[source]["fn"]).detach()
        found[source] = small.grammar.blocks[block], alpha, before + counts[site][block]
    return found


@pytest.mark.one_in(10)
@cells("EM", "EM, unconstrained")
def test_em(grammar: str, prior: str, inference: str) -> None:
    """The objective is the log joint, by lists of derivations, and never falls; closed forms are f + α - 1 or f + α."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    loop = LOOPS[inference](model, initial_weights=start_of(small), m_steps=3)
    assert isinstance(loop, EM)
    loop.step()
    for _ in range(3):
        values = loop.latents()
        with torch.no_grad():
            joint = log_joint(small, model, values)
            joint = joint + (log_jacobian(model, values) if loop.unconstrained else 0.0)
        updates = pseudo_counts(small, model, values)
        shares = shares_of_parameters(small, model)
        # A concentration that is a parameter grows without end, and sums of lgamma lose digits.
        assert loop.step() == pytest.approx(float(joint), rel=1e-7 if prior == "concentration a `pyro.param`" else 1e-9)
        for source, (block, alpha, f) in updates.items():
            pseudo = f + alpha - (0.0 if loop.unconstrained else 1.0)
            torch.testing.assert_close(loop.latents()[source], normalised(block, pseudo))
        for name, w in shares.items():
            torch.testing.assert_close(pyro.param(name).detach(), w)
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(loop.history))


def shares_of_parameters(small: Small, model: Model) -> Weights:
    """Normalised counts of weights that are parameters themselves, by name; as before where there are none."""
    nodes, found = nodes_of(model, {}), Weights()
    for name, block in small.grammar.blocks.items():
        site = nodes.get(name, {"type": ""})
        if site["type"] == "param" and site["value"] is nodes["words"]["fn"].weights[name]:
            f = expected_counts(small, model, {})["words"][name]
            found[name] = torch.where(block.totals(f) > 0, normalised(block, f), site["value"].detach())
    return found


@pytest.mark.slow
@cells("EM", keep=lambda word: word == "gradient", of=smooth)
def test_em_ends_at_an_optimum(grammar: str, prior: str, inference: str) -> None:
    """The log joint is flat in latent values and parameters, where it is smooth."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    loop = EM(model, initial_weights=start_of(small), m_steps=20).run(num_steps=300, tolerance=0, progress=False)
    values = {name: v.clone().requires_grad_() for name, v in loop.latents().items()}
    total = log_joint(small, model, values)
    store: Any = pyro.get_param_store()
    leaves = [*values.values(), *(store[name].unconstrained() for name in store)]
    for slope in torch.autograd.grad(total, leaves, allow_unused=True):
        assert slope is None or float(slope.abs().max()) < 5e-3


def dirichlet_logs(block: Block, q: Tensor) -> Tensor:
    """E[log w] of Dirichlets."""
    out = q.digamma()
    for _, events in multinomials(block):
        total = torch.digamma(sum(q[e] for e in events))
        for e in events:
            out[e] -= total
    return out


def entropy(block: Block, q: Tensor) -> float:
    each = [torch.stack([q[e] for e in events]) for _, events in multinomials(block)]
    return sum(float(torch.distributions.Dirichlet(own).entropy()) for own in each if len(own) > 1)


@pytest.mark.one_in(3)
@cells("VariationalEM", keep=lambda word: "Newton" not in word)
def test_variational_em(grammar: str, prior: str, inference: str) -> None:
    """With latent values at a point the bound is the log joint at exp E_q[log w] and q's entropy; q is α + f."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    loop = VariationalEM(model, guide=AutoDelta, guide_steps=3, guide_draws=1, initial_weights=start_of(small))
    loop.step()
    blocks = {source: block for source, (block, _, _) in pseudo_counts(small, model, {}).items()}
    for _ in range(3):
        q = {name: concentration(found) for name, found in loop.posterior().items()}
        nodes = poutine.trace(loop.guide).get_trace().nodes
        names = latent_sites(model)
        values = {n: s["value"].detach() for n, s in nodes.items() if s["type"] == "sample" and n in names}
        values |= {name: dirichlet_logs(blocks[name], c).exp() for name, c in q.items()}
        with pyro.validation_enabled(False), torch.no_grad():
            bound = float(log_joint(small, model, values)) + sum(entropy(blocks[n], c) for n, c in q.items())
        with pyro.validation_enabled(False):
            updates = pseudo_counts(small, model, values)
        shares = shares_of_parameters(small, model)
        assert loop.step() == pytest.approx(bound, rel=1e-9)
        for name, w in shares.items():
            torch.testing.assert_close(pyro.param(name).detach(), w)
        for name, found in loop.posterior().items():
            _, alpha, f = updates[name]
            torch.testing.assert_close(concentration(found), (alpha + f).expand(found.event_shape))


@pytest.mark.slow
@cells("VariationalEM", keep=lambda word: word == "guide", of=with_one_optimum)
def test_guide_of_points(grammar: str, prior: str, inference: str) -> None:
    """With a guide of points it is EM."""
    histories = []
    for make in (EM, functools.partial(VariationalEM, guide=AutoDelta, guide_draws=1)):
        loop = make(model_of(grammar, prior), initial_weights=start_of(GRAMMARS[grammar]))
        histories.append(loop.run(num_steps=60, tolerance=0, progress=False).history)
    assert histories[1][-1] == pytest.approx(histories[0][-1], abs=1e-4)


@pytest.mark.one_in(3)
@cells("VariationalEM", keep=lambda word: "Newton" in word, slow="logistic normal, one for the corpus")
def test_bounds_of_logistic_normals(grammar: str, prior: str, inference: str) -> None:
    """The bound never falls, and is a few nats a sentence below the evidence, by importance sampling from the prior.

    What the bound is exactly, test_logistic_normal_em.py says.
    """
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    loop = VariationalEM(model).run(num_steps=15, tolerance=0, progress=False)
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(loop.history))
    evidence, error = log_evidence(small, model, 300)
    assert loop.history[-1] < evidence + 4 * error + 0.01
    assert loop.history[-1] > evidence - 4 * error - 4.0 * len(small.words)


@pytest.mark.one_in(20)
@cells("CollapsedVB", keep=lambda word: "integrated out" in word)
def test_collapsed_vb(grammar: str, prior: str, inference: str) -> None:
    """Sweeps over lists of derivations (Figure 3), with their objective and their weights."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    start = start_of(small)
    loop = CollapsedVB(model, batch_size=1, initial_weights=start)
    loop._read((), {})
    nodes = nodes_of(model, {})
    sources, corpora = sources_of(nodes), dict(pairs(nodes))
    named = {source: small.grammar.blocks[block] for (_, block), source in sources.items()}
    field = CollapsedField(small, corpora, dict.fromkeys(corpora, start))
    for _ in range(4):
        alpha, density = above(model, loop.latents(), named)
        assert loop.step() == pytest.approx(density + field.objective(sources, alpha, named), rel=1e-7)
        field.sweep(sources, alpha, named)
    f, (alpha, _) = field.expected(sources), above(model, loop.latents(), named)
    for (site, block), source in sources.items():
        pseudo = f[source] + alpha[source]
        torch.testing.assert_close(loop.weights(site)[block], normalised(small.grammar.blocks[block], pseudo))


def above(model: Model, latents: Weights, blocks: dict[str, Block]) -> tuple[Weights, float]:
    """Concentrations at latent values, and the log density of these in unconstrained coordinates."""
    nodes = nodes_of(model, latents)
    alpha = {name: concentration(nodes[name]["fn"]).detach().expand(b.shape) for name, b in blocks.items()}
    density = log_jacobian(model, latents)
    for name in latents:
        density = density + nodes[name]["fn"].log_prob(nodes[name]["value"]).sum()
    return alpha, float(density)


@cells("CollapsedVB", keep=lambda word: "integrated out" not in word)
def test_collapsed_vb_without_priors(grammar: str, prior: str, inference: str) -> None:
    """It is EM."""
    small = GRAMMARS[grammar]
    loops = []
    for loop in (EM, CollapsedVB):
        loops.append(loop(model_of(grammar, prior), initial_weights=start_of(small)))
        loops[-1].run(num_steps=1, progress=False)
    assert loops[0].history == pytest.approx(loops[1].history, rel=1e-9)
    torch.testing.assert_close(loops[0].weights(), loops[1].weights())


@pytest.mark.one_in(20)
@cells("TreeGibbs", "TreeHastings")
def test_samplers(grammar: str, prior: str, inference: str) -> None:
    """Derivations are those of the sentences; the log joint, and the density that moves latent values, are theirs."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    chain = LOOPS[inference](model, seed=1)
    assert isinstance(chain, TreeGibbs | TreeHastings)
    for _ in range(2):
        chain.step()
        counts = derivation_counts(small, grammar, model, chain)
        values = chain.hyperparameters()
        joint = log_collapsed(small, model, values, counts)
        problem, state = chain._present()
        assert float(state.log_joint) == pytest.approx(joint, rel=1e-9)
        if values:  # the density by which they move
            found = float(problem.density(state.counts, state.point).detach())
            assert found == pytest.approx(joint + float(log_jacobian(model, values)), rel=1e-9)


def derivation_counts(small: Small, grammar: str, model: Model, chain: Any) -> dict[str, list[Weights]]:
    nodes = nodes_of(model, {})
    return {
        name: counts_of_each(small, grammar, site["value"], chain.trees(name))
        for name, site in nodes.items()
        if is_sentence(site)
    }


@pytest.mark.one_in(2)
@cells("NUTS")
def test_potential(grammar: str, prior: str, inference: str) -> None:
    """Of NUTS: the log joint in unconstrained coordinates, here and there."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    start, energy, transforms = potential(model)
    for step in (0.0, 0.3):
        point = {name: x.detach() + step * waves(*x.shape) for name, x in start.items()}
        values = {name: transforms[name].inv(x) for name, x in point.items()}
        with torch.no_grad():
            expected = log_joint(small, model, values) + log_jacobian(model, values)
        assert -float(energy(point).detach()) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.one_in(2)
@cells("SVI")
def test_elbo(grammar: str, prior: str, inference: str) -> None:
    """One particle of the loss is log q - log p of the draw."""
    small, model = GRAMMARS[grammar], model_of(grammar, prior)
    elbo, guide = elbo_and_guide(model)
    guide()
    for seed in range(2):
        pyro.set_rng_seed(seed)
        with torch.no_grad():
            loss = elbo.loss(model, guide)
            pyro.set_rng_seed(seed)
            drawn = poutine.trace(guide).get_trace()
            names = latent_sites(model)
            values = {n: s["value"] for n, s in drawn.nodes.items() if s["type"] == "sample" and n in names}
            expected = log_joint(small, model, values) - drawn.log_prob_sum()
        assert -loss == pytest.approx(float(expected), rel=1e-9)
