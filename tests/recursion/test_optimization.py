# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Machine code that is optimized, as users run it, and code that is not, as the fast stage runs it: the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enumeration import random_sentences
from pages import PAGES, Page

from pyrogram.recursion.run.program import Program


def results(page: Page, dtype: str) -> list[Any]:
    """Log Z, counts, draws, and the best three."""
    program = Program(page.make())
    given = random_sentences(page, program.recursion, [4, 1, 6, 2, 12, 3, 9, 9, 5], np.random.default_rng(0))
    given = replace(given, weights={name: table.astype(dtype) for name, table in given.weights.items()})
    trace = {w.name: (0, *[37**x for x in range(w.num_axes)]) for w in program.tables}
    found = [*program.log_counts(given), *program.draw(given, 3, 0, trace, 200)]
    found += program.best(given, 3, trace, 200)
    return [np.asarray(x) for one in found for x in (one.values() if isinstance(one, dict) else [one])]


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    ["projective", "pcfg_rules", *(pytest.param(x, marks=pytest.mark.slow) for x in ("dmv", "hmm", "semi_markov"))],
)
def test_optimization_changes_no_bit(name: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROGRAM_CACHE_DIR", str(tmp_path))
    (page,) = (x for x in PAGES if x.name == name)
    found, files = [], set[Path]()
    for value in ("0", "1"):
        monkeypatch.setenv("PYROGRAM_OPTIMIZE", value)
        found.append(results(page, dtype))
        made = {*tmp_path.iterdir()} - files
        assert made  # code of its own
        files |= made
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
