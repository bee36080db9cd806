# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z with its gradient under PCFGs of low rank, beside the published code of TN-PCFG if it is at hand.

    TN_PCFG=~/TN-PCFG python benchmarks/low_rank_pcfg.py

where ``~/TN-PCFG`` is a clone of https://github.com/sustcsonglin/TN-PCFG, which is not on PyPI. Two of its charts run
on a CPU: that of the paper, in logarithms, and its fast one, in rank space, which takes sentences of one length.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
from timing import Work, race
from torch import Tensor

from pyrogram.grammars import SimplePCFG, TensorPCFG

PEER = os.environ.get("TN_PCFG")
BATCH, NUM_WORDS = 16, 5000
SIZES = ((30, 60, 30), (250, 500, 250))
LENGTHS = (10, 20, 40)
MOST_IN_LOGARITHMS = 2500  # nonterminals times words: beyond that TN-PCFG's first chart takes minutes
WHAT = f"batches of {BATCH} sentences of one length, one thread, float32, sentences/s"
COLUMNS = ["tensor", "simple"] + (["paper", "fast"] if PEER else [])
HEADER = ["nonterminals, preterminals, rank", "n", "`TensorPCFG`", "`SimplePCFG`"] + (
    ["TN-PCFG", "TN-PCFG, fast", "times TN-PCFG", "times its fast chart", "log Z differs by"] if PEER else []
)


def rows(seconds: float, lengths: tuple[int, ...] = LENGTHS) -> list[list[str]]:
    """Sentences a second, log Z and its gradient by all weights."""
    table = []
    for N, P, R in SIZES:
        tensor, simple = TensorPCFG(N, P, R, NUM_WORDS), SimplePCFG(N, P, NUM_WORDS)
        for n in lengths:
            torch.manual_seed(0)
            words = torch.randint(NUM_WORDS, (BATCH, n))
            tables = {name: torch.randn(block.shape).log_softmax(-1) for name, block in tensor.blocks.items()}
            works: dict[str, Work] = {
                "tensor": partial(_ours, tensor, tables, words),
                "simple": partial(_ours, simple, _uniform(simple), words),
            }
            peers = {name: partial(_theirs, chart, tables, words) for name, chart in _charts().items()}
            if N * n > MOST_IN_LOGARITHMS:
                peers.pop("paper", None)
            times = race(works | peers, 1, seconds)
            row = [f"{N}, {P}, {R}", str(n)]
            row += [f"{BATCH / times[name].median:,.0f}" if name in times else "-" for name in COLUMNS]
            if peers:
                ratios = {name: times["tensor"].times_faster_than(times[name]) for name in peers}
                row += [f"{ratios[name]:.1f}" if name in ratios else "-" for name in COLUMNS[2:]]
                exact = tensor.log_partition(tables, words)
                off = max(float((work() - exact).abs().max() / exact.abs().max()) for work in peers.values())
                row.append(f"{off:.0e}")
            table.append(row)
            print(" | ".join(row), flush=True)
    return table


def _uniform(grammar: SimplePCFG) -> dict[str, Tensor]:
    return {name: torch.zeros(block.shape).log_softmax(-1) for name, block in grammar.blocks.items()}


def _ours(grammar: Any, tables: Mapping[str, Tensor], words: Tensor) -> Tensor:
    leaves = {name: table.detach().requires_grad_() for name, table in tables.items()}
    log_z: Tensor = grammar.log_partition(leaves, words)
    log_z.sum().backward()
    return log_z.detach()


def _theirs(chart: Any, tables: Mapping[str, Tensor], words: Tensor) -> Tensor:
    """The same by their chart, which has a copy of all weights for each sentence, and no sentences of one word."""
    leaves = {name: table.detach().requires_grad_() for name, table in tables.items()}
    B, N = len(words), len(leaves["rank"])
    rules = {"head": leaves["rank"], "left": leaves["left"].mT, "right": leaves["right"].mT}
    if type(chart).__name__ != "TDPCFG":  # in rank space rules are no logarithms
        rules = {name: table.exp() for name, table in rules.items()}
    rules = {name: table.expand(B, *table.shape) for name, table in rules.items()}
    rules["root"] = leaves["root"][:N].expand(B, N)
    rules["unary"] = leaves["emission"].mT[words]
    log_z: Tensor = chart._inside(rules=rules, lens=torch.full((B,), words.shape[1]))["partition"]
    log_z.sum().backward()
    return log_z.detach()


def _charts() -> dict[str, Any]:
    """Their charts, by name. Their code for GPUs is imported along with them, and not run."""
    if PEER is None:
        return {}
    sys.path.insert(0, PEER)
    before = {name: sys.modules.get(name) for name in _STAND_IN}
    sys.modules |= _STAND_IN
    try:
        charts: Any = importlib.import_module("parser.pcfgs.tdpcfg")
    finally:
        sys.path.remove(PEER)
        for name, module in before.items():
            del sys.modules[name]
            sys.modules |= {} if module is None else {name: module}
    return {"paper": charts.TDPCFG(), "fast": charts.Fastest_TDPCFG()}


def _without_triton() -> dict[str, ModuleType]:
    """A stand-in by which functions for GPUs can be defined."""
    triton, language = ModuleType("triton"), ModuleType("triton.language")
    triton.jit = lambda function: function  # type: ignore[attr-defined]
    triton.language, language.constexpr = language, int  # type: ignore[attr-defined]
    return {"triton": triton, "triton.language": language}


_STAND_IN = _without_triton()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison")
    torch.set_num_threads(1)
    rows(parser.parse_args().seconds)
