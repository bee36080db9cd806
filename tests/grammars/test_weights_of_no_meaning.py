# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""NaN stays NaN, and a negative weight becomes NaN, in every grammar and engine; weights of 10^300 are no trouble."""

import warnings
from functools import partial

import pytest
import torch
from small_grammars import GRAMMARS

from pyrogram.distributions import ProjectiveDependencyTree, Sentence, SiblingDependencyTree
from pyrogram.distributions.sentence import safe_log

DTYPES = (torch.float64, torch.float32, torch.bfloat16)  # two for numba, one for torch


def test_safe_log_is_the_log():
    w = torch.tensor([0.0, 1.0, 4.0, -1.0, torch.nan, torch.inf], requires_grad=True)
    found = safe_log(w)
    assert found[:3].tolist() == [-torch.inf, 0.0, torch.tensor(4.0).log().item()]
    assert found[3:5].isnan().all() and found[5] == torch.inf
    (gradient,) = torch.autograd.grad(found[:3].sum(), w)
    assert gradient[:3].tolist() == [0.0, 1.0, 0.25]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("bad", [torch.nan, -1.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", GRAMMARS)
def test_log_prob_is_nan(kind, dtype, bad):
    grammar, weights, words = GRAMMARS[kind]()
    for name in weights:
        spoilt = {n: w.to(dtype, copy=True) for n, w in weights.items()}
        sentence = Sentence(grammar, spoilt)
        if dtype != torch.bfloat16:
            assert sentence.log_prob(words).isfinite().all()
        spoilt[name].fill_(bad)  # in place, after validation
        assert sentence.log_prob(words).isnan().all()
        fresh = Sentence(grammar, spoilt, validate_args=False)
        assert fresh.log_prob(words).isnan().all()
        batch = {n: torch.stack([w, weights[n].to(dtype)]) for n, w in spoilt.items()}
        found = Sentence(grammar, batch, validate_args=False).log_prob(words)
        assert found[0].isnan() and (found[1].isfinite() or dtype == torch.bfloat16)
        wanted = {n: w.clone().requires_grad_() for n, w in spoilt.items()}
        assert Sentence(grammar, wanted, validate_args=False).log_prob(words).isnan().all()
        assert grammar.expected_counts(fresh.log_weights, words)[0].isnan().all()
        with pytest.raises(ValueError):
            Sentence(grammar, spoilt, validate_args=True)


@pytest.mark.parametrize("kind", GRAMMARS)
def test_one_nan_is_enough(kind):
    """An HMM with one NaN among its emissions had a finite log probability."""
    grammar, weights, words = GRAMMARS[kind]()
    for name, w in weights.items():
        for i in range(w.numel()):
            spoilt = {n: v.clone() for n, v in weights.items()}
            spoilt[name].view(-1)[i] = torch.nan
            found = Sentence(grammar, spoilt, validate_args=False).log_prob(words)
            without = {**weights, name: spoilt[name].nan_to_num(0.0)}
            used = Sentence(grammar, without, normalized=False).log_prob(words)
            exact = Sentence(grammar, weights).log_prob(words)
            assert found[used != exact].isnan().all() and (found.isnan() | (found == exact)).all()


@pytest.mark.parametrize("kind", ["DMV", "HMM"])
def test_one_nan_spoils_all_sentences_that_share_it(kind):
    """Whether or not its event can occur in them; charts would pass over it."""
    grammar, weights, words = GRAMMARS[kind]()
    for name, w in weights.items():
        for i in range(w.numel()):
            logs = {n: v.log() for n, v in weights.items()}
            logs[name].view(-1)[i] = torch.nan
            assert grammar.log_partition(logs, words).isnan().all()


@pytest.mark.parametrize("bad", [torch.nan, -1.0, torch.inf])
@pytest.mark.parametrize("kind", GRAMMARS)
def test_sweeps_refuse_such_weights(kind, bad):
    grammar, weights, words = GRAMMARS[kind]()
    for name in weights:
        spoilt = {n: w.clone() for n, w in weights.items()}
        spoilt[name].view(-1)[0] = bad
        with pytest.raises(ValueError, match=f"weights must be non-negative and finite, but some of block '{name}'"):
            grammar.collapsed_updates(words).expected_counts(spoilt)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shift", [700.0, -700.0, 800.0, -800.0])
@pytest.mark.parametrize("kind", GRAMMARS)
def test_far_from_one_without_a_warning(kind, shift):
    """A factor e^700 on all weights of a block shifts log Z by 700 times the events of that block: they are counted."""
    grammar, weights, words = GRAMMARS[kind]()
    logs = {n: w.log() for n, w in weights.items()}
    exact = grammar.log_partition(logs, words)
    draws = grammar.derivation(None, words, log_weights=logs).sample()
    counts = grammar.derivation(None, words, log_weights=logs).counts(draws)  # as many events in every derivation
    for name in weights:
        far = {**logs, name: logs[name] + shift}
        events = counts[name].flatten(1).sum(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = grammar.log_partition(far, words)
            log_z, _ = grammar.expected_counts(far, words)
            posterior = grammar.derivation(None, words, log_weights=far).log_partition
        for value in (found, log_z, posterior):
            torch.testing.assert_close(value, exact + shift * events)


TREES = {
    "projective": (partial(ProjectiveDependencyTree, valence=False), [(4, 4), (4, 2, 2)]),
    "valence": (partial(ProjectiveDependencyTree, valence=True), [(4, 4, 2), (4, 2, 2)]),
    "sibling": (SiblingDependencyTree, [(4, 4), (4, 4, 4), (4, 2, 4)]),
}


@pytest.mark.one_in(27)
@pytest.mark.parametrize("multiroot", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TREES)
def test_one_nan_among_the_scores_of_trees(name, dtype, multiroot):
    """A score that some tree has makes log Z NaN, and so all log probabilities; another may, or changes nothing."""
    make, shapes = TREES[name]
    torch.manual_seed(0)
    scores = [torch.randn(shape).to(dtype) for shape in shapes]  # type: ignore[attr-defined]
    good = make(*scores, multiroot=multiroot)
    trees, exact = good.enumerate_support(), good.log_partition
    for i, table in enumerate(scores):
        one = torch.eye(table.numel(), dtype=torch.bool).reshape(-1, *table.shape)  # as many sentences as scores
        spoilt = [torch.where(one, torch.nan, table) if k == i else s for k, s in enumerate(scores)]
        d = make(*spoilt, multiroot=multiroot, validate_args=False)
        used = list(good.counts(trees).values())[i].sum(0).flatten() > 0
        log_z = d.log_partition
        assert log_z[used].isnan().all() and d.log_prob(trees[:, None])[:, used].isnan().all()
        assert (log_z.isnan() | (log_z == exact)).all() and not log_z.isnan().all()
        log_z, marginals = make(*spoilt, multiroot=multiroot, validate_args=False)._posterior()[:2]
        assert torch.equal(marginals.flatten(1).isnan().any(1), log_z.isnan())
        with pytest.raises(ValueError):
            d.sample()
        with pytest.raises(ValueError, match="NaN|constraint Scores"):
            make(*spoilt, multiroot=multiroot, validate_args=True)
