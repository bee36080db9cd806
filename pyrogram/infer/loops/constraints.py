# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Constraints on expected counts: posterior regularisation (Ganchev et al. 2010).

The E-step takes, of all q(y) under which the constraints hold, the one that is nearest to the posterior,

    q = argmin KL(q(y) || p(y | x, w))  such that  E_q[g_k] >= 0 for all k,   g = f - share * of,

f and ``of`` sums over the events of all sentences (Eq. 4 of the paper). This q is the posterior under weights times
exp Σ_k λ_k g_k(event), with multipliers λ >= 0 that minimise Σ_x log Z(x; λ), a convex function whose gradient is
E_q[g] (section 2.3). The minimum is the share that derivations have in the objective, the greatest
E_q[log p(x, y | w)] + H(q) that the constraints leave, so no iteration of EM lowers it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.grammar import Block, Weights
from pyrogram.infer.model.structure import SentenceSite

__all__ = ["AtLeast", "AtMost", "Constraint"]

#: Nats next to which log factors of evidence do not count.
_BEYOND_ALL = 1e6


@dataclass(frozen=True, eq=False)
class Constraint:
    """A share of events; see :class:`AtLeast` and :class:`AtMost`.

    :raises TypeError: for features that are no tensors by block.
    :raises ValueError: for a negative or infinite share, for NaN or inf, and if nothing is counted.
    """

    features: Bias | Mapping[str, Tensor]
    share: float
    of: Bias | Mapping[str, Tensor] | None = None

    sign = 1

    def __post_init__(self) -> None:
        if not 0 <= self.share < float("inf"):
            raise ValueError(f"{type(self).__name__} needs a share of at least 0, not {self.share!r}")
        for name, tables in (("features", self.features), ("of", self.of)):
            if tables is not None:
                self._check(name, tables)

    def _check(self, name: str, tables: Bias | Mapping[str, Tensor]) -> None:
        kind = type(self).__name__
        if not isinstance(tables, (Bias, Mapping)):
            raise TypeError(f"{kind} needs {name}, tensors by block or a Bias, not {tables!r:.100}")
        if not _events(tables):
            raise ValueError(f"{kind} needs {name}, tensors by block, but they are about no block")
        for block, table in _events(tables).items():
            if not isinstance(table, Tensor):
                raise TypeError(f"{kind}({name}=) needs tensors by block, but block {block!r} has {table!r:.100}")
            if not bool(table.isfinite().all()):
                raise ValueError(f"{kind}({name}=) needs finite numbers, but block {block!r} has others")

    def tables(self, blocks: Mapping[str, Block]) -> tuple[Weights, Weights]:
        """By block, how often an event counts in f, and in ``of``, in the shapes of the blocks, float64.

        :raises ValueError: if they do not fit the blocks.
        """
        features = _events(self.features)
        of = {name: torch.ones(()) for name in features} if self.of is None else _events(self.of)
        return _expanded(features, blocks), _expanded(of, blocks)

    def slack(self, blocks: Mapping[str, Block]) -> Weights:
        """The slack g, ``(*block.shape)`` by block, float64, whose expected sum must not be negative."""
        f, of = self.tables(blocks)
        return dict((self.sign * (Bias(f) + -self.share * Bias(of))).events)

    @property
    def identity(self) -> str:
        """What tells it from others."""
        digest = hashlib.sha256()
        for tables in (_events(self.features), {} if self.of is None else _events(self.of)):
            for name, table in tables.items():
                digest.update(f"{name}{tuple(table.shape)}".encode())
                digest.update(table.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
        return f"{type(self).__name__}({self.share}, {self.of is None}, {digest.hexdigest()})"


class AtLeast(Constraint):
    """E_q[Σ features] >= share * E_q[Σ of], of all sentences together.

    >>> verbs = AtLeast({"root": torch.tensor([0.0, 1.0])}, 0.8)  # four of five roots have tag 1

    :param features: by block of the grammar, how often each event counts: 0 or 1, say; shapes broadcast against those
        of the blocks. Of a :class:`.Bias`, its events.
    :param share: the least share, in the events of ``of``.
    :param of: the same of the events that are counted in all; by default every event of the blocks of ``features``
        counts once.
    """


class AtMost(Constraint):
    """E_q[Σ features] <= share * E_q[Σ of]; see :class:`AtLeast`."""

    sign = -1


def tilted_counts(
    site: SentenceSite, log_weights: Mapping[str, Tensor], nats: Mapping[str, Tensor]
) -> tuple[Tensor, Weights, Weights]:
    """log Z of each sentence, and expected counts by block of the site's grammar and of the model's, under a tilt.

    :param log_weights: by source.
    :param nats: by block of the model's grammar, what is added to the log weights of events.
    """
    grammar, events = site.model_grammar, site.by_event(log_weights)
    tilted = {name: w + nats[name].to(w) if name in nats else w for name, w in events.items()}
    log_z, counts = grammar.expected_counts(tilted, site.sentences)
    site.check_derivable(log_z)
    return log_z, site.by_entry(counts), counts


def greatest_share(sites: Sequence[SentenceSite], log_weights: Mapping[str, Tensor], constraint: Constraint) -> float:
    """The greatest share that any q has, or the least one for :class:`AtMost`; by the method of Dinkelbach (1967).

    The ratio of two sums over derivations is greatest at one derivation of each sentence. It is the one that Viterbi's
    algorithm finds for the slack at the greatest ratio, to which the ratio of each such derivation is a step.

    :param log_weights: by source, which say what is possible.
    """
    share = _best_share(sites, log_weights, constraint, constraint.share)
    while True:
        reached = _best_share(sites, log_weights, constraint, share)
        if constraint.sign * (reached - share) <= 1e-12:
            return share
        share = reached


def _best_share(
    sites: Sequence[SentenceSite], log_weights: Mapping[str, Tensor], constraint: Constraint, share: float
) -> float:
    """The share that derivations of the greatest slack at a share have; it itself, if there are no events."""
    sum_f, sum_of, sign = 0.0, 0.0, constraint.sign
    for site in sites:
        grammar, events = site.model_grammar, site.by_event(log_weights)
        f, of = constraint.tables(grammar.blocks)
        slack = (_BEYOND_ALL * sign * (Bias(f) + -share * Bias(of))).events
        logs = {name: torch.where(w > -torch.inf, 0.0, w) for name, w in events.items()}
        logs = {name: w + slack[name].to(w) if name in slack else w for name, w in logs.items()}
        best = grammar.derivation(None, site.sentences, log_weights=logs).argmax()
        counts = grammar.collapsed_updates(site.sentences).counts(best)
        sum_f += site.scale * float(expectation(counts, f))
        sum_of += site.scale * float(expectation(counts, of))
    return sum_f / sum_of if sum_of else share


def expectation(counts: Mapping[str, Tensor], table: Mapping[str, Tensor]) -> Tensor:
    """Σ over events of counts times how often each counts."""
    terms = [(counts[name].double() * times.to(counts[name].device)).sum() for name, times in table.items()]
    return torch.stack(terms).sum().cpu()


def combined(multipliers: Tensor, slack: Sequence[Weights]) -> Weights:
    """Σ_k λ_k g_k by block."""
    return dict(sum((float(times) * Bias(g) for times, g in zip(multipliers, slack, strict=True)), Bias()).events)


def _events(features: Bias | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return features.events if isinstance(features, Bias) else features


def _expanded(tables: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> Weights:
    expanded = {}
    for name, table in tables.items():
        if name not in blocks:
            raise ValueError(f"a constraint is about block {name!r}, but the grammar has {list(blocks)}")
        try:
            expanded[name] = table.detach().to(torch.float64).expand(blocks[name].shape)
        except RuntimeError:
            raise ValueError(
                f"a constraint on block {name!r} must broadcast against {tuple(blocks[name].shape)}, but has shape "
                f"{tuple(table.shape)}"
            ) from None
    return expanded
