# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dense grammars, whose rules with a preterminal are summed over it once a word: the same results as by enumeration."""

import cfg_sums as cfg
import numpy as np
import pytest
import torch
from test_cfg_chart import arrays, dense, enumerations, expected_counts, random_weights


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("wide_words", [False, True])
def test_log_z_and_counts_against_enumeration(dtype: torch.dtype, wide_words: bool) -> None:
    case = dense((4, 1, 2, 3, 3, 4, 2, 4, 3))
    if wide_words:  # symbols with rules may match words as well
        case.matches += [(0, 1, 2, 0, 37), (1, 0, 1, 0, 37), (3, 0, 1, 1, -1), (3, 2, 3, 0, 30)]
    rules, matches = arrays(case)
    weights = random_weights(case)
    expected = enumerations(case, weights)
    log_z = torch.tensor([e.log_z for e in expected])
    counts = torch.tensor(np.array([e.counts for e in expected]))
    scale = torch.rand(len(matches))
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-5}
    found = cfg.expected_counts(weights.to(dtype), rules, matches, scale.to(dtype))
    torch.testing.assert_close(found[0].double(), log_z, **tolerance)
    torch.testing.assert_close(found[1].double(), scale @ counts, **tolerance)
    leaf = weights.to(dtype).requires_grad_()
    again = cfg.log_partition(leaf, rules, matches)
    (again * scale.to(dtype)).nan_to_num(neginf=0.0).sum().backward()
    torch.testing.assert_close(again.double(), log_z, **tolerance)
    torch.testing.assert_close(leaf.grad.double(), scale @ counts, **tolerance)


@pytest.mark.parametrize("also_words", [False, True])
def test_a_start_symbol_above_all(also_words: bool) -> None:
    """The start goes to each symbol by a unary rule, as in a grammar with root probabilities; or to a word."""
    case = dense((4, 1, 2, 3, 3, 1))
    case.binary = [(a + 1, b + 1, c + 1, e) for a, b, c, e in case.binary]
    case.matches = [(b, i, k, A + 1, e) for b, i, k, A, e in case.matches]
    case.unary = [(0, A, 37 + A) for A in range(1, 5)]
    case.num_symbols, case.num_events = 5, 43
    if also_words:
        case.matches += [(1, 0, 1, 0, 42), (0, 0, 1, 0, 42)]
    rules, matches = arrays(case)
    weights = random_weights(case)
    expected = enumerations(case, weights)
    log_z, counts = cfg.expected_counts(weights, rules, matches)
    torch.testing.assert_close(log_z, torch.tensor([e.log_z for e in expected]), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(counts, torch.tensor(sum(e.counts for e in expected)), rtol=1e-10, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_long_sentences(dtype: torch.dtype) -> None:
    """Beside the sums of the torch engine."""
    case = dense((12, 3, 30, 1, 2, 17, 5, 8, 2, 2, 29, 4, 6, 3, 3, 9), 3, 2)
    rules, matches = arrays(case)
    weights = random_weights(case)
    log_z, counts = cfg.expected_counts(weights.to(dtype), rules, matches)
    expected = expected_counts(weights, rules, matches, engine="torch")
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    assert int(expected[0].isinf().sum()) == 1
    torch.testing.assert_close(log_z.double(), expected[0], **tolerance)
    torch.testing.assert_close(counts.double(), expected[1], **tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [10.0, 30.0, 460.0])
def test_weights_of_any_size(dtype: torch.dtype, size: float) -> None:
    case = dense((4, 2, 5, 3, 7), 3, 2)
    rules, matches = arrays(case)
    weights = (random_weights(case) * size).to(dtype)
    weights[3] = -torch.inf
    expected = expected_counts(weights.double(), rules, matches, engine="torch")
    found = cfg.expected_counts(weights, rules, matches)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(found[0].double(), expected[0], **tolerance)
    torch.testing.assert_close(found[1].double(), expected[1], **tolerance)


def test_first_and_second_derivatives(fast_mode: bool) -> None:
    case = dense((3, 1, 2, 4))
    rules, matches = arrays(case)
    possible = matches.of([0, 2, 3])
    weights = random_weights(case).requires_grad_()

    def total(w: torch.Tensor) -> torch.Tensor:
        return (cfg.log_partition(w, rules, possible) * torch.tensor([0.3, 1.0, 2.0])).sum()

    assert torch.autograd.gradcheck(total, weights)
    assert torch.autograd.gradgradcheck(total, weights, fast_mode=fast_mode)
