# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce topics``: its rows against the library's sampler, its scores against hand's, its files."""

import csv
import json
import math
import shutil
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file

from pyrogram.cli import main
from pyrogram.data import Corpus
from pyrogram.data.lexical import LexicalCorpus
from pyrogram.infer import SyntacticTopics, TopicGibbs
from reproductions.topics.alignment import align_states
from reproductions.topics.experiment import Topics
from reproductions.topics.trees import sample_trees
from reproductions.topics.words import v_measure

SWEEPS, SEED = 25, 4
OPTIONS = ["--sweeps", SWEEPS, "--states", "3, 5", "--seed", SEED, "--jobs", 1]


def treebank(path, number, seed):
    """Sentences of the built-in corpus, each with a full stop and some with a comma."""
    lines = []
    for i, record in enumerate(Corpus.builtin(number, seed=seed)):
        root = record.heads.index(0) + 1
        rows = [(f, "X", x, h) for f, x, h in zip(record.forms, record.xpos, record.heads, strict=True)]
        rows.append((".", "PUNCT", ".", root))
        if i % 3 == 0:
            rows.append(("|", "PUNCT", ",", len(rows)))
        lines += [
            "\t".join([str(j), f, "_", u, x, "_", str(h), "_", "_", "_"]) for j, (f, u, x, h) in enumerate(rows, 1)
        ]
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    return treebank(folder / "train.conllu", 60, 0), treebank(folder / "test.conllu", 25, 1)


@pytest.fixture(scope="module")
def command(banks):
    return ["reproduce", "topics", banks[0], "--test", banks[1], "--starts", 2, *OPTIONS]


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    out = tmp_path_factory.mktemp("topics") / "run"
    assert main([str(a) for a in [*command, "--out", out]]) == 0
    return out


def results(folder):
    with open(folder / "results.csv", newline="") as file:
        return {(line["row"], int(line["start"])): line for line in csv.DictReader(file)}


def corpora(banks):
    train = Corpus.from_conllu(banks[0], tags="xpos", punctuation="keep")
    test = Corpus.from_conllu(banks[1], tags="xpos", punctuation="keep", vocab=train.vocab)
    ours = LexicalCorpus.from_corpus(train)
    return ours, LexicalCorpus.from_corpus(test, like=ours)


def accuracy(heads, corpus, longest=None):
    """Right heads among words that are no punctuation, of sentences with at most so many of them."""
    right = words = 0
    for tree, gold, record in zip(heads.tolist(), corpus.heads.tolist(), corpus.corpus, strict=True):
        scored = [i for i, upos in enumerate(record.upos) if upos != "PUNCT"]
        if longest is None or len(scored) <= longest:
            right += sum(tree[i] == gold[i] for i in scored)
            words += len(scored)
    return right / words


@pytest.fixture
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ["pos", "states-3", "states-5"])
def test_rows_are_those_of_the_library(run, banks, row, double):
    train, test = corpora(banks)
    V = len(train.lexicon)
    for start in (1,) if row == "pos" else (1, 2):
        seen, seed = None, SEED + start
        if row == "pos":
            topics = SyntacticTopics.from_states(train.words, train.heads, train.tags, V, len(train.tag_vocab))
            seen = test.tags
        else:
            sampler = TopicGibbs(int(row[-1]), V, seed=seed)
            sampler.run(train.words, train.heads, num_steps=SWEEPS, progress=False)
            topics = sampler.topics()
            saved = load_file(run / "starts" / f"{row}-{start:03d}.safetensors")
            assert torch.equal(saved["parameter.states"].long(), sampler.states()[train.words >= 0].long())
            assert saved["curve.objective"].tolist() == sampler.history
        found = results(run)[row, start]
        trees, _ = sample_trees(topics, test.words, seen, num_samples=10, burn_in=50, thin=5, seed=seed)
        for bound, name in ((None, ""), (10, "_10"), (20, "_20"), (40, "_40")):
            sampled = sum(accuracy(heads, test, bound) for heads in trees) / 10
            assert float(found[f"sampled{name}"]) == pytest.approx(sampled)
            assert float(found[f"probable{name}"]) == pytest.approx(
                accuracy(topics.parse(test.words, seen), test, bound)
            )
            mbr = topics.parse(test.words, seen, decoder="mbr")
            assert float(found[f"mbr{name}"]) == pytest.approx(accuracy(mbr, test, bound))
    assert set(results(run)) == {("pos", 1), *((f"states-{k}", i) for k in (3, 5) for i in (1, 2))}


def test_table_3(run, banks):
    """States in order of size, with their words, and the agreement of the other chain's."""
    train, _ = corpora(banks)
    states = [load_file(run / "starts" / f"states-5-{i:03d}.safetensors")["parameter.states"].long() for i in (1, 2)]
    words = [w for record in train.corpus for w in train.lexicon.encode(record.forms)]
    overlap, _ = align_states(*states)
    text = (run / "topics.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    sizes = Counter(states[0].tolist())
    order = [k for k, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))]
    assert len(rows) == len(sizes) and text.startswith("# 5 states, chain 1")
    for line, k in zip(rows, order, strict=True):
        size, agreement, tag, listed = (cell.strip() for cell in line.replace("\\|", "BAR").strip("|").split("|"))
        mine = Counter(w for w, s in zip(words, states[0].tolist(), strict=True) if s == k)
        names = [train.lexicon.vocab.symbols[w] for w, _ in sorted(mine.items(), key=lambda i: (-i[1], i[0]))[:10]]
        assert [w.strip("`").replace("BAR", "|") for w in listed.split(" ")] == names
        tags = [t for record in train.corpus for t in record.xpos]
        common = Counter(t for t, s in zip(tags, states[0].tolist(), strict=True) if s == k)
        assert common[tag.strip("`")] == max(common.values())
        assert int(size) == sizes[k] and int(agreement) == round(100 * float(overlap[k]))
    root = ET.fromstring((run / "topics.svg").read_text())
    assert len([e for e in root.iter("{http://www.w3.org/2000/svg}g") if e.get("class") == "topic"]) == len(sizes)


def test_table_4(run):
    table = (run / "table.md").read_text()
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    assert {"part-of-speech tags", "3 states", "5 states", "states-3 − pos", "states-5 − pos"} <= set(rows)
    assert "(63.1)" in rows["part-of-speech tags"] and "±" in rows["3 states"]
    values = [float(results(run)["states-3", i]["probable"]) for i in (1, 2)]
    assert f"{50 * sum(values):.1f} ±" in rows["3 states"]
    for told in ("60 sentences of train.conllu", "V-measure", "sampled trees, difference to tags"):
        assert told in table


def test_v_measure():
    """By its definition: harmonic mean of 1 - H(tag | state) / H(tag) and 1 - H(state | tag) / H(state)."""
    states, tags = torch.tensor([0, 0, 1, 1, 2, 2, 2]), torch.tensor([0, 0, 0, 1, 1, 1, 2])

    def entropy(x, given=None):
        groups = Counter(given or [0] * len(x))
        pairs = Counter(zip(given or [0] * len(x), x, strict=True))
        return -sum(n / len(x) * math.log(n / groups[g]) for (g, _), n in pairs.items())

    s, t = states.tolist(), tags.tolist()
    h, c = 1 - entropy(t, s) / entropy(t), 1 - entropy(s, t) / entropy(s)
    assert v_measure(states, tags) == pytest.approx(2 * h * c / (h + c))
    assert v_measure(tags, tags) == pytest.approx(1) and v_measure(tags * 0, tags) == pytest.approx(0)


def test_resume_and_more_rows(run, command, call, refused, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    (out / "starts" / "states-3-002.safetensors").unlink()
    assert call(*command, "--out", out).status == 0
    for name, data in before.items():
        if name not in ("results.csv", "table.md"):  # which have seconds
            assert (out / name).read_bytes() == data, name
    wider = [a if a != "3, 5" else "3, 5, 4" for a in command]
    assert call(*wider, "--rows", "pos,states-4", "--out", out).status == 0
    assert "states-4-001.safetensors" in {path.name for path in (out / "starts").iterdir()}
    assert "sweeps 25, not 26" in refused(*[a if a != SWEEPS else 26 for a in command], "--out", out)
    assert json.loads((out / "config.json").read_text())["settings"]["table"] == "topics"


def test_the_builtin_corpus(call):
    done = call("reproduce", "topics", "--sweeps", 3, "--starts", 1, "--states", "2", "--jobs", 1, "--unseen", "test")
    assert done.status == 0 and "2 states" in done.out and "as in the paper" in done.out
    # All measures are in the table, in lines of at most 100 characters, in as many parts as it takes.
    table = done.out.split("Differences")[0]
    for name in ("sampled", "prob.", "MBR"):
        assert table.count(name) == sum(name in measure.label for measure in Topics.measures), name
    assert all(len(line) <= 100 and "…" not in line for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--states", "1"], "--states must be whole numbers from 2"),
        (["--tags", "form"], "give upos or xpos"),
        (["--dev", "TEST"], "leave out --dev"),
        (["--rows", "states-7"], "there is no row 'states-7'"),
    ],
)
def test_bad_options(refused, command, banks, extra, message):
    assert message in refused(*command, *[banks[1] if a == "TEST" else a for a in extra])


def test_missing_files(refused, banks):
    assert "give --test" in refused("reproduce", "topics", banks[0])
    assert "give TRAIN" in refused("reproduce", "topics", "--test", banks[0])
