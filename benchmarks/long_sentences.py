# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of up to a thousand words: processor time of one sentence, and peak memory.

Each cell is a process of its own: ``python benchmarks/long_sentences.py trees marginals 1000``. Times over n cubed show
whether anything grows faster. Iterations of loops over one such sentence:
``python benchmarks/long_sentences.py loops Hastings 1000``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from memory import _megabytes

from pyrogram import DMV
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

LENGTHS = (10, 20, 40, 100, 200, 500, 1000)
LONG = (128, 250, 500, 1000)  # of loops over one
USES: dict[str, Callable[[Any], object]] = {
    "log Z": lambda trees: trees.log_partition,
    "marginals": lambda trees: trees.marginals(),
    "MBR": lambda trees: trees.mbr(),
    "Viterbi": lambda trees: trees.argmax(),
    "a draw": lambda trees: trees.sample(),
    "10 best": lambda trees: trees.top_k(10),
}
HEADER = ["", "n", *USES]
TAGS = 17
LOOPS = {"EM": EM, "VB": VariationalEM, "collapsed VB": CollapsedVB, "Hastings": TreeHastings, "Gibbs": TreeGibbs}
LOOP_HEADER = ["n", *LOOPS]


def distribution(kind: str, n: int, batch: int) -> Callable[[], Any]:
    """A function that makes it anew: distributions keep what they have found."""
    generator = torch.Generator().manual_seed(0)
    if kind == "trees":
        scores = torch.randn(batch, n + 1, n + 1, generator=generator, dtype=torch.float64)
        return lambda: ProjectiveDependencyTree(scores, valence=False)
    grammar = DMV(TAGS)
    start = grammar.initial_weights(torch.zeros(1, 1).long(), "random", seed=0)
    weights = {name: w.double() for name, w in start.items()}
    words = torch.randint(TAGS, (batch, n), generator=generator)
    return lambda: grammar.derivation(weights, words)


def measure(kind: str, use: str, n: int) -> str:
    """Seconds of processor time for one sentence, and megabytes of the process beyond scores and code."""
    batch = 64 if n <= 40 else 8 if n <= 200 else 1
    run, small = USES[use], distribution(kind, 12, batch)
    run(small())
    make = distribution(kind, n, batch)
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    seconds = []
    for _ in range(3):
        start = time.process_time()
        run(make())
        seconds.append((time.process_time() - start) / batch)
    return f"{statistics.median(seconds)} {_megabytes('VmHWM') - before}"


def measure_loop(method: str, n: int) -> str:
    """The same of an iteration of a DMV over one sentence: the median of three after the first."""
    torch.set_default_dtype(torch.float64)
    grammar, generator = DMV(TAGS), torch.Generator().manual_seed(0)
    small, words = (torch.randint(TAGS, (1, length), generator=generator) for length in (12, n))
    start = grammar.initial_weights(words, "harmonic")
    options: dict[str, Any] = {"initial_weights": start} if method == "EM" else {"concentration": 0.1}
    model = partial(maximum_likelihood if method == "EM" else dirichlet, grammar=grammar, **options)
    LOOPS[method](model, initial_weights=start).step(small)
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    loop, seconds = LOOPS[method](model, initial_weights=start), []
    for _ in range(4):
        begin = time.process_time()
        loop.step(words)
        seconds.append(time.process_time() - begin)
    return f"{statistics.median(seconds[1:])} {_megabytes('VmHWM') - before}"


def loop_rows(lengths: tuple[int, ...] = LONG) -> list[list[str]]:
    """By length: time and memory of an iteration of each loop."""
    return [[f"{n:,}", *(_cell(_told("loops", method, n)) for method in LOOPS)] for n in lengths]


def _told(*arguments: object) -> tuple[float, float]:
    """Seconds and megabytes, as a process of its own prints them."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), *map(str, arguments)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[0]), float(told[1])


def _cell(told: tuple[float, float]) -> str:
    return f"{_time(told[0])}, {told[1]:,.0f} MB"


def rows(lengths: tuple[int, ...] = LENGTHS) -> list[list[str]]:
    """By kind of tree and length: time, time over n^3, memory."""
    table = []
    for kind in ("trees", "DMV"):
        for n in lengths:
            row = [kind, f"{n:,}"]
            for use in USES:
                if use == "10 best" and n > 200:
                    row.append("-")
                    continue
                seconds, peak = _told(kind, use, n)
                row.append(f"{_time(seconds)}, {seconds / n**3 * 1e9:.2g} ns/n³, {peak:,.0f} MB")
            table.append(row)
            print(" | ".join(row), flush=True)
    return table


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["loops"]:
        print(measure_loop(sys.argv[2], int(sys.argv[3])))
    elif len(sys.argv) > 1:
        print(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        rows()
