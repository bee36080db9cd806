# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What goes to stdout: through rich, in colour on a terminal unless NO_COLOR is set; plain in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from pyrogram.cli.io.tree_text import tree_text

PIPE_WIDTH = 100


def console() -> Console:
    """A console for stdout. A pipe has no width, so tables get as much as they need.

    What the terminal's encoding lacks is shown as a question mark.
    """
    if not _is_utf8() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def print_tree(
    heads: Sequence[int], forms: Sequence[str], tags: Sequence[str] | None = None, gold: Sequence[int] | None = None
) -> None:
    """Draw a tree on stdout, in ASCII if it takes no more."""
    text = tree_text(heads, forms, tags, gold, ascii_only=not _is_utf8())
    console().print(text, soft_wrap=True)


def write_text(text: str) -> None:
    """Text for other programs: as it is, in UTF-8 whatever the terminal takes, for CoNLL-U is UTF-8."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
