# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A structure is a page: no recursion of the package has more than sixty lines, its docstring left out."""

import ast
import re
from pathlib import Path

import pyrogram

PACKAGE = Path(pyrogram.__file__).parent


def pages() -> dict[str, int]:
    """Lines of code of every function that ``@recursion`` makes a page of."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"@\s*recursion\b", text) else ():
            if not isinstance(node, ast.FunctionDef):
                continue
            names = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            if any(isinstance(name, ast.Name) and name.id == "recursion" for name in names):
                own = node.body[1:] if ast.get_docstring(node) else node.body
                lines = {line for x in own for line in range(x.lineno, (x.end_lineno or x.lineno) + 1)}
                found[f"{path.relative_to(PACKAGE)}:{node.name}"] = len(lines) + 1
    return found


def test_no_page_is_longer_than_sixty_lines() -> None:
    lengths = pages()
    assert len(lengths) >= 12
    too_long = {name: lines for name, lines in lengths.items() if lines > 60}
    assert not too_long
