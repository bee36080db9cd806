# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What else priors take: parameters, contexts, shared embeddings, plates of sentences; and what they refuse."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from priors.prior_cases import features, has
from priors.small_grammars import RULES, SMALL
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.nn import PyroModule
from torch import Tensor

from pyrogram import CFG, Block
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammar import PackedBlock
from pyrogram.infer import EM
from pyrogram.priors import (
    NeuralWeights,
    bayesian,
    gaussian_process,
    hierarchical_dirichlet,
    log_linear,
    low_rank,
    stick_breaking,
)

BLOCK = Block(torch.Size([2, 3]))
PACKED = PackedBlock(torch.Size([6]), (3, 1, 2))

# ---------------------------------------------------------------------- sticks


@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_means_of_sticks(gamma: float) -> None:
    """E[w_i] = 1 / (1 + γ) (γ / (1 + γ))^(i-1), and the last one has the rest."""
    with pyro.plate("draws", 20000):
        mean = stick_breaking("w", Block(torch.Size([4])), gamma).mean(0)
    left = gamma / (1 + gamma)
    expected = [*((1 - left) * left**i for i in range(3)), left**3]
    np.testing.assert_allclose(mean, expected, atol=0.01)


def test_sticks_of_one_event() -> None:
    assert torch.equal(stick_breaking("w", Block(torch.Size([2, 1])), 1.0), torch.ones(2, 1))
    assert stick_breaking("v", Block(torch.Size([1])), torch.ones(5, 1)).shape == (5, 1, 1)


@pytest.mark.parametrize("piece", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extreme_sticks(piece: float, dtype: torch.dtype) -> None:
    """Pieces that are rounded to 0 or 1 leave weights that are finite and have a gradient."""
    pieces = torch.full((3,), piece, dtype=dtype, requires_grad=True)
    given = poutine.condition(lambda: stick_breaking("w", PACKED, torch.ones((), dtype=dtype)), {"w.pieces": pieces})
    w = given()
    assert w.dtype == dtype
    expected = [piece, 0.0, 1 - piece, 1.0, piece, 1 - piece]
    torch.testing.assert_close(w, torch.tensor(expected, dtype=dtype), rtol=0, atol=1e-6)
    (slope,) = torch.autograd.grad(w[0] + w[-1].log(), pieces)
    assert bool(torch.isfinite(slope).all())


def test_sticks_of_many_multinomials() -> None:
    """The last ones sum to one as the first do, in single precision."""
    block = PackedBlock(torch.Size([60000]), (3,) * 20000)
    sums = block.sums(stick_breaking("w", block, torch.tensor(0.3, dtype=torch.float32)))
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)


def test_hierarchical_dirichlet_process() -> None:
    """Sticks as the base of Dirichlets, beside particles."""
    with pyro.plate("particles", 3, dim=-2):
        beta = stick_breaking("beta", Block(torch.Size([4])), 1.0)  # (3, 1, 4)
        rows = Block(torch.Size([5, 4]))
        alpha = (6.0 * beta[..., None, :]).expand(3, 1, 5, 4)
        assert pyro.sample("rows", dirichlet_prior(rows, alpha)).shape == (3, 1, 5, 4)


# ---------------------------------------------------------------------- parameters


def test_number_of_features() -> None:
    """One more than the greatest."""
    trace: Any = poutine.trace(log_linear).get_trace("theta", BLOCK, has(BLOCK))
    assert trace.nodes["theta"]["value"].shape == (4,)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("given", [features, has])
def test_log_linear_parameters(given: Callable[[Block], Tensor]) -> None:
    """Maximum likelihood: EM climbs, and its optimum matches the expected features to those of the model."""
    small = SMALL["CFG"]
    block = small.grammar.blocks["rules"]

    def model() -> None:
        weights = {"rules": log_linear("theta", block, given(block), scale=None)}
        with pyro.plate("sentences", len(small.words)):
            pyro.sample("words", Sentence(small.grammar, weights), obs=small.words)

    loop = EM(model, m_steps=20).run(num_steps=80, tolerance=0, progress=False)
    theta = pyro.param("theta").detach().clone().requires_grad_()
    if given is features:
        logits = given(block) @ theta
    else:
        logits = torch.stack([sum(theta[j] for j in row if j >= 0) * 1.0 for row in given(block).tolist()])
    total = small.log_likelihood({"rules": block.softmax(logits)})
    assert loop.step() == pytest.approx(float(total.detach()), rel=1e-6)
    (slope,) = torch.autograd.grad(total, theta)
    assert float(slope.abs().max()) < 1e-2


def neural(grammar: Any, context_size: int = 0) -> PyroModule:
    """A network for each block; tags of the DMV have one table as heads."""

    class Network(PyroModule):
        def __init__(self) -> None:
            super().__init__()
            tags = torch.nn.Embedding(3, 4)
            for name, block in grammar.blocks.items():
                shared = {0: tags} if name in ("attach", "stop") else None
                outcomes = grammar.right_sides if isinstance(grammar, CFG) else None
                made = NeuralWeights(name, block, 4, shared, outcomes=outcomes, context_size=context_size)
                setattr(self, name, made)

        def forward(self, words: Tensor) -> None:
            with pyro.plate("sentences", len(words)):
                z = (
                    pyro.sample("z", pyro.distributions.Normal(torch.zeros(2), 1.0).to_event(1))
                    if context_size
                    else None
                )
                weights = {name: getattr(self, name)(z) for name in grammar.blocks}
                pyro.sample("words", Sentence(grammar, weights), obs=words)

    return Network()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("grammar", SMALL)
def test_networks_under_em(grammar: str) -> None:
    small = SMALL[grammar]
    loop = EM(neural(small.grammar), m_steps=3).run(small.words, num_steps=3, progress=False)
    expected = float(small.log_likelihood(loop.weights()))
    assert loop.step(small.words) == pytest.approx(expected, rel=1e-9)
    assert all(b >= a - 1e-9 * abs(a) for a, b in zip(loop.history, loop.history[1:], strict=False))


@pytest.mark.parametrize("grammar", SMALL)
def test_networks_under_svi(grammar: str) -> None:
    """Every parameter is found, and moves."""
    small = SMALL[grammar]
    model = neural(small.grammar, context_size=2)

    def guide(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            pyro.sample("z", pyro.distributions.Normal(torch.zeros(2), 1.0).to_event(1))

    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())  # type: ignore[attr-defined]
    svi.step(small.words)
    assert len(pyro.get_param_store()) == len(before)
    assert all(not torch.equal(value, before[name]) for name, value in model.named_parameters())


@pytest.mark.parametrize("grammar", SMALL)
def test_context(grammar: str) -> None:
    """Weights of each sentence are those of its own context."""
    for name, block in SMALL[grammar].grammar.blocks.items():
        network = NeuralWeights(name, block, 4, context_size=2)
        z = torch.randn(5, 3, 2)
        together = network(z)
        assert together.shape == (5, 3, *block.shape)
        torch.testing.assert_close(together[4, 1], network(z[4, 1]))
        assert not torch.allclose(together[4, 1], together[0, 0])


def test_shared_embeddings() -> None:
    """One table, one parameter; of a Bayesian network, one site."""
    names = dict(neural(SMALL["DMV"].grammar).named_parameters())
    assert sum(value.shape == (3, 4) and "embeddings.0" in name for name, value in names.items()) == 2  # tags; root's
    trace: Any = poutine.trace(bayesian(neural(SMALL["DMV"].grammar))).get_trace(SMALL["DMV"].words)
    assert len([name for name in trace.stochastic_nodes if "." in name]) == len(names)


def test_standalone_networks_have_names() -> None:
    names = {"a", "b"}
    networks = {name: NeuralWeights(name, BLOCK, 2) for name in names}
    trace: Any = poutine.trace(lambda: [network() for network in networks.values()]).get_trace()
    assert {name.split(".")[0] for name in trace.param_nodes} == names


# ---------------------------------------------------------------------- right sides of rules


def test_right_sides() -> None:
    grammar = CFG([("S", ["A", "B"]), ("A", ["B", "A"]), ("A", ["a"]), ("B", ["a"]), ("B", ["A", "B"])])
    assert grammar.right_sides.tolist() == [0, 1, 2, 2, 0]
    assert pickle.loads(pickle.dumps(grammar)).right_sides.tolist() == [0, 1, 2, 2, 0]
    terminal = CFG.from_string("S -> A | 'A'\nA -> 'a'")
    assert terminal.right_sides.tolist() == [0, 1, 2]


def test_outcomes_are_shared() -> None:
    """Multinomials with the same outcomes and a large concentration have the same weights."""
    grammar = CFG.from_string("S -> A B\nA -> 'a' | 'b' | 'c'\nB -> 'a' | 'b' | 'c'")
    w = hierarchical_dirichlet("w", grammar.blocks["rules"], 1e8, outcomes=grammar.right_sides)
    torch.testing.assert_close(w[1:4], w[4:7], rtol=0, atol=1e-2)


# ---------------------------------------------------------------------- plates and dtypes


@pytest.mark.parametrize("grammar", SMALL)
def test_weights_for_each_sentence(grammar: str) -> None:
    small = SMALL[grammar]
    for name, block in small.grammar.blocks.items():
        with pyro.plate("sentences", 3):
            shape = (3, *block.shape)
            assert hierarchical_dirichlet(f"{name}h", block, 2.0).shape == shape
            assert stick_breaking(f"{name}s", block, 2.0).shape == shape
            assert gaussian_process(f"{name}g", block, {0: torch.eye(block.shape[0])}).shape == shape
            assert low_rank(f"{name}r", block, 2).shape == shape
            assert log_linear(f"{name}l", block, features(block)).shape == shape


@pytest.mark.parametrize("block", [BLOCK, PACKED], ids=["plain", "packed"])
def test_dtypes_of_tensors_are_kept(block: Block) -> None:
    """Of single precision, where the default is double."""
    two = torch.tensor(2.0, dtype=torch.float32)
    n = block.shape[-1]
    for w in (
        hierarchical_dirichlet("h", block, two, base_concentration=two),
        hierarchical_dirichlet("i", block, two),
        hierarchical_dirichlet("j", block, 2.0, base_concentration=two),
        stick_breaking("s", block, two),
        gaussian_process("f", block, {-1: torch.eye(n, dtype=torch.float32)}),
        gaussian_process("g", block, {-1: torch.eye(n, dtype=torch.float32)}, scale=two),
        low_rank("r", block, 2, scale=two),
        log_linear("l", block, features(block).float()),
        log_linear("m", block, has(block), scale=two),
    ):
        assert w.dtype == torch.float32
        torch.testing.assert_close(block.sums(w), torch.ones_like(block.sums(w)))


def test_singular_covariance() -> None:
    """Two tags that are the same have the same row."""
    same = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    for dtype in (torch.float32, torch.float64):
        w = gaussian_process(f"w{dtype}", BLOCK, {0: same.to(dtype)})
        torch.testing.assert_close(w[0], w[1], rtol=0.2, atol=0)


# ---------------------------------------------------------------------- errors


def test_errors() -> None:
    covariance = torch.eye(3)
    with pytest.raises(
        ValueError, match=r"'w' must be given once for each of the dimensions 0..1 at most, not for \[2\]"
    ):
        gaussian_process("w", BLOCK, {2: covariance})
    with pytest.raises(ValueError, match="given once"):
        gaussian_process("w", BLOCK, {1: covariance, -1: covariance})
    with pytest.raises(ValueError, match=r"dimension 0 of 'w' must have shape \(..., 2, 2\), not \(3, 3\)"):
        gaussian_process("w", BLOCK, {0: covariance})
    with pytest.raises(ValueError, match=r"features of 'w' must have shape .* not \(3, 2\)"):
        log_linear("w", BLOCK, torch.ones(3, 2))
    with pytest.raises(ValueError, match="outcomes are given for a plain block"):
        low_rank("w", BLOCK, 2, outcomes=torch.arange(3))
    for wrong in (torch.arange(5), torch.arange(6.0), torch.arange(6) - 1):
        with pytest.raises(ValueError, match="outcomes must be whole numbers from 0, one for each of 6 events"):
            hierarchical_dirichlet("w", PACKED, 1.0, outcomes=wrong)
    for embeddings in ({0: 3}, {2: 2}, {1: 3, -1: 3}):
        tables = {dim: torch.nn.Embedding(n, 4) for dim, n in embeddings.items()}
        with pytest.raises(
            ValueError, match=r"embeddings may be given once for each of the dimensions 0..1, of shapes"
        ):
            NeuralWeights("w", BLOCK, 4, tables)
    with pytest.raises(ValueError, match=r"context must have shape \(..., 2\), but is missing"):
        NeuralWeights("w", BLOCK, 4, context_size=2)()
    with pytest.raises(ValueError, match=r"context must have shape \(..., 0\), but is of shape \(5, 1\)"):
        NeuralWeights("w", BLOCK, 4)(torch.ones(5, 1))


def test_random_numbers_are_left_alone() -> None:
    """By what draws nothing."""
    torch.manual_seed(5)
    reference = torch.rand(2)
    torch.manual_seed(5)
    log_linear("w", BLOCK, features(BLOCK), scale=None)
    assert RULES.right_sides is not None
    assert torch.equal(torch.rand(2), reference)
