# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums, draws and best derivations of context-free grammars whose rules and matches are given as arrays."""

from typing import Any

import numpy as np
import torch

from pyrogram import CFG
from pyrogram.grammar import Block
from pyrogram.grammars.cfg_rules import Matches, RuleTable


class Tabulated(CFG):
    """A grammar with rules of its own, and sentences whose matches are known."""

    def __init__(self, rules: RuleTable, matches: Matches) -> None:
        self.table, self._given_matches = rules, matches
        self._blocks: Any = {"rules": Block(torch.Size([rules.num_events]))}
        self.words, self.nonterminals = ["w"], [str(s) for s in range(rules.num_symbols)]

    def matches(self, words: torch.Tensor) -> Matches:
        return self._given_matches


def _sentences(rules: RuleTable, matches: Matches, device: Any) -> tuple[Tabulated, torch.Tensor]:
    lengths = torch.from_numpy(np.asarray(matches.lengths))
    words = torch.where(torch.arange(matches.max_length) < lengths[:, None], 0, -1)
    return Tabulated(rules, matches), words.to(device)


def log_partition(weights: torch.Tensor, rules: RuleTable, matches: Matches, by_torch: bool = False) -> torch.Tensor:
    grammar, words = _sentences(rules, matches, weights.device)
    if not by_torch:
        return grammar.log_partition({"rules": weights}, words)
    parts, _ = grammar._on({"rules": weights}, words, None)
    runs = [part.summed(inputs) for part, inputs in parts]
    log_z = [program.log_partition(inputs, by_torch=True) for program, inputs in runs]
    return torch.cat([weights.flatten()[:0], *log_z])


def posterior_counts(weights: torch.Tensor, rules: RuleTable, matches: Matches) -> tuple[torch.Tensor, torch.Tensor]:
    grammar, words = _sentences(rules, matches, weights.device)
    log_z, counts = grammar.sentence_counts({"rules": weights}, words)
    return log_z, counts["rules"]


def expected_counts(
    weights: torch.Tensor, rules: RuleTable, matches: Matches, scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """:param scale: what the counts of each sentence are multiplied by."""
    if scale is not None or weights.dim() == 2:
        log_z, rows = posterior_counts(weights, rules, matches)
        return log_z, rows.sum(0) if scale is None else scale.to(rows) @ rows
    grammar, words = _sentences(rules, matches, weights.device)
    log_z, counts = grammar.expected_counts({"rules": weights}, words)
    return log_z, counts["rules"]


def span_marginals(weights: torch.Tensor, rules: RuleTable, matches: Matches) -> torch.Tensor:
    grammar, words = _sentences(rules, matches, weights.device)
    return grammar.spans(grammar.expanded({"rules": weights}, words.shape[:1]), words)


def top_k(weights: torch.Tensor, rules: RuleTable, matches: Matches, k: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    grammar, words = _sentences(rules, matches, weights.device)
    scores, rows = grammar.best(grammar.expanded({"rules": weights}, words.shape[:1]), words, k)
    return rows, scores


def mbr(weights: torch.Tensor, rules: RuleTable, matches: Matches, criterion: str = "spans") -> torch.Tensor:
    grammar, words = _sentences(rules, matches, weights.device)
    return grammar.most_expected(grammar.expanded({"rules": weights}, words.shape[:1]), words, criterion)


def sample(weights: torch.Tensor, rules: RuleTable, matches: Matches, number: int = 1) -> torch.Tensor:
    grammar, words = _sentences(rules, matches, weights.device)
    return grammar.draw(grammar.expanded({"rules": weights}, words.shape[:1]), words, number)
