# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z and counts of sentences that are too long for lists of derivations: in logarithms by torch, width by width.

That shares the analysis of rules with compiled code, and nothing else; lists of derivations check both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pyrogram.recursion import Inputs, Recursion
from pyrogram.recursion.torch.chart import Chart
from pyrogram.recursion.torch.engine import TorchEngine
from pyrogram.recursion.torch.semirings import Logarithms
from pyrogram.recursion.torch.tables import Tables


class _InLogarithms(TorchEngine):
    def _by_numbers(self, tables: Tables) -> torch.Tensor:
        return Chart(tables, Logarithms(), self._positions(tables.n)).fill()


def in_logarithms(made: Recursion, given: Inputs, scale: Any = None) -> tuple[Any, dict[str, Any]]:
    """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, each sentence's times its scale."""
    given = given.in_doubles()
    weights, words, lists = (
        {name: torch.from_numpy(np.array(x)) for name, x in tables.items()}
        for tables in (given.weights, given.words, given.lists)
    )
    scales = None if scale is None else torch.from_numpy(np.array(scale))
    arguments = weights, torch.from_numpy(np.array(given.lengths)), words, given.sizes, lists
    log_z, counts = _InLogarithms(made).marginals(*arguments, scale=scales)
    return log_z.numpy(), {name: table.numpy() for name, table in counts.items()}
