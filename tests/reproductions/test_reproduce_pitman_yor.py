# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce pitman-yor``: its rows against the library, its scores against those by hand, its pictures."""

import csv
import json
import shutil
from collections import Counter, defaultdict
from functools import partial

import pytest
import torch
from safetensors.torch import load_file

from pyrogram.cli import main
from pyrogram.cli.runs.starts import double_precision
from pyrogram.data import Corpus
from pyrogram.data.lexical import CASES, LexicalCorpus
from pyrogram.grammars import LexicalDependencies
from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor
from pyrogram.infer import PitmanYorSampler
from pyrogram.models import observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency
from reproductions.pitman_yor.experiment import PitmanYorTable, read_experiment
from reproductions.pitman_yor.pictures import all_pictures
from reproductions.shared.experiment import TrialStudy
from reproductions.shared.settings import TrialSettings
from reproductions.shared.store import Key, unpack_learnt

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS, SEED = 2, 4
ROWS = ("dirichlet-fixed-minimal", "dirichlet-sampled-minimal", "pitman-yor-fixed-minimal")
ROWS += ("pitman-yor-sampled-minimal", "dirichlet-fixed-exact")
ONE = ("dirichlet-fixed-minimal", "pitman-yor-fixed-minimal")


def treebank(path, number, seed):
    """Sentences of the built-in corpus, the first word with a capital, each with a full stop and some with a comma."""
    lines = []
    for i, record in enumerate(Corpus.builtin(number, seed=seed)):
        root = record.heads.index(0) + 1
        forms = [record.forms[0].capitalize(), *record.forms[1:]]
        rows = [(f, "X", x, h) for f, x, h in zip(forms, record.xpos, record.heads, strict=True)]
        rows += [(",", "PUNCT", ",", root)] * (i % 3 == 0) + [(".", "PUNCT", ".", root)]
        lines += [
            "\t".join([str(j), f, "_", u, x, "_", str(h), "_", "_", "_"]) for j, (f, u, x, h) in enumerate(rows, 1)
        ]
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pitman-yor")
    return treebank(folder / "train.conllu", 40, 0), treebank(folder / "test.conllu", 20, 1)


@pytest.fixture(scope="module")
def command(banks):
    options = ["--starts", 2, "--steps", STEPS, "--seed", SEED, "--jobs", 1, "--rows", ",".join(ROWS)]
    return ["reproduce", "pitman-yor", banks[0], "--test", banks[1], *options]


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    out = tmp_path_factory.mktemp("pitman-yor") / "run"
    assert main([str(a) for a in [*command, "--out", out]]) == 0
    return out


@pytest.fixture
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def results(folder):
    with open(folder / "results.csv", newline="") as file:
        return {(line["row"], int(line["start"])): line for line in csv.DictReader(file)}


def corpora(banks):
    train = Corpus.from_conllu(banks[0], tags="xpos", punctuation="keep")
    test = Corpus.from_conllu(banks[1], tags="xpos", punctuation="keep", vocab=train.vocab)
    ours = LexicalCorpus.from_corpus(train)
    return ours, LexicalCorpus.from_corpus(test, like=ours)


def right_heads(heads, corpus, longest=None):
    """Right heads of words that are no punctuation, of each sentence with at most so many of them; and those words."""
    right, words = [], 0
    for tree, gold, record in zip(heads.tolist(), corpus.heads.tolist(), corpus.corpus, strict=True):
        scored = [i for i, upos in enumerate(record.upos) if upos != "PUNCT"]
        if longest is None or len(scored) <= longest:
            right.append(sum(tree[i] == gold[i] for i in scored))
            words += len(scored)
    return right, words


def accuracy(heads, corpus, longest=None):
    right, words = right_heads(heads, corpus, longest)
    return sum(right) / words


def test_rows(run):
    assert set(results(run)) == {(row, i) for row in ROWS for i in ((1,) if row in ONE else (1, 2))}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("row", ROWS)
def test_rows_are_those_of_the_library(run, banks, row, double):
    train, test = corpora(banks)
    prior, _, paths = row.rpartition("-")
    grammar = LexicalDependencies(len(train.tag_vocab), len(train.lexicon))
    events = observed_events(grammar.events(train.tags, train.words, train.cases, train.heads))
    for start in (1,) if row in ONE else (1, 2):
        chain = PitmanYorSampler(partial(pitman_yor_dependency, prior=prior, paths=paths), seed=SEED + start)
        chain.run(*events, grammar.num_values, num_steps=1 if row in ONE else STEPS, progress=False)
        predict = {
            s: PitmanYorPredictor(chain.restaurants[s], chain.concentration[s], chain.discount[s]) for s in events[0]
        }
        parser, sentences = LexicalParser(grammar, predict), (test.tags, test.words, test.cases)
        parsed = parser.parse(*sentences)
        sampled = parser.sample(*sentences, 10, torch.Generator().manual_seed(SEED + start))
        found = results(run)[row, start]
        for bound, name in ((None, ""), (10, "_10"), (20, "_20"), (40, "_40")):
            for metric, decoder in (("probable", "viterbi"), ("mbr", "mbr")):
                expected = accuracy(parsed.heads[decoder], test, bound)
                assert float(found[f"{metric}{name}"]) == pytest.approx(expected)
            mean = sum(accuracy(heads, test, bound) for heads in sampled) / 10
            assert float(found[f"sampled{name}"]) == pytest.approx(mean)
        tokens = sum(len(record) for record in test.corpus)
        assert float(found["nats"]) == pytest.approx(float(parsed.log_likelihood.sum()) / tokens)
        saved = load_file(run / "starts" / f"{row}-{start:03d}.safetensors")
        assert saved["parameter.right"].tolist() == right_heads(parsed.heads["viterbi"], test)[0]
        assert saved["curve.objective"].tolist() == chain.history
        for site, name in (("tags", "alpha"), ("cases", "epsilon")):
            values = {"alpha": chain.concentration, "epsilon": chain.discount}[name][site]
            assert [float(found[f"{site}_{name}_{i}"]) for i in range(len(values))] == values.tolist()


def test_fixed_parameters(run):
    found = results(run)
    for row, epsilon in (("dirichlet-fixed-minimal", 0.0), ("pitman-yor-fixed-minimal", 0.1)):
        for site, levels in (("tags", 3), ("words", 3), ("cases", 2)):
            numbers = [[float(found[row, 1][f"{site}_{n}_{i}"]) for i in range(levels)] for n in ("alpha", "epsilon")]
            assert numbers[0] == pytest.approx([0.5, *[3.0] * (levels - 1)])
            assert numbers[1] == pytest.approx([epsilon] * levels)
    for (row, _), line in found.items():
        assert ("dirichlet" in row) == (float(line["words_epsilon_1"]) == 0)
        assert ("fixed" in row) == (float(line["words_alpha_1"]) == 3)


def test_every_row_is_compared_with_what_the_paper_claims():
    """Pitman-Yor with Dirichlet, sampled with fixed, all else the same: the two claims, each for three seatings."""
    pairs = {(t.name, other) for t in PitmanYorTable.trials for other in (t.above, *t.also) if other}
    assert len(PitmanYorTable.trials) == 13
    for paths in ("maximal", "minimal", "exact"):
        for how in ("fixed", "sampled"):
            assert (f"pitman-yor-{how}-{paths}", f"dirichlet-{how}-{paths}") in pairs
        for kind in ("dirichlet", "pitman-yor"):
            assert (f"{kind}-sampled-{paths}", f"{kind}-fixed-{paths}") in pairs


def test_what_takes_long_is_asked_for(banks):
    """Without --rows, tags are not found with the trees."""
    study = study_of(banks)

    def rows(*names):
        return [t.name for t in TrialStudy(TrialSettings("pitman-yor", {}, {}, 1, rows=names), study).trials]

    untagged = "pitman-yor-sampled-minimal-untagged"
    assert len(rows()) == 12 and untagged not in rows()
    assert rows(untagged) == [untagged]


def test_table_2(run):
    table = (run / "table.md").read_text()
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    label = "Pitman-Yor, sampled α, ε, minimal"
    assert "(80.2)" in rows["Dirichlet, fixed α, minimal"] and "±" not in rows["Dirichlet, fixed α, minimal"]
    found = results(run)
    means = {row: 50 * sum(float(found[row, i]["probable"]) for i in (1, 2)) for row in ROWS if row not in ONE} | {
        row: 100 * float(found[row, 1]["probable"]) for row in ONE
    }
    assert f"| {means['pitman-yor-sampled-minimal']:.1f} ±" in rows[label] and "(85.7)" in rows[label]
    for other in ("pitman-yor-fixed-minimal", "dirichlet-sampled-minimal"):
        gap = means["pitman-yor-sampled-minimal"] - means[other]
        cells = [c.strip() for c in rows[f"pitman-yor-sampled-minimal − {other}"].strip("|").split("|")]
        assert float(cells[1].split(" ± ")[0]) == pytest.approx(gap, abs=0.051)
        higher = sum(
            float(found["pitman-yor-sampled-minimal", i]["probable"])
            > float(found[other, 1 if other in ONE else i]["probable"])
            for i in (1, 2)
        )
        assert cells[2] == f"{higher}/2"
    for told in ("40 sentences of train.conllu", "2 chains of 2 steps", "α (ε) of pitman-yor-sampled-minimal"):
        assert told in table


def study_of(banks):
    options = {"tags": None, "steps": STEPS, "unseen": "rare", "format": "auto", "tagged": False}
    return read_experiment({"train": banks[0], "test": banks[1]}, options, SEED)[0]


def learnt_by(run, row):
    """What the chains of a row learnt, by key."""
    found = {}
    for start in (1, 2):
        found[Key(row, (0,), start)] = unpack_learnt((run / "starts" / f"{row}-{start:03d}.safetensors").read_bytes())
    return found


def contexts_by_hand(train):
    """Words by tag, parent's tag, word and case, and side; below words only."""
    found = defaultdict(Counter)
    for tags, words, cases, heads in zip(train.tags, train.words, train.cases, train.heads, strict=True):
        for i, h in enumerate(heads.tolist()):
            if h > 0:
                p = h - 1
                context = (int(tags[i]), int(tags[p]), int(words[p]), int(cases[p]), "right" if i > p else "left")
                found[context][int(words[i])] += 1
    return found


def test_pictures(run, banks):
    """The context drawn is that with most draws; with minimal paths, a draw for each word in it."""
    pytest.importorskip("matplotlib")
    assert {"traces.svg", "draws.svg", "contexts.svg"} <= {path.name for path in run.iterdir()}
    learnt = learnt_by(run, "pitman-yor-sampled-minimal")
    figures = all_pictures(study_of(banks), learnt)
    train, _ = corpora(banks)
    by_hand = contexts_by_hand(train)
    axes = figures["contexts"].axes
    tags, words = train.tag_vocab.symbols, train.lexicon.vocab.symbols
    titles = {
        f"{tags[t]}, {side} of {words[w]}/{tags[p]}, {CASES[c]}": counts
        for (t, p, w, c, side), counts in by_hand.items()
    }
    counts = titles[axes[-1].get_title()]
    assert len(counts) == max(len(other) for other in by_hand.values())
    bars = [b.get_width() for b in axes[-1].patches]  # type: ignore[attr-defined]
    shown = sorted(counts.values(), reverse=True)[:12]
    assert bars == [*shown, *[1] * len(shown)]
    assert axes[0].get_title() == axes[-1].get_title().split(",")[0]
    lines = figures["traces"].axes[0].lines
    strengths = [learnt[key].curves[f"tags_strength_{i}"] for key in learnt for i in range(3)]
    assert [tuple(line.get_ydata()) for line in lines] == strengths
    assert [ax.get_title() for ax in figures["draws"].axes] == ["tags", "words", "cases"]


def test_pictures_of_exact_seats(run, banks):
    """Expected numbers of draws are drawn for seats of the process itself alone; fixed parameters have no trace."""
    pytest.importorskip("matplotlib")
    figures = all_pictures(study_of(banks), learnt_by(run, "dirichlet-fixed-exact"))
    assert set(figures) == {"draws", "contexts"}
    assert [len(ax.lines) for ax in figures["draws"].axes] == [6, 6, 4]
    minimal = all_pictures(study_of(banks), learnt_by(run, "pitman-yor-sampled-minimal"))
    assert [len(ax.lines) for ax in minimal["draws"].axes] == [3, 3, 2]
    assert all_pictures(study_of(banks), {}) == {}


@pytest.mark.slow
def test_tags_found_with_the_trees(banks, tmp_path):
    """Of the row that must be asked for: the trees and tags of the parser of the row that it is compared with."""
    row = "pitman-yor-sampled-minimal-untagged"
    short = tmp_path / "short.conllu"
    sentences = banks[1].read_text(encoding="utf-8").split("\n\n")
    short.write_text("\n\n".join(s for s in sentences if s.count("\n") < 6) + "\n", encoding="utf-8")
    out = tmp_path / "run"
    options = ["--starts", 1, "--steps", STEPS, "--seed", SEED, "--jobs", 1, "--rows", row, "--out", out]
    assert main([str(a) for a in ["reproduce", "pitman-yor", banks[0], "--test", short, *options]]) == 0
    study, _ = read_experiment(
        {"train": banks[0], "test": short},
        {"tags": None, "steps": STEPS, "unseen": "rare", "format": "auto", "tagged": False},
        SEED,
    )
    train, test = study.train, study.test
    values, contexts = observed_events(study.grammar.events(train.tags, train.words, train.cases, train.heads))
    model = partial(pitman_yor_dependency, prior="pitman-yor-sampled", paths="minimal")
    with double_precision():
        chain = PitmanYorSampler(model, seed=SEED + 1)
        chain.run(values, contexts, study.grammar.num_values, num_steps=STEPS, progress=False)
        predict = {
            s: PitmanYorPredictor(chain.restaurants[s], chain.concentration[s], chain.discount[s]) for s in SITES
        }
        both = LexicalParser(study.grammar, predict).parse_untagged(test.words, test.cases)
    scored = test.is_scored
    found = results(out)[row, 1]
    for name, expected in (
        ("probable", both.heads["viterbi"] == test.heads),
        ("right_tags", both.tags["viterbi"] == test.tags),
    ):
        assert float(found[name]) == pytest.approx(float(expected[scored].double().mean()), abs=1e-12)
    assert "nats" not in found or found["nats"] == ""
    assert f"{100 * float(found['right_tags']):.1f} % of them are right" in (out / "table.md").read_text()


@pytest.mark.slow
def test_resume(run, command, refused, call, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    (out / "starts" / "dirichlet-sampled-minimal-002.safetensors").unlink()
    assert call(*command, "--out", out).status == 0
    for name, data in before.items():
        assert (out / name).read_bytes() == data, name
    one = call(*command, "--rows", "dirichlet-sampled-minimal", "--starts", 1, "--out", out)
    told = " ".join(one.out.split())
    assert one.status == 0 and "ask for their rows" in told and "dirichlet-sampled-minimal (1)" in told
    assert call(*command, "--out", out).status == 0 and (out / "results.csv").read_bytes() == before["results.csv"]
    assert "steps 2, not 5" in refused(*command, "--steps", 5, "--out", out)
    assert json.loads((out / "config.json").read_text())["settings"]["table"] == "pitman-yor"


def test_the_builtin_corpus(undrawn_here, call):
    options = ["--starts", 1, "--steps", 1, "--jobs", 1, "--unseen", "test", "--rows", "dirichlet-sampled-maximal"]
    done = call("reproduce", "pitman-yor", *options)
    assert done.status == 0 and "Dirichlet, sampled α, maximal" in done.out and "as in the paper" in done.out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--tags", "form"], "give upos or xpos"),
        (["--dev", "TEST"], "leave out --dev"),
        (["--rows", "dirichlet-sampled"], "there is no row 'dirichlet-sampled'"),
        (["--max-length", "5"], "--max-length plays no part in reproduce pitman-yor"),
        (["--sweeps", "5"], "--sweeps plays no part in reproduce pitman-yor"),
    ],
)
def test_bad_options(refused, command, banks, extra, message):
    assert message in refused(*command, *[banks[1] if a == "TEST" else a for a in extra])


def test_missing_files(refused, banks):
    assert "give --test" in refused("reproduce", "pitman-yor", banks[0])
    assert "give TRAIN" in refused("reproduce", "pitman-yor", "--test", banks[0])
