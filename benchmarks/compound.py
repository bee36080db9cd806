# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Epochs of context-free grammars: weights that are parameters, made by a network, and made for each sentence."""

from __future__ import annotations

import argparse
import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from em import corpora
from pyro.infer import SVI, TraceMeanField_ELBO
from timing import Work, race
from torch import Tensor

from pyrogram import models
from pyrogram.grammars import CFG
from pyrogram.infer import EM

SENTENCES = 1000
NONTERMINALS, PRETERMINALS, SIZE, CONTEXT_SIZE, BATCH = 8, 16, 32, 8, 16
WHAT = f"{NONTERMINALS} + {PRETERMINALS} symbols, sentences of at most ten words, one thread, float32"
HEADER = ["corpus", "sentences", "weights", "ms per epoch", "times EM"]


def compound(seconds: float, sentences: int = SENTENCES) -> list[list[str]]:
    """Rows: milliseconds of one pass over a corpus, a step of EM or minibatches of SVI."""
    rows = []
    for name, corpus in corpora():
        words = corpus.words[:sentences]
        times = race(_works(words, len(corpus.vocab)), 1, seconds)
        for weights, t in times.items():
            ratio = 1 / t.times_faster_than(times["parameters, EM"])
            rows.append([name, f"{len(words):,}", weights, f"{1000 * t.median:.0f}", f"{ratio:.1f}"])
            print(" | ".join(rows[-1]), flush=True)
    return rows


def _works(words: Tensor, num_words: int) -> dict[str, Work]:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    example, grammar = _example(), CFG.dense(NONTERMINALS, PRETERMINALS, num_words)
    plain = EM(models.maximum_likelihood, initial_weights="random")
    encoder = example.Encoder(num_words, SIZE, CONTEXT_SIZE)
    networks = {
        f"a network, SVI, minibatches of {BATCH}": _svi(example.CompoundPCFG(grammar, SIZE, 0), example.no_guide),
        f"a network and a vector of each sentence, SVI, minibatches of {BATCH}": _svi(
            example.CompoundPCFG(grammar, SIZE, CONTEXT_SIZE), encoder
        ),
    }
    parameters: dict[str, Any] = {}  # both have some of the same names

    def epoch(name: str) -> None:
        with pyro.get_param_store().scope(parameters.get(name)) as parameters[name]:
            for batch in example.minibatches(words, BATCH):
                networks[name].step(batch)

    return {"parameters, EM": lambda: plain.step(words, grammar)} | {n: partial(epoch, n) for n in networks}


def _svi(model: Any, guide: Any) -> SVI:
    return SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.01, "clip_norm": 3.0}), TraceMeanField_ELBO())


def _example() -> Any:
    """The program of the compound PCFG."""
    path = Path(__file__).resolve().parents[1] / "examples/compound_pcfg.py"
    spec = importlib.util.spec_from_file_location("compound_pcfg", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each corpus")
    torch.set_num_threads(1)
    compound(parser.parse_args().seconds)
