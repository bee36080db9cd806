# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How the checks compare: numbers that must be equal, and frequencies that must be likely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.printable import plural

# A check fails by chance once in so many runs, and never twice with the same seed and torch.
UNLIKELY = 1e-5


def require(condition: object, sentence: str) -> None:
    """Raise an AssertionError that says what is wrong; unlike a plain assert, also under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def close(actual: Any, expected: Any, what: str, *, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """Two tensors, or mappings of tensors, agree in keys, shapes and values; NaN agrees with nothing."""
    if isinstance(expected, Mapping):
        require(set(actual) == set(expected), f"{what}: has {sorted(actual)}, expected {sorted(expected)}")
        for name, value in expected.items():
            close(actual[name], value, f"{what}[{name!r}]", rtol=rtol, atol=atol)
        return
    require(actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}")
    torch.testing.assert_close(
        actual.detach(), expected.detach().to(actual.dtype), rtol=rtol, atol=atol, msg=lambda m: f"{what}: {m}"
    )


def has_shape(tensor: Tensor, shape: tuple[int, ...], what: str) -> None:
    """Fail unless a tensor has this shape."""
    require(tuple(tensor.shape) == tuple(shape), f"{what}: shape {tuple(tensor.shape)}, expected {tuple(shape)}")


def chi_square(observed: Tensor, probabilities: Tensor) -> float:
    """p-value of Pearson's test that counts come from a multinomial; 0 if the impossible was observed.

    Cells in which fewer than five are expected are pooled. The tail is the incomplete gamma function: Pyro's own
    ``chi2sf`` cuts its series short and calls everything likely (see its 100 terms).

    :param observed: counts, shape ``(T,)``.
    :param probabilities: shape ``(T,)``, adding up to one.
    """
    observed, expected = observed.double(), probabilities.double() * observed.sum()
    if bool((observed[probabilities == 0] > 0).any()):
        return 0.0
    order = expected.argsort(descending=True)
    observed, expected = observed[order], expected[order]
    kept = int((expected >= 5).sum())
    rest = expected[kept:].sum()
    if kept and rest < 5:  # the pool would be too small; join it to the last cell
        kept -= 1
    observed = torch.cat([observed[:kept], observed[kept:].sum()[None]])
    expected = torch.cat([expected[:kept], expected[kept:].sum()[None]])
    if len(expected) < 2:
        return 1.0
    statistic = ((observed - expected) ** 2 / expected).sum()
    freedom = torch.tensor(len(expected) - 1, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom / 2, statistic / 2))


def frequencies(draws: Tensor, support: Tensor) -> tuple[Tensor, int]:
    """How often each row of ``support`` ``(T, *event)`` is among ``draws`` ``(S, *event)``; how many draws are none."""
    rows, where = torch.cat([support.long().flatten(1), draws.long().flatten(1)]).unique(dim=0, return_inverse=True)
    counts = torch.bincount(where[len(support) :], minlength=len(rows))
    of_support = counts[where[: len(support)]]
    return of_support, len(draws) - int(of_support.sum())


def follows(draws: Tensor, support: Tensor, probabilities: Tensor, what: str) -> None:
    """Draws ``(S, *event)`` are all in the support, and as frequent as they should be."""
    observed, strange = frequencies(draws, support)
    require(strange == 0, f"{what}: {strange} of {plural(len(draws), 'draw')} are not in the support")
    p = chi_square(observed, probabilities)
    require(
        p > UNLIKELY, f"{what}: frequencies of {plural(len(draws), 'draw')} do not fit the probabilities (p = {p:.1g})"
    )
