# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars of low rank beyond lists of derivations: the equivalent CFG, both ways to sum, trees, and evidence."""

import math
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from listed_grammars import CASES, Event
from torch import Tensor

from pyrogram import CFG
from pyrogram.distributions import Sentence
from pyrogram.grammars import SimplePCFG, TensorPCFG, low_rank_sums
from pyrogram.grammars.low_rank import LowRankPCFG

WORDS = torch.tensor([[0, 1, 1, 2], [2, 0, 1, -1], [1, 1, -1, -1], [2, -1, -1, -1], [0, 2, 1, -1]])
GRAMMARS: dict[str, LowRankPCFG] = {name: CASES[name].grammar for name in ("tensor", "simple")}
names = pytest.mark.parametrize("name", GRAMMARS)


@pytest.fixture(params=["recursion", "rank space"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How log Z and counts are computed."""
    in_rank_space(monkeypatch, request.param == "rank space")
    return str(request.param)


def in_rank_space(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    monkeypatch.undo()
    if not always:
        monkeypatch.setattr(low_rank_sums.RankSpaceProgram, "_is_shared", staticmethod(lambda given: False))


def log_weights(grammar: LowRankPCFG, seed: int = 0, spread: float = 1.0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: spread * torch.randn(*block.shape, generator=generator, dtype=torch.float64)
        for name, block in grammar.blocks.items()
    }


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float64) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


# ---------------------------------------------------------------------- sums


@names
def test_the_dense_grammar(name: str, way: str) -> None:
    """All rules of the papers' formula, on longer sentences."""
    grammar = TensorPCFG(3, 4, 2, 5) if name == "tensor" else SimplePCFG(3, 4, 5)
    other = CFG.dense(3, 4, 5)
    weights = grammar.initial_weights(WORDS, "random", seed=1)
    if name == "tensor":
        rules = torch.einsum("ar,rb,rc->abc", weights["rank"], weights["left"], weights["right"])
    else:
        rules = torch.einsum("ab,ac->abc", weights["left"], weights["right"])
    torch.testing.assert_close(rules.sum((1, 2)), torch.ones(3))
    flat = torch.cat([weights["root"], rules.flatten(), weights["emission"].flatten()])
    own = flat.new_empty(len(flat))
    own[other.block_order] = flat
    words = torch.randint(5, (30, 12))
    words = torch.where(torch.arange(12) < torch.randint(1, 13, (30, 1)), words, -1)
    (log_z, counts), (expected, theirs) = (
        g.expected_counts({n: w.log() for n, w in given.items()}, words)
        for g, given in ((grammar, weights), (other, {"rules": own}))
    )
    close(log_z, expected)
    theirs = {"rules": theirs["rules"][other.block_order]}
    close(counts["root"], theirs["rules"][:7])
    close(counts["emission"].flatten(), theirs["rules"][-20:])
    if name == "simple":
        close(counts["left"], theirs["rules"][7:-20].reshape(3, 7, 7).sum(2))
        close(counts["right"], theirs["rules"][7:-20].reshape(3, 7, 7).sum(1))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rank_space_is_the_recursion(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """More symbols, longer sentences, and weights that are no probabilities."""
    grammar = TensorPCFG(7, 11, 9, 20)
    logs = {n: (t + 3).to(dtype) for n, t in log_weights(grammar, spread=2.0).items()}
    words = torch.randint(20, (50, 25))
    words = torch.where(torch.arange(25) < torch.randint(1, 26, (50, 1)), words, -1)
    in_rank_space(monkeypatch, False)
    log_z, counts = grammar.expected_counts(logs, words)
    in_rank_space(monkeypatch, True)
    found, others = grammar.expected_counts(logs, words)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(found, log_z, rtol=tolerance, atol=0)
    torch.testing.assert_close(others, counts, rtol=tolerance, atol=tolerance)


def hard(dtype: torch.dtype, least: float) -> tuple[TensorPCFG, dict[str, Tensor]]:
    """A grammar whose sentences go by the rank that is all but impossible for each word."""
    grammar = TensorPCFG(2, 2, 2, 1)
    logs = {name: torch.full(block.shape, -math.inf, dtype=dtype) for name, block in grammar.blocks.items()}
    logs["root"][1] = 0.0
    logs["rank"][0, 0] = logs["rank"][1, 1] = 0.0
    for side in ("left", "right"):
        logs[side][0, [0, 2]] = logs[side][1, [1, 3]] = 0.0
    logs["emission"][0, 0], logs["emission"][1, 0] = 0.0, least
    return grammar, logs


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("least", [-25.0, -100.0, -800.0, -5000.0])
def test_sentences_that_are_all_but_impossible(dtype: torch.dtype, least: float) -> None:
    """One rank alone makes them, for each word against all odds."""
    grammar, logs = hard(dtype, least)
    words = torch.zeros(3, 4, dtype=torch.long)
    words[1, 3], words[2, 2:] = -1, -1
    log_z = torch.tensor([4 * least + math.log(5), 3 * least + math.log(2), 2 * least])
    found, counts = grammar.expected_counts(logs, words)
    close(found, log_z, dtype)
    close(counts["emission"].flatten(), torch.tensor([0.0, 9.0]), dtype)
    close(grammar.log_partition(logs, words), log_z, dtype)
    leaves = {name: table.requires_grad_() for name, table in logs.items()}
    (grammar.log_partition(leaves, words) * torch.tensor([1.0, 2.0, 5.0], dtype=dtype)).sum().backward()
    close(leaves["emission"].grad.flatten(), torch.tensor([0.0, 20.0]), dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_products_of_logarithms(dtype: torch.dtype) -> None:
    """Rows and columns of any size, terms of which no number is great enough, and nothing."""
    torch.manual_seed(0)
    a, b = torch.randn(4, 6, dtype=dtype), torch.randn(6, 3, dtype=dtype)
    a[0] -= 100.0
    a[1, :5], b[5, 1] = -torch.inf, -3000.0
    a[2], b[:, 2] = torch.tensor([0.0, -2000.0, *4 * [-torch.inf]]), torch.tensor([-torch.inf, -1000.0, *4 * [0.0]])
    a[3] = -torch.inf
    found = low_rank_sums.log_product(a.requires_grad_(), b.requires_grad_())
    expected = (a[:3, :, None] + b).logsumexp(1)
    assert expected[2, 2] == -3000.0 and (found[3] == -torch.inf).all()
    close(found[:3], expected.double(), dtype)
    gradients = torch.autograd.grad(found[found > -torch.inf].sum(), (a, b))
    for x, y in zip(gradients, torch.autograd.grad(expected.sum(), (a, b)), strict=True):
        close(x, y.double(), dtype)


@names
def test_words_that_no_sentence_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their counts are zero, and those of the others in their places."""
    grammar = TensorPCFG(2, 2, 3, 9) if name == "tensor" else SimplePCFG(2, 2, 9)
    words = torch.tensor([[8, 3, 3], [5, 8, -1]])
    in_rank_space(monkeypatch, False)
    expected = grammar.expected_counts(log_weights(grammar), words)
    in_rank_space(monkeypatch, True)
    close(grammar.expected_counts(log_weights(grammar), words), expected)
    assert (expected[1]["emission"].sum(0) > 0).nonzero()[:, 0].tolist() == [3, 5, 8]


# ---------------------------------------------------------------------- derivations


def test_trees() -> None:
    grammar = TensorPCFG(2, 2, 3, 3)
    row: list[Event] = [
        ("root", (1,)), ("rank", (1, 2)), ("left", (2, 0)), ("rank", (0, 0)), ("left", (0, 3)), ("emission", (1, 0)),
        ("right", (0, 2)), ("emission", (0, 1)), ("right", (2, 3)), ("emission", (1, 2)),
    ]  # fmt: skip
    derivation = torch.tensor([*(grammar.number(*event) for event in row), -1])
    assert str(grammar.tree(["a", "b", "c"], derivation)) == "(N1 (N0 (T1 a) (T0 b)) (T1 c))"
    assert grammar.tree(None, derivation).leaves() == ["0", "1", "2"]
    simple = SimplePCFG(2, 2, 3)
    own = [("root", (1,)), ("left", (1, 2)), ("emission", (0, 0)), ("right", (1, 3)), ("emission", (1, 1))]
    found = simple.tree(None, torch.tensor([simple.number(*event) for event in own]))
    assert str(found) == "(N1 (T0 0) (T1 1))"
    for bad, message in (
        (derivation[1:], "has an event of rank"),
        (derivation.index_fill(0, torch.tensor(1), grammar.number("rank", (0, 2))), r"has an event of rank\[0, 2\]"),
        (derivation[:-3], "ends before an event of right"),
        (derivation[None], "must be one"),
        (derivation[[*range(10), 0]], "has an event of root"),
    ):
        with pytest.raises(ValueError, match=message):
            grammar.tree(None, bad)
    with pytest.raises(ValueError, match="has 3 words, not 2"):
        grammar.tree(["a", "b"], derivation)


def test_long_sentences_are_drawn_in_lanes() -> None:
    """Where log Z is far below the number of derivations, and their frequencies are those of the weights."""
    grammar = TensorPCFG(1, 60, 30, 1)
    weights = grammar.initial_weights(torch.zeros(1, 1, dtype=torch.long), "uniform")
    weights["emission"] = torch.full((60, 1), 1e-4)
    weights["rank"] = torch.full((1, 30), 0.1 / 29).index_fill(1, torch.tensor([3]), 0.9)
    d = grammar.derivation(weights, torch.zeros(3, 45, dtype=torch.long))
    rows = d.sample((10,))
    ranks = rows[(rows >= grammar.number("rank", (0, 0))) & (rows < grammar.number("left", (0, 0)))]
    assert len(ranks) == 30 * 44
    assert abs(float((ranks == grammar.number("rank", (0, 3))).double().mean()) - 0.9) < 5 * math.sqrt(0.09 / 1320)


@pytest.mark.one_in(2)
@names
def test_evidence(name: str) -> None:
    """Phrases over words that are known to be none."""
    grammar = GRAMMARS[name]
    logs = log_weights(grammar)
    item = "X"
    forbidden = torch.zeros(5, 5, 2)
    forbidden[0, 2] = -math.inf  # no phrase of the first two words

    def allowed(row: list[Event]) -> bool:
        open_ends, spans, position = [], [], 0  # starts of phrases, whose right child is to come
        for block, index in row:
            if block == "emission":
                position += 1
                while open_ends and open_ends[-1][1]:
                    spans.append((open_ends.pop()[0], position))
            elif index[-1] < 2 and block in ("root", "left", "right"):
                if block == "right":
                    open_ends[-1][1] = True
                open_ends.append([position, False])
            elif block == "right":
                open_ends[-1][1] = True
        return (0, 2) not in spans

    log_z = []
    for sentence in WORDS[[0, 1, 4]].tolist():
        listed = CASES[name].listed([w for w in sentence if w >= 0])
        rows = [row for _, row in listed if allowed(row)]
        log_z.append(torch.stack([sum(logs[block][index] for block, index in row) for row in rows]).logsumexp(0))
    log_z = torch.stack(log_z)
    close(grammar.log_partition(logs, WORDS[[0, 1, 4]], evidence={item: forbidden}), log_z)
    assert grammar.item_counts(logs, WORDS, item)[item].shape == (5, 5, 5, 2)


@names
def test_names(name: str) -> None:
    grammar = GRAMMARS[name]
    assert grammar.symbols == ["N0", "N1", "T0", "T1"]
    assert repr(grammar) == {"tensor": "TensorPCFG(2, 2, 3, 3)", "simple": "SimplePCFG(2, 2, 3)"}[name]
    with pytest.raises(ValueError, match="num_preterminals must be at least 1"):
        SimplePCFG(2, 0, 3)


def test_svi_in_rank_space_is_svi_by_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same losses, from the same start, on minibatches."""
    grammar = GRAMMARS["tensor"]

    def model(words: Tensor) -> None:
        blocks = grammar.blocks.items()
        logits = {n: pyro.param(n, lambda n=n, b=b: log_weights(grammar)[n]) for n, b in blocks}
        weights = {n: b.softmax(logits[n]) for n, b in blocks}
        with pyro.plate("sentences", len(words), subsample_size=3) as chosen:
            pyro.sample("words", Sentence(grammar, weights), obs=words[chosen])

    losses = []
    for always in (False, True):
        in_rank_space(monkeypatch, always)
        pyro.clear_param_store()
        pyro.set_rng_seed(0)
        adam = pyro.optim.Adam({"lr": 0.1})  # type: ignore[attr-defined]
        svi = pyro.infer.SVI(model, lambda words: None, adam, pyro.infer.Trace_ELBO())
        losses.append([svi.step(WORDS) for _ in range(10)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-8)
