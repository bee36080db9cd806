# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``induce --model pcfg``, and ``parse`` and ``sample`` with what it learnt."""

import csv
import math
from functools import partial

import pytest
import torch
from nltk import Tree
from safetensors.torch import load_file

from pyrogram import CFG
from pyrogram.cli import main
from pyrogram.data.treebank import read_trees
from pyrogram.distributions import Sentence
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

GRAMMAR = """
# over tags
S -> NP VP
NP -> 'DT' N | 'NNP' | NP PP
N -> 'NN' | 'JJ' N
VP -> V | V NP | VP PP
V -> 'VBD'
PP -> 'IN' NP
"""
SENTENCES = [
    "the/DT man/NN saw/VBD the/DT dog/NN",
    "Mary/NNP slept/VBD",
    "the/DT old/JJ man/NN saw/VBD Mary/NNP with/IN a/DT telescope/NN",
]


@pytest.fixture
def files(tmp_path):
    grammar, train = tmp_path / "g.cfg", tmp_path / "train.txt"
    grammar.write_text(GRAMMAR)
    train.write_text("\n".join(SENTENCES) + "\n")
    return grammar, train


@pytest.fixture
def induce(call, files, tmp_path):
    """Runs ``induce --model pcfg`` and returns the folder of the run."""

    def run(*options, name="run"):
        grammar, train = files
        done = call("induce", train, "--model", "pcfg", "--grammar", grammar, *options, "--out", tmp_path / name)
        assert done.status == 0, done.err
        return tmp_path / name

    return run


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """The folder of a run of five steps, and the sentences; tests must not change it."""
    folder = tmp_path_factory.mktemp("learnt")
    grammar, train = folder / "g.cfg", folder / "train.txt"
    grammar.write_text(GRAMMAR)
    train.write_text("\n".join(SENTENCES) + "\n")
    options = ["--model", "pcfg", "--grammar", grammar, "--steps", 5, "--out", folder / "run"]
    assert main([str(a) for a in ["induce", train, *options]]) == 0
    return folder / "run", train


def tagged(cfg):
    return cfg.encode([[token.split("/")[1] for token in s.split()] for s in SENTENCES])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("method", ["em", "em-map", "vb", "vb-em", "cvb", "hastings", "gibbs"])
def test_weights_are_the_librarys(method, induce):
    out = induce("--method", method, "--steps", 6, "--tolerance", 0)
    cfg = CFG.from_string(GRAMMAR)
    words = tagged(cfg)
    start = cfg.initial_weights(words, "uniform")
    if method == "em":
        loop = EM(partial(maximum_likelihood, grammar=cfg, initial_weights=start))
    else:
        alpha = 1.1 if method == "em-map" else 0.25
        model = partial(dirichlet, grammar=cfg, concentration=alpha, learn=method == "vb-em")
        samplers = {"hastings": partial(TreeHastings, seed=1), "gibbs": partial(TreeGibbs, seed=1)}
        loop = ({"em-map": EM, "cvb": CollapsedVB} | samplers).get(method, VariationalEM)(model, initial_weights=start)
    options = {"burn_in": 3} if method in ("hastings", "gibbs") else {"tolerance": 0}
    loop.run(words, num_steps=6, progress=False, **options)
    found = load_file(out / "weights.safetensors")["rules"]
    torch.testing.assert_close(found, loop.weights()["rules"], rtol=1e-9, atol=1e-12)
    # The grammar that is written has the same numbers, and can be read again.
    again = CFG.from_string((out / "grammar.pcfg").read_text())
    pairs = dict(zip(again.rules, again.weights["rules"].tolist(), strict=True))
    assert pairs == pytest.approx(dict(zip(cfg.rules, found.tolist(), strict=True)))


def test_scores_and_trees_are_those_of_the_weights(learnt):
    out, _ = learnt
    cfg = CFG.from_string(GRAMMAR)
    words, w = tagged(cfg), load_file(out / "weights.safetensors")["rules"]
    block = cfg.blocks["rules"]
    smooth = {"rules": (1 - 1e-4) * w + 1e-4 * block.uniform(w)}
    with open(out / "results.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    log_z = float(Sentence(cfg, smooth).log_prob(words).sum())
    assert float(row["log_likelihood"]) == pytest.approx(log_z, rel=1e-12)
    assert float(row["perplexity"]) == pytest.approx(math.exp(-log_z / (5 + 2 + 8 + 3)))
    trees = [Tree.fromstring(line) for line in (out / "parses.mrg").read_text().splitlines()]
    best = cfg.derivation(smooth, words).argmax()
    assert trees == [cfg.tree(s[s >= 0], d[d >= 0]) for s, d in zip(words, best, strict=True)]


def test_probabilities_of_the_file_are_where_it_starts(induce, files):
    grammar, _ = files
    grammar.write_text(
        "S -> A S [0.2] | A [0.8]\nA -> 'DT' [.3] | 'NN' [.3] | 'VBD' [.1] | 'NNP' [.1] | 'JJ' [.1] | 'IN' [.1]"
    )
    out = induce("--method", "em", "--steps", 1)
    counts = {"DT": 4, "NN": 4, "VBD": 3, "NNP": 2, "JJ": 1, "IN": 1}  # its derivations are certain
    learnt = CFG.from_string((out / "grammar.pcfg").read_text())
    for (left, right), p in zip(learnt.rules, learnt.weights["rules"].tolist(), strict=True):
        if left == "A":
            assert p == pytest.approx(counts[str(right[0])] / 15)
    with open(out / "curve.csv", newline="") as file:
        objective = float(next(csv.DictReader(file))["objective"])
    log = {"DT": 0.3, "NN": 0.3, "VBD": 0.1, "NNP": 0.1, "JJ": 0.1, "IN": 0.1}
    expected = sum(count * math.log(log[w]) for w, count in counts.items()) + 12 * math.log(0.2) + 3 * math.log(0.8)
    assert objective == pytest.approx(expected)


def test_resumed_runs_are_the_same(induce, monkeypatch):
    from pyrogram.cli.runs.starts import StartWork

    whole = induce("--steps", 20, "--tolerance", 0, "--starts", 2, "--method", "hastings", name="whole")

    def interrupt(self, number, say, loop):
        if (number, len(loop.history)) == (2, 11):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(AssertionError, match="interrupted"):
        patch.setattr(StartWork, "_iteration", interrupt)
        induce("--steps", 20, "--tolerance", 0, "--starts", 2, "--method", "hastings", name="cut")
    cut = induce("--steps", 20, "--tolerance", 0, "--starts", 2, "--method", "hastings", name="cut")
    for name in ("weights.safetensors", "curve.csv", "results.csv", "parses.mrg", "grammar.pcfg"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


def test_parse_and_sample(learnt, call):
    out, train = learnt
    parses = (out / "parses.mrg").read_text()
    assert call("parse", out, train, "--decoder", "viterbi").out == parses
    safest = [Tree.fromstring(line) for line in call("parse", out, train).out.splitlines()]
    assert [t.leaves() for t in safest] == [Tree.fromstring(line).leaves() for line in parses.splitlines()]
    drawn = call("sample", out, "--num", 4, "--seed", 2)
    assert drawn.out == call("sample", out, "--num", 4, "--seed", 2).out
    cfg = CFG.from_string(GRAMMAR)
    for line in drawn.out.splitlines():
        tree = Tree.fromstring(line)
        assert tree.label() == "S" and len(cfg.derivation_of(tree)) > 1


def test_every_sentence_comes_out(learnt, call, tmp_path):
    """Those of nothing but punctuation, too, in their places: () stands for no tree."""
    out, _ = learnt
    text = tmp_path / "marks.txt"
    text.write_text(f"./. ,/,\n{SENTENCES[1]}\n!/.\n{SENTENCES[0]}\n")
    lines = call("parse", out, text).out.splitlines()
    assert [line if line == "()" else " ".join(Tree.fromstring(line).leaves()) for line in lines] == [
        "()",
        "NNP VBD",
        "()",
        "DT NN VBD DT NN",
    ]
    text.write_text("./.\n")
    assert call("parse", out, text).out == "()\n"


def test_impossible_sentences_are_said(call, induce, files, refused):
    grammar, train = files
    grammar.write_text("S -> 'DT' 'NN' 'VBD' 'DT' 'NN' | 'JJ' | 'IN' | 'NNP' 'VBD'")
    error = refused("induce", train, "--model", "pcfg", "--grammar", grammar)
    assert "no derivation of 1 of 3 sentences" in error and "sentence 2, 'DT JJ NN VBD" in error
    assert "--init" not in error and "--seed" not in error  # neither would help
    short = induce("--max-length", 5)
    assert [line[:2] for line in (short / "parses.mrg").read_text().splitlines()] == ["(S", "(S", "()"]
    # Held-out sentences without derivations would stop every start at once; numbers are those of the file.
    easy = train.with_name("easy.txt")
    easy.write_text(f"{SENTENCES[0]}\n")
    error = refused("induce", easy, "--model", "pcfg", "--grammar", grammar, "--dev", train)
    assert "sentence 2" in error and str(train) in error


def test_a_grammar_is_written_as_it_is_read(induce, call, files):
    """The start symbol need not come first, and terminals may hold backslashes and quotes."""
    grammar, train = files
    grammar.write_text("X -> 'a\\b' | \"it's\" X | 'say\"' X\nZ -> 'q' Z | 'q'\nS -> X | X S\n%start S\n")
    train.write_text("a\\b\nit's a\\b\nsay\" it's a\\b a\\b\n")
    out = induce("--tags", "form", "--steps", 3)
    before, after = CFG.from_string(grammar.read_text()), CFG.from_string((out / "grammar.pcfg").read_text())
    assert after.rules == before.rules and after.start == "S" and after.words == before.words
    learnt = load_file(out / "weights.safetensors")["rules"]
    torch.testing.assert_close(after.weights["rules"], learnt.to(after.weights["rules"]))
    parses = (out / "parses.mrg").read_text()
    assert call("parse", out, train, "--decoder", "viterbi").out == parses


@pytest.mark.parametrize(
    "text, expected",
    [
        ("S -> NP VP", "nonterminal 'NP' in S -> NP VP has no rules"),
        ("S -> S | 'DT'", "the unary rules S -> S form a cycle"),
        ("S ->", "S -> , has an empty right side"),
        ("no grammar", "line 1 is 'no grammar', not a rule"),
        ("S -> 'DT' [0.5] | 'NN'", "rule S -> 'NN' has no probability though others have one"),
    ],
)
def test_bad_grammars(text, expected, files, refused):
    grammar, train = files
    grammar.write_text(text)
    assert f"{grammar}: " in (error := refused("induce", train, "--model", "pcfg", "--grammar", grammar))
    assert expected in error


def test_refusals(files, refused, tmp_path, induce):
    grammar, train = files
    assert "--grammar" in refused("induce", train, "--model", "pcfg")
    assert "--model pcfg" in refused("induce", train, "--grammar", grammar)
    assert "--init harmonic" in refused("induce", train, "--model", "pcfg", "--grammar", grammar, "--init", "harmonic")
    assert "--valence-attach" in refused("induce", train, "--model", "pcfg", "--grammar", grammar, "--valence-attach")
    assert "there is no such file" in refused("induce", train, "--model", "pcfg", "--grammar", tmp_path / "none.cfg")
    train.write_text("a/UH b/NN\n")
    error = refused("induce", train, "--model", "pcfg", "--grammar", grammar)
    assert "UH" in error and str(train) in error


@pytest.mark.parametrize(
    "option", [["--stops", "half"], ["--distance", 1], ["--unknown", "error"], ["--valence-attach"]]
)
def test_options_of_the_dependency_model_are_refused(option, files, refused):
    grammar, train = files
    error = refused("induce", train, "--model", "pcfg", "--grammar", grammar, *option)
    assert f"{option[0]} is for --model dmv" in error


@pytest.mark.one_in(4)
@pytest.mark.parametrize("words", [["(", "-LRB-", ":)"], ["New York", "10\u00a0000", "a\u2028b"], ["]", "\\", "-LRB)"]])
def test_words_that_look_like_brackets_come_back(words, call, tmp_path):
    rows = [f"{i}\t{word}\t_\tX\tX\t_\t_\t_\t_\t_\n" for i, word in enumerate(words, 1)]
    (tmp_path / "x.conllu").write_text("".join(rows) + "\n", encoding="utf-8")
    rules = f"S -> {' '.join(f'W{i}' for i in range(len(words)))}\n"
    rules += "".join(f"W{i} -> '{word}'\n" for i, word in enumerate(words))
    (tmp_path / "g.cfg").write_text(rules, encoding="utf-8")
    expected = Tree("S", [Tree(f"W{i}", [word]) for i, word in enumerate(words)])
    options = ["--model", "pcfg", "--grammar", tmp_path / "g.cfg", "--tags", "form", "--steps", 1]
    done = call("induce", tmp_path / "x.conllu", *options, "--out", tmp_path / "run")
    assert done.status == 0, done.err
    assert read_trees(tmp_path / "run" / "parses.mrg") == [expected]
    assert call("parse", tmp_path / "run", tmp_path / "x.conllu", "--out", tmp_path / "parsed.mrg").status == 0
    assert read_trees(tmp_path / "parsed.mrg") == [expected]
    (tmp_path / "drawn.mrg").write_text(call("sample", tmp_path / "run", "--num", 2).out, encoding="utf-8")
    assert read_trees(tmp_path / "drawn.mrg") == [expected] * 2
