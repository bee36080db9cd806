# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce``: the options of logistic normals, and the pictures."""

import csv
import json
import shutil
from functools import partial

import pyro
import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.cli import main
from pyrogram.data import tag_families
from pyrogram.infer import VariationalEM
from pyrogram.models.logistic_normal import logistic_normal

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS = 4
COMMON = ["--tags", "xpos", "--steps", str(STEPS), "--jobs", "1", "--patience", "9", "--tolerance", "0"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    train, dev = str(folder / "train.conllu"), str(folder / "dev.conllu")
    Corpus.builtin(30).to_conllu(train)
    Corpus.builtin(10, 1).to_conllu(dev)
    return [train, "--dev", dev]


def run(*arguments):
    assert main(["reproduce", *map(str, arguments)]) == 0


@pytest.fixture(scope="module")
def plain(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("plain") / "run"
    run("shared", *files, "--rows", "em,tie-v", "--starts", 2, *COMMON, "--out", out)
    return out


def start(out, row="ln"):
    return load_file(out / "starts" / f"{row}-001.safetensors")


def test_diagonal_covariances(files, undrawn_here, tmp_path):
    run(
        "lognormal", *files, "--rows", "ln", "--starts", 1, "--covariance", "diagonal", *COMMON, "--out", tmp_path / "d"
    )
    learnt = start(tmp_path / "d")
    assert "parameter.variance.attach" in learnt and "parameter.covariance.attach" not in learnt
    assert learnt["parameter.variance.root"].shape == learnt["parameter.loc.root"].shape


def test_ties_go_on_from_diagonal_covariances(files, undrawn_here, tmp_path):
    run(
        "shared", *files, "--rows", "tie-v", "--starts", 1, "--covariance", "diagonal", *COMMON, "--out", tmp_path / "d"
    )
    assert start(tmp_path / "d", "tie-v")["curve.objective"].shape == (STEPS,)


def test_averaging_is_the_librarys(files, undrawn_here, tmp_path):
    whole = Corpus.from_conllu(files[0], tags="xpos")
    dev = Corpus.from_conllu(files[2], tags="xpos", vocab=whole.vocab)
    grammar, words = DMV(len(whole.vocab)), whole.filter(10).words
    weights = []
    for averaging in ("all", "present"):
        out = tmp_path / averaging
        run("lognormal", *files, "--rows", "ln", "--starts", 1, "--averaging", averaging, *COMMON, "--out", out)
        weights.append(start(out)["weights.0.attach"])
        with pyro.get_param_store().scope():
            model = partial(logistic_normal, grammar=grammar)
            loop = VariationalEM(model, averaging=averaging)
            loop.run(words, num_steps=STEPS, tolerance=0, patience=9, held_out=dev.words, progress=False)
            torch.testing.assert_close(weights[-1], loop.weights()["attach"], rtol=1e-9, atol=1e-15)
    assert (weights[0] - weights[1]).abs().max() > 1e-3


def test_exp_of_the_mean_is_not_normalised(files, undrawn_here, tmp_path):
    for estimate in ("softmax", "exp"):
        out = tmp_path / estimate
        run("lognormal", *files, "--rows", "ln", "--starts", 1, "--point-estimate", estimate, *COMMON, "--out", out)
        learnt = start(out)
        weights, mean = learnt["weights.0.attach"], learnt["parameter.loc.attach"]
        torch.testing.assert_close(weights, mean.exp() if estimate == "exp" else mean.softmax(-1))


def test_a_folder_belongs_to_its_options(plain, files, capsys):
    arguments = ["shared", *files, "--rows", "em,tie-v", "--starts", "2", *COMMON, "--averaging", "present"]
    assert main(["reproduce", *arguments, "--out", str(plain)]) == 2
    assert "averaging all, not present" in " ".join(capsys.readouterr().err.split())
    # Folders that are older than these options say nothing of them, and are those of the defaults.
    assert "averaging" not in json.loads((plain / "config.json").read_text())["settings"]


def test_curves_are_those_of_the_starts(plain):
    with open(plain / "curves.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {(line["row"], line["start"]) for line in lines} == {
        (row, start) for row in ("em", "ln-families", "tie-v") for start in "12"
    }
    for row in ("em", "tie-v"):
        own = [line for line in lines if line["row"] == row and line["start"] == "1"]
        learnt = start(plain, row)
        assert [int(line["iteration"]) for line in own] == list(range(1, STEPS + 1))
        assert [float(line["objective"]) for line in own] == learnt["curve.objective"].tolist()
        assert [float(line["held_out"]) for line in own] == learnt["curve.held_out"].tolist()


def test_correlations_are_those_of_the_covariances(plain, files):
    """Pair by pair, of the start whose held-out sentences are the likeliest."""
    with open(plain / "curves.csv", newline="") as file:
        curves = [line for line in csv.DictReader(file) if line["row"] == "ln-families"]
    best = max(curves, key=lambda line: float(line["held_out"]))["start"]
    learnt = load_file(plain / "starts" / f"ln-families-{best:0>3}.safetensors")
    tags = Corpus.from_conllu(files[0], tags="xpos").vocab.symbols
    families = [tag_families("penn")[tag] for tag in tags]
    text = (plain / "covariances.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    greatest = (0.0, "", set())
    for block in ("root", "attach", "stop"):
        matrices = learnt[f"parameter.covariance.{block}"]
        size, pairs, strong, before = matrices.shape[-1], 0, 0, 0
        for number, c in enumerate(matrices.reshape(-1, size, size)):
            for i in range(size):
                for j in range(i + 1, size):
                    r = float(c[i, j] / (c[i, i] * c[j, j]).sqrt())
                    pairs, strong = pairs + 1, strong + (abs(r) >= 0.01)
                    before += block != "stop" and families[i] == families[j]
                    if abs(r) > abs(greatest[0]):
                        names = tags if block != "stop" else ["continue", "stop"]
                        heads = number // (2 if block == "attach" else 4)
                        name = "root" if block == "root" else f"{block}[{tags[heads]}, "
                        greatest = (r, name, {names[i], names[j]})
        (found,) = [row for row in rows if row[0] == block]
        assert found[1:4] == [f"{pairs:,}", f"{before:,}", f"{strong:,}"]
    first = next(row for row in rows if len(row) == 4 and row[2][1:].replace(".", "").isdigit())
    assert float(first[2]) == pytest.approx(greatest[0], abs=0.006)
    assert first[0].startswith(greatest[1]) and set(first[1].split(" and ")) == greatest[2]


def test_pictures(plain):
    pytest.importorskip("matplotlib")
    expected = {
        "curves": ["EM", "LN", "SLN, TieV"],
        "covariance": ["correlations in root", "attach[NN, left]", "attach[NN, right]"],
        "experts": ["'s own", "shared by verbs"],
    }
    for name, texts in expected.items():
        picture = (plain / f"{name}.svg").read_text()
        for text in texts:
            assert text in picture, (name, text)


def test_pictures_are_the_same_bytes_again(plain, files, request, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    again = tmp_path / "run"
    shutil.copytree(plain, again)
    before = {path.name: path.read_bytes() for path in plain.glob("*.svg")}
    if not request.config.getoption("--slow"):  # they are written by the same lines
        for larger in ("_covariance", "_experts"):
            (again / f"{larger[1:]}.svg").unlink()
            del before[f"{larger[1:]}.svg"]
            monkeypatch.setattr(f"reproductions.induction.pictures.{larger}", lambda *_: None)
    (again / "curves.svg").unlink()
    run("shared", *files, "--rows", "em,tie-v", "--starts", 2, *COMMON, "--out", again)
    assert before == {path.name: path.read_bytes() for path in again.glob("*.svg")}
