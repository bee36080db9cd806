# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U beside a loop that only splits its lines, and beside an earlier commit.

``python3 benchmarks/reading_ratio.py [FILE] [--before COMMIT]``; without FILE, 25,000 sentences are made up. Each code
runs in a process of its own. Loop and reader take turns there, and so do the processes. Medians over the rounds are of
processor time of all threads, and of the clock. Commits up to 789e12d need polars to be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from before import ROOT, earlier
from reading import write

TOKENS = 190_000  # of 25,000 sentences


def split(path: str) -> None:
    """The columns of every row, which are forgotten."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line != "\n" and line[0] != "#":
                line.split("\t")


def main() -> None:
    """Print a row of medians for each code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--before", action="append", default=[], help="a commit; may be given several times")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    codes = {commit: earlier(commit) for commit in options.before} | {"now": ROOT}
    with contextlib.ExitStack() as stack:
        path = options.file or stack.enter_context(tempfile.TemporaryDirectory()) + "/c.conllu"
        if not options.file:
            write(Path(path), TOKENS, "CoNLL-U")
        workers = {name: stack.enter_context(_worker(folder, os.path.abspath(path))) for name, folder in codes.items()}
        rounds: dict[str, list[list[float]]] = {name: [] for name in codes}
        for _ in range(options.rounds):
            for name, worker in workers.items():
                rounds[name].append(_ask(worker))
        for worker in workers.values():
            assert worker.stdin is not None
            worker.stdin.close()
    print("code | split loop, ms | reader, ms | ratio, processor time | ratio, clock")
    for name, rows in rounds.items():
        loop, reader = (1000 * statistics.median(row[i] for row in rows) for i in (0, 1))
        ratios = [statistics.median(row[i + 1] / row[i] for row in rows) for i in (0, 2)]
        print(f"{name} | {loop:.0f} | {reader:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f}")


def _worker(folder: Path, path: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", f"import reading_ratio; reading_ratio._serve({path!r})"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "benchmarks")])}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _ask(worker: subprocess.Popen[str]) -> list[float]:
    assert worker.stdin is not None and worker.stdout is not None
    print(file=worker.stdin, flush=True)
    return [float(number) for number in worker.stdout.readline().split()]


def _serve(path: str) -> None:
    """Answer each line with seconds of processor time of loop and reader, and those of the clock."""
    from pyrogram.data import Corpus

    Corpus.from_conllu(path)  # libraries are loaded
    for _ in sys.stdin:
        seconds: list[tuple[float, float]] = []
        for read in (split, Corpus.from_conllu):
            start = time.process_time(), time.perf_counter()
            read(path)
            seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
        print(*(number for pair in zip(*seconds, strict=True) for number in pair), flush=True)


if __name__ == "__main__":
    main()
