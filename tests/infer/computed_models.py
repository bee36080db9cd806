# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models whose weights are computed, on a corpus whose trees are listed; and the log joint of each, by the list."""

from collections.abc import Callable, Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from infer.small_corpora import CORPORA, padded
from infer.tree_sums import derivations, shapes
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.nn import PyroModule, PyroSample
from torch import Tensor

from pyrogram import DMV
from pyrogram.distributions import Sentence, dirichlet_prior, logistic_normal
from pyrogram.grammar import Weights

V, CORPUS = CORPORA["three tags"]
GRAMMAR, WORDS = DMV(V), padded(CORPUS)
BLOCKS = GRAMMAR.blocks
FEATURES = torch.linspace(-1, 1, V * 2 * V * 4, dtype=torch.float64).reshape(V, 2, V, 4).cos()


def observe(weights: Mapping[str, Tensor], words: Tensor = WORDS) -> None:
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, dict(weights), normalized=False), obs=words)


def dirichlets(*names: str, alpha: float = 1.5) -> Weights:
    return {name: pyro.sample(name, dirichlet_prior(BLOCKS[name], alpha)) for name in names}


# ---------------------------------------------------------------------- models


def softmax_of_normals() -> None:
    eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.5).to_event(3))
    observe({**dirichlets("root", "stop"), "attach": eta.softmax(-1)})


def laplace_everywhere() -> None:
    logits = {
        n: pyro.sample(n, dist.Laplace(torch.zeros(b.shape), 1.0).to_event(b.batch_dim + 1)) for n, b in BLOCKS.items()
    }
    observe({name: x.softmax(-1) for name, x in logits.items()})


def horseshoe() -> None:
    tau = pyro.sample("tau", dist.HalfCauchy(1.0))
    local = pyro.sample("local", dist.HalfCauchy(torch.ones(V, 2, V)).to_event(3))
    eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.0).to_event(3))
    observe({**dirichlets("root", "stop"), "attach": (eta * tau * local).softmax(-1)})


def low_rank() -> None:
    shape = V * 2 * V
    normal = dist.LowRankMultivariateNormal(torch.zeros(shape), torch.ones(shape, 2) / 2, torch.ones(shape))
    observe({**dirichlets("root", "stop"), "attach": pyro.sample("eta", normal).reshape(V, 2, V).softmax(-1)})


def gaussian_process() -> None:
    points = torch.arange(float(V))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
    kernel = (-0.5 * (points - points[:, None]) ** 2 / scale**2).exp() + 1e-4 * torch.eye(V)
    eta = pyro.sample("eta", dist.MultivariateNormal(torch.zeros(V, 2, V), kernel).to_event(2))
    observe({**dirichlets("root", "stop"), "attach": eta.softmax(-1)})


def features() -> None:
    theta = pyro.param("theta", torch.zeros(4))
    observe({**dirichlets("root", "stop"), "attach": (FEATURES @ theta).softmax(-1)})


def features_with_a_prior() -> None:
    theta = pyro.sample("theta", dist.Normal(torch.zeros(4), 2.0).to_event(1))
    observe({**dirichlets("root", "stop"), "attach": (FEATURES @ theta).softmax(-1)})


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tags = torch.nn.Parameter(torch.randn(V, 3, generator=torch.Generator().manual_seed(1)).double())
        self.out = torch.nn.Linear(3, 2 * V).double()
        torch.nn.init.constant_(self.out.bias, 0.1)

    def forward(self) -> Tensor:
        logits: Tensor = self.out(self.tags.tanh()).reshape(V, 2, V)
        return logits.softmax(-1)


def network() -> Callable[[], None]:
    net = Net()

    def model() -> None:
        observe({**dirichlets("root", "stop"), "attach": pyro.module("net", net)()})

    return model


def bayesian_network() -> Callable[[], None]:
    class Layer(PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight: Any = PyroSample(dist.Normal(torch.zeros(V, 2 * V), 1.0).to_event(2))

        def forward(self) -> None:
            observe({**dirichlets("root", "stop"), "attach": self.weight.tanh().reshape(V, 2, V).softmax(-1)})

    return Layer()


def logistic_normal_of_the_corpus() -> None:
    attach = logistic_normal("attach", torch.zeros(V, 2, V), covariance=0.5 + torch.eye(V), shape=BLOCKS["attach"])
    observe({**dirichlets("root", "stop"), "attach": attach})


def a_root_for_each_sentence() -> None:
    weights = dirichlets("attach", "stop")
    table = pyro.param("table", torch.eye(2, V))
    with pyro.plate("sentences", len(WORDS)):
        z = pyro.sample("z", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        pyro.sample("words", Sentence(GRAMMAR, {**weights, "root": (z @ table).softmax(-1)}), obs=WORDS)


def smoothed() -> None:
    weights = dirichlets("root", "attach", "stop")
    observe({**weights, "stop": 0.9 * weights["stop"] + 0.05})


def backing_off() -> None:
    """A multinomial that is a block itself, and part of another one."""
    weights = dirichlets("root", "attach", "stop")
    observe({**weights, "attach": 0.6 * weights["attach"] + 0.4 * weights["root"]})


def with_other_sites() -> None:
    """A regulariser, a number that is observed, and one that is not."""
    weights = dirichlets("root", "attach", "stop")
    pyro.factor("penalty", -(weights["root"] ** 2).sum())
    height = pyro.sample("height", dist.Normal(0.0, 1.0))
    pyro.sample("seen", dist.Normal(height, 1.0), obs=torch.tensor(0.6))
    observe(weights)


def tied_and_computed() -> None:
    rows = pyro.sample("rows", dist.Dirichlet(1.5 * torch.ones(2, 2, V)).to_event(2))
    theta = pyro.param("theta", torch.ones(2, 2, 2) / 5)
    stop = torch.stack([theta.sigmoid(), (-theta).sigmoid()], -1)[0].expand(V, 2, 2, 2)
    observe({**dirichlets("root"), "attach": rows[torch.tensor([0, 1, 0])], "stop": stop})


def beta_stops() -> None:
    p = pyro.sample("p", dist.Beta(torch.full((V, 2), 3.0), 1.5).to_event(2))
    eta = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1))
    stop = torch.stack([1 - p, p], -1)[:, :, None].expand(V, 2, 2, 2)
    observe({**dirichlets("attach"), "root": eta.softmax(-1), "stop": stop})


def delta() -> None:
    """A Delta has the value that it is made of."""
    theta = pyro.sample("theta", dist.Delta(pyro.param("theta.loc", torch.ones(4) / 3), event_dim=1))
    observe({**dirichlets("root", "stop"), "attach": (FEATURES @ theta).softmax(-1)})


def moving_support() -> None:
    width = pyro.sample("width", dist.LogNormal(0.0, 1.0))
    slope = pyro.sample("slope", dist.Uniform(torch.zeros(()), 2 * width))
    observe({**dirichlets("root", "stop"), "attach": (slope * torch.arange(3.0).expand(V, 2, V)).softmax(-1)})


def observed_value_that_is_latent() -> None:
    weights = dirichlets("root", "attach", "stop")
    pyro.sample("x", dist.Dirichlet(torch.tensor([5.0, 1.0, 1.0])), obs=weights["root"])
    observe(weights)


def conditioned() -> None:
    poutine.condition(lambda: observe(dirichlets("root", "stop", "attach")), {"stop": HALVES})()


HALVES = torch.full((V, 2, 2, 2), 0.5, dtype=torch.float64)


def masked_documents() -> None:
    """Sentences in plates within plates, masked by document."""
    weights = dirichlets("root", "stop", "attach")
    words = WORDS[torch.tensor([[0, 1], [2, 0]])]
    with pyro.plate("documents", 2), poutine.mask(mask=torch.tensor([True, False])):
        pyro.sample("words", Sentence(GRAMMAR, weights).expand([2, 2]).to_event(1), obs=words)


def masked_prior_without_a_mode() -> None:
    with poutine.mask(mask=False):
        weights = dirichlets("root", "stop", "attach", alpha=0.5)
    observe(weights)


def tempered() -> None:
    with poutine.scale(scale=0.5):
        softmax_of_normals()


def tempered_dirichlets() -> None:
    with poutine.scale(scale=0.25):
        weights = dirichlets("root", "stop", "attach")
    with poutine.scale(scale=2.0):
        observe(weights)


def masked_sentences() -> None:
    weights = dirichlets("root", "stop", "attach")
    with pyro.plate("sentences", len(WORDS)), poutine.mask(mask=torch.tensor([True, False, True])):
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def masked_prior() -> None:
    with poutine.mask(mask=False):
        weights = dirichlets("root", "stop", "attach", alpha=3.0)
    observe(weights)


MODELS: dict[str, Callable[[], Callable[[], None]]] = {
    **{
        model.__name__: lambda model=model: model
        for model in (
            softmax_of_normals,
            laplace_everywhere,
            horseshoe,
            low_rank,
            gaussian_process,
            features,
            features_with_a_prior,
            logistic_normal_of_the_corpus,
            a_root_for_each_sentence,
            smoothed,
            backing_off,
            with_other_sites,
            tied_and_computed,
            beta_stops,
            delta,
            moving_support,
            observed_value_that_is_latent,
            conditioned,
            masked_documents,
            masked_prior_without_a_mode,
            tempered,
            tempered_dirichlets,
            masked_sentences,
            masked_prior,
        )
    },
    "network": network,
    "bayesian_network": bayesian_network,
}

# ---------------------------------------------------------------------- concentrations that are no numbers


def sparse() -> None:
    observe(dirichlets("root", "attach", "stop", alpha=0.3))


def a_concentration() -> None:
    alpha = pyro.sample("alpha", dist.Gamma(2.0, 1.0))
    weights = {n: pyro.sample(n, dirichlet_prior(BLOCKS[n], alpha * torch.ones(()))) for n in ("root", "attach")}
    observe({**weights, **dirichlets("stop")})


def learnt_concentration() -> None:
    alpha = pyro.param("alpha", torch.tensor(1.7), constraint=dist.constraints.positive)
    attach = pyro.sample("attach", dist.Dirichlet(alpha * torch.ones(V, 2, V)).to_event(2))
    observe({**dirichlets("root", "stop"), "attach": attach})


def hierarchical_dirichlet() -> None:
    base = pyro.sample("base", dist.Dirichlet(2 * torch.ones(V)))
    with pyro.plate("heads", V):
        attach = pyro.sample("attach", dist.Dirichlet((4 * base).expand(2, V)).to_event(1).expand([V]))
    observe({**dirichlets("root", "stop", alpha=0.5), "attach": attach})


def stick_breaking() -> None:
    sticks = pyro.sample("sticks", dist.Beta(torch.ones(V - 1), 1.5).to_event(1))
    rest = torch.cat([torch.ones(1), (1 - sticks).cumprod(-1)])
    base = torch.cat([sticks, torch.ones(1)]) * rest
    attach = pyro.sample("attach", dist.Dirichlet((3 * base + 0.1).expand(V, 2, V)).to_event(2))
    stop = pyro.sample("p", dist.Beta(0.5 + sticks[0], torch.full((V, 2, 2), 0.7)).to_event(3))
    observe({**dirichlets("root"), "attach": attach, "stop": torch.stack([1 - stop, stop], -1)})


#: Without a mode, unless densities are those of unconstrained coordinates.
MODELESS: dict[str, Callable[[], None]] = {
    model.__name__: model
    for model in (sparse, a_concentration, learnt_concentration, hierarchical_dirichlet, stick_breaking)
}

# ---------------------------------------------------------------------- the truth


def log_joint(model: Callable[[], None], latents: Mapping[str, Tensor]) -> Tensor:
    """log p(sentences, latent sites) with all trees listed; differentiable in the latent values and in parameters."""
    nodes: dict[str, Any] = dict(poutine.trace(poutine.condition(model, dict(latents))).get_trace().nodes)
    total = torch.zeros(())
    for name, site in nodes.items():
        if site["type"] != "sample" or site["infer"].get("_deterministic", False):
            continue
        if name == "words" and isinstance(site["fn"], Sentence):
            each = sentences(site["fn"].weights)
        elif name == "words":  # documents of the first and second, and of the third and first sentence
            each = sentences(site["fn"].base_dist.weights)[torch.tensor([[0, 1], [2, 0]])].sum(-1)
        elif type(site["fn"]).__name__ == "_Subsample":
            continue
        else:
            each = site["fn"].log_prob(site["value"])
        total = total + scale_and_mask(each, site["scale"], site["mask"]).sum()
    return total


def sentences(weights: Mapping[str, Tensor]) -> Tensor:
    ones = {name: torch.ones(shape).numpy() for name, shape in shapes(V, False).items()}
    found = []
    for i, sentence in enumerate(CORPUS):
        own = {n: w[i] if w.dim() > len(BLOCKS[n].shape) else w for n, w in weights.items()}
        terms = []
        for _, counts in derivations(sentence, ones):
            f = {n: torch.tensor(c) for n, c in counts.items()}
            terms.append(sum((f[n][f[n] > 0] * own[n][f[n] > 0].log()).sum() for n in f))
        found.append(torch.stack(terms).logsumexp(0))
    return torch.stack(found)


def expected(weights: Mapping[str, Tensor]) -> Weights:
    """Expected counts, by listing trees."""
    leaves = {n: w.detach().log().requires_grad_() for n, w in weights.items()}
    total = sentences({n: x.exp() for n, x in leaves.items()}).sum()
    return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
