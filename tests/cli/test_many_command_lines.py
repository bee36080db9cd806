# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""500 command lines, most of them wrong: each ends with status 0 or with 2 and one sentence, never with a traceback."""

import gzip
import io
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from mutations import PIECES, mutated_bytes

from pyrogram.cli import main
from pyrogram.data import Corpus
from pyrogram.data.builtin import generate

pytestmark = pytest.mark.slow

COUNT = 500
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
TABLES = ("cvb", "shared", "topics", "x")
COMMON: dict[str, Any] = {
    "--format": ("auto", "conllu", "brackets", "tags", "x"),
    "--tags": ("upos", "xpos", "form", "x"),
}
LEARN: dict[str, Any] = {
    "--method": ("em", "em-map", "vb", "vb-em", "cvb", "hastings", "gibbs", "x"),
    "--init": ("harmonic", "uniform", "random", "supervised", "grammar"),
    "--stops": ("expected", "half", "e-step"),
    "--unknown": ("most_frequent", "error"),
    "--valence-attach": None,
    "--no-resume": None,
}
LEARNING_NUMBERS = (
    *("--starts", "--seed", "--max-length", "--alpha", "--smoothing", "--distance", "--noise", "--tolerance"),
    "--patience",
)
DRAWING_NUMBERS = ("--num", "--seed", "--max-length")
SCORES = ("heads", "brackets")
TRAIN: dict[str, Any] = {
    "--prior": ("dirichlet-fixed", "pitman-yor-sampled"),
    "--paths": ("minimal", "maximal", "exact"),
    "--unseen": ("rare", "test"),
    "--no-resume": None,
}
PARSE: dict[str, Any] = {
    "--format": COMMON["--format"],
    "--decoder": ("mbr", "viterbi"),
    "--retag": ("no", "missing", "all"),
    "--unknown": ("most_frequent", "error"),
}
DRAW: dict[str, Any] = {"--text": None, "--format": COMMON["--format"]}
NOT_FILES = ["-", "nowhere.conllu", "/", "/dev/null", "", "a\x1b[2J", "x" * 300, "/\udcff"]
NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "0.5",
    "1e-9",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "9" * 30,
    "x",
    "",
    "1_0",
    "٣",
    "\x1b",
]


class Stdin:
    def __init__(self, data: bytes):
        self.buffer = io.BytesIO(data)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of good files of every kind, and of finished runs."""
    folder: Path = tmp_path_factory.mktemp("files")
    made = generate(14, 4)
    corpus = Corpus.from_sentences(
        [s.tags for s in made], forms=[s.forms for s in made], heads=[s.heads for s in made], tags="xpos"
    )
    corpus.to_conllu(folder / "a.conllu")
    corpus[:9].to_conllu(folder / "b.conllu")
    (folder / "c.conllu.gz").write_bytes(gzip.compress((folder / "a.conllu").read_bytes()))
    shutil.copy(folder / "b.conllu", folder / "d.txt")
    (folder / "e.mrg").write_text("".join(s.brackets + "\n" for s in made))
    (folder / "f.txt").write_text("".join(" ".join(s.tags) + "\n" for s in made))
    (folder / "g.txt").write_text(
        "".join(" ".join(f"{w}/{t}" for w, t in zip(s.forms, s.tags, strict=True)) + "\n" for s in made)
    )
    tags = sorted({tag for s in made for tag in s.tags})
    (folder / "h.pcfg").write_text("".join(f"S -> '{tag}' | '{tag}' S\n" for tag in tags))
    runs = {
        "dmv": ["induce", folder / "a.conllu", "--tags", "xpos", "--steps", 2],
        "pcfg": ["induce", folder / "f.txt", "--model", "pcfg", "--grammar", folder / "h.pcfg", "--steps", 1],
        "lexical": ["train", folder / "a.conllu", "--tags", "xpos", "--steps", 1],
    }
    for name, command in runs.items():
        assert main([str(a) for a in [*command, "--out", folder / name]]) == 0
    return folder


class Lines:
    """Command lines from a seed. Files and runs are copies, one in three of them damaged.

    :param good: folder of good files and runs.
    :param work: an empty folder for the copies.
    """

    def __init__(self, seed: str, good: Path, work: Path):
        self.rng, self.good, self.work, self.number = random.Random(seed), good, work, 0

    def file(self) -> str:
        rng = self.rng
        if rng.random() < 0.06:
            return rng.choice(
                ["-", "nowhere.conllu", str(self.work), "/dev/null", "", "a\x1b[2J", "x" * 300, "/\udcff"]
            )
        source = rng.choice(sorted(path for path in self.good.iterdir() if path.is_file()))
        self.number += 1
        path = self.work / f"{self.number}-{source.name}"
        data = source.read_bytes()
        path.write_bytes(mutated_bytes(rng, data) if rng.random() < 0.33 else data)
        return str(path)

    def run(self) -> str:
        rng = self.rng
        if rng.random() < 0.1:
            return self.file()
        self.number += 1
        path = self.work / f"run{self.number}"
        shutil.copytree(self.good / rng.choice(("dmv", "dmv", "pcfg", "lexical")), path)
        if rng.random() < 0.33:
            damaged = rng.choice(sorted(p for p in path.rglob("*") if p.is_file()))
            damaged.write_bytes(mutated_bytes(rng, damaged.read_bytes()))
        return str(path)

    def value(self) -> str:
        return self.rng.choice(NUMBERS) if self.rng.random() < 0.5 else self.rng.choice(("1", "2", "3", "5"))

    def options(self, table: dict[str, Any], most: int = 4) -> list[str]:
        rng, chosen = self.rng, []
        for name in rng.sample(sorted(table), rng.randrange(min(most, len(table)) + 1)):
            values = table[name]
            chosen += [name] if values is None else [name, values() if callable(values) else rng.choice(values)]
        if rng.random() < 0.05:
            chosen.insert(
                rng.randrange(len(chosen) + 1), rng.choice(["--bogus", "-x", "--", "--help", "--out", *PIECES[:30]])
            )
        return chosen

    def out(self) -> str:
        self.number += 1
        there = self.rng.choice([str(self.work), f"{self.work}/new{self.number}", self.file(), f"{self.work}/a/b/c"])
        return there if self.rng.random() < 0.7 else self.run()

    def line(self) -> list[str]:
        """One command line."""
        kinds = (
            (4, self.induce),
            (3, lambda: [*self.induce(2), "--tags", "xpos"]),
            (3, lambda: [*self.induce(2), "--model", "pcfg", "--grammar", self.grammar()]),
            (2, self.train),
            (5, lambda: ["parse", self.run(), self.file(), *self.options({**PARSE, "--out": self.out})]),
            (
                3,
                lambda: [
                    "evaluate",
                    self.file(),
                    self.file(),
                    *self.options({**COMMON, "--score": ("heads", "brackets")}),
                ],
            ),
            (3, lambda: ["draw", self.file(), *self.options({"--gold": self.file, "--sentence": self.value, **DRAW})]),
            (
                2,
                lambda: [
                    "sample",
                    self.run(),
                    *self.options(dict.fromkeys(("--num", "--seed", "--max-length"), self.value)),
                ],
            ),
            (1, lambda: ["reproduce", self.rng.choice(TABLES), "nowhere", "--dev", self.file(), *self.options(COMMON)]),
            (1, lambda: self.rng.choice(([], ["--version"], ["--help"], ["induce"], ["parse", "--help"], ["\x1b"]))),
        )
        return self.rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def induce(self, most: int = 4) -> list[str]:
        own = dict.fromkeys(("--dev", "--test"), self.file) | dict.fromkeys(LEARNING_NUMBERS, self.value)
        return [
            "induce",
            self.file(),
            "--steps",
            "2",
            *self.options({**COMMON, **LEARN, **own, "--out": self.out}, most),
        ]

    def train(self) -> list[str]:
        own = {"--dev": self.file, "--test": self.file, "--out": self.out, "--seed": self.value}
        return ["train", self.file(), "--steps", "1", *self.options({**COMMON, **TRAIN, **own})]

    def grammar(self) -> str:
        path = self.work / f"{self.number}.pcfg"
        data = (self.good / "h.pcfg").read_bytes()
        path.write_bytes(mutated_bytes(self.rng, data) if self.rng.random() < 0.4 else data)
        return str(path)


def test_command_lines(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    lines = Lines("command lines", files, tmp_path)
    stopped: list[int] = []
    for _ in range(COUNT):
        line = lines.line()
        monkeypatch.setattr("sys.stdin", Stdin((files / "a.conllu").read_bytes()))
        capsys.readouterr()
        try:
            status = main(line)
        except BaseException as error:  # it would be lost which line it was
            raise AssertionError(f"a traceback: {line}") from error
        out, err = capsys.readouterr()
        assert status in (0, 2), line
        assert not CONTROL.search(err) and not CONTROL.search(out if line[:1] not in (["parse"], ["sample"]) else ""), (
            line
        )
        last = err.splitlines()[-1] if err else ""
        if status == 2:
            assert last.startswith("pyrogram: ") and last.endswith((".", "?", "!")) and len(last) < 2500, line
            assert all(said.startswith(("note: ", "start ", "going on ")) for said in err.splitlines()[:-1]), line
        stopped.append(status)
    assert 100 < stopped.count(0) < 400, "mutations that all fail, or all pass, would say nothing"
