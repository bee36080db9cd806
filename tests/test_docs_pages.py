# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every block of code on these pages runs, from top to bottom in an empty folder, and holds what it asserts."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pyro
import pytest
import torch

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ["mathematics", "new-prior", "new-grammar", "many-starts", "resuming"]


@pytest.mark.parametrize("name", PAGES)
def test_blocks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / f"{name}.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # a reader's own
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    module = ModuleType("page")  # functions of a reader's program can be pickled, so these can
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks:
        exec(compile(block, str(page), "exec"), module.__dict__)
