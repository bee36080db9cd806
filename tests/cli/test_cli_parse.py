# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""parse, evaluate, draw and sample on files made by hand."""

import io
import json
import sys

import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.cli import main
from pyrogram.data import Vocabulary
from pyrogram.data.punctuation import attach_punctuation


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
    marks = [("!", ".", 5), ("?", ".", 5)]
    done = call("parse", run_folder, file(conllu(sentence, marks)), "--decoder", decoder)
    assert done.status == 0
    assert columns(done.out, 1, 4) == [(form, tag) for form, tag, _ in sentence + marks]
    vocab = Vocabulary.from_list(json.loads((run_folder / "config.json").read_text())["vocabulary"])
    most = vocab.most_frequent
    (note,) = done.err.splitlines()
    assert f"1 word has a symbol unseen in training (FOO); taken for {most}" in note
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
    full = attach_punctuation(expected.tolist(), [True, False, True, True, False])
    assert [int(h) for (h,) in columns(done.out, 6)] == [*full, 0, 1]
    relations = ["root" if h == 0 else "dep" for h in full]
    relations[1] = relations[4] = "punct"
    assert [r for (r,) in columns(done.out, 7)] == [*relations, "root", "punct"]


def test_parse_is_what_induce_scored(call, run_folder, treebanks, tmp_path):
    """``parses.conllu`` of the run has the words that were scored, with the same heads."""
    out = tmp_path / "parses.conllu"
    assert call("parse", run_folder, treebanks.test, "--out", out) == (0, "", "")
    assert call("parse", run_folder, treebanks.test).out == out.read_text()
    read, scored = (Corpus.from_conllu(path, tags="xpos") for path in (out, run_folder / "parses.conllu"))
    assert read.tags == scored.tags and read.heads.equal(scored.heads)


# Every kind of line that CoNLL-U has; XPOS are those of the run.
RICH = """# newdoc
# sent_id = a
# text = Ei, the dogs' end.
1\tEi\tei\tINTJ\tUH\t_\t4\tdiscourse\t_\tSpaceAfter=No
2\t,\t,\tPUNCT\t,\t_\t1\tpunct\t_\t_
3-4\tthe dogs\t_\t_\t_\t_\t_\t_\t_\tA=1
3\tthe\tthe\tDET\tDT\tDefinite=Def|PronType=Art\t4\tdet\t4:det\t_
4\tdogs\tdog\tNOUN\tNNS\tNumber=Plur\t0\troot\t0:root\tX=\u00a0y
4.1\tran\trun\tVERB\tVBD\t_\t_\t_\t4:conj\tCopyOf=4
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# sent_id = marks alone
1\t...\t...\tPUNCT\t.\t_\t0\troot\t_\t_
2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_


# sent_id = b
1\tEnd\tend\tVERB\tVB\t_\t_\t_\t_\t_
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_parse_returns_the_file_it_was_given(end, call, run_folder, tmp_path):
    """Byte for byte, but for HEAD, DEPREL and the empty line that must end the last sentence."""
    path, out = tmp_path / "rich.conllu", tmp_path / "parsed.conllu"
    path.write_bytes(RICH.replace("\n", end).encode())
    assert call("parse", run_folder, path, "--out", out).status == 0
    before, after = (RICH + "\n").split("\n"), out.read_bytes().decode().split(end)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        old, new = old.split("\t"), new.split("\t")
        if old[0].isdigit():
            assert new[6].isdigit() and new[7] == ("root" if new[6] == "0" else "punct" if "PUNCT" in old else "dep")
            old[6:8] = new[6:8] = []
        assert old == new
    again = tmp_path / "again.conllu"
    assert call("parse", run_folder, out, "--out", again).status == 0
    assert again.read_bytes() == out.read_bytes()
    read = Corpus.from_conllu(out, tags="xpos", punctuation="keep", heads="required")
    assert bool(read.is_projective.all())


def test_punctuation_alone(call, run_folder, file):
    """A file of nothing else comes out, too."""
    done = call("parse", run_folder, file("./. !/.\n./.\n", "dots.txt"))
    assert done.status == 0
    assert columns(done.out, 1, 6, 7) == [(".", "0", "root"), ("!", "1", "punct"), (".", "0", "root")]


def test_text_is_utf8_whatever_the_terminal(run_folder, file, monkeypatch):
    path = str(file(conllu([("naïve", "JJ", 0)])))
    commands = [["parse", str(run_folder), path], ["draw", path]]
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written := io.BytesIO(), encoding="ascii"))
    assert [main(command) for command in commands] == [0, 0]
    sys.stdout.flush()
    parsed, _, drawn = written.getvalue().splitlines()
    assert parsed == "1\tnaïve\t_\t_\tJJ\t_\t0\troot\t_\t_".encode()
    assert drawn == b"---- na?ve  JJ"


def test_parse_other_formats(call, run_folder, file):
    expected = columns(call("parse", run_folder, file(conllu([("the", "DT", 0), ("dog", "NN", 1)]))).out, 1, 4, 6)
    for text, name in (("the/DT dog/NN\n", "a.txt"), ("(NP (DT the) (NN dog))\n", "a.mrg")):
        assert columns(call("parse", run_folder, file(text, name)).out, 1, 4, 6) == expected


def test_unknown_error(refused, run_folder, file):
    path = file(conllu([("the", "FOO", 0)]))
    assert "'FOO' is not in the vocabulary" in refused("parse", run_folder, path, "--unknown", "error")


GOLD = [[("a", "A", 2), ("b", "B", 0)], [(w, "A", h) for w, h in zip("cdefghijklm", [0, *range(1, 11)], strict=True)]]


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


def test_sample_brackets_refuses_symbols_with_brackets(call, refused, file, tmp_path):
    train = file("1\ta\t_\t_\t[\t_\t0\t_\t_\t_\n\n", "brackets.conllu")
    done = call("induce", train, "--tags", "xpos", "--steps", 1, "--out", tmp_path / "run")
    assert done.status == 0, done.err
    error = refused("sample", tmp_path / "run", "--num", 1, "--format", "brackets")
    assert "--format brackets cannot hold the symbol '['; give --format conllu" in error
