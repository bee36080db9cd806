# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every block of code on docs/structures.md runs."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "structures.md"


def test_the_page() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert round(float(names["cuts"].log_partition.exp())) == 81
