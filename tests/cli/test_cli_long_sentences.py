# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""induce and parse on long sentences, up to a thousand words."""

import csv
import itertools
import json
import math
import random

import pytest
import torch
from safetensors.torch import load_file

from pyrogram import DMV, Corpus
from pyrogram.data import Vocabulary
from pyrogram.trees import is_tree

N = 1000
few_or_many = pytest.mark.parametrize("n", [200, pytest.param(N, marks=pytest.mark.slow)])


def written(path, tags):
    path.write_text("".join(f"{i}\tw\t_\t_\t{tag}\t_\t_\t_\t_\t_\n" for i, tag in enumerate(tags, 1)) + "\n")
    return path


@pytest.fixture
def alike(tmp_path):
    """A sentence of so many words of one tag."""
    return lambda n: written(tmp_path / "alike.conllu", ["NN"] * n)


@few_or_many
def test_induce(n, call, alike, tmp_path):
    """Under uniform weights a tree has probability 2^-(3n-1): it has 2n stops, and n-1 decisions to go on.

    There are binom(3n-2, n-1) / n projective trees with one root.
    """
    test, out = written(tmp_path / "test.conllu", ["NN", "NN"]), tmp_path / "run"
    options = ["--test", test, "--method", "em", "--init", "uniform", "--steps", 1, "--tags", "xpos"]
    assert call("induce", alike(n), *options, "--max-length", n, "--out", out).status == 0
    (row,) = csv.DictReader((out / "curve.csv").read_text().splitlines())
    expected = math.log(math.comb(3 * n - 2, n - 1) // n) - (3 * n - 1) * math.log(2)
    assert float(row["objective"]) == pytest.approx(expected, abs=1e-9)
    weights = load_file(out / "weights.safetensors")
    left, right = weights["stop"][0]
    assert torch.allclose(left, right, atol=1e-12)  # mirrored trees are as probable
    assert torch.allclose(weights["stop"].sum(-1), torch.ones(1, 2, 2, dtype=torch.float64))
    goes_on = left[:, 0]  # of each valence; all in all, (n-1) / (3n-1) of the decisions
    assert goes_on.min() < (n - 1) / (3 * n - 1) < goes_on.max()


def test_too_long_for_max_length(refused, alike, run_folder, tmp_path):
    alike = alike(N)
    told = f"no sentence of the training file has at most {{}} words (the shortest has {N}); raise --max-length"
    assert told.format(10) in refused("induce", alike, "--tags", "xpos")
    assert told.format(N - 1) in refused("induce", alike, "--tags", "xpos", "--max-length", N - 1)
    short = written(tmp_path / "short.conllu", ["NN", "NN"])
    told = told.replace("training", "--dev").format(10)
    assert told in refused("induce", short, "--dev", alike, "--tags", "xpos")
    assert "--zero-shot" in refused("parse", alike)


@few_or_many
def test_parse(n, call, run_folder, tmp_path):
    vocab = Vocabulary.from_list(json.loads((run_folder / "config.json").read_text())["vocabulary"])
    tags = random.Random(0).choices([tag for tag in vocab.symbols if tag.isalpha()], k=n)
    file, found = written(tmp_path / "long.conllu", tags), {}
    for decoder in ("mbr", "viterbi"):
        assert call("parse", run_folder, file, "--decoder", decoder, "--out", tmp_path / "out.conllu") == (0, "", "")
        (record,) = Corpus.from_conllu(tmp_path / "out.conllu", tags="xpos", punctuation="keep")
        assert record.xpos == tuple(tags) and is_projective_tree(record.heads)
        found[decoder] = list(record.heads)
    weights = {k: 0.9999 * w + 0.0001 / w.shape[-1] for k, w in load_file(run_folder / "weights.safetensors").items()}
    words = torch.tensor(vocab.encode(tags))
    trees = DMV(len(vocab)).derivation(weights, words)
    assert found == {"mbr": trees.mbr().tolist(), "viterbi": trees.argmax().tolist()}
    # Each is better than the other tree and than chains, by the definitions of the model and of the decoder.
    others = [list(range(n)), [*range(2, n + 1), 0]]
    best, *values = (log_probability(weights, words.tolist(), h) for h in (found["viterbi"], found["mbr"], *others))
    assert best > max(values)
    arcs = trees.marginals()
    assert torch.allclose(arcs.sum(0)[1:], torch.ones(n, dtype=torch.float64))  # every word has one head
    best, *values = (float(arcs[h, range(1, n + 1)].sum()) for h in (found["mbr"], found["viterbi"], *others))
    assert best > max(values)


def is_projective_tree(heads):
    """Whether one word has head 0, and all others lie below it, the descendants of each word side by side."""
    below = [[] for _ in range(len(heads) + 1)]
    for word in range(1, len(heads) + 1):
        above, steps = word, 0
        while above and steps <= len(heads):  # no more in a tree
            below[above].append(word)
            above, steps = heads[above - 1], steps + 1
        if above:
            return False
    return heads.count(0) == 1 and all(max(found) - min(found) + 1 == len(found) for found in below[1:])


def log_probability(weights, words, heads):
    """Of words and tree, as the model tells its story: the root, then the children of each word on each side."""
    root, attach, stop = (weights[name].log().tolist() for name in ("root", "attach", "stop"))
    found = root[words[heads.index(0)]]
    left, right = ([[] for _ in words] for _ in range(2))
    for child, head in enumerate(heads):
        if head:
            (left if child < head - 1 else right)[head - 1].append(words[child])
    for side, of_words in enumerate((left, right)):
        for word, children in zip(words, of_words, strict=True):
            for i, child in enumerate(children):
                found += stop[word][side][min(i, 1)][0] + attach[word][side][child]
            found += stop[word][side][min(len(children), 1)][1]
    return found


def test_what_is_a_projective_tree():
    for n in range(1, 5):
        for heads in itertools.product(range(n + 1), repeat=n):
            assert is_projective_tree(heads) == bool(is_tree(torch.tensor(heads)))
