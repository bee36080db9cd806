# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The models that examples define: their log joints, with all trees listed."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from examples.test_examples import load
from infer.tree_sums import tree_events
from oracle import all_trees
from pyro import poutine
from pyro.infer import TraceEnum_ELBO, TraceMeanField_ELBO
from scipy import stats
from torch import Tensor

from pyrogram import CFG, DMV


def test_hdp_pcfg() -> None:
    """Log joint of beta, multinomials and sentences, the derivations found top down."""
    example, K, alpha, gamma = load("hdp_pcfg"), 2, 3.0, 1.5
    grammar = example.symbols_and_pairs(K, ["a", "b"])
    words = grammar.encode(["a b", "b", "a b a"])
    trace: Any = poutine.trace(example.hdp_pcfg).get_trace(words, grammar, K, alpha, gamma)
    piece, w = (trace.nodes[name]["value"].numpy() for name in ("beta.pieces", "rules"))
    beta = [piece[0], 1 - piece[0]]
    p = {(left, tuple(map(str, right))): float(x) for (left, right), x in zip(grammar.rules, w, strict=True)}

    def density(left: str, concentrations: dict[tuple[str, ...], float]) -> float:
        assert {right for l, right in p if l == left} == set(concentrations)
        found = [p[left, right] for right in concentrations]
        return stats.dirichlet(list(concentrations.values())).logpdf(np.array(found) / sum(found))

    def inside(k: int, sentence: list[str]) -> float:
        z = f"N{k}"
        if len(sentence) == 1:
            return p[z, (f"{z}.one",)] * p[f"{z}.one", (sentence[0],)]
        total = 0.0
        for i in range(1, len(sentence)):
            for a in range(K):
                for b in range(K):
                    rule = p[f"{z}.two", (f"N{a}", f"N{b}")]
                    total += rule * inside(a, sentence[:i]) * inside(b, sentence[i:])
        return p[z, (f"{z}.two",)] * total

    expected = stats.beta(1, gamma).logpdf(piece[0])
    expected += density("S", {(f"N{k}",): alpha * beta[k] for k in range(K)})
    for k in range(K):
        expected += density(f"N{k}", {(f"N{k}.two",): 1.0, (f"N{k}.one",): 1.0})
        pairs = {(f"N{a}", f"N{b}"): alpha * beta[a] * beta[b] for a in range(K) for b in range(K)}
        expected += density(f"N{k}.two", pairs) + density(f"N{k}.one", {("a",): 0.1, ("b",): 0.1})
    for sentence in ("a b", "b", "a b a"):
        expected += math.log(sum(p["S", (f"N{k}",)] * inside(k, sentence.split()) for k in range(K)))
    assert float(trace.log_prob_sum()) == pytest.approx(float(expected), rel=1e-9)
    fixed: Any = poutine.trace(example.hdp_pcfg).get_trace(words, grammar, K, alpha, None)
    assert fixed.nodes["rules"]["fn"].concentration[:2].tolist() == [alpha / 2, alpha / 2]


def test_mixture_of_grammars() -> None:
    """What TraceEnum_ELBO sums, and the responsibilities, by listing trees and grammars."""
    example, grammar, M = load("mixture_of_grammars"), DMV(2), 2
    sentences = [[0, 1], [1, 0, 0], [1]]
    words = torch.tensor([[0, 1, -1], [1, 0, 0], [1, -1, -1]])
    trace: Any = poutine.trace(example.mixture).get_trace(words, grammar, M)
    found = {name: trace.nodes[name]["value"] for name in ("proportions", *grammar.blocks)}
    table = np.zeros((len(sentences), M))
    for i, sentence in enumerate(sentences):
        for m in range(M):
            for heads in all_trees(len(sentence), False):
                events = tree_events(sentence, heads, False)
                table[i, m] += math.prod(float(found[block][(m, *index)]) for block, index in events)
            table[i, m] *= float(found["proportions"][m])
    np.testing.assert_allclose(example.log_joint(words, grammar, found), np.log(table), rtol=1e-9)

    prior = sum(float(trace.nodes[name]["fn"].log_prob(value).sum()) for name, value in found.items())
    given = poutine.condition(example.mixture, found)
    loss = TraceEnum_ELBO(max_plate_nesting=1).loss(given, lambda *_: None, words, grammar, M)
    assert loss == pytest.approx(-prior - np.log(table.sum(-1)).sum(), rel=1e-9)


def test_estimates_of_a_mixture() -> None:
    """Sentences and their reversals are told apart, if their tags can only be in one order."""
    example, grammar = load("mixture_of_grammars"), DMV(3)
    words = torch.tensor([[0, 1, 2], [0, 1, 2], [2, 1, 0], [2, 1, 0], [0, 1, 2], [2, 1, 0]])
    found = example.estimates(words, grammar, 2, 30)
    assigned = example.log_joint(words, grammar, found).argmax(-1).tolist()
    assert assigned in ([0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 1, 0])


def test_compound_pcfg() -> None:
    """The bound is below log p(words), by quadrature over z, and touches it if the guide is the posterior."""
    example, grammar = load("compound_pcfg"), CFG.dense(2, 2, 2)
    model, guide = example.CompoundPCFG(grammar, 4, 1), example.Encoder(2, 4, 1)
    words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    loc, scale = guide.posterior(words)
    torch.testing.assert_close(guide.posterior(words[1:, :2])[0], loc[1:])  # whatever the padding

    z, weight = np.polynomial.hermite_e.hermegauss(16)
    joint = torch.stack([_log_likelihood(grammar, model.network(torch.tensor([x])), words) for x in z])  # (16, 2)
    with torch.no_grad():
        evidence = (joint + torch.tensor(np.log(weight / weight.sum()))[:, None]).logsumexp(0).sum()
        bounds = [-TraceMeanField_ELBO().loss(model, guide, words) for _ in range(100)]
        at = (loc + scale * torch.tensor(z)[:, None, None])[..., 0]  # nodes for q, (16, 2)
        each = torch.stack([_log_likelihood(grammar, model.network(x[:, None]), words) for x in at])
        kl = (-scale.log() + (scale**2 + loc**2 - 1) / 2).sum()
        exact = (torch.tensor(weight / weight.sum())[:, None] * each).sum() - kl
    assert exact < evidence
    assert np.mean(bounds) == pytest.approx(float(exact), abs=5 * np.std(bounds) / math.sqrt(len(bounds)) + 1e-6)


def test_tree_classifier() -> None:
    """Logits are expectations of what arcs are worth, and their derivatives covariances, by listing trees."""
    example, tags = load("tree_classifier"), torch.tensor([[0, 1, 0, 1], [1, 0, 0, -1]])
    scores = torch.randn(3, 2, 3, requires_grad=True)
    weights, bias = torch.randn(3, 2, 3), torch.tensor(0.3)
    model = poutine.condition(example.classifier, {"scores": scores, "weights": weights, "bias": bias})
    logits = model(tags, None, 2)
    for row, logit in zip(tags.tolist(), logits, strict=True):
        sentence = [2, *(tag for tag in row if tag >= 0)]
        trees = []  # the worth of each, its probability, and how often it has each pair of tags
        for heads in all_trees(len(sentence) - 1, False):
            pairs = np.zeros(scores.shape)
            for c, h in enumerate(heads, 1):
                pairs[sentence[h], int(h < c), sentence[c]] += 1
            trees.append(((pairs * weights.numpy()).sum(), np.exp((pairs * scores.detach().numpy()).sum()), pairs))
        total = sum(p for _, p, _ in trees)
        expected = sum(worth * p / total for worth, p, _ in trees)
        assert float(logit.detach()) == pytest.approx(expected + 0.3, rel=1e-9)
        (gradient,) = torch.autograd.grad(logit, scores, retain_graph=True)
        covariance = sum((worth - expected) * p / total * pairs for worth, p, pairs in trees)
        np.testing.assert_allclose(gradient, covariance, rtol=1e-9, atol=1e-12)
    arcs = example.arcs_of(torch.tensor([[2, 0, 2, 3], [0, 1, 1, -1]]))
    chosen = model(tags, None, 2, arcs)
    expected = weights[1, 0, 0] + weights[2, 1, 1] + weights[1, 1, 0] + weights[0, 1, 1] + bias
    assert float(chosen[0]) == pytest.approx(float(expected), rel=1e-9)
    assert arcs[1].sum() == 3


def _log_likelihood(grammar: CFG, rules: Tensor, words: Tensor) -> Tensor:
    """log p(words | rules) of each sentence, by the list of derivations; rules of shape ``(R,)`` or ``(N, R)``."""
    found = []
    for row, own in zip(words, rules.expand(len(words), -1), strict=True):
        p = {(l, tuple(map(str, r))): x for (l, r), x in zip(grammar.rules, own, strict=True)}
        sentence = [f"w{i}" for i in row.tolist() if i >= 0]
        found.append(
            sum(p["S", (top,)] * x for top in ("N0", "N1", "T0", "T1") for x in _trees(p, top, sentence)).log()
        )
    return torch.stack(found)


def _trees(p: dict[Any, Tensor], symbol: str, sentence: list[str]) -> Iterator[Tensor]:
    if symbol[0] == "T":
        if len(sentence) == 1:
            yield p[symbol, (sentence[0],)]
        return
    for (left, right), weight in p.items():
        if left == symbol:
            for i in range(1, len(sentence)):
                for a in _trees(p, right[0], sentence[:i]):
                    yield from (weight * a * b for b in _trees(p, right[1], sentence[i:]))
