# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence over large vocabularies: attachments of the pairs of words that were seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes, check_size, checked_words
from pyrogram.distributions.dependency_tree import heads_of
from pyrogram.draws import Draws
from pyrogram.event_map import EventMap, TableEvents, event_numbers, first_events, joined, num_events
from pyrogram.grammar import PackedBlock, SentenceMultinomials, Weights
from pyrogram.operators import Values, captured, handle_of, number_of, object_of, operate
from pyrogram.printable import plural
from pyrogram.random_state import seeded
from pyrogram.recursion.run.on_tensors import TensorInputs
from pyrogram.sentences import Sentences, digest_of
from pyrogram.sweeps.compiled import Plan, RecursiveUpdates, sweeps
from pyrogram.sweeps.plain import CollapsedUpdates
from pyrogram.trees import lengths_of

from . import expansions
from .attachments import Attachments, seen_pairs
from .dmv import DMV, TreeSums
from .page_grammar import Part

CELLS = 2**21  # arcs whose weights are held at a time
MOST_KEPT = 2**26  # arcs whose events are kept from one E-step to the next, 8 bytes each


@dataclass(frozen=True)
class PositionSums(TreeSums):
    """As :class:`.TreeSums`, of sentences of at most ``width`` words."""

    width: int

    def inputs(self, log_weights: Mapping[str, Tensor], words: Tensor) -> TensorInputs:
        return super().inputs(log_weights, words[:, : self.width])


class SparseDMV(DMV):
    """The :class:`.DMV` of large vocabularies: a word has a probability of its own only after words it was seen with.

    A DMV of V words has V × 2 × V attachments, of which few occur: those of two words in one sentence. Here the
    multinomial of a head and a direction has an event for each *pair* that was seen, and one last event, *other*, for
    all other words, which have equal parts of it. The blocks are

    * ``root`` (V,): the only child of ROOT;
    * ``attach`` (R,), packed: of each head and direction (and valence, if ``valence_attach``) the children seen there,
      in increasing order, then other;
    * ``stop`` (V, 2, S, 2), as in the DMV.

    It is a DMV whose weights of unseen pairs are equal. Maximum likelihood gives these the weight zero anyway. Under
    symmetric Dirichlets their posteriors are equal, and their sum is an event of a Dirichlet whose parameter is the sum
    of theirs: so with :func:`.dirichlet_prior` and a number α, which gives the event other α for each of its words, the
    bounds, the joints, all expected weights, draws and trees are those of the DMV, in learning from the given sentences
    and in parsing others. Three things differ. Modes do, for the density is one of sums: EM under a Dirichlet finds
    other weights. Learnt concentrations climb the same bound by other steps. And where sentences to learn from have
    unseen pairs, their weights are kept equal; make the grammar of all of them instead.
    A sentence with unseen pairs has trees if the weight of the event other is positive.

    Memory and time of an E-step are linear in the squares of lengths and in the pairs.

    >>> words = torch.tensor([[0, 1, 2], [2, 3, -1]])
    >>> grammar = SparseDMV.of(words, num_tags=1000)
    >>> {name: tuple(block.shape) for name, block in grammar.blocks.items()}
    {'root': (1000,), 'attach': (2008,), 'stop': (1000, 2, 2, 2)}
    >>> grammar.children(head=2, direction=0)
    tensor([0, 1])
    >>> grammar
    SparseDMV(1000, 8 pairs)

    :param num_tags: V, the size of the alphabet.
    :param pairs: the pairs that were seen, as increasing indices (2 head + direction) V + child, int64; direction 0 is
        left, 1 right.
    :param valence_attach: see :class:`.DMV`.
    :param num_valences: S, see :class:`.DMV`.
    :raises ValueError: if ``pairs`` are none.
    """

    def __init__(self, num_tags: int, pairs: Tensor, *, valence_attach: bool = False, num_valences: int = 2):
        super().__init__(num_tags, valence_attach=valence_attach, num_valences=num_valences)
        V, S = self.num_tags, self.num_valences
        pairs = pairs.detach().cpu()
        fits = pairs.dtype == torch.int64 and pairs.dim() == 1 and bool((pairs[1:] > pairs[:-1]).all())
        if not fits or (len(pairs) and not (int(pairs[0]) >= 0 and int(pairs[-1]) < 2 * V * V)):
            raise ValueError(
                f"pairs must be increasing indices (2 head + direction) V + child, int64 and less than 2 V V = "
                f"{2 * V * V}, but are {pairs.dtype} of shape {tuple(pairs.shape)}; SparseDMV.of(words) makes them"
            )
        self.attachments = Attachments(V, S if valence_attach else 1, pairs.numpy())
        """The events of ``attach``."""
        sizes = self.attachments.sizes.repeat(self.attachments.num_valences)
        R, lumped = int(sizes.sum()), torch.from_numpy(self.attachments.outcomes)
        if R >= 2**31 - 4 * V * S - V:
            raise ValueError(
                f"a grammar of {R} attachments is too large, at most 2**31; give fewer or shorter sentences"
            )
        self._blocks["attach"] = PackedBlock(torch.Size([R]), tuple(sizes.tolist()), lumped)
        self._kept: tuple[Tensor, int, list[Part]] | None = None

    @classmethod
    def of(
        cls, words: Tensor, num_tags: int | None = None, *, valence_attach: bool = False, num_valences: int = 2
    ) -> SparseDMV:
        """The grammar of the pairs that occur within a sentence.

        :param words: shape ``(N, n)``, padded with -1.
        :param num_tags: V; None: one more than the greatest word.
        """
        V = int(words.max()) + 1 if num_tags is None else check_size("num_tags", num_tags)
        pairs = seen_pairs(checked_words(words, V).reshape(-1, words.shape[-1]).cpu().numpy(), V)
        return cls(V, torch.from_numpy(pairs), valence_attach=valence_attach, num_valences=num_valences)

    def __repr__(self) -> str:
        return f"Sparse{super().__repr__()[:-1]}, {plural(len(self.pairs), 'pair')})"

    def __getstate__(self) -> dict[str, Any]:
        return {**{k: v for k, v in super().__getstate__().items() if k not in ("identity", "_logs")}, "_kept": None}

    @property
    def pairs(self) -> Tensor:
        """The pairs that were seen."""
        return torch.from_numpy(self.attachments.pairs)

    @cached_property
    def identity(self) -> str:
        """A hash of the pairs."""
        return digest_of({"pairs": self.pairs})

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return {name: axes for name, axes in super().axes.items() if name != "attach"}

    def children(self, head: int, direction: int) -> Tensor:
        """The words seen beside a head, 0 on its left, 1 on its right: those of its events, other not included."""
        row = 2 * head + direction
        start, end = self.attachments.starts[row : row + 2]
        return torch.from_numpy(self.attachments.children[start:end]).long()

    def dense(self, weights: Mapping[str, Tensor]) -> Weights:
        """The weights of a :class:`.DMV` that is the same, ``attach`` of shape ``(*batch, V, 2[, S], V)``.

        :param weights: no logarithms, shape ``(*batch, *block.shape)`` by block.
        """
        shape = (self.num_tags, 2, *((self.num_valences,) if self.valence_attach else ()), self.num_tags)
        event, shares = self.attachments.elements()
        attach = weights["attach"][..., torch.from_numpy(event)] * torch.from_numpy(shares).to(weights["attach"])
        return {**weights, "attach": attach.reshape(*attach.shape[:-1], *shape)}

    # ------------------------------------------------------------------ events

    def _attachments(self, head: Tensor, right: Tensor, valence: Tensor, child: Tensor) -> Tensor:
        row = torch.where(head < 0, -1, head * 2 + right)
        pairs = torch.where(row < 0, -1, row * self.num_tags + child)
        if captured():
            (first,) = operate(number_of(_operation, handle_of(self.attachments)), [pairs])
        else:
            first = _first_events(self.attachments, pairs)
        sizes = torch.from_numpy(self.attachments.sizes).to(row.device)
        place = first + valence * sizes[row] if self.valence_attach else first
        return event_numbers(self.blocks, "attach", place.masked_fill(row < 0, -1))

    @cached_property
    def _logs(self) -> Tensor:
        """The logarithm of the part that one pair has of each event, and of none."""
        logs, block = torch.zeros(num_events(self.blocks) + 1, dtype=torch.float64), self.blocks["attach"]
        first = first_events(self.blocks)["attach"]
        logs[first : first + block.shape[0]] = -block.outcomes.log()
        return logs

    def scores(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`.DMV.scores`; an unseen pair has its part of their event."""
        flat = joined(self.biased(log_weights), self.blocks)
        flat = torch.cat([flat, flat.new_zeros(*flat.shape[:-1], 1)], -1)
        batch = broadcast_shapes(flat.shape[:-1], words.shape[:-1])

        def picked(numbers: Tensor) -> Tensor:
            """Values of events by their numbers; one row of values serves all sentences."""
            if flat.dim() == 1:
                return flat.index_select(0, numbers.flatten()).reshape(numbers.shape)
            index = numbers.flatten(words.dim() - 1).expand(*batch, -1)
            values: Tensor = flat.expand(*batch, -1).gather(-1, index)
            return values.reshape(*batch, *numbers.shape[words.dim() - 1 :])

        chosen, goes_on, stops = self._numbers(words)
        arcs, parts = picked(chosen) + picked(goes_on), self._log_parts(chosen[..., 0])
        return arcs if parts is None else arcs + parts.to(arcs)[..., None], picked(stops)

    def log_parts(self, words: Tensor) -> Tensor | None:
        """The logarithms of the parts that unseen pairs have of their events, else 0, ``(*batch, n+1, n+1)``.

        :returns: None if these are all zero.
        """
        numbers = self.arc_numbers(words)
        return self._log_parts(numbers[..., 0] if self.valence_attach else numbers)

    def _log_parts(self, numbers: Tensor) -> Tensor | None:
        logs = self._logs.to(numbers.device)[numbers]
        return logs if captured() or bool(logs.any()) else None

    # ------------------------------------------------------------------ log Z and counts

    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Iterator[Part]:
        """A few sentences of like lengths at a time, whose attachments have weights by position."""
        for part in self._known_parts(words):
            if evidence:
                N, scores = part.events.located["attach"].shape[1], evidence["arc_scores"]
                scores = scores.expand(*batch, *scores.shape[-2:]).reshape(-1, *scores.shape[-2:])[part.rows, :N, :N]
                part = part._replace(evidence={"arc_scores": scores + part.evidence.get("arc_scores", 0)})
            yield part

    def _known_parts(self, words: Tensor) -> Iterable[Part]:
        """All sentences, shape ``(N, n)``, the shortest first, with the factors of unseen pairs.

        Those of one corpus are kept, because loops come back to them, unless they are too many: then each E-step finds
        them again, and memory does not grow with the corpus.
        """
        version = -1 if words.is_inference() else words._version
        if self._kept is not None and self._kept[0] is words and self._kept[1] == version >= 0:
            return self._kept[2]
        lengths = lengths_of(words)
        parts, size = self._list(words, lengths), int((lengths + 1).square().sum()) * self.attachments.num_valences
        if size > MOST_KEPT or version < 0:
            return parts
        self._kept = words, version, [*parts]
        return self._kept[2]

    def _list(self, words: Tensor, lengths: Tensor) -> Iterator[Part]:
        order = lengths.argsort(stable=True)
        cells = (lengths[order] + 1).square() * self.attachments.num_valences
        sizes = torch.arange(1, len(order) + 1, device=words.device)
        sums, begin = self._sums(by_position=True), 0
        while begin < len(order):
            most = cells[begin:] * sizes[: len(order) - begin]  # sentences are padded to the longest of them
            rows = order[begin : begin + max(1, int((most <= CELLS).sum()))]
            width = int(lengths[rows[-1]])
            numbers = self.arc_numbers(words[rows, :width])
            logs = self._log_parts(numbers[..., 0] if self.valence_attach else numbers)
            evidence = {} if logs is None else {"arc_scores": logs}
            narrow = PositionSums(**vars(sums), width=width)
            yield Part(rows, narrow, self._events_by_position(numbers), evidence, rows.shape)
            begin += len(rows)

    def drawn(
        self, log_weights: Mapping[str, Tensor], words: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """A tree of each sentence, drawn on the CPU, as heads of shape ``(N, n)``; sentences need no padding.

        :param log_weights: shape ``block.shape`` by block.
        :param words: shape ``(N, n)``.
        :raises ValueError: if a sentence has no tree.
        """
        heads, batch = torch.where(words >= 0, 0, -1), words.shape[:-1]
        for part, inputs in self._part_inputs(self.expanded(log_weights, batch), words, batch, {}):
            program, inputs = part.chosen(inputs)
            N = part.events.located["attach"].shape[1]
            trace = {"attach": (0, N, 1, 0) if self.valence_attach else (0, N, 1)}
            drawn = heads_of(program.draw(inputs, 1, trace, N - 1, generator)[0], N)
            heads[part.rows, : N - 1] = torch.where(drawn >= 0, drawn, heads[part.rows, : N - 1])
        return heads

    # ------------------------------------------------------------------ the rest

    def sentence_multinomials(self, words: Tensor | Sentences) -> SentenceMultinomials:
        return SentenceMultinomials(self, words)

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan, SparseDMVUpdates)

    @property
    def _events(self) -> EventMap:
        """Of the table of all attachments, few of whose elements are events."""
        shape = (self.num_tags, 2, *((self.num_valences,) if self.valence_attach else ()), self.num_tags)
        return EventMap.of_blocks(self.blocks, {"attach": TableEvents(self.attachments.numbers, shape)})

    def _plan(self, sentences: Sentences) -> Plan | None:
        """None also if there are unseen pairs, which have factors besides their weights."""
        if any(part.evidence for part in self._known_parts(sentences.words)):
            return None
        return super()._plan(sentences)

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.dmv(tables, draws, attachments=self.attachments)


class SparseDMVUpdates(RecursiveUpdates):
    """Sweeps of the :class:`SparseDMV` over sentences all of whose pairs were seen."""

    def _drawn(
        self, sentences: Sentences, log_weights: Mapping[str, Tensor], generator: torch.Generator | None
    ) -> Tensor:
        """A few sentences at a time: scores of all arcs would take much memory."""
        grammar: Any = self.grammar
        if isinstance(grammar, SparseDMV) and not sentences.known and not grammar.is_tilted:
            return grammar.drawn(log_weights, self.words, generator)
        size = max(1, CELLS // (self.words.shape[1] + 1) ** 2)
        with seeded(generator):
            chunks = (sentences[i : i + size] for i in range(0, max(1, len(sentences)), size))
            return torch.cat([grammar.derivation(None, x, log_weights=log_weights).sample() for x in chunks])


def _first_events(attachments: Attachments, pairs: Tensor) -> Tensor:
    """See :meth:`.Attachments.first_events`."""
    return torch.from_numpy(attachments.first_events(pairs.cpu().numpy())).to(pairs.device)


def _operation(handle: int) -> Values:
    """The same as an operation."""
    return Values(lambda pairs: [_first_events(object_of(handle), pairs)], lambda pairs: [torch.empty_like(pairs)])
