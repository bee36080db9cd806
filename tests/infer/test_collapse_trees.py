# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees that are summed out of a model, against models that are run with every tree."""

import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.tree_site_models import (
    GRAMMAR,
    MODELS,
    TOKENS,
    WORDS,
    V,
    emission,
    latent_values,
    log_joint,
    no_plate,
    padded_batch,
    parameters,
    plate_of_words,
    summed_log_joint,
    tags_of_heads,
    token_log_probs,
    weights,
)
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.infer.mcmc.util import initialize_model
from torch import Tensor

from pyrogram import CFG
from pyrogram.distributions import of_heads
from pyrogram.infer import ModelError, collapse_trees

UNIFORM = {name: block.uniform(torch.ones((), dtype=torch.float64)) for name, block in GRAMMAR.blocks.items()}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_log_joint_is_the_sum_over_all_trees(model: Callable[[], None]) -> None:
    values = latent_values(model)
    exact = summed_log_joint(model, values)
    if model.__name__ == "masked_sentences":
        exact = exact - math.log(2)  # the trees of a masked sentence count nothing
    torch.testing.assert_close(log_joint(collapse_trees(model), values), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model, shape", [(no_plate, ()), (padded_batch, (4,)), (plate_of_words, (4, 1))])
def test_the_factor_has_the_shape_of_the_site(model: Callable[[], None], shape: tuple[int, ...]) -> None:
    factor: Any = poutine.trace(collapse_trees(model)).get_trace().nodes["heads.collapsed"]
    assert factor["fn"].batch_shape == shape
    assert [plate.name for plate in factor["cond_indep_stack"]] == ["sentences"] * bool(shape)


@pytest.mark.parametrize("heads_at_once", [1, 30])
def test_few_trees_at_once(heads_at_once: int) -> None:
    values = {name: x.requires_grad_() for name, x in latent_values(padded_batch).items()}
    found = [log_joint(collapse_trees(padded_batch, heads_at_once=n), values) for n in (10**6, heads_at_once)]
    torch.testing.assert_close(*found)
    gradients = [torch.autograd.grad(x, list(values.values())) for x in found]
    torch.testing.assert_close(*gradients)


def test_the_model_is_given_few_heads_at_once() -> None:
    sizes = []

    def model() -> None:
        with pyro.plate("sentences", len(WORDS)):
            heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, WORDS))
            sizes.append(heads.numel())

    collapse_trees(model, heads_at_once=40)()
    assert sizes.count(36) == 3 and max(sizes[1:]) <= 11 * WORDS.numel()  # 9 changes and none, and 11 tries


def test_the_model_is_given_heads_within_the_sentence() -> None:
    def likelihood(heads: Tensor) -> Tensor:
        assert bool(((heads >= 0) == (WORDS >= 0)).all() and (heads <= (WORDS >= 0).sum(-1, keepdim=True)).all())
        assert not bool((heads == torch.arange(1, 4)).any())
        return 0.1 * heads[..., 0]

    collapsed = poutine.trace(collapse_trees(of_trees(likelihood))).get_trace()
    assert "heads.collapsed" in collapsed.nodes


def test_gradients() -> None:
    """By finite differences of the enumerated sum."""
    values = latent_values(parameters)
    parameter: Any = pyro.param("logits")
    logits = parameter.unconstrained()
    latent = values["attach"].requires_grad_()
    found = torch.autograd.grad(log_joint(collapse_trees(parameters), values), [logits, latent])
    for leaf, gradient in zip((logits, latent), found, strict=True):
        for i in range(0, leaf.numel(), 11):
            step = torch.zeros(leaf.numel()).index_fill(0, torch.tensor(i), 1e-6).reshape(leaf.shape)
            ends = []
            for sign in (1, -1):
                with torch.no_grad(), pyro.validation_enabled(False):
                    leaf += sign * step
                    ends.append(summed_log_joint(parameters, values))
                    leaf -= sign * step
            slope = (ends[0] - ends[1]) / 2e-6
            torch.testing.assert_close(gradient.flatten()[i], slope, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------- handlers and inference


def test_handlers_around_the_model() -> None:
    values = latent_values(padded_batch)
    plain = log_joint(collapse_trees(padded_batch), values)
    collapsed = collapse_trees(padded_batch)
    torch.testing.assert_close(log_joint(poutine.scale(collapsed, scale=3.0), values), 3 * plain)
    assert float(log_joint(poutine.mask(collapsed, mask=False), values)) == 0
    table = values.pop("emission")
    inside = collapse_trees(poutine.condition(padded_batch, {"emission": table}))
    torch.testing.assert_close(log_joint(inside, values), plain)
    draws = [poutine.trace(poutine.seed(collapsed, 7)).get_trace().log_prob_sum() for _ in range(2)]
    assert torch.equal(*draws)


def test_parameters_that_a_handler_replaces() -> None:
    values = latent_values(parameters)
    other = {"logits": torch.ones(8).cumsum(0).cos().reshape(V + 1, 2)}
    found = log_joint(poutine.substitute(collapse_trees(parameters), data=other), values)
    exact = summed_log_joint(poutine.substitute(parameters, data=other), values)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12)
    assert float((found - log_joint(collapse_trees(parameters), values)).abs().detach()) > 0.1


def test_a_tree_that_is_given_is_not_summed_out() -> None:
    values = latent_values(padded_batch)
    heads = GRAMMAR.derivation(UNIFORM, WORDS).argmax()
    given = {**values, "heads": heads}
    torch.testing.assert_close(log_joint(collapse_trees(padded_batch), given), log_joint(padded_batch, given))
    trace = poutine.trace(padded_batch).get_trace()
    replayed = poutine.trace(poutine.replay(collapse_trees(padded_batch), trace)).get_trace()
    torch.testing.assert_close(replayed.log_prob_sum(), trace.log_prob_sum())
    hidden = poutine.condition(poutine.block(collapse_trees(padded_batch), hide=["heads"]), given)
    assert "heads" not in poutine.trace(hidden).get_trace().nodes
    del given["heads"]
    torch.testing.assert_close(log_joint(hidden, {}), log_joint(collapse_trees(padded_batch), given))


def test_single_precision_under_double_defaults() -> None:
    w = {name: x.float() for name, x in latent_values(padded_batch).items()}
    table = w.pop("emission")

    def model() -> None:
        with pyro.plate("sentences", len(WORDS)):
            heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
            pyro.factor("tokens", token_log_probs(table, WORDS, heads, TOKENS).sum(-1))

    trace: Any = poutine.trace(collapse_trees(model)).get_trace()
    torch.testing.assert_close(trace.log_prob_sum(), summed_log_joint(model, {}), rtol=1e-5, atol=1e-5)
    assert trace.nodes["heads.collapsed"]["fn"].log_factor.dtype == torch.float32


def test_some_sites() -> None:
    def model() -> None:
        padded_batch()
        with pyro.plate("others", 1):
            pyro.sample("other", GRAMMAR.derivation(UNIFORM, WORDS[:1]))

    nodes = poutine.trace(collapse_trees(model, "heads")).get_trace().nodes
    assert "other" in nodes and "heads" not in nodes and "heads.collapsed" in nodes


def test_what_is_not_observed_is_drawn_from_the_prior() -> None:
    """The sites below a tree are drawn given a tree that is drawn, too."""

    def model() -> None:
        with pyro.plate("sentences", 2000):
            heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, WORDS[1].expand(2000, -1)))
            pyro.sample("z", dist.Normal((heads[..., 0] == 0).double() * 10, 0.1))

    z = poutine.trace(collapse_trees(model)).get_trace().nodes["z"]["value"]
    assert abs(float((z > 5).double().mean()) - 0.5) < 0.06  # of two trees


def test_mixture_whose_component_is_enumerated() -> None:
    """A latent class of each sentence, which grammar and tokens depend on, summed out by Pyro."""
    tables = torch.tensor([[[0.9, 0.1]] * (V + 1), [[0.2, 0.8]] * V + [[0.6, 0.4]]])
    classes = {name: torch.stack([w, w.flip(-1).roll(1, 0)]) for name, w in UNIFORM.items()}
    classes["root"] = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]])

    words, tokens = WORDS[:3], TOKENS[:3]

    def model(given: Tensor | None = None) -> None:
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Categorical(torch.tensor([0.3, 0.7])), obs=given)
            heads = pyro.sample("heads", GRAMMAR.derivation({name: w[z] for name, w in classes.items()}, words))
            log_probs = tables[z[..., None], tags_of_heads(words, heads), tokens.clamp_min(0)].log()
            pyro.factor("tokens", torch.where(words >= 0, log_probs, 0.0).sum(-1))

    elbo = TraceEnum_ELBO(max_plate_nesting=1)
    found = -elbo.loss(config_enumerate(collapse_trees(model)), lambda: None)
    exact = [summed_log_joint(model, {}, z) for z in torch.cartesian_prod(*[torch.arange(2)] * 3)]
    assert found == pytest.approx(float(torch.stack(exact).logsumexp(0)), abs=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [AutoNormal, AutoDelta])
def test_svi(make: Callable[..., Any]) -> None:
    collapsed = collapse_trees(padded_batch)
    guide = make(collapsed)
    svi = SVI(collapsed, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step() for _ in range(15)]
    assert all(map(math.isfinite, losses)) and min(losses[8:]) < losses[0]
    assert {name.rpartition(".")[2] for name in guide()} == {"root", "attach", "stop", "emission"}


def test_nuts() -> None:
    _, potential, transforms, _ = initialize_model(collapse_trees(padded_batch))
    values = latent_values(padded_batch)
    unconstrained = {name: transforms[name](x) for name, x in values.items()}
    jacobian = sum(t.inv.log_abs_det_jacobian(unconstrained[n], values[n]).sum() for n, t in transforms.items())
    exact = summed_log_joint(padded_batch, values) + jacobian
    torch.testing.assert_close(-potential(unconstrained), exact, rtol=1e-10, atol=1e-10)
    mcmc = MCMC(NUTS(collapse_trees(padded_batch), max_tree_depth=2), 3, warmup_steps=3, disable_progbar=True)
    mcmc.run()
    assert all(bool(x.isfinite().all()) for x in mcmc.get_samples().values())


def test_predictive_in_parallel() -> None:
    """A plate around the model, whose draws the likelihood has and the tree has not."""

    def model() -> None:
        table = emission()
        with pyro.plate("sentences", len(WORDS)):
            heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, WORDS))
            log_probs = token_log_probs_by_draw(table, heads)
            pyro.factor("tokens", log_probs)

    def token_log_probs_by_draw(table: Tensor, heads: Tensor) -> Tensor:
        if table.dim() == 2:
            return token_log_probs(table, WORDS, heads, TOKENS).sum(-1)
        tags = tags_of_heads(WORDS, heads)
        log_probs = table[torch.arange(len(table))[:, None, None], 0, tags, TOKENS.clamp_min(0)].log()
        return torch.where(WORDS >= 0, log_probs, 0.0).sum(-1)

    tables = dist.Dirichlet(torch.ones(3, 1, V + 1, 2)).sample()
    trace = Predictive(collapse_trees(model), {"emission": tables}, parallel=True).get_vectorized_trace()
    factor = trace.nodes["tokens"]["fn"].log_factor + trace.nodes["heads.collapsed"]["fn"].log_factor
    for table, found in zip(tables[:, 0], factor, strict=True):
        exact = summed_log_joint(poutine.condition(model, {"emission": table}), {})
        prior = dist.Dirichlet(torch.ones(V + 1, 2)).log_prob(table).sum()
        torch.testing.assert_close(found.sum(), exact - prior)


# ---------------------------------------------------------------------- refusals


def refused(model: Callable[[], Any], match: str, error: type[Exception] = ModelError, **options: Any) -> None:
    with pytest.raises(error, match=match) as caught:
        collapse_trees(model, **options)()
    assert "\n" not in str(caught.value)


def of_trees(likelihood: Callable[[Tensor], Tensor], words: Tensor = WORDS) -> Callable[[], None]:
    def model() -> None:
        with pyro.plate("sentences", len(words)):
            heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, words))
            pyro.factor("evidence", likelihood(heads))

    return model


NOT_SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "pairs of siblings": lambda heads: 0.1 * (heads[..., 1:] == heads[..., :-1]).sum(-1),
    "one pair of siblings": lambda heads: 0.1 * (heads[..., 2] == heads[..., 1]) * (heads[..., 2] == 1),
    "grandparents": lambda heads: 0.1 * (of_heads(torch.nn.functional.pad(heads, (1, 0)), heads) == 2).sum(-1),
    "roots": lambda heads: ((heads == 0).sum(-1) == 1) * 0.3,
    "other sentences": lambda heads: 0.1 * (heads[..., 0] * heads[..., 0].roll(1, -1)),
}


@pytest.mark.parametrize("name", NOT_SUMS)
def test_likelihoods_that_do_not_factorise(name: str) -> None:
    torch.manual_seed(3)
    refused(of_trees(NOT_SUMS[name]), "needs a likelihood that is a sum over words.*'evidence' is off by")


def test_refusals() -> None:
    refused(of_trees(lambda heads: (heads[:, 0] == 0).double()), "stacked")
    refused(of_trees(lambda heads: (heads[..., 0] == 0).double().mean()), "'evidence' has another log probability when")
    refused(of_trees(lambda heads: torch.rand(len(WORDS)) * heads[..., 0]), "needs a likelihood|another log prob")
    refused(of_trees(lambda heads: torch.full(heads.shape[:-1], -torch.inf)), "that is finite for every")
    refused(lambda: None, "no latent site of trees", ValueError)
    refused(padded_batch, r"no latent site of trees \['tree'\] in", ValueError, sites="heads tree".split())


def test_other_derivations_are_refused() -> None:
    grammar = CFG.from_string("S -> 'a' S | 'a'")

    def model() -> None:
        pyro.sample("parse", grammar.derivation({"rules": torch.tensor([0.5, 0.5])}, torch.tensor([0, 0])))

    refused(model, "not the PCFGDerivation of site 'parse'; an observed Sentence site")


def test_sites_that_only_some_trees_have_are_refused() -> None:
    def model() -> None:
        heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, WORDS[0]))
        if heads.shape == (3,) and int(heads[0]) == 0:
            pyro.sample("more", dist.Normal(0.0, 1.0), obs=torch.ones(()))

    for seed in range(4):
        torch.manual_seed(seed)
        refused(model, "needs the same sites for all trees")


def test_scales_and_masks_that_differ_are_refused() -> None:
    def model(scale: float = 1.0, mask: bool = True) -> None:
        with pyro.plate("sentences", len(WORDS)):
            with poutine.mask(mask=torch.tensor([True, True, True, mask])):
                heads = pyro.sample("heads", GRAMMAR.derivation(UNIFORM, WORDS))
            with poutine.scale(scale=scale):
                pyro.factor("tokens", 0.1 * heads[..., 0])

    refused(lambda: model(scale=2.0), "one scale for a tree and its likelihood, but that of site 'tokens'")
    refused(lambda: model(mask=False), "site 'heads' is masked where its likelihood is not")


def test_the_random_state_is_that_of_the_model() -> None:
    values = latent_values(padded_batch)
    states = []
    for model in (padded_batch, collapse_trees(padded_batch)):
        torch.manual_seed(0)
        log_joint(model, values)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
    assert weights().keys() == GRAMMAR.blocks.keys()
