# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions: dynamic programs over sentences, written as in a paper."""

from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.rules.charts import Chart
from pyrogram.recursion.rules.interpreter import Best, Derivations, Entropy, Grounded, Reals, Semiring
from pyrogram.recursion.rules.language import InvalidRecursion
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.program import Program
from pyrogram.recursion.torch.engine import TorchEngine

__all__ = [
    "Best",
    "Chart",
    "Derivations",
    "Entropy",
    "Grounded",
    "Inputs",
    "InvalidRecursion",
    "Program",
    "Reals",
    "Recursion",
    "Semiring",
    "TorchEngine",
    "recursion",
]


def __dir__() -> list[str]:
    return __all__
