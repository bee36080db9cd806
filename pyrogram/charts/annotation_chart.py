# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and outside of a sentence under an annotated grammar, over those anchored symbols that a mask lets be.

An anchored symbol is a nonterminal A over the words i .. k - 1, its *cell* is (i, k); it has a vector over subtypes.
Each cell is scaled by its greatest element, and remembers the log of that. Per cell, first the outer products of all
splits are summed for each pair of right-hand symbols, then each rule is applied once: K**2 a split, K**3 a rule.
Outside vectors are adjoints of log Z, so that inside times outside is a posterior.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .annotation_rules import AnnotationRules


class ParseTables(NamedTuple):
    """An annotated grammar as compiled code for parsing reads it."""

    parent: Any
    left: Any
    right: Any
    offset: Any
    stride: Any
    subtypes: Any
    start: int
    width: int
    lexical_start: Any
    """(V + 1,): rules that emit word w are ``lexical[lexical_start[w] : lexical_start[w + 1]]``."""
    lexical: Any
    pair_start: Any
    """(S + 1,): pairs of right-hand symbols by their left one."""
    pair_right: Any
    rule_start: Any
    """(P + 1,): rules of each pair."""
    pair_rules: Any
    unary: Any
    """Unary rules, each after all unary rules of its child."""
    tags: Any
    """(S,): whether a symbol emits words only."""


class Chart(NamedTuple):
    """What :func:`inside` finds. Anchored symbols have a *slot*; those of one cell follow upon each other."""

    slot: Any
    """(cells, S): the slot of a symbol, or -1; the cell of (i, k) is i * (n + 1) + k."""
    first: Any
    """(cells,): the first slot of each cell."""
    count: Any
    symbol: Any
    """The symbol of each slot."""
    cell: Any
    """The cell of each slot."""
    inside: Any
    """(slots + 1, K): the last row, of the child that a rule has not, is ones."""
    log_scale: Any
    """(cells,)."""


def parse_tables(rules: AnnotationRules, num_words: int) -> ParseTables:
    """The tables of a grammar without unary cycles."""
    S = len(rules.subtypes)
    lexical = np.flatnonzero(rules.word >= 0)
    lexical = lexical[np.argsort(rules.word[lexical], kind="stable")]
    binary = np.flatnonzero(rules.right >= 0)
    keys = rules.left[binary] * S + rules.right[binary]
    order = np.argsort(keys, kind="stable")
    pairs, rule_start = np.unique(keys[order], return_index=True)
    tags = np.ones(S, np.bool_)
    tags[rules.parent[rules.word < 0]] = False
    unary = _sorted_unary(rules)
    return ParseTables(
        parent=rules.parent,
        left=rules.left,
        right=rules.right,
        offset=rules.offset,
        stride=rules.stride,
        subtypes=rules.subtypes,
        start=rules.start,
        width=rules.width,
        lexical_start=np.searchsorted(rules.word[lexical], np.arange(num_words + 1)),
        lexical=lexical,
        pair_start=np.searchsorted(pairs // S, np.arange(S + 1)),
        pair_right=np.ascontiguousarray(pairs % S),
        rule_start=np.append(rule_start, len(order)),
        pair_rules=np.ascontiguousarray(binary[order]),
        unary=unary,
        tags=tags,
    )


def _sorted_unary(rules: AnnotationRules) -> Any:
    """Unary rules in an order in which children are finished before their parents."""
    unary = np.flatnonzero((rules.left >= 0) & (rules.right < 0))
    depth = np.zeros(len(rules.subtypes), np.int64)
    for _ in range(len(rules.subtypes) + 1):
        deeper = depth.copy()
        np.maximum.at(deeper, rules.parent[unary], depth[rules.left[unary]] + 1)
        if (deeper == depth).all():
            return np.ascontiguousarray(unary[np.argsort(depth[rules.parent[unary]], kind="stable")])
        depth = deeper
    raise ValueError("the grammar has a cycle of unary rules; collapse unary chains first")


@njit(nogil=True)
def full_mask(n, t):
    """All anchored symbols that could be: tags over one word, the start symbol over all."""
    mask = np.ones(((n + 1) * (n + 1), len(t.subtypes)), np.bool_)
    for i in range(n):
        for k in range(i + 1, n + 1):
            if k - i < n:
                mask[i * (n + 1) + k, t.start] = False
            if k - i > 1:
                for A in range(len(t.subtypes)):
                    if t.tags[A]:
                        mask[i * (n + 1) + k, A] = False
    return mask


@njit(nogil=True, fastmath={"reassoc", "contract"})
def inside(words, mask, real, t):
    """Fill a chart bottom-up."""
    n, S, K = len(words), len(t.subtypes), t.width
    cells = (n + 1) * (n + 1)
    slot = np.full((cells, S), -1, np.int32)
    first, count = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    log_scale = np.full(cells, -np.inf)
    bound = 0
    for i in range(n):
        for k in range(i + 1, n + 1):
            for A in range(S):
                bound += mask[i * (n + 1) + k, A]
    symbol, cell_of = np.empty(bound, np.int32), np.empty(bound, np.int64)
    vectors = np.empty((bound + 1, K))
    buffer = np.zeros((S, K))
    P = len(t.pair_right)
    products = np.empty((P, K, K))
    stamp, touched = np.full(P, -1, np.int64), np.empty(P, np.int64)
    slots = 0
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            k = i + size
            cell = i * (n + 1) + k
            buffer[:] = 0.0
            reference = 0.0
            if size == 1:
                for x in range(t.lexical_start[words[i]], t.lexical_start[words[i] + 1]):
                    r = t.lexical[x]
                    A = t.parent[r]
                    if mask[cell, A]:
                        for a in range(t.subtypes[A]):
                            buffer[A, a] += real[t.offset[r] + a * t.stride[A]]
            else:
                reference = -np.inf
                for j in range(i + 1, k):
                    reference = max(reference, log_scale[i * (n + 1) + j] + log_scale[j * (n + 1) + k])
                if reference == -np.inf:
                    continue
                num = 0
                for j in range(i + 1, k):
                    left, right = i * (n + 1) + j, j * (n + 1) + k
                    factor = np.exp(log_scale[left] + log_scale[right] - reference)
                    if factor == 0.0:
                        continue
                    for u in range(first[left], first[left] + count[left]):
                        B = symbol[u]
                        for p in range(t.pair_start[B], t.pair_start[B + 1]):
                            v = slot[right, t.pair_right[p]]
                            if v < 0:
                                continue
                            KB, KC = t.subtypes[B], t.subtypes[t.pair_right[p]]
                            if stamp[p] != cell:
                                if not _wanted(p, cell, mask, t):
                                    continue
                                stamp[p] = cell
                                touched[num] = p
                                num += 1
                                products[p, :KB, :KC] = 0.0
                            for b in range(KB):
                                y = factor * vectors[u, b]
                                for c in range(KC):
                                    products[p, b, c] += y * vectors[v, c]
                for x in range(num):
                    p = touched[x]
                    for z in range(t.rule_start[p], t.rule_start[p + 1]):
                        r = t.pair_rules[z]
                        A = t.parent[r]
                        if mask[cell, A]:
                            KB, KC = t.subtypes[t.left[r]], t.subtypes[t.right[r]]
                            for a in range(t.subtypes[A]):
                                o = t.offset[r] + a * t.stride[A]
                                total = 0.0
                                for b in range(KB):
                                    for c in range(KC):
                                        total += real[o + b * KC + c] * products[p, b, c]
                                buffer[A, a] += total
            for r in t.unary:
                A, B = t.parent[r], t.left[r]
                if mask[cell, A]:
                    for a in range(t.subtypes[A]):
                        o = t.offset[r] + a * t.stride[A]
                        for b in range(t.subtypes[B]):
                            buffer[A, a] += real[o + b] * buffer[B, b]
            greatest = buffer.max()
            if not greatest > 0.0:
                continue
            first[cell] = slots
            for A in range(S):
                some = False
                for a in range(t.subtypes[A]):
                    some = some or buffer[A, a] > 0.0
                if some and mask[cell, A]:
                    slot[cell, A], symbol[slots], cell_of[slots] = slots, A, cell
                    for a in range(t.subtypes[A]):
                        vectors[slots, a] = buffer[A, a] / greatest
                    slots += 1
            count[cell] = slots - first[cell]
            log_scale[cell] = reference + np.log(greatest)
    vectors[slots] = 1.0
    return Chart(slot, first, count, symbol[:slots], cell_of[:slots], vectors[: slots + 1], log_scale)


@njit(nogil=True)
def _wanted(p, cell, mask, t):
    for z in range(t.rule_start[p], t.rule_start[p + 1]):
        if mask[cell, t.parent[t.pair_rules[z]]]:
            return True
    return False


@njit(nogil=True, fastmath={"reassoc", "contract"})
def outside(n, chart, real, t):
    """Adjoints of all anchored symbols' vectors, shape (slots, K); zero if there is no parse."""
    K = t.width
    out = np.zeros((len(chart.symbol), K))
    root = chart.slot[n, t.start]
    if root < 0:
        return out
    out[root, 0] = 1.0 / chart.inside[root, 0]
    P = len(t.pair_right)
    sums = np.empty((P, K, K))
    stamp, useful = np.full(P, -1, np.int64), np.zeros(P, np.bool_)
    for size in range(n, 0, -1):
        for i in range(n - size + 1):
            k = i + size
            cell = i * (n + 1) + k
            if chart.count[cell] == 0:
                continue
            for x in range(len(t.unary) - 1, -1, -1):
                r = t.unary[x]
                A, B = t.parent[r], t.left[r]
                u, v = chart.slot[cell, A], chart.slot[cell, B]
                if u >= 0 and v >= 0:
                    for a in range(t.subtypes[A]):
                        o = t.offset[r] + a * t.stride[A]
                        for b in range(t.subtypes[B]):
                            out[v, b] += out[u, a] * real[o + b]
            for j in range(i + 1, k):
                left, right = i * (n + 1) + j, j * (n + 1) + k
                if chart.count[left] == 0 or chart.count[right] == 0:
                    continue
                factor = np.exp(chart.log_scale[left] + chart.log_scale[right] - chart.log_scale[cell])
                if factor == 0.0:
                    continue
                for u in range(chart.first[left], chart.first[left] + chart.count[left]):
                    B = chart.symbol[u]
                    for p in range(t.pair_start[B], t.pair_start[B + 1]):
                        v = chart.slot[right, t.pair_right[p]]
                        if v < 0:
                            continue
                        if stamp[p] != cell:
                            stamp[p] = cell
                            useful[p] = _sum_parents(p, cell, chart.slot, out, real, t, sums)
                        if not useful[p]:
                            continue
                        KC = t.subtypes[t.pair_right[p]]
                        for b in range(t.subtypes[B]):
                            y = factor * chart.inside[u, b]
                            total = 0.0
                            for c in range(KC):
                                total += sums[p, b, c] * chart.inside[v, c]
                                out[v, c] += y * sums[p, b, c]
                            out[u, b] += factor * total
    return out


@njit(nogil=True, fastmath={"reassoc", "contract"})
def _sum_parents(p, cell, slot, out, real, t, sums):
    """sums[p, b, c]: what a pair of children is worth, over all parents in a cell; False if nothing."""
    some = False
    for z in range(t.rule_start[p], t.rule_start[p + 1]):
        r = t.pair_rules[z]
        A = t.parent[r]
        v = slot[cell, A]
        if v < 0:
            continue
        KB, KC = t.subtypes[t.left[r]], t.subtypes[t.right[r]]
        if not some:
            sums[p, :KB, :KC] = 0.0
            some = True
        add_rule(r, KB, KC, out[v], real, t, sums[p])
    return some


@njit(nogil=True)
def subtypes_below(r, t):
    """Numbers of subtypes of a rule's children, 1 where there is none."""
    KB = t.subtypes[t.left[r]] if t.left[r] >= 0 else 1
    return KB, (t.subtypes[t.right[r]] if t.right[r] >= 0 else 1)


@njit(nogil=True, fastmath={"reassoc", "contract"})
def add_rule(r, KB, KC, above, real, t, total):
    """Add the weights of a rule, times a vector over its parent's subtypes, to ``total`` (KB, KC)."""
    for a in range(t.subtypes[t.parent[r]]):
        x = above[a]
        if x == 0.0:
            continue
        o = t.offset[r] + a * t.stride[t.parent[r]]
        for b in range(KB):
            for c in range(KC):
                total[b, c] += x * real[o + b * KC + c]


@njit(nogil=True)
def surviving(n, chart, out, threshold, t):
    """The mask of anchored symbols whose posterior is at least a threshold."""
    mask = np.zeros(chart.slot.shape, np.bool_)
    for cell in range(len(chart.count)):
        for u in range(chart.first[cell], chart.first[cell] + chart.count[cell]):
            posterior = 0.0
            for a in range(t.subtypes[chart.symbol[u]]):
                posterior += chart.inside[u, a] * out[u, a]
            mask[cell, chart.symbol[u]] = posterior >= threshold
    return mask
