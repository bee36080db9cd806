# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference for the DMV against iterations of EM, on the same sentences and in the same run."""

from __future__ import annotations

import argparse

import pyro
import torch
from em import corpora
from timing import race

from pyrogram import models
from pyrogram.grammars import DMV
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeGibbs, TreeHastings

HEADER = ["corpus", "", "ms per iteration or sweep", "times an iteration of EM"]


def collapsed(seconds: float) -> list[list[str]]:
    """Rows: milliseconds of one step of every inference on one thread, in float64."""
    torch.set_default_dtype(torch.float64)
    rows = []
    for name, corpus in corpora():
        pyro.clear_param_store()
        grammar = DMV(len(corpus.vocab))
        loops: dict[str, GrammarLoop] = {
            "EM": EM(models.maximum_likelihood),
            "CollapsedVB": CollapsedVB(models.dirichlet),
            "CollapsedVB, batch_size=1": CollapsedVB(models.dirichlet, batch_size=1),
            "CollapsedVB, shuffled": CollapsedVB(models.dirichlet, order="shuffled", seed=0),
            "TreeHastings": TreeHastings(models.dirichlet, seed=0),
            "TreeGibbs": TreeGibbs(models.dirichlet, seed=0),
        }
        works = {label: lambda loop=loop: loop.step(corpus.words, grammar) for label, loop in loops.items()}  # noqa: B023
        times = race(works, 1, seconds)
        for label, t in times.items():
            ratio = 1 / t.times_faster_than(times["EM"])
            rows.append([name, label, f"{1000 * t.median:.1f}", f"{ratio:.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each corpus")
    collapsed(parser.parse_args().seconds)
