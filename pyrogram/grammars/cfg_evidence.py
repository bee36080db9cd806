# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence on derivations of context-free grammars: known brackets (Pereira and Schabes 1992), known derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.charts import cfg as chart
from pyrogram.charts.cfg_rules import Matches
from pyrogram.charts.leftmost_spans import has_spans
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions.constraints import LeftmostDerivations
from pyrogram.distributions.known_derivation import KnownDerivation
from pyrogram.evidence import EvidenceGrammar
from pyrogram.grammar import Known, Weights
from pyrogram.printable import plural

from .cfg_collapsed import CFGUpdates

if TYPE_CHECKING:
    from .cfg import CFG

BLOCK = "rules"


class CFGEvidence(EvidenceGrammar):
    """Sentences of a :class:`.CFG` of whose derivations something is known.

    :param known: ``brackets``, or by kind ``brackets`` ``(*batch, n+1, n+1)`` [i, k], true where no constituent may
        cross the words i .. k - 1, and ``derivations`` ``(*batch, L)``, rows of -1 where unknown.
    """

    base: CFG

    def __init__(self, base: CFG, known: Known) -> None:
        super().__init__(base, known, base.evidence_dims(known))

    def _check_tables(self) -> None:
        brackets, derivations, R = self.tables.get("brackets"), self.tables.get("derivations"), len(self.base.rules)
        if brackets is not None:
            if brackets.shape[-1] != brackets.shape[-2] or not bool(((brackets == 0) | (brackets == 1)).all()):
                raise ValueError(
                    f"known brackets must be true or false, of shape (..., n+1, n+1), not {brackets.dtype} of shape "
                    f"(..., {', '.join(map(str, brackets.shape[1:]))})"
                )
            self.tables["brackets"] = brackets = brackets.bool()
            if bool(brackets.tril().any()):
                raise ValueError("known brackets must begin before they end: brackets[i, k] is about words i .. k - 1")
        if derivations is not None:
            if derivations.is_floating_point() or derivations.dtype == torch.bool:
                raise ValueError(f"known derivations must be integers, not {derivations.dtype}")
            self.tables["derivations"] = derivations = derivations.long()
            if not bool(((derivations >= -1) & (derivations < R)).all()):
                raise ValueError(
                    f"known derivations must be rules 0 to {R - 1}, and -1 where unknown, but some are not"
                )

    @property
    def num_positions(self) -> int | None:
        return self.tables["brackets"].shape[1] - 1 if "brackets" in self.tables else None

    def _check_words(self, words: Tensor, rows: Tensor) -> None:
        if "brackets" in self.tables:
            ends = self.tables["brackets"].any(-2).to(words.device)[rows]  # where a bracket of the sentence ends
            beyond = (ends[..., 1:] & (words < 0)).any(-1)
            if bool(beyond.any()):
                first = int(beyond.flatten().nonzero()[0])
                raise ValueError(
                    f"known brackets must lie inside of their sentence, but one of sentence {first} does not"
                )
        L = chart.longest(self.base.table, words.shape[-1])
        if "derivations" in self.tables and bool((self.tables["derivations"][:, L:] >= 0).any()):
            raise ValueError(
                f"known derivations must have at most {plural(L, 'rule')}, as derivations of such words do"
            )

    @cached_property
    def _forbidden(self) -> Tensor:
        """The spans [i, k] that cross a known bracket [a, b]: a < i < b < k or i < a < k < b; shape (R, n+1, n+1)."""
        brackets = self.tables["brackets"].cpu()
        R, N, _ = brackets.shape
        before = torch.zeros(R, N + 1, N + 1, dtype=torch.int64)  # brackets [a, b] with a < x and b < y, at [x, y]
        before[:, 1:, 1:] = brackets.long().cumsum(1).cumsum(2)
        i, k = torch.arange(N)[:, None].expand(N, N), torch.arange(N)[None].expand(N, N)
        opened = before[:, i, k] - before[:, i, i + 1]  # a < i, i < b < k
        closed = before[:, k, N] - before[:, k, k + 1] - before[:, i + 1, N] + before[:, i + 1, k + 1]  # i < a < k < b
        return ((opened > 0) | (closed > 0)) & (i < k)

    def _crossing(self, rows: Tensor) -> Tensor | None:
        """The spans that are forbidden, shape ``(*batch, n+1, n+1)``."""
        if "brackets" not in self.tables:
            return None
        return self._forbidden[rows.cpu()] & (rows.cpu() >= 0)[..., None, None]

    # ------------------------------------------------------------------ known derivations

    def _says_all(self, words: Tensor, rows: Tensor) -> Tensor:
        return (self._derivations(words, rows) >= 0).any(-1)

    def _derivations(self, words: Tensor, rows: Tensor) -> Tensor:
        L = chart.longest(self.base.table, words.shape[-1])
        if "derivations" not in self.tables:
            return torch.full((*rows.shape, L), -1, device=rows.device)
        known = self.tables["derivations"].to(rows.device)
        known = torch.nn.functional.pad(known, (0, L - known.shape[-1]), value=-1)  # or cut, see _check_words
        return torch.where(rows[..., None] >= 0, known[rows], -1)

    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        fits = LeftmostDerivations(self.base.flat, words).check(derivations)
        forbidden = self._crossing(rows)
        if forbidden is not None:
            own, S = fits.cpu().nonzero()[:, 0], len(self.base.nonterminals)
            crossing = has_spans(derivations[own].cpu(), forbidden[own], self.base.flat, S)
            fits[own[crossing]] = False
        return torch.where(fits, 0.0, -torch.inf).double()

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        return derivations

    # ------------------------------------------------------------------ sums over derivations

    def _prepared(self, words: Tensor, rows: Tensor) -> Matches:
        forbidden = self._crossing(rows)
        assert forbidden is not None
        return replace(self.base.matches(words), forbidden=forbidden.numpy())

    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: Matches) -> Tensor:
        return chart.log_partition(log_weights[BLOCK], self.base.table, prepared)

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: Matches) -> tuple[Tensor, Weights]:
        log_z, counts = chart.expected_counts(log_weights[BLOCK].detach(), self.base.table, prepared)
        return log_z, {BLOCK: counts}

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        plan = None
        if words.device.type == "cpu":
            own, rows = self.split(words)
            plan = CFGUpdates.plan(self.base, own, self._prepared(own, rows))
        return super().partly_updates(words) if plan is None else CFGUpdates(self, words, plan)

    def _derivation(
        self, log_weights: Mapping[str, Tensor], words: Tensor, rows: Tensor, validate_args: bool | None = None
    ) -> Any:
        forbidden = self._crossing(rows)
        if forbidden is None:
            others = self.base.derivation(None, words, log_weights=log_weights)
        else:
            others = self.base.derivation_given(log_weights, words, forbidden, validate_args)
        known = self._derivations(words, rows)
        if not bool((known >= 0).any()):
            return others
        flat = words.reshape(-1, words.shape[-1]), rows.reshape(-1), known.reshape(-1, known.shape[-1])
        return KnownDerivation(others, known, (self.log_bonus(*flat) == 0).reshape(rows.shape))
