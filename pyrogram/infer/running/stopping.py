# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""When a run ends: nothing more is gained, or held-out sentences become less likely."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrogram.printable import plural


class Stopping:
    """Why a run should end, as far as its histories say.

    :param tolerance: the least gain of the objective, as a share of its magnitude; 0 never stops.
    :param patience: steps for which the held-out likelihood need not rise.
    :param may_fall: whether the objective may fall between steps, which is then no reason to stop.
    """

    def __init__(self, tolerance: float, patience: int, may_fall: bool = False):
        if not tolerance >= 0 or patience < 1:
            raise ValueError(f"need tolerance >= 0 and patience >= 1, not {tolerance} and {patience}")
        self.tolerance, self.patience, self.may_fall = tolerance, patience, may_fall
        self.since_best = 0  #: evaluations of the held-out likelihood since it was greatest

    def reason(self, history: Sequence[float], held_out: Sequence[float]) -> str:
        """The reason, or an empty string to go on.

        :param history: the objective before each step.
        :param held_out: the held-out log-likelihood after each step, NaN where it was not evaluated.
        """
        best, self.since_best = -math.inf, 0
        for value in held_out:
            if value > best:
                best, self.since_best = value, 0
            elif math.isnan(value):  # steps of another run, or of a schedule, lie between
                best, self.since_best = -math.inf, 0
            else:
                self.since_best += 1
        if self.since_best >= self.patience:
            return f"held-out likelihood has not risen for {plural(self.patience, 'iteration')}"
        if self.tolerance > 0 and len(history) >= 2:
            before, now = history[-2:]
            gain = abs(now - before) if self.may_fall else now - before
            if gain <= self.tolerance * abs(now):
                return f"gain below tolerance={self.tolerance:g}"
        return ""
