# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation on tilts: its programs run, and hold what they assert."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tilts.md"


def test_blocks() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
