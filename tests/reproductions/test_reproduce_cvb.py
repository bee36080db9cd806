# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce cvb`` on a treebank of heads: its rows against the library's loops."""

from functools import partial

import pyro
import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.cli import main
from pyrogram.infer import CollapsedVB, TreeHastings, VariationalEM
from pyrogram.models.dirichlet import dirichlet

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")
STEPS, SWEEPS = 5, 6
OPTIONS = ["--tags", "xpos", "--steps", STEPS, "--sweeps", SWEEPS, "--jobs", 1, "--patience", 9, "--tolerance", 0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    paths = [str(folder / f"{name}.conllu") for name in ("train", "dev", "test")]
    for size, seed, path in zip((60, 20, 20), range(3), paths, strict=True):
        Corpus.builtin(size, seed).to_conllu(path)
    return paths


@pytest.fixture(scope="module")
def folder(undrawn, files, tmp_path_factory):
    out = tmp_path_factory.mktemp("cvb") / "run"
    train, dev, test = files
    arguments = ["cvb", train, "--dev", dev, "--test", test, "--starts", 2, *OPTIONS, "--out", out]
    assert main(["reproduce", *map(str, arguments)]) == 0
    return out


@pytest.mark.parametrize("alpha", ["1", "0.1"])
@pytest.mark.parametrize("method", ["vb", "cvb", "hastings"])
def test_rows_are_the_librarys(method, alpha, folder, files):
    whole = Corpus.from_conllu(files[0], tags="xpos")
    dev = Corpus.from_conllu(files[1], tags="xpos", vocab=whole.vocab)
    grammar, words = DMV(len(whole.vocab)), whole.filter(10).words
    model = partial(dirichlet, grammar=grammar, concentration=float(alpha))
    start = grammar.initial_weights(words)
    with pyro.get_param_store().scope():
        if method == "hastings":
            loop = TreeHastings(model, initial_weights=start, seed=1)
            loop.run(words, num_steps=SWEEPS, burn_in=SWEEPS // 2, progress=False)
        else:
            loop = {"vb": VariationalEM, "cvb": CollapsedVB}[method](model, initial_weights=start)
            loop.run(words, num_steps=STEPS, tolerance=0, patience=9, held_out=dev.words, progress=False)
    found = load_file(folder / "starts" / f"{method}-{alpha}-001.safetensors")
    for block, expected in loop.weights().items():
        torch.testing.assert_close(found[f"weights.0.{block}"], expected, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(found["curve.objective"], torch.tensor(loop.history, dtype=torch.float64))


def test_the_table_says_what_was_done(folder):
    text = (folder / "table.md").read_text()
    assert text.startswith("# Directed accuracy in %: Wang and Blunsom (2013), Figure 6\n")
    assert f"second half of {SWEEPS} sweeps" in text and "hastings-0.1" in text
    for row in ("EM", "VB, α = 1", "CVB, α = 0.1", "Hastings, α = 1", "supervised DMV"):
        assert f"| {row} |" in text
    assert "cvb-1 − vb-1" in text and "hastings-0.1 − cvb-0.1" in text
    assert (folder / "curves.csv").read_text().count("hastings-1,") == 2 * SWEEPS


def test_a_second_corpus_is_refused(files, capsys):
    assert main(["reproduce", "cvb", files[0], files[1], "--dev", files[1]]) == 2
    assert "reproduce cvb takes one corpus" in capsys.readouterr().err
