# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Escapes of control characters, against Unicode's own categories."""

import sys
import unicodedata

from pyrogram.printable import LONGEST_WORD, plural, printable, quoted

EVERYTHING = [chr(i) for i in range(sys.maxunicode + 1)]
# Unicode Standard Annex 9: explicit embeddings, overrides and isolates, which turn text around.
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_what_is_escaped_is_what_unicode_calls_control() -> None:
    for character in EVERYTHING:
        control = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        control = control or unicodedata.bidirectional(character) in TURNS
        assert (printable(character) != character) == control, hex(ord(character))


def test_escapes_are_ascii_say_which_character_it_was_and_stay() -> None:
    for character in EVERYTHING[:0x3000] + EVERYTHING[0xD800:0xE000]:
        escape = printable(character)
        if escape == character:
            continue
        assert escape.isascii() and escape.isprintable()
        assert printable(escape) == escape
        assert escape.encode().decode("unicode_escape") == character


def test_words_keep_their_joiners() -> None:
    for word in ("می‌خواهم", "क्‍ष", "👩‍👩‍👧", "naïve", "a b", "שלום"):
        assert printable(word) == word


def test_sequences_of_terminals() -> None:
    assert printable("\x1b[31mred\x1b]0;title\x07\x9b2J") == r"\x1b[31mred\x1b]0;title\x07\x9b2J"
    assert printable("a\tb\nc\r", keep="\n\t") == "a\tb\nc\\r"


def test_long_words_are_cut() -> None:
    assert printable("abcdef", 3) == "abc..." and printable("abc", 3) == "abc"
    assert quoted("w" * 10**6) == f"'{'w' * LONGEST_WORD}...'"
    assert quoted("don't") == '"don\'t"' and quoted("\x1b") == r"'\x1b'"


def test_plural() -> None:
    assert [plural(n, "sentence") for n in (0, 1, 2, 1000)] == [
        "0 sentences",
        "1 sentence",
        "2 sentences",
        "1,000 sentences",
    ]
    assert [plural(2, noun) for noun in ("class", "match", "family")] == ["2 classes", "2 matches", "2 families"]
    assert [plural(n, "word has", "words have") for n in (1, 2)] == ["1 word has", "2 words have"]
