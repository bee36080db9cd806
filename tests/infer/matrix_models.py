# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The rows and the columns of the matrix in docs/priors-and-inferences.md: priors of any grammar, and grammars."""

from collections.abc import Callable, Iterator
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from oracle import all_trees
from own_grammars import dmv
from priors.prior_cases import covariances, features, outcomes
from priors.small_grammars import SMALL, Event, Small
from pyro.distributions import constraints
from torch import Tensor

from pyrogram.distributions import (
    Experts,
    Gaussian,
    Link,
    PartitionStructure,
    Sentence,
    dirichlet_prior,
    logistic_normal,
    shared_logistic_normal,
)
from pyrogram.distributions.ragged import simplex_of
from pyrogram.grammar import Block, Weights
from pyrogram.priors import (
    NeuralWeights,
    bayesian,
    gaussian_process,
    hierarchical_dirichlet,
    log_linear,
    stick_breaking,
)

Model = Callable[[], None]
Prior = Callable[[str, Block], Tensor]
VALENCES = 3

# ---------------------------------------------------------------------- grammars


def trees_of_three_valences(sentence: list[int]) -> Iterator[list[Event]]:
    """A head knows on either side whether it has no child, one, or more."""
    for heads in all_trees(len(sentence), False):
        found: list[Event] = [("root", (sentence[heads.index(0)],))]
        for h, tag in enumerate(sentence, 1):
            for direction in range(2):
                on_side = [c for c, own in enumerate(heads, 1) if own == h and (c > h) == bool(direction)]
                for v, c in enumerate(on_side):
                    found.append(("stop", (tag, direction, min(v, VALENCES - 1), 0)))
                    found.append(("attach", (tag, direction, sentence[c - 1])))
                found.append(("stop", (tag, direction, min(len(on_side), VALENCES - 1), 1)))
        yield found


GRAMMARS = {**SMALL, "own": Small(dmv(VALENCES, 2), [[0], [1, 0], [0, 1, 1]], trees_of_three_valences)}

# ---------------------------------------------------------------------- priors


def observe(small: Small, weights: Weights, words: Tensor | None = None, name: str = "words") -> None:
    words = small.words if words is None else words
    with pyro.plate(f"{name}.sentences", len(words)):
        pyro.sample(name, Sentence(small.grammar, weights, normalized=False), obs=words)


def blocks_by(prior: Prior, small: Small) -> Weights:
    return {name: prior(name, block) for name, block in small.grammar.blocks.items()}


def of_blocks(prior: Prior) -> Callable[[Small], Model]:
    """Each block has the prior by itself."""
    return lambda small: lambda: observe(small, blocks_by(prior, small))


def waves(*shape: int) -> Tensor:
    """Numbers that differ, between -1 and 1."""
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).cos().reshape(shape)


def maximum_likelihood(name: str, block: Block) -> Tensor:
    return pyro.param(name, block.softmax(waves(*block.shape)), constraint=simplex_of(block))


def asymmetric(name: str, block: Block) -> Tensor:
    return pyro.sample(name, dirichlet_prior(block, 1.5 + waves(*block.shape)))


def broken_sticks(name: str, block: Block) -> Tensor:
    """A hierarchical Dirichlet process: outcomes have one base."""
    own = outcomes(block)
    number = block.shape[-1] if own is None else int(own.max()) + 1
    base = stick_breaking(f"base.{name}", Block(torch.Size([number])), 2.0)
    alpha = (4 * base + 0.1)[..., torch.arange(number) if own is None else own]
    return pyro.sample(name, dirichlet_prior(block, alpha.expand(block.shape)))


def normal(name: str, block: Block) -> Tensor:
    return logistic_normal(name, 0.0, variance=torch.ones(block.shape[-1]), shape=block)


def correlated(name: str, block: Block) -> Tensor:
    """W W' + D of parameters."""
    N = block.shape[-1]
    w = pyro.param(f"{name}.w", waves(N, 1))
    d = pyro.param(f"{name}.d", torch.ones(N), constraint=constraints.positive)
    return logistic_normal(name, 0.0, w @ w.T + d.diag(), shape=block)


def low_rank_normal(name: str, block: Block) -> Tensor:
    R = block.shape.numel()
    eta = pyro.sample(name, dist.LowRankMultivariateNormal(torch.zeros(R), waves(R, 2), torch.ones(R)))
    return block.softmax(eta.reshape(block.shape))


def shared_normals(small: Small) -> Model:
    """Each multinomial is the mean of a Gaussian of its own, and of one that the block shares."""
    blocks, experts, links = small.grammar.blocks, {}, {}
    for name, block in blocks.items():
        numbers = torch.arange(block.shape[:-1].numel()).reshape(block.shape[:-1])
        experts |= {name: Experts(block.shape), f"all.{name}": Experts(block.shape[-1:])}
        links[name] = [Link(name, numbers), Link(f"all.{name}", torch.zeros_like(numbers))]
    structure = PartitionStructure(blocks, experts, links)
    gaussians = {name: Gaussian(torch.zeros(()), None, torch.ones(())) for name in experts}

    def model() -> None:
        found = shared_logistic_normal("shared", gaussians, structure)
        observe(small, found)

    return model


def laplace(name: str, block: Block) -> Tensor:
    return block.softmax(pyro.sample(name, dist.Laplace(torch.zeros(block.shape), 1.0).to_event(len(block.shape))))


def horseshoe(name: str, block: Block) -> Tensor:
    tau = pyro.sample(f"tau.{name}", dist.HalfCauchy(1.0))
    local = pyro.sample(f"local.{name}", dist.HalfCauchy(torch.ones(block.shape)).to_event(len(block.shape)))
    eta = pyro.sample(name, dist.Normal(torch.zeros(block.shape), 1.0).to_event(len(block.shape)))
    return block.softmax(tau * local * eta)


def normals_per_sentence(small: Small) -> Model:
    def model() -> None:
        with pyro.plate("sentences", len(small.words)):
            weights = blocks_by(normal, small)
            pyro.sample("words", Sentence(small.grammar, weights), obs=small.words)

    return model


def shared_number(number: Callable[[], Tensor]) -> Callable[[Small], Model]:
    """A concentration that all blocks have."""

    def row(small: Small) -> Model:
        def model() -> None:
            alpha = number()
            observe(small, blocks_by(lambda n, b: pyro.sample(n, dirichlet_prior(b, alpha)), small))

        return model

    return row


def networks(random: bool) -> Callable[[Small], Model]:
    def row(small: Small) -> Model:
        made: dict[str, Any] = {}
        with torch.random.fork_rng():
            torch.manual_seed(3)
            for name, block in small.grammar.blocks.items():
                network = NeuralWeights(name, block, 2, outcomes=outcomes(block))
                made[name] = bayesian(network, 1.5) if random else network
        return lambda: observe(small, {name: network() for name, network in made.items()})

    return row


def mixture(small: Small) -> Model:
    def model() -> None:
        shares = pyro.sample("shares", dist.Dirichlet(torch.tensor([2.0, 3.0])))
        prior = dirichlet(1.5)
        weights = blocks_by(lambda n, b: torch.stack([prior(f"{n}.{k}", b) for k in range(2)]), small)
        with pyro.plate("sentences", len(small.words)):
            z = pyro.sample("z", dist.Categorical(shares), infer={"enumerate": "parallel"})
            pyro.sample("words", Sentence(small.grammar, {n: w[z] for n, w in weights.items()}), obs=small.words)

    return model


def share_the_first_block(small: Small) -> Model:
    """Two corpora of one alphabet."""
    first, *others = small.grammar.blocks

    def model() -> None:
        prior = dirichlet(1.5)
        shared = prior(first, small.grammar.blocks[first])
        for language, words in languages(small):
            own = {name: prior(f"{name}.{language}", small.grammar.blocks[name]) for name in others}
            observe(small, {first: shared, **own}, words, language)

    return model


def around_a_mean(small: Small) -> Model:
    """Two corpora, whose logits are near to each other."""

    def logits(name: str, block: Block, mean: Tensor) -> Tensor:
        return pyro.sample(name, dist.Normal(mean, 1.0).to_event(len(block.shape)))

    def model() -> None:
        means = blocks_by(lambda n, b: logits(f"mean.{n}", b, torch.zeros(b.shape)), small)
        for language, words in languages(small):
            own = blocks_by(lambda n, b, k=language: b.softmax(logits(f"{n}.{k}", b, means[n])), small)
            observe(small, own, words, language)

    return model


def languages(small: Small) -> list[tuple[str, Tensor]]:
    return [("one", small.words), ("other", small.words[1:].flip(0))]


def compound(small: Small) -> Model:
    """Vectors of sentences move logits (Kim, Dyer and Rush 2019)."""

    def model() -> None:
        tables = {n: pyro.param(f"{n}.table", waves(*b.shape, 2)) for n, b in small.grammar.blocks.items()}
        with pyro.plate("sentences", len(small.words)):
            z = pyro.sample("z", dist.Normal(torch.zeros(2), 1.0).to_event(1))
            weights = {
                name: block.softmax((tables[name] @ z.reshape(-1, *(1 for _ in block.shape[1:]), 2, 1))[..., 0])
                for name, block in small.grammar.blocks.items()
            }
            pyro.sample("words", Sentence(small.grammar, weights), obs=small.words)

    return model


def dirichlet(concentration: float) -> Prior:
    return lambda name, block: pyro.sample(name, dirichlet_prior(block, concentration))


PRIORS: dict[str, Callable[[Small], Model]] = {
    "maximum likelihood (`pyro.param`)": of_blocks(maximum_likelihood),
    "Dirichlet, symmetric, 1.5": of_blocks(dirichlet(1.5)),
    "Dirichlet, asymmetric, some α < 1": of_blocks(asymmetric),
    "Dirichlet, symmetric, 0.1": of_blocks(dirichlet(0.1)),
    "concentration a `pyro.param`": shared_number(
        lambda: pyro.param("alpha", torch.tensor(1.2), constraint=constraints.positive)
    ),
    "concentration ~ Gamma": shared_number(lambda: pyro.sample("alpha", dist.Gamma(2.0, 1.0))),
    "hierarchical Dirichlet": of_blocks(
        lambda n, b: hierarchical_dirichlet(n, b, 8.0, base_concentration=2.0, outcomes=outcomes(b))
    ),
    "hierarchical Dirichlet process, stick-breaking": of_blocks(broken_sticks),
    "logistic normal, one for the corpus": of_blocks(normal),
    "logistic normal for each sentence": normals_per_sentence,
    "logistic normal, Σ = W Wᵀ + D of `pyro.param`s": of_blocks(correlated),
    "low-rank normal and one's own softmax": of_blocks(low_rank_normal),
    "shared logistic normal": shared_normals,
    "Laplace on logits": of_blocks(laplace),
    "horseshoe on logits": of_blocks(horseshoe),
    "Gaussian process": of_blocks(lambda n, b: gaussian_process(n, b, covariances(b))),
    "network": networks(random=False),
    "Bayesian network": networks(random=True),
    "log-linear, features ~ Normal": of_blocks(lambda n, b: log_linear(n, b, features(b), scale=2.0)),
    "log-linear, features `pyro.param`s": of_blocks(lambda n, b: log_linear(n, b, features(b), scale=None)),
    "two grammars, an indicator for each sentence": mixture,
    "two languages that share a block": share_the_first_block,
    "two languages, logits around a latent mean": around_a_mean,
    "compound: a vector for each sentence": compound,
}
