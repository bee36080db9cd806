# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars with heads: more valences, classes of distances, nonterminals; log Z and counts.

No peer has any of them. Beside ours is the same recursion in torch, with its gradient, as one would write it by hand: a
tensor operation for each rule and width.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from timing import Work, race
from torch import Tensor

from pyrogram import DMV
from pyrogram.grammars import DistanceDMV, LexicalisedPCFG
from pyrogram.recursion import TorchEngine

BATCH, TAGS = 64, 17
LENGTHS = (10, 20, 40)
HEADER = ["grammar", "n", "pyrogram", "torch", "times torch", "relative difference of log Z"]


def grammars() -> list[Any]:
    """All over universal tags."""
    valences = [DMV(TAGS, num_valences=k) for k in (2, 4)]
    return [*valences, DistanceDMV(TAGS, widths=(1, 3)), LexicalisedPCFG(2, TAGS)]


def rows(lengths: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Sentences of one length per second, with the expected counts of the whole batch."""
    table = []
    for grammar in grammars():
        for n in lengths:
            torch.manual_seed(0)
            words = torch.randint(TAGS, (BATCH, n))
            tables = {name: torch.randn(b.shape).double().log_softmax(-1) for name, b in grammar.blocks.items()}
            works: dict[str, Work] = {"pyrogram": partial(grammar.expected_counts, tables, words)}
            if not isinstance(grammar, DMV):
                works["torch"] = partial(in_torch, grammar, tables, words)
            times = race(works, 1, seconds)
            row = [f"`{grammar!r}`", str(n), f"{BATCH / times['pyrogram'].median:,.0f}", "-", "-", "-"]
            if "torch" in times:
                exact, other = grammar.log_partition(tables, words), in_torch(grammar, tables, words)
                off = float(((other - exact) / exact).abs().max())
                if off > 1e-8:
                    sys.exit(f"log Z of {grammar!r}, n = {n}, is off by {off:.1g}")
                ratio = times["pyrogram"].times_faster_than(times["torch"])
                row[3:] = [f"{BATCH / times['torch'].median:,.0f}", f"{ratio:.0f}", f"{off:.0e}"]
            table.append(row)
            print(" | ".join(row), flush=True)
    return table


def in_torch(grammar: Any, tables: Mapping[str, Tensor], words: Tensor) -> Tensor:
    """Log Z; its gradient by all weights is computed, too."""
    leaves = {name: table[None].clone().requires_grad_() for name, table in tables.items()}
    fitted = grammar._sums.fitted
    lists = {name: torch.as_tensor(column) for name, column in fitted.lists.items()}
    log_z: Tensor = TorchEngine(grammar.recursion).log_partition(
        leaves, torch.full((len(words),), words.shape[1]), words={"w": words}, sizes=fitted.sizes, lists=lists
    )
    torch.autograd.grad(log_z.sum(), list(leaves.values()))
    return log_z.detach()


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows(LENGTHS, 1.0)
