# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""E-steps, and sweeps of collapsed inference, under a tilt, against those without one."""

from __future__ import annotations

import statistics
from functools import partial

import torch
from em import corpora
from timing import Work, race

from pyrogram.data import Corpus
from pyrogram.grammar import Grammar
from pyrogram.grammars import DMV, HMM
from pyrogram.sweeps.plain import CorpusCounts

HEADER = ["corpus", "grammar", "", "ms", "ms under a tilt", "times"]


def rows(seconds: float) -> list[list[str]]:
    """Milliseconds with and without a tilt, in turns, one thread."""
    return [[name, *row] for name, corpus in corpora(most_words=40) for row in _rows(corpus, seconds)]


def _rows(corpus: Corpus, seconds: float) -> list[list[str]]:
    V, table = len(corpus.vocab), []
    for grammar in (DMV(V), DMV(V, valence_attach=True), HMM(10, V)):
        generator = torch.Generator().manual_seed(0)
        nats = {n: torch.randn(b.shape, generator=generator) for n, b in grammar.blocks.items()}
        both = {"plain": grammar, "tilted": grammar.tilted(nats)}
        for what, make in (("E-step", _e_step), ("sweep of collapsed VB", _sweep)):
            times = race({name: make(g, corpus) for name, g in both.items()}, 1, seconds)
            plain, tilted = times["plain"], times["tilted"]
            ratio = statistics.median(a / b for a, b in zip(tilted.rounds, plain.rounds, strict=True))
            ms = [f"{1000 * t.median:.2f}" for t in (plain, tilted)]
            table.append([repr(grammar), what, *ms, f"{ratio:.2f}"])
            print(" | ".join(table[-1]), flush=True)
    return table


def _e_step(grammar: Grammar, corpus: Corpus) -> Work:
    weights = grammar.initial_weights(corpus.words, "random", seed=0)
    return partial(grammar.expected_counts, {n: w.double().log() for n, w in weights.items()}, corpus.words)


def _sweep(grammar: Grammar, corpus: Corpus) -> Work:
    updates, weights = grammar.collapsed_updates(corpus.words), grammar.initial_weights(corpus.words, "random", seed=0)
    sentence_counts = updates.expected_counts(weights)[2]
    alpha = {n: torch.full(b.shape, 0.25, dtype=torch.float64) for n, b in grammar.blocks.items()}
    order = torch.argsort((corpus.words >= 0).sum(1), stable=True)
    counts = updates.total(sentence_counts)
    return lambda: updates.collapsed_vb(CorpusCounts(counts, alpha), sentence_counts, order, 8)
