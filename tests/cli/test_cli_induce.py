# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce``: its numbers against the library's, and against what its own files say."""

import csv
import json
import math
import re
import statistics
from functools import partial
from pathlib import Path

import pyro
import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

WEIGHTS = "weights.safetensors"


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def heads_in(path: Path) -> list[list[int]]:
    """Heads of a CoNLL-U file without punctuation, read without our reader."""
    blocks = path.read_text().strip().split("\n\n")
    return [[int(line.split("\t")[6]) for line in b.splitlines() if not line.startswith("#")] for b in blocks]


def accuracy(predicted, gold, bound=math.inf, undirected=False):
    right = total = 0
    for h, g in zip(predicted, gold, strict=True):
        if len(g) > bound:
            continue
        for c in range(len(g)):
            right += h[c] == g[c] or (undirected and h[c] > 0 and g[h[c] - 1] == c + 1)
            total += 1
    return right / total


def result(table, system, decoder, max_length, column, start=""):
    (row,) = (
        r
        for r in table
        if (r["system"], r["decoder"], r["max_length"]) == (system, decoder, str(max_length))
        and start in ("", r["start"])
    )
    return float(row[column])


def test_the_folder_has_everything(run_folder):
    names = {p.relative_to(run_folder).as_posix() for p in run_folder.rglob("*") if p.is_file()}
    starts = {f"starts/{i:03d}.safetensors" for i in (1, 2, 3)}
    files = {
        "config.json",
        WEIGHTS,
        "parses.conllu",
        "curve.csv",
        "curve.svg",
        "results.csv",
        "results.md",
        "README.md",
    }
    assert names == files | starts
    config = json.loads((run_folder / "config.json").read_text())
    assert config["settings"]["method"] == "vb" and config["settings"]["alpha"] == 0.25
    for w in load_file(run_folder / WEIGHTS).values():
        assert w.dtype == torch.float64
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]))


def test_the_vocabulary_is_that_of_the_whole_file(run_folder, treebanks):
    tags = [line.split("\t")[4] for line in treebanks.train.read_text().splitlines() if line and line[0] != "#"]
    pairs = json.loads((run_folder / "config.json").read_text())["vocabulary"]
    assert dict(pairs) == {tag: tags.count(tag) for tag in tags}


def test_scores_are_those_of_the_parses(run_folder, treebanks):
    table = rows(run_folder / "results.csv")
    predicted, gold = heads_in(run_folder / "parses.conllu"), heads_in(treebanks.test)
    for name, bound in (("10", 10), ("20", 20), ("all", math.inf)):
        assert result(table, "selected", "mbr", name, "directed") == accuracy(predicted, gold, bound)
        assert result(table, "selected", "mbr", name, "undirected") == accuracy(predicted, gold, bound, True)
    right = [[c + 1 for c in range(1, len(g))] + [0] for g in gold]
    left = [list(range(len(g))) for g in gold]
    for decoder in ("viterbi", "mbr"):
        assert result(table, "attach-right", decoder, "all", "directed") == accuracy(right, gold)
        assert result(table, "attach-left", decoder, 10, "directed") == accuracy(left, gold, 10)


def test_mean_and_deviation(run_folder):
    table = rows(run_folder / "results.csv")
    values = [100 * result(table, "start", "mbr", "all", "directed", str(i)) for i in (1, 2, 3)]
    line = next(line for line in (run_folder / "results.md").read_text().splitlines() if "mean of 3" in line)
    expected = f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
    assert line.split("|")[-2].strip() == expected


def test_the_selected_start_has_the_best_objective(run_folder):
    curve = rows(run_folder / "curve.csv")
    last = {r["start"]: float(r["objective"]) for r in curve}
    selected = json.loads((run_folder / "config.json").read_text())["selected"]
    assert str(selected["start"]) == max(last, key=last.__getitem__)
    assert selected["value"] == max(last.values())
    assert selected["by"] == "evidence lower bound"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("method", ["em", "em-map", "vb", "vb-em", "cvb", "hastings", "gibbs"])
def test_weights_are_the_librarys(method, call, treebanks, tmp_path):
    out = tmp_path / "run"
    done = call("induce", treebanks.train, "--tags", "xpos", "--method", method, "--steps", 4, "--out", out)
    assert done.status == 0
    corpus = Corpus.from_conllu(treebanks.train, tags="xpos")
    grammar = DMV(len(corpus.vocab))
    words = corpus.filter(10).words
    if method == "em":
        loop = EM(partial(maximum_likelihood, grammar=grammar))
    else:
        alpha = 1.1 if method == "em-map" else 0.25
        model = partial(dirichlet, grammar=grammar, concentration=alpha, learn=method == "vb-em")
        kinds = {"em-map": EM, "cvb": CollapsedVB}
        if sampler := {"hastings": TreeHastings, "gibbs": TreeGibbs}.get(method):
            kinds[method] = partial(sampler, seed=1)  # of the first start
        loop = kinds.get(method, VariationalEM)(model, initial_weights="harmonic")
    loop.run(words, num_steps=4, progress=False, **({"burn_in": 2} if method in ("hastings", "gibbs") else {}))
    actual = load_file(out / WEIGHTS)
    for name, expected in loop.weights().items():
        torch.testing.assert_close(actual[name], expected, rtol=1e-9, atol=1e-15)
    objective = [float(r["objective"]) for r in rows(out / "curve.csv")]
    assert objective == pytest.approx(loop.history, rel=1e-12)


def test_starts_are_those_of_the_initialisers():
    from pyrogram.cli.runs.settings import Settings
    from pyrogram.cli.runs.starts import noiseless_start, start_weights

    words = torch.tensor([[0, 1, 2, -1], [2, 0, 1, 1]])
    grammar = DMV(3)
    given = dict(
        method="em", tags="xpos", max_length=10, starts=3, seed=7, alpha=None, stops="half", distance=0.5, noise=0.2,
        steps=1, tolerance=0.0, patience=1, valence_attach=False, smoothing=1e-4, unknown="error",
    )  # fmt: skip
    harmonic = Settings(**given, init="harmonic")
    plain = noiseless_start(harmonic, grammar, words, None)
    for number, options in ((1, {}), (3, {"noise": 0.2, "seed": 10})):
        actual = start_weights(harmonic, grammar, words, plain, number)
        expected = grammar.initial_weights(words, "harmonic", stops="half", distance=0.5, **options)
        for name in grammar.blocks:
            torch.testing.assert_close(actual[name], expected[name])
    drawn = start_weights(Settings(**given, init="random"), grammar, words, None, 1)
    torch.testing.assert_close(drawn, grammar.initial_weights(words, "random", seed=8))


def test_early_stopping_takes_the_best_held_out_state(call, treebanks, tmp_path):
    out = tmp_path / "run"
    options = ["--tags", "xpos", "--dev", treebanks.dev, "--method", "em", "--starts", 2, "--patience", 2, "--out", out]
    assert call("induce", treebanks.train, *options).status == 0
    curve = rows(out / "curve.csv")
    held_out = {s: [float(r["held_out"]) for r in curve if r["start"] == s] for s in "12"}
    for values in held_out.values():
        assert len(values) == values.index(max(values)) + 3
    selected = json.loads((out / "config.json").read_text())["selected"]
    assert selected["value"] == max(map(max, held_out.values()))
    assert max(held_out[str(selected["start"])]) == selected["value"]
    # the weights saved give that likelihood
    vocab = Corpus.from_conllu(treebanks.train, tags="xpos").vocab
    dev = Corpus.from_conllu(treebanks.dev, tags="xpos", vocab=vocab).filter(10)
    weights = load_file(out / WEIGHTS)
    logs = {k: (0.9999 * w + 0.0001 / w.shape[-1]).log() for k, w in weights.items()}
    assert float(DMV(len(vocab)).log_partition(logs, dev.words).sum()) == pytest.approx(selected["value"], rel=1e-12)
    assert "also decided when to stop" in (out / "results.md").read_text()


def test_supervised_row(call, treebanks, tmp_path):
    out = tmp_path / "run"
    call("induce", treebanks.train, "--tags", "xpos", "--steps", 1, "--max-length", 8, "--out", out)
    corpus = Corpus.from_conllu(treebanks.train, tags="xpos")
    short = corpus.filter(8)
    grammar = DMV(len(corpus.vocab))
    gold = grammar.initial_weights(short.words, "supervised", heads=short.heads)
    mixed = {k: 0.9999 * w + 0.0001 / w.shape[-1] for k, w in gold.items()}
    heads = [
        grammar.derivation(mixed, corpus.words[i, :n]).argmax().tolist() for i, n in enumerate(corpus.lengths.tolist())
    ]
    actual = result(rows(out / "results.csv"), "supervised", "viterbi", "all", "directed")
    assert actual == accuracy(heads, heads_in(treebanks.train))


def test_without_gold_heads_there_is_only_likelihood(call, tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("DT NN VBZ\nNN VBZ\nDT NN VBZ DT NN\n" * 5)
    out = tmp_path / "run"
    done = call("induce", path, "--starts", 2, "--steps", 5, "--out", out)
    assert done.status == 0
    assert "log-likelihood per word" in done.out and "accuracy" not in done.out and "attach" not in done.out
    table = rows(out / "results.csv")
    assert {r["system"] for r in table} == {"selected", "start"}
    assert all(r["directed"] == "" for r in table)
    words = Corpus.from_tags(path).words
    logs = {k: (0.9999 * w + 0.0001 / w.shape[-1]).log() for k, w in load_file(out / WEIGHTS).items()}
    expected = float(DMV(3).log_partition(logs, words).sum()) / (10 * 5)
    assert result(table, "selected", "mbr", "all", "log_likelihood_per_word") == pytest.approx(expected, rel=1e-12)


def test_a_start_of_density_zero(call, treebanks, tmp_path):
    """em-map from weights of zero: the first objective is -inf, which JSON cannot say; the next is finite."""
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    notes = {}
    for steps in (1, 2):
        folder = tmp_path / str(steps)
        options = ["--tags", "xpos", "--method", "em-map", "--starts", 2, "--steps", steps, "--out", folder]
        done = call("induce", treebanks.train, *options)
        assert done.status == 0
        notes[steps] = " ".join(done.out.split())
        curve = [float(row["objective"]) for row in rows(folder / "curve.csv") if row["start"] == "1"]
        assert [math.isfinite(value) for value in curve] == [False, True][:steps]
        value = json.loads((folder / "config.json").read_text(), **strict)["selected"]["value"]
        assert value == (None if steps == 1 else max(value, curve[-1]))
        assert call("parse", folder, treebanks.test).status == 0
    assert "no start has come to a finite log posterior density, so the first stands for all" in notes[1]
    assert "has the best log posterior density of the 2 starts" in notes[2]


def test_rank_correlation():
    from pyrogram.metrics.significance import rank_correlation

    stats = pytest.importorskip("scipy.stats")
    x, y = [3.0, 1.0, 2.0, 2.0, 5.0], [0.1, 0.4, 0.4, 0.2, 0.9]
    assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) is None


def test_five_starts_are_correlated(call, treebanks):
    done = call("induce", treebanks.train, "--tags", "xpos", "--steps", 2, "--starts", 5, "--init", "random")
    assert "rank correlation" in " ".join(done.out.split())


def test_nothing_is_written_without_out(call, treebanks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("induce", treebanks.train, "--tags", "xpos", "--steps", 2)
    assert done.status == 0 and "Nothing was written; --out" in done.out
    assert "\x1b" not in done.out + done.err
    assert list(tmp_path.iterdir()) == []


def test_no_global_state_is_left(call, treebanks):
    torch.set_default_dtype(torch.float32)
    pyro.param("mine", torch.ones(()))
    call("induce", treebanks.train, "--tags", "xpos", "--method", "em", "--steps", 2)
    assert torch.get_default_dtype() == torch.float32
    assert list(pyro.get_param_store()) == ["mine"]


def test_demo(call, tmp_path):
    done = call("induce", "--demo", "--steps", 20, "--starts", 2, "--out", tmp_path / "run")
    assert done.status == 0
    for expected in ("attach-right", "supervised DMV", "vb, start", "mean of 2 starts", "How it parses", "╰─"):
        assert expected in done.out
    assert (tmp_path / "run" / "sentence.svg").read_text().startswith("<svg")
    sentence = re.search(r'How it parses "(.*)":', done.out)[1].split()
    corpus = Corpus.builtin(250, seed=1, vocab=Corpus.builtin(1000).vocab)
    i = next(i for i in range(len(corpus.lengths)) if list(corpus.sentences[i].forms) == sentence)
    gold, ours = corpus.heads[i, : len(sentence)].tolist(), heads_in(tmp_path / "run" / "parses.conllu")[i]
    wrong = [g for g, h in zip(gold, ours, strict=True) if g != h]
    assert wrong and [int(k) for k in re.findall(r"gold head: \S+ \((\d+)\)", done.out)] == wrong


@pytest.mark.parametrize("suffix", ["conllu", "mrg"])
def test_shared_corpora(suffix, call, shared_data):
    train, test = (shared_data / "wsj-sample" / f"{part}.{suffix}" for part in ("dev", "test"))
    done = call("induce", train, "--test", test, "--tags", "xpos", "--steps", 3)
    assert done.status == 0
    line = next(line for line in done.out.splitlines() if line.split()[:1] == ["attach-right"])
    gold = heads_in(shared_data / "wsj-sample" / "test.conllu")
    right = [[*range(2, len(g) + 1), 0] for g in gold]
    expected = [f"{100 * accuracy(right, gold, bound):.1f}" for bound in (10, 20, 40, math.inf)]
    assert line.split()[2::2] == expected
