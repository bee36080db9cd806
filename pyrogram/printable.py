# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Text on its way to a terminal or into a message: control characters as escapes, numbers with their nouns."""

from __future__ import annotations

import re

__all__ = ["plural", "printable", "quoted", "shown"]

#: How much of a word is shown in a message.
LONGEST_WORD = 40
# C0, DEL and C1 (ESC, CSI and OSC among them), line and paragraph separators, embeddings and overrides of writing
# direction, halves of surrogate pairs. Joiners stay: words of Persian and of Indian languages contain them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, longest: int | None = None, keep: str = "") -> str:
    r"""The text with every control character as an escape, ESC as ``\x1b``; applied twice it changes nothing more.

    :param longest: cut after so many characters, with three dots; None: keep all.
    :param keep: control characters that stay, such as the line ends of a table.
    """
    if longest is not None and len(text) > longest:
        text = text[:longest] + "..."
    return _CONTROL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def shown(word: str) -> str:
    """A word for a message: printable, at most :data:`LONGEST_WORD` characters of it."""
    return printable(word, LONGEST_WORD)


def quoted(word: str) -> str:
    """The same in quotes."""
    quote = '"' if "'" in word and '"' not in word else "'"
    return f"{quote}{shown(word)}{quote}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: 1 sentence, 2,000 sentences, 0 families.

    :param many: the noun for other numbers than 1, where it is not regular; verbs may follow: "word has", "words have".
    """
    if many is None:
        many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
