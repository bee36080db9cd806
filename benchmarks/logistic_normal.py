# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational EM with a logistic normal for every sentence: iterations, and how much of the posterior is stored."""

from __future__ import annotations

import statistics
import time

import pyro
import torch
from em import corpora

from pyrogram import models
from pyrogram.grammars import DMV
from pyrogram.infer import VariationalEM

HEADER = ["corpus", "covariance", "threads", "s, first iteration", "s, later ones", "megabytes of q", "of a dense q"]
LATER = 10


def logistic_normals(threads: tuple[int, ...]) -> list[list[str]]:
    """Rows: seconds of one ``VariationalEM.step``: an E-step to 0.001 nats a sentence and an M-step.

    The first iteration reads the model and starts from the prior; later ones start from the q before.
    """
    rows = []
    for name, corpus in corpora():
        for diagonal in (True, False):
            for count in threads:
                torch.set_num_threads(count)
                grammar = DMV(len(corpus.vocab))
                clock = time.process_time if count == 1 else time.perf_counter
                _run(grammar, corpus.words[:64], diagonal, clock)  # compiles
                loop, times = _run(grammar, corpus.words, diagonal, clock)
                stored = sum(8 * t.numel() for t in loop._state.experts.values()) / 2**20
                dense = 16 * len(corpus) * sum(b.shape.numel() for b in grammar.blocks.values()) / 2**20
                first, later = f"{times[0]:.2f}", f"{statistics.median(times[1:]):.3f}"
                kind = "diagonal" if diagonal else "full"
                rows.append([name, kind, str(count), first, later, f"{stored:.0f}", f"{dense:.0f}"])
                print(" | ".join(rows[-1]), flush=True)
    return rows


def _run(grammar: DMV, words: torch.Tensor, diagonal: bool, clock) -> tuple[VariationalEM, list[float]]:
    pyro.clear_param_store()
    experts = models.initial_experts(words, grammar, diagonal=diagonal)
    loop, times = VariationalEM(models.logistic_normal.logistic_normal), []
    for _ in range(1 + LATER):
        start = clock()
        loop.step(words, grammar, start=experts)
        times.append(clock() - start)
    return loop, times
