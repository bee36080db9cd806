# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a sampler over derivations keeps of the sweeps that it has done."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.structure import TracedModel
from pyrogram.infer.running.state import ragged

from .chain import averages_restart


@dataclass(frozen=True)
class TreeAverages:
    """Sums over sweeps after the burn-in, and the best derivations of all sweeps.

    :param kept: the number of these sweeps.
    :param sums: of the weights' means given the derivations, by source.
    :param accepted: proposals that were accepted, by site, of every sentence.
    :param best_joint: the greatest log joint of any sweep, in nats.
    :param joints: log joint after each of the sweeps that are kept, in nats.
    :param traces: by name, what is followed from sweep to sweep: values after each of the sweeps that are kept, in the
        first ``kept`` rows; they are written in place.
    :param parts: sums of the parts of derivations, by site, which are added to in place: they are large.
    :param best: the derivations of the greatest log joint, by site.
    """

    kept: Tensor
    sums: Weights
    accepted: Weights
    best_joint: Tensor
    joints: Tensor = ragged()
    traces: Weights = ragged()
    parts: Weights = ragged()
    best: Weights = ragged()

    @staticmethod
    def none(traced: TracedModel) -> TreeAverages:
        """Of no sweep."""
        return TreeAverages(
            kept=torch.tensor(0),
            sums={n: torch.zeros_like(s.value, dtype=torch.float64) for n, s in traced.weight_sources.items()},
            accepted={s.name: torch.zeros(len(s.words), dtype=torch.long) for s in traced.sentences},
            best_joint=torch.tensor(-torch.inf, dtype=torch.float64),
            joints=torch.empty(0, dtype=torch.float64),
            traces={},
            parts={},
            best={},
        )

    def beginning(self, traced: TracedModel, burn_in: int, done: int) -> TreeAverages:
        """These, or none yet if ``burn_in`` leaves out all of the ``done`` sweeps; see :func:`averages_restart`."""
        if not averages_restart(burn_in, done, int(self.kept)):
            return self
        return replace(TreeAverages.none(traced), best_joint=self.best_joint, best=self.best)

    def fits(self, other: TreeAverages) -> bool:
        """Whether traces and parts have the names and shapes of another one's, but for the number of sweeps."""
        rows = [{name: trace.shape[1:] for name, trace in x.traces.items()} for x in (self, other)]
        parts = [{site: total.shape for site, total in x.parts.items()} for x in (self, other)]
        complete = len(self.joints) == self.kept and all(len(trace) >= self.kept for trace in self.traces.values())
        return rows[0] == rows[1] and parts[0] == parts[1] and complete

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted; NaN before."""
        proposals = int(self.kept) * sum(len(a) for a in self.accepted.values())
        return sum(int(a.sum()) for a in self.accepted.values()) / proposals if proposals else float("nan")
