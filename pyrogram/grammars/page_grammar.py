# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars whose derivations a recursion sums over: log Z, counts, draws and the best derivations follow from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.event_map import EventMap
from pyrogram.grammar import Grammar, Weights, checked_inputs
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, check_possible, fits_compiled
from pyrogram.sentences import Sentences

from .recursive_sums import Sums, kept_numbers


class Part(NamedTuple):
    """Sentences that one page sums over.

    :param rows: which of the B sentences of a batch: of all parts slices, in order, or of all parts indices.
    :param sums: the recursion.
    :param events: which event each element of its weights is.
    :param evidence: logs of factors of its items by name, shape ``(*batch, n + 1, ..., *sizes)``.
    :param batch: the batch shape of the evidence.
    """

    rows: slice | Tensor
    sums: Sums
    events: EventMap
    evidence: Mapping[str, Tensor]
    batch: torch.Size

    def inputs(self, log_weights: Mapping[str, Tensor], words: Tensor) -> TensorInputs:
        """What the recursion is run on, without the evidence.

        :param log_weights: by block, shape ``(B, *block.shape)``, or ``(1, *block.shape)`` for all sentences alike.
        :param words: of all sentences, shape ``(B, n)``.
        """
        chosen = {name: w if w.shape[0] == 1 else w[self.rows] for name, w in log_weights.items()}
        return self.sums.inputs(self.events.gathered(chosen), words[self.rows])

    def summed(self, inputs: TensorInputs) -> tuple[TensorProgram, TensorInputs]:
        """The program for log Z and counts, and what it is run on."""
        if not self.evidence:
            return self.sums.summing(()), inputs
        return self.sums.evident(inputs, self.evidence, self.batch, sums_only=True)

    def chosen(self, inputs: TensorInputs) -> tuple[TensorProgram, TensorInputs]:
        """The program for draws and the best derivations, and what it is run on."""
        return self.sums.evident(inputs, self.evidence, self.batch)


class PageGrammar(Grammar):
    """A grammar that is a recursion, and a map from the elements of its weights to events.

    Derivations are rows of events. A subclass says which page sums over which sentences, and how long rows are.
    """

    @abstractmethod
    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Iterable[Part]:
        """The pages that sum over the B sentences of a batch.

        :param words: shape ``(B, n)``.
        :param evidence: see :meth:`log_partition`.
        :param by_sentence: whether each sentence has numbers of its own, weights or counts, which memory must hold.
        """

    @abstractmethod
    def longest(self, n: int) -> int:
        """The greatest number of events of a derivation of at most n words."""

    def _most_elements(self, n: int) -> int:
        """The greatest number of elements of the recursion's weights in a derivation of at most n words."""
        return self.longest(n)

    # ------------------------------------------------------------------ log Z and counts

    def log_partition(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """log Z, see :meth:`.Grammar.log_partition`.

        :param evidence: logs of factors of parts of derivations, by name: shape
            ``(*batch, n + 1, ..., *sizes)``, positions first, those of words (``w[i]`` stands for i), then symbols.
            0 says nothing, -inf forbids; log Z is -inf where nothing is left.
        """
        parts, batch = self._on(log_weights, words, evidence)
        log_zs, is_compiled = [], True
        for part, inputs in parts:
            program, inputs = part.summed(inputs)
            log_zs.append((part, program.log_partition(inputs)))
            is_compiled = is_compiled and fits_compiled(*inputs.weights.values())
        log_z = _joined(log_zs, log_weights).reshape(batch)
        # Compiled code looks for NaN.
        return log_z if is_compiled else self._keep_nan(log_z, log_weights)

    def _on(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        evidence: Mapping[str, Tensor] | None,
        *,
        by_sentence: bool = False,
    ) -> tuple[Iterator[tuple[Part, TensorInputs]], torch.Size]:
        """What recursions are run on, part by part, without evidence; and the batch shape.

        :param by_sentence: see :meth:`_parts`.
        """
        words = checked_inputs(self, log_weights, words)
        if self.bias.parts:
            raise NotImplementedError(
                "nats of parts are not taken along here; give them as evidence= to the grammar without them, or take "
                "derivation(..)"
            )
        ranks = [(log_weights[name], len(block.shape)) for name, block in self.blocks.items()]
        batches = [w.shape[:-rank] for w, rank in ranks if w.dim() > rank]
        batch, n = torch.Size(words.shape[:-1]), words.shape[-1]
        batch = broadcast_shapes(batch, *batches) if batches else batch
        rows = words if words.shape == (batch.numel(), n) else words.expand(*batch, n).reshape(batch.numel(), n)
        return self._part_inputs(
            self.expanded(log_weights, batch), rows, batch, evidence or {}, by_sentence=by_sentence
        ), batch

    def _part_inputs(
        self,
        log_weights: Weights,
        words: Tensor,
        batch: torch.Size,
        evidence: Mapping[str, Tensor],
        *,
        by_sentence: bool = False,
    ) -> Iterator[tuple[Part, TensorInputs]]:
        """The same, of the B sentences of a batch; one part after the other, for memory.

        :param log_weights: by block, from :meth:`expanded`.
        """
        by_sentence = by_sentence or any(w.shape[0] > 1 for w in log_weights.values())
        for part in self._parts(words, batch, evidence, by_sentence=by_sentence):
            yield part, part.inputs(log_weights, words)

    def expanded(self, log_weights: Mapping[str, Tensor], batch: torch.Size) -> Weights:
        """Log weights of each of the B sentences of a batch, ``(B, *block.shape)``; ``(1, *block.shape)`` if shared.

        Those of a tilted grammar have its nats.
        """
        tables, log_weights = {}, self.biased(log_weights)
        for name, block in self.blocks.items():
            w = log_weights[name]
            if w.dim() == len(block.shape):
                tables[name] = w[None]
            else:
                tables[name] = w.expand(*batch, *block.shape).reshape(batch.numel(), *block.shape)
        return tables

    def expected_counts(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Weights]:
        """See :meth:`.Grammar.expected_counts`.

        :param evidence: see :meth:`log_partition`.
        """
        words, log_zs, total, is_compiled = checked_inputs(self, log_weights, words, shared=True), [], Weights(), True
        shared = {name: w.detach() for name, w in self.expanded(log_weights, words.shape[:-1]).items()}
        for part, inputs in self._part_inputs(shared, words, torch.Size(words.shape[:-1]), evidence or {}):
            constants = self._constants(part, inputs) if words.is_cpu else None  # raised once for many calls
            if constants is None:
                program, inputs = part.summed(inputs)
            else:
                program = part.sums.checked(inputs, part.evidence, sums_only=True)
            log_z, counts = program.log_counts(inputs, constants=constants)
            log_zs.append((part, log_z))
            is_compiled = is_compiled and fits_compiled(*inputs.weights.values())
            for name, c in part.events.summed(counts, 1).items():
                total[name] = total[name] + c[0] if name in total else c[0]
        log_z = _joined(log_zs, shared)
        total = total or {name: torch.zeros_like(w[0]) for name, w in shared.items()}
        return log_z if is_compiled else self._keep_nan(log_z, log_weights), total

    def _constants(self, part: Part, inputs: TensorInputs) -> dict[str, Any] | None:
        """Factors as numbers that are not counted; None, if there are none, or some are no numbers."""
        dtype = torch.float32 if inputs.precision == torch.float32 else torch.float64
        numbers = {part.sums.factor_table(name): kept_numbers(part.evidence, name, dtype) for name in part.evidence}
        return numbers if numbers and all(x is not None for x in numbers.values()) else None

    def sentence_counts(
        self, log_weights: Mapping[str, Tensor], words: Tensor, *, evidence: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, Weights]:
        """log Z and the expected counts of each sentence by itself, shapes ``batch`` and ``(*batch, *block.shape)``.

        Without a graph.

        :param log_weights: shape ``(*batch, *block.shape)`` by block.
        :param words: shape ``(*batch, n)``.
        :param evidence: see :meth:`log_partition`.
        """
        log_weights = {name: log_weights[name].detach() for name in self.blocks if name in log_weights}
        parts, batch = self._on(log_weights, words, evidence, by_sentence=True)
        log_zs, counts = [], []
        for part, inputs in parts:
            program, inputs = part.summed(inputs)
            log_z, by_table = program.log_counts(inputs, by_sentence=True)
            log_zs.append((part, log_z))
            counts.append((part, part.events.summed(by_table, len(log_z))))
        log_z, by_block = _joined(log_zs, log_weights).reshape(batch), {}
        for name, block in self.blocks.items():
            tables = [(part, c[name]) for part, c in counts]
            by_block[name] = _together(tables, log_weights[name].new_zeros(0)).reshape(*batch, *block.shape)
        log_z = self._keep_nan(log_z, log_weights) if batch.numel() > 1 else log_z  # as log Z is of one sentence
        return log_z, by_block

    def summed(
        self, log_weights: Mapping[str, Tensor], words: Tensor, evidence: Mapping[str, Tensor]
    ) -> tuple[Recursion, TensorInputs, Mapping[str, Sequence[str]]]:
        """The recursion whose derivations are those of the grammar, what it is run on, and names of its symbols.

        :param log_weights: shape ``(*batch, *block.shape)`` by block.
        :param words: shape ``(*batch, n)``, padded with -1.
        :param evidence: see :meth:`log_partition`.
        """
        ((part, inputs),), _ = self._on(log_weights, words, evidence)
        program, inputs = part.chosen(inputs)
        return program.recursion, inputs, {}

    # ------------------------------------------------------------------ derivations

    def best(
        self, log_weights: Weights, words: Tensor, k: int, *, evidence: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k best derivations: their log weights, ``(k, B)``, and rows, ``(k, B, L)``; -inf and -1 where none is.

        :param log_weights: by block, from :meth:`expanded`.
        :param words: shape ``(B, n)``.
        :param evidence: see :meth:`log_partition`; its bonus is part of the log weights of derivations.
        """
        n, scores, rows = words.shape[-1], list[tuple[Part, Tensor]](), list[tuple[Part, Tensor]]()
        for part, inputs in self._part_inputs(log_weights, words, words.shape[:-1], evidence or {}):
            program, inputs = part.chosen(inputs)
            of_part, elements = program.best(inputs, k, part.events.strides, self._most_elements(n))
            scores.append((part, of_part))
            rows.append((part, self._rows(part, elements, n)))
        return _together(scores, words.new_zeros(k, 0).double(), 1), _together(rows, words.new_zeros(k, 0, 1), 1)

    def draw(
        self, log_weights: Weights, words: Tensor, number: int, *, evidence: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Independent derivations by torch's random numbers, shape ``(number, B, L)``.

        :param evidence: see :meth:`log_partition`.
        :raises ValueError: if a sentence has no derivation.
        """
        n, log_zs, rows = words.shape[-1], list[tuple[Part, Tensor]](), list[tuple[Part, Tensor]]()
        for part, inputs in self._part_inputs(log_weights, words, words.shape[:-1], evidence or {}):
            program, inputs = part.chosen(inputs)
            seed = int(torch.randint(2**62, ()))
            of_part, elements = program.drawn(inputs, number, seed, part.events.strides, self._most_elements(n))
            log_zs.append((part, of_part))
            rows.append((part, self._rows(part, elements, n)))
        check_possible(_together(log_zs, torch.zeros(0)), "derivation")
        return _together(rows, words.new_zeros(number, 0, 1), 1)

    def _with_greatest(self, part: Part, inputs: TensorInputs, gains: Mapping[str, Tensor], n: int) -> Tensor:
        """Of the possible derivations of each sentence of a part the one with the greatest sum of gains, ``(b, L)``.

        :param inputs: without the evidence, whose factors play no part; what it forbids stays forbidden.
        :param gains: of items by name, in the shapes of evidence.
        """
        possible = {name: torch.where(w > -torch.inf, 0.0, w) for name, w in inputs.weights.items()}
        gains = dict(gains)
        for name, bonus in part.evidence.items():
            gains[name] = torch.where(bonus > -torch.inf, gains.get(name, torch.zeros_like(bonus)), bonus)
        program, inputs = part.sums.evident(replace(inputs, weights=possible), gains, part.batch)
        return self._rows(part, program.best(inputs, 1, part.events.strides, self._most_elements(n))[1][0], n)

    def _rows(self, part: Part, elements: Tensor, n: int) -> Tensor:
        """Rows of events, from those of numbers of elements of the recursion's weights."""
        rows = part.events.of_elements(elements.cpu().numpy(), self.longest(n))
        return torch.from_numpy(rows).to(elements.device)


def _joined(log_z: Sequence[tuple[Part, Tensor]], log_weights: Mapping[str, Tensor]) -> Tensor:
    """log Z of all parts; it has a gradient if a weight has, also where no sentence meets one."""
    together = [_together(log_z, log_z[0][1])] if log_z else []
    if together and together[0].requires_grad == any(w.requires_grad for w in log_weights.values()):
        return together[0]
    return torch.cat([*(w.flatten()[:0] for w in log_weights.values()), *together])


def _together(of_parts: Sequence[tuple[Part, Tensor]], nothing: Tensor, axis: int = 0) -> Tensor:
    """Of all sentences, in their order along an axis, from those of the parts; nothing, where there are none."""
    if not of_parts:
        return nothing
    joined = of_parts[0][1] if len(of_parts) == 1 else torch.cat([x for _, x in of_parts], axis)
    indices = [part.rows for part, _ in of_parts if isinstance(part.rows, Tensor)]
    return joined.index_select(axis, torch.cat(indices).argsort()) if indices else joined
