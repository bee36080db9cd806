# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Functions whose values and gradients are summed over processes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyrogram.infer.model.structure import ModelError
from pyrogram.infer.running.reduce import Reduce, summed

Function = Callable[[Mapping[str, Tensor]], Tensor]


def summed_function(reduce: Reduce, own: Function, given: Mapping[str, Tensor], words: Tensor) -> Tensor:
    """The sum over processes of a function of the same tensors, with the sum of the gradients for its gradient.

    :param own: the function of this process, shape ().
    :param given: the tensors, which must be equal in all processes.
    :param words: of all sentences that the function is about, likewise.
    :raises ModelError: if processes differ.
    """
    found: Tensor = _Summed.apply(reduce, own, list(given), words, *given.values())
    return found


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, reduce: Reduce, own: Function, names: list[str], words: Tensor, *given: Tensor) -> Tensor:
        marks = _marks(words, given)

        def work() -> dict[str, Tensor]:
            leaves = [w.detach().requires_grad_() for w in given]
            with torch.enable_grad():
                value = own(dict(zip(names, leaves, strict=True)))
                gradients = torch.autograd.grad(value, leaves, materialize_grads=True)
            numbered = {str(i): gradient for i, gradient in enumerate(gradients)}
            return {"value": value.detach(), "marks": marks, "squares": marks**2, **numbered}

        found = summed(reduce, work)
        # Numbers are all equal if and only if the square of their mean is the mean of their squares.
        spread = reduce.size * found["squares"] - found["marks"] ** 2
        for what, apart in zip(("sentences", "weights"), spread > 1e-9 * found["squares"], strict=True):
            if apart:
                raise ModelError(
                    f"processes have different {what}, so that no gradient is theirs; call pyro.set_rng_seed with one "
                    "seed in all of them, before the guide is made and minibatches are drawn"
                )
        ctx.save_for_backward(*(found[str(i)] for i in range(len(given))))
        return found["value"].to(given[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return (None, None, None, None, *(gradient * own for own in ctx.saved_tensors))


def _marks(words: Tensor, given: tuple[Tensor, ...]) -> Tensor:
    """Two numbers that tell words from other words, and weights from other weights."""
    digest = zlib.crc32(words.detach().to("cpu", torch.int64).contiguous().numpy().tobytes()) % 2**16
    flat = torch.cat([w.detach().to("cpu", torch.float64).exp().reshape(-1) for w in given])
    sines = torch.arange(1.0, len(flat) + 1, dtype=torch.float64).sin()
    return torch.stack([torch.tensor(float(digest), dtype=torch.float64), 2 + (flat * sines).sum().tanh()])
