# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""When a run ends: nothing more is gained, or held-out sentences become less likely."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import GrammarLoop


class Stopper:
    """When to stop, and what to go back to."""

    def __init__(self, tolerance: float, patience: int, loop: GrammarLoop):
        self.tolerance, self.patience = tolerance, patience
        self.reason = ""
        # A resumed run has its past to look at.
        seen = [v for v in loop.held_out_history if not math.isnan(v)]
        self.best_value = max(seen, default=-math.inf)
        self.since_best = len(seen) - 1 - seen.index(self.best_value) if seen else 0
        if seen:
            self.reason = (
                f"held-out likelihood has not risen for {patience} iterations" if self.since_best >= patience else ""
            )
        self._judge(loop)

    def look(self, loop: GrammarLoop) -> None:
        value = loop.held_out_history[-1]
        if not math.isnan(value):
            if value > self.best_value:
                self.best_value, self.since_best = value, 0
                loop._best = {name: tensor.detach().clone() for name, tensor in loop._tensors().items()}
            else:
                self.since_best += 1
                if self.since_best >= self.patience:
                    self.reason = f"held-out likelihood has not risen for {self.patience} iterations"
        self._judge(loop)

    def _judge(self, loop: GrammarLoop) -> None:
        if self.tolerance > 0 and len(loop.history) >= 2 and not self.reason:
            before, now = loop.history[-2:]
            gain = abs(now - before) if loop.may_fall else now - before
            if gain <= self.tolerance * abs(now):
                self.reason = f"gain below tolerance={self.tolerance:g}"

    def restore(self, loop: GrammarLoop) -> None:
        """Go back to the state of best held-out likelihood, but keep the whole history."""
        if loop._best and self.since_best > 0:
            loop._set_tensors({name: tensor.clone() for name, tensor in loop._best.items()})
