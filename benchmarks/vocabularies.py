# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lexicalised dependency models of large vocabularies: seconds per iteration and peak memory.

Words are drawn by a law of Zipf and Mandelbrot, one by one: text has fewer pairs of words than that. Each cell is a
process of its own: ``python benchmarks/vocabularies.py sparse VB 50000 1000000``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from memory import _megabytes
from torch import Tensor

from pyrogram import DMV
from pyrogram.grammars import SparseDMV
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

METHODS = {"EM": EM, "VB": VariationalEM, "collapsed VB": CollapsedVB, "Hastings": TreeHastings, "Gibbs": TreeGibbs}
SIZES = [("dense", 2_000, 100_000), ("sparse", 2_000, 100_000), ("sparse", 50_000, 1_000_000)]
QUICK = [("dense", 200, 5_000), ("sparse", 200, 5_000)]
HEADER = ["grammar", "types", "words", "attachments", *METHODS]
MEAN_LENGTH, LONGEST, STEPS = 20, 60, 3


def sentences(num_types: int, num_words: int) -> Tensor:
    """Sentences of types 0 .. num_types - 1, each of which occurs."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.poisson(torch.full((num_words // MEAN_LENGTH,), MEAN_LENGTH * 1.0), generator=generator).long()
    lengths = lengths.clamp(1, LONGEST)
    law = 1 / (torch.arange(num_types, dtype=torch.float64) + 3.7)
    drawn = torch.searchsorted(law.cumsum(0) / law.sum(), torch.rand(int(lengths.sum()), generator=generator).double())
    drawn = drawn.clamp(max=num_types - 1)
    where = torch.randperm(len(drawn), generator=generator)[:num_types]
    drawn[where] = torch.arange(num_types)
    words = torch.full((len(lengths), int(lengths.max())), -1)
    words[torch.arange(words.shape[1]) < lengths[:, None]] = drawn
    return words


def measure(kind: str, method: str, num_types: int, num_words: int) -> str:
    """Seconds of the last iterations, megabytes of the process beyond the sentences, attachments, the objective."""
    torch.set_default_dtype(torch.float64)
    words = sentences(num_types, num_words)
    warm_up = words[:64, :8].contiguous() % num_types
    _loop(method, DMV(num_types) if kind == "dense" else SparseDMV.of(warm_up, num_types)).step(warm_up)
    pyro.clear_param_store()
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    start = time.process_time()
    grammar = DMV(num_types) if kind == "dense" else SparseDMV.of(words, num_types)
    loop = _loop(method, grammar, grammar.initial_weights(words, "harmonic"))
    ready, seconds = time.process_time() - start, []
    for _ in range(STEPS):
        start = time.process_time()
        objective = float(loop.step(words))
        seconds.append(time.process_time() - start)
    attachments = grammar.blocks["attach"].shape.numel()
    peak = _megabytes("VmHWM") - before
    return f"{statistics.median(seconds[1:])} {peak} {attachments} {objective} {ready} {seconds[0]}"


def _loop(method: str, grammar: DMV, start: Any = None) -> Any:
    if method == "EM":
        return EM(partial(maximum_likelihood, grammar=grammar, initial_weights=start), initial_weights=start)
    options: dict[str, Any] = {"seed": 0, "keep_parts": False} if method in ("Hastings", "Gibbs") else {}
    model = partial(dirichlet, grammar=grammar, concentration=0.01)
    return METHODS[method](model, initial_weights=start, **options)


def rows(sizes: list[tuple[str, int, int]]) -> list[list[str]]:
    """One for each grammar; where dense and sparse ones are of one size, their objectives are compared."""
    table, objectives = [], dict[Any, float]()
    for kind, num_types, num_words in sizes:
        row = [kind, f"{num_types:,}", f"{num_words:,}", ""]
        for method in METHODS:
            command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), kind, method, str(num_types)]
            told = subprocess.run([*command, str(num_words)], check=True, capture_output=True, text=True).stdout.split()
            seconds, peak, attachments, objective = map(float, told[:4])
            row[3] = f"{attachments:,.0f}"
            row.append(f"{seconds:.2f} s, {peak:,.0f} MB")
            other = objectives.setdefault((method, num_types, num_words), objective)
            draws = method in ("Gibbs", "Hastings")  # dense and sparse ones in another order
            if not draws and abs(other - objective) > 1e-9 * abs(other):
                sys.exit(f"{method} of {num_types} types: the objective is {objective}, and that of the other {other}")
            print(kind, method, num_types, num_words, *told, flush=True)
        table.append(row)
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        for row in rows(SIZES):
            print(" | ".join(row))
