# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside of context-free grammars in log space, over all sentences and all spans of a width at once.

For any device, precision and derivative, and under torch's transforms. O(n^3 P + n^2 R) time for P pairs of right sides
and R rules, and as much memory for the backward pass.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from .cfg_rules import Matches, RuleTable


def log_partition(log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches) -> Float[Tensor, "N"]:
    """log Z of each sentence, -inf if it has no derivation; any derivative, never NaN.

    :param log_weights: (R,), or (B, R) for weights of its own for every sentence.
    """
    goals = [cells[:, 0, rules.start] for cells in inside(log_weights, rules, matches)]
    lengths = torch.from_numpy(matches.lengths).to(log_weights.device)
    return torch.stack(goals).gather(0, lengths[None] - 1)[0]


def inside(log_weights: Tensor, rules: RuleTable, matches: Matches) -> list[Tensor]:
    """Log weights of all cells by width 1 .. n, shape (B, n - width + 1, symbols): [sentence, left end, symbol]."""
    n, S = matches.max_length, rules.num_symbols
    lexical = _lexical(log_weights, rules, matches)
    binary = _Sum(rules.binary[:, 0], log_weights.device)
    pairs, own = (torch.from_numpy(x).to(log_weights.device) for x in rules.pairs)
    weights = _weights(log_weights, rules.binary[:, 3])
    chains = []
    for stage in rules.stages:
        table = rules.unary[stage]
        child = torch.from_numpy(table[:, 1]).to(log_weights.device)
        chains.append((_Sum(table[:, 0], log_weights.device), child, _weights(log_weights, table[:, 2])))
    cells: list[Tensor] = []
    for width in range(1, n + 1):
        m = n - width + 1
        cell = lexical.diagonal(width, 1, 2).transpose(1, 2)
        if width > 1 and len(pairs):
            left = torch.stack([cells[j - 1][:, :m].index_select(-1, pairs[:, 0]) for j in range(1, width)])
            right = [cells[width - j - 1][:, j:].index_select(-1, pairs[:, 1]) for j in range(1, width)]
            products = _log_sum_exp(left + torch.stack(right))
            terms = products.index_select(-1, own) + weights
            cell = _log_sum_exp(torch.stack([cell, binary.of(terms, S)]))
        for total, child, weight in chains:
            more = total.of(cell.index_select(-1, child) + weight, S)
            cell = _log_sum_exp(torch.stack([cell, more]))
        cells.append(cell)
    return cells


def _weights(log_weights: Tensor, events: Any) -> Tensor:
    """Log weights of rules, 0 for the event -1, in a shape that broadcasts against (B, spans, rules)."""
    index = torch.from_numpy(np.where(events < 0, log_weights.shape[-1], events)).to(log_weights.device)
    extended = torch.cat([log_weights, torch.zeros_like(log_weights[..., :1])], -1)
    chosen = extended.index_select(-1, index)
    return chosen if log_weights.dim() == 1 else chosen[:, None]


def _lexical(log_weights: Tensor, rules: RuleTable, matches: Matches) -> Tensor:
    """Log weight of all matches of each cell, shape (B, n + 1, n + 1, symbols)."""
    B, N, S = len(matches), matches.max_length + 1, rules.num_symbols
    i, k, symbol, event = matches.table.T
    cell, own = np.unique(((matches.sentence * N + i) * N + k) * S + symbol, return_inverse=True)
    if log_weights.dim() == 1:
        weights = _weights(log_weights, event)
    else:
        columns = np.where(event < 0, log_weights.shape[-1], event)
        extended = torch.cat([log_weights, torch.zeros_like(log_weights[:, :1])], 1)
        flat = torch.from_numpy(matches.sentence * extended.shape[1] + columns).to(log_weights.device)
        weights = extended.flatten().index_select(0, flat)
    totals = _Sum(own.reshape(-1), log_weights.device).of(weights, len(cell))
    chart = totals.new_full((B * N * N * S,), -torch.inf)
    place = torch.from_numpy(cell).to(log_weights.device)
    return chart.index_put((place,), totals).reshape(B, N, N, S)


class _Sum:
    """log-sum-exp over groups of terms of the last dimension; -inf, with derivatives 0, where nothing is possible."""

    def __init__(self, owner: Any, device: torch.device) -> None:
        self.owner = torch.from_numpy(np.ascontiguousarray(owner)).to(device)

    def of(self, terms: Tensor, count: int) -> Tensor:
        fixed = terms.detach()
        empty = fixed.new_full((*terms.shape[:-1], count), -torch.inf)
        peak = empty.scatter_reduce(-1, self.owner.expand(terms.shape), fixed, "amax")
        peak = peak.clamp_min(torch.finfo(terms.dtype).min)
        powers = (terms - peak.index_select(-1, self.owner)).exp()
        total = torch.zeros_like(empty).index_add(-1, self.owner, powers)
        return _log(total) + peak


def _log_sum_exp(x: Tensor) -> Tensor:
    """Over the first dimension, -inf safe."""
    peak = x.detach().amax(0).clamp_min(torch.finfo(x.dtype).min)
    return _log((x - peak).exp().sum(0)) + peak


def _log(total: Tensor) -> Tensor:
    """log of a sum that is zero or at least one; zeros have derivative 0."""
    empty = total.detach() == 0
    return (total + empty).log().masked_fill(empty, -torch.inf)
