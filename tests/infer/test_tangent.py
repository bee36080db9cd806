# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The tangent of log Z against lists of trees."""

from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from infer.computed_models import BLOCKS, GRAMMAR, WORDS, V, expected, observe, sentences
from pyro import poutine
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.infer import tangent

pytestmark = pytest.mark.usefixtures("doubles")


def test_tangent() -> None:
    """It touches log Z where counts were expected, with the same gradient, and is below it elsewhere."""
    eta = torch.randn(V, 2, V, requires_grad=True)
    fixed = {n: BLOCKS[n].uniform(torch.ones(())) for n in ("root", "stop")}

    def model(eta: Tensor) -> None:
        observe({**fixed, "attach": eta.softmax(-1)})

    def value(of: Callable[..., Any], x: Tensor) -> Tensor:
        total: Tensor = poutine.trace(of).get_trace(x).log_prob_sum()
        return total

    weights = {**fixed, "attach": eta.softmax(-1)}
    log_z = sentences(weights).sum()
    line = tangent(model, {"words": expected(weights)})
    (slope,) = torch.autograd.grad(value(line, eta), eta)
    (exact,) = torch.autograd.grad(log_z, eta)
    torch.testing.assert_close(slope, exact)
    for _ in range(20):
        other = eta.detach() + torch.randn(V, 2, V)
        risen = sentences({**fixed, "attach": other.softmax(-1)}).sum() - log_z
        assert float((value(line, other) - value(line, eta)).detach()) <= float(risen.detach()) + 1e-12
    trace = poutine.trace(line).get_trace(eta)
    assert torch.equal(trace.nodes["words"]["value"], WORDS)
    with poutine.scale(scale=3.0):
        torch.testing.assert_close(value(line, eta), 3 * trace.log_prob_sum())


def test_tangent_of_each_sentence() -> None:
    weights = {n: BLOCKS[n].uniform(torch.ones(())) for n in ("attach", "stop")}
    root = torch.randn(len(WORDS), V).softmax(-1)
    counts = {"attach": torch.ones(V, 2, V), "stop": torch.zeros(V, 2, 2, 2), "root": torch.rand(len(WORDS), V)}
    trace = poutine.trace(tangent(lambda: observe({**weights, "root": root}), {"words": counts})).get_trace()
    trace.compute_log_prob()
    shared = (counts["attach"] * weights["attach"].log()).sum()
    torch.testing.assert_close(
        trace.nodes["words"]["log_prob"], (counts["root"] * root.log()).sum(-1) + shared / len(WORDS)
    )


def test_tangent_of_documents() -> None:
    weights = {n: b.uniform(torch.ones(())) for n, b in BLOCKS.items()}
    counts = {n: torch.rand(b.shape) for n, b in BLOCKS.items()}

    def model(mask: bool) -> None:
        words = WORDS[torch.tensor([[0, 1], [2, 0], [1, 1]])]
        with pyro.plate("documents", 3), poutine.mask(mask=torch.tensor([True, not mask, True])):
            pyro.sample("words", Sentence(GRAMMAR, weights).expand([3, 2]).to_event(1), obs=words)

    def unmasked() -> None:
        with pyro.plate("documents", 3):
            pyro.sample(
                "words", Sentence(GRAMMAR, weights).expand([3, 2]).to_event(1), obs=WORDS[torch.tensor([[0, 1]] * 3)]
            )

    trace = poutine.trace(tangent(unmasked, {"words": counts})).get_trace()
    trace.compute_log_prob()
    total = sum((counts[n] * weights[n].log()).sum() for n in BLOCKS)
    torch.testing.assert_close(trace.nodes["words"]["log_prob"], (total / 3).expand(3))
    with pytest.raises(ValueError, match="tangent cannot handle the mask on site 'words'"):
        tangent(model, {"words": counts})(True)


def test_tangent_refuses() -> None:
    weights = {n: b.uniform(torch.ones(())) for n, b in BLOCKS.items()}
    for counts, message in (
        ({}, "counts lack site 'words'"),
        ({"words": {}}, "counts of site 'words' lack block 'root'"),
        (
            {"words": {"root": torch.ones(2)}},
            r"block 'root' of site 'words' must have the shape of its weights, \(3,\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            tangent(lambda: observe(weights), counts)()
