# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars with most of all possible rules: matrix products over spans and sentences, on any device.

Symbols are *narrow* (preterminals: they span one word and have no rules) or *wide*. The cells of a span are a vector
over wide symbols whose maximum is one, times exp(e) with an e of its own. For a span of width w, with s = w - 1 splits,

    X (pairs) = sum_j c_j left_j right_j',   c_j = exp(e_left + e_right - greatest of these)
    Y (wide symbols) = X W,                  e = greatest + log max Y

all spans of a width and all sentences at once. A narrow symbol takes part only at the first or the last split, and its
weights depend on nothing but the word: summed over it first, for each word instead of each span, the rules are a matrix
from the other symbol to the parent. The outside pass is written out. A sentence that is not sure to have lost no digits
is left to the caller.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cfg_dense_chunk import Chunk, Shape
from .cfg_rules import Matches, RuleTable

GREATEST = {torch.float32: 2.0**60, torch.float64: 2.0**500}
# Grammars with fewer rules, or a smaller part of all, go into lanes on a CPU.
LEAST_RULES = 150_000
LEAST_ON_DEVICE, LEAST_PART = 12_000, 0.25
_NUMBERS = 2**22  # products that are kept for the sentences that are done at a time


def suits(log_weights: Tensor, rules: RuleTable, matches: Matches) -> bool:
    """Whether all sentences share a dense grammar; unary rules may only begin a sentence, and matches have one word.

    Nor may spans be forbidden.
    """
    if log_weights.dtype not in GREATEST or log_weights.dim() != 1 or matches.forbidden is not None:
        return False
    if len(rules.binary) < (LEAST_RULES if log_weights.device.type == "cpu" else LEAST_ON_DEVICE):
        return False
    if "density" not in rules.__dict__:
        symbols = [len(np.unique(rules.binary[:, column])) for column in range(3)]
        inner = np.concatenate([rules.binary[:, 1:3].reshape(-1), rules.unary[:, 1]])
        begins = (rules.unary[:, 0] == rules.start).all() and not (len(rules.unary) and (inner == rules.start).any())
        rules.__dict__["density"] = len(rules.binary) / np.prod(symbols) if begins else 0.0
    if rules.__dict__["density"] < LEAST_PART:
        return False
    return not (matches.table[:, 1] - matches.table[:, 0] > 1).any()


def run(
    log_weights: Tensor, rules: RuleTable, matches: Matches, scale: Tensor | None, with_counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """log Z (B,), counts (R,) summed over sentences times ``scale``, and which sentences failed and count nothing."""
    with torch.no_grad():
        B = len(matches)
        shape = _shape(rules, matches, log_weights.device)
        shift = log_weights.max().clamp(min=torch.finfo(log_weights.dtype).min / 4)
        if (rules.binary[:, 3] < 0).any():  # weights of one
            shift = shift.clamp(min=0.0)
        tables = [_matrix(log_weights - shift, shift, kind, len(shape.wide)) for kind in shape.kinds]
        counted = [torch.zeros_like(table) for table in tables]
        counts = log_weights.new_zeros(rules.num_events + 1)
        log_z, failed = log_weights.new_zeros(B), torch.zeros(B, dtype=torch.bool, device=log_weights.device)
        order = np.argsort(-matches.lengths, kind="stable")
        room: dict[int, Tensor] = {}
        start = 0
        while start < B:
            n = int(matches.lengths[order[start]])
            size = max(1, _NUMBERS // (n * n * len(shape.wide) ** 2 // 2))
            chosen = order[start : start + size]
            start += size
            chunk = Chunk(log_weights, shift, shape, tables, matches.of(chosen), room)
            place = torch.from_numpy(chosen).to(log_weights.device)
            log_z[place] = chunk.inside()
            failed[place] = ~torch.isfinite(log_z[place])
            own = log_weights.new_ones(len(chosen)) if scale is None else scale.to(log_weights)[place]
            good = ~failed[place]
            for _ in range(2):  # the second time without those that failed the first time
                parts = chunk.outside(good)
                worse = good & ~(parts <= GREATEST[log_weights.dtype])
                if not bool(worse.any()):
                    break
                good = good & ~worse
            failed[place] = ~good
            if with_counts:
                chunk.count(torch.where(good, own, 0.0), counted, counts)
        for kind, table, total in zip(shape.kinds, tables, counted, strict=True):
            counts.index_add_(0, kind[1], (table * total).flatten()[kind[0]])
        return log_z, counts[:-1], failed


def _shape(rules: RuleTable, matches: Matches, device: torch.device) -> Shape:
    """Which symbols are wide, and where weights go; kept with the rules."""
    has_rules = np.zeros(rules.num_symbols, np.bool_)
    has_rules[rules.binary[:, 0]] = True
    if not len(rules.unary) or (matches.table[:, 2] == rules.start).any():
        has_rules[rules.start] = True
    least = 1 if has_rules[matches.table[:, 2]].any() else 2
    shapes: dict[tuple[bool, int, str], Shape] = rules.__dict__.setdefault("shapes", {})
    key = bool(has_rules[rules.start]), least, str(device)
    if key not in shapes:
        shapes[key] = _make_shape(rules, has_rules, least, device)
    return shapes[key]


def _make_shape(rules: RuleTable, has_rules: Any, least: int, device: torch.device) -> Shape:
    S, R = rules.num_symbols, rules.num_events
    wide, narrow = np.nonzero(has_rules)[0], np.nonzero(~has_rules)[0]
    index = np.zeros(S, np.int64)
    index[wide], index[narrow] = np.arange(len(wide)), np.arange(len(narrow))
    parent, left, right, event = rules.binary.T
    kinds = []
    for left_wide, right_wide in ((True, True), (True, False), (False, True), (False, False)):
        own = (has_rules[left] == left_wide) & (has_rules[right] == right_wide)
        rights = len(wide) if right_wide else len(narrow)
        events = np.where(event[own] < 0, R, event[own])
        pairs = (len(wide) if left_wide else len(narrow)) * rights
        lefts = pairs // max(rights, 1)
        A, B, C = index[parent[own]], index[left[own]], index[right[own]]
        # With one narrow symbol: (parent, wide symbol, narrow symbol).
        place = (A * rights + C) * lefts + B if right_wide and not left_wide else (A * lefts + B) * rights + C
        kinds.append((torch.from_numpy(place).to(device), torch.from_numpy(events).to(device), pairs))
    column = index + np.where(has_rules, 0, len(wide))
    roots, events = column[rules.unary[:, 1]], np.where(rules.unary[:, 2] < 0, R, rules.unary[:, 2])
    if has_rules[rules.start]:
        roots, events = np.append(roots, column[rules.start]), np.append(events, R)
    moved = [torch.from_numpy(x).to(device) for x in (wide, narrow, roots, events)]
    return Shape(moved[0], moved[1], (moved[2], moved[3]), kinds, least)


def _matrix(log_weights: Tensor, shift: Tensor, kind: tuple[Tensor, Tensor, int], wide: int) -> Tensor:
    """Weights of one kind of pairs, (wide, pairs): the layout in which products of matrices are fastest."""
    place, events, pairs = kind
    extended = torch.cat([log_weights, -shift.reshape(1)])
    table = log_weights.new_zeros(wide * pairs)
    return table.index_add_(0, place, (extended[events]).exp()).reshape(wide, pairs)
