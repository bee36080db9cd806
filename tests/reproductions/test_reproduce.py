# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce``: its rows against the library's loops, its tables against its own scores and the papers."""

import csv
import math
import re
import statistics
from functools import partial
from typing import NamedTuple

import pyro
import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.cli import main
from pyrogram.data import tag_families
from pyrogram.distributions import Gaussian, PartitionStructure, tied_starts
from pyrogram.grammars import start_covariances, tie
from pyrogram.infer import EM, VariationalEM
from pyrogram.models import initial_experts, maximum_likelihood
from pyrogram.models.bilingual import bilingual
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import logistic_normal
from pyrogram.models.shared_logistic_normal import shared_logistic_normal
from reproductions.induction.corpora import mirrored, recoded
from reproductions.induction.published import LOGNORMAL, PUBLISHED, SHARED
from reproductions.induction.systems import MAP_GRID, TABLES, VB_GRID

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")
STEPS, STARTS = 3, 2
ROWS = "attach-right,em,tie-a,bilingual-v,bilingual-vn,supervised"  # in the fast stage, with those that they need
COMMON = ["--tags", "xpos", "--steps", STEPS, "--jobs", 1, "--patience", 2, "--tolerance", 0]


class Language(NamedTuple):
    train: str
    dev: str
    test: str


def write(folder, name, turn):
    made = Language(*(str(folder / f"{name}-{part}.conllu") for part in Language._fields))
    for size, seed, path in zip((40, 20, 20), (0, 1, 2), made, strict=True):
        turn(Corpus.builtin(size, seed)).to_conllu(path)
    return made


@pytest.fixture(scope="module")
def languages(tmp_path_factory):
    """English, and the same from right to left with another name for its plural nouns."""
    folder = tmp_path_factory.mktemp("languages")

    def other(corpus):
        turned = mirrored(corpus)
        tags = [["NNPS" if tag == "NNS" else tag for tag in s.tags] for s in turned]
        return Corpus.from_sentences(tags, heads=[list(s.heads) for s in turned])

    return write(folder, "one", lambda corpus: corpus), write(folder, "two", other)


def run(*arguments):
    assert main([str(a) for a in ["reproduce", *arguments]]) == 0


@pytest.fixture(scope="module")
def lognormal(undrawn, languages, tmp_path_factory):
    out = tmp_path_factory.mktemp("lognormal") / "run"
    one = languages[0]
    run("lognormal", one.train, "--dev", one.dev, "--test", one.test, "--starts", STARTS, *COMMON, "--out", out)
    return out


@pytest.fixture(scope="module")
def shared(undrawn, languages, tmp_path_factory, request):
    out = tmp_path_factory.mktemp("shared") / "run"
    one, two = languages
    files = [one.train, two.train, "--dev", one.dev, "--test", one.test, "--dev2", two.dev, "--test2", two.test]
    rows = [] if request.config.getoption("--slow") else ["--rows", ROWS]
    run("shared", *files, *rows, "--starts", 1, *COMMON, "--out", out)
    return out


class Data(NamedTuple):
    grammar: DMV
    words: torch.Tensor
    dev: torch.Tensor
    families: list[str]


def read(language, vocab=None):
    whole = Corpus.from_conllu(language.train, tags="xpos", vocab=vocab)
    dev = Corpus.from_conllu(language.dev, tags="xpos", vocab=whole.vocab)
    families = [tag_families("penn")[tag] for tag in whole.vocab]
    return Data(DMV(len(whole.vocab)), whole.filter(10).words, dev.words, families)


def begin(data, number):
    """The harmonic start and, from the second on, it times log-normal noise of the start's own seed."""
    plain = data.grammar.initial_weights(data.words)
    generator = torch.Generator().manual_seed(number)
    noisy = {b: w * torch.exp(0.3 * torch.randn(w.shape, generator=generator)) for b, w in plain.items()}
    return plain if number == 1 else {b: w / w.sum(-1, keepdim=True) for b, w in noisy.items()}


def fit(loop, words, held_out):
    return loop.run(words, num_steps=STEPS, tolerance=0, patience=2, held_out=held_out, progress=False)


def best(loop):
    return max(loop.held_out_history)


def untied(data, number, covariance=None):
    pyro.clear_param_store()
    start = initial_experts(data.words, data.grammar, begin(data, number), covariance)
    model = partial(logistic_normal, grammar=data.grammar, start=start)
    loop = fit(VariationalEM(model), data.words, data.dev)
    experts = {
        b: Gaussian(pyro.param(f"loc.{b}").detach().clone(), pyro.param(f"covariance.{b}").detach().clone())
        for b in data.grammar.blocks
    }
    pyro.clear_param_store()
    return loop, experts


def with_families(data):
    return start_covariances(PartitionStructure.untied(data.grammar.blocks), data.families)


def check(folder, name, weights, language=0):
    found = load_file(folder / "starts" / f"{name}.safetensors")
    for block, expected in weights.items():
        torch.testing.assert_close(found[f"weights.{language}.{block}"], expected, rtol=1e-9, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, STARTS])
@pytest.mark.parametrize("row", ["em", "em-map", "vb", "vb-em", "ln", "ln-families"])
def test_rows_are_the_librarys(row, number, lognormal, languages):
    data = read(languages[0])
    start = begin(data, number)

    def loop(alpha=0.25, kind=VariationalEM, **options):
        pyro.clear_param_store()
        model = partial(dirichlet, grammar=data.grammar, concentration=alpha, **options)
        return fit(kind(model, initial_weights=start), data.words, data.dev)

    if row == "em":
        model = partial(maximum_likelihood, grammar=data.grammar, initial_weights=start)
        found = fit(EM(model, initial_weights=start), data.words, data.dev)
    elif row == "em-map":
        found = max((loop(alpha, EM) for alpha in MAP_GRID), key=best)
    elif row == "vb":
        found = max((loop(alpha) for alpha in VB_GRID), key=best)
    elif row == "vb-em":
        found = loop(learn=True)
    else:
        found, _ = untied(data, number, with_families(data) if row == "ln-families" else None)
    check(lognormal, f"{row}-{number:03d}", found.weights())
    (held_out,) = {float(r["held_out"]) for r in scores(lognormal) if (r["row"], r["start"]) == (row, str(number))}
    assert held_out == pytest.approx(best(found), rel=1e-12)


def joint_vocabulary(languages):
    """Counted by hand over both files."""
    wholes = [Corpus.from_conllu(language.train, tags="xpos") for language in languages]
    counts = {}
    for whole in wholes:
        for symbol, count in whole.vocab.to_list():
            counts[symbol] = counts.get(symbol, 0) + count
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    assert len(pairs) > max(len(whole.vocab) for whole in wholes)
    return wholes[0].vocab.from_list(pairs)


@pytest.mark.slow
@pytest.mark.parametrize("language, prefix", [(0, ""), (1, "2.")])
@pytest.mark.parametrize("row, ties", [("tie-v", "V"), ("tie-n", "N"), ("tie-vn", "V&N"), ("tie-a", "A")])
def test_tied_rows_go_on_from_the_untied_one(row, ties, language, prefix, shared, languages):
    data = read(languages[language], joint_vocabulary(languages))
    before, experts = untied(data, 1, with_families(data))
    check(shared, f"{prefix}ln-families-001", before.weights())
    structure = tie(data.grammar, data.families, ties)
    start = structure.tied_start(experts, start_covariances(structure, data.families))
    model = partial(shared_logistic_normal, grammar=data.grammar, structure=structure, start=start)
    check(shared, f"{prefix}{row}-001", fit(VariationalEM(model), data.words, data.dev).weights())


def test_bilingual_rows_learn_two_grammars_together(shared, languages):
    vocab = joint_vocabulary(languages)
    data = {name: read(language, vocab) for name, language in zip("ab", languages, strict=True)}
    structures = {name: tie(d.grammar, d.families, "V&N") for name, d in data.items()}
    start = tied_starts(
        structures,
        {name: untied(d, 1, with_families(d))[1] for name, d in data.items()},
        {name: start_covariances(structures[name], d.families) for name, d in data.items()},
    )
    grammars = {name: d.grammar for name, d in data.items()}
    model = partial(bilingual, grammars=grammars, structures=structures, start=start)
    held_out = {f"{name}.words": d.dev for name, d in data.items()}
    loop = fit(VariationalEM(model), {name: d.words for name, d in data.items()}, held_out)
    for language, name in enumerate(data):
        check(shared, "bilingual-vn-001", loop.weights(f"{name}.words"), language)


def scores(folder):
    with open(folder / "results.csv", newline="") as file:
        return list(csv.DictReader(file))


def accuracy(predicted, gold, bound):
    right = total = 0
    for h, g in zip(predicted.tolist(), gold.heads.tolist(), strict=True):
        n = sum(x >= 0 for x in g)
        if n <= bound:
            right += sum(x == y for x, y in zip(h[:n], g[:n], strict=True))
            total += n
    return right / total


@pytest.mark.parametrize("part", ["test", "train"])
@pytest.mark.parametrize("name, language", [("em-001", 0), ("2.tie-a-001", 1), ("bilingual-v-001", 1)])
def test_scores_are_those_of_the_weights(name, language, part, shared, languages):
    vocab = joint_vocabulary(languages)
    corpus = Corpus.from_conllu(getattr(languages[language], part), tags="xpos", vocab=vocab)
    grammar = DMV(len(vocab))
    tensors = load_file(shared / "starts" / f"{name}.safetensors")
    prefix = f"weights.{language if name.startswith('bilingual') else 0}."
    weights = {b: 0.9999 * tensors[prefix + b] + 0.0001 / block.shape[-1] for b, block in grammar.blocks.items()}
    trees = grammar.derivation(weights, corpus.words)
    row, start = name.removeprefix("2.").rsplit("-", 1)
    for decoder, heads in (("mbr", trees.mbr()), ("viterbi", trees.argmax())):
        for length, bound in (("10", 10), ("20", 20), ("all", math.inf)):
            (found,) = (
                r
                for r in scores(shared)
                if (r["row"], int(r["start"]), r["part"], r["decoder"], r["max_length"])
                == (row, int(start), part, decoder, length)
                and r["corpus"] == languages[language].train
            )
            assert float(found["directed"]) == pytest.approx(accuracy(heads, corpus, bound), rel=1e-12)
            assert int(found["sentences"]) == int((corpus.lengths <= bound).sum())


def test_the_ends_of_the_scale(shared, languages):
    """Attach-right from counting, once per language; the gold trees' grammar is the most accurate in training."""
    table = scores(shared)
    for language in languages:
        corpus = Corpus.from_conllu(language.test, tags="xpos")
        chain = torch.stack([torch.arange(2, 22)] * len(corpus))
        chain[torch.arange(len(corpus)), corpus.lengths - 1] = 0
        found = [r for r in table if (r["row"], r["corpus"], r["part"]) == ("attach-right", language.train, "test")]
        assert {r["start"] for r in found} == {"1"} and {r["held_out"] for r in found} == {""}
        assert {float(r["directed"]) for r in found if r["max_length"] == "all"} == {accuracy(chain, corpus, math.inf)}
        train = [r for r in table if (r["corpus"], r["part"], r["max_length"]) == (language.train, "train", "all")]
        best = max(train, key=lambda r: float(r["directed"]))
        assert best["row"] == "supervised"


def rows_of(folder):
    with open(folder / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_means_spreads_and_the_papers_figures(lognormal):
    starts = scores(lognormal)
    table = rows_of(lognormal)
    assert len(table) == len(TABLES["lognormal"]) * 2 * 2 * 3
    for r in table:
        key = ("row", "part", "decoder", "max_length", "corpus")
        values = [100 * float(s["directed"]) for s in starts if all(s[k] == r[k] for k in key)]
        assert int(r["starts"]) == len(values) == (1 if r["row"] in ("attach-right", "supervised") else STARTS)
        assert float(r["mean"]) == pytest.approx(statistics.mean(values))
        if len(values) > 1:
            assert float(r["deviation"]) == pytest.approx(statistics.stdev(values))
        else:
            assert r["deviation"] == ""
    paper = {(r["row"], r["decoder"], r["max_length"]): r["paper"] for r in table}
    assert paper["em", "viterbi", "all"] == "34.2" and paper["ln-families", "mbr", "10"] == "59.4"
    assert paper["supervised", "mbr", "10"] == ""


def test_second_language_has_its_own_figures(shared, languages):
    paper = {
        (r["corpus"], r["row"]): r["paper"]
        for r in rows_of(shared)
        if (r["decoder"], r["max_length"]) == ("mbr", "all")
    }
    one, two = languages
    assert (paper[one.train, "bilingual-vn"], paper[two.train, "bilingual-vn"]) == ("42.2", "35.3")
    assert {r["paper"] for r in rows_of(shared) if r["decoder"] == "viterbi"} == {""}


def test_the_table_as_markdown(lognormal):
    text = (lognormal / "table.md").read_text()
    mean, deviation = (
        next(r[what] for r in rows_of(lognormal) if (r["part"], r["row"], r["decoder"], r["max_length"]) == key)
        for key in [("test", "em", "mbr", "10")]
        for what in ("mean", "deviation")
    )
    (line, _) = [line for line in text.splitlines() if line.startswith("| EM |")]
    assert line.split("|")[5].strip() == f"{float(mean):.1f} ± {float(deviation):.1f} (46.1)"
    assert "per" not in text or "draw the weights of the grammar for every sentence" in text
    assert "not yet at their end" in text


def test_orderings_are_counted_start_by_start(lognormal):
    starts = {
        (r["row"], r["start"]): 100 * float(r["directed"])
        for r in scores(lognormal)
        if (r["part"], r["decoder"], r["max_length"]) == ("train", "mbr", "all")
    }
    text = (lognormal / "table.md").read_text().split("training sentences")[1]
    for better, worse, paper in (("vb", "em", "+1.7"), ("em", "attach-right", "+4.2"), ("ln", "vb-em", "+3.0")):
        pairs = [(str(i), "1" if worse == "attach-right" else str(i)) for i in range(1, STARTS + 1)]
        gaps = [starts[better, i] - starts[worse, j] for i, j in pairs]
        expected = [
            paper,
            f"{statistics.mean(gaps):+.1f} ± {statistics.stdev(gaps):.1f}",
            f"{sum(g > 0 for g in gaps)}/{STARTS}",
        ]
        line, _signs = [line for line in text.splitlines() if line.startswith(f"| {better} − {worse} |")]
        assert [cell.strip() for cell in line.split("|")[5:8]] == expected


def test_alpha_is_reported(lognormal):
    chosen = [r["alpha"] for r in scores(lognormal) if r["row"] == "vb" and r["part"] == "test"][::6]
    assert len(chosen) == STARTS and {float(a) for a in chosen} <= set(VB_GRID)
    (line,) = [line for line in (lognormal / "table.md").read_text().splitlines() if line.startswith("- vb: ")]
    assert line.endswith(", ".join(f"{a:g} ({chosen.count(str(a))})" for a in sorted(set(map(float, chosen)))) + ".")


def test_some_rows_with_those_that_they_need(call, languages, tmp_path):
    one = languages[0]
    options = ["--dev", one.dev, "--rows", "tie-a,em", "--starts", 1, *COMMON, "--out", tmp_path / "run"]
    done = call("reproduce", "shared", one.train, *options)
    assert done.status == 0
    assert list(dict.fromkeys(r["row"] for r in scores(tmp_path / "run"))) == ["em", "ln-families", "tie-a"]
    assert {r["part"] for r in scores(tmp_path / "run")} == {"train"}
    assert "SLN, TieA" in done.out and "± over" not in done.out and "one start" in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_the_built_in_corpus(call):
    done = call("reproduce", "shared", "--rows", "em,supervised", "--starts", 1, "--steps", 1, "--jobs", 1)
    assert done.status == 0
    assert "built-in corpus from right to left, test sentences" in done.out and "Nothing was written" in done.out
    assert "no TRAIN was given" in done.err and "[2/4] em, start 1 of corpus 2: 1 iteration," in done.err


def test_mirrored():
    corpus = Corpus.from_sentences([["DT", "NN", "VBZ"], ["VB"]], heads=[[2, 3, 0], [0]])
    other = mirrored(corpus)
    assert other.tags == [["VBZ", "NN", "DT"], ["VB"]]
    assert other.heads.tolist() == [[0, 1, 2], [0, -1, -1]]
    assert other.vocab == corpus.vocab
    again = mirrored(other)
    assert torch.equal(again.words, corpus.words) and torch.equal(again.heads, corpus.heads)


def test_recoded():
    corpus = Corpus.from_sentences([["DT", "NN"], ["NN"]])
    vocab = corpus.vocab.from_list([["UH", 9], ["DT", 4], ["NN", 2]])
    found = recoded(corpus, vocab)
    assert found.words.tolist() == [[1, 2], [2, -1]] and found.vocab == vocab
    assert corpus.words.tolist() == [[1, 0], [0, -1]]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_figures(table):
    """All but the ceiling of the older paper, which has none; longer sentences are harder, MBR is for accuracy."""
    figures = PUBLISHED[table].figures
    names = [row.name for row in TABLES[table]]
    for rows in figures.values():
        assert [name for name in names if name in rows] == [
            n for n in names if (table, n) != ("lognormal", "supervised")
        ]
        for texts in rows.values():
            for text in texts:
                assert list(text) == sorted(text, reverse=True)
                assert len(texts) == len(PUBLISHED[table].texts)
    for name, texts in LOGNORMAL.figures["mbr"].items():
        assert all(m >= v for m, v in zip(texts[0], LOGNORMAL.figures["viterbi"][name][0], strict=True))


def test_published_figures_are_the_papers(shared_data):
    papers = shared_data.parent / "papers"
    if not papers.is_dir():
        pytest.skip("papers absent")
    text = (papers / "cohen-gimpel-smith-2008-logistic-normal.md").read_text()
    printed = [re.findall(r"\t(\d\d\.\d)", line) for line in text.splitlines() if line.count("\t") == 6]
    order = [row.name for row in TABLES["lognormal"] if row.name != "supervised"]
    ours = [
        [f"{x:.1f}" for decoder in ("viterbi", "mbr") for x in LOGNORMAL.figures[decoder][name][0]] for name in order
    ]
    assert ours == [row for row in printed if row]
    # The other paper's table is out of order in our copy, but its numbers are all there.
    text = (papers / "cohen-smith-2009-shared-logistic-normal.txt").read_text()
    inside = text[text.index("attachment acc. (%)") : text.index("ing information between those")]
    ours = sorted(f"{x:.1f}" for texts in SHARED.figures["mbr"].values() for t in texts for x in t)
    assert ours == sorted(re.findall(r"\d\d\.\d", inside))
