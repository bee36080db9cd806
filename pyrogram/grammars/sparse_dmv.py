# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence over large vocabularies: attachments of the pairs of words that were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts import dmv as chart
from pyrogram.charts import dmv_trees, expansions
from pyrogram.charts.attachments import Attachments, seen_pairs
from pyrogram.charts.checks import broadcast_shapes, check_size, checked_words
from pyrogram.charts.leftmost import Draws
from pyrogram.charts.trees import lengths_of
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions.dependency_tree import arc_numbers, heads_of
from pyrogram.event_map import EventMap, num_events
from pyrogram.grammar import (
    Block,
    PackedBlock,
    SentenceMultinomials,
    Weights,
    checked_inputs,
    counts_by_gradient,
)
from pyrogram.printable import plural
from pyrogram.random_state import seeded
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram, fits_compiled
from pyrogram.sentences import Sentences, digest_of
from pyrogram.sweeps.events import TableEvents

from .dmv import DMV
from .recursive_collapsed import Plan, RecursiveUpdates, numbers_of, sweeps
from .sparse_dmv_arcs import CELLS, Arcs, SentenceArcs
from .structures import Heads


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
        self.num_tags = V = check_size("num_tags", num_tags)
        self.valence_attach = valence_attach
        self.num_valences = S = check_size("num_valences", num_valences)
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
        self._blocks = {
            "root": Block(torch.Size([V])),
            "attach": PackedBlock(torch.Size([R]), tuple(sizes.tolist()), lumped),
            "stop": Block(torch.Size([V, 2, S, 2])),
        }
        self._arcs = SentenceArcs(self.attachments)

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
        return {k: v for k, v in super().__getstate__().items() if k != "identity"}

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

    # ------------------------------------------------------------------ log Z and counts

    def program(self, *, by_sentence: bool = False, evidence: bool = False) -> TensorProgram:
        """The recursion over trees, see :func:`.dmv.dmv`, with the weights of arcs by position."""
        return chart.program(self.valence_attach, valences=self.num_valences, by_position=True)

    def arc_numbers(self, words: Tensor) -> Tensor:
        index, nothing = self._arcs.table(words)[0].long(), self.num_tags + self.blocks["attach"].shape[-1]
        return torch.where(index == nothing, num_events(self.blocks), index)

    def log_parts(self, words: Tensor) -> Tensor | None:
        """The logarithms of the parts that unseen pairs have of their events, else 0, ``(*batch, n+1, n+1)``.

        :returns: None if all pairs of the sentences were seen.
        """
        return self._arcs.table(words)[1]

    def rows_of(self, words: Any, heads: Any) -> Any:
        V, S, A = self.num_tags, self.num_valences, self.attachments.num_valences
        rows = dmv_trees.rows_of(words, heads, V, S, self.valence_attach)
        of_pairs = (rows >= V) & (rows < V + 2 * A * V * V)
        event = self.attachments.numbers(rows[of_pairs] - V, others=True)
        rows[rows >= V + 2 * A * V * V] += self.blocks["attach"].shape[-1] - 2 * A * V * V
        rows[of_pairs] = V + event
        return rows

    def _given_arcs(self, flat: Tensor, stop: Tensor, arcs: Arcs, bonus: Tensor | None) -> TensorInputs:
        """
        :param flat: log weights of the root, of attachments, and of nothing.
        :param bonus: log factors of the arcs of all sentences.
        """
        table = flat.index_select(0, arcs.index.reshape(-1)).reshape(arcs.index.shape)
        n = arcs.words.shape[1] + 1
        for more in (arcs.logs, None if bonus is None else bonus[arcs.sentences, :n, :n]):
            if more is not None:
                table = table + (more[..., None] if self.attachments.num_valences > 1 else more)
        weights = {"arc": table, "stop": stop}
        return TensorInputs(weights, lengths_of(arcs.words), {"w": arcs.words}, {"V": self.num_tags})

    def _doubles(self, log_weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log weights of what is one arc, and of stops; sums over a corpus want float64."""
        tilted = self.biased(log_weights)
        root, attach, stop = (tilted[name].double() for name in self.blocks)
        return torch.cat([root, attach, root.new_zeros(1)]), stop[None]

    def log_partition(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        words = checked_inputs(self, log_weights, words)
        bonus = _of_each(evidence)
        tables = [log_weights[name] for name in self.blocks]
        shared = all(t.shape == block.shape for t, block in zip(tables, self.blocks.values(), strict=True))
        if shared and fits_compiled(*tables):
            flat, stop = self._doubles(log_weights)
            chunks = list(self._arcs.of(words if words.dim() == 2 else words.reshape(-1, words.shape[-1])))
            sums = [self.program().log_partition(self._given_arcs(flat, stop, arcs, bonus)) for arcs in chunks]
            order = torch.cat([arcs.sentences for arcs in chunks]).argsort() if chunks else None
            if order is None:  # a sum of which no sentence has a share, so that gradients are zero
                return torch.stack([t.sum() for t in tables]).sum() * tables[0].new_zeros(words.shape[:-1])
            log_z = torch.cat(sums)[order].to(tables[0].dtype)
            return self._keep_nan(log_z.reshape(words.shape[:-1]), log_weights)
        scores, stops = self.scores(log_weights, words)
        scores, stops = self._with(evidence, scores, stops)
        return self._keep_nan(self._trees(scores, stops, words).log_partition, log_weights)

    def expected_counts(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Weights]:
        words = checked_inputs(self, log_weights, words, shared=True)
        tables = {name: log_weights[name].detach() for name in self.blocks}
        if not fits_compiled(*tables.values()):
            return counts_by_gradient(partial(self.log_partition, evidence=evidence), tables, words)
        flat, stop, bonus = *self._doubles(tables), _of_each(evidence)
        log_z, total, stops = flat.new_zeros(len(words)), torch.zeros_like(flat), torch.zeros_like(stop)
        for arcs in self._arcs.of(words):
            log_z[arcs.sentences], counts = self.program().log_counts(self._given_arcs(flat, stop, arcs, bonus))
            total.index_add_(0, arcs.index.reshape(-1), counts["arc"].reshape(-1))
            stops += counts["stop"]
        totals = [*total.split([len(tables["root"]), len(tables["attach"]), 1])[:2], stops[0]]
        counted = {name: c.to(tables[name].dtype) for name, c in zip(self.blocks, totals, strict=True)}
        return self._keep_nan(log_z.to(tables["root"].dtype), tables), counted

    def drawn(
        self, log_weights: Mapping[str, Tensor], words: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """A tree of each sentence, drawn on the CPU, as heads of shape ``(N, n)``; sentences need no padding.

        :param log_weights: shape ``block.shape`` by block.
        :param words: shape ``(N, n)``.
        :raises ValueError: if a sentence has no tree.
        """
        flat, stop = self._doubles(log_weights)
        heads = torch.full_like(words, -1)
        for arcs in self._arcs.of(words):
            inputs, N = self._given_arcs(flat, stop, arcs, None), arcs.words.shape[1] + 1
            trace = arc_numbers(N, by_valence=inputs.weights["arc"].dim() > 3)
            rows = self.program().draw(inputs, 1, trace, N - 1, generator)[0]
            heads[arcs.sentences, : N - 1] = heads_of(rows, N)
        return heads

    def scores(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        tilted = self.biased(log_weights)
        root, attach, stop = (tilted[name] for name in self.blocks)
        V, S, n = self.num_tags, self.num_valences, words.shape[-1]
        batch = broadcast_shapes(root.shape[:-1], attach.shape[:-1], stop.shape[:-4], words.shape[:-1])
        nothing = root.new_zeros(1)
        flat = torch.cat([t.expand(*batch_of(t, root, attach), -1) for t in (root, attach, nothing)], -1)
        index, logs = self._arcs.table(words)
        square = index.shape[words.dim() - 1 :]
        arcs = chart._pick(flat[..., None], index.long().flatten(words.dim() - 1), batch)[..., 0].unflatten(-1, square)
        if len(square) == 2:
            arcs = arcs[..., None].expand(*arcs.shape, S)
        if logs is not None:
            arcs = arcs + logs.to(arcs)[..., None]
        decisions = chart._pick(stop.reshape(*stop.shape[:-4], V, -1), words.clamp_min(0), batch)
        decisions = decisions.unflatten(-1, (2, S, 2))
        left, right = (decisions[..., :, None, d, :, 0] for d in range(2))
        place = torch.arange(n, device=words.device)
        goes_on = torch.where((place > place[:, None])[..., None], right, left)
        arcs = arcs + torch.nn.functional.pad(goes_on, (0, 0, 1, 0, 1, 0))
        return arcs, torch.nn.functional.pad(decisions[..., 1], (0, 0, 0, 0, 1, 0))

    # ------------------------------------------------------------------ the rest

    def sentence_multinomials(self, words: Tensor | Sentences) -> SentenceMultinomials:
        return SentenceMultinomials(self, words)

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan, SparseDMVUpdates)

    def _plan(self, sentences: Sentences) -> Plan | None:
        """That of the DMV, whose table of attachments has few elements that are events.

        None, if there are unseen pairs, which have factors besides their weights.
        """
        factors = numbers_of(sentences, lambda logs: {"arc": logs["arc_scores"]})
        if factors is None or any(arcs.logs is not None for arcs in self._arcs.of(sentences.words)):
            return None
        V, table = self.num_tags, self.attachments
        program = chart.program(self.valence_attach, evidence=bool(factors), valences=self.num_valences).program
        shape = (V, 2, *((self.num_valences,) if self.valence_attach else ()), V)
        events = EventMap.of_blocks(self.blocks, {"attach": TableEvents(table.numbers, shape)})
        return Plan(Heads(self), sentences, program, {"V": V}, events, given=factors)

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.dmv(tables, draws, attachments=self.attachments)


def batch_of(table: Tensor, *others: Tensor) -> torch.Size:
    """The batch that vectors have together."""
    return broadcast_shapes(*(t.shape[:-1] for t in (table, *others)))


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


def _of_each(evidence: Mapping[str, Tensor] | None) -> Tensor | None:
    """Log factors of the arcs of each of N sentences, shape ``(N, n+1, n+1)``."""
    return None if not evidence else evidence["arc_scores"].reshape(-1, *evidence["arc_scores"].shape[-2:])
