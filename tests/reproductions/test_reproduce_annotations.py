# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce cvb`` of bracketed trees: its rows against the library's loops, its scores against hand's."""

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
from pyrogram.data.builtin import generate
from pyrogram.data.treebank import read_treebank
from pyrogram.infer import EM, CollapsedVB, VariationalEM
from pyrogram.metrics.constituents import parseval
from pyrogram.models import annotated_treebank
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg
from reproductions.annotations.experiment import Annotations, _Watch
from reproductions.annotations.notes import figure_7
from reproductions.annotations.treebank import Files
from reproductions.annotations.variable_cvb import VariableCVB
from reproductions.shared.store import Key, Result

pytestmark = pytest.mark.usefixtures("one_thread")
METHODS = {"em": EM, "vb": VariationalEM, "cvb": CollapsedVB, "variable-cvb": VariableCVB}
ROWS = ["base", *(f"{method}-{k}" for k in (2, 3) for method in METHODS)]
STEPS, SEED, ALPHA = 6, 3, 0.3
COMMON = ["--subtypes", "2, 3", "--steps", STEPS, "--seed", SEED, "--alpha", ALPHA, "--jobs", 1]
LONG = f"(S (NP (NN dog)) (VP {' '.join(['(VB sees)'] * 40)}))"
NEW = "(S (ODD (NN dog)) (VP (VBZ sleeps)))"


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    train, test = ([sentence.brackets for sentence in generate(*how)] for how in ((40, 0), (12, 2)))
    for name, trees in (("train", train), ("dev", [*train[5:17], NEW]), ("test", [*test, LONG])):
        (folder / f"{name}.mrg").write_text("\n".join(trees) + "\n")
    return SimpleNamespace(**{name: folder / f"{name}.mrg" for name in ("train", "dev", "test")})


@pytest.fixture(scope="module")
def command(bank):
    return ["reproduce", "cvb", bank.train, "--dev", bank.dev, "--test", bank.test, "--starts", 2, *COMMON]


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    out = tmp_path_factory.mktemp("cvb") / "run"
    assert main([str(a) for a in [*command, "--out", out]]) == 0
    return out


def results(folder):
    with open(folder / "results.csv", newline="") as file:
        return {(line["row"], int(line["start"])): line for line in csv.DictReader(file)}


def curve(folder, row, start, name):
    with open(folder / "curves.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if (line["row"], line["curve"]) == (row, name)]
    return [float(line["value"]) for line in lines if int(line["start"]) == start]


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    yield
    torch.set_default_dtype(torch.float32)


def learnt_by_hand(files, row, start, steps=STEPS, seed=SEED):
    """The library's own loop."""
    method, _, number = row.rpartition("-")
    bank = read_treebank(files.train, dev=files.dev, test=files.test)
    grammar, trees = annotated_treebank(bank.prepared("train"), int(number))
    held_out = []
    for tree in bank.prepared("dev"):
        try:
            held_out.append(grammar.cfg.derivation_of(tree))
        except ValueError:
            assert tree.pformat(margin=999).startswith("(S (ODD")
    dev = torch.nn.utils.rnn.pad_sequence(held_out, batch_first=True, padding_value=-1)
    begin = grammar.initial_weights(trees, "split", noise=0.01, seed=seed + start)
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=None if method == "em" else ALPHA)
    loop = METHODS[method](model, initial_weights=begin)
    loop.run(trees, num_steps=steps, tolerance=0, progress=False, held_out=dev, patience=99)
    return bank, grammar, loop


def scored_by_hand(bank, grammar, weights, part):
    """PARSEVAL of all sentences, those of at most 40 words among them."""
    words = grammar.cfg.encode(bank.sentences(part))
    rules = grammar.parse(weights, words, threshold=1e-4).rules
    trees = [grammar.cfg.tree(f, r) if r[0] >= 0 else None for f, r in zip(bank.forms(part), rules, strict=True)]
    return parseval(trees, bank.parts[part], bins=[40])[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("row", ROWS[1:])
def test_rows_are_those_of_the_library(run, bank, row, double):
    found = results(run)[row, 2]
    trees, grammar, loop = learnt_by_hand(bank, row, 2)
    assert curve(run, row, 2, "objective") == pytest.approx(loop.history, rel=1e-9)
    assert curve(run, row, 2, "held_out") == pytest.approx(loop.held_out_history, rel=1e-9)
    assert int(found["iterations"]) == STEPS
    b = scored_by_hand(trees, grammar, loop.weights(), "test")
    assert b.sentences == 12
    for name, value in (("precision", b.precision), ("recall", b.recall), ("f1", b.f1), ("exact", b.exact)):
        assert float(found[name]) == pytest.approx(value), name
    assert float(found["tagging"]) == pytest.approx(b.tagging)
    assert float(found["dev_f1"]) == pytest.approx(scored_by_hand(trees, grammar, loop.weights(), "dev").f1)
    assert float(found["seconds"]) > 0


def test_treebank_grammar(run, bank, double):
    trees = read_treebank(bank.train, dev=bank.dev, test=bank.test)
    grammar, _ = annotated_treebank(trees.prepared("train"), 1)
    b = scored_by_hand(trees, grammar, grammar.cfg.weights, "test")  # relative frequencies
    (found,) = [line for (row, _), line in results(run).items() if row == "base"]
    assert (float(found["f1"]), float(found["tagging"])) == pytest.approx((b.f1, b.tagging))
    assert found["unparsed"] == "0.0" and found["iterations"] == "0"


def test_table_notes_and_pictures(run, bank):
    text = (run / "table.md").read_text()
    found = results(run)
    assert list(dict.fromkeys(row for row, _ in found)) == ROWS
    numbers = [100 * float(found["cvb-2", start]["f1"]) for start in (1, 2)]
    (line,) = [line for line in text.splitlines() if line.startswith("| CVB, 2 subtypes |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[3] == f"{statistics.fmean(numbers):.1f} ± {statistics.stdev(numbers):.1f} (77.9)"
    assert cells[1].endswith("(78.8)") or cells[1].endswith("(78.9)")
    assert "(" not in next(line for line in text.splitlines() if line.startswith("| CVB, 3 subtypes |"))
    assert all(f"| {pair} |" in text for pair in ("cvb-2 − vb-2", "cvb-2 − em-2", "em-3 − base"))
    best = max((1, 2), key=lambda start: float(found["vb-3", start]["dev_f1"]))
    assert f"vb-3: {best} ({100 * float(found['vb-3', best]['f1']):.1f})" in text
    assert "α = 0.3" in text and "12 of 13 of dev.mrg" in text and "40 trees of train.mrg" in text
    assert "12 sentences of test.mrg" in text and "(so did em-2" in text
    kept = json.loads((run / "config.json").read_text())["settings"]
    assert kept["alpha"] == ALPHA and "subtypes" not in kept
    for name in ("curves", "subtypes"):
        assert "<svg" in (run / f"{name}.svg").read_text()


def test_figure(bank):
    files = Files(bank.train, bank.dev, bank.test, ())
    study = Annotations(files, (4, 2), 0, 0.1, 5, 0.0, 5, 1e-4)
    f1 = {("em-2", 1): 0.7, ("em-2", 2): 0.8, ("em-4", 1): 0.9, ("cvb-2", 1): 0.5, ("base", 1): 0.4}
    found = {Key(row, (0,), i): Result((), 1, math.nan, "", None, {"f1": v}) for (row, i), v in f1.items()}
    (ax,) = figure_7(study, found).axes
    drawn = {container.get_label(): list(container.lines[0].get_ydata()) for container in ax.containers}
    assert drawn == {"EM": pytest.approx([75, 90]), "CVB": pytest.approx([50])}
    (bar,) = [s for s in ax.containers[0].lines[2][0].get_segments() if s[0][1] != s[1][1]]
    assert bar[1][1] - bar[0][1] == pytest.approx(2 * statistics.stdev([70, 80]))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "4"]
    assert figure_7(study, {}) is None


def test_when_a_run_ends():
    def ends(held_out, objective, patience=3, tolerance=1e-3):
        watch = _Watch(tolerance, patience, lambda text: None)
        for n in range(1, len(held_out) + 1):
            if watch(SimpleNamespace(held_out_history=held_out[:n], history=objective[:n])):
                return n, watch.reason
        return None, watch.reason

    rising = [float(i) for i in range(-60, 0)]
    assert ends(rising, [-1e6 * 0.9**i for i in range(60)]) == (None, "")
    falling = rising[:30] + [-99.0] * 30
    assert ends(falling, rising) == (33, "held-out trees have not become more likely for 3 iterations")
    assert ends([-1.0, *[-2.0] * 59], rising)[0] == 20
    assert ends(rising, [-100.0] * 60) == (20, "the objective has changed by less than 0.001 of itself")
    assert ends(rising, [-100.0] * 60, tolerance=0.0)[0] == 20
    assert ends(rising, [*rising[:40], *[rising[40]] * 20], tolerance=0.0)[0] == 42


def test_a_long_run_goes_back_to_its_best_state(undrawn_here, bank, call, double, tmp_path):
    out = tmp_path / "run"
    dev = tmp_path / "dev.mrg"
    dev.write_text(bank.test.read_text() * 2)  # no other sentences, but not the same file
    files = ["--dev", dev, "--test", bank.test, "--rows", "em-2", "--starts", 1, "--out", out, "--jobs", 1]
    assert call("reproduce", "cvb", bank.train, *files, "--subtypes", "2", "--patience", 4).status == 0
    (found,) = results(out).values()
    held_out = curve(out, "em-2", 1, "held_out")
    best = held_out.index(max(held_out))
    assert found["stopped"].startswith("held-out trees") and len(held_out) == max(20, best + 5) < 100
    trees, grammar, loop = learnt_by_hand(bank, "em-2", 1, best + 1, 0)
    assert loop.history == pytest.approx(curve(out, "em-2", 1, "objective")[: best + 1], rel=1e-9)
    assert float(found["f1"]) == pytest.approx(scored_by_hand(trees, grammar, loop.weights(), "test").f1)


def without_times(folder):
    """All that was written, but for what a clock said."""
    tensors = {
        f"{path.name}:{name}": tensor.numpy().tobytes()
        for path in (folder / "starts").iterdir()
        for name, tensor in load_file(path).items()
    }
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in results(folder).values()]
    return tensors, lines, (folder / "config.json").read_bytes()


@pytest.mark.slow
def test_resume(run, command, call, tmp_path):
    """Finished starts stay as they are; one that is missing is made again, also in other processes."""
    again = tmp_path / "run"
    shutil.copytree(run, again)
    for name in ("table.md", "curves.csv", "curves.svg", "subtypes.svg", "results.csv"):
        (again / name).unlink()
    done = call(*command, "--out", again)
    assert done.status == 0 and "which has 17 of 17 starts of rows" in done.err
    files = {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
    assert all((again / name).read_bytes() == (run / name).read_bytes() for name in files)
    for name in ("cvb-2-002", "em-3-001"):
        (again / "starts" / f"{name}.safetensors").unlink()
    done = call(*command, "--jobs", 2, "--out", again)
    assert done.status == 0 and "which has 15 of 17 starts of rows" in done.err
    assert without_times(again) == without_times(run)


def test_more_subtypes_add_to_a_folder(undrawn_here, run, command, call, refused, tmp_path):
    again = tmp_path / "run"
    shutil.copytree(run, again)
    done = call(*command, "--subtypes", "4", "--rows", "base,em-4", "--out", again)
    assert done.status == 0 and "which has 1 of 3 starts of rows" in done.err
    assert results(again)["base", 1] == results(run)["base", 1]
    assert "alpha 0.3, not 0.2" in refused(*command, "--alpha", 0.2, "--out", again)
    assert "there is no row 'em-4'" in refused(*command, "--rows", "em-4")


@pytest.mark.parametrize("text", ["", "2,", "1", "two", "2;4", "-2", "2.0", "1000"])
def test_numbers_of_subtypes(refused, command, text):
    error = refused(*command, f"--subtypes={text}")
    assert f"--subtypes must be whole numbers from 2 to 999, separated by commas, not {text!r}" in error


def test_files_that_cannot_be_used(refused, bank, tmp_path):
    assert "give --test" in refused("reproduce", "cvb", bank.train, "--dev", bank.dev)
    assert "give --dev" in refused("reproduce", "cvb", bank.train, "--test", bank.test)
    both = ["--dev", bank.dev, "--test", bank.test]
    assert "one treebank" in refused("reproduce", "cvb", bank.train, bank.train, *both)
    assert "--alpha must be a positive number" in refused("reproduce", "cvb", bank.train, *both, "--alpha", 0)
    none = tmp_path / "none.mrg"
    assert "no such file" in refused("reproduce", "cvb", none, *both).lower()
    none.write_text("(S (NN a)\n")
    assert f"{none}, line 1" in refused("reproduce", "cvb", none, *both)
    none.write_text("")
    assert str(none) in refused("reproduce", "cvb", none, *both)
    none.write_text(LONG)
    assert "no sentence of at most 40 words" in refused(
        "reproduce", "cvb", bank.train, "--dev", bank.dev, "--test", none
    )
    none.write_text(NEW)
    error = refused("reproduce", "cvb", bank.train, "--dev", none, "--test", bank.test)
    assert f"no tree of {none} has only rules of {bank.train}" in error
