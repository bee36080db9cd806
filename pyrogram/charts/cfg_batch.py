# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences as the recursion of grammars takes them: events as tables, and counts in tables as counts of events.

The rules of a kind are the same for all sentences; matches are put into tables by position. What a word, or a span, has
of one symbol several times is there in several *layers*.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyrogram.blocks import Block
from pyrogram.event_map import EventMap
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.sweeps.events import NEVER, ONE

from .cfg_kinds import Kinds, kinds_of
from .cfg_page import SIZES, Form, program, spans
from .cfg_rules import Matches, RuleTable, longest

Numbers = Any  # a numpy array

RULES = "rules"  # the block of all events
_MOST_NUMBERS = 2**22  # in the tables of the sentences that are done at a time


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

    :param first: the number of the first one among all sentences.
    """

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
        blocks = {RULES: Block(torch.Size([self.rules.num_events]))}
        return EventMap(blocks, self.kinds.events, located=located)

    @property
    def place(self) -> slice:
        """Of its sentences among all."""
        return slice(self.first, self.first + len(self.matches))

    @property
    def program(self) -> TensorProgram:
        """The code for their derivations."""
        return program(self.form) if self.matches.forbidden is None else spans(self.form)

    @property
    def sums(self) -> TensorProgram:
        """The same for log Z and counts."""
        form = self.form._replace(for_sums=True)
        return program(form) if self.matches.forbidden is None else spans(form)

    # ------------------------------------------------------------------ weights and counts

    def inputs(self, weights: Tensor) -> TensorInputs:
        """What the recursion takes; differentiable.

        :param weights: log weights of the events, (1, R), or (B, R).
        """
        tables = self.events.gathered({RULES: weights})
        if self.matches.forbidden is not None and self.form.has_x:
            tables["bonus.X"] = torch.from_numpy(self.allowed).to(weights)
        lengths = torch.from_numpy(self.matches.lengths).to(weights.device)
        return TensorInputs(tables, lengths, {}, self.sizes, self.lists, checked=True)

    def log_counts(
        self, weights: Tensor, scale: Tensor | None = None, *, by_sentence: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Log Z (B,), and expected counts of events, (1, R), or by sentence, (B, R).

        :param weights: see :meth:`inputs`.
        :param scale: what the counts of each sentence are multiplied by, shape (B,).
        """
        inputs, constants = self.inputs(weights), dict[str, Numbers]()
        if "bonus.X" in inputs.weights and weights.is_cpu:  # raised once for many calls, and not counted
            tables = {name: w for name, w in inputs.weights.items() if name != "bonus.X"}
            dtype = np.float32 if weights.dtype == torch.float32 else np.float64
            inputs, constants = replace(inputs, weights=tables), {"bonus.X": np.asarray(self._factors, dtype)}
        log_z, counts = self.sums.log_counts(inputs, scale, by_sentence=by_sentence, constants=constants)
        rows = len(self.matches) if by_sentence else 1
        return log_z, self.events.summed(counts, rows)[RULES].to(weights.dtype)

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

    # ------------------------------------------------------------------ derivations

    def best(self, weights: Tensor, k: int, width: int) -> tuple[Tensor, Numbers]:
        """The k best derivations: scores (k, B), and rows of events (k, B, width)."""
        scores, rows = self.program.best(self.inputs(weights), k, self.events.strides, self._width)
        return scores, self._events(rows, width)

    def draws(self, weights: Tensor, number: int, seed: int, width: int) -> tuple[Tensor, Numbers]:
        """Log Z (B,), and rows of events (number, B, width)."""
        log_z, rows = self.program.drawn(self.inputs(weights), number, seed, self.events.strides, self._width)
        return log_z, self._events(rows, width)

    def marginals(self, weights: Tensor, num_symbols: int) -> Tensor:
        """Posteriors of the first symbols over words i + 1 .. k, (B, n + 1, n + 1, num_symbols)."""
        log_z, X, T = self._spans(weights)
        N = self.matches.max_length + 1
        posteriors = X.new_zeros(len(self.matches), N, N, num_symbols)
        x, t, z = (np.nonzero(self.kinds.kind[:num_symbols] == kind)[0] for kind in "XTZ")
        posteriors[..., x] = X[..., self.kinds.number[x]]
        posteriors.diagonal(1, 1, 2)[:, t] = T[:, 1:, self.kinds.number[t]].mT
        posteriors[range(len(X)), 0, self.matches.lengths, z[:, None]] = log_z.isfinite().to(X)
        posteriors[log_z.isnan()] = torch.nan
        return posteriors

    def _spans(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log Z (B,), posteriors of X over words i + 1 .. k, (B, n + 1, n + 1, X), and of T at k, (B, n + 1, T)."""
        inputs = self.inputs(weights)
        if self.matches.forbidden is None:
            inputs = self._with_bonus(inputs, weights.new_zeros(()))
        log_z, counts = spans(self.form._replace(for_sums=True)).log_counts(inputs)
        B, N = len(self.matches), self.matches.max_length + 1
        X = counts["bonus.X"] if self.form.has_x else weights.new_zeros(B, N, N, 0)
        return log_z, X, counts["word"].sum(-1) if "word" in counts else weights.new_zeros(B, N, 0)

    def best_spans(self, weights: Tensor, width: int) -> Numbers:
        """The derivations with the most expected right spans of symbols that have events, as rows (B, width)."""
        _, X, T = self._spans(weights)
        X, T = (x * torch.from_numpy(self._counts_as_span(kind)).to(x) for kind, x in (("X", X), ("T", T)))
        inputs = self.inputs(weights)
        tables = {name: torch.where(table > -torch.inf, 0.0, table) for name, table in inputs.weights.items()}
        if "word" in tables:
            tables["word"] = tables["word"] + T[..., None]
        if "bonus.X" in tables:  # what is forbidden
            X = torch.where(inputs.weights["bonus.X"] > -torch.inf, X, -torch.inf)
        inputs = self._with_bonus(replace(inputs, weights=tables), X)
        return self._events(spans(self.form).best(inputs, 1, self.events.strides, self._width)[1][0], width)

    def best_rules(self, weights: Tensor, width: int) -> Numbers:
        """The derivations with the most expected right rules in their places, as rows (B, width)."""
        worth = {kind: (events >= 0).astype(float)[None] for kind, events in self.kinds.events.items()}
        worth |= {name: (events >= 0).astype(float) for name, events in self.events.located.items()}
        inputs = self.inputs(weights).arrays()
        worth |= {name: np.zeros(table.shape) for name, table in inputs.weights.items() if name not in worth}
        rows = self.program.program.most_expected(inputs, worth, self.events.strides, self._width)[1]
        return self._events(torch.from_numpy(rows), width)

    def _with_bonus(self, inputs: TensorInputs, bonus: Tensor) -> TensorInputs:
        if not self.form.has_x:
            return inputs
        B, N = len(self.matches), self.matches.max_length + 1
        return replace(inputs, weights={**inputs.weights, "bonus.X": bonus.expand(B, N, N, self.sizes["N"])})

    @cached_property
    def allowed(self) -> Numbers:
        """Zero for what X may span, minus infinity for what is forbidden, (B, n + 1, n + 1, X)."""
        N = self.matches.max_length + 1
        forbidden = self.matches.forbidden[:, :N, :N, None] & self._counts_as_span("X")
        return np.where(forbidden, -np.inf, 0.0)

    @cached_property
    def _factors(self) -> Numbers:
        """One for what X may span, zero for what is forbidden."""
        return np.exp(self.allowed)

    def _counts_as_span(self, kind: str) -> Numbers:
        """Which symbols of a kind have an event, among their rules and matches, shape (X or T,)."""
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

    @cached_property
    def _width(self) -> int:
        """The greatest number of elements of tables in a derivation."""
        return longest(self.rules, self.matches.max_length, with_silent=True)

    def _events(self, elements: Tensor, width: int) -> Numbers:
        """Rows of numbers of elements (..., B, L) as rows of events (..., B, width), both padded with -1."""
        return self.events.of_elements(elements.cpu().numpy(), width)


def batches(rules: RuleTable, matches: Matches, *, rows: bool, spans: bool = False) -> list[Batch]:
    """All sentences, in as many batches as memory asks for; none for no sentences. Kept with the matches.

    :param rows: whether every sentence has weights, or counts, of its own.
    :param spans: whether posteriors of spans are wanted.
    """
    kept = matches.__dict__.setdefault("batches", {})
    if kept.get("rules") is not rules:
        kept.clear()
        kept["rules"] = rules
    key = rows, spans
    if key not in kept:
        kept[key] = list(_batches(rules, matches, *key))
    all_batches: list[Batch] = kept[key]
    return all_batches


def _batches(rules: RuleTable, matches: Matches, rows: bool, spans: bool) -> Iterator[Batch]:
    if len(matches) == 0:
        return
    whole = Batch(rules, matches)
    size = sum(int(np.prod(places.shape[1:])) for places in whole.places.values())
    size += sum(events.size for events in whole.kinds.events.values()) if rows else 0
    size += (matches.max_length + 1) ** 2 * whole.sizes["N"] if spans or matches.forbidden is not None else 0
    step = max(8, _MOST_NUMBERS // max(size, 1))
    if step >= len(matches):
        yield whole
        return
    for first in range(0, len(matches), step):
        yield Batch(rules, matches.of(np.arange(first, min(first + step, len(matches)))), first)


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
