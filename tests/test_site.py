# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation: links lead somewhere, and a link leads to every page. ``make site`` builds them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "index.md"
PAGES = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
PAGES += [ROOT / "benchmarks" / "README.md", *sorted((ROOT / "tutorials").glob("*.ipynb"))]
LINK = re.compile(r"\[(?:[^][`]|`[^`]*`)*\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def text_of(path: Path) -> str:
    """The Markdown of a page, or of all cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def anchors(path: Path) -> set[str]:
    """The names of a page's headings in links: lower case, no punctuation, hyphens for spaces."""
    heads = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.M), re.M)
    heads = [re.sub(r"\]\([^()]*\)", "]", head) for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(path: Path) -> Iterator[tuple[str, str]]:
    """The file and the anchor of every link that is no address on the network."""
    for target in LINK.findall(CODE.sub("", text_of(path))):
        if not re.match(r"[a-z]+:", target):
            yield target.partition("#")[0], target.partition("#")[2]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for name, anchor in links(path):
        target = (path.parent / name).resolve() if name else path
        assert target.exists() and ROOT in target.parents, f"{path.name} links to {name}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{path.name} links to {name}#{anchor}, which is not there"


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `name`, a [b](c.md)\n[one](no.md#x-y) ![two](images/a.svg) `[x](y)`\n\n    [x](code.md)\n")
    assert list(links(page)) == [("c.md", ""), ("no.md", "x-y"), ("images/a.svg", "")]
    assert anchors(page) == {"a-name-a-b"}


def test_the_first_page_links_to_every_page() -> None:
    """For a reader of the files; in the site's menu Sphinx misses a page by itself."""
    linked = {(INDEX.parent / name).resolve() for name, _ in links(INDEX)}
    assert {path for path in PAGES if path.parent == INDEX.parent and path != INDEX} <= linked


def test_the_menu_has_every_page() -> None:
    """Each once; the notebooks stand under the course, the pages of public packages under the public names."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", INDEX.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    entries = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    listed = [(ROOT if entry[0] == "/" else INDEX.parent) / f"{entry.lstrip('/')}.md" for entry in entries]
    wanted = [path for path in PAGES if path not in (INDEX, ROOT / "README.md") and path.suffix == ".md"]
    assert sorted(listed) == sorted(wanted)


def test_every_program_is_listed() -> None:
    page = (ROOT / "docs" / "contents.md").read_text(encoding="utf-8")
    programs = [path.name for path in (ROOT / "examples").glob("*.py")]
    assert programs and all(f"| [`examples/{name}`](../examples/{name}) | " in page for name in programs)


def test_every_notebook_is_listed() -> None:
    linked = {name for name, _ in links(ROOT / "docs" / "course.md")}
    assert linked == {f"../tutorials/{path.name}" for path in PAGES if path.suffix == ".ipynb"}


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 70


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_program_of_the_first_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It is that of the README, too."""
    (program,) = blocks(INDEX)
    assert blocks(ROOT / "README.md") == [program]
    exec(compile(program, str(INDEX), "exec"), {})
    assert 0.2 < float(capsys.readouterr().out.splitlines()[-1]) < 1


def test_ci_builds_the_site_before_the_tests() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith(" lint site test")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--fail-on-warning" in makefile and "\nsite: $(SITE_READY)\n" in makefile
    for target in ("demo", "test"):
        assert f"\n{target}: $(READY)\n" in makefile
