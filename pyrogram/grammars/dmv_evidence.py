# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence on the trees of the DMV: known heads, forbidden and preferred arcs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts import dmv_trees
from pyrogram.charts.trees import is_tree, lengths_of
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.evidence import EvidenceGrammar
from pyrogram.grammar import Known, Weights
from pyrogram.recursion.emit.sentences import Numbers
from pyrogram.recursion.run.on_tensors import Given, factors_of, fits_compiled

from .dmv_collapsed import DMVUpdates

if TYPE_CHECKING:
    from .dmv import DMV, DMVDerivation


@dataclass(frozen=True)
class _Prepared:
    """Sentences, and the log factors of their arcs, shape ``(M, n+1, n+1)``."""

    words: Tensor
    lengths: Tensor
    bonus: Tensor

    @cached_property
    def factors(self) -> Numbers | None:
        """The factors of arcs, for all E-steps, if they are numbers."""
        return factors_of(self.bonus)


class DMVEvidence(EvidenceGrammar):
    """Sentences of a :class:`.DMV` of whose trees something is known.

    :param known: ``heads``, or by kind ``heads`` ``(*batch, n)``, -1 where unknown, and ``arc_scores``
        ``(*batch, n+1, n+1)`` [head, dependent], the logs of factors of arcs, -inf for what is forbidden.
    """

    base: DMV

    def __init__(self, base: DMV, known: Known) -> None:
        super().__init__(base, known, base.evidence_dims(known))

    def _check_tables(self) -> None:
        heads, arcs = self.tables.get("heads"), self.tables.get("arc_scores")
        if heads is not None:
            if heads.is_floating_point() or heads.is_complex() or heads.dtype == torch.bool:
                raise ValueError(f"known heads must be integers, not {heads.dtype}")
            self.tables["heads"] = heads.long()
        if arcs is not None:
            n = arcs.shape[-1] - 1
            if arcs.shape[-2] != n + 1 or (heads is not None and heads.shape[-1] != n):
                shapes = " and ".join(f"{kind} {tuple(t.shape[1:])}" for kind, t in self.tables.items())
                raise ValueError(
                    f"known heads and arc_scores must have shapes (..., n) and (..., n+1, n+1), not {shapes}"
                )
            if not arcs.is_floating_point() or not bool((arcs < torch.inf).all()):
                raise ValueError("known arc_scores must be real numbers or -inf, but some are not")

    @property
    def num_positions(self) -> int:
        return self.tables["heads"].shape[1] if "heads" in self.tables else self.tables["arc_scores"].shape[1] - 1

    def _check_words(self, words: Tensor, rows: Tensor) -> None:
        if "heads" in self.tables:
            heads = self.tables["heads"].to(words.device)[rows]
            length = lengths_of(words)[..., None]
            fits = torch.where(words >= 0, (heads >= -1) & (heads <= length), heads == -1).all(-1)
            if not bool(fits.all()):
                first = int((~fits).flatten().nonzero()[0])
                row = heads.reshape(-1, heads.shape[-1])[first].tolist()
                raise ValueError(
                    f"known heads must be 0 to the number of words, or -1 where unknown and in the padding, but those "
                    f"of sentence {first} are {row}"
                )

    def _heads(self, rows: Tensor) -> Tensor:
        """Known heads, shape ``(*batch, n)``."""
        if "heads" not in self.tables:
            return torch.full((*rows.shape, self.num_positions), -1, device=rows.device)
        return torch.where(rows[..., None] >= 0, self.tables["heads"].to(rows.device)[rows], -1)

    def _bonus(self, rows: Tensor) -> Tensor:
        """The log factors of arcs, shape ``(*batch, n+1, n+1)`` [head, dependent]."""
        heads = torch.nn.functional.pad(self._heads(rows), (1, 0), value=-1)[..., None, :]
        others = (heads >= 0) & (heads != torch.arange(heads.shape[-1], device=rows.device)[:, None])
        arcs = self.tables.get("arc_scores")
        if arcs is None:
            return torch.zeros(others.shape, dtype=torch.float64, device=rows.device).masked_fill(others, -torch.inf)
        return torch.where((rows >= 0)[..., None, None], arcs.to(rows.device)[rows], 0.0).masked_fill(
            others, -torch.inf
        )

    # ------------------------------------------------------------------ known trees

    def _says_all(self, words: Tensor, rows: Tensor) -> Tensor:
        return (self._heads(rows) >= 0).sum(-1) == lengths_of(words)

    def _derivations(self, words: Tensor, rows: Tensor) -> Tensor:
        return self._heads(rows)

    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        fits = is_tree(derivations) & (lengths_of(derivations) == lengths_of(words))
        arcs = self._bonus(rows)[..., 1:].gather(-2, derivations.clamp_min(0)[..., None, :])[..., 0, :]
        bonus = torch.where(derivations >= 0, arcs, 0.0).sum(-1)
        return torch.where(fits, bonus, -torch.inf)

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        base, heads = self.base, derivations.cpu().numpy()
        rows = dmv_trees.rows_of(words.cpu().numpy(), heads, base.num_tags, base.num_valences, base.valence_attach)
        return torch.from_numpy(rows).to(words.device)

    # ------------------------------------------------------------------ sums over trees

    def _prepared(self, words: Tensor, rows: Tensor) -> _Prepared:
        return _Prepared(words, lengths_of(words), self._bonus(rows).double())

    def _given(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> Given:
        weights = {name: log_weights[name].double()[None] for name in self.blocks}
        return Given(weights, prepared.lengths, {"w": prepared.words}, {"V": self.base.num_tags})

    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> Tensor:
        program, given = self.base.program(evidence=True), self._given(log_weights, prepared)
        given = replace(given, weights={**given.weights, "arc": prepared.bonus})
        return program.log_partition(given).to(log_weights["root"].dtype)

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: _Prepared) -> tuple[Tensor, Weights]:
        fits = fits_compiled(*(log_weights[name].detach() for name in self.blocks))
        if not fits or prepared.factors is None:
            return super()._expected_counts(log_weights, prepared)
        program, given = self.base.program(evidence=True), self._given(log_weights, prepared)
        log_z, counts = program.log_counts(given, constants={"arc": prepared.factors})
        found = {name: counts[name][0].to(log_weights[name].dtype) for name in self.blocks}
        return log_z.to(log_weights["root"].dtype), found

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        own, rows = self.split(words)
        factors = None if words.device.type != "cpu" else factors_of(self._bonus(rows))
        if factors is None:
            return super().partly_updates(words)
        return DMVUpdates(self, words, DMVUpdates.plan(self.base, own, factors))

    def _derivation(
        self, log_weights: Mapping[str, Tensor], words: Tensor, rows: Tensor, validate_args: bool | None = None
    ) -> DMVDerivation:
        return self.base.derivation_given(log_weights, words, self._bonus(rows), validate_args)
