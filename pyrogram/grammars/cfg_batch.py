# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences as the recursion of context-free grammars takes them: which events the elements of its tables are.

The rules of a kind are the same for all sentences; matches are put into tables by position. What a word, or a span, has
of one symbol several times is there in several *layers*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from pyrogram.blocks import Block
from pyrogram.event_map import NEVER, ONE, EventMap
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.sentences import Factors

from .cfg_kinds import Kinds, kinds_of
from .cfg_page import SIZES, Form, grammar, program
from .cfg_rules import Matches, RuleTable
from .page_grammar import Part
from .recursive_sizes import Fitted
from .recursive_sums import Sums

Numbers = Any  # a numpy array

_MOST_NUMBERS = 2**22  # in the tables of the sentences that are done at a time


@dataclass(frozen=True)
class FormSums(Sums):
    """As :class:`.Sums`.

    :param form: the kinds of rules.
    :param width: the greatest number of words of a sentence.
    """

    form: Form
    width: int

    def with_factors(self, names: Sequence[str]) -> TensorProgram:
        return program(self.form, tuple(sorted(names)))

    def summing(self, names: Sequence[str]) -> TensorProgram:
        return program(self.form._replace(for_sums=True), tuple(sorted(names)))

    def _width(self, inputs: TensorInputs) -> int:
        return self.width


class Places(NamedTuple):
    """The matches that are in one of the tables by position.

    :param shape: of the table of all sentences.
    :param at: the element of each match, shape (M',).
    :param event: of each match, or :data:`ONE`, shape (M',).
    """

    shape: tuple[int, ...]
    at: Numbers
    event: Numbers


@dataclass
class Batch:
    """Sentences that are done at a time.

    :param blocks: of the grammar.
    :param first: the number of the first one among all sentences.
    """

    blocks: Mapping[str, Block]
    rules: RuleTable
    matches: Matches
    first: int = 0

    def __post_init__(self) -> None:
        rules, matches = self.rules, self.matches
        i, k, symbol, _ = matches.table.T
        is_wide, is_matched = np.zeros((2, rules.num_symbols), np.bool_)
        is_wide[symbol[k - i > 1]] = True
        is_matched[symbol] = True
        self.kinds = kinds_of(rules, is_wide, bool(is_matched[rules.start]))
        self.lists, self.sizes = dict(self.kinds.lists), dict(self.kinds.sizes)
        self.places: dict[str, Places] = {}
        is_leaf = self.kinds.kind == "T"
        others = np.nonzero(is_matched & ~is_leaf)[0]
        if len(others) == 0 and not _follows_from_words(self.kinds):
            others = np.nonzero(~is_leaf)[0][:1]  # an axiom, though none applies to these sentences
        word = near = span = 0
        if is_leaf.any():
            word = self._put("word", np.nonzero(is_leaf[symbol])[0], self.kinds.number, self.sizes["P"], wide=False)
        if len(others):
            row = np.searchsorted(others, np.arange(rules.num_symbols))
            self.lists["matched"], self.sizes["M"] = self.kinds.number[others], len(others)
            wide = bool(is_wide.any())
            depth = self._put("match", np.nonzero(~is_leaf[symbol])[0], row, len(others), wide)
            near, span = (0, depth) if wide else (depth, 0)
        self.form = Form(self.kinds.rules, word, near, span)

    def _put(self, name: str, chosen: Numbers, row_of: Numbers, rows: int, wide: bool) -> int:
        """Give some matches places in a table of their own, by word or by span; returns the number of layers.

        :param row_of: the row of each symbol.
        """
        B, N = len(self.matches), self.matches.max_length + 1
        sentence, (i, k, symbol, event) = self.matches.sentence[chosen], self.matches.table[chosen].T
        at = ((sentence * N + i) * N if wide else sentence * N) + k
        at = at * rows + row_of[symbol]
        layer = _repeats(at)
        layers = int(layer.max(initial=0)) + 1
        shape = (B, N, N, rows, layers) if wide else (B, N, rows, layers)
        self.places[name] = Places(shape, at * layers + layer, np.where(event < 0, ONE, event))
        return layers

    @cached_property
    def events(self) -> EventMap:
        """The events that elements of the tables are; of those by position, int32."""
        located = {}
        for name, (shape, at, event) in self.places.items():
            located[name] = np.full(shape, NEVER, np.int32)
            located[name].reshape(-1)[at] = event
        return EventMap(self.blocks, self.kinds.events, located=located)

    @cached_property
    def part(self) -> Part:
        """What the grammar sums over them with."""
        B = len(self.matches)
        sums = FormSums(grammar(self.form), Fitted(self.sizes, self.lists, ()), self.form, self.matches.max_length)
        return Part(slice(self.first, self.first + B), sums, self.events, self._factors, torch.Size([B]))

    @cached_property
    def _factors(self) -> Factors:
        """Of X, zero nats for what they may span, minus infinity for what is forbidden, (B, n + 1, n + 1, X)."""
        if self.matches.forbidden is None or not self.form.has_x:
            return Factors()
        N = self.matches.max_length + 1
        forbidden = self.matches.forbidden[:, :N, :N, None] & self.has_event("X")
        return Factors({"X": torch.from_numpy(np.where(forbidden, -np.inf, 0.0))})

    def names(self, nonterminals: Sequence[str], texts: Mapping[int, str]) -> dict[str, list[str]]:
        """Names of symbols, by the sizes of the recursion; of the rows of a list, its rules.

        :param texts: of symbols that stand for words, by number. Others without a name are a part of a right side.
        """
        kind, number, start = self.kinds.kind, self.kinds.number, nonterminals[self.rules.start]
        right_of = {left: right for left, *right, event in self.rules.binary.tolist() if event < 0}

        def name(s: int) -> str:
            if s < len(nonterminals):
                return nonterminals[s]
            return texts[s] if s in texts else " ".join(map(name, right_of[s])) if s in right_of else f"({s})"

        names = {size: [""] * self.sizes.get(size, 0) for size in SIZES.values()}
        for s in range(self.rules.num_symbols):
            if kind[s] in SIZES:
                names[SIZES[kind[s]]][number[s]] = name(s)
        for form in (form for form, is_table in self.kinds.rules if not is_table):
            size = f"R{form}"
            columns = [names[SIZES[x]] if x in SIZES else [start] for x in form]
            rows = [self.lists.get(f"{form}{axis}", np.zeros(self.sizes[size], int)) for axis in range(len(form))]
            texts_of = [[c[i] for i in row] for c, row in zip(columns, rows, strict=True)]
            names[size] = [f"{left} → {' '.join(right)}" for left, *right in zip(*texts_of, strict=True)]
        if "matched" in self.lists:
            names["M"] = [names["N"][i] for i in self.lists["matched"]]
        return names

    @property
    def items(self) -> list[str]:
        """Of symbols that span words, by their kinds."""
        return [kind for kind, is_there in (("X", self.form.has_x), ("T", self.form.word > 0)) if is_there]

    def has_event(self, kind: str) -> Numbers:
        """Which symbols of a kind, X or T, have an event, among their rules and matches, shape (X or T,)."""
        has_event = np.zeros(self.rules.num_symbols, np.bool_)
        for symbols, events in (
            (self.rules.binary[:, 0], self.rules.binary[:, -1]),
            (self.rules.unary[:, 0], self.rules.unary[:, -1]),
            (self.matches.table[:, 2], self.matches.table[:, -1]),
        ):
            has_event[symbols[events >= 0]] = True
        of_kind = self.kinds.kind == kind
        by_number = np.zeros(self.sizes[SIZES[kind]], np.bool_)
        by_number[self.kinds.number[of_kind]] = has_event[of_kind]
        return by_number


def batches(blocks: Mapping[str, Block], rules: RuleTable, matches: Matches, *, by_sentence: bool) -> list[Batch]:
    """All sentences, in as many batches as memory asks for; none for no sentences. Kept with the matches.

    :param by_sentence: whether every sentence has weights, counts, or posteriors of spans of its own.
    """
    kept = matches.__dict__.setdefault("batches", {})
    if by_sentence not in kept:
        kept[by_sentence] = _batches(blocks, rules, matches, by_sentence)
    all_batches: list[Batch] = kept[by_sentence]
    return all_batches


def _batches(blocks: Mapping[str, Block], rules: RuleTable, matches: Matches, by_sentence: bool) -> list[Batch]:
    if len(matches) == 0:
        return []
    whole = Batch(blocks, rules, matches)
    size = sum(int(np.prod(places.shape[1:])) for places in whole.places.values())
    if by_sentence or matches.forbidden is not None:
        size += sum(events.size for events in whole.kinds.events.values())
        size += (matches.max_length + 1) ** 2 * whole.sizes["N"]
    step = max(8, _MOST_NUMBERS // max(size, 1))
    if step >= len(matches):
        return [whole]
    starts = range(0, len(matches), step)
    return [Batch(blocks, rules, matches.of(np.arange(x, min(x + step, len(matches)))), x) for x in starts]


def _follows_from_words(kinds: Kinds) -> bool:
    """Whether rules lead from preterminals to X, or there are no X."""
    return not Form(kinds.rules, 0, 0, 0).has_x or any(kind in ("XT", "XTT") for kind, _ in kinds.rules)


def _repeats(keys: Numbers) -> Numbers:
    """How many equal keys come before each."""
    if len(np.unique(keys)) == len(keys):
        return np.zeros(len(keys), np.int64)
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], keys[order])
    repeats = np.empty(len(keys), np.int64)
    repeats[order] = np.arange(len(keys)) - first
    return repeats
