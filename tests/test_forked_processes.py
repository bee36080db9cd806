# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whatever a process has done, those that it starts can do as well, and find the same, however they are started."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gzip, json, multiprocessing, sys, tempfile
from pathlib import Path

import pyro
import torch

from pyrogram.data import Corpus, LexicalCorpus, read_morphs, read_treebank, read_trees, read_utterances
from pyrogram.data.builtin import generate
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.grammars import CFG, DMV, HMM
from pyrogram.infer import CollapsedVB, EM, TreeHastings, VariationalEM
from pyrogram.knowledge import read_treebanks
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet


def readers(folder):
    conllu, odd, packed = (folder / name for name in ("a-ud-train.conllu", "b.conllu", "c.conllu.gz"))
    corpora = [Corpus.from_conllu(file) for file in (conllu, odd, packed)]
    corpora += [Corpus.from_conllu(conllu, cache=folder), *read_treebanks([conllu]).values()]
    corpora += [Corpus.from_brackets(folder / "t.mrg"), Corpus.from_tags(folder / "t.txt", tags="form")]
    segmented = [*read_utterances(folder / "t.txt"), *read_morphs(folder / "m.tsv")]
    trees = [*map(str, read_trees(folder / "t.mrg")), *read_treebank(folder / "t.mrg").sentences("train")]
    tensors = [[c.words.tolist(), c.is_projective.tolist() if c.heads is not None else []] for c in corpora]
    return tensors, segmented, trees


def writers(folder):
    corpus = Corpus.from_conllu(folder / "a-ud-train.conllu", punctuation="keep")
    with tempfile.TemporaryDirectory() as other:
        corpus.to_conllu(Path(other) / "c.conllu")
        again = Corpus.from_conllu(Path(other) / "c.conllu")
    lexical = LexicalCorpus.from_corpus(corpus)
    batches = [batch.words.tolist() for batch in corpus.batches(max_words=200)]
    joined = Corpus.concatenate([corpus, corpus[:3]]).filter(max_length=8).projective()
    return corpus.to_conllu(), again.words.tolist(), lexical.words.tolist(), batches, joined.words.tolist()


def charts(folder):
    scores = torch.randn(600, 31, 31, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores.requires_grad_()
    tree = ProjectiveDependencyTree(scores)
    tree.log_partition.sum().backward()
    grammar = CFG.dense(4, 4, 9)
    words = torch.arange(9).repeat(64, 2)
    rules = grammar.derivation({"rules": grammar.blocks["rules"].softmax(torch.zeros(len(grammar.rules)))}, words)
    return tree.argmax().sum().item(), round(scores.grad.sum().item(), 6), round(rules.log_partition.sum().item(), 2)


def loops(folder):
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    corpus, found = Corpus.builtin(60, max_length=8), []
    made = EM(maximum_likelihood), VariationalEM(dirichlet), CollapsedVB(dirichlet), TreeHastings(dirichlet, seed=0)
    for loop in made:
        loop.run(corpus.words, DMV(len(corpus.vocab)), num_steps=2, progress=False)
        found.append({name: round(x.double().exp().sum().item(), 3) for name, x in loop.weights().items()})
    product = torch.ones(700, 700) @ torch.ones(700, 700)  # on all of torch's threads
    return found, product.sum().item()


def work(folder):
    return json.dumps([use(folder) for use in (readers, writers, charts, loops)])


if __name__ == "__main__":
    method, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(2)
    expected = work(folder)
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply_async(work, (folder,)).get(timeout=60)
    for mine, other in zip(json.loads(expected), json.loads(found), strict=True):
        assert mine == other, (mine, other)
    print("alike")
"""


METHODS = "forkserver", "spawn"  # beside fork


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of all formats."""
    rows = "".join(f"{i}\tw{i}\t_\t{t}\tX\t_\t{i - 1}\t_\t_\t_\n" for i, t in enumerate(("NOUN", "VERB", "PUNCT"), 1))
    text = "".join(f"# sent_id = {i}\n{rows}\n" for i in range(20))
    (tmp_path / "a-ud-train.conllu").write_text(text)
    (tmp_path / "b.conllu").write_text(text.replace("# sent_id = 7", "\u00a0\n\n# sent_id = 7"))  # is not read at once
    (tmp_path / "c.conllu.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "t.mrg").write_text("(S (NP (NN a)) (VP (VB b)))\n" * 9)
    (tmp_path / "t.txt").write_text("a b c\nb c\n")
    (tmp_path / "m.tsv").write_text("ab\ta b\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
@pytest.mark.parametrize("method", ["fork", *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS)])
def test_a_process_after_use(method: str, folder: Path) -> None:
    # Ten seconds of processor time: a process of its own imports all, for threads of this one must not be forked.
    command = [sys.executable, "-W", "ignore", str(folder / "program.py"), method, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "alike\n", done.stderr
