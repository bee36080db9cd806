# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of a grammar of one's own of whose derivations something is known: all events, or factors of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions.constraints import RecursiveDerivations
from pyrogram.distributions.known_derivation import KnownDerivation
from pyrogram.evidence import EvidenceGrammar
from pyrogram.grammar import Known, Weights
from pyrogram.printable import plural
from pyrogram.recursion.run.on_tensors import fits_compiled

from .recursive_collapsed import RecursiveUpdates

if TYPE_CHECKING:
    from .recursive import RecursiveGrammar

DERIVATIONS = "derivations"


class _Prepared(NamedTuple):
    words: Tensor
    evidence: dict[str, Tensor]


class RecursiveEvidence(EvidenceGrammar):
    """Sentences of a :class:`.RecursiveGrammar` of whose derivations something is known.

    :param known: ``derivations`` ``(*batch, L)``, rows of events, or of -1 where unknown; or by kind ``derivations``,
        and logs of factors of items, or of uses of events, by name, ``(*batch, n+1, ..., *sizes)``.
    """

    base: RecursiveGrammar

    def __init__(self, base: RecursiveGrammar, known: Known) -> None:
        super().__init__(base, known, base.evidence_dims(known))

    def _check_tables(self) -> None:
        derivations = self.tables.get(DERIVATIONS)
        if derivations is not None:
            E = self.base.num_events
            if derivations.is_floating_point() or derivations.dtype == torch.bool:
                raise ValueError(f"known derivations must be integers, not {derivations.dtype}")
            self.tables[DERIVATIONS] = derivations = derivations.long()
            if not bool(((derivations >= -1) & (derivations < E)).all()):
                raise ValueError(
                    f"known derivations must be events 0 to {E - 1}, and -1 where unknown, but some are not"
                )
        for name, scores in self._scores.items():
            if not scores.is_floating_point() or not bool((scores < torch.inf).all()):
                raise ValueError(f"known factors of {name} must be real numbers or -inf, but some are not")
            if derivations is not None:
                both = (scores != 0).flatten(1).any(-1) & (derivations >= 0).any(-1)
                if bool(both.any()):
                    first = int(both.nonzero()[0])
                    raise ValueError(
                        f"known must be a derivation or factors of {name} for each sentence, but is both for {first}"
                    )

    @property
    def _scores(self) -> dict[str, Tensor]:
        return {name: t for name, t in self.tables.items() if name != DERIVATIONS}

    def _check_words(self, words: Tensor, rows: Tensor) -> None:
        L = self.base.longest(words.shape[-1])
        if DERIVATIONS in self.tables and bool((self.tables[DERIVATIONS][:, L:] >= 0).any()):
            raise ValueError(
                f"known derivations must have at most {plural(L, 'event')}, as derivations of such words do"
            )

    def _evidence(self, rows: Tensor) -> dict[str, Tensor]:
        """Logs of factors by name, shape ``(*batch, ...)``."""
        found = {}
        for name, scores in self._scores.items():
            here = (rows >= 0).reshape(*rows.shape, *(1,) * (scores.dim() - 1))
            found[name] = torch.where(here, scores.to(rows.device)[rows], 0.0)
        return found

    # ------------------------------------------------------------------ known derivations

    def _says_all(self, words: Tensor, rows: Tensor) -> Tensor:
        return (self._derivations(words, rows) >= 0).any(-1)

    def _derivations(self, words: Tensor, rows: Tensor) -> Tensor:
        L = self.base.longest(words.shape[-1])
        if DERIVATIONS not in self.tables:
            return torch.full((*rows.shape, L), -1, device=rows.device)
        known = self.tables[DERIVATIONS].to(rows.device)
        known = torch.nn.functional.pad(known, (0, L - known.shape[-1]), value=-1)  # or cut, see _check_words
        return torch.where(rows[..., None] >= 0, known[rows], -1)

    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        fits = RecursiveDerivations(self.base.traces, words).check(derivations)
        return torch.where(fits, 0.0, -torch.inf).double()

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        return derivations

    # ------------------------------------------------------------------ sums over derivations

    def _prepared(self, words: Tensor, rows: Tensor) -> _Prepared:
        return _Prepared(words, self._evidence(rows))

    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> Tensor:
        return self.base.log_partition(log_weights, prepared.words, evidence=prepared.evidence)

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> tuple[Tensor, Weights]:
        if not fits_compiled(*(log_weights[name].detach() for name in self.blocks)):
            return super()._expected_counts(log_weights, prepared)
        return self.base.expected_counts(log_weights, prepared.words, evidence=prepared.evidence)

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        own, rows = self.split(words)
        plan = None if words.device.type != "cpu" else self.base.sweep_plan(own, self._evidence(rows))
        return super().partly_updates(words) if plan is None else RecursiveUpdates(self, words, plan)

    def _derivation(
        self, log_weights: Mapping[str, Tensor], words: Tensor, rows: Tensor, validate_args: bool | None = None
    ) -> Any:
        evidence = self._evidence(rows)
        others = self.base.derivation_given(log_weights, words, evidence, validate_args)
        known = self._derivations(words, rows)
        if not bool((known >= 0).any()):
            return others
        flat = words.reshape(-1, words.shape[-1]), rows.reshape(-1), known.reshape(-1, known.shape[-1])
        return KnownDerivation(others, known, (self.log_bonus(*flat) == 0).reshape(rows.shape))
