# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation on evidence: its programs run, one after the other, and hold what they assert."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence.md"


def test_blocks() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    exec(compile("".join(blocks), str(PAGE), "exec"), {})
