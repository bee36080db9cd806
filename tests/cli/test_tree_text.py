# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from itertools import product

import pytest

from pyrogram.cli.io.tree_text import tree_text
from pyrogram.trees import projective_trees


def test_a_sentence():
    text = tree_text([2, 3, 0, 3], ["the", "dog", "barks", "loudly"], ["DT", "NN", "VBZ", "RB"])
    assert text.plain.splitlines() == [
        "    ╭─── the     DT",
        "  ╭─┴─── dog     NN",
        "──┼───── barks   VBZ",
        "  ╰───── loudly  RB",
    ]


def test_ascii():
    text = tree_text([2, 3, 0, 3], ["the", "dog", "barks", "loudly"], ascii_only=True)
    assert text.plain.splitlines() == ["    +--- the", "  +-+--- dog", "--+----- barks", "  +----- loudly"]


def test_gold():
    lines = tree_text([2, 3, 0, 3], ["a", "b", "c", "d"], gold=[3, 0, 2, 3]).plain.splitlines()
    assert [line.partition("✗ ")[2] for line in lines] == [
        "gold head: c (3)",
        "gold head: ROOT",
        "gold head: b (2)",
        "",
    ]


def test_crossing_arcs_say_their_heads():
    lines = tree_text([3, 4, 0, 3], ["a", "b", "c", "d"]).plain.splitlines()
    assert [line.split("head: ")[1] for line in lines] == ["c (3)", "d (4)", "ROOT", "c (3)"]


ENDS = {"╵": "U", "╷": "D", "│": "UD", "╴": "L", "╯": "UL", "╮": "DL", "┤": "UDL", "╶": "R", "╰": "UR"}
ENDS |= {"╭": "DR", "├": "UDR", "─": "LR", "┴": "ULR", "┬": "DLR", "┼": "UDLR", " ": ""}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_lines_are_the_tree(n):
    """Read back as a maze: left from a word to where its line begins, then along the vertical line to its head."""
    for heads in projective_trees(n).tolist():
        lines = tree_text(heads, ["w"] * n).plain.splitlines()
        maze = [[ENDS[character] for character in line[: line.index(" w")]] for line in lines]
        for y, x in product(range(n), range(len(maze[0]))):  # no line ends in the open
            assert ("R" in maze[y][x]) == (x + 1 == len(maze[0]) or "L" in maze[y][x + 1]) or maze[y][x] == ""
            assert ("D" in maze[y][x]) == (y + 1 < n and "U" in maze[y + 1][x])
        for c, head in enumerate(heads):
            x = len(maze[c]) - 1
            while x > 0 and "L" in maze[c][x]:
                x -= 1
            if head == 0:
                assert x == 0 and "L" in maze[c][0]
                continue
            joined = []  # rows whose own line crosses the vertical one
            for direction, step in (("U", -1), ("D", 1)):
                y = c
                while direction in maze[y][x]:
                    y += step
                    joined += [y] if "L" in maze[y][x] else []
            assert joined == [head - 1]


HEBREW = ["\u05d4\u05db\u05dc\u05d1", "\u05d4\u05d2\u05d3\u05d5\u05dc", "\u05e0\u05d1\u05d7"]  # the big dog barked
MIRROR = str.maketrans("╯╮┤╴╰╭├╶", "╰╭├╶╯╮┤╴")


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_right_to_left_is_the_mirror_image(n):
    for heads in projective_trees(n).tolist():
        words, tags = [*HEBREW, "\u05dc\u05d9"][:n], ["A", "BB", "CCC", "D"][:n]
        latin = [word.translate(dict.fromkeys(range(1424, 1536), "x")) for word in words]
        gold = [0] * n
        left = tree_text(heads, latin, tags, gold).plain.splitlines()
        right = tree_text(heads, words, tags, gold).plain.replace("\u200e", "").splitlines()
        assert len({len(line) for line in right}) == 1  # they end at the right margin
        for c in range(n):
            lines = left[c][: left[c].index("x") - 1]
            before, word, there = right[c].rpartition(words[c])
            assert word and there == " " + lines[::-1].translate(MIRROR)
            assert before.rstrip().endswith(tags[c])  # the tag is on the left of the word
            assert ("gold head" in before) == (heads[c] != 0)


def test_right_to_left_lines():
    text = tree_text([3, 1, 0], HEBREW, ["NOUN", "ADJ", "VERB"]).plain
    first, second, third = text.replace("\u200e", "").splitlines()
    assert first == f"NOUN   {HEBREW[0]} ───┬─╮  "
    assert second == f" ADJ  {HEBREW[1]} ───╯ │  "
    assert third == f"VERB    {HEBREW[2]} ─────┴──"
    assert all(line.startswith("\u200e") for line in text.splitlines())
    plain = tree_text([3, 1, 0], HEBREW, ascii_only=True).plain.splitlines()
    assert plain == [f" {HEBREW[0]} ---+-+  ", f"{HEBREW[1]} ---+ |  ", f"  {HEBREW[2]} -----+--"]
