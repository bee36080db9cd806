# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Checked loads and stores, in processes of their own: whether code is checked is settled when it is compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
import numpy as np
from numba import njit
from pyrogram.charts.runtime.lanes import fill, gather_cells, load, scatter_cells, store
from pyrogram.charts.runtime.lanes_memory import peek, poke

@njit
def run(array, other, offsets, i):
    {line}

array, other, offsets = np.zeros(16 * 8), np.zeros(64), np.arange(8) * 8
{arrange}
run(array, other, offsets, {inside})
print("inside")
run(array, other, offsets, {outside})
print("unnoticed")
"""


@pytest.mark.parametrize(
    ("line", "arrange", "inside", "outside"),
    [
        ("store(array, i, fill(array, 1.0))", "", 15, 16),
        ("store(array, 0, load(array, i))", "", 15, 16),
        ("store(array, 0, load(array, i))", "", 0, -1),
        ("poke(array, i, 1.0)", "", 127, 128),
        ("poke(array, 0, peek(array, i))", "", 127, -1),
        ("gather_cells(array, i, other, offsets, 0)", "", 8, 9),
        ("gather_cells(array, 0, other, offsets, i)", "", 0, 1),
        ("scatter_cells(array, 0, other, offsets, i)", "", 0, 1),
        ("scatter_cells(array, i, other, offsets, 0)", "offsets = offsets[::-1].copy()", 8, 9),
    ],
)
def test_an_access_beyond_an_array_is_an_error(
    line: str, arrange: str, inside: int, outside: int, tmp_path: Path
) -> None:
    code = KERNEL.format(line=line, arrange=arrange, inside=inside, outside=outside)
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "inside\n" and "IndexError: compiled code loads or stores beyond" in done.stderr
