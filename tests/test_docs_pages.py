# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What pages say is so: their code runs, from top to bottom in an empty folder, and the files that they name are there.

Docstrings and comments name files, too.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyro
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDERS = ["benchmarks", "docs", "examples", "guides", "models", "pyrogram", "reproductions", "tests", "tutorials"]
# A file, with or without its folders; a folder in quotes; a page with its folders, for runs write pages, too.
_NAMED = re.compile(
    r"(?<![\w./{}*<-])(?:\.\./)*((?:[\w-][\w.-]*/)*[\w-]+\.(?:py|ipynb|html|toml)|(?:[\w-][\w.-]*/)+[\w-]+\.md)(?![\w/])"
    r"|`((?:[\w-][\w.-]*/)+)`"
)
_PLACEHOLDER = re.compile("NN|NAME")
PAGES = ["mathematics", "new-prior", "new-grammar", "many-starts", "resuming"]


@pytest.mark.one_in(8)
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


def sources() -> list[Path]:
    """The files of the repository, but not what is built or learnt in it."""
    found = [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml")]
    return found + [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.is_file()]


def missing(text: str, places: str) -> Iterator[str]:
    """The files and folders that a text names and that are not there.

    :param places: all paths that are, each after a slash, and a line each.
    """
    for found in _NAMED.finditer(text):
        file, folder = found.groups()
        where = f"/{file}\n" if file else f"/{folder}"
        if where not in places and not _PLACEHOLDER.search(where):
            yield file or folder


def test_files_that_texts_name_are_there() -> None:
    paths = sources()
    places = "".join(f"/{path.relative_to(ROOT).as_posix()}\n" for path in paths)
    lost = [
        f"{path.relative_to(ROOT)} names {name}, which is not there"
        for path in paths
        if path.suffix in (".md", ".py") and ROOT / "tests" not in path.parents
        for name in missing(path.read_text(encoding="utf-8"), places)
    ]
    assert not lost, "\n".join(lost)


def test_lines_of_the_way_of_a_call_are_those_of_the_code() -> None:
    """``file.py:12 name``: the function is defined on that line, or just below its decorators."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found, path = re.findall(r"([\w/]*\.py)?:(\d+) (\w+)", text[text.index("**The way of a call.**") :]), Path()
    assert len(found) > 12
    for file, line, name in found:
        path = ROOT / "pyrogram" / file if file else path
        here = path.read_text(encoding="utf-8").splitlines()[int(line) - 1 : int(line) + 2]
        assert any(f"def {name}(" in x for x in here), f"{path.relative_to(ROOT)}:{line} is not {name}"


def test_a_file_that_is_not_there_is_found() -> None:
    text = "`a/b.py`, b.py, (no.py), `docs/c.md`, a.md, `a/`, `b/`, [x](../a/no.ipynb), {x}.py, NAME.py, no/c.md."
    assert list(missing(text, "/x/a/b.py\n/docs/c.md\n")) == ["no.py", "b/", "a/no.ipynb", "no/c.md"]
