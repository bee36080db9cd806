# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The multinomials of the DMV that occur in each sentence: weights that differ from sentence to sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.checks import checked_words
from pyrogram.grammar import SentenceMultinomials, Weights, _ranges
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, fits_compiled
from pyrogram.sentences import Sentences, words_of
from pyrogram.trees import lengths_of

if TYPE_CHECKING:
    from .dmv import DMV


class DMVSentenceMultinomials(SentenceMultinomials):
    """Rows of the :class:`.DMV`: ROOT's, and for each distinct tag of a sentence those of this head.

    A *pair* is a sentence and one of its distinct tags. The p-th pair, by sentence and then by tag, has the rows
    ``2 p + direction`` of ``attach``, or ``(2 p + direction) S + valence`` if the grammar has ``valence_attach``, and
    ``(2 p + direction) S + valence`` of ``stop``; sentence l has row l of ``root``. S is the number of valences.

    On the CPU one compiled pass serves all sentences, in float64 whatever the dtype of the rows. Memory is linear in
    the pairs, time O(n^3) a sentence.

    :param sentences: words of shape ``(N, n)``, padded with -1 on the right; what is known of them is not looked at.
    :raises ValueError: if a sentence is not one or more tags and then padding.
    """

    grammar: DMV

    def __init__(self, grammar: DMV, sentences: Tensor | Sentences) -> None:
        words = checked_words(words_of(sentences), grammar.num_words)
        if words.dim() != 2:
            raise ValueError(f"words must have shape (N, n), one row for each sentence, not {tuple(words.shape)}")
        real = words >= 0
        numbers = torch.arange(len(words), device=words.device)
        keys, pair = torch.unique((numbers[:, None] * grammar.num_words + words)[real], return_inverse=True)
        sentence, tag = keys // grammar.num_words, keys % grammar.num_words

        def of_head(multinomials: int) -> tuple[Tensor, Tensor]:
            which = torch.arange(multinomials, device=words.device)
            return sentence.repeat_interleave(multinomials), (tag[:, None] * multinomials + which).flatten()

        S = grammar.num_valences
        attach = of_head(2 * S if grammar.valence_attach else 2)
        pairs = {"root": (numbers, torch.zeros_like(numbers)), "attach": attach, "stop": of_head(2 * S)}
        super().__init__(grammar, words, pairs)
        self._pairs = torch.full_like(words, -1).masked_scatter(real, pair)

    def expected_counts(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None = None, out: Weights | None = None
    ) -> tuple[Tensor, Weights]:
        log_weights = self._checked(log_weights, sentences, out)
        doubles = out is None or all(rows.dtype == torch.float64 for rows in out.values())
        if not doubles or not fits_compiled(*(rows.detach() for rows in log_weights.values())):
            return self._by_chunks(log_weights, sentences, out)
        counts = {name: torch.zeros(rows.shape, dtype=torch.float64) for name, rows in log_weights.items()}
        if out is not None:
            counts = out
            for name, rows in out.items():
                rows[slice(None) if sentences is None else _ranges(self.sentence[name], sentences)] = 0
        chosen = slice(None) if sentences is None else sentences
        tables = self._tables({name: rows.detach().double() for name, rows in log_weights.items()})
        into = self._tables(counts)
        tables["root"] = tables["root"][chosen]
        into["root"] = torch.zeros_like(tables["root"])
        inputs = self._inputs(tables, self.words[chosen], self._pairs[chosen])
        sums, _ = self._program.program.log_counts(inputs.arrays(), into={name: t.numpy() for name, t in into.items()})
        counts["root"][chosen] = into["root"]
        first = log_weights["root"]
        log_z = first.new_zeros(len(self.words))
        log_z[chosen] = torch.from_numpy(sums).to(first.dtype)
        return log_z, {name: c.to(log_weights[name].dtype) for name, c in counts.items()} if out is None else out

    @property
    def _program(self) -> TensorProgram:
        return self.grammar.program(by_sentence=True)

    def _tables(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rows in the shapes that the chart takes: those of heads by pair, in one table for all sentences."""
        S = self.grammar.num_valences
        valences = (S,) if self.grammar.valence_attach else ()
        return {
            "root": rows["root"],
            "attach": rows["attach"].reshape(1, -1, 2, *valences, self.grammar.num_tags),
            "stop": rows["stop"].reshape(1, -1, 2, S, 2),
        }

    def _inputs(self, tables: Mapping[str, Tensor], words: Tensor, pairs: Tensor) -> TensorInputs:
        sizes = {"V": self.grammar.num_tags, "P": tables["stop"].shape[1]}
        return TensorInputs(tables, lengths_of(words), {"w": words, "h": pairs}, sizes)

    def _numbers(self) -> int:
        return 10 * (self.words.shape[1] + 1) ** 2

    def _chunk_counts(
        self, log_weights: Mapping[str, Tensor], index: Mapping[str, Tensor], sentences: Tensor
    ) -> tuple[Tensor, Weights]:
        of_pair = 2 * self.grammar.num_valences
        wanted = index["stop"][::of_pair] // of_pair  # the pairs of these sentences
        pairs = torch.searchsorted(wanted, self._pairs[sentences])
        inputs = self._inputs(self._tables(log_weights), self.words[sentences], pairs)
        log_z, counts = self._program.marginals(inputs, by_torch=True)
        return log_z, {name: counts[name].reshape(log_weights[name].shape) for name in log_weights}
