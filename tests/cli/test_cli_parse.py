# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""parse, evaluate, draw and sample on files made by hand."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.data import Vocabulary


def conllu(*sentences):
    """Sentences of (form, tag, head)."""
    blocks = []
    for sentence in sentences:
        rows = [f"{i}\t{f}\t_\t_\t{t}\t_\t{h}\t_\t_\t_" for i, (f, t, h) in enumerate(sentence, 1)]
        blocks.append("\n".join(rows) + "\n\n")
    return "".join(blocks)


@pytest.fixture
def file(tmp_path):
    def write(text, name="file.conllu"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def columns(text, *wanted):
    lines = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]
    return [tuple(line[w] for w in wanted) for line in lines]


@pytest.mark.parametrize("decoder", ["mbr", "viterbi"])
def test_parse(decoder, call, run_folder, file):
    # punctuation in the middle, a tag that training lacks, heads that are nonsense, a sentence of punctuation
    sentence = [("the", "DT", 9), (",", ",", 9), ("dog", "NN", 9), ("barks", "FOO", 9), (".", ".", 9)]
    done = call("parse", run_folder, file(conllu(sentence, [("!", ".", 5)])), "--decoder", decoder)
    assert done.status == 0
    assert columns(done.out, 0, 1, 4) == [("1", "the", "DT"), ("2", "dog", "NN"), ("3", "barks", "FOO")]
    assert done.out.startswith("# parser = pyrogram ") and f"decoder {decoder}" in done.out.splitlines()[0]
    vocab = Vocabulary.from_list(json.loads((run_folder / "config.json").read_text())["vocabulary"])
    most = vocab.most_frequent
    note, dropped = done.err.splitlines()
    assert f"1 words have symbols unseen in training (FOO); taken for {most}" in note
    assert "1 sentences of nothing but punctuation" in dropped
    # the tree, by enumeration
    words = torch.tensor(vocab.encode(["DT", "NN", most]))
    weights = {k: 0.9999 * w + 0.0001 / w.shape[-1] for k, w in load_file(run_folder / "weights.safetensors").items()}
    trees = DMV(len(vocab)).derivation(weights, words)
    support = trees.enumerate_support()
    p = trees.log_prob(support).exp()
    if decoder == "viterbi":
        expected = support[p.argmax()]
    else:
        risk = torch.stack([((support == tree).double().sum(-1) * p).sum() for tree in support])
        expected = support[risk.argmax()]
    assert [int(h) for (h,) in columns(done.out, 6)] == expected.tolist()


def test_parse_is_what_induce_wrote(call, run_folder, treebanks, tmp_path):
    out = tmp_path / "parses.conllu"
    assert call("parse", run_folder, treebanks.test, "--out", out) == (0, "", "")
    assert out.read_bytes() == (run_folder / "parses.conllu").read_bytes()
    assert call("parse", run_folder, treebanks.test).out == out.read_text()
    read = Corpus.from_conllu(out, tags="xpos")
    assert read.tags == Corpus.from_conllu(treebanks.test, tags="xpos").tags


def test_text_is_utf8_whatever_the_terminal(run_folder, file):
    path = str(file(conllu([("naïve", "JJ", 0)])))
    commands = [["parse", str(run_folder), path], ["draw", path]]
    program = f"from pyrogram.cli import main; print([main(command) for command in {commands!r}])"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    _, parsed, _, drawn, status = done.stdout.splitlines()
    assert parsed == "1\tnaïve\t_\t_\tJJ\t_\t0\t_\t_\t_".encode()
    assert (drawn, status) == (b"---- na?ve  JJ", b"[0, 0]")


def test_parse_other_formats(call, run_folder, file):
    expected = columns(call("parse", run_folder, file(conllu([("the", "DT", 0), ("dog", "NN", 1)]))).out, 1, 4, 6)
    for text, name in (("the/DT dog/NN\n", "a.txt"), ("(NP (DT the) (NN dog))\n", "a.mrg")):
        assert columns(call("parse", run_folder, file(text, name)).out, 1, 4, 6) == expected


def test_unknown_error(refused, run_folder, file):
    path = file(conllu([("the", "FOO", 0)]))
    assert "'FOO' is not in the vocabulary" in refused("parse", run_folder, path, "--unknown", "error")


GOLD = [[("a", "A", 2), ("b", "B", 0)], [(w, "A", h) for w, h in zip("cdefghijklm", [0, *range(1, 11)], strict=True)]]


def test_evaluate(call, file):
    gold = file(conllu(*GOLD), "gold.conllu")
    # first sentence reversed: both arcs wrong, one right as an undirected one; second: the last head is wrong
    predicted = [[("a", "A", 0), ("b", "B", 1)], [*GOLD[1][:-1], ("m", "A", 1)]]
    done = call("evaluate", gold, file(conllu(*predicted), "predicted.conllu"))
    assert done.status == 0 and done.err == ""
    table = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()[1:]}
    assert table["<=10"] == ["1", "2", "0.0", "50.0", "0.0"]
    # 13 words: 10 of 11 right in the second, where 11/13 are right undirected
    assert table["<=20"] == table["all"] == ["2", "13", f"{1000 / 13:.1f}", f"{1100 / 13:.1f}", "50.0"]


def test_evaluate_brackets(call, refused, file):
    gold = file("(S (NP (DT the) (NN dog)) (VP (VB barks)) (. .))\n(S (NP (NN it)) (VP (VB is)))\n", "gold.mrg")
    predicted = file("(S (NP (DT the) (NN dog)) (VP (VB barks) (. .)))\n()\n", "predicted.mrg")
    done = call("evaluate", gold, predicted, "--score", "brackets")
    # of the 6 gold brackets 3 are found, and nothing else: the full stop is left out
    assert done.out.splitlines()[-1].split()[:5] == ["all", "2", "100.0", "50.0", "66.7"]
    other = file("(S (NP (DT a) (NN dog)) (VP (VB barks)) (. .))\n()\n", "other.mrg")
    assert "sentence 1 differs: word 1 is 'the' in" in refused("evaluate", gold, other, "--score", "brackets")
    short = file("()\n", "short.mrg")
    assert "has 2 sentences and" in refused("evaluate", gold, short, "--score", "brackets")
    assert "gold.mrg, line 1: " in refused("evaluate", file("()", "gold.mrg"), short, "--score", "brackets")


def test_evaluate_without_punctuation(call, file):
    gold = file(conllu([("a", "A", 3), (",", ",", 1), ("b", "B", 0), (".", ".", 3)]), "gold.conllu")
    done = call("evaluate", gold, file(conllu([("a", "A", 2), ("b", "B", 0)])))
    assert done.out.splitlines()[-1].split() == ["all", "1", "2", "100.0", "100.0", "100.0"]


def test_draw(call, file, tmp_path):
    path, gold = file(conllu(*GOLD)), file(conllu([("a", "A", 0), ("b", "B", 1)], GOLD[1]), "gold.conllu")
    text = "  ╭─── a  A\n──┴─── b  B\n"
    assert call("draw", path) == (0, text, "")
    out = tmp_path / "tree.svg"
    assert call("draw", path, "--out", out) == (0, "", "")
    assert out.read_text().startswith("<svg") and "wrong" not in out.read_text()
    assert call("draw", path, "--gold", gold, "--text", "--out", out).out.count("✗ gold head") == 2
    assert "wrong (2)" in out.read_text()
    assert len(call("draw", path, "--sentence", 2).out.splitlines()) == 11


def test_sample(call, run_folder, file):
    first = call("sample", run_folder, "--num", 30, "--max-length", 6, "--seed", 1)
    assert first.status == 0
    assert first == call("sample", run_folder, "--num", 30, "--max-length", 6, "--seed", 1)
    assert first.out != call("sample", run_folder, "--num", 30, "--max-length", 6, "--seed", 2).out
    corpus = Corpus.from_conllu(file(first.out), tags="xpos", punctuation="keep")
    assert len(corpus) == 30 and int(corpus.lengths.max()) <= 6 and bool(corpus.is_projective.all())


def test_sample_brackets(call, run_folder, file):
    options = ["--num", 40, "--max-length", 7]
    corpus = Corpus.from_conllu(file(call("sample", run_folder, *options).out), tags="xpos", punctuation="keep")
    lines = call("sample", run_folder, *options, "--format", "brackets").out.splitlines()
    assert corpus.heads is not None
    for line, tags, heads, n in zip(lines, corpus.tags, corpus.heads.tolist(), corpus.lengths.tolist(), strict=True):
        read, found = [], {}
        stack = [[]]  # for every open bracket: the words right in it, first of all the bare one
        for token in f"[{line}]".replace("[", " [ ").replace("]", " ] ").split():
            if token == "[":
                stack.append([])
            elif token == "]":
                inner = stack.pop()
                (head,) = (w for kind, w in inner if kind == "bare")
                found.update({w: head for kind, w in inner if kind == "child"})
                stack[-1].append(("child", head))
            else:
                read.append(token)
                stack[-1].append(("bare", len(read)))
        assert read == tags
        assert [found.get(c, 0) for c in range(1, n + 1)] == heads[:n]
