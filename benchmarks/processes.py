# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""An iteration in one process and in two, and starts side by side: seconds by the clock, for processors are shared out.

Kinds take turns, and each runs in processes of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

WORDS, ROUNDS, STEPS = 1_000_000, 3, 4
HEADER = ["work", "processes", "threads of each", "s", "times one"]
KINDS = ((1, 1), (1, 2), (2, 1))  # processes, threads
STARTS = 4


def iteration(threads: int, num_words: int) -> float:
    """Median seconds of an iteration of variational Bayes, the first one left out."""
    import torch

    import pyrogram
    from pyrogram.infer import VariationalEM, all_reduce
    from pyrogram.models.dirichlet import dirichlet

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(threads)
    corpus = pyrogram.Corpus.builtin(4000, max_length=20)
    words = corpus.words.repeat(-(-num_words // corpus.num_words), 1)
    reduce = all_reduce()
    model = partial(dirichlet, grammar=pyrogram.DMV(len(corpus.vocab)))
    loop = VariationalEM(model, reduce=reduce if reduce.size > 1 else None)
    loop.step(words)
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        loop.step(words)
        times.append(time.perf_counter() - start)
    if reduce.rank == 0:
        print(statistics.median(times))
    return statistics.median(times)


def rows(num_words: int = WORDS, rounds: int = ROUNDS) -> list[list[str]]:
    """Medians over rounds; ratios of the same round."""
    times: dict[tuple[int, int], list[float]] = {kind: [] for kind in KINDS}
    jobs: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for processes, threads in KINDS:
            times[processes, threads].append(_of_processes(processes, threads, num_words))
        for number in jobs:
            jobs[number].append(_of_jobs(number, num_words // 20))
    table = []
    title = f"an iteration of VB, DMV, {num_words:,} words of sentences of at most 20"
    for (processes, threads), seconds in times.items():
        table.append([title, str(processes), str(threads), *_told(seconds, times[1, 1])])
    title = f"pyrogram induce --method vb --starts {STARTS}, {num_words // 20:,} words, from command to files"
    for number, seconds in jobs.items():
        table.append([title, f"--jobs {number}", "1", *_told(seconds, jobs[1])])
    for row in table:
        print(" | ".join(row), flush=True)
    return table


def _told(times: list[float], one: list[float]) -> list[str]:
    ratio = statistics.median(a / b for a, b in zip(one, times, strict=True))
    return [f"{statistics.median(times):.2f}", f"{ratio:.2f}"]


def _of_processes(processes: int, threads: int, num_words: int) -> float:
    command = [str(Path(__file__).resolve()), str(threads), str(num_words)]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, *torchrun, *command], check=True, capture_output=True, text=True, env=environment
    )
    return float(done.stdout.split()[-1])


def _of_jobs(jobs: int, num_words: int) -> float:
    import pyrogram

    corpus = pyrogram.Corpus.builtin(num_words // 9)
    with tempfile.TemporaryDirectory() as folder:
        treebank = Path(folder) / "treebank.conllu"
        corpus.to_conllu(treebank)
        options = ["--tags", "xpos", "--method", "vb", "--starts", str(STARTS), "--steps", "100", "--tolerance", "0"]
        command = [sys.executable, "-m", "pyrogram", "induce", str(treebank), *options, "--jobs", str(jobs)]
        start = time.perf_counter()
        subprocess.run([*command, "--out", str(Path(folder) / "run")], check=True, capture_output=True)
        return time.perf_counter() - start


if __name__ == "__main__":
    iteration(int(sys.argv[1]), int(sys.argv[2]))
