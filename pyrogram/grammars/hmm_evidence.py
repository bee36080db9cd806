# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence on the states of hidden Markov models: known, forbidden and preferred ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts import hmm as chart
from pyrogram.charts.trees import lengths_of
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions.state_sequence import States, StateSequence
from pyrogram.evidence import EvidenceGrammar
from pyrogram.grammar import Known, Weights
from pyrogram.recursion.emit.sentences import Numbers

from .hmm_collapsed import HMMUpdates

if TYPE_CHECKING:
    from .hmm import HMM


@dataclass(frozen=True)
class _Prepared:
    """Sentences, and the log factors of their states, shape ``(M, n, K)``."""

    words: Tensor
    bonus: Tensor
    by_type: dict[torch.dtype, Numbers | None] = field(default_factory=dict)

    def factors(self, *tables: Tensor) -> Numbers | None:
        """The factors of states, for all E-steps with tables of one type, if they are numbers."""
        dtype = torch.float32 if all(t.dtype == torch.float32 for t in tables) else torch.float64
        if dtype not in self.by_type:
            self.by_type[dtype] = chart.factors_of_states(self.bonus, dtype)
        return self.by_type[dtype]


class HMMEvidence(EvidenceGrammar):
    """Sentences of an :class:`.HMM` of whose states something is known.

    :param known: ``states``, or by kind ``states`` ``(*batch, n)``, -1 where unknown, and ``state_scores``
        ``(*batch, n, K)``, the logs of factors of states, -inf for what is forbidden.
    """

    base: HMM

    def __init__(self, base: HMM, known: Known) -> None:
        super().__init__(base, known, base.evidence_dims(known))

    def _check_tables(self) -> None:
        states, scores, K = self.tables.get("states"), self.tables.get("state_scores"), self.base.num_states
        if states is not None:
            if states.is_floating_point() or states.is_complex() or states.dtype == torch.bool:
                raise ValueError(f"known states must be integers, not {states.dtype}")
            self.tables["states"] = states = states.long()
            if not bool(((states >= -1) & (states < K)).all()):
                raise ValueError(f"known states must be 0 to {K - 1}, or -1 where unknown, but some are not")
        if scores is not None:
            if scores.shape[-1] != K or (states is not None and scores.shape[-2] != states.shape[-1]):
                shapes = " and ".join(f"{kind} {tuple(t.shape[1:])}" for kind, t in self.tables.items())
                raise ValueError(
                    f"known states and state_scores must have shapes (..., n) and (..., n, {K}), not {shapes}"
                )
            if not scores.is_floating_point() or not bool((scores < torch.inf).all()):
                raise ValueError("known state_scores must be real numbers or -inf, but some are not")

    @property
    def num_positions(self) -> int:
        return next(iter(self.tables.values())).shape[1]

    def _check_words(self, words: Tensor, rows: Tensor) -> None:
        if "states" in self.tables:
            states = self.tables["states"].to(words.device)[rows]
            beyond = ((words < 0) & (states >= 0)).any(-1)
            if bool(beyond.any()):
                first = int(beyond.flatten().nonzero()[0])
                row = states.reshape(-1, states.shape[-1])[first].tolist()
                raise ValueError(f"known states must be -1 in the padding, but those of sentence {first} are {row}")

    def _states(self, rows: Tensor) -> Tensor:
        """Known states, shape ``(*batch, n)``."""
        if "states" not in self.tables:
            return torch.full((*rows.shape, self.num_positions), -1, device=rows.device)
        return torch.where(rows[..., None] >= 0, self.tables["states"].to(rows.device)[rows], -1)

    def _bonus(self, rows: Tensor) -> Tensor:
        """The log factors of states, shape ``(*batch, n, K)``."""
        states = self._states(rows)[..., None]
        others = (states >= 0) & (states != torch.arange(self.base.num_states, device=rows.device))
        scores = self.tables.get("state_scores")
        if scores is None:
            return torch.zeros(others.shape, dtype=torch.float64, device=rows.device).masked_fill(others, -torch.inf)
        own = torch.where((rows >= 0)[..., None, None], scores.to(rows.device)[rows], 0.0)
        return own.masked_fill(others, -torch.inf)

    # ------------------------------------------------------------------ known states

    def _says_all(self, words: Tensor, rows: Tensor) -> Tensor:
        return (self._states(rows) >= 0).sum(-1) == lengths_of(words)

    def _derivations(self, words: Tensor, rows: Tensor) -> Tensor:
        return self._states(rows)

    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        fits = States(lengths_of(words), self.base.num_states).check(derivations)
        bonus = self._bonus(rows).gather(-1, derivations.clamp_min(0)[..., None])[..., 0]
        return torch.where(fits, torch.where(derivations >= 0, bonus, 0.0).sum(-1), -torch.inf)

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        K, V = self.base.num_states, self.base.num_words
        later = torch.nn.functional.pad(derivations[:, 1:], (0, 1), value=-1)
        moved = K + derivations * (K + 1) + torch.where(later < 0, K, later)
        emitted = K + K * (K + 1) + derivations * V + words
        real = words >= 0
        return torch.cat([derivations[:, :1], torch.where(real, moved, -1), torch.where(real, emitted, -1)], 1)

    # ------------------------------------------------------------------ sums over states

    def _prepared(self, words: Tensor, rows: Tensor) -> _Prepared:
        return _Prepared(words, self._bonus(rows))

    def _tables(self, log_weights: Mapping[str, Tensor]) -> list[Tensor]:
        return [log_weights[name] for name in self.blocks]

    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> Tensor:
        initial, transition, emission = (table[None] for table in self._tables(log_weights))
        return chart.log_partition(initial, transition, emission, prepared.words, bonus=prepared.bonus)

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> tuple[Tensor, Weights]:
        initial, transition, emission = self._tables(log_weights)
        factors = prepared.factors(initial, transition, emission)
        log_z, *counts = chart.expected_counts(
            initial, transition, emission, prepared.words, bonus=prepared.bonus, factors=factors
        )
        return log_z, dict(zip(self.blocks, counts, strict=True))

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        own, rows = self.split(words)
        factors = None if words.device.type != "cpu" else chart.factors_of_states(self._bonus(rows), torch.float64)
        if factors is None:
            return super().partly_updates(words)
        return HMMUpdates(self, words, HMMUpdates.plan(self.base, own, factors))

    def _derivation(
        self, log_weights: Mapping[str, Tensor], words: Tensor, rows: Tensor, validate_args: bool | None = None
    ) -> StateSequence:
        return self.base.derivation_given(log_weights, words, self._bonus(rows), validate_args)
