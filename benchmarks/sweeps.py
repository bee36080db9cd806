# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference of hidden Markov models and of latent annotations against iterations of EM, in the same run.

And a chain of one's own beside the library's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyro
import torch
from em import EWT
from timing import race
from torch import Tensor

from pyrogram import models
from pyrogram.data import Corpus, read_treebank
from pyrogram.grammars import HMM
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeGibbs, TreeHastings
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "grammars"))
from own_grammars import hmm

HEADER = ["grammar", "corpus", "", "ms per iteration or sweep", "times an iteration of EM"]
OWN_HEADER = ["words", "", "µs a sentence by the library's page", "µs by the own one", "times"]
WSJ = Path(__file__).resolve().parents[2] / "shared/data/wsj-sample/train.mrg"
STATES, LONGEST, SENTENCES = (10, 20, 50), 40, 2000
SUBTYPES = (2, 4, 8)


def sweeps(seconds: float) -> list[list[str]]:
    """Rows: milliseconds of one step of every inference on one thread, in float64, for about so many seconds each."""
    torch.set_default_dtype(torch.float64)
    rows = []
    for corpus, words in _sentences().items():
        for states in STATES:
            grammar = HMM(states, int(words.max()) + 1)
            rows += _rows([f"HMM, {states} states", corpus], _of_hmm(grammar, words), seconds)
    for subtypes in SUBTYPES if WSJ.exists() else ():
        rows += _rows([f"annotations, {subtypes} subtypes", "WSJ sample"], _of_annotations(subtypes), seconds)
    return rows


def _sentences() -> Mapping[str, Tensor]:
    """Words and tags of EWT, or random ones."""
    if not EWT.exists():
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(5000, (SENTENCES, 20), generator=generator)
        return {"random words": drawn, "random tags": drawn % 17}
    columns = {}
    for name, column in (("EWT words", "form"), ("EWT tags", "upos")):
        corpus = Corpus.from_conllu(EWT, tags=column, max_length=LONGEST)
        columns[name] = corpus.words[:SENTENCES]
    return columns


def own_chains(seconds: float) -> list[list[str]]:
    """Rows by length: one's own page of ten states and 1,000 words beside the library's, eight sentences."""
    K, V, rows = 10, 1000, []
    for n in (20, 60, 200, 1000):
        words = torch.randint(V, (8, n), generator=torch.Generator().manual_seed(0))
        works: dict[str, list[Callable[[], object]]] = {}
        for grammar in (HMM(K, V), hmm(K, V)):
            weights = {name: w.double() for name, w in grammar.initial_weights(words, "random", seed=0).items()}
            logs = {name: w.log() for name, w in weights.items()}
            works.setdefault("counts", []).append(partial(grammar.expected_counts, logs, words))
            for method in ("collapsed VB", "Hastings"):
                updates = grammar.collapsed_updates(words)
                works.setdefault(method, []).append(_sweep(updates, method, len(words)))
        for use, (library, mine) in works.items():
            times = race({"library": library, "own": mine}, 1, seconds)
            both = [f"{1e6 * t.median / len(words):.3g}" for t in times.values()]
            rows.append([f"{n:,}", use, *both, f"{times['library'].times_faster_than(times['own']):.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


def _sweep(updates: CollapsedUpdates, method: str, batch_size: int = 1) -> Callable[[], object]:
    """From the counts of the sweep before."""
    blocks, order = updates.grammar.blocks, torch.arange(len(updates.words))
    start = updates.grammar.initial_weights(updates.words, "random", seed=0)
    alpha = {name: torch.full(block.shape, 0.1) for name, block in blocks.items()}
    if method == "Hastings":
        generator = torch.Generator().manual_seed(0)
        trees = updates.draw({name: w.log() for name, w in start.items()}, generator)
        corpus = CorpusCounts(updates.counts(trees), alpha)
        return lambda: updates.hastings(corpus, trees, order, batch_size, generator=generator)
    *_, sentence_counts = updates.expected_counts(start)
    field, kept = CorpusCounts(updates.total(sentence_counts), alpha), [sentence_counts]

    def sweep() -> None:
        kept[:] = updates.collapsed_vb(field, kept[0], order, batch_size)[1:]

    return sweep


def _of_hmm(grammar: HMM, words: Tensor) -> dict[str, GrammarLoop]:
    start = grammar.initial_weights(words, seed=0)
    maximum_likelihood = partial(models.maximum_likelihood, words, grammar, initial_weights=start)
    dirichlet = partial(models.dirichlet.dirichlet, words, grammar, concentration=0.1)
    return {
        "EM": EM(maximum_likelihood),
        "CollapsedVB": CollapsedVB(dirichlet, initial_weights=start),
        "CollapsedVB, batch_size=1": CollapsedVB(dirichlet, initial_weights=start, batch_size=1),
        "TreeHastings": TreeHastings(dirichlet, seed=0),
        "TreeGibbs": TreeGibbs(dirichlet, seed=0),
    }


def _of_annotations(subtypes: int) -> dict[str, GrammarLoop]:
    grammar, trees = models.annotated_treebank(read_treebank(WSJ).prepared("train"), subtypes)
    start = grammar.initial_weights(trees, "split", noise=0.01, seed=0)
    model = partial(models.latent_annotation_pcfg.latent_annotation_pcfg, trees, grammar=grammar)
    return {
        "EM": EM(partial(model, concentration=None, initial_weights=start["rules"])),
        "CollapsedVB": CollapsedVB(partial(model, concentration=0.1), initial_weights=start),
    }


def _rows(names: list[str], loops: Mapping[str, GrammarLoop], seconds: float) -> list[list[str]]:
    pyro.clear_param_store()
    times = race({label: loop.step for label, loop in loops.items()}, 1, seconds)
    rows = []
    for label, t in times.items():
        ratio = 1 / t.times_faster_than(times["EM"])
        rows.append([*names, label, f"{1000 * t.median:.1f}", f"{ratio:.2f}"])
        print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each table of a grammar")
    seconds = parser.parse_args().seconds
    sweeps(seconds)
    own_chains(seconds / 5)
