# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Random numbers in compiled code: independent streams of SplitMix64 (Steele, Lea and Flood 2014)."""

from __future__ import annotations

from .expressions import Call, Expression, Name, Number, real
from .statements import Code


def seed_stream(code: Code, seed: Expression, stream: Expression) -> None:
    """Start an independent stream of SplitMix64 (Steele, Lea and Flood 2014)."""
    code.set("random", seed)
    _next(code)
    code.set("random", Name("random", "int") ^ Call("wrapping_mul", (stream, _signed(0xD1342543DE82EF95)), "int"))
    _next(code)


def _next(code: Code) -> Name:
    """64 random bits."""
    state = code.set("random", Call("wrapping_add", (Name("random", "int"), _signed(0x9E3779B97F4A7C15)), "int"))
    z: Expression = state
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = code.set("bits", Call("wrapping_mul", (z ^ (z >> shift), _signed(factor)), "int"))
    return code.set("bits", z ^ (z >> 31))


def uniform(code: Code) -> Expression:
    """A number in [0, 1)."""
    return real(_next(code) >> 11) * 2.0**-53


def _signed(bits: int) -> Number:
    return Number(bits - 2**64 if bits >= 2**63 else bits, "int")
