# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The models of logistic normals, as Pyro sees them: densities term by term, by hand."""

import math
from collections.abc import Mapping
from typing import Any

import pyro
import pytest
import torch
from infer.tree_sums import likelihood_and_counts
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from pyrogram import DMV
from pyrogram.distributions import Gaussian, PartitionStructure, tied_starts
from pyrogram.distributions import logistic_normal as draw
from pyrogram.grammars import family_covariance, start_covariances, tie
from pyrogram.guides import MeanFieldGaussian
from pyrogram.models import (
    corpus_logistic_normal,
    corpus_shared_logistic_normal,
    initial_experts,
    initial_tied_experts,
)
from pyrogram.models.bilingual import bilingual
from pyrogram.models.logistic_normal import logistic_normal
from pyrogram.models.shared_logistic_normal import shared_logistic_normal

GRAMMAR = DMV(3)
TAGS = ("verb", "noun", "verb")
SENTENCES = [[0], [1, 2], [0, 1, 1], [2, 0]]
WORDS = torch.tensor([[0, -1, -1], [1, 2, -1], [0, 1, 1], [2, 0, -1]])
both = pytest.mark.parametrize("valence_attach", [False, True])
plates = pytest.mark.parametrize("per_sentence", [True, False])
spreads = pytest.mark.parametrize("diagonal", [False, True])


def traced(model: Any, *args: Any, **kwargs: Any) -> Any:
    trace = poutine.trace(model).get_trace(*args, **kwargs)
    trace.compute_log_prob()
    return trace


def sentences_log_likelihood(weights: Mapping[str, Tensor], grammar: DMV, corpus: Any = SENTENCES) -> float:
    """Sum over trees, sentence by sentence, each with its own weights if they have its dimension."""
    total = 0.0
    for l, sentence in enumerate(corpus):
        tables = {
            name: (w[l] if w.dim() > len(grammar.blocks[name].shape) else w).detach().numpy()
            for name, w in weights.items()
        }
        total += likelihood_and_counts([sentence], tables)[0]
    return total


def softmax(eta: Tensor) -> Tensor:
    return eta.exp() / eta.exp().sum(-1, keepdim=True)


def gaussian_log_density(eta: Tensor, loc: Tensor, spread: Tensor, diagonal: bool) -> float:
    prior = Normal(loc, spread.sqrt()) if diagonal else MultivariateNormal(loc, spread)
    return float(prior.log_prob(eta).sum().detach())


@both
@plates
@spreads
def test_logistic_normal_in_a_trace(valence_attach: bool, per_sentence: bool, diagonal: bool) -> None:
    grammar = DMV(3, valence_attach=valence_attach)
    start = grammar.initial_weights(WORDS, "random", seed=0)
    matrices = {name: family_covariance(TAGS) for name in ("root", "attach")}
    experts = initial_experts(WORDS, grammar, start, matrices, diagonal=diagonal)
    model = logistic_normal if per_sentence else corpus_logistic_normal
    trace = traced(model, WORDS, grammar, start=experts)
    kind = "variance" if diagonal else "covariance"
    assert set(trace.param_nodes) == {f"{k}.{name}" for name in grammar.blocks for k in ("loc", kind)}
    expected, weights = 0.0, {}
    for name, block in grammar.blocks.items():
        eta = trace.nodes[f"{name}.eta"]["value"]
        assert eta.shape == ((4,) if per_sentence else ()) + block.shape
        matrix = matrices.get(name, torch.eye(block.shape[-1])).double()
        spread = matrix.diagonal() if diagonal else matrix
        torch.testing.assert_close(pyro.param(f"loc.{name}").detach(), start[name].clamp_min(1e-4).log())
        shape = block.shape if diagonal else (*block.shape, block.shape[-1])
        torch.testing.assert_close(pyro.param(f"{kind}.{name}").detach(), spread.expand(shape))
        expected += gaussian_log_density(eta, start[name].clamp_min(1e-4).log(), spread, diagonal)
        weights[name] = softmax(eta)
    expected += sentences_log_likelihood(weights, grammar)
    assert float(trace.log_prob_sum().detach()) == pytest.approx(expected, rel=1e-10)
    assert trace.nodes["words"]["fn"].batch_shape == (4,)


def test_weights_of_zero_can_come_back() -> None:
    start = {name: w.clone() for name, w in GRAMMAR.initial_weights(WORDS, "uniform").items()}
    start["root"] = torch.tensor([0.0, 0.5, 0.5])
    traced(logistic_normal, WORDS, GRAMMAR, start=initial_experts(WORDS, GRAMMAR, start))
    torch.testing.assert_close(pyro.param("loc.root").detach(), torch.tensor([1e-4, 0.5, 0.5]).log())
    assert float(start["root"][0]) == 0.0


def test_starts_harmonic_once() -> None:
    logistic_normal(WORDS, GRAMMAR)
    first = {name: pyro.param(f"loc.{name}").detach().clone() for name in GRAMMAR.blocks}
    for name, w in GRAMMAR.initial_weights(WORDS).items():
        torch.testing.assert_close(first[name], w.clamp_min(1e-4).log())
    uniform = initial_experts(WORDS, GRAMMAR, GRAMMAR.initial_weights(WORDS, "uniform"))
    for start in (uniform, None):
        logistic_normal(WORDS, GRAMMAR, start=start)
    assert all(torch.equal(pyro.param(f"loc.{name}").detach(), loc) for name, loc in first.items())


@spreads
def test_covariances_stay_positive_definite(diagonal: bool) -> None:
    """Wherever an optimiser takes the unconstrained parameters."""
    experts = initial_experts(WORDS, GRAMMAR, diagonal=diagonal)
    logistic_normal(WORDS, GRAMMAR, start=experts)
    kind = "variance" if diagonal else "covariance"
    with torch.no_grad():
        pyro.param(f"{kind}.attach").unconstrained().copy_(  # type: ignore[attr-defined]
            torch.randn(3, 2, 3) if diagonal else torch.randn(3, 2, 3, 3)
        )
    spread = pyro.param(f"{kind}.attach").detach()
    assert float((spread if diagonal else torch.linalg.eigvalsh(spread)).min()) > 0
    assert math.isfinite(float(traced(logistic_normal, WORDS, GRAMMAR, start=experts).log_prob_sum().detach()))


@spreads
def test_fixed_priors_have_no_parameters(diagonal: bool) -> None:
    normal = {name: Gaussian(torch.zeros(()), torch.eye(b.shape[-1])) for name, b in GRAMMAR.blocks.items()}
    untied = PartitionStructure.untied(GRAMMAR.blocks)
    for trace in (
        traced(logistic_normal, WORDS, GRAMMAR, prior=initial_experts(WORDS, GRAMMAR, diagonal=diagonal)),
        traced(corpus_logistic_normal, WORDS, GRAMMAR, prior=normal),
        traced(shared_logistic_normal, WORDS, GRAMMAR, untied, prior=normal),
        traced(corpus_shared_logistic_normal, WORDS, GRAMMAR, untied, prior=normal),
    ):
        assert not trace.param_nodes and math.isfinite(float(trace.log_prob_sum()))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_minibatches_are_scaled(batch_size: int) -> None:
    trace = traced(logistic_normal, WORDS, GRAMMAR, batch_size=batch_size)
    for name in ("words", "attach.eta"):
        assert trace.nodes[name]["value"].shape[0] == batch_size
        assert trace.nodes[name]["scale"] == 4 / batch_size


@plates
@spreads
@pytest.mark.parametrize("covariance", [False, True])
def test_shared_logistic_normal_in_a_trace(per_sentence: bool, diagonal: bool, covariance: bool) -> None:
    structure = tie(GRAMMAR, TAGS, "V", covariance=covariance)
    start = {
        name: Gaussian(torch.randn(e.shape), variance=torch.rand(e.shape) + 0.5)
        if diagonal
        else Gaussian(torch.randn(e.shape), (torch.eye(e.length) + 0.5).expand(*e.shape, e.length))
        for name, e in structure.experts.items()
    }
    model = shared_logistic_normal if per_sentence else corpus_shared_logistic_normal
    trace = traced(model, WORDS, GRAMMAR, structure, start=start)
    kind = "variance" if diagonal else "covariance"
    families = {"root", "attach", "stop", "attach.verb", "stop.verb"}
    assert set(trace.param_nodes) == {f"{k}.experts.{name}" for name in families for k in ("loc", kind)}
    eta = {name: trace.nodes[f"weights.{name}.eta"]["value"] for name in families}
    expected = 0.0
    for name, value in eta.items():
        spread = getattr(start[name], kind)
        torch.testing.assert_close(pyro.param(f"loc.experts.{name}").detach(), start[name].loc)
        expected += gaussian_log_density(value, start[name].loc, spread, diagonal)
    # Verbs are tags 0 and 2.
    weights = {name: eta[name].clone() for name in GRAMMAR.blocks}
    for name, dims in (("attach", 2), ("stop", 3)):
        size = weights[name].shape[-1]
        for j, head in enumerate((0, 2)):
            own = weights[name].select(-1 - dims, head)
            verb = eta[f"{name}.verb"]
            own.copy_((own + (verb[..., j * size : (j + 1) * size] if covariance else verb)) / 2)
    expected += sentences_log_likelihood({n: softmax(w) for n, w in weights.items()}, GRAMMAR)
    assert float(trace.log_prob_sum().detach()) == pytest.approx(expected, rel=1e-10)


def test_shared_logistic_normal_starts_at_the_weights() -> None:
    """softmax of the mixed means is the initial weights, and covariances are as given."""
    structure = tie(GRAMMAR, TAGS, "V&N")
    weights = GRAMMAR.initial_weights(WORDS, "random", seed=1)
    matrices = start_covariances(structure, TAGS)
    start = initial_tied_experts(WORDS, GRAMMAR, structure, weights, matrices)
    shared_logistic_normal(WORDS, GRAMMAR, structure, start=start)
    locs = {name: pyro.param(f"loc.experts.{name}").detach() for name in structure.experts}
    for name, w in weights.items():
        torch.testing.assert_close(softmax(structure.average(name, locs)), w.clamp_min(1e-4), rtol=1e-3, atol=1e-3)
    for name, matrix in matrices.items():
        found = pyro.param(f"covariance.experts.{name}").detach()
        torch.testing.assert_close(found, matrix.expand(found.shape))


def test_first_without_tying_then_with_it() -> None:
    """Both stages in one session: parameters of the first are not taken for those of the second."""
    logistic_normal(WORDS, GRAMMAR)
    with torch.no_grad():
        pyro.param("loc.attach").add_(torch.randn(3, 2, 3))
    untied = {b: Gaussian(pyro.param(f"loc.{b}"), pyro.param(f"covariance.{b}")) for b in GRAMMAR.blocks}
    structure = tie(GRAMMAR, TAGS, "V")
    start = structure.tied_start(untied)
    shared_logistic_normal(WORDS, GRAMMAR, structure, start=start)
    locs = {name: pyro.param(f"loc.experts.{name}").detach() for name in structure.experts}
    for name in GRAMMAR.blocks:
        torch.testing.assert_close(structure.average(name, locs), pyro.param(f"loc.{name}").detach())


def test_untied_structure_is_the_logistic_normal() -> None:
    densities = []
    for model, more in ((logistic_normal, ()), (shared_logistic_normal, (PartitionStructure.untied(GRAMMAR.blocks),))):
        pyro.set_rng_seed(5)
        densities.append(float(traced(model, WORDS, GRAMMAR, *more).log_prob_sum().detach()))
    assert densities[0] == pytest.approx(densities[1], rel=1e-12)


# ---------------------------------------------------------------- languages

OTHER = torch.tensor([[1, 0], [1, -1], [0, 1]])
OTHER_SENTENCES = [[1, 0], [1], [0, 1]]


def two_languages(second: DMV, tags: Any) -> tuple[Any, Any, Any]:
    grammars = {"english": GRAMMAR, "dutch": second}
    structures = {"english": tie(GRAMMAR, TAGS, "V"), "dutch": tie(second, tags, "V")}
    return {"english": WORDS, "dutch": OTHER}, grammars, structures


@spreads
def test_bilingual_in_a_trace(diagonal: bool) -> None:
    words, grammars, structures = two_languages(GRAMMAR, ("verb", "verb", "noun"))
    own = {l: initial_experts(words[l], grammars[l], diagonal=diagonal) for l in words}
    trace = traced(bilingual, words, grammars, structures, start=tied_starts(structures, own) if diagonal else None)
    shared = {"attach.verb", "stop.verb"}
    own = {f"{l}.{b}" for l in words for b in GRAMMAR.blocks}
    kind = "variance" if diagonal else "covariance"
    assert set(trace.param_nodes) == {f"{k}.experts.{f}" for f in shared | own for k in ("loc", kind)}
    for family in shared:
        one, other = (trace.nodes[f"{l}.{family}.eta"]["infer"]["gaussian"] for l in words)
        assert one.loc is other.loc and getattr(one, kind) is getattr(other, kind)
    expected = 0.0
    for l, corpus in (("english", SENTENCES), ("dutch", OTHER_SENTENCES)):
        for family in structures[l].experts:
            name = f"experts.{family if family in shared else f'{l}.{family}'}"
            eta = trace.nodes[f"{l}.{family}.eta"]["value"]
            assert eta.shape[0] == len(corpus)
            spread = pyro.param(f"{kind}.{name}")
            expected += gaussian_log_density(eta, pyro.param(f"loc.{name}"), spread, diagonal)
        weights = {b: trace.nodes[f"{l}.{b}"]["value"] for b in GRAMMAR.blocks}
        expected += sentences_log_likelihood(weights, GRAMMAR, corpus)
    assert float(trace.log_prob_sum().detach()) == pytest.approx(expected, rel=1e-10)
    for l in words:
        locs = {
            f: pyro.param(f"loc.experts.{f if f in shared else f'{l}.{f}'}").detach() for f in structures[l].experts
        }
        for name, w in GRAMMAR.initial_weights(words[l]).items():
            torch.testing.assert_close(structures[l].average(name, locs), w.clamp_min(1e-4).log())


def test_languages_of_different_alphabets_share_stops() -> None:
    words, grammars, structures = two_languages(DMV(2), ("verb", "noun"))
    with pytest.raises(ValueError, match=r"'attach.verb' have shape \(2, 3\) in 'english' and \(2, 2\) in 'dutch'"):
        bilingual(words, grammars, structures)
    trace = traced(bilingual, words, grammars, structures, shared=["stop.verb"])
    assert {"loc.experts.stop.verb", "loc.experts.english.attach.verb"} <= set(trace.param_nodes)
    assert pyro.param("loc.experts.dutch.attach.verb").shape == (2, 2)
    minibatch = traced(bilingual, words, grammars, structures, shared=["stop.verb"], batch_size=2)
    assert minibatch.nodes["english.words"]["scale"] == 2 and minibatch.nodes["dutch.words"]["scale"] == 1.5


def test_bilingual_with_given_starts() -> None:
    words, grammars, structures = two_languages(GRAMMAR, TAGS)
    start = {
        l: {f: Gaussian(torch.full(e.shape, float(i)), torch.eye(e.length)) for f, e in structures[l].experts.items()}
        for i, l in enumerate(words)
    }
    traced(bilingual, words, grammars, structures, start=start)
    assert bool((pyro.param("loc.experts.dutch.root") == 1).all())
    assert bool((pyro.param("loc.experts.stop.verb") == 0).all())
    with pytest.raises(ValueError, match=r"structures must be given for the languages \['english', 'dutch'\], not for"):
        bilingual(words, grammars, {"english": structures["english"]})
    with pytest.raises(ValueError, match="there are no experts 'stop.noun' to share"):
        bilingual(words, grammars, structures, shared=["stop.noun"])
    del start["dutch"]["stop.verb"]
    with pytest.raises(ValueError, match=r"start\['dutch'\] must be given for .*'stop.verb'\], not for"):
        bilingual(words, grammars, structures, start=start)


def test_bilingual_by_stochastic_variational_inference() -> None:
    words, grammars, structures = two_languages(GRAMMAR, TAGS)
    guide = MeanFieldGaussian(bilingual)
    svi = SVI(bilingual, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())  # type: ignore[attr-defined]
    assert all(math.isfinite(svi.step(words, grammars, structures, batch_size=2)) for _ in range(3))
    assert guide.locs.dutch.stop.verb.eta.shape == (3, 2, 2, 2)


def test_wrong_arguments() -> None:
    structure = tie(GRAMMAR, TAGS, "V")
    matrix = torch.eye(3)
    with pytest.raises(
        ValueError, match=r"covariance has no use for \['attach.verb'\]; there are \['root', 'attach', "
    ):
        initial_experts(WORDS, GRAMMAR, covariance={"attach.verb": matrix})
    with pytest.raises(ValueError, match=r"covariance has no use for \['verb'\]"):
        initial_tied_experts(WORDS, GRAMMAR, structure, covariance={"verb": matrix})
    with pytest.raises(ValueError, match=r"loc of shape \(3, 2, 2, 2\) and covariance of shape \(3, 3\) do not fit"):
        initial_experts(WORDS, GRAMMAR, covariance={"stop": matrix})
    start = {n: Gaussian(torch.zeros(e.shape), torch.eye(e.length)) for n, e in structure.experts.items()}
    with pytest.raises(ValueError, match="give either start or prior, not both"):
        shared_logistic_normal(WORDS, GRAMMAR, structure, start=start, prior=start)
    with pytest.raises(ValueError, match="'root' has a Gaussian, so it takes neither covariance nor variance"):
        draw("root", start["root"], matrix)
    del start["stop.verb"]
    with pytest.raises(ValueError, match=r"start must be given for .*'stop.verb'\], not for"):
        shared_logistic_normal(WORDS, GRAMMAR, structure, start=start)


# ---------------------------------------------------------------- Pyro's inference

STRUCTURE = tie(GRAMMAR, TAGS, "V")
MODELS: Any = pytest.mark.parametrize(
    ("model", "arguments", "per_sentence"),
    [
        (logistic_normal, (), True),
        (corpus_logistic_normal, (), False),
        (shared_logistic_normal, (STRUCTURE,), True),
        (corpus_shared_logistic_normal, (STRUCTURE,), False),
    ],
)


@pytest.mark.one_in(6)
@MODELS
def test_stochastic_variational_inference(model: Any, arguments: Any, per_sentence: bool) -> None:
    """The prior is learnt beside the guide, and the bound rises."""
    guide = MeanFieldGaussian(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step(WORDS, GRAMMAR, *arguments) for _ in range(40)]
    assert sum(losses[-10:]) < sum(losses[:10])
    start = pyro.get_param_store()["loc.attach" if not arguments else "loc.experts.attach"].detach()
    expected = GRAMMAR.initial_weights(WORDS)["attach"].clamp_min(1e-4).log()
    assert arguments or not torch.allclose(start, expected)


@MODELS
def test_nuts(model: Any, arguments: Any, per_sentence: bool) -> None:
    kernel = NUTS(model, max_tree_depth=2)
    mcmc = MCMC(kernel, num_samples=2, warmup_steps=2, disable_progbar=True)
    prior = initial_tied_experts(WORDS, GRAMMAR, *arguments) if arguments else initial_experts(WORDS, GRAMMAR)
    mcmc.run(WORDS, GRAMMAR, *arguments, prior=prior)
    assert all(name.endswith(".eta") and torch.isfinite(d).all() for name, d in mcmc.get_samples().items())


@MODELS
def test_predictive(model: Any, arguments: Any, per_sentence: bool) -> None:
    drawn = Predictive(model, num_samples=3)(WORDS, GRAMMAR, *arguments)
    name = "weights.stop" if arguments else "stop"
    # Predictive keeps a singleton for the plate.
    assert drawn[name].shape == (3, 4 if per_sentence else 1, *GRAMMAR.blocks["stop"].shape)
    torch.testing.assert_close(drawn[name].sum(-1), torch.ones(drawn[name].shape[:-1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_default_dtype(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    structure = tie(GRAMMAR, TAGS, "V")
    assert traced(logistic_normal, WORDS, GRAMMAR).log_prob_sum().dtype == dtype
    matrices = start_covariances(structure, TAGS)
    start = initial_tied_experts(WORDS, GRAMMAR, structure, covariance=matrices)
    trace = traced(shared_logistic_normal, WORDS, GRAMMAR, structure, start=start)
    assert trace.log_prob_sum().dtype == dtype


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda() -> None:
    words = WORDS.cuda()
    for model, arguments in ((logistic_normal, ()), (shared_logistic_normal, (STRUCTURE,))):
        pyro.clear_param_store()
        trace = traced(model, words, GRAMMAR, *arguments)
        assert trace.log_prob_sum().device.type == "cuda" and bool(trace.log_prob_sum().isfinite())
