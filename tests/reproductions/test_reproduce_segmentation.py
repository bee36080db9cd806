# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce segmentation``: its rows against the library's sampler, its scores, and what is refused."""

import csv
import json

import pytest

from pyrogram.cli import main
from pyrogram.data import generated_utterances, read_utterances
from pyrogram.grammars import BigramSegmentation, UnigramSegmentation
from pyrogram.infer import SegmentationHastings
from pyrogram.models.word_segmentation import GOLDWATER, goldwater_temperatures, word_segmentation

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")
SWEEPS, SEED = 12, 3
ROWS = ("unigram", "bigram", "unigram-pitman-yor", "bigram-pitman-yor")


@pytest.fixture(scope="module")
def utterances(tmp_path_factory):
    path = tmp_path_factory.mktemp("segmentation") / "utterances.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in generated_utterances(30).segments), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(undrawn, utterances, tmp_path_factory):
    out = tmp_path_factory.mktemp("segmentation") / "run"
    options = ["--starts", 2, "--sweeps", SWEEPS, "--seed", SEED, "--jobs", 1, "--out", out]
    assert main([str(a) for a in ["reproduce", "segmentation", utterances, *options]]) == 0
    return out


def results(folder):
    with open(folder / "results.csv", newline="") as file:
        return {(line["row"], int(line["start"])): line for line in csv.DictReader(file)}


def f1(predicted, gold):
    """Of words as spans of symbols, and of the words themselves."""

    def spans(segments):
        ends = [0]
        for word in segments:
            ends.append(ends[-1] + len(word))
        return set(zip(ends, ends[1:], strict=False))

    right = sum(len(spans(p) & spans(g)) for p, g in zip(predicted, gold, strict=True))
    tokens = 2 * right / (sum(map(len, predicted)) + sum(map(len, gold)))
    types = [{word for words in corpus for word in words} for corpus in (predicted, gold)]
    return tokens, 2 * len(types[0] & types[1]) / sum(map(len, types))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("row", ROWS)
def test_rows_are_chains_of_the_library(run, utterances, row):
    corpus = read_utterances(utterances)
    kind = BigramSegmentation if "bigram" in row else UnigramSegmentation
    grammar = kind("".join(corpus.forms), max_length=15)
    encoded = grammar.encode(corpus.forms)
    is_dirichlet = "pitman" not in row
    prior, fixed = ("dirichlet", GOLDWATER[grammar.num_levels]) if is_dirichlet else ("pitman-yor", {})
    for start in (1, 2):
        temperatures = goldwater_temperatures(SWEEPS)
        sampler = SegmentationHastings(word_segmentation, temperatures=temperatures, seed=SEED + start)
        sampler.run(encoded, grammar, prior, num_steps=SWEEPS, progress=False, **fixed)
        found = results(run)[row, start]
        tokens, lexicon = f1(sampler.segments(), corpus.segments)
        assert float(found["token_f1"]) == pytest.approx(tokens)
        assert float(found["lexicon_f1"]) == pytest.approx(lexicon)
        assert float(found["log_joint"]) == pytest.approx(sampler.log_joint)
        assert float(found["acceptance"]) == pytest.approx(sampler.acceptance)
        assert bool(found["gold_log_joint"]) == is_dirichlet


def test_the_table_has_the_published_figures(run):
    text = (run / "table.md").read_text()
    for figure in ("53.8", "74.3", "57.2", "72.3", "85.2", "59.1", "30 utterances", "Chains of a row: 2"):
        assert figure in text
    assert json.loads((run / "config.json").read_text())["settings"]["table"] == "segmentation"


def test_other_files_and_options_are_refused(utterances, capsys):
    for options, message in (
        (["--test", utterances], "leave out --test"),
        (["--steps", 3], "--steps plays no part in reproduce segmentation"),
        (["--rows", "trigram"], "trigram"),
    ):
        assert main([str(a) for a in ["reproduce", "segmentation", utterances, *options]]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
