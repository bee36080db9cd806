# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A chart is filled again when a tensor that it was filled from has changed, and nobody can change what is kept."""

import pytest
import torch
from small_grammars import GRAMMARS

from pyrogram.distributions import ProjectiveDependencyTree, SiblingDependencyTree


def projective():
    d = ProjectiveDependencyTree(torch.randn(2, 4, 4), torch.randn(2, 4, 2, 2), valence=False)
    return (
        d,
        [d.arc_scores, d.stop_scores],
        lambda: ProjectiveDependencyTree(d.arc_scores.clone(), d.stop_scores.clone(), valence=False),
    )


def sibling():
    d = SiblingDependencyTree(torch.randn(2, 4, 4), torch.randn(2, 4, 4, 4), torch.randn(2, 4, 2, 4))
    return (
        d,
        [d.arc_scores, d.sibling_scores, d.stop_scores],
        lambda: SiblingDependencyTree(d.arc_scores.clone(), d.sibling_scores.clone(), d.stop_scores.clone()),
    )


def of_grammar(kind):
    grammar, weights, words = GRAMMARS[kind]()
    logs = {n: w.log() for n, w in weights.items()}
    d = grammar.derivation(None, words, log_weights=logs)
    return (
        d,
        list(logs.values()),
        lambda: grammar.derivation(None, words, log_weights={n: w.clone() for n, w in logs.items()}),
    )


CASES = {"projective": projective, "sibling": sibling}
CASES |= {kind: lambda kind=kind: of_grammar(kind) for kind in ("HMM", "CFG", "LatentAnnotations")}


@pytest.mark.parametrize("name", CASES)
def test_a_change_in_place_is_seen(name):
    torch.manual_seed(0)
    d, tensors, fresh = CASES[name]()
    trees = d.sample()
    for change in tensors:
        d.log_partition, d.log_prob(trees), d.expected_counts(), d.entropy(), d.marginals()
        with torch.no_grad():
            change.copy_(change + torch.randn_like(change))
        torch.testing.assert_close(d.log_prob(trees), fresh().log_prob(trees))
        torch.testing.assert_close(d.log_partition, fresh().log_partition)
        torch.testing.assert_close(d.entropy(), fresh().entropy())
        torch.testing.assert_close(d.marginals(), fresh().marginals())
        for key, counts in fresh().expected_counts().items():
            torch.testing.assert_close(d.expected_counts()[key], counts)
        torch.testing.assert_close(d.expand((3, 2)).log_partition, fresh().log_partition.expand(3, 2))


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_is_returned_may_be_changed(name, graph):
    torch.manual_seed(0)
    d, tensors, _ = CASES[name]()
    if graph:
        for tensor in tensors:
            tensor.requires_grad_()
    for first in (lambda: None, d.entropy):
        first()
        exact = d.log_partition.clone()
        d.log_partition.add_(7.0)
        torch.testing.assert_close(d.log_partition, exact)


@pytest.mark.parametrize("name", CASES)
def test_what_did_not_change_is_not_computed_again(name):
    torch.manual_seed(0)
    d, *_ = CASES[name]()
    d.log_partition  # noqa: B018
    kept = d._cache["log_z"].value
    d.log_prob(d.sample())
    assert d.expand((3, 2))._cache["log_z"].value is kept


@pytest.mark.parametrize("name", CASES)
def test_tensors_without_versions_are_not_trusted(name):
    with torch.inference_mode():
        torch.manual_seed(0)
        d, tensors, fresh = CASES[name]()
        d.log_partition  # noqa: B018
        tensors[0].mul_(2.0)
        torch.testing.assert_close(d.log_partition, fresh().log_partition)
