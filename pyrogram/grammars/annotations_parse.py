# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parsing sentences with an annotated grammar, from coarse to fine.

An anchored symbol is a nonterminal over the words i .. k - 1. One whose posterior under the base grammar is below a
threshold is not annotated (Charniak et al. 2006; Petrov and Klein 2007). All others, and the rules between them, are a
forest. Where it has no parse, the threshold is lowered by factors of a thousand and at last to zero: then the annotated
grammar is exact. Where its weights of zero forbid every parse, the base grammar's own is taken.
"""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Callable
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyrogram.recursion.run.on_tensors import TensorInputs
from pyrogram.runtime.compiling import kernel
from pyrogram.runtime.threads import run_workers

from .annotations_page import BLOCK, Annotations, program
from .annotations_rules import AnnotationRules, Forest, replace_subtypes

Decoder = Literal["max-rule", "max-rule-sum", "viterbi", "sample"]
DECODERS: tuple[Decoder, ...] = ("max-rule", "max-rule-sum", "viterbi", "sample")
_MOST = 2**23  # numbers of base posteriors that are held at a time


class ParseTables(NamedTuple):
    """Base rules as compiled code that makes forests reads them."""

    left: Any
    right: Any
    parent: Any
    start: int
    symbols: Any
    """All symbols, those that unary rules make of others after these."""
    rule_start: Any
    """(S + 1,): rules of A that emit no words are ``rules[rule_start[A] : rule_start[A + 1]]``."""
    rules: Any
    lexical_start: Any
    """(V + 1,): rules that emit word w are ``lexical[lexical_start[w] : lexical_start[w + 1]]``."""
    lexical: Any


def parse_tables(rules: AnnotationRules, num_words: int) -> ParseTables:
    """The tables of a grammar without unary cycles."""
    lexical, others = np.flatnonzero(rules.word >= 0), np.flatnonzero(rules.word < 0)
    lexical = lexical[np.argsort(rules.word[lexical], kind="stable")]
    others = others[np.argsort(rules.parent[others], kind="stable")]
    unary = others[rules.right[others] < 0]
    below: dict[int, set[int]] = {A: set() for A in range(len(rules.subtypes))}
    for r in unary:
        below[int(rules.parent[r])].add(int(rules.left[r]))
    return ParseTables(
        left=rules.left,
        right=rules.right,
        parent=rules.parent,
        start=rules.start,
        symbols=np.array(list(TopologicalSorter(below).static_order()), np.int64),
        rule_start=np.searchsorted(rules.parent[others], np.arange(len(rules.subtypes) + 1)),
        rules=others,
        lexical_start=np.searchsorted(rules.word[lexical], np.arange(num_words + 1)),
        lexical=lexical,
    )


class _Weighted:
    """A grammar with weights, and what is summed of forests."""

    def __init__(self, rules: AnnotationRules, weights: Any) -> None:
        self.annotations = Annotations(rules)
        self.possible = rules.reduced(np.maximum, weights) > 0
        self._tables = self.annotations.events.gathered({BLOCK: torch.from_numpy(weights).log()[None]})

    def _inputs(self, nodes: Any, scores: Tensor | None = None) -> TensorInputs:
        """
        :param nodes: of B forests, see :meth:`.Annotations.nodes`; they do not depend on subtypes.
        :param scores: of branches by position, shape ``(B, n + 1)``; None: zero.
        """
        n, words = nodes
        if scores is None:
            scores = torch.zeros(len(n), words["r"].shape[1] + 1, dtype=torch.float64)
        rows = {name: torch.from_numpy(x) for name, x in words.items()}
        tables = {**self._tables, "branch": scores}
        return TensorInputs(tables, torch.from_numpy(n), rows, self.annotations.sizes, {}, checked=True)

    def parses(self, forest: Forest, decoder: Decoder) -> tuple[Any, list[Any]]:
        """log Z of each sentence, -inf without a parse, and the base rules of a parse in leftmost order.

        Draws are by torch's random numbers.
        """
        nodes = self.annotations.nodes(forest)
        inputs, trace = self._inputs(nodes), {"branch": (0, 1)}
        log_z, counts = program(forest=True).log_counts(inputs)
        posterior, width = counts["branch"], counts["branch"].shape[1]
        if decoder == "sample":
            seed = int(torch.randint(2**62, ()))
            rows = program(forest=True).drawn(inputs, 1, seed, trace, width)[1][0]
        else:
            if decoder != "viterbi":  # one subtype, and each branch has a weight of its own
                scores = torch.where(posterior > 0, posterior.log() if decoder == "max-rule" else posterior, -torch.inf)
                rules = self.annotations.rules
                one = _Weighted(replace_subtypes(rules, np.ones_like(rules.subtypes)), np.ones(len(rules.parent)))
                inputs = one._inputs(nodes, scores)
            rows = program(forest=True).best(inputs, 1, trace, width)[1][0]
        ends = forest.first[forest.start[1:]]
        return log_z.numpy(), [forest.rule[end - row[row >= 0]] for end, row in zip(ends, rows.numpy(), strict=True)]


def parse(
    words: Any,
    tables: ParseTables,
    rules: AnnotationRules,
    weights: Any,
    base_weights: Any,
    posteriors: Callable[[Any], Any],
    *,
    decoder: Decoder = "max-rule",
    threshold: float = 1e-5,
) -> tuple[Any, Any, Any]:
    """Parses of sentences.

    :param words: int64, shape ``(B, n)``, padded with -1.
    :param weights: float64, of the annotated grammar, not logarithms.
    :param base_weights: the same of the base grammar; positive, for what they forbid is not looked for.
    :param posteriors: of anchored symbols under the base grammar: from sentences to ``(B, n + 1, n + 1, S)``.
    :param threshold: least posterior under the base grammar; 0: no pruning.
    :returns: base rules in leftmost order, shape ``(B, L)``, padded with -1: the base grammar's parse if the
        annotated one has none, and all -1 if neither has; log p(x) under the annotated grammar, over what was not
        pruned, -inf if it has no parse; and the number of anchored symbols that were annotated.
    """
    lengths = (words >= 0).sum(1)
    parses: list[Any] = [np.zeros(0, np.int64)] * len(words)
    log_z, kept = np.full(len(words), -np.inf), np.zeros(len(words), np.int64)
    fine = _Weighted(rules, weights)
    base = _Weighted(replace_subtypes(rules, np.ones_like(rules.subtypes)), base_weights)

    def forests(chunk: Any, shares: Any, limit: float, grammar: _Weighted) -> list[Forest]:
        """All parses of some sentences, of symbols with at least a posterior."""
        out: list[Any] = [None] * len(chunk)
        todo = iter(range(len(chunk)))

        def work(_: Any) -> None:
            for i in todo:
                mask = shares[i] >= (limit or -np.inf)
                out[i] = make_forest(words[chunk[i], : lengths[chunk[i]]], mask, tables, grammar.possible)

        run_workers(work, cost=float((lengths[chunk] ** 3.0).sum()) * 1e3)
        return out

    def parse_some(chunk: Any, shares: Any) -> None:
        n, limit = lengths[chunk], threshold
        possible = shares[np.arange(len(chunk)), 0, n, rules.start] > 0
        chunk, shares = chunk[possible], shares[possible]
        while len(chunk):
            done = decode(chunk, forests(chunk, shares, limit, fine), fine, decoder)
            chunk, shares = chunk[~done], shares[~done]
            if limit == 0.0 and len(chunk):  # weights of zero forbid all parses
                every = forests(chunk, shares, limit, base)
                decode(chunk, every, base, decoder if decoder == "max-rule" else "max-rule-sum")
                return
            limit = limit * 1e-3 if limit > 1e-15 else 0.0

    def decode(chunk: Any, every: list[Forest], grammar: _Weighted, decoder: Decoder) -> Any:
        """Put parses where they belong; returns which sentences have one."""
        done = np.zeros(len(chunk), np.bool_)
        levels = np.log2([1 + len(forest.rule) for forest in every]).astype(int)
        for level in np.unique(levels):  # of about the same size, for they lie in one table
            group = np.flatnonzero(levels == level)
            z, best = grammar.parses(Forest.joined([every[i] for i in group]), decoder)
            done[group] = z > -np.inf
            for i, log_p, rules_of_parse in zip(group, z, best, strict=True):
                parses[chunk[i]] = rules_of_parse
                if grammar is fine and done[i]:
                    log_z[chunk[i]], kept[chunk[i]] = log_p, len(every[i].first) - 1
        return done

    order = np.argsort(-lengths, kind="stable")
    while len(order):
        longest = int(lengths[order[0]])
        chunk, order = np.split(order, [max(1, _MOST // ((longest + 1) ** 2 * len(rules.subtypes)))])
        parse_some(chunk, posteriors(words[chunk, : max(longest, 1)]))
    out = np.full((len(words), max(map(len, parses), default=1) or 1), -1, np.int64)
    for row, parse in zip(out, parses, strict=True):
        row[: len(parse)] = parse
    return out, log_z, kept


def make_forest(words: Any, mask: Any, tables: ParseTables, possible: Any) -> Forest:
    """All parses of a sentence; empty if there is none.

    :param mask: which anchored symbols there may be, shape ``(n + 1, n + 1, S)``.
    :param possible: which rules there are, shape ``(R0,)``.
    """
    first, branches = _grow(words, mask, tables, possible)
    last = len(first) - 2  # nodes and branches were found bottom-up
    rule, left, right = np.ascontiguousarray(branches[:, ::-1])
    children = (np.where(child >= 0, last - child, -1) for child in (left, right))
    return Forest(np.array([0, last + 1]), len(rule) - np.ascontiguousarray(first[::-1]), rule, *children)


@kernel
def _grow(words, mask, t, possible):
    n = len(words)
    node = np.full((n + 1, n + 1, mask.shape[2]), -1, np.int64)
    emitted = np.full(mask.shape[2], -1, np.int64)
    num_nodes, num = 0, 0
    for step in range(2):  # count branches, then write them
        first, branches = np.zeros(num_nodes * step + 1, np.int64), np.empty((3, num * step), np.int64)
        num_nodes, num = 0, 0
        for size in range(1, n + 1):
            for i in range(n - size + 1):
                k = i + size
                if size == 1:
                    emitted[:] = -1
                    for r in t.lexical[t.lexical_start[words[i]] : t.lexical_start[words[i] + 1]]:
                        if possible[r]:
                            emitted[t.parent[r]] = r
                for A in t.symbols:
                    begin = num
                    if not mask[i, k, A]:
                        continue
                    if size == 1 and emitted[A] >= 0:
                        if step == 1:
                            branches[:, num] = emitted[A], -1, -1
                        num += 1
                    for r in t.rules[t.rule_start[A] : t.rule_start[A + 1]]:
                        B, C = t.left[r], t.right[r]
                        if not possible[r]:
                            continue
                        for j in range(i + 1, k) if C >= 0 else range(k, k + 1):
                            u, v = node[i, j, B], node[j, k, C] if C >= 0 else -1
                            if u >= 0 and (v >= 0 or C < 0):
                                if step == 1:
                                    branches[0, num], branches[1, num], branches[2, num] = r, u, v
                                num += 1
                    if num > begin:
                        node[i, k, A] = num_nodes
                        num_nodes += 1
                        if step == 1:
                            first[num_nodes] = num
    root = node[0, n, t.start]  # what is above it is of no use
    return first[: root + 2], branches[:, : first[root + 1]]
