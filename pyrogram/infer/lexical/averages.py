# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a chain over the trees of sentences counts in the steps that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.infer.samplers.chain import averages_restart


class Averages:
    """Counts of arcs, and of moves that were accepted, of N sentences.

    :param lengths: of the sentences, shape (N,).
    :param longest: n, that of the longest, or longer.
    """

    def __init__(self, lengths: Tensor, longest: int):
        self.lengths, self.longest, self.kept = lengths, longest, 0
        self.accepted, self.moved = (torch.zeros(len(lengths), dtype=torch.float64) for _ in range(2))
        sizes = (lengths + 1) * lengths  # [head, dependent] of each sentence, one after the other
        self._starts = sizes.cumsum(0) - sizes
        self._arcs = torch.zeros(int(sizes.sum()), dtype=torch.int32)

    def beginning(self, burn_in: int, done: int) -> Averages:
        """These, or none yet if ``burn_in`` leaves out all of the ``done`` steps; see :func:`averages_restart`."""
        return Averages(self.lengths, self.longest) if averages_restart(burn_in, done, self.kept) else self

    def add(self, heads: Tensor, accepted: Tensor, moved: Tensor) -> None:
        """One step: trees of shape (N, n), padded with -1; which were accepted; how many words changed their tag."""
        self.accepted = self.accepted + accepted
        self.moved = self.moved + moved
        self.kept += 1
        position = torch.arange(heads.shape[1])
        cells = self._starts[:, None] + heads * self.lengths[:, None] + position
        self._arcs[cells[heads >= 0]] += 1

    def marginals(self) -> Tensor:
        """The share of steps in which each arc was in the tree, shape (N, n+1, n+1) [head, dependent]."""
        self._need_steps()
        shares = torch.zeros(len(self.lengths), self.longest + 1, self.longest + 1, dtype=torch.float64)
        for i, n in enumerate(self.lengths.tolist()):
            shares[i, : n + 1, 1 : n + 1] = self._share(i, n)
        return shares

    def mbr(self) -> Tensor:
        """The trees with the most expected right heads, shape (N, n), padded with -1."""
        self._need_steps()
        heads = torch.full((len(self.lengths), self.longest), -1)
        for i, n in enumerate(self.lengths.tolist()):
            if n:
                square = torch.nn.functional.pad(self._share(i, n), (1, 0))
                heads[i, :n] = ProjectiveDependencyTree(square, valence=False, validate_args=False).argmax()
        return heads

    def _need_steps(self) -> None:
        if not self.kept:
            raise RuntimeError("no steps were kept: run more of them than burn_in")

    def _share(self, i: int, n: int) -> Tensor:
        first = int(self._starts[i])
        return self._arcs[first : first + (n + 1) * n].reshape(n + 1, n).double() / self.kept

    @property
    def acceptance(self) -> float:
        """The share of proposed trees that were accepted; NaN before."""
        return _ratio(self.accepted.sum(), self.kept * len(self.accepted))

    @property
    def retagged(self) -> float:
        """The share of words that changed their tag in a step; NaN before."""
        return _ratio(self.moved.sum(), self.kept * int(self.lengths.sum()))

    def acceptance_by_length(self) -> dict[int, float]:
        """The share of proposed trees that were accepted, by the number of tokens of a sentence."""
        if not self.kept:
            return {}
        lengths = self.lengths
        return {int(n): float(self.accepted[lengths == n].mean()) / self.kept for n in lengths.unique()}

    def state_dict(self) -> dict[str, Tensor]:
        """All of it, as plain tensors."""
        kept = torch.tensor([self.kept])
        return {"arcs": self._arcs.clone(), "accepted": self.accepted, "moved": self.moved, "kept": kept}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the counts of as many sentences of the same lengths."""
        self._arcs, self.kept = state["arcs"].clone(), int(state["kept"])
        self.accepted, self.moved = state["accepted"], state["moved"]


def _ratio(count: Any, total: int) -> float:
    return float(count) / total if total else float("nan")
