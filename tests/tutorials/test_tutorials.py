# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every tutorial runs from top to bottom, in its small form (CI=true), and says nothing of who ran it."""

import json
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.ipynb"))


def test_there_are_tutorials() -> None:
    assert TUTORIALS


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook machinery, not of the notebook, which runs elsewhere
        import nbformat
        from nbclient import NotebookClient

        monkeypatch.setenv("CI", "true")
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_shipped_outputs_are_clean(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert outputs, "a reader should see the pictures without running the notebook"
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert str(ROOT) not in path.read_text(encoding="utf-8")
