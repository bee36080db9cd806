# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Checked loads and stores, in processes of their own: whether code is checked is settled when it is compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNEL = """
import numpy as np
from numba import njit
from pyrogram.runtime.bounds import guarded, room
from pyrogram.runtime.lanes import fill, gather_cells, load, scatter_cells, store

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


def run(code: str, tmp_path: Path, checks: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": checks, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


@pytest.mark.one_in(14)
@pytest.mark.parametrize(
    ("line", "arrange", "inside", "outside"),
    [
        ("store(array, i, fill(array, 1.0))", "", 15, 16),
        ("store(array, 0, load(array, i))", "", 15, 16),
        ("store(array, 0, load(array, i))", "", 0, -1),
        ("gather_cells(array, i, other, offsets, 0)", "", 8, 9),
        ("gather_cells(array, 0, other, offsets, i)", "", 0, 1),
        ("scatter_cells(array, 0, other, offsets, i)", "", 0, 1),
        ("scatter_cells(array, i, other, offsets, 0)", "offsets = offsets[::-1].copy()", 8, 9),
    ],
)
def test_an_access_beyond_an_array_is_an_error(
    line: str, arrange: str, inside: int, outside: int, tmp_path: Path
) -> None:
    done = run(KERNEL.format(line=line, arrange=arrange, inside=inside, outside=outside), tmp_path, "1")
    assert done.stdout == "inside\n" and "IndexError: compiled code loads or stores beyond" in done.stderr


TABLES = [
    ("store(array, i, fill(array, 1.0))", "float64", "3", "4"),
    ("store(array, i, fill(array, 1.0))", "float64", "room(4)", "room(4) - 1"),
    ("store(other, 0, load(array, i))", "float64", "3", "4"),
    ("store(other, 0, load(array, i))", "float64", "room(4) + 3", "room(4) + 4"),
    ("store(array, i, load(array, 0))", "float32", "3", "4"),
    ("store(array, 0, load(array, i))", "float32", "3", "4"),
    ("array[i] = 1.0", "float64", "31", "32"),
    ("array[i] += 1.0", "float32", "63", "64"),
    ("other[0] = array[i]", "float64", "31", "32"),
    ("gather_cells(other, 0, array, offsets, i)", "float64", "24", "25"),
    ("scatter_cells(other, 0, array, offsets, i)", "float64", "24", "25"),
]
# Two tables of four cells in one array: an index that leaves the first, or lies before the second.
TWO = """
array = guarded(np.zeros(2 * room(4) * 64 // np.dtype("{dtype}").itemsize, "{dtype}"), [0, room(4), 2 * room(4)])
other, offsets = np.zeros(64, "{dtype}"), np.zeros(8, np.int64)

@njit
def run(array, other, offsets, i):
    {line}

run(array, other, offsets, {inside})
try:
    run(array, other, offsets, {outside})
    print("unnoticed")
except IndexError as error:
    print(error)
"""


def test_an_access_beyond_a_table_is_an_error(tmp_path: Path) -> None:
    imports = KERNEL[: KERNEL.index("@njit")]
    names = "line", "dtype", "inside", "outside"
    code = imports + "".join(TWO.format(**dict(zip(names, case, strict=True))) for case in TABLES)
    done = run(code, tmp_path, "1")
    assert done.stdout.splitlines() == ["compiled code loads or stores beyond the bounds of a table"] * len(TABLES)


CHARTS = """
import json
import numpy as np
from pyrogram.logistic_normal import direction

made = {
    "gaussians": direction.make_cells(5, 4, 2, 3, True),
    "gaussians, diagonal": direction.make_cells(5, 4, 2, 3, False),
}
found = {}
for name, (memory, chart) in made.items():
    cells = memory.reshape(-1, 64 // memory.itemsize)
    zone = np.isnan(cells).all(1)
    assert (cells[~zone] == 0).all()
    found[name] = dict(chart._asdict()), zone.tolist()
print(json.dumps(found))
"""
NUMBERS = {"pitch", "plain", "multiroot", "S"}  # of charts, which are no places
UNDER = {"LO", "LCc", "RCc", "Bc", "IL", "JL"}  # lower triangles, which share a square with an upper one
UNDER |= {f"d{name}" for name in UNDER}


def test_red_zones_lie_between_the_tables_of_a_chart_and_nowhere_else(tmp_path: Path) -> None:
    bare, checked = (json.loads(run(CHARTS, tmp_path, checks).stdout) for checks in "01")
    for name, (chart, zone) in checked.items():
        without, none = bare[name]
        assert not any(none) and len(none) == len(zone) - sum(zone), name
        check_places(chart, without, zone)


def check_places(chart: dict[str, Any], without: dict[str, Any], zone: list[bool]) -> None:
    """Without its zones a chart is the one that is not checked; all tables end in one, and begin behind one."""
    assert zone[-1]
    for table, place in chart.items():
        if table in NUMBERS:
            assert place == without[table]
            continue
        assert place - sum(zone[:place]) == without[table], table
        assert table == "end" or not zone[place], table
        if without[table] > 0 and table not in UNDER:
            assert zone[place - 1], table
