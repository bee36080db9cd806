# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce cvb`` of segmented words: its rows against the library's loops, its scores against hand's."""

import csv
import json
import math
import shutil
import statistics
from functools import partial
from types import SimpleNamespace

import pyro
import pytest
import torch
from safetensors.torch import load_file

from pyrogram.cli import main
from pyrogram.data import generated_verbs, read_morphs
from pyrogram.infer import EM, CollapsedVB, TreeHastings, VariationalEM
from pyrogram.metrics import closest_segmentations, segmentation_scores
from pyrogram.models import maximum_likelihood
from pyrogram.models import morphology as m
from reproductions.morphology import experiment as morphology
from reproductions.shared import tables as trial_tables
from reproductions.shared.experiment import Measure
from reproductions.shared.store import Key, Result

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS = ("em", "vb", "cvb", "hastings")
STEPS, SWEEPS, SEED = 4, 24, 3
COMMON = ["--steps", STEPS, "--sweeps", SWEEPS, "--seed", SEED, "--jobs", 1]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("verbs") / "verbs.tsv"
    rows = [f"{''.join(morphs)}\t{' '.join(morphs)}\n" for morphs in generated_verbs(40, num_roots=5)]
    rows[0] = rows[0].rstrip() + ", " + " ".join(rows[0].split("\t")[0]) + "\n"  # letters are another segmentation
    path.write_text("".join(rows))
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("cvb") / "run"
    assert main([str(a) for a in ["reproduce", "cvb", table, "--starts", 2, *COMMON, "--out", out]]) == 0
    return out


def results(folder):
    with open(folder / "results.csv", newline="") as file:
        return {(line["row"], int(line["start"])): line for line in csv.DictReader(file)}


def curve(folder, row, start, name):
    """Its points by iteration."""
    with open(folder / "curves.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["row"] == row and line["curve"] == name]
    return {int(line["iteration"]): float(line["value"]) for line in lines if int(line["start"]) == start}


def by_hand(table, row, start):
    """The run of a row: the loop, the grammar, and words that it has and has not seen."""
    corpus = read_morphs(table)
    train, test = corpus.split(0.1, SEED)
    grammar = m.verb_grammar(corpus.forms)
    words = m.encode(grammar, train.forms)
    begin = m.random_start(grammar, words, seed=SEED + start)
    model = partial(m.morphology, concentration=1e-5)
    options = {"num_steps": STEPS, "tolerance": 1e-6}
    if row == "em":
        loop = EM(partial(maximum_likelihood, initial_weights=begin), initial_weights=begin)
    elif row == "hastings":
        loop = TreeHastings(model, initial_weights=begin, seed=SEED + start, keep_parts=False)
        options = {"num_steps": SWEEPS, "burn_in": SWEEPS // 2}
    else:
        loop = {"vb": VariationalEM, "cvb": CollapsedVB}[row](model, initial_weights=begin)
    with pyro.get_param_store().scope():
        loop.run(words, grammar, progress=False, **options)
    return SimpleNamespace(loop=loop, grammar=grammar, train=train, test=test)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_what_the_librarys_loop_gives(row, run, table):
    for start in (1, 2):
        made = by_hand(table, row, start)
        found = results(run)[row, start]
        weights = made.loop.weights()
        saved = load_file(run / "starts" / f"{row}-{start:03d}.safetensors")
        torch.testing.assert_close(saved["weights.0.rules"], weights["rules"], rtol=1e-9, atol=1e-300)
        assert float(found["perplexity"]) == pytest.approx(m.form_perplexity(made.grammar, weights, made.test.forms))
        for name, part in (("test", made.test), ("train", made.train)):
            guessed = m.segment(made.grammar, weights, part.forms)
            scores = segmentation_scores(guessed, closest_segmentations(guessed, part.alternatives))
            for kind, agreement in (("token", scores.token), ("boundary", scores.boundary), ("type", scores.type)):
                assert found[f"{kind}_f1_{name}"] == ("" if agreement.f1 is None else str(agreement.f1))
            assert float(found[f"exact_{name}"]) == scores.exact
        assert curve(run, row, start, "objective") == pytest.approx(dict(enumerate(made.loop.history, 1)))
        assert int(found["iterations"]) == len(made.loop.history) and found["stopped"] == made.loop.stopped
        acceptance = str(made.loop.acceptance) if row == "hastings" else ""
        assert found["acceptance"] == acceptance
    assert curve(run, row, 1, "objective") != curve(run, row, 2, "objective")


def test_perplexity_by_hand():
    """Two letters, of which every derivation and its probability can be written down."""
    grammar = m.verb_grammar(["ab"])
    rules = {(left, "".join(right)): event for event, (left, right) in enumerate(grammar.rules)}
    weights = torch.zeros(len(grammar.rules))
    for rule, p in {("Word", "V"): 0.25, ("Word", "VM"): 0.75, ("V", "ab"): 0.5, ("V", "a"): 0.5}.items():
        weights[rules[rule]] = p
    weights[rules["M", "b"]] = 0.2
    words = m.encode(grammar, ["ab", "ab", "a"])
    watch = morphology._Watch(grammar, words, 5, False, lambda text: None)
    watch.begin()
    watch(SimpleNamespace(history=[0.0], weights=lambda: {"rules": weights}))
    ab, a = 0.25 * 0.5 + 0.75 * 0.5 * 0.2, 0.25 * 0.5
    assert watch.curves()["perplexity"] == pytest.approx(((ab * ab * a) ** (-1 / 3),))


def test_the_clock_stands_still_while_scores_are_computed(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(morphology.time, "process_time", lambda: now[0])

    def evaluate(log_probs):
        now[0] += 1000
        return 7.0

    monkeypatch.setattr(morphology, "perplexity", evaluate)
    monkeypatch.setattr(morphology, "_log_probs", lambda *_: None)
    watch = morphology._Watch(None, None, 3, False, lambda text: None)
    watch.begin()
    for number in (1, 2, 3):
        now[0] += 2
        watch(SimpleNamespace(history=[0.0] * number, weights=dict))
    assert watch.curves() == {"seconds": (2, 4, 6), "perplexity": (7, 7, 7)} and watch.seconds == 6


def test_curves(run, table):
    """Perplexity after every iteration; of a chain after its first ten, every hundredth part of it and the last."""
    for row, start in results(run):
        found = curve(run, row, start, "perplexity")
        iterations = SWEEPS if row == "hastings" else STEPS
        assert list(found) == list(range(1, iterations + 1))
        assert found[iterations] == float(results(run)[row, start]["perplexity"])
        seconds = list(curve(run, row, start, "seconds").values())
        assert len(seconds) == iterations and 0 < seconds[0] and sorted(seconds) == seconds
        assert seconds[-1] == float(results(run)[row, start]["seconds"])
    long = morphology._Watch(None, None, 1000, True, lambda text: None)
    assert [n for n in range(1, 1001) if long._due(n)] == [*range(1, 11), *range(20, 1001, 10)]
    odd = morphology._Watch(None, None, 257, True, lambda text: None)
    assert [n for n in range(1, 258) if odd._due(n)] == [*range(1, 11), *range(12, 257, 2), 257]
    early = by_hand(table, "hastings", 1)
    early.loop = TreeHastings(
        early.loop.model, initial_weights=early.loop.initial_weights, seed=SEED + 1, keep_parts=False
    )
    words = m.encode(early.grammar, early.train.forms)
    early.loop.run(words, early.grammar, num_steps=5, burn_in=SWEEPS // 2, progress=False)
    now = m.form_perplexity(early.grammar, early.loop.weights(), early.test.forms)
    assert curve(run, "hastings", 1, "perplexity")[5] == pytest.approx(now)


def test_table_and_notes(run):
    text = (run / "table.md").read_text()
    found = results(run)
    numbers = [100 * float(found["cvb", start]["token_f1_test"]) for start in (1, 2)]
    mean, spread = statistics.fmean(numbers), statistics.stdev(numbers)
    (line,) = [line for line in text.splitlines() if line.startswith("| CVB |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2] == f"{mean:.1f} ± {spread:.1f} (29.8)" and cells[7] == f"{STEPS} ± 0"
    assert cells[6].endswith("(90.0)")
    corpus = generated_verbs(40, num_roots=5)
    pieces = {form[i:k] for form in corpus.forms for i in range(len(form)) for k in range(i + 1, len(form) + 1)}
    assert f"the {len(pieces):,} substrings" in text and f"{5 + 5 * len(pieces):,} rules" in text
    assert "36 words of verbs.tsv" in text and "Another 4, 10 % of the types" in text and "α = 1e-05" in text
    rates = [float(found["hastings", start]["acceptance"]) for start in (1, 2)]
    assert f"second half of {SWEEPS} sweeps; {100 * statistics.fmean(rates):.1f} % of the proposals" in text
    assert "or after 4 iterations (so did em, vb, cvb)" in text and "Sotho" in text
    assert json.loads((run / "config.json").read_text())["settings"]["alpha"] == 1e-5
    assert "<svg" in (run / "curves.svg").read_text()


def without_times(folder):
    """All that was written, but for what a clock said."""
    tensors = {
        f"{path.name}:{name}": tensor.numpy().tobytes()
        for path in (folder / "starts").iterdir()
        for name, tensor in load_file(path).items()
        if name != "curve.seconds"
    }
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in results(folder).values()]
    return tensors, lines, (folder / "config.json").read_bytes()


@pytest.mark.slow
def test_resume(run, table, call, tmp_path):
    """Finished starts stay as they are; one that is missing is made again, also in other processes."""
    again = tmp_path / "run"
    shutil.copytree(run, again)
    for name in ("table.md", "curves.csv", "curves.svg", "results.csv"):
        (again / name).unlink()
    command = ["reproduce", "cvb", table, "--starts", 2, *COMMON, "--out", again]
    done = call(*command)
    assert done.status == 0 and "which has 8 of 8 starts of rows" in done.err
    files = {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
    assert all((again / name).read_bytes() == (run / name).read_bytes() for name in files)
    for name in ("cvb-002", "hastings-001"):
        (again / "starts" / f"{name}.safetensors").unlink()
    done = call(*command, "--jobs", 2)
    assert done.status == 0 and "which has 6 of 8 starts of rows" in done.err
    assert without_times(again) == without_times(run)


def test_rows_and_other_settings(undrawn_here, run, table, call, refused, tmp_path):
    few = call("reproduce", "cvb", table, "--rows", "cvb", "--starts", 1, *COMMON, "--out", tmp_path / "few")
    assert few.status == 0 and "Hastings" not in few.out.splitlines()[4]
    assert results(tmp_path / "few")["cvb", 1]["perplexity"] == results(run)["cvb", 1]["perplexity"]
    assert "only em, vb, cvb, hastings" in refused("reproduce", "cvb", table, "--rows", "gibbs")
    more = refused("reproduce", "cvb", table, *COMMON, "--sweeps", 30, "--out", run)
    assert f"sweeps {SWEEPS}, not 30" in more
    # What only other experiments use is not passed over in silence.
    for option in ("--subtypes", "--max-length"):
        error = refused("reproduce", "cvb", table, *COMMON, option, "2", "--out", run)
        assert f"{option} plays no part in reproduce cvb with segmented words" in error


def test_files_that_cannot_be_used(refused, table, tmp_path):
    path = tmp_path / "bad.tsv"
    path.write_text("aba\ta ba\nbab\tb a\n")
    error = refused("reproduce", "cvb", path)
    assert f"{path}, line 2: the morphs 'b a' do not make up the word 'bab'" in error
    path.write_text("aba\ta ba\n\nbab\n")
    assert f"{path}, line 3: expected the columns word, morphs and labels" in refused("reproduce", "cvb", path)
    path.write_text("\n")
    assert f"{path}, line 1: the file is empty" in refused("reproduce", "cvb", path)
    assert "no such file" in refused("reproduce", "cvb", tmp_path / "none.tsv")
    path.write_text("aba\ta ba\nbab\tb ab\n")
    assert f"{path} has 2 different words, too few to hold out 10 % of them" in refused("reproduce", "cvb", path)
    assert "leave out --dev and --test" in refused("reproduce", "cvb", table, "--dev", table, "--test", table)
    assert "leave out TRAIN2" in refused("reproduce", "cvb", table, table)


def test_numbers_of_any_size():
    def cell(*numbers):
        study = SimpleNamespace(experiment=SimpleNamespace(published={}))
        metrics = {Key("em", (0,), i): {"perplexity": v} for i, v in enumerate(numbers, 1)}
        found = {key: Result((), 1, math.nan, "", None, scores) for key, scores in metrics.items()}
        return trial_tables.cell(study, found, "em", Measure("perplexity", "perplexity", digits=0))

    assert cell(1234.0) == "1,234"
    assert cell(1000.0, 2000.0) == "1,500 ± 707"
    assert cell(8e134, 2e134) == "5.0e+134 ± 4.2e+134"
    assert cell(1e308, 1e308) == "1.0e+308 ± 0.0e+00"
    assert cell(8e6, 8.2e6) == "8.1e+06 ± 1.4e+05"
    assert cell(math.inf, 3.0) == "∞"
    assert cell(math.nan, 3.0) == "3"
    assert cell(0.0, 0.0) == "0 ± 0"
    assert cell(math.nan) == ""
