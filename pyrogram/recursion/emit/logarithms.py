# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logarithms of lanes of float64, and lanes from anywhere in an array."""

from __future__ import annotations

import math

from ..code.expressions import (
    Expression,
    exponent_of,
    fma,
    greatest,
    power_of_two,
    select,
    spread,
)
from ..code.statements import Code

_TINY = 2.2250738585072014e-308
# log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716: the first dropped term is 0.0295**11 / 23 = 6e-19.
_TERMS = 11


def log_of_lanes(code: Code, x: Expression) -> Expression:
    """log(x) in lanes, or in a vector, of 0 <= x < 2**1022, to about one unit in the last place.

    Below the normal range x counts as tiny.
    """

    def one(number: float) -> Expression:
        return spread(number, x.type)

    x = code.let(greatest(one(_TINY), x))
    exponent = code.let(exponent_of(x))
    mantissa = code.let(x * power_of_two(one(0.0) - exponent))
    above = code.let(select(mantissa > one(math.sqrt(2)), one(1.0), one(0.0)))
    mantissa = code.let(mantissa * (one(1.0) - one(0.5) * above))
    s = code.let((mantissa - one(1.0)) / (mantissa + one(1.0)))
    square = code.let(s * s)
    series: Expression = one(1 / (2 * _TERMS - 1))
    for k in range(_TERMS - 2, -1, -1):
        series = fma(series, square, one(1 / (2 * k + 1)))
    return fma(exponent + above, one(math.log(2.0)), (s + s) * series)
