# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every notebook runs from top to bottom, and the checks of its exercises can tell.

In its small form (CI=true), where some claims about corpora are not checked, and in its whole form; in the fast stage
the first notebook alone, in its small form.

A notebook has five exercises: a code cell tagged ``exercise-k``, shipped unanswered, and one tagged
``check-k``. In one run of the notebook every check sees the cell as shipped, then a wrong answer (``wrong/``), which it
must refuse, then the solution (``tutorials/solutions/``), which it must accept.
"""

import ast
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.ipynb"))
EXERCISES = [1, 2, 3, 4, 5]


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def tagged(cells: list[dict[str, Any]], kind: str) -> dict[int, dict[str, Any]]:
    """The cells tagged ``kind-1``, ``kind-2``, ..., by number, each of which there is once."""
    found = {}
    for cell in cells:
        for tag in cell["metadata"].get("tags", []):
            if tag.startswith(f"{kind}-"):
                number = int(tag.removeprefix(f"{kind}-"))
                assert number not in found, f"two cells are tagged {tag}"
                found[number] = cell
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def percent_cells(path: Path) -> dict[int, str]:
    """The cells of a script in percent format that are headed ``# %% exercise-k``, by number."""
    parts = re.split(r"^# %% exercise-(\d+)[^\n]*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


all_notebooks = pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)


def test_there_are_nine() -> None:
    assert [path.name[:2] for path in TUTORIALS] == [f"0{number}" for number in range(1, 10)]


Checks = dict[int, tuple[Any, Any, Any]]


def with_answers(path: Path, wrong: dict[int, str], right: dict[int, str]) -> tuple[Any, Checks]:
    """A notebook with every check three times: unanswered, answered wrong, answered right."""
    from nbformat import read
    from nbformat.v4 import new_code_cell

    notebook = read(path, as_version=4)
    checks, cells = {}, []
    for cell in notebook.cells:
        cells.append(cell)
        for number in tagged([cell], "check"):
            refused = new_code_cell(cell.source, metadata={"tags": ["raises-exception"]})
            accepted = new_code_cell(cell.source)
            cells += [new_code_cell(wrong[number]), refused, new_code_cell(right[number]), accepted]
            checks[number] = (cell, refused, accepted)
    notebook.cells = cells
    return notebook, checks


def execute(notebook: Any, folder: Path) -> None:
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()


def execute_here(notebook: Any) -> None:
    """Without a process of its own, whose imports take seconds; pictures are drawn, and left out of the outputs."""
    import matplotlib.pyplot as plt
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from nbformat.v4 import new_output

    def show() -> None:
        for number in plt.get_fignums():
            plt.figure(number).savefig(io.BytesIO())
        plt.close("all")

    shell, threads = InteractiveShell(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch, plt.rc_context({"backend": "agg"}):
        patch.setattr(plt, "show", show)
        try:
            for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
                with capture_output(display=True) as captured:
                    result = shell.run_cell(cell.source)
                error, cell.outputs = result.error_before_exec or result.error_in_exec, []
                # A traceback is printed, too.
                if error is not None:
                    assert "raises-exception" in cell.metadata.get("tags", []), captured.stdout
                    cell.outputs = [new_output("error", ename=type(error).__name__, evalue=str(error))]
                    continue
                for name in ("stdout", "stderr"):
                    if text := getattr(captured, name):
                        cell.outputs.append(new_output("stream", name=name, text=text))
        finally:
            torch.set_num_threads(threads)
            plt.close("all")


def printed(cell: Any) -> str:
    return "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")


def answers_of(path: Path) -> tuple[dict[int, str], dict[int, str]]:
    """Wrong ones and right ones."""
    wrong = percent_cells(Path(__file__).parent / "wrong" / f"{path.stem}.py")
    right = percent_cells(path.parent / "solutions" / f"{path.stem}.py")
    assert sorted(wrong) == sorted(right) == EXERCISES
    return wrong, right


def check_outputs(notebook: Any, checks: Checks) -> None:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]
    for number, (shipped, refused, accepted) in checks.items():
        assert printed(shipped) == f"Exercise {number}: not answered yet.\n"
        errors = [output for output in refused.outputs if output["output_type"] == "error"]
        assert errors, f"the check of exercise {number} accepts a wrong answer"
        assert errors[0]["ename"] == "AssertionError", errors[0]["evalue"]
        assert len(errors[0]["evalue"].split()) > 3, f"the check of exercise {number} does not say what is wrong"
        assert printed(accepted) == f"Exercise {number}: right.\n"


@pytest.mark.slow
@all_notebooks
@pytest.mark.parametrize("form", ["small", "whole"])
def test_runs(form: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    if form == "small":
        monkeypatch.setenv("CI", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook machinery, not of the notebook, which runs elsewhere
        notebook, checks = with_answers(path, *answers_of(path))
        execute(notebook, path.parent)
    check_outputs(notebook, checks)


def test_the_first_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="IPython|traitlets|nbformat|matplotlib")
        notebook, checks = with_answers(TUTORIALS[0], *answers_of(TUTORIALS[0]))
        execute_here(notebook)
    check_outputs(notebook, checks)


@all_notebooks
def test_shipped_outputs_are_clean(path: Path) -> None:
    outputs = [output for cell in cells_of(path) for output in cell.get("outputs", [])]
    assert outputs, "a reader should see the pictures without running the notebook"
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert str(ROOT) not in path.read_text(encoding="utf-8")
    assert path.stat().st_size < 500_000


@all_notebooks
def test_five_exercises(path: Path) -> None:
    cells = cells_of(path)
    exercises, checks = tagged(cells, "exercise"), tagged(cells, "check")
    assert list(exercises) == list(checks) == EXERCISES
    for number in EXERCISES:
        at = cells.index(exercises[number])
        assert source(cells[at - 1]).startswith(f"### Exercise {number}. "), source(cells[at - 1])
        assert cells.index(checks[number]) == at + 1
        shown = "".join(output["text"][0] for output in checks[number]["outputs"])
        assert shown == f"Exercise {number}: not answered yet.\n", "the notebook is shipped unanswered"


@all_notebooks
def test_no_cell_needs_an_answer(path: Path) -> None:
    cells = cells_of(path)
    own = [*tagged(cells, "exercise").values(), *tagged(cells, "check").values()]
    answers = {f"answer_{number}" for number in EXERCISES}
    for cell in tagged(cells, "exercise").values():
        for statement in ast.parse(source(cell)).body:
            answers |= {statement.name} if isinstance(statement, ast.FunctionDef) else set()
    for cell in cells:
        if cell["cell_type"] == "code" and cell not in own:
            text = re.sub(r"^[%!].*$", "", source(cell), flags=re.MULTILINE)
            used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            assert not used & answers, source(cell)


@all_notebooks
def test_headings_and_slides(path: Path) -> None:
    cells = cells_of(path)
    text = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    assert text.startswith("# ")
    assert "You will be able to" in text
    assert "## History and references" in text
    assert "%pip install pyro-grammar" in next(source(cell) for cell in cells if cell["cell_type"] == "code")
    kinds = [cell["metadata"].get("slideshow", {}).get("slide_type", "") for cell in cells]
    assert kinds[0] == "slide"
    assert 10 <= sum(kind in ("slide", "subslide") for kind in kinds) <= 25
    for cell in tagged(cells, "check").values():
        assert cell["metadata"]["slideshow"]["slide_type"] == "skip"


def test_a_deck_is_made() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook machinery
        from nbconvert import SlidesExporter

        deck, _ = SlidesExporter().from_filename(str(TUTORIALS[0]))
    kinds = [cell["metadata"].get("slideshow", {}).get("slide_type") for cell in cells_of(TUTORIALS[0])]
    assert deck.count("<section") == 2 * kinds.count("slide") + kinds.count("subslide")
