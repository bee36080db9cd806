# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Distributions as objects: copies, dtypes, and keeping one's hands off what belongs to others."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .cases import DistributionCase, seeded
from .compare import close, require


def results(d: Any, case: DistributionCase, value: Tensor | None = None) -> dict[str, Tensor]:
    """Everything a distribution can compute, by name; of a value, or of its own draws."""
    with seeded():
        value = d.sample((4,)) if value is None else value
    by_name = {
        "log_partition": d.log_partition,
        "log_prob": d.log_prob(value),
        "entropy": d.entropy(),
        "argmax": d.argmax(),
        "sample": value,
        "top_k": d.top_k(2)[1],
    }
    by_name |= {f"expected_counts()[{name!r}]": c for name, c in d.expected_counts().items()}
    by_name |= {f"counts()[{name!r}]": c for name, c in d.counts(value).items()}
    if case.parts is not None:
        by_name |= {"marginals": d.marginals(), "mbr": d.mbr()}
    return {name: result.detach().clone() for name, result in by_name.items()}


def check_pickle(case: DistributionCase) -> None:
    """A pickled distribution is the same, and its gradients still arrive."""
    _check_copies(case, lambda d: pickle.loads(pickle.dumps(d)), "pickle")


def check_deepcopy(case: DistributionCase) -> None:
    """A deep copy is the same, and its gradients still arrive."""
    _check_copies(case, copy.deepcopy, "copy.deepcopy")


def _check_copies(case: DistributionCase, duplicate: Any, what: str) -> None:
    d = case.at((2,))
    close(results(duplicate(d), case), results(d, case), f"after {what}")
    close(results(duplicate(d), case), results(d, case), f"after results and {what}")  # caches may be filled now
    # A distribution that keeps its parameters as they were given can be copied with leaves that need gradients.
    leaves = {name: w.requires_grad_() for name, w in case.weights().items()}
    original = case.make(leaves)
    if not all(v.is_leaf for v in _held(original)):
        return
    results(original, case)
    original.log_partition, original.entropy()  # with a graph, unlike the above
    twin = duplicate(original)
    held = [v for v in _held(twin) if v.requires_grad]
    require(held, f"the parameters need no gradient any more after {what}")
    gradients = torch.autograd.grad(twin.log_partition.sum(), held)
    totals = torch.stack([g.sum() for g in gradients]).sum()
    expected = torch.stack([c.sum() for c in original.expected_counts().values()]).sum()
    close(totals, expected, f"gradient of log_partition after {what}")


def check_dtype(case: DistributionCase) -> None:
    """Results have the dtype of the log weights, whatever torch's default is, and integers stay integers."""
    exact = results(case.at(), case)
    for dtype, default in ((torch.float32, torch.float64), (torch.float64, torch.float32)):
        with _default_dtype(default):
            actual = results(case.at(dtype=dtype), case)
        for what, result in actual.items():
            if what in ("sample", "argmax", "mbr"):
                require(not result.is_floating_point(), f"{what} of {dtype} is {result.dtype}")
                continue
            require(result.dtype == dtype, f"{what} of {dtype} is {result.dtype}")
            if what in ("log_partition", "entropy", "marginals", "top_k") or what.startswith("expected"):
                close(result, exact[what], f"{what} of {dtype}", rtol=1e-4, atol=1e-4)


def check_inputs_are_kept(case: DistributionCase) -> None:
    """Log weights keep their values, requires_grad, grad and version; sampled values too."""
    for needs_grad in (False, True):
        weights = {name: w.requires_grad_(needs_grad) for name, w in case.weights((2,)).items()}
        before = {name: (w.detach().clone(), w._version) for name, w in weights.items()}
        d = case.make(weights)
        value = d.sample((3,))
        drawn = value.clone()
        results(d, case)
        d.log_prob(value)
        d.counts(value)
        d.enumerate_support()
        require((value == drawn).all(), "log_prob or counts changes its argument")
        for name, w in weights.items():
            old, version = before[name]
            require(bool((w == old).all()) and w._version == version, f"the tensor {name!r} was changed")
            require(w.requires_grad == needs_grad, f"requires_grad of {name!r} was changed")
            require(w.grad is None, f"a gradient was left in {name!r}")


def check_instances_are_independent(case: DistributionCase) -> None:
    """Making and using other distributions of the class changes nothing (torch-struct's multiroot did)."""
    others = [lambda: case.at(seed=1), lambda: case.at((2,)), lambda: case.at(dtype=torch.float32), *case.rivals]
    expected = results(case.at(), case)
    for make_other in others:
        d = case.at()
        other: Any = make_other()
        other.log_partition, other.entropy(), other.sample(), other.argmax()
        close(results(d, case), expected, "after another distribution was used")
        close(results(case.at(), case), expected, "made after another distribution")


def check_results_may_be_changed(case: DistributionCase) -> None:
    """Changing in place what a method returned changes neither this distribution nor others."""
    d = case.at()
    expected, support = results(d, case), d.enumerate_support().clone()
    d.enumerate_support(expand=False).fill_(-7)
    require((d.enumerate_support() == support).all(), "enumerate_support() gives away the list that it keeps")
    require((case.at().enumerate_support() == support).all(), "enumerate_support() gives away a list that is shared")
    for _ in range(2):
        for counts in d.expected_counts().values():
            counts.fill_(-7.0)
        d.argmax().fill_(-7)
        d.top_k(2)[0].fill_(-7)
        if case.parts is not None:
            d.marginals().fill_(-7.0)
            d.mbr().fill_(-7)
    close(results(d, case), expected, "after results were changed in place")


def _held(thing: Any) -> list[Tensor]:
    """The tensors among an object's attributes, and in the dictionaries among these."""
    values = thing.values() if isinstance(thing, dict) else vars(thing).values()
    nested = [_held(v) for v in values if isinstance(v, dict)]
    return [v for v in values if isinstance(v, Tensor)] + [v for tensors in nested for v in tensors]


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
