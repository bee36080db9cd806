# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Chains and context-free grammars: one long sentence in eight lanes, seven of which are empty, and alone.

Times in turns, in one process: ``python benchmarks/alone.py``. Peak memory, each in a process of its own:
``python benchmarks/alone.py "HMM, 10 states" 500 lanes``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from memory import _megabytes
from timing import race

from pyrogram import CFG, HMM
from pyrogram.recursion.run.engine import LanesEngine

WORDS = 50
HEADER = ["grammar", "n", "log Z", "counts", "best", "a draw", "counts, memory", "2 sentences", "8", "64, mixed"]


def _listed(symbols: int) -> CFG:
    """Three rules for each symbol, and every word."""
    draw, names = random.Random(0), [f"N{x}" for x in range(symbols)]
    rules = [(a, (draw.choice(names), draw.choice(names))) for a in names for _ in range(3)]
    lexical = [(a, (str(w),)) for a in names for w in range(WORDS)]
    return CFG(list(dict.fromkeys([*rules, *lexical])))


GRAMMARS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "HMM, 10 states": (lambda: HMM(10, WORDS), (128, 500, 1000, 5000)),
    "HMM, 50 states": (lambda: HMM(50, WORDS), (128, 500, 1000, 5000)),
    "CFG, 10 + 10, dense": (lambda: CFG.dense(10, 10, WORDS), (40, 80, 160)),
    "CFG, 20, 60 rules": (lambda: _listed(20), (40, 80, 160)),
}


@contextmanager
def in_lanes() -> Any:
    """No sentence is alone."""
    most = LanesEngine.most_alone
    LanesEngine.most_alone = 0.0
    try:
        yield
    finally:
        LanesEngine.most_alone = most


def uses(grammar: Any, lengths: list[int]) -> dict[str, Callable[[], object]]:
    """All that is done with sentences of some lengths."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(WORDS, (len(lengths), max(lengths)), generator=generator)
    words[torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]] = -1
    weights = grammar.initial_weights(words[:1, :4], "random", seed=0)
    logs = {name: w.log().double() for name, w in weights.items()}
    derivation = partial(grammar.derivation, {name: w.exp() for name, w in logs.items()}, words)
    return {
        "log Z": lambda: derivation().log_partition,
        "counts": lambda: grammar.expected_counts(logs, words),
        "best": lambda: derivation().argmax(),
        "a draw": lambda: derivation().sample(),
    }


def compared(work: Callable[[], object], seconds: float) -> str:
    """Times in lanes and alone, in turns, and how many times as fast the second one is."""

    def lanes() -> None:
        with in_lanes():
            work()

    times = race({"lanes": lanes, "alone": work}, 1, seconds)
    both = [f"{1e3 * t.median:.3g}" for t in times.values()]
    return f"{' → '.join(both)} ms, {times['alone'].times_faster_than(times['lanes']):.1f}"


def peak(name: str, n: int, way: str) -> float:
    """Megabytes of an E-step over one sentence, beyond code and weights."""
    grammar = GRAMMARS[name][0]()
    small, work = uses(grammar, [5])["counts"], uses(grammar, [n])["counts"]
    small()
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    if way == "lanes":
        with in_lanes():
            work()
    else:
        work()
    return _megabytes("VmHWM") - before


def rows(seconds: float = 1.0) -> list[list[str]]:
    """By grammar and length: one sentence, and counts of two, eight, and 64 of all lengths."""
    table = []
    for name, (make, lengths) in GRAMMARS.items():
        grammar = make()
        for n in lengths:
            row = [name, f"{n:,}", *(compared(work, seconds) for work in uses(grammar, [n]).values())]
            command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), name, str(n)]
            peaks = [subprocess.run([*command, way], check=True, capture_output=True, text=True).stdout
                     for way in ("lanes", "alone")]  # fmt: skip
            row.append(f"{' → '.join(f'{float(x):.0f}' for x in peaks)} MB")
            mixed = [max(1, n * (x + 1) // 64) for x in range(64)]
            row += [compared(uses(grammar, group)["counts"], seconds) for group in ([n] * 2, [n] * 8, mixed)]
            table.append(row)
            print(" | ".join(row), flush=True)
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(peak(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    else:
        rows()
