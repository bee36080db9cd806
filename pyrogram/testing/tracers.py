# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What torch traces, compiles or transforms gives the numbers of eager calls, also for other weights than it saw."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jaxtyping
import pyro
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .cases import DistributionCase, seeded
from .compare import close, require

Function = Callable[..., tuple[Tensor, ...]]
Check = TypeVar("Check", bound=Callable[[Any], None])


def unwatched(check: Check) -> Check:
    """Without the warnings of tracers, those that torch gives of itself, and what tracers do not understand.

    That is validation as torch has it, which asks for the values of tensors, and jaxtyping's checks of shapes.
    """

    @functools.wraps(check)
    def alone(case: Any) -> None:
        has_types = not jaxtyping.config.jaxtyping_disable
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            with warnings.catch_warnings(), pyro.validation_enabled(False):
                warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
                warnings.simplefilter("ignore", DeprecationWarning)
                check(case)
        finally:
            jaxtyping.config.update("jaxtyping_disable", not has_types)

    return cast(Check, alone)


@unwatched
def check_jit_trace(case: DistributionCase) -> None:
    """``torch.jit.trace`` keeps no number of the weights that it saw."""
    agrees(jit_trace, *_of_distribution(case))


@unwatched
def check_compile(case: DistributionCase) -> None:
    """``torch.compile`` takes everything as one graph."""
    agrees(compiled, *_of_distribution(case))


@unwatched
def check_transforms(case: DistributionCase) -> None:
    """``torch.func`` and activation checkpointing."""
    agrees_transformed(*_of_distribution(case))


@unwatched
def check_traced_draws(case: DistributionCase) -> None:
    """Draws of a traced program are other ones in each call; best derivations follow the weights."""
    names = list(case.log_weights)

    def values(*weights: Tensor) -> tuple[Tensor, ...]:
        d = case.make(dict(zip(names, weights, strict=True)))
        return d.sample((50,)), d.argmax(), d.top_k(2)[0]

    seen, others = _weights(case, 1), _weights(case, 2)
    traced = jit_trace(values, seen)
    with seeded():
        first, second = traced(*others), traced(*others)
    for results in (first, second):
        close(results[1], values(*others)[1], "argmax() in a traced program")
        close(results[2], values(*others)[2], "top_k() in a traced program")
        case.make(dict(zip(names, others, strict=True))).log_prob(results[0])  # which refuses what is no derivation
    are_alike = len(first[0].unique(dim=0)) == 1
    require(are_alike or bool((first[0] != second[0]).any()), "sample() of a traced program is the same in each call")


def _of_distribution(case: DistributionCase) -> tuple[Function, list[Tensor], list[Tensor]]:
    """What a distribution computes from a value and log weights, some of these, and other ones."""
    names = list(case.log_weights)
    with seeded():
        value = case.at(seed=1).sample()

    def function(value: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        d = case.make(dict(zip(names, weights, strict=True)))
        return d.log_partition, d.log_prob(value), d.entropy()

    return function, [value, *_weights(case, 1)], [value, *_weights(case, 2)]


def _weights(case: DistributionCase, seed: int) -> list[Tensor]:
    return list(case.weights(seed=seed).values())


def jit_trace(function: Function, inputs: Sequence[Tensor]) -> Any:
    """The program of a function that saw these inputs."""
    return torch.jit.trace(function, tuple(inputs), check_trace=False)


def compiled(function: Function, inputs: Sequence[Tensor]) -> Any:
    """The same by torch.compile; nothing is generated for a processor, for what matters is that all is one graph."""
    torch.compiler.reset()
    program = torch.compile(function, backend="aot_eager", fullgraph=True)
    program(*inputs)
    return program


def agrees(trace: Callable[..., Any], function: Function, seen: list[Tensor], others: list[Tensor]) -> None:
    """Programs that saw some inputs give the results, and the gradients, of other ones."""
    what = trace.__name__
    for number, (actual, expected) in enumerate(zip(trace(function, seen)(*others), function(*others), strict=True)):
        close(actual, expected, f"result {number} of {what}")
    seen, others = ([x.clone().requires_grad_(x.is_floating_point()) for x in xs] for xs in (seen, others))
    program = trace(lambda *inputs: (_total(function, *inputs),), seen)
    for actual, expected in zip(_gradient(lambda *x: program(*x)[0], others), _of(function, others), strict=True):
        close(actual, expected, f"a gradient of {what}")


def agrees_transformed(function: Function, seen: list[Tensor], others: list[Tensor]) -> None:
    """Gradients, batches and second derivatives of transforms are those of eager calls; so are recomputed ones."""
    first, *weights = others
    places = tuple(range(1, len(others)))
    total = functools.partial(_total, function)
    expected, gradient = function(*others), _of(function, [first, *(w.clone().requires_grad_() for w in weights)])
    for actual, truth in zip(torch.func.grad(total, places)(*others), gradient, strict=True):
        close(actual, truth, "torch.func.grad")
    both = [torch.stack(pair) for pair in zip(seen[1:], weights, strict=True)]
    axes = (None, *[0] * len(weights))
    for actual, truth in zip(torch.func.vmap(function, axes)(first, *both), expected, strict=True):
        close(actual[1], truth, "torch.func.vmap")
    mapped = torch.func.vmap(torch.func.grad(total, places), axes)(first, *both)
    for actual, truth in zip(mapped, gradient, strict=True):
        close(actual[1], truth, "torch.func.vmap of a gradient")

    def first_result(w: Tensor) -> Tensor:
        return function(first, w, *weights[1:])[0].sum()

    # Of log Z alone: entropies have derivatives already.
    hessian = torch.autograd.functional.hessian(first_result, weights[0])
    close(torch.func.hessian(first_result)(weights[0]), hessian, "torch.func.hessian", atol=1e-8)
    leaves = [first, *(w.clone().requires_grad_() for w in weights)]
    again = _gradient(lambda *x: checkpoint(total, *x, use_reentrant=False), leaves)
    for actual, truth in zip(again, gradient, strict=True):
        close(actual, truth, "a gradient under activation checkpointing")


def _total(function: Function, *inputs: Tensor) -> Tensor:
    return torch.stack([result.sum() for result in function(*inputs)]).sum()


def _gradient(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    leaves = [x for x in inputs if x.requires_grad]
    return torch.autograd.grad(function(*inputs), leaves, allow_unused=True, materialize_grads=True)


def _of(function: Function, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return _gradient(functools.partial(_total, function), inputs)
