# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parses and scores of one grammar on a corpus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.choices import DECODERS, best
from pyrogram.data import Corpus
from pyrogram.distributions import Sentence
from pyrogram.grammar import Grammar, Weights
from pyrogram.grammars import DMV
from pyrogram.knowledge import Assumed
from pyrogram.metrics import AttachmentScores, accuracy_by_length

BINS = (10, 20, 40, None)
CELLS = 500_000  # of charts that are in memory at a time


@dataclass(frozen=True)
class Evaluation:
    """One grammar on one corpus.

    :param heads: predicted heads by decoder, shape ``(N, n)``.
    :param scores: by decoder; empty without gold heads.
    :param likelihood: log-likelihood per word in nats, for every bin of lengths; None for an empty one.
    """

    heads: dict[str, Tensor]
    scores: dict[str, AttachmentScores]
    likelihood: tuple[float | None, ...] = ()


def smoothed(grammar: Grammar, weights: Weights, smoothing: float) -> Weights:
    """Every multinomial mixed with ``smoothing`` of the uniform one, so that every sentence has a parse."""
    mixed = {}
    for name, block in grammar.blocks.items():
        mixed[name] = (1 - smoothing) * weights[name] + smoothing * block.uniform(weights[name])
    return mixed


def parse_corpus(
    grammar: DMV,
    weights: Weights,
    corpus: Corpus,
    decoders: Sequence[str] = DECODERS,
    assumed: Assumed | None = None,
    log_likelihood: Tensor | None = None,
) -> dict[str, Tensor]:
    """Heads by decoder of sentences of any length.

    :param assumed: what trees are parsed under, besides the weights.
    :param log_likelihood: where to put those of the sentences under the weights alone, shape ``(N,)``.
    """
    words = corpus.words
    heads = {name: torch.full_like(words, -1) for name in decoders}
    lengths = (words >= 0).sum(-1)
    with torch.no_grad():
        for chunk in _chunks(lengths):
            n = int(lengths[chunk].max())
            plain = trees = grammar.derivation(weights, words[chunk, :n])
            if assumed is not None:
                tilted = grammar.tilted(assumed.bias(corpus[chunk]))
                trees = Sentence(tilted, weights).derivation(words[chunk, :n])
            for name in heads:
                heads[name][chunk, :n] = best(trees, name)
            if log_likelihood is not None:  # last: it comes along with marginals
                log_likelihood[chunk] = plain.log_partition.to(log_likelihood.dtype)
    return heads


def evaluate(grammar: DMV, weights: Weights, corpus: Corpus, assumed: Assumed | None = None) -> Evaluation:
    """Parse a corpus with both decoders and score what comes out."""
    log_z = torch.zeros(len(corpus), dtype=torch.float64)
    heads = parse_corpus(grammar, weights, corpus, assumed=assumed, log_likelihood=log_z)
    scores = {}
    if corpus.heads is not None:
        scores = {name: accuracy_by_length(h, corpus.heads, BINS) for name, h in heads.items()}
    likelihood: list[float | None] = []
    for bound in BINS:
        short = corpus.lengths <= (math.inf if bound is None else bound)
        num_words = int(corpus.lengths[short].sum())
        likelihood.append(float(log_z[short].sum()) / num_words if num_words else None)
    return Evaluation(heads, scores, tuple(likelihood))


def baseline_evaluation(heads: Tensor, corpus: Corpus) -> Evaluation:
    """A baseline that has one tree per sentence, whatever the decoder."""
    assert corpus.heads is not None
    scores = accuracy_by_length(heads, corpus.heads, BINS)
    return Evaluation({}, dict.fromkeys(DECODERS, scores), (None,) * len(BINS))


def _chunks(lengths: Tensor) -> list[Tensor]:
    """Sentences of like lengths together, as many as fit."""
    chunks: list[Tensor] = []
    order = lengths.argsort(stable=True).tolist()
    current: list[int] = []
    for i in reversed(order):  # the longest first: they say how many fit
        width = int(lengths[current[0]]) + 1 if current else 0
        if current and (len(current) + 1) * width**2 > CELLS:
            chunks.append(torch.tensor(current))
            current = []
        current.append(i)
    return [*chunks, torch.tensor(current)] if current else chunks
