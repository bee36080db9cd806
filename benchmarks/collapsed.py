# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference against iterations of EM, on the same sentences and in the same run."""

from __future__ import annotations

import argparse

import pyro
import torch
from em import corpora
from timing import race

from pyrogram import models
from pyrogram.grammars import CFG, DMV
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeGibbs, TreeHastings

SENTENCES, WORDS = 512, 50
HEADER = ["corpus", "", "ms per iteration or sweep", "times an iteration of EM"]

CFG_HEADER = ["grammar", "rules", "", "sentences/s", "times an iteration of EM"]


def collapsed(seconds: float) -> list[list[str]]:
    """Rows: milliseconds of one step of every inference on one thread, in float64."""
    torch.set_default_dtype(torch.float64)
    rows = []
    for name, corpus in corpora():
        pyro.clear_param_store()
        grammar = DMV(len(corpus.vocab))
        loops: dict[str, GrammarLoop] = {
            "EM": EM(models.maximum_likelihood),
            "CollapsedVB": CollapsedVB(models.dirichlet.dirichlet),
            "CollapsedVB, batch_size=1": CollapsedVB(models.dirichlet.dirichlet, batch_size=1),
            "CollapsedVB, shuffled": CollapsedVB(models.dirichlet.dirichlet, order="shuffled", seed=0),
            "TreeHastings": TreeHastings(models.dirichlet.dirichlet, seed=0),
            "TreeGibbs": TreeGibbs(models.dirichlet.dirichlet, seed=0),
        }
        works = {label: lambda loop=loop: loop.step(corpus.words, grammar) for label, loop in loops.items()}  # noqa: B023
        times = race(works, 1, seconds)
        for label, t in times.items():
            ratio = 1 / t.times_faster_than(times["EM"])
            rows.append([name, label, f"{1000 * t.median:.1f}", f"{ratio:.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


def grammars(seconds: float) -> list[list[str]]:
    """Rows: one step of every inference for dense context-free grammars, sentences of ten words, on one thread."""
    torch.set_default_dtype(torch.float64)
    rows = []
    for size in (5, 10):
        pyro.clear_param_store()
        grammar = CFG.dense(size, size, WORDS)
        words = torch.randint(WORDS, (SENTENCES, 10), generator=torch.Generator().manual_seed(1))
        loops: dict[str, GrammarLoop] = {
            "EM": EM(models.maximum_likelihood),
            "CollapsedVB": CollapsedVB(models.dirichlet.dirichlet),
            "CollapsedVB, batch_size=1": CollapsedVB(models.dirichlet.dirichlet, batch_size=1),
            "TreeHastings": TreeHastings(models.dirichlet.dirichlet, seed=0, keep_parts=False),
            "TreeHastings, batch_size=1": TreeHastings(
                models.dirichlet.dirichlet, seed=0, keep_parts=False, batch_size=1
            ),
        }
        works = {label: lambda loop=loop: loop.step(words, grammar) for label, loop in loops.items()}  # noqa: B023
        times = race(works, 1, seconds)
        for label, t in times.items():
            rate, ratio = float(f"{SENTENCES / t.median:.3g}"), 1 / t.times_faster_than(times["EM"])
            kind = [f"{size} + {size}, dense", f"{len(grammar.rules):,}"]
            rows.append([*kind, label, f"{rate:,.0f}", f"{ratio:.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each corpus or grammar")
    seconds = parser.parse_args().seconds
    collapsed(seconds)
    grammars(seconds)
