# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z and expected counts of grammars of low rank, in rank space (Yang, Liu and Tu 2022).

Once for all sentences, rules from rank to rank are multiplied out, and words are given their weights below each rank:

    left[r, q] = sum_a left[r, a] rank[a, q],    left_word[v, r] = sum_t left[r, t] emission[t, v]

Then a chart knows ranks alone. That takes O(n^3 R + n^2 R^2) time for a sentence, whatever the number of symbols.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.recursion.emit.inputs import Numbers
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, tensor_program

from .recursive_sums import Sums

Change = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


@recursion(first=0)
def rank_rules(p: Any) -> None:
    """M is a span below its rank; L and R are a span as the left, and as the right child of a rank."""
    i, j, k = p.positions("i j k")
    r, q = p.symbols("r q", "R")
    w = p.words("w")
    M, L, R = p.items("M L R", "R")
    Z = p.items("Z")
    top, single = p.weights("top", "R"), p.weights("single", "V")
    left, right = p.weights("left right", "R", "R")
    left_word, right_word = p.weights("left_word right_word", "V", "R")
    L[j - 1, j, r] += left_word[w[j], r]
    R[j - 1, j, r] += right_word[w[j], r]
    M[i, j, r] += L[i, k, r] * R[k, j, r]
    L[i, j, r] += left[r, q] * M[i, j, q]
    R[i, j, r] += right[r, q] * M[i, j, q]
    Z[()] += top[r] * M[0, p.n, r]
    Z[()] += single[w[1]] * (p.n <= 1)


@cache
def _rank_program() -> TensorProgram:
    return TensorProgram(rank_rules())


@dataclass(frozen=True)
class RankSpaceSums(Sums):
    """As :class:`.Sums`.

    :param change: from log weights by block to those of :func:`rank_rules`, differentiable.
    """

    change: Change

    @property
    def program(self) -> TensorProgram:
        return RankSpaceProgram(self.recursion, self.change)


class RankSpaceProgram(TensorProgram):
    """The recursion; log Z and expected counts in rank space, if all sentences share the weights.

    :param change: see :class:`RankSpaceSums`.
    """

    def __init__(self, recursion: Recursion, change: Change) -> None:
        super().__init__(recursion)
        self._change, self._page, self._ranks = change, tensor_program(recursion), _rank_program()

    @cached_property
    def program(self):  # type: ignore[no-untyped-def]
        return self._page.program

    @cached_property
    def torch_engine(self):  # type: ignore[no-untyped-def]
        return self._page.torch_engine

    def log_counts(
        self,
        inputs: TensorInputs,
        scale: Tensor | None = None,
        *,
        counts: bool = True,
        by_sentence: bool = False,
        constants: Mapping[str, Numbers] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if by_sentence or constants or not self._is_shared(inputs):
            return super().log_counts(inputs, scale, counts=counts, by_sentence=by_sentence, constants=constants)
        reduced, used = _with_few_words(inputs)
        if not counts:
            ranks = self._in_rank_space(reduced, [t.detach() for t in reduced.weights.values()])
            return self._ranks.log_counts(ranks, counts=False)
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [t.detach().clone().requires_grad_() for t in reduced.weights.values()]
            ranks = self._in_rank_space(reduced, leaves)
            by_rank = list(ranks.weights.values())
            log_z, by_table = self._ranks.log_counts(ranks.with_weights([t.detach() for t in by_rank]), scale)
            grads = dict(
                zip(inputs.weights, torch.autograd.grad(by_rank, leaves, list(by_table.values())), strict=True)
            )
        emission = torch.zeros_like(inputs.in_rows().weights["emission"])
        grads["emission"] = emission.index_copy_(-1, used, grads["emission"])
        return log_z, {name: table if inputs.batched else table[0] for name, table in grads.items()}

    @staticmethod
    def _is_shared(inputs: TensorInputs) -> bool:
        tables = inputs.in_rows().weights.values()
        return len(inputs.lengths) > 0 and all(len(t) == 1 and t.dtype == inputs.dtype for t in tables)

    def _in_rank_space(self, inputs: TensorInputs, tables: Sequence[Tensor]) -> TensorInputs:
        """The sentences with weights of ranks, from log weights by block."""
        logs = dict(zip(inputs.weights, (t[0] for t in tables), strict=True))
        sizes = {"R": logs["left"].shape[0], "V": logs["emission"].shape[-1]}
        return TensorInputs(self._change(logs), inputs.lengths, inputs.words, sizes, batched=False)


def _with_few_words(inputs: TensorInputs) -> tuple[TensorInputs, Tensor]:
    """The sentences with the words that they have, and which ones these are."""
    (name, words), tables = *inputs.words.items(), dict(inputs.in_rows().weights)
    used, words = words.clamp_min(0).unique(return_inverse=True)
    tables["emission"] = tables["emission"].detach().index_select(-1, used)
    return TensorInputs(tables, inputs.lengths, {name: words}), used


def log_product(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of a product of matrices, shapes (x, y) and (y, z), that are given by their logarithms."""
    terms = []
    for (x, by_row), (y, by_column) in itertools.product(_in_range(a, 1), list(_in_range(b, 0))):
        numbers = x @ y
        nothing = numbers.detach() == 0
        terms.append((numbers + nothing).log().masked_fill(nothing, -torch.inf) + by_row + by_column)
    total = terms[0]
    for term in terms[1:]:
        total = torch.logaddexp(total, term)
    return total


def _in_range(logs: Tensor, axis: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A matrix as a sum: numbers, in units of the greatest along an axis, and its logarithm.

    Products of two numbers are zero, or in range, so that none is lost. As a rule there is one part.
    """
    rest, bits = logs.detach(), 0.9 * math.log(torch.finfo(logs.dtype).tiny) / 2
    large = torch.finfo(logs.dtype).max / 4
    while True:
        top = rest.amax(axis, keepdim=True).clamp(-large, large)
        inside = ~(rest < top + bits)  # NaN, too
        yield torch.where(inside, logs - top, -torch.inf).exp(), top
        rest = rest.masked_fill(inside, -torch.inf)
        if not bool((rest > -torch.inf).any()):
            return
