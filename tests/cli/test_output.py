# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tables that do not fit are printed in parts; words of files cannot steer a terminal."""

import re

import pytest
from rich import box
from rich.table import Table
from rich.text import Text

from pyrogram.cli.io.output import console, footnotes, print_tree, write_text

NASTY = "\x1b[31mred\x1b]0;title\x07\x9b2J\x85\u202e"
SENTENCE = f"1\t{NASTY}\t_\tDET\tDT\t_\t2\t_\t_\t_\n2\tb\t_\tNOUN\tNN{NASTY}\t_\t0\t_\t_\t_\n\n"


def table(columns: int, rows: int) -> Table:
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    made.add_column("", no_wrap=True)
    for c in range(columns):
        made.add_column(f"head{c}\nbelow{c}", justify="right", min_width=14)
    for r in range(rows):
        made.add_row(Text(f"row {r}"), *(f"{r}.{c:03d} ± 0.{c:03d}" for c in range(columns)))
    return made


@pytest.mark.one_in(6)
@pytest.mark.parametrize("width", [30, 80, 100])
@pytest.mark.parametrize("columns", [1, 5, 6, 7, 14, 40])
def test_tables_are_printed_in_parts_never_cut(width, columns, capsys):
    screen = console()
    screen.width = width
    screen.print(table(columns, 3))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= width
    found = [re.findall(r"\d\.\d+ ± \d\.\d+", line) for line in lines]
    for r in range(3):
        cells = [cell for line, row in zip(lines, found, strict=True) if line.startswith(f"row {r}") for cell in row]
        assert cells == [f"{r}.{c:03d} ± 0.{c:03d}" for c in range(columns)]
    for name in ("head", "below"):
        assert re.findall(rf"{name}\d+", "\n".join(lines)) == [f"{name}{c}" for c in range(columns)]
    # As few parts as there can be: a row's label and spaces are 7 characters, a column and its spaces 16.
    per_part = max(1, (width - 7) // 16)
    assert sum(line.startswith("row 0") for line in lines) == -(-columns // per_part)


def test_headings_of_several_words_are_all_there(capsys):
    """Columns that could be narrower than their cells made rich leave out the last one."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    made.add_column("", no_wrap=True)
    for c in range(9):
        made.add_column(f"max. prob. c{c} %", justify="right", min_width=11)
    made.add_row("part-of-speech tags", *(f"66.8 (5{c}.3)" for c in range(9)))
    console().print(made)
    out = capsys.readouterr().out
    assert all(f"c{c} %" in out and f"(5{c}.3)" in out for c in range(9))


def test_labels_that_are_too_long_are_folded_not_cut(capsys):
    made = table(2, 0)
    made.add_row(Text("label" * 30), "1", "2")
    screen = console()
    screen.width = 40
    screen.print(made)
    out = capsys.readouterr().out
    assert "".join(re.findall("[label]{2,}", out)).count("label") == 60  # in both parts
    screen.print(footnotes(["word" * 30]))
    out = capsys.readouterr().out
    assert "…" not in out and re.sub(r"[\s*]", "", out) == "word" * 30


@pytest.fixture
def safe(call, tmp_path):
    """A command whose output, on both streams, holds no control character but line ends."""

    def run(*arguments):
        done = call(*arguments)
        for text in (done.out, done.err):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), text
        return done

    return run


def test_words_cannot_steer_a_terminal(safe, tmp_path, monkeypatch):
    path = tmp_path / "c\x1b[2J.conllu"
    path.write_text(SENTENCE)
    other = tmp_path / "d.conllu"
    other.write_text(SENTENCE.replace("\tb\t", f"\t{NASTY}b\t"))
    assert r"\x1b[31mred\x1b]0;title\x07\x9b2J" in safe("draw", path).out
    assert r"\x1b[31mred" in safe("evaluate", path, other).err
    assert safe("induce", path, "--tags", "xpos", "--steps", 1, "--out", tmp_path / "\x1b[31mrun").status == 0
    assert r"\x1b[31mred" in safe("induce", path, "--test", other, "--tags", "form", "--steps", 1).err
    assert r"\x1b" in safe("sample", tmp_path / "no\x1b").err
    assert r"\x1b" in safe("induce", path, "--tags", "\x1b").err


def test_long_words_are_cut_in_messages(call, tmp_path):
    path, other = tmp_path / "c.conllu", tmp_path / "d.conllu"
    path.write_text(SENTENCE.replace("\tb\t", "\t" + "w" * 10**5 + "\t"))
    other.write_text(SENTENCE)
    for arguments in (["evaluate", path, other], ["induce", other, "--test", path, "--tags", "form", "--steps", 1]):
        assert len(call(*arguments).err) < 1000


def test_trees_are_drawn_with_escapes(capsys):
    print_tree([2, 0], [NASTY, "b"], ["DT\x1b", "NN"], [0, 1])
    first, second = capsys.readouterr().out.splitlines()
    assert "\x1b" not in first + second and first.index("DT") == second.index("NN")


class Terminal:
    encoding = "utf-8"

    def __init__(self, terminal):
        self.terminal, self.written = terminal, b""
        self.buffer = self

    def isatty(self):
        return self.terminal

    def flush(self):
        pass

    def write(self, data):
        self.written += data


def test_what_is_for_other_programs_is_escaped_on_a_terminal_only(monkeypatch):
    for terminal in (False, True):
        monkeypatch.setattr("sys.stdout", screen := Terminal(terminal))
        write_text(SENTENCE)
        assert (screen.written == SENTENCE.encode()) != terminal
        assert (b"\x1b" in screen.written) != terminal and screen.written.count(b"\t") == 18
