# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading all formats with validation, beside readers of CoNLL-U that check nothing and the code before.

Each reader runs in processes of its own, and takes turns with the others. Seconds are of processor time, of all
threads; memory is the growth of the process's peak over what it had with its libraries loaded.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BEFORE = "c1458ab"  # the last commit that made a record of every sentence
TOKENS, ROUNDS = 1_000_000, 3
HEADER = ["reader", "format", "checks", "tokens", "s per million", "tokens/s", "MB per million"]
COLUMNS = [1, 3, 4, 6]  # FORM, UPOS, XPOS, HEAD


def split(path: str) -> object:
    """Lines and columns in Python's own loop, strings shared."""
    sentences: list[Any] = [[]]
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line == "\n":
                sentences.append([])
            elif line[0] != "#":
                row = line.split("\t")
                sentences[-1].append((sys.intern(row[1]), sys.intern(row[3]), sys.intern(row[4]), int(row[6])))
    return sentences


def pyarrow(path: str) -> object:
    from pyarrow import csv

    names = [str(i) for i in range(10)]
    wanted = csv.ConvertOptions(include_columns=[names[i] for i in COLUMNS])
    parse = csv.ParseOptions(delimiter="\t", quote_char=False, invalid_row_handler=lambda _: "skip")
    return csv.read_csv(path, csv.ReadOptions(column_names=names), parse, wanted)


def conllu(path: str) -> object:
    import conllu as package

    with open(path, encoding="utf-8") as file:
        return list(package.parse_incr(file))


def pyrogram(path: str) -> object:
    from pyrogram.data import Corpus

    return Corpus.from_conllu(path)


def short(path: str) -> object:
    from pyrogram.data import Corpus

    return Corpus.from_conllu(path, max_length=10)


def cached(path: str) -> object:
    from pyrogram.data import Corpus

    return Corpus.from_conllu(path, cache=os.path.dirname(path))


def brackets(path: str) -> object:
    from pyrogram.data import Corpus

    return Corpus.from_brackets(path)


def tags(path: str) -> object:
    from pyrogram.data import Corpus

    return Corpus.from_tags(path)


READERS: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "split": ("a loop with `split`", "no", split),
    "pyarrow": ("pyarrow alone", "no", pyarrow),
    "conllu": ("the package conllu", "some", conllu),
    "before": (f"pyrogram before ({BEFORE})", "all", pyrogram),
    "pyrogram": ("pyrogram", "all", pyrogram),
    "short": ("pyrogram, `max_length=10`", "all", short),
    "cached": ("pyrogram, from its cache", "bytes", cached),
    "brackets before": (f"pyrogram before ({BEFORE})", "all", brackets),
    "brackets": ("pyrogram", "all", brackets),
    "tags before": (f"pyrogram before ({BEFORE})", "all", tags),
    "tags": ("pyrogram", "all", tags),
}
FORMATS = {"brackets": "brackets", "tags": "tagged text"}  # of readers by the first word of their names
SMALL = {
    "CoNLL-U": "1\ta\ta\tX\tX\t_\t0\t_\t_\t_\n\n",
    "brackets": "(S (X a))\n",
    "tagged text": "a/X\n",
}


def rows(tokens: int = TOKENS, rounds: int = ROUNDS) -> list[list[str]]:
    """The table; the slow readers have a file of a tenth of the size."""
    from before import earlier

    is_before = {name: name.endswith("before") for name in READERS}
    folders = {True: earlier(BEFORE), False: Path(__file__).parents[1]}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in READERS if _there(name)}
    with tempfile.TemporaryDirectory() as folder:
        sizes = {name: tokens // 10 if name == "conllu" or is_before[name] else tokens for name in times}
        files = {name: Path(folder) / f"{size} {_format(name)}" for name, size in sizes.items()}
        for name, file in files.items():
            if not file.exists():
                write(file, sizes[name], _format(name))
        cached(str(files["cached"]))
        for _ in range(rounds):
            for name, measured in times.items():
                measured.append(_measured(name, files[name], folders[is_before[name]]))
    table = []
    for name, measured in times.items():
        seconds, megabytes = (statistics.median(values) * 1e6 / sizes[name] for values in zip(*measured, strict=True))
        title, checks, _ = READERS[name]
        table.append(
            [
                *(title, _format(name), checks, f"{sizes[name]:,}"),
                *(f"{seconds:.2f}", f"{1e6 / seconds:,.0f}", f"{megabytes:,.0f}"),
            ]
        )
    return table


def _there(name: str) -> bool:
    return name not in ("pyarrow", "conllu") or find_spec(name) is not None


def _format(name: str) -> str:
    return FORMATS.get(name.split()[0], "CoNLL-U")


def write(path: Path, tokens: int, format: str) -> None:
    """A treebank of about so many tokens: the built-in corpus again and again, one word in ten a new one."""
    from pyrogram.data.builtin import generate

    rng, sentences, done = random.Random(0), generate(2000), 0
    with open(path, "w", encoding="utf-8") as file:
        while done < tokens:
            sentence = rng.choice(sentences)
            done += len(sentence.forms)
            forms = [f"{form}{rng.randrange(10**6)}" if rng.random() < 0.1 else form for form in sentence.forms]
            if format != "CoNLL-U":
                file.write(_line(sentence, forms, format))
                continue
            file.write(f"# sent_id = s-{done}\n# text = {' '.join(sentence.forms)}\n")
            for i, (form, tag, head) in enumerate(zip(forms, sentence.tags, sentence.heads, strict=True), 1):
                columns = (i, form, form, tag[:2], tag, "Number=Sing|Person=3", head, "dep", f"{head}:dep", "_")
                file.write("\t".join(map(str, columns)) + "\n")
            file.write("\n")


def _line(sentence: Any, forms: list[str], format: str) -> str:
    """A sentence of other formats, with other words."""
    if format == "tagged text":
        return " ".join(f"{form}/{tag}" for form, tag in zip(forms, sentence.tags, strict=True)) + "\n"
    words = iter(forms)
    return re.sub(r"[^\s()]+(?=\))", lambda _: next(words), sentence.brackets) + "\n"


def _measured(name: str, path: Path, folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), name, str(path)]
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def _one(name: str, path: str) -> None:
    from memory import _megabytes

    read = READERS[name][2]
    small = Path(path).with_name(f"{os.getpid()}.small")
    small.write_text(SMALL[_format(name)], encoding="utf-8")
    read(str(small))  # libraries are loaded
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak so far is forgotten
    before, start = _megabytes("VmRSS"), time.process_time()
    kept = read(path)
    print(time.process_time() - start, _megabytes("VmHWM") - before)
    del kept


if __name__ == "__main__":
    _one(sys.argv[1], sys.argv[2])
