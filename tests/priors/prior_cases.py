# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every prior on every block of small grammars; and by explicit loops, what it draws with which density."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from priors.small_grammars import RULES, Small
from scipy import stats
from torch import Tensor

from pyrogram import Block
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammar import PackedBlock
from pyrogram.priors import (
    NeuralWeights,
    bayesian,
    gaussian_process,
    hierarchical_dirichlet,
    log_linear,
    low_rank,
    stick_breaking,
)

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A prior of blocks.

    :param draw: name and block to weights.
    :param truth: name, block and values of the sites to the log density of these and to weights.
    """

    draw: Callable[[str, Block], Tensor]
    truth: Callable[[str, Block, Values], tuple[float, np.ndarray]]


def multinomials(block: Block) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Number and events of each multinomial; an event is its index in the block."""
    if isinstance(block, PackedBlock):
        first = 0
        for k, size in enumerate(block.sizes):
            yield k, [(i,) for i in range(first, first + size)]
            first += size
    else:
        for k, row in enumerate(np.ndindex(block.shape[:-1])):
            yield k, [(*row, i) for i in range(block.shape[-1])]


def outcomes(block: Block) -> Tensor | None:
    return RULES.right_sides if isinstance(block, PackedBlock) else None


def outcome(block: Block, event: tuple[int, ...]) -> int:
    """Rules with the same right side are the same outcome."""
    if not isinstance(block, PackedBlock):
        return event[-1]
    right = [tuple((type(s).__name__, str(s)) for s in r) for _, r in RULES.rules]
    return list(dict.fromkeys(right)).index(right[event[0]])


def softmaxes(block: Block, logits: np.ndarray) -> np.ndarray:
    found = np.zeros(logits.shape)
    for _, events in multinomials(block):
        total = math.fsum(math.exp(logits[e]) for e in events)
        for e in events:
            found[e] = math.exp(logits[e]) / total
    return found


def normal(x: np.ndarray, scale: float = 1.0) -> float:
    return float(stats.norm(0, scale).logpdf(x).sum())


# ---------------------------------------------------------------------- Dirichlets


def dirichlets(block: Block, w: np.ndarray, alpha: np.ndarray) -> float:
    total = 0.0
    for _, events in multinomials(block):
        if len(events) > 1:
            p = np.array([w[e] for e in events])
            total += stats.dirichlet([alpha[e] for e in events]).logpdf(p / p.sum())
    return total


def plain(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    return dirichlets(block, values[name], np.full(block.shape, 1.5)), values[name]


def hierarchical(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    base = values[f"base.{name}"]
    alpha = np.zeros(block.shape)
    for _, events in multinomials(block):
        for e in events:
            alpha[e] = 8.0 * base[outcome(block, e)]
    return stats.dirichlet(np.full(len(base), 2.0)).logpdf(base) + dirichlets(block, values[name], alpha), values[name]


def sticks(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    pieces = values[f"{name}.pieces"]
    flat, found, number = pieces.reshape(-1), np.zeros(block.shape), 0
    for _, events in multinomials(block):
        left = 1.0
        for e in events[:-1]:
            found[e] = flat[number] * left
            left *= 1 - flat[number]
            number += 1
        found[events[-1]] = left
    return float(stats.beta(1.0, 2.0).logpdf(pieces).sum()), found


# ---------------------------------------------------------------------- logits


def covariances(block: Block) -> dict[int, Tensor]:
    """Of the first and the last dimension, if there are two."""

    def kernel(n: int) -> Tensor:
        at = torch.arange(float(n))
        return (-((at - at[:, None]) ** 2) / 8).exp() + 0.1 * torch.eye(n)

    return {dim: kernel(block.shape[dim]) for dim in ((0, -1) if len(block.shape) > 1 else (-1,))}


def means(block: Block) -> Tensor:
    return torch.arange(float(block.shape[-1])).sin()


def process(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    z = values[f"{name}.z"]
    whole = np.ones((1, 1))
    for dim, n in enumerate(block.shape):
        found = [k.numpy() for d, k in covariances(block).items() if d % len(block.shape) == dim]
        k = found[0] if found else np.eye(n)
        jitter = math.sqrt(np.finfo(z.dtype).eps) * np.trace(k) / n if found else 0.0
        whole = np.kron(whole, np.linalg.cholesky(k + jitter * np.eye(n)))
    return normal(z), softmaxes(block, means(block).numpy() + 1.5 * (whole @ z.reshape(-1)).reshape(block.shape))


def factors(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    rows, columns = values[f"{name}.rows"].reshape(-1, 2), values[f"{name}.columns"]
    logits = np.zeros(block.shape)
    for k, events in multinomials(block):
        for e in events:
            logits[e] = 1.5 / math.sqrt(2) * math.fsum(rows[k] * columns[outcome(block, e)])
    return normal(rows) + normal(columns), softmaxes(block, logits)


def features(block: Block) -> Tensor:
    return torch.linspace(-1, 1, block.shape.numel() * 3).reshape(*block.shape, 3).cos()


def has(block: Block) -> Tensor:
    """Two features of each event, some of which are none."""
    numbers = torch.arange(block.shape.numel() * 2) % 5 - 1
    return numbers.reshape(*block.shape, 2)


def summed(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    f, theta = features(block).numpy(), values[name]
    logits = np.zeros(block.shape)
    for e in np.ndindex(*block.shape):
        logits[e] = math.fsum(f[e] * theta)
    return normal(theta, 2.0), softmaxes(block, logits)


def counted(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    numbers, theta = has(block), values[name]
    logits = np.zeros(block.shape)
    for e in np.ndindex(*block.shape):
        logits[e] = math.fsum(theta[j] for j in numbers[e].tolist() if j >= 0)
    return normal(theta, 2.0), softmaxes(block, logits)


# ---------------------------------------------------------------------- networks

NETWORKS: dict[str, Any] = {}


def network(name: str, block: Block, random: bool) -> Tensor:
    """The same network at every run, by name; of the dtype that is the default when it is made."""
    key = f"{name} {block} {random} {torch.get_default_dtype()}"
    if key not in NETWORKS:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            made = NeuralWeights(name, block, 3, outcomes=outcomes(block))
        NETWORKS[key] = bayesian(made, 1.5) if random else made
    found: Tensor = NETWORKS[key]()
    return found


def layers(name: str, block: Block, values: Values) -> tuple[float, np.ndarray]:
    def value(part: str) -> np.ndarray:
        return values[f"{name}.{part}"]

    one = len(block.shape) == 1 and not isinstance(block, PackedBlock)
    last = 0 if one else 1 if isinstance(block, PackedBlock) else len(block.shape) - 1
    logits, columns = np.zeros(block.shape), value(f"embeddings.{last}.weight")
    for k, events in multinomials(block):
        index = (k,) if isinstance(block, PackedBlock) else events[0][:-1]
        vectors = [value("only")] if one else [value(f"embeddings.{d}.weight")[i] for d, i in enumerate(index)]
        hidden = np.maximum(value("hidden.weight") @ np.concatenate(vectors) + value("hidden.bias"), 0)
        for e in events:
            logits[e] = hidden @ columns[outcome(block, e)] / math.sqrt(3) + value("bias")[outcome(block, e)]
    density = 0.0
    for site, x in values.items():
        if site.startswith(f"{name}."):
            density += normal(x, 1.5 / math.sqrt(x.shape[-1]) if site.endswith("hidden.weight") else 1.5)
    return density, softmaxes(block, logits)


CASES = {
    "dirichlet": Case(lambda n, b: pyro.sample(n, dirichlet_prior(b, 1.5)), plain),
    "hierarchical_dirichlet": Case(
        lambda n, b: hierarchical_dirichlet(n, b, 8.0, base_concentration=2.0, outcomes=outcomes(b)), hierarchical
    ),
    "stick_breaking": Case(lambda n, b: stick_breaking(n, b, 2.0), sticks),
    "gaussian_process": Case(lambda n, b: gaussian_process(n, b, covariances(b), loc=means(b), scale=1.5), process),
    "low_rank": Case(lambda n, b: low_rank(n, b, 2, scale=1.5, outcomes=outcomes(b)), factors),
    "log_linear": Case(lambda n, b: log_linear(n, b, features(b), scale=2.0), summed),
    "log_linear of numbers": Case(lambda n, b: log_linear(n, b, has(b), scale=2.0), counted),
    "bayesian network": Case(lambda n, b: network(n, b, True), layers),
}

#: Priors whose numbers are drawn, too, each of another kind.
RANDOM = {
    "dirichlet": lambda n, b, x: pyro.sample(n, dirichlet_prior(b, x)),
    "hierarchical_dirichlet": lambda n, b, x: hierarchical_dirichlet(
        n, b, x, base_concentration=x, outcomes=outcomes(b)
    ),
    "stick_breaking": lambda n, b, x: stick_breaking(n, b, x),
    "gaussian_process": lambda n, b, x: gaussian_process(
        n, b, {d: k + x[..., None, None] for d, k in covariances(b).items()}, scale=x
    ),
    "low_rank": lambda n, b, x: low_rank(n, b, 2, scale=x, outcomes=outcomes(b)),
    "log_linear": lambda n, b, x: log_linear(n, b, features(b), scale=x),
    "log_linear of numbers": lambda n, b, x: log_linear(n, b, has(b), scale=x),
}


def model_of(small: Small, draw: Callable[[str, Block], Tensor]) -> Callable[..., None]:
    def model(words: Tensor | None = None, size: int = 4) -> None:
        weights = {name: draw(name, block) for name, block in small.grammar.blocks.items()}
        with pyro.plate("sentences", size if words is None else len(words)):
            pyro.sample("words", Sentence(small.grammar, weights, max_length=6, too_long="truncate"), obs=words)

    return model


def with_a_number(small: Small, draw: Callable[[str, Block, Tensor], Tensor]) -> Callable[..., None]:
    def model(words: Tensor | None = None) -> None:
        number = pyro.sample("number", dist.LogNormal(0.5, 0.3))
        model_of(small, lambda n, b: draw(n, b, number))(words)

    return model
