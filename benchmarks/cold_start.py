# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From an empty cache of compiled code to the first iteration of EM and the first trees, in fresh processes.

Seconds of processor time, by the public path; imports are not counted. The second process finds the code of the first.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HEADER = ["", "empty cache", "filled cache"]
PROCESSES = 3


WORKS = {
    "DMV: an iteration of EM, MBR trees": ("harmonic", "mbr"),
    "dense grammar, 5 + 5 symbols: an iteration of EM, best trees": ("random", "argmax"),
    "HMM, 5 states: an iteration of EM, best states": ("random", "argmax"),
}


def prepared(name: str) -> Callable[[], object]:
    """Everything but the work itself: imports, and sentences."""
    import pyrogram
    from pyrogram.infer import EM
    from pyrogram.models import maximum_likelihood

    words = pyrogram.Corpus.builtin(num_sentences=200, max_length=10).words
    V = int(words.max()) + 1
    make = {"D": lambda: pyrogram.DMV(V), "d": lambda: pyrogram.CFG.dense(5, 5, V), "H": lambda: pyrogram.HMM(5, V)}
    grammar, (start, decoder) = make[name[0]](), WORKS[name]

    def work() -> object:
        loop = EM(lambda words: maximum_likelihood(words, grammar=grammar), initial_weights=start)
        loop.run(words, num_steps=1, progress=False)
        return getattr(grammar.derivation(loop.weights(), words), decoder)()

    return work


def rows() -> list[list[str]]:
    """Medians over processes."""
    table = []
    for name in WORKS:
        times: list[tuple[float, float]] = []
        for _ in range(PROCESSES):
            with tempfile.TemporaryDirectory() as folder:
                times.append((_seconds(name, folder), _seconds(name, folder)))
        empty, filled = (statistics.median(column) for column in zip(*times, strict=True))
        table.append([name, f"{empty:.2f} s", f"{filled:.2f} s"])
        print(" | ".join(table[-1]), flush=True)
    return table


def _seconds(name: str, cache: str) -> float:
    """Processor time of one process, without imports."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), name]
    environment = {**os.environ, "PYROGRAM_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


if __name__ == "__main__":
    work = prepared(sys.argv[1])
    before = time.process_time()
    work()
    print(time.process_time() - before)
