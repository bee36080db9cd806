# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a cached kernel depends on."""

from pathlib import Path

import pyrogram
from pyrogram.charts.runtime.compiling import sources

PACKAGE = Path(pyrogram.__file__).parent


def names(path: str) -> set[str]:
    return {source.name for source in sources(PACKAGE / path)}


def test_a_kernel_depends_on_what_its_file_imports_directly_or_not():
    own = names("charts/dmv_numba.py")
    assert {"dmv_numba.py", "eisner_lanes.py", "eisner_outside.py", "lanes.py", "projective_numba.py"} <= own
    assert {"dmv_rows.py", "dmv_sample.py"}.isdisjoint(own)


def test_absolute_imports_count_as_well():
    assert {"newton.py", "lane_algebra.py", "newton_direction.py", "lanes.py"} <= names("infer/newton_blocks.py")
