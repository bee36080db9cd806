# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram train`` and parsing with what it wrote."""

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from pyrogram.cli import main
from pyrogram.data import Corpus

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Treebanks of our own grammar: training and test."""
    folder = tmp_path_factory.mktemp("treebanks")
    train, test = folder / "train.conllu", folder / "test.conllu"
    Corpus.builtin(60, seed=0).to_conllu(train)
    Corpus.builtin(15, seed=1).to_conllu(test)
    return train, test


@pytest.fixture(scope="module")
def trained(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    arguments = ["train", files[0], "--tags", "xpos", "--steps", 4, "--test", files[1], "--out", out]
    with redirect_stdout(io.StringIO()) as written:
        assert main([str(a) for a in arguments]) == 0
    assert "Pitman-Yor, sampled, minimal" in written.getvalue() and "supervised DMV" in written.getvalue()
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy, which tests may change."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def test_what_is_written(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "lexicon.json", "weights.safetensors", "parses.conllu", "results.csv", "trace.csv"} <= names
    assert len((run / "trace.csv").read_text().splitlines()) == 5
    assert json.loads((run / "config.json").read_text())["grammar"]["kind"] == "LexicalDependencies"
    results = (run / "results.csv").read_text()
    accuracy = {
        line.split(",")[0]: float(line.split(",")[6]) for line in results.splitlines() if ",viterbi,all," in line
    }
    assert accuracy["selected"] > accuracy["attach-right"] > 0


def test_parsing_is_what_training_parsed(call: Call, run: Path, files: tuple[Path, Path]) -> None:
    done = call("parse", run, files[1])
    assert done.status == 0
    found, scored = (run.parent / name for name in ("found.conllu", "run/parses.conllu"))
    found.write_text(done.out)
    read, those = (Corpus.from_conllu(path, tags="xpos", punctuation="keep") for path in (found, scored))
    assert read.tags == those.tags and read.heads is not None and those.heads is not None
    assert read.heads.equal(those.heads)
    predicted = run.parent / "predicted.conllu"
    assert call("parse", run, files[1], "--decoder", "viterbi", "--out", predicted).status == 0
    assert "all" in call("evaluate", files[1], predicted).out


def test_tags_of_the_tagger(call: Call, run: Path, tmp_path: Path, files: tuple[Path, Path]) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("The dog barks\n\nA cat\n")
    done = call("parse", run, plain)
    assert done.status == 0 and "those of the model's tagger" in done.err
    assert [len(block.splitlines()) for block in done.out.split("\n\n") if block] == [3, 2]
    assert "\t_\tDT\t" in done.out
    assert "has no XPOS" in call("parse", run, plain, "--retag", "no").err
    whole = call("parse", run, files[1], "--retag", "all")
    untagged = tmp_path / "untagged.conllu"
    lines = [line.split("\t") for line in files[1].read_text().splitlines()]
    cleared = ("\t".join([*line[:3], "_", "_", *line[5:]]) if len(line) > 1 else line[0] for line in lines)
    untagged.write_text("\n".join(cleared) + "\n")
    assert whole.out == call("parse", run, untagged).out  # what the trees go with, whatever the file has


def test_a_finished_run_goes_on_to_the_same(call: Call, run: Path, files: tuple[Path, Path]) -> None:
    before = (run / "weights.safetensors").read_bytes()
    arguments = ("train", files[0], "--tags", "xpos", "--steps", 4, "--test", files[1], "--out", run)
    again = call(*arguments)
    assert again.status == 0 and "going on" in again.err
    assert (run / "weights.safetensors").read_bytes() == before
    assert "other settings (seed 0, not 1)" in call(*arguments, "--seed", 1).err


@pytest.mark.parametrize(
    "options",
    [
        ("--paths", "exact"),
        pytest.param(("--paths", "maximal"), marks=pytest.mark.slow),
        pytest.param(("--prior", "dirichlet-fixed"), marks=pytest.mark.slow),
    ],
)
def test_other_models(call: Call, files: tuple[Path, Path], tmp_path: Path, options: tuple[str, str]) -> None:
    out = tmp_path / "run"
    done = call("train", files[0], "--tags", "xpos", "--steps", 1, *options, "--out", out)
    assert done.status == 0, done.err
    assert call("parse", out, files[1]).status == 0


def test_what_is_refused(refused: Callable[..., str], files: tuple[Path, Path], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the/DT dog/NN\n")
    assert "tagged text, which has no trees" in refused("train", text)
    assert "give a file" in refused("train", files[0], "--unseen", "test")
    assert "no UPOS" in refused("train", files[0])
    headless = tmp_path / "headless.conllu"
    headless.write_text("1\tdog\t_\t_\tNN\t_\t_\t_\t_\t_\n\n")
    assert "has no head" in refused("train", headless, "--tags", "xpos")
    assert "no such file" in refused("train", tmp_path / "none.conllu").lower()


def test_parsing_refuses_what_would_mislead(
    call: Call, refused: Callable[..., str], run: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    own = tmp_path / "own.conllu"
    own.write_bytes(files[1].read_bytes())
    assert "is the file to parse" in refused("parse", run, own, "--out", own)
    assert own.read_bytes() == files[1].read_bytes()
    other = tmp_path / "other.txt"
    other.write_text("the/D dog/N\n\na/DT cat/N\n")
    assert "the model's XPOS tags do not include those of 3 of 4 words" in refused("parse", run, other)
    assert call("parse", run, other, "--retag", "all").status == 0
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    assert "holds files but no run (notes.txt)" in refused("train", files[0], "--tags", "xpos", "--out", foreign)
    assert [path.name for path in foreign.iterdir()] == ["notes.txt"]


def test_trees_without_punctuation_are_a_model_of_sentences_without(
    call: Call, refused: Callable[..., str], tmp_path: Path
) -> None:
    """Those of induce, say: punctuation of --test is left out with a note, and parse says what is wrong."""
    rows = ["the/DET/2", "dog/NOUN/3", "barks/VERB/0", "./PUNCT/3"]
    train, test, out = (tmp_path / name for name in ("train.conllu", "test.conllu", "run"))
    for path, kept in ((train, rows[:3]), (test, rows)):
        lines = ["{}\t{}\t_\t{}\t_\t_\t{}\t_\t_\t_".format(i, *row.split("/")) for i, row in enumerate(kept, 1)]
        path.write_text(3 * ("\n".join(lines) + "\n\n"))
    done = call("train", train, "--steps", 2, "--test", test, "--out", out)
    assert done.status == 0
    assert f"note: {test}: punctuation is left out, for that of TRAIN was" in done.err
    assert "PUNCT" not in (out / "parses.conllu").read_text()
    said = refused("parse", out, test)
    assert "the corpus has punctuation (PUNCT), which the training part was without" in said
    assert call("train", test, "--steps", 2, "--test", train).status == 0  # no mark is missing


def test_broken_folders_are_refused(refused: Callable[..., str], run: Path, files: tuple[Path, Path]) -> None:
    assert "which pyrogram parse takes" in refused("sample", run)  # whole as it is
    weights = run / "weights.safetensors"
    whole = {name: t.clone() for name, t in load_file(weights).items()}  # not views of the file, which is written anew
    bad = {**whole, "tags.seats.parents": whole["tags.seats.parents"] + 10**6}
    save_file(bad, weights, {"format": "pyrogram-run-1"})
    assert "of tags, the counts of these restaurants do not fit together" in refused("parse", run, files[1])
    save_file({n: t for n, t in whole.items() if n != "words.discount"}, weights)
    assert "it lacks 'words.discount'" in refused("parse", run, files[1])
    save_file({**whole, "tagger.triples": whole["tagger.triples"] + 1000}, weights)
    assert "weights.safetensors is not as pyrogram wrote it: expected triples" in refused("parse", run, files[1])
    weights.write_bytes(b"nonsense")
    assert "not a safetensors file" in refused("parse", run, files[1])
    (run / "lexicon.json").write_text("[]")
    assert "lexicon.json is not as pyrogram wrote it" in refused("parse", run, files[1])
