# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar of one's own: its blocks, and its recursion as in the paper."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes, check_shape, check_size
from pyrogram.distributions.recursive_derivation import RecursiveDerivation
from pyrogram.event_map import EventMap, first_events, num_events
from pyrogram.grammar import Block, TooLong, Weights, is_cut
from pyrogram.operators import constant
from pyrogram.printable import plural
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.rules.rewrites import bonus_name
from pyrogram.recursion.rules.traces import Traces
from pyrogram.sentences import Sentences, Structure, words_of
from pyrogram.sweeps.compiled import Plan, numbers_of, sweeps
from pyrogram.sweeps.plain import CollapsedUpdates

from .page_grammar import PageGrammar, Part
from .recursive_draws import Sampler, drawn
from .recursive_sizes import check_kinds, fit
from .recursive_sums import Sums
from .structures import Rows


class RecursiveGrammar(PageGrammar):
    """A grammar that is its recursion: log Z, counts, derivations, every prior and every inference follow from it.

    The weights of the recursion are the blocks, by name: their axes are symbols, the last one of each the events of its
    multinomials. ``w[i]``, for the words ``w`` of the page, is the word at position i.

    >>> @pyrogram.recursion.recursion
    ... def chain(p):
    ...     t = p.positions("t")
    ...     y, z = p.symbols("y z", "K")
    ...     w = p.words("w")
    ...     F, Z = p.items("F", "K"), p.items("Z")
    ...     initial, transition = p.weights("initial", "K"), p.weights("transition", "K", "K")
    ...     emission = p.weights("emission", "K", "V")
    ...     F[1, z] += initial[z] * emission[z, w[1]]
    ...     F[t, z] += F[t - 1, y] * transition[y, z] * emission[z, w[t]]
    ...     Z[()] += F[p.n, z]
    >>> shapes = {"initial": (2,), "transition": (2, 2), "emission": (2, 5)}
    >>> blocks = {name: Block(torch.Size(shape)) for name, shape in shapes.items()}
    >>> grammar = RecursiveGrammar(blocks, chain(), num_words=5)
    >>> words = torch.tensor([[0, 4, 1], [3, -1, -1]])
    >>> grammar.derivation(grammar.initial_weights(words, "uniform"), words).entropy().exp()  # of 8 derivations, and 2
    tensor([8., 2.])

    The *events* are the elements of the blocks, numbered block after block in C order; :meth:`event` says which is
    which. A derivation is the row of events that are met on the way down from the goal, of each rule first its weights
    and then its items from left to right, see :class:`.RecursiveDerivation`. The ``chain`` above goes down from the
    last word to the first, and its rows have the last word first. :meth:`.RecursiveDerivation.item_counts` has the
    order of the words:

    >>> derivation = grammar.derivation(grammar.initial_weights(words, "random", seed=0), words)
    >>> states = derivation.item_counts(derivation.argmax(), "emission")["emission"]
    >>> states.shape  # of a sentence, a position from 0 on, and a state
    torch.Size([2, 4, 2])

    Different derivations must have different rows: a choice between rules without weights that come to the same events
    is none.

    Whether the weights of a sentence sum to one over sentences of all lengths is up to the recursion: the ``chain``
    above, which has no event for its end, is a distribution over the sentences of each length.

    :param blocks: multinomials by name, in the order in which events are generated; one for each weight of the
        recursion, of its shape.
    :param recursion: the rules. Its words have one name.
    :param num_words: the size of the alphabet.
    :param sizes: numbers of symbols by the names of sizes, where neither a block's shape nor a list's length tells.
    :param lists: columns of lists of rules: symbols, by name.
    :param where: of weights that are no blocks, by name, the event that each element is, an array of integers. So the
        end of a chain is a weight of the recursion, and a column of a block of transitions. An event is one element at
        most.
    :param sample: how sentences are drawn: a function of weights, shape ``(*batch, *block.shape)`` by block, of a
        sample shape whose last dimensions are that batch, and of max_length, to words
        ``(*sample_shape, max_length)``, padded with -1; None: they cannot be drawn. A row of -1 alone says that this
        sentence was too long: it is drawn again, or an error, as ``too_long`` of :class:`.Sentence` says. A function
        that draws again by itself never lets ``too_long="raise"`` be one, on which :func:`.calibrate` relies.
    :raises ValueError: in one sentence, if blocks, sizes, lists and recursion do not fit.
    """

    def __init__(
        self,
        blocks: Mapping[str, Block],
        recursion: Recursion,
        num_words: int,
        *,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Sequence[int]] | None = None,
        where: Mapping[str, Any] | None = None,
        sample: Sampler | None = None,
    ):
        self._num_words = check_size("num_words", num_words)
        check_kinds(recursion, blocks)
        events = _events(blocks, where, recursion) if where else None
        tables = {n: Block(torch.Size(t.shape)) for n, t in events.tables.items()} if events is not None else blocks
        fitted = fit(recursion, tables, num_words, sizes or {}, lists or {})
        self.events = EventMap.of_blocks(blocks) if events is None else events
        """Which event each element of the recursion's weights is."""
        self._blocks = dict(blocks)
        self.recursion = recursion
        """The rules."""
        self._sums = Sums(recursion, fitted)
        self._sample = sample
        self._starts = first_events(blocks)
        self.num_events = num_events(blocks)
        """How many events there are, in all blocks."""
        self._longest: dict[int, int] = {}

    def __repr__(self) -> str:
        return (
            f"RecursiveGrammar({self.recursion.name}, {plural(self.num_words, 'word')}, "
            f"{plural(self.num_events, 'event')})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # What was made when it was first asked for does not travel.
        return {k: v for k, v in super().__getstate__().items() if k not in ("_cells", "identity")}

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self._blocks

    @property
    def num_words(self) -> int:
        return self._num_words

    @cached_property
    def identity(self) -> str:
        """A hash of the rules, the shapes of the blocks, sizes and lists."""
        fitted, shapes = self._sums.fitted, {name: tuple(block.shape) for name, block in self.blocks.items()}
        lists = {name: column.tolist() for name, column in fitted.lists.items()}
        key: tuple[Any, ...] = (self.recursion.key(), shapes, self.num_words, sorted(fitted.sizes.items()))
        key += (sorted(lists.items()),)
        if not self.events.is_same:
            key += ({name: table.tolist() for name, table in self.events.tables.items()},)
        return hashlib.sha256(repr(key).encode()).hexdigest()

    # ------------------------------------------------------------------ the page

    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Sequence[Part]:
        return [Part(slice(None), self._sums, self.events, evidence, batch)]

    # ------------------------------------------------------------------ expected numbers of items

    def item_counts(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor,
        *names: str,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """How often items, or events of blocks, are expected at each place of each sentence: shapes as of evidence.

        For an item that a derivation has once at most, as spans, these are its posterior probabilities.

        :param names: of items or blocks.
        :param evidence: see :meth:`log_partition`.
        :raises ValueError: if there is no such item or block.
        """
        ((part, inputs),), batch = self._on(log_weights, words, evidence)
        return part.sums.item_counts(inputs, names, part.evidence, batch)[1]

    def mbr(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor,
        name: str,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The derivation with the greatest expected number of right items (minimum Bayes risk), ``(*batch, L)``.

        Derivations of weight zero are left out.

        :param name: of an item or a block, see :meth:`item_counts`.
        :param evidence: see :meth:`log_partition`.
        """
        ((part, inputs),), batch = self._on(log_weights, words, evidence)
        _, expected = part.sums.item_counts(inputs, [name], part.evidence, batch)
        rows = self._with_greatest(part, inputs, expected, words.shape[-1])
        return rows.to(words.device).reshape(*batch, rows.shape[-1])

    # ------------------------------------------------------------------ derivations

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan)

    def _plan(self, sentences: Sentences) -> Plan | None:
        """What sweeps over sentences are compiled for; None, if they are not."""
        fitted = self._sums.fitted
        factors = numbers_of(sentences, dict)
        program = self._sums.with_factors([*(factors or {})])
        plain = all(type(block) is Block for block in self.blocks.values())
        if factors is None or not plain:
            return None
        tables = {bonus_name(name): table for name, table in factors.items()}
        return Plan(
            *(self.structure, sentences, program.program, fitted.sizes, self.events, fitted.lists),
            factors=tables,
        )

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> RecursiveDerivation:
        """p(y | x, w): rows of events of given words.

        :param evidence: see :meth:`log_partition`.
        """
        return RecursiveDerivation(self, weights, words_of(words), log_weights=log_weights, evidence=evidence)

    @property
    def structure(self) -> Structure:
        """Rows of events, some of which may be known, or logs of factors of items, or of uses of events of a block."""
        return Rows(self)

    def num_axes(self, name: str) -> int:
        """How many axes the evidence on an item or a block has, besides the batch's.

        :raises ValueError: if there is no such item or block.
        """
        positions, sizes = self.item_axes(name)
        return positions + len(sizes)

    def item_axes(self, name: str) -> tuple[int, tuple[int, ...]]:
        """How many positions an item, or a use of a block's events, has in a sentence, and the sizes of its symbols.

        :raises ValueError: if there is no such item or block.
        """
        return self._sums.axes(name)

    def items_of(self, words: Tensor, value: Tensor, names: Iterable[str]) -> Weights:
        """How often items, or events of blocks, are at each place of derivations, as :meth:`item_counts` expects them.

        Rows are read in Python, one by one.

        :param words: shape ``(*batch, n)``.
        :param value: rows of events, shape ``(*sample, *batch, L)``; a row of -1 alone has no items.
        :raises ValueError: if a row is no derivation of its words, or if there is no such item or block.
        """
        n = words.shape[-1]
        batch = broadcast_shapes(value.shape[:-1], words.shape[:-1])
        wide = (x.expand(*batch, x.shape[-1]).reshape(batch.numel(), x.shape[-1]) for x in (words, value.long()))
        sentences, rows = (x.tolist() for x in wide)
        axes = {name: self.item_axes(name) for name in names}
        shapes = {name: (*(n + 1,) * positions, *sizes) for name, (positions, sizes) in axes.items()}
        counts = {name: torch.zeros(len(rows), *shape, dtype=torch.float64) for name, shape in shapes.items()}
        for b, (row, sentence) in enumerate(zip(rows, sentences, strict=True)):
            events = [event for event in row if event >= 0]
            items = self.traces([w for w in sentence if w >= 0]).parts(events) if events else []
            for name, positions, symbols in items:
                place = b, *positions, *symbols
                if name in counts:
                    counts[name][place] += 1
        return {name: c.reshape(*batch, *shapes[name]).to(value.device) for name, c in counts.items()}

    def event(self, number: int) -> tuple[str, tuple[int, ...]]:
        """The block of an event, and its index in the block's shape.

        :raises ValueError: if there is no event of that number.
        """
        if not 0 <= number < self.num_events:
            raise ValueError(f"events are 0..{self.num_events - 1}, and {number} is none")
        name = next(name for name in reversed(self._starts) if self._starts[name] <= number)
        index = np.unravel_index(int(number) - self._starts[name], tuple(self.blocks[name].shape))
        return name, tuple(int(x) for x in index)

    def number(self, block: str, index: Sequence[int]) -> int:
        """The number of an event, the inverse of :meth:`event`."""
        return self._starts[block] + int(np.ravel_multi_index(tuple(index), tuple(self.blocks[block].shape)))

    @constant
    def longest(self, n: int) -> int:
        """The greatest number of events of a derivation of at most n words."""
        if n not in self._longest:
            lengths = torch.arange(1, n + 1)[:, None]
            rows = torch.where(torch.arange(n) < lengths, 0, -1)
            ones = {n: torch.ones(1, *t.shape, dtype=torch.float64) for n, t in self.events.tables.items()}
            scores, _ = self._sums.program.best(self._sums.inputs(ones, rows), 1, {}, 1)
            self._longest[n] = max(1, round(float(scores.max())))
        return self._longest[n]

    def traces(self, words: Sequence[int]) -> Traces:
        """The rows of the derivations of one sentence, to be listed and to be read."""
        fitted = self._sums.fitted
        rows = dict.fromkeys(fitted.words, tuple(words))

        def number(table: str, index: tuple[int, ...]) -> int:
            return int(self.events.tables[table][index])

        return Traces(self._cells, rows, len(words), fitted.sizes, fitted.lists, number, self.events.element)

    @cached_property
    def _cells(self) -> Any:
        return lower(self.recursion)

    # ------------------------------------------------------------------ sentences

    def sample(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: torch.Size,
        max_length: int,
        *,
        too_long: TooLong = "redraw",
    ) -> Tensor:
        if self._sample is None:
            return super().sample(weights, sample_shape, max_length, too_long=too_long)
        if is_cut(too_long):
            raise NotImplementedError(f"{self!r} draws a sentence again that is too long; it cannot truncate it")
        shape, longest = check_shape("sample_shape", sample_shape), check_size("max_length", max_length)
        return drawn(self._sample, dict(weights), shape, longest, too_long, self.num_words)


def _events(blocks: Mapping[str, Block], where: Mapping[str, Any], recursion: Recursion) -> EventMap:
    """Which event each element of a recursion's weights is.

    :raises TypeError: if ``where`` is no mapping.
    :raises ValueError: if an element is no event, or if one event is two elements, if elements of a weight are events
        of several blocks, or if no element is an event of a block.
    """
    if not isinstance(where, Mapping):
        raise TypeError(f"where must be arrays of events by weight, not {type(where).__name__}")
    first, R = first_events(blocks), num_events(blocks)
    tables = {n: t for n, t in EventMap.of_blocks(blocks).tables.items() if n in recursion.tables and n not in where}
    used = set(tables)
    for name, table in where.items():
        try:
            numbers = np.asarray(table)
        except ValueError:
            raise ValueError(f"where[{name!r}] must be an array, but its rows differ in length") from None
        if numbers.dtype.kind not in "iu" or numbers.size == 0 or numbers.min() < 0 or numbers.max() >= R:
            raise ValueError(f"where[{name!r}] must be numbers of events, 0..{R - 1}, but has others")
        (block,) = [n for n, f in first.items() if f <= numbers.min() < f + blocks[n].shape.numel()]
        if numbers.max() >= first[block] + blocks[block].shape.numel():
            raise ValueError(f"where[{name!r}] must be events of one block, but has those of several")
        tables[name] = numbers.astype(np.int64)
        used.add(block)
    events = np.concatenate([table.reshape(-1) for table in tables.values()])
    if np.bincount(events).max() > 1:
        raise ValueError("an event must be one element of the recursion's weights at most, but some are several")
    if unused := [name for name in blocks if name not in used]:
        raise ValueError(f"block {unused[0]!r} has no event in {recursion.name}, whose weights are {list(tables)}")
    return EventMap(blocks, tables)
