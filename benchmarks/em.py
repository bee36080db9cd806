# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence: log Z with gradients, expected counts, EM on corpora, E-steps with evidence."""

from __future__ import annotations

import statistics
import warnings
from functools import partial
from pathlib import Path

import pyro
import torch
from timing import Work, race
from torch import Tensor

from pyrogram import models
from pyrogram.data import Corpus
from pyrogram.distributions import Sentence
from pyrogram.grammars import DMV, HMM
from pyrogram.infer import EM

BATCH = 512
EWT = Path(__file__).resolve().parents[2] / "shared/data/ud/en_ewt-ud-train.conllu"

DMV_HEADER = ["", "threads", "V", "n", "sentences/s"]
KNOWN_HEADER = ["corpus", "grammar", "known", "ms of an E-step", "times that of nothing known", "sentences parsed"]
EM_HEADER = ["corpus", "sentences", "words", "weights", "threads", "ms per iteration", "words/s"]


def dmv(lengths: tuple[int, ...], threads: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Rows: sentences/s of one DMV for a batch of sentences, in float64."""
    rows = []
    for count in threads:
        for tags in (17, 45):
            for n in lengths:
                times = race(_dmv_works(tags, n), count, seconds)
                rows += [[name, str(count), str(tags), str(n), _rounded(BATCH / t.median)] for name, t in times.items()]
                print(" | ".join(rows[-1]), flush=True)
    return sorted(rows, key=lambda row: row[0])


def _dmv_works(tags: int, n: int) -> dict[str, Work]:
    generator = torch.Generator().manual_seed(n)
    grammar = DMV(tags)
    weights = {
        name: block.normalize(torch.rand(block.shape, dtype=torch.float64, generator=generator) + 0.1)
        for name, block in grammar.blocks.items()
    }
    log_weights = {name: w.log() for name, w in weights.items()}
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    words = torch.randint(tags, (BATCH, n), generator=generator)

    def backward() -> None:
        for leaf in leaves.values():
            leaf.grad = None
        Sentence(grammar, leaves).log_prob(words).sum().backward()

    return {
        "`Sentence.log_prob`, backward": backward,
        "`DMV.expected_counts`": lambda: grammar.expected_counts(log_weights, words),
    }


def em(threads: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Rows: milliseconds of one ``EM.step`` on sentences of at most ten words."""
    rows = []
    for name, corpus in corpora():
        for count in threads:
            times = race(_em_works(corpus), count, seconds)
            words = int(corpus.lengths.sum())
            for weights, t in times.items():
                row = [name, f"{len(corpus):,}", f"{words:,}", weights, str(count)]
                rows.append([*row, f"{1000 * t.median:.1f}", _rounded(words / t.median)])
                print(" | ".join(rows[-1]), flush=True)
    return rows


def _em_works(corpus: Corpus) -> dict[str, Work]:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    grammar = DMV(len(corpus.vocab))
    V, size = grammar.num_tags, 16
    network = torch.nn.ModuleDict(
        {n: torch.nn.Linear(size, V if n == "root" else b.shape[1:].numel()) for n, b in grammar.blocks.items()}
    )
    network["tags"] = torch.nn.Embedding(V + 1, size)  # the last is that of ROOT

    def neural(words: Tensor) -> None:
        module = pyro.module("network", network)
        tags = module["tags"].weight.tanh()
        heads = {name: tags[-1] if name == "root" else tags[:-1] for name in grammar.blocks}
        logs = {n: module[n](heads[n]).reshape(b.shape).log_softmax(-1) for n, b in grammar.blocks.items()}
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, log_weights=logs), obs=words)

    plain, fitted = EM(models.maximum_likelihood), EM(neural, initial_weights="harmonic", m_steps=10)
    return {
        "parameters": lambda: plain.step(corpus.words, grammar),
        "a network, ten steps of L-BFGS": lambda: fitted.step(corpus.words),
    }


def evidence(seconds: float) -> list[list[str]]:
    """Rows: milliseconds of one E-step with none, some and all of the derivations known."""
    return [[name, *row] for name, corpus in corpora(most_words=40) for row in _evidence(corpus, seconds)]


def _evidence(corpus: Corpus, seconds: float) -> list[list[str]]:
    """The rows of one corpus."""
    torch.manual_seed(0)
    V, n = len(corpus.vocab), corpus.words.shape[1]
    assert corpus.heads is not None
    states = torch.where(corpus.words >= 0, torch.randint(10, corpus.words.shape), -1)
    rows = []
    for grammar, all_known in (
        (DMV(V), corpus.heads),
        (DMV(V, valence_attach=True), corpus.heads),
        (HMM(10, V), states),
    ):
        words_of = {share: torch.rand(len(corpus), n) < share for share in (0.1, 0.5)}
        chosen = {
            "nothing": torch.zeros(len(corpus), n, dtype=torch.bool),
            "10 % of the sentences": (torch.rand(len(corpus), 1) < 0.1).expand(-1, n),
            "10 % of the words": words_of[0.1],
            "50 % of the words": words_of[0.5],
            "everything": torch.ones(len(corpus), n, dtype=torch.bool),
        }
        weights = grammar.initial_weights(corpus.words, "random", seed=0)
        log_weights = {block: w.double().log() for block, w in weights.items()}
        works: dict[str, Work] = {}
        parsed = {}
        for what, is_known in chosen.items():
            known = torch.where(is_known, all_known, -1)
            works[what] = partial(grammar.expected_counts, log_weights, grammar.sentences(corpus.words, known))
            parsed[what] = int(((known < 0) & (corpus.words >= 0)).any(-1).sum())
        times = race(works, 1, seconds)
        nothing = times["nothing"]
        for what, t in times.items():
            ratio = statistics.median(a / b for a, b in zip(t.rounds, nothing.rounds, strict=True))
            rows.append([repr(grammar), what, f"{1000 * t.median:.2f}", f"{ratio:.2f}", f"{parsed[what]:,}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


def corpora(most_words: int = 10) -> list[tuple[str, Corpus]]:
    """The built-in one, and sentences of at most so many words of a treebank, if it is there."""
    corpora = [("built in", Corpus.builtin(num_sentences=8000, seed=0).filter(max_length=10)[:5000])]
    if EWT.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            corpora.append(("English Web Treebank, universal tags", Corpus.from_conllu(EWT, max_length=most_words)))
    return corpora


def _rounded(rate: float) -> str:
    return f"{float(f'{rate:.3g}'):,.0f}"
