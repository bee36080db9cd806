# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a sum and a product are, in lanes: of real numbers, or the greatest of sums of logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..code.expressions import Expression, fma, greatest


@dataclass(frozen=True)
class Arithmetic:
    """A semiring of lanes.

    :param zero: what a sum begins with.
    :param one: the product of nothing.
    :param in_logs: whether values are logarithms, and the greatest term is the sum.
    """

    zero: float
    one: float
    in_logs: bool

    def plus(self, a: Expression, b: Expression) -> Expression:
        """A sum."""
        return greatest(a, b) if self.in_logs else a + b

    def times(self, a: Expression, b: Expression) -> Expression:
        """A product."""
        return a + b if self.in_logs else a * b

    def add_product(self, total: Expression, a: Expression, b: Expression) -> Expression:
        """A sum and a product, rounded once where there is an instruction for it."""
        return greatest(total, a + b) if self.in_logs else fma(a, b, total)


REALS = Arithmetic(0.0, 1.0, in_logs=False)
LOGS = Arithmetic(-math.inf, 0.0, in_logs=True)
