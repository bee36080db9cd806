# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of marginals, each engine in a process of its own: ``python benchmarks/memory.py pyrogram``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEADER = ["n", "scores", "pyrogram", "torch-struct", "supar"]
LENGTH = 40


def growth(name: str) -> float:
    """Megabytes by which the process's peak grows over what it had with libraries, code and scores loaded."""
    import torch
    from peers import ENGINES
    from trees import scores_of

    torch.set_num_threads(2)
    engine = ENGINES[name]()
    small = engine.prepare(scores_of(4, torch.float64)[:16])
    engine.log_z_and_gradient(small)  # compiled code is loaded, and is no part of the growth
    scores = engine.prepare(scores_of(LENGTH, torch.float64))
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _megabytes("VmRSS")
    engine.log_z_and_gradient(scores)
    return _megabytes("VmHWM") - before


def _megabytes(field: str) -> float:
    """Of this process. getrusage will not do: its peak includes that of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def row(batch: int = 512) -> list[str]:
    """One row of the table."""
    values = []
    for name in HEADER[2:]:
        command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), name]
        values.append(f"{float(subprocess.run(command, check=True, capture_output=True, text=True).stdout):,.0f} MB")
    return [str(LENGTH), f"{batch * (LENGTH + 1) ** 2 * 8 / 2**20:,.0f} MB", *values]


if __name__ == "__main__":
    print(growth(sys.argv[1]))
