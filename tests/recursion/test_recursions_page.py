# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation: its blocks run one after the other, and print what it says that they print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recursions.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """What each block prints; the names that one defines are there for the next."""
    return run(BLOCKS)


def run(blocks: list[str]) -> list[str]:
    found: list[str] = []
    names: dict[str, Any] = {}
    for block in blocks:
        lines: list[str] = []
        names["print"] = lambda *args, lines=lines: lines.append(" ".join(map(str, args)))
        exec(compile(block, str(PAGE), "exec"), names)
        found.append("\n".join(lines))
    return found


@pytest.mark.slow
def test_every_block_runs(printed: list[str]) -> None:
    assert len(printed) == TEXT.count("```python") > 5


@pytest.mark.slow
def test_comments_say_what_is_printed(printed: list[str]) -> None:
    """``print(...)  # 13 19``: what stands in the comment up to a word of explanation."""
    assert printed[0].startswith("5") and "# 5 binary trees" in BLOCKS[0]
    for block, text in zip(BLOCKS, printed, strict=True):
        for comment in re.findall(r"^ *print\((?:len.*|error)\)  # (.*)$", block, re.MULTILINE):
            assert text == comment


def test_what_was_derived_is_as_printed() -> None:
    (last,) = [i for i, block in enumerate(BLOCKS) if "print(lower(page))" in block]
    text = run(BLOCKS[: last + 1])[-1]
    after = TEXT.partition("print(lower(page))\n```\n\n")[2].partition("\n\n")[0]
    assert "\n".join(line.removeprefix("    ") for line in after.splitlines()) == text


def test_messages_of_the_table_are_those_of_the_checks() -> None:
    """Each is a part of a message in the source."""
    package = Path(__file__).resolve().parents[2] / "pyrogram" / "recursion"
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    table = TEXT.partition("| message | what to do |\n|---|---|\n")[2].partition("\n\n")[0]
    messages = [row.split("|")[1].strip().strip("`") for row in table.splitlines()]
    assert len(messages) == 5
    for message in messages:
        for part in re.split(r"\.\.\.|i <= j|X\[i, j\]|X(?= at)", message):
            assert part.strip() in source, message
