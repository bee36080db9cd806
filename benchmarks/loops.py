# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Milliseconds of a step of inference on corpora of usual sizes, now and at an earlier commit.

``python3 benchmarks/loops.py [--before 789e12d]`` runs both in turn, on one thread, and prints markdown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from before import ROOT, earlier, served

from pyrogram import CFG, DMV, HMM
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models.dirichlet import dirichlet

SECONDS = 1.0  # of each loop
ROUNDS = 3
#: By title: a grammar, and how many sentences of how many words.
CORPORA: dict[str, tuple[Callable[[], Any], int, int]] = {
    "DMV of 10 tags, 100 sentences": (lambda: DMV(10), 100, 8),
    "DMV of 40 tags, 8,000 sentences": (lambda: DMV(40), 8000, 12),
    "HMM of 10 states and 1,000 words, 2,000 sentences": (lambda: HMM(10, 1000), 2000, 20),
    "HMM of 30 states and 5,000 words, 500 sentences": (lambda: HMM(30, 5000), 500, 20),
    "CFG of 5 + 5 symbols, 1,000 sentences": (lambda: CFG.dense(5, 5, 50), 1000, 10),
}
LOOPS: dict[str, Callable[[], Any]] = {
    "EM": lambda: EM(dirichlet, initial_weights="random"),
    "VariationalEM": lambda: VariationalEM(dirichlet, initial_weights="random"),
    "CollapsedVB": lambda: CollapsedVB(dirichlet, initial_weights="random"),
    "TreeHastings": lambda: TreeHastings(dirichlet, initial_weights="random", seed=0),
    "TreeGibbs": lambda: TreeGibbs(dirichlet, initial_weights="random", seed=0),
}


def steps() -> dict[str, float]:
    """The median of each loop on each corpus, in ms of the process."""
    torch.set_num_threads(1)
    medians, generator = {}, torch.Generator().manual_seed(0)
    for corpus, (make, count, length) in CORPORA.items():
        grammar = make()
        words = torch.randint(grammar.num_words, (count, length), generator=generator)
        for name, loop in LOOPS.items():
            torch.manual_seed(0)
            fitted, alpha, times = loop(), 1.5 if name == "EM" else 0.5, list[float]()
            for _ in range(2):
                fitted.step(words, grammar, concentration=alpha)
            end = time.monotonic() + SECONDS
            while time.monotonic() < end or len(times) < 5:
                start = time.process_time()
                fitted.step(words, grammar, concentration=alpha)
                times.append(time.process_time() - start)
            medians[f"{corpus} | {name}"] = 1e3 * statistics.median(times)
    return medians


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--before", default="789e12d")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        print(json.dumps(steps()))
        return
    folders = [earlier(chosen.before), ROOT]
    answers: list[list[dict[str, float]]] = [[], []]
    for _ in range(ROUNDS):
        for folder, found in zip(folders, answers, strict=True):
            found.append(served(__file__, folder))
    print("| corpus | loop | ms before | now | times as fast |\n" + "|---" * 5 + "|")
    for case in answers[1][0]:
        before, now = (statistics.median(answer[case] for answer in found) for found in answers)
        print(f"| {case} | {before:.2f} | {now:.2f} | {before / now:.2f} |")


if __name__ == "__main__":
    main()
