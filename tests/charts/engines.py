# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The charts of trees by compiled code or by torch, for tests that run through both."""

from dataclasses import dataclass
from typing import Any

from pyrogram.charts import projective, sibling


@dataclass(frozen=True)
class TreeEngine:
    """A chart's functions; arguments are scores, lengths, multiroot, and what else a function takes."""

    chart: Any
    name: str

    def log_partition(self, *given):
        *scores, multiroot = given
        return self.chart.log_partition(*scores, multiroot=multiroot, engine=self.name)

    def marginals(self, *given):
        *scores, multiroot = given
        return self.chart.marginals(*scores, multiroot=multiroot, engine=self.name)

    def sample(self, *given, generator=None):
        *scores, multiroot, number = given
        return self.chart.sample(*scores, multiroot=multiroot, num_samples=number, generator=generator)

    def top_k(self, *given):
        *scores, multiroot, k = given
        return self.chart.top_k(*scores, multiroot=multiroot, k=k)


COMPILED, TORCH = TreeEngine(projective, "compiled"), TreeEngine(projective, "torch")
SIBLING_COMPILED, SIBLING_TORCH = TreeEngine(sibling, "compiled"), TreeEngine(sibling, "torch")
