# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars of all kinds against lists of their derivations: sums, rows, draws, and steps of all loops."""

import copy
import itertools
import math
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from listed_grammars import CASES, by_distance, lexicalised, low_rank, rows_of_trees, trees_of, valences
from own_grammars import dmv
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram import DMV
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammars import RecursiveGrammar, TensorPCFG
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts
from pyrogram.testing import chi_square

cases = pytest.mark.parametrize("name", CASES)


def close(actual: Any, expected: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


def summed(counts: dict[str, Tensor], scale: Tensor | None = None) -> dict[str, Tensor]:
    return {n: torch.tensordot(torch.ones(len(c)) if scale is None else scale, c, 1) for n, c in counts.items()}


# ---------------------------------------------------------------------- sums


@cases
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("forbidden", [False, True])
def test_log_z_and_counts(name: str, forbidden: bool, dtype: torch.dtype) -> None:
    case, tolerance = CASES[name], 1e-10 if dtype == torch.float64 else 3e-5
    for seed in range(3) if forbidden else range(1):
        logs = case.log_weights(seed=seed, forbidden=forbidden)
        log_z, counts = case.truth(logs)
        given = {n: w.to(dtype) for n, w in logs.items()}
        found, expected = case.grammar.expected_counts(given, case.words)
        assert found.dtype == dtype and all(c.dtype == dtype for c in expected.values())
        close(found, log_z, tolerance)
        close(expected, summed(counts), tolerance)
        close(case.grammar.log_partition(given, case.words), log_z, tolerance)
        law = case.grammar.derivation(None, case.words, log_weights=given)
        close(law.expected_counts(), counts, tolerance)
        if isinstance(case.grammar, RecursiveGrammar) and name != "HMM":
            sums = case.grammar._sums
            wide = sums.inputs(case.grammar.expanded(given, torch.Size([len(case.words)])), case.words)
            close(sums.program.log_partition(wide, by_torch=True), log_z, tolerance)


@pytest.mark.one_in(2)
@cases
def test_gradients_of_sentences(name: str) -> None:
    """Each with a factor of its own, and second derivatives."""
    case = CASES[name]
    logs, scale = case.log_weights(seed=1), torch.linspace(-2.0, 3.0, len(case.words))
    leaves = {n: w.requires_grad_() for n, w in logs.items()}
    log_z = case.grammar.log_partition(leaves, case.words)
    found = torch.autograd.grad((log_z * scale).sum(), list(leaves.values()), retain_graph=True)
    close(dict(zip(leaves, found, strict=True)), summed(case.truth(logs)[1], scale))

    def total(*tables: Tensor) -> Tensor:
        return case.grammar.log_partition(dict(zip(logs, tables, strict=True)), case.words[:3])

    assert torch.autograd.gradgradcheck(total, tuple(leaves.values()), fast_mode=True)


@pytest.mark.one_in(2)
@cases
@pytest.mark.parametrize("spread", [1.0, 150.0])
def test_weights_of_each_sentence(name: str, spread: float) -> None:
    """As a batch, and as the rows of its own multinomials; also where they differ by hundreds of nats."""
    case = CASES[name]
    N = len(case.words)
    logs = {n: spread * w for n, w in case.log_weights(N, seed=2, forbidden=spread == 1).items()}
    log_z, counts = case.truth(logs)
    tolerance = 1e-10 if spread == 1 else 1e-8
    leaves = {n: w.clone().requires_grad_() for n, w in logs.items()}
    found = case.grammar.log_partition(leaves, case.words)
    close(found.detach(), log_z, tolerance)
    possible = found[log_z > -math.inf].sum()
    close(dict(zip(logs, torch.autograd.grad(possible, list(leaves.values())), strict=True)), counts, tolerance)
    own = case.grammar.sentence_multinomials(case.words)
    tables = {n: w.reshape(N, -1, w.shape[-1])[own.sentence[n], own.multinomial[n]] for n, w in logs.items()}
    if any(block.shape[:-1].numel() == 0 for block in case.grammar.blocks.values()):
        return
    found, of_rows = own.expected_counts(tables)
    close(found, log_z, tolerance)
    for n, c in of_rows.items():
        dense = torch.zeros(N, logs[n][0].numel() // c.shape[-1], c.shape[-1], dtype=torch.float64)
        close(dense.index_put((own.sentence[n], own.multinomial[n]), c).reshape(logs[n].shape), counts[n], tolerance)


# ---------------------------------------------------------------------- derivations


@pytest.mark.parametrize("name", [name for name in CASES if name != "own HMM"])  # of whose events the order matters
def test_derivations_are_listed(name: str) -> None:
    """Each with its events and its probability; the best are the most probable."""
    case = CASES[name]
    grammar, logs = case.grammar, case.log_weights(seed=3)
    for row in case.words:
        words = row[row >= 0]
        if name == "tensor" and len(words) > 3:
            continue  # they have too many
        law = grammar.derivation(None, words, log_weights=logs)
        listed, (_, _, shares) = case.listed(words.tolist()), case.sums(logs, words.tolist())
        support = law.enumerate_support()
        if name.endswith("distances"):  # whose rows of events are read as heads
            keys = [tuple(x) for x in grammar.heads(support).tolist()]
        else:
            keys = [tuple(x for x in row if x >= 0) for row in support.tolist()]
            keys = [tuple(sorted(key)) if name == "own DMV" else key for key in keys]
        expected = dict(zip([key for key, _ in listed], shares, strict=True))
        assert Counter(keys) == Counter([*expected])
        found = law.log_prob(support).exp()
        close(found, torch.tensor([expected[key] for key in keys]))
        close(law.top_k(2)[1].exp(), torch.tensor(sorted([*shares, 0.0], reverse=True)[:2]))
        number = dict(listed)
        for key, counts in zip(keys, zip(*law.counts(support).values(), strict=True), strict=True):
            own = Counter(number[key])
            for block, c in zip(grammar.blocks, counts, strict=True):
                assert {(block, tuple(i)): int(c[tuple(i)]) for i in c.nonzero().tolist()} == {
                    event: k for event, k in own.items() if event[0] == block
                }
        if isinstance(grammar, RecursiveGrammar) and name != "HMM":
            assert max(len(events) for _, events in listed) <= grammar.longest(len(words)) == law.event_shape[0]


@pytest.mark.parametrize("too_long", ["redraw", "truncate"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.draws])
def test_draws(name: str, too_long: Any) -> None:
    """As often as their probabilities say; those of one, two and three words, which no truncation reaches."""
    case, probabilities = CASES[name], {}
    logs = {n: w.log() for n, w in case.short_weights().items()}
    most = 2 if name in ("tensor", "lexicalised") else 3
    for n in range(1, most + 1):
        for words in itertools.product(range(case.grammar.num_words), repeat=n):
            listed = case.listed(words)
            log_z, _, shares = case.sums(logs, words) if listed else (-math.inf, {}, [])
            for (key, _), share in zip(listed, shares, strict=True):
                probabilities[words, key] = share * math.exp(log_z)
    seen = Counter(case.drawn(5000, 3 if too_long == "redraw" else 25, too_long))
    observed, exact = torch.tensor([seen[key] for key in probabilities]), torch.tensor([*probabilities.values()])
    assert observed.sum() > 1000 and chi_square(observed, exact / exact.sum()) > 1e-4
    if too_long == "redraw" and most == 3:
        assert observed.sum() == 5000


@cases
def test_names_and_copies(name: str) -> None:
    case = CASES[name]
    if not name.startswith("own"):
        for block, axes in case.grammar.axes.items():
            assert name.startswith("CFG") or tuple(map(len, axes.values())) == tuple(case.grammar.blocks[block].shape)
    logs = case.log_weights()
    for twin in (copy.deepcopy(case.grammar), pickle.loads(pickle.dumps(case.grammar))):
        assert repr(twin) == repr(case.grammar) and twin.identity == case.grammar.identity
        close(twin.log_partition(logs, case.words), case.grammar.log_partition(logs, case.words))


# ---------------------------------------------------------------------- loops


@pytest.mark.one_in(2)
@cases
def test_em_takes_normalised_counts(name: str) -> None:
    case = CASES[name]
    weights, blocks = case.weights(), case.grammar.blocks
    em = EM(maximum_likelihood, initial_weights=weights)
    for _ in range(3):
        log_z, counts = case.truth({n: w.log() for n, w in weights.items()})
        assert em.step(case.words, case.grammar) == pytest.approx(float(log_z.sum()), rel=1e-9)
        total = summed(counts)
        weights = {
            n: torch.where(blocks[n].totals(c) > 0, blocks[n].normalize(c), weights[n]) for n, c in total.items()
        }
        close({n: w.double() for n, w in em.weights().items()}, weights, 1e-8)
    em.run(case.words, case.grammar, num_steps=10, progress=False)
    assert (np.diff(em.history) >= -1e-9).all() and em.history[-1] > em.history[0]


@pytest.mark.one_in(2)
@cases
def test_variational_bayes_adds_counts_to_the_prior(name: str) -> None:
    """Under expected logs; the bound is log Z less the divergence of the Dirichlets."""
    case, alpha = CASES[name], 0.3
    blocks, weights = case.grammar.blocks, case.weights()
    vb = VariationalEM(dirichlet, initial_weights=weights)
    prior = {n: torch.full(b.shape, alpha, dtype=torch.float64) for n, b in blocks.items()}
    q = {n: alpha + c for n, c in summed(case.truth({n: w.log() for n, w in weights.items()})[1]).items()}
    for _ in range(3):
        logs = {n: x.digamma() - blocks[n].totals(x).digamma() for n, x in q.items()}
        log_z, counts = case.truth(logs)
        pairs = [(dirichlet_prior(blocks[n], x), dirichlet_prior(blocks[n], prior[n])) for n, x in q.items()]
        bound = float(log_z.sum() - sum(kl_divergence(*pair).sum() for pair in pairs))
        assert vb.step(case.words, case.grammar, concentration=alpha) == pytest.approx(bound, rel=1e-8)
        q = {n: alpha + c for n, c in summed(counts).items()}
        close({n: w.double() for n, w in vb.weights().items()}, {n: blocks[n].normalize(x) for n, x in q.items()}, 1e-8)
    vb.run(case.words, case.grammar, concentration=alpha, num_steps=10, progress=False)
    assert (np.diff(vb.history) >= -1e-9).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["distances", "tensor", "simple", "lexicalised", "own DMV"])
def test_sweeps_are_plain_ones(name: str) -> None:
    """Of grammars that the cases of sweeps have not; and samplers run."""
    case, found = CASES[name], []
    alpha = {n: 0.3 + torch.rand(b.shape) for n, b in case.grammar.blocks.items()}
    compiled = case.grammar.collapsed_updates(case.words)
    assert type(compiled) is not CollapsedUpdates
    for updates in (compiled, CollapsedUpdates(case.grammar, case.words)):
        log_z, entropies, own = updates.expected_counts(case.weights())
        field = CorpusCounts(updates.total(own), alpha)
        more, new = updates.collapsed_vb(field, own, torch.tensor([2, 0, 1, 4, 3]), 2)
        found.append([log_z, entropies, more, field.counts, updates.total(new)])
    close(*found)
    close(found[0][0], case.truth({n: w.log() for n, w in case.weights().items()})[0])
    for loop in (CollapsedVB(dirichlet), TreeHastings(dirichlet), TreeGibbs(dirichlet)):
        loop.run(case.words, case.grammar, num_steps=3, progress=False)
        for block, w in loop.weights().items():
            close(w.sum(-1), torch.ones(case.grammar.blocks[block].shape[:-1]), 1e-6)


POSTERIORS = {
    "DMV of three valences": lambda: trees_of(DMV(2, num_valences=3)),
    "distances": lambda: by_distance((1, 2), True),
    "lexicalised": lambda: lexicalised(1, 2),
    "tensor": lambda: low_rank(TensorPCFG(1, 2, 1, 2)),
    "own DMV": lambda: rows_of_trees(dmv(3, 2), False, lambda *x: valences(*x, number=3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TreeHastings, TreeGibbs])
@pytest.mark.parametrize("name", POSTERIORS)
def test_samplers_draw_from_the_collapsed_posterior(name: str, kind: Any) -> None:
    """Derivations of one sentence, as often as prod B(f + alpha) / B(alpha) says."""
    case, words = POSTERIORS[name](), torch.tensor([[0, 1, 0]])
    log_joint, listed = [], case.listed([0, 1, 0])
    for _, events in listed:
        pseudo = {n: torch.full(block.shape, 0.3) for n, block in case.grammar.blocks.items()}
        for block, index in events:
            pseudo[block][index] += 1
        log_joint.append(sum((c.lgamma().sum(-1) - c.sum(-1).lgamma()).sum() for c in pseudo.values()))
    exact = torch.stack([torch.as_tensor(x) for x in log_joint]).softmax(0)
    chain, seen = kind(dirichlet, seed=0), Counter[Any]()
    chain.run(words, case.grammar, concentration=0.3, num_steps=20, progress=False)
    for _ in range(800):
        chain.step(words, case.grammar, concentration=0.3)
        trees = chain.trees()
        row = (case.grammar.heads(trees) if name == "distances" else trees)[0].tolist()
        key = tuple(x for x in row if x >= 0)
        seen[tuple(sorted(key)) if name.startswith("own") else key] += 1
    assert seen.total() == sum(seen[key] for key, _ in listed)
    share = torch.tensor([seen[key] for key, _ in listed]) / 800
    error = (exact * (1 - exact) / 150).sqrt()  # worth 150 independent draws
    assert ((share - exact).abs() < 5 * error).all()
    assert ((exact - 1 / len(exact)).abs() > 4 * error).any()  # not the uniform one


@pytest.mark.parametrize("name", ["DMV", "HMM", "CFG", "tensor"])
def test_sentences_that_the_grammar_cannot_make(name: str) -> None:
    """Their log Z is -inf, and those of others, and all counts, are as without them; NaN stays NaN."""
    case = CASES[name]
    logs = case.log_weights()
    first = list(logs)[0 if name == "DMV" else -1]
    logs[first].reshape(-1, logs[first].shape[-1])[:, case.words[0, 0]] = -math.inf
    if name == "DMV":
        logs["attach"][..., case.words[0, 0]] = -math.inf
    log_z, counts = case.truth(logs)
    assert ((log_z == -math.inf).any() and (log_z > -math.inf).any()) or name == "CFG"
    found, expected = case.grammar.expected_counts(logs, case.words)
    close(found, log_z)
    close(expected, summed(counts))
    spoilt = {**logs, first: logs[first] * math.nan}
    assert Sentence(case.grammar, log_weights=spoilt, validate_args=False).log_prob(case.words).isnan().all()
