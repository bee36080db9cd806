# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce --valences``: the library's numbers, kept with the run, and refused where it makes no sense."""

import json

import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.infer import VariationalEM
from pyrogram.models.dirichlet import dirichlet


@pytest.fixture
def learn(treebanks, tmp_path_factory, call):
    def run(*options):
        out = tmp_path_factory.mktemp("valences")
        given = ["--tags", "xpos", "--steps", 2, "--max-length", 6, "--out", out, *options]
        assert call("induce", treebanks.train, *given).status == 0
        return out, given

    return run


@pytest.mark.parametrize("valences, attach", [pytest.param(1, False, marks=pytest.mark.slow), (3, True)])
def test_weights_are_those_of_the_library(learn, treebanks, call, tmp_path, valences, attach):
    out, given = learn("--valences", valences, *(["--valence-attach"] if attach else []))
    corpus = Corpus.from_conllu(treebanks.train, tags="xpos")
    grammar = DMV(len(corpus.vocab), valence_attach=attach, num_valences=valences)
    loop = VariationalEM(dirichlet, initial_weights="harmonic")
    loop.run(corpus.filter(6).words, grammar, concentration=0.25, num_steps=2, progress=False)
    actual = load_file(out / "weights.safetensors")
    for name, expected in loop.weights().items():
        torch.testing.assert_close(actual[name], expected, rtol=1e-9, atol=1e-15)
    config = json.loads((out / "config.json").read_text())
    assert config["grammar"]["num_valences"] == config["settings"]["valences"] == valences
    # parse, sample and resume take the run as it is
    parsed = call("parse", out, treebanks.test, "--decoder", "viterbi")
    assert parsed.status == 0
    test = Corpus.from_conllu(treebanks.test, tags="xpos", vocab=corpus.vocab, unknown="most_frequent")
    smooth = {name: 0.9999 * w + 0.0001 / w.shape[-1] for name, w in actual.items()}
    heads = [[h for h in row if h >= 0] for row in grammar.derivation(smooth, test.words).argmax().tolist()]
    (tmp_path / "parsed.conllu").write_text(parsed.out)
    found = Corpus.from_conllu(tmp_path / "parsed.conllu", tags="xpos", vocab=corpus.vocab, unknown="most_frequent")
    assert [[h for h in row if h >= 0] for row in found.heads.tolist()] == heads
    assert call("sample", out, "--num", 2).status == 0
    again = call("induce", treebanks.train, *given)
    assert again.status == 0 and "which has 1 of 1 start" in again.err
    other = call("induce", treebanks.train, *given, "--valences", 2)
    assert other.status == 2 and f"valences {valences}, not 2" in " ".join(other.err.split())


def test_other_starts_and_knowledge_take_them(learn):
    for options in (["--init", "supervised"], ["--init", "random"], ["--knowledge", "discovered"], ["--starts", 2]):
        out, _ = learn("--valences", 3, "--valence-attach", "--steps", 2, *options)
        assert load_file(out / "weights.safetensors")["stop"].shape[2] == 3


def test_runs_from_before_have_two(learn, treebanks, call):
    out, _ = learn()
    config = json.loads((out / "config.json").read_text())
    assert config["grammar"].pop("num_valences") == 2
    before = call("parse", out, treebanks.test).out
    (out / "config.json").write_text(json.dumps(config))
    assert call("parse", out, treebanks.test).out == before
    config["grammar"]["num_valences"] = "2"
    (out / "config.json").write_text(json.dumps(config))
    refused = call("parse", out, treebanks.test)
    assert refused.status == 2 and "is not as pyrogram wrote it" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    "options, message",
    [
        (["--valences", 0], "greater than or equal to 1"),
        (["--valences", 1, "--valence-attach"], "give --valences 2 or more"),
        (["--valences", 3, "--knowledge", "languages"], "leave out --valences"),
        (["--valences", 3, "--model", "pcfg", "--grammar", "rules.cfg"], "--valences is for --model dmv"),
    ],
)
def test_refused(call, treebanks, tmp_path, options, message):
    (tmp_path / "rules.cfg").write_text("S -> 'NN' S | 'NN'\n")
    options = [tmp_path / "rules.cfg" if x == "rules.cfg" else x for x in options]
    result = call("induce", treebanks.train, *options)
    assert result.status == 2 and message in " ".join(result.err.split())
