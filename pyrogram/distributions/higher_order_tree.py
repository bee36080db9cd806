# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over dependency trees have in common whose arcs are scored with other arcs."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts.events import counted, total_score
from pyrogram.charts.projective import entropy

from .charted import copied
from .dependency_tree import DependencyTreeDistribution, comparable, expected_difference


class HigherOrderTreeDistribution(DependencyTreeDistribution):
    """Trees whose events are arcs and configurations of several arcs; each kind has a table of scores.

    ``_marginals`` gives log Z and then the posteriors of the events, in the order of the scores that are given.
    """

    @property
    def _scores(self) -> dict[str, Tensor]:
        """Those that are given, by the names of the events."""
        tables = {name.removesuffix("_scores"): getattr(self, name) for name in self._score_names}
        return {name: x for name, x in tables.items() if x is not None}

    def _dims(self, name: str) -> int:
        """How many dimensions the table of some events has."""
        return self._event_dims[f"{name}_scores"]

    @abstractmethod
    def _events(self, heads: Tensor) -> dict[str, Tensor]:
        """The events of trees, see :mod:`pyrogram.charts.events`."""

    def _score(self, heads: Tensor) -> Tensor:
        score = torch.zeros((), dtype=self.arc_scores.dtype, device=heads.device)
        for name, events in self._events(heads).items():
            score = score + total_score(self._scores[name].flatten(-self._dims(name)), events)
        return score

    def marginals(self) -> Tensor:
        """p(arc is in the tree), shape ``(*batch_shape, n+1, n+1)`` [head, dependent]."""
        arcs = copied(self._posterior()[1])
        return arcs.expand(*self.batch_shape, *arcs.shape[-2:])

    def expected_counts(self) -> dict[str, Tensor]:
        """The gradient of log Z: the posterior of every event, in the shape of the scores."""
        log_z, *posteriors = self._posterior()
        # Copies, so that a caller may change them in place.
        return {
            name: copied(p).expand(*self.batch_shape, *p.shape[log_z.dim() :])
            for name, p in zip(self._scores, posteriors, strict=False)
        }

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """The events of a tree, as indicators in the shape of the scores: the gradient of its score."""
        if self._validate_args:
            self._validate_sample(value)
        tables, dtype = self._scores, self.arc_scores.dtype
        return {
            name: counted(events, tuple(tables[name].shape[-self._dims(name) :]), dtype)
            for name, events in self._events(value.long()).items()
        }

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 where no tree is possible."""
        log_z, *posteriors = self._posterior()
        pairs = zip(self._scores.values(), posteriors, strict=False)
        nats: Tensor = entropy(log_z, [(s.expand(p.shape), p) for s, p in pairs])
        return nats.expand(self.batch_shape)


@register_kl(HigherOrderTreeDistribution, HigherOrderTreeDistribution)
def _kl(p: HigherOrderTreeDistribution, q: HigherOrderTreeDistribution) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if type(p) is not type(q):
        raise NotImplementedError("p and q score different events")
    comparable(p, q)
    missing = p._scores.keys() ^ q._scores.keys()
    if missing:
        raise NotImplementedError(
            f"one distribution has {min(missing)} scores and the other has none; give both, zeros will do"
        )
    total = q.log_partition - p.log_partition
    for (name, scores), posterior in zip(p._scores.items(), p._posterior()[1:], strict=False):
        total = total + expected_difference(posterior, scores, q._scores[name], p._dims(name))
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
