# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which events can occur in which sentence of a corpus, for :mod:`.cfg_sweeps`.

The *own* counts of a sentence are those of the events that some derivation of it uses. They are listed sentence by
sentence: the numbers of the events, those of rules before those of matches, and a value for each. So neither half a
million lexical rules nor thousands of others cost anything where they cannot occur.

Where nearly all rules can occur in nearly every sentence, it is faster to have a *row* of values for all events of
rules, which needs no list of their numbers, so that eight rows can be transposed into lanes; lists are then of the
events of matches alone. Rows are made if they take no more memory than lists would, of 8 bytes for a value and 4 for a
number: where at least two thirds of the rules' events can occur, on average over (up to) 64 sentences.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import kernel

from .cfg_possible import possible
from .cfg_rules import Matches, RuleTable
from .cfg_tiles import TileChart, chart_of
from .cfg_tiles_plan import TilePlan, tile_plan_of

_ROWS_FROM = 2 / 3
_SAMPLE = 64


class Layout(NamedTuple):
    """Where the events of each sentence are.

    :param owner: shape (R,), the multinomial of each event.
    :param lengths: shape (N,), numbers of words.
    :param offsets: shape (N + 1,), matches of a sentence.
    :param table: shape (M, 4), matches [i, k, symbol, event], in the order of their spans and symbols.
    :param cell: shape (M,), the place of a match's cell in the chart.
    :param local: shape (M,), the number of a match's event in the list of its sentence, or -1.
    :param rules: shape (E,), the events of all rules, sorted.
    :param row: shape (D,), those that have a place in every sentence's row: all, or none.
    :param row_owner: shape (D,), their multinomials.
    :param runs: shape (K, 3), neighbours of the same multinomial in ``row``: [multinomial, first, end].
    :param weight: shape (T,), weights of the plan that are those of events in the row.
    :param place: shape (T,), the number of their event in ``row``.
    :param starts: shape (N + 1,), where the list of a sentence begins.
    :param events: shape (starts[N],), the listed events of all sentences.
    :param spots: shape (R + 1,), where the weights of an event begin in ``spread``.
    :param spread: shape (U,), weights of the plan that are those of listed events.
    :param multinomials: the number of multinomials.
    """

    owner: Any
    lengths: Any
    offsets: Any
    table: Any
    cell: Any
    local: Any
    rules: Any
    row: Any
    row_owner: Any
    runs: Any
    weight: Any
    place: Any
    starts: Any
    events: Any
    spots: Any
    spread: Any
    multinomials: int

    @property
    def most_matches(self) -> int:
        """The greatest number of matches of a sentence."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def most_events(self) -> int:
        """The greatest number of listed events of a sentence."""
        return int(np.diff(self.starts).max(initial=0))

    @property
    def num_own(self) -> int:
        """Own counts of all sentences together."""
        return len(self.lengths) * len(self.row) + int(self.starts[-1])

    def own(self, sentence: int) -> slice:
        """Where the own counts of a sentence lie."""
        D = len(self.row)
        return slice(sentence * D + int(self.starts[sentence]), (sentence + 1) * D + int(self.starts[sentence + 1]))

    def events_of(self, sentence: int) -> Any:
        """The events of a sentence's own counts."""
        return np.concatenate([self.row, self.events[self.starts[sentence] : self.starts[sentence + 1]]])


def make_layout(rules: RuleTable, matches: Matches, owner: Any) -> tuple[Layout, TilePlan, TileChart]:
    """The layout of a corpus, and the plan and the chart for its sentences."""
    R = rules.num_events
    events = np.concatenate([rules.binary[:, 3], rules.unary[:, 2]])
    first = np.unique(events[events >= 0])
    matches = Matches(matches.lengths, matches.offsets, matches.in_order)
    sizes, listed = np.zeros(len(matches), np.int64), np.zeros(0, np.int32)
    has_rows = _share(rules, matches, first) >= _ROWS_FROM
    if not has_rows:
        sizes, places, used = possible(rules, matches, first)
        listed = first[places].astype(np.int32)
        matches = _kept(matches, used)
    row = first if has_rows else first[:0]
    plan = tile_plan_of(rules, matches)
    chart = chart_of(matches.max_length, plan)
    starts, events, local = _lists(matches, sizes, listed, R)
    row_owner = np.asarray(owner, np.int64)[row]
    ends = np.flatnonzero(np.diff(row_owner, prepend=-1, append=-1))
    chosen = np.nonzero(plan.source < R)[0]
    by_event = chosen[np.argsort(plan.source[chosen], kind="stable")]
    weight, spread = (chosen, by_event[:0]) if has_rows else (chosen[:0], by_event)
    table = matches.table
    layout = Layout(
        owner=np.ascontiguousarray(owner, np.int64),
        lengths=matches.lengths,
        offsets=matches.offsets,
        table=table,
        cell=(table[:, 0] * chart.pitch + table[:, 1]) * chart.S + table[:, 2],
        local=local,
        rules=first,
        row=row,
        row_owner=row_owner,
        runs=np.stack([row_owner[ends[:-1]], ends[:-1], ends[1:]], 1),
        weight=weight,
        place=np.searchsorted(row, plan.source[weight]),
        starts=starts,
        events=events,
        spots=np.searchsorted(plan.source[spread], np.arange(R + 1)),
        spread=spread,
        multinomials=int(np.max(owner, initial=-1)) + 1,
    )
    return layout, plan, chart


def _share(rules: RuleTable, matches: Matches, events: Any) -> float:
    """Which part of the rules' events can occur in a sentence, on average over some."""
    some = np.unique(np.linspace(0, len(matches) - 1, _SAMPLE).astype(np.int64))
    return float(possible(rules, matches.of(some), events)[0].mean()) / max(len(events), 1) if len(matches) else 1.0


def _kept(matches: Matches, used: Any) -> Matches:
    """Some of the matches."""
    sizes = np.bincount(matches.sentence[used], minlength=len(matches))
    return Matches(matches.lengths, np.concatenate([[0], np.cumsum(sizes)]), matches.table[used])


def _lists(matches: Matches, sizes: Any, listed: Any, num_events: int) -> tuple[Any, Any, Any]:
    """Lists of the given events of rules, so many for each sentence, and of its matches'; and ``local``."""
    table, own, N = matches.table, matches.sentence, len(matches)
    lexical = table[:, 3] >= 0
    keys, inverse = np.unique(own[lexical] * num_events + table[lexical, 3], return_inverse=True)
    more = np.bincount(keys // num_events, minlength=N) if num_events else np.zeros(N, np.int64)
    of_rules, of_matches = (np.concatenate([[0], np.cumsum(x)]) for x in (sizes, more))
    local = np.full(len(table), -1, np.int32)
    local[lexical] = inverse - of_matches[own[lexical]] + sizes[own[lexical]]
    events = np.zeros(len(listed) + len(keys), np.int32)
    events[np.arange(len(listed)) + np.repeat(of_matches[:-1], sizes)] = listed
    events[np.arange(len(keys)) + np.repeat(of_rules[1:], more)] = keys % max(num_events, 1)
    return of_rules + of_matches, events, local


def total(layout: Layout, own: Any, num_events: int) -> Any:
    """Own counts of all sentences, shape (R,)."""
    out = np.zeros(num_events)
    _add_up(layout.row, layout.starts, layout.events, own, out)
    return out


@kernel
def _add_up(row, starts, events, own, out):
    D = len(row)
    some = np.zeros(D)
    for b in range(len(starts) - 1):
        first = b * D + starts[b]
        for e in range(D):
            some[e] += own[first + e]
        for i in range(starts[b + 1] - starts[b]):
            out[events[starts[b] + i]] += own[first + D + i]
    for e in range(D):
        out[row[e]] += some[e]
