# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a sampler over derivations adds up over the sweeps that it keeps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pyrogram.grammar import Weights

from .chain import begins_anew


class TreeAverages:
    """Sums over sweeps after the burn-in: of weights, of parts of derivations, of proposals that were accepted."""

    def __init__(self) -> None:
        self.kept = 0  #: sweeps
        self.joints: list[float] = []  #: log joint after each of them, in nats
        self.sums: Weights = {}  #: of the weights' means given the derivations
        self.accepted: dict[str, Tensor] = {}  #: by site, of every sentence
        self.parts: dict[str, Tensor] = {}  #: by site, of the parts of derivations

    def beginning(self, burn_in: int, done: int) -> TreeAverages:
        """These, or none yet if ``burn_in`` leaves out all of the ``done`` sweeps; see :func:`.chain.begins_anew`."""
        return TreeAverages() if begins_anew(burn_in, done, self.kept) else self

    def add(self, means: Weights, accepted: Mapping[str, Tensor], joint: float) -> None:
        """One sweep, but for the parts of its derivations."""
        self.sums = {n: self.sums[n] + w.double() if n in self.sums else w.double() for n, w in means.items()}
        for site, now in accepted.items():
            old = self.accepted.get(site)
            self.accepted[site] = now.long() if old is None else old + now
        self.joints = [*self.joints, joint] if self.kept else [joint]
        self.kept += 1

    @property
    def acceptance(self) -> float:
        """The share of proposals that were accepted; NaN before."""
        proposals = self.kept * sum(len(a) for a in self.accepted.values())
        return sum(int(a.sum()) for a in self.accepted.values()) / proposals if proposals else float("nan")

    def tensors(self) -> dict[str, Tensor]:
        """All of it, as plain tensors."""
        kinds: dict[str, Mapping[str, Tensor]] = {"sum": self.sums, "parts": self.parts, "accepted": self.accepted}
        tensors = {f"{kind}.{name}": t for kind, found in kinds.items() for name, t in found.items()}
        return {**tensors, "joints": torch.tensor(self.joints, dtype=torch.float64)}

    @staticmethod
    def from_tensors(kinds: Mapping[str, Weights], joints: Tensor, kept: int) -> TreeAverages:
        """The averages that :meth:`tensors` came from, whose names ``kinds`` has cut in two."""
        averages = TreeAverages()
        averages.sums, averages.parts, averages.accepted = kinds["sum"], kinds["parts"], kinds["accepted"]
        averages.joints, averages.kept = joints.tolist(), kept
        return averages
