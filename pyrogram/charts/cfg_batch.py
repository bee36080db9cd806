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

from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram

from .cfg_kinds import Kinds, kinds_of
from .cfg_page import SIZES, Form, program, spans
from .cfg_rules import Matches, RuleTable, longest

Numbers = Any  # a numpy array

_MOST_NUMBERS = 2**22  # in the tables of the sentences that are done at a time


class Places(NamedTuple):
    """The matches that are in one of the tables by position.

    :param shape: of the table of all sentences.
    :param at: the element of each match, shape (M',).
    :param event: R for weight one and no event, shape (M',).
    :param sentence: shape (M',).
    """

    shape: tuple[int, ...]
    at: Numbers
    event: Numbers
    sentence: Numbers


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
        B, N, R = len(self.matches), self.matches.max_length + 1, self.rules.num_events
        sentence, (i, k, symbol, event) = self.matches.sentence[chosen], self.matches.table[chosen].T
        at = ((sentence * N + i) * N if wide else sentence * N) + k
        at = at * rows + row_of[symbol]
        layer = _repeats(at)
        layers = int(layer.max(initial=0)) + 1
        shape = (B, N, N, rows, layers) if wide else (B, N, rows, layers)
        self.places[name] = Places(shape, at * layers + layer, np.where(event < 0, R, event), sentence)
        return layers

    @cached_property
    def _has_others(self) -> bool:
        """Whether there are rules or matches without an event, or elements of tables without a rule."""
        events = [*self.kinds.events.values(), *(places.event for places in self.places.values())]
        return any((event >= self.rules.num_events).any() for event in events)

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

    def sentences(self, weights: Numbers) -> Inputs:
        """What the recursion takes.

        :param weights: log weights of the events, (1, R), or (B, R).
        """
        if self._has_others:
            others = np.array([0.0, -np.inf], weights.dtype)
            weights = np.concatenate([weights, np.broadcast_to(others, (len(weights), 2))], 1)
        tables = {kind: self._of_kind(weights, kind) for kind in self.kinds.events}
        for name, (shape, at, event, sentence) in self.places.items():
            tables[name] = np.full(shape, -np.inf, weights.dtype)
            tables[name].reshape(-1)[at] = weights[sentence if len(weights) > 1 else 0, event]
        inputs = Inputs(self.matches.lengths, tables, {}, self.sizes, self.lists, checked=True)
        return inputs if self.matches.forbidden is None else self._with_bonus(inputs, self.allowed)

    def tensor_inputs(self, weights: Tensor) -> TensorInputs:
        """:meth:`sentences` in tensors."""
        events, places, lengths = self._on(weights.device)
        nothing = torch.zeros_like(weights[:, :1])
        weights = torch.cat([weights, nothing, nothing - torch.inf], 1)
        tables = {}
        for kind, index in events.items():
            tables[kind] = weights.index_select(1, index.flatten()).unflatten(1, index.shape)
        for name, (at, event, sentence) in places.items():
            element = event if len(weights) == 1 else sentence * weights.shape[1] + event
            values, shape = weights.flatten().index_select(0, element), self.places[name].shape
            empty = values.new_full((int(np.prod(shape)),), -torch.inf)
            tables[name] = empty.index_put((at,), values).reshape(shape)
        if self.matches.forbidden is not None and self.form.has_x:
            tables["bonus.X"] = torch.from_numpy(self.allowed).to(weights)
        return TensorInputs(tables, lengths, {}, self.sizes, self.lists, checked=True)

    def _on(self, device: torch.device) -> tuple[dict[str, Tensor], dict[str, list[Tensor]], Tensor]:
        """Events of tables, places of matches and lengths, on a device: they are copied there once."""
        if device not in self._moved:
            events = {kind: torch.from_numpy(event).to(device) for kind, event in self.kinds.events.items()}
            places = {
                name: [torch.from_numpy(x).to(device) for x in (place.at, place.event, place.sentence)]
                for name, place in self.places.items()
            }
            self._moved[device] = events, places, torch.from_numpy(self.matches.lengths).to(device)
        return self._moved[device]

    @cached_property
    def _moved(self) -> dict[torch.device, tuple[dict[str, Tensor], dict[str, list[Tensor]], Tensor]]:
        return {}

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

    def _of_kind(self, numbers: Numbers, kind: str) -> Numbers:
        """A table of rules by sentence, of numbers by event; the same memory where :attr:`_steps` says how."""
        events = self.kinds.events[kind]
        if kind not in self._steps:
            return np.take(numbers, events, 1)
        by_row, by_event = numbers.strides
        steps = [x * by_event for x in self._steps[kind]]
        first = numbers[:, events.flat[0] :]
        return np.lib.stride_tricks.as_strided(first, (len(numbers), *events.shape), (by_row, *steps))

    def _tables_of(self, total: Numbers, inputs: Inputs) -> dict[str, Numbers]:
        """Tables for the counts of each sentence: parts of their total, where events lie as elements of a table do."""
        return {
            name: self._of_kind(total, name)
            if name in self._steps
            else np.zeros((len(total), *table.shape[1:]), total.dtype)
            for name, table in inputs.weights.items()
            if name not in inputs.constants
        }

    @cached_property
    def _steps(self) -> dict[str, tuple[int, ...]]:
        """By kind, how far apart events of neighbours in its table are; of kinds that have all to themselves.

        Those of a grammar whose rules are given in order, the last symbol varying fastest.
        """
        all_events = [*self.kinds.events.values(), *(np.unique(places.event) for places in self.places.values())]
        times = np.bincount(np.concatenate([events.reshape(-1) for events in all_events]))
        steps_of = {}
        for kind, events in self.kinds.events.items():
            origin = (0,) * events.ndim
            neighbours = [origin[:x] + (min(size, 2) - 1,) + origin[x + 1 :] for x, size in enumerate(events.shape)]
            steps = tuple(int(events[at] - events[origin]) for at in neighbours)
            expected = events[origin] + np.tensordot(steps, np.indices(events.shape), 1)
            if events.max() < self.rules.num_events and (times[events] == 1).all() and (events == expected).all():
                steps_of[kind] = steps
        return steps_of

    def log_z(self, weights: Numbers) -> Numbers:
        """Log Z (B,)."""
        return self.sums.program.log_counts(self.sentences(weights), counts=False)[0]

    def add_counts(
        self, weights: Numbers, scale: Numbers | None, total: Numbers, *, by_sentence: bool = False
    ) -> Numbers:
        """Log Z (B,); expected counts of events are added to ``total``, (1, R), or by sentence, (B, R).

        :param scale: what the counts of each sentence are multiplied by, shape (B,).
        """
        rows, width = total.shape
        inputs = self.sentences(weights)
        if self.matches.forbidden is not None and self.form.has_x:
            inputs = inputs.with_constants({"bonus.X": self._factors})
        into = self._tables_of(total, inputs) if by_sentence else None
        log_z, counts = self.sums.program.log_counts(inputs, scale=scale, into=into, by_sentence=by_sentence)
        counts = into or counts
        dtype = torch.from_numpy(total).dtype
        for kind, events in self.kinds.events.items():
            if into is not None and kind in self._steps:
                continue
            is_event = events < width
            table, index = counts[kind].reshape(rows, -1), events[is_event]
            table = table if is_event.all() else table[:, is_event.reshape(-1)]
            torch.from_numpy(total).index_add_(1, torch.from_numpy(index), torch.from_numpy(table).to(dtype))
        for name, (_, at, event, sentence) in self.places.items():
            is_event = event < width
            row = sentence[is_event] if by_sentence else 0
            np.add.at(total, (row, event[is_event]), counts[name].reshape(-1)[at[is_event]])
        return log_z

    # ------------------------------------------------------------------ derivations

    def best(self, weights: Numbers | Tensor, k: int, width: int) -> tuple[Numbers, Numbers]:
        """The k best derivations: scores (k, B), and rows of events (k, B, width).

        :param weights: an array, or a tensor on another device.
        """
        if isinstance(weights, Tensor):
            on_device = self.program.best(self.tensor_inputs(weights), k, self._trace, self._width)
            scores, rows = (x.cpu().numpy() for x in on_device)
        else:
            scores, rows = self.program.program.best(self.sentences(weights), k, self._trace, self._width)
        return scores, self._events(rows, width)

    def draws(self, weights: Numbers | Tensor, number: int, seed: int, width: int) -> tuple[Numbers, Numbers]:
        """Log Z (B,), and rows of events (number, B, width); see :meth:`best`."""
        if isinstance(weights, Tensor):
            on_device = self.program.drawn(self.tensor_inputs(weights), number, seed, self._trace, self._width)
            log_z, rows = (x.cpu().numpy() for x in on_device)
        else:
            log_z, rows = self.program.program.draw(self.sentences(weights), number, seed, self._trace, self._width)
        return log_z, self._events(rows, width)

    def marginals(self, weights: Numbers, num_symbols: int) -> Numbers:
        """Posteriors of the first symbols over words i + 1 .. k, (B, n + 1, n + 1, num_symbols)."""
        log_z, X, T = self._spans(weights)
        N = self.matches.max_length + 1
        posteriors = np.zeros((len(self.matches), N, N, num_symbols))
        for symbol, (kind, number) in enumerate(zip(self.kinds.kind, self.kinds.number, strict=True)):
            if symbol >= num_symbols:
                break
            if kind == "X":
                posteriors[..., symbol] = X[..., number]
            elif kind == "T":
                posteriors[:, range(N - 1), range(1, N), symbol] = T[:, 1:, number]
            else:
                posteriors[np.arange(len(posteriors)), 0, self.matches.lengths, symbol] = np.isfinite(log_z)
        posteriors[np.isnan(log_z)] = np.nan
        return posteriors

    def _spans(self, weights: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Log Z (B,), posteriors of X over words i + 1 .. k, (B, n + 1, n + 1, X), and of T at k, (B, n + 1, T)."""
        inputs = self.sentences(weights)
        if self.matches.forbidden is None:
            inputs = self._with_bonus(inputs, np.float64(0.0))
        log_z, counts = spans(self.form._replace(for_sums=True)).program.log_counts(inputs)
        B, N = len(self.matches), self.matches.max_length + 1
        X = counts["bonus.X"] if self.form.has_x else np.zeros((B, N, N, 0))
        return log_z, X, counts["word"].sum(-1) if "word" in counts else np.zeros((B, N, 0))

    def best_spans(self, weights: Numbers, width: int) -> Numbers:
        """The derivations with the most expected right spans of symbols that have events, as rows (B, width)."""
        _, X, T = self._spans(weights)
        X, T = X * self._counts_as_span("X"), T * self._counts_as_span("T")
        inputs = self.sentences(weights)
        tables = {name: np.where(table > -np.inf, 0.0, table) for name, table in inputs.weights.items()}
        if "word" in tables:
            tables["word"] += T[..., None]
        if "bonus.X" in tables:  # what is forbidden
            X = np.where(inputs.weights["bonus.X"] > -np.inf, X, -np.inf)
        inputs = self._with_bonus(replace(inputs, weights=tables), X)
        return self._events(spans(self.form).program.best(inputs, 1, self._trace, self._width)[1][0], width)

    def best_rules(self, weights: Numbers, width: int) -> Numbers:
        """The derivations with the most expected right rules in their places, as rows (B, width)."""
        R, inputs = self.rules.num_events, self.sentences(weights)
        worth = {kind: (events < R).astype(float)[None] for kind, events in self.kinds.events.items()}
        for name, (shape, at, event, _) in self.places.items():
            worth[name] = np.zeros(shape)
            worth[name].reshape(-1)[at] = event < R
        return self._events(self.program.program.most_expected(inputs, worth, self._trace, self._width)[1], width)

    def _with_bonus(self, inputs: Inputs, bonus: Numbers) -> Inputs:
        if not self.form.has_x:
            return inputs
        B, N = len(self.matches), self.matches.max_length + 1
        bonus = np.broadcast_to(bonus, (B, N, N, self.sizes["N"]))
        return replace(inputs, weights={**inputs.weights, "bonus.X": bonus})

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

    @cached_property
    def _trace(self) -> dict[str, tuple[int, ...]]:
        """A number for each element of the tables: rules first, then matches."""
        trace, first = {}, 0
        shapes = {kind: events.shape for kind, events in self.kinds.events.items()}
        for name, shape in {**shapes, **{name: places.shape[1:] for name, places in self.places.items()}}.items():
            trace[name] = (first, *(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))))
            first += int(np.prod(shape))
        return trace

    @cached_property
    def _event_of(self) -> tuple[Numbers, Numbers]:
        """The event of each element of the tables of rules, (E,), and of those by position, (B, E')."""
        R = self.rules.num_events
        rules = [events.reshape(-1) for events in self.kinds.events.values()]
        matches = []
        for places in self.places.values():
            events = np.full(np.prod(places.shape), R)
            events[places.at] = places.event
            matches.append(events.reshape(len(self.matches), -1))
        return np.concatenate([*rules, [R]]), np.concatenate(matches, 1)

    def _events(self, rows: Numbers, width: int) -> Numbers:
        """Rows of numbers of elements (..., B, L) as rows of events (..., B, width), both padded with -1."""
        rules, matches = self._event_of
        R, E = self.rules.num_events, len(rules) - 1
        sentence = np.arange(len(self.matches))[:, None]
        known = rules[np.where((rows >= 0) & (rows < E), rows, E)]
        events = np.where(rows < E, known, matches[sentence, np.maximum(rows - E, 0)])
        events = np.where(events < R, events, -1)
        events = np.take_along_axis(events, np.argsort(events < 0, axis=-1, kind="stable"), -1)[..., :width]
        padded = np.full((*events.shape[:-1], width), -1)
        padded[..., : events.shape[-1]] = events
        return padded


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
