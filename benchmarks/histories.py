# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Histories of inference, now and at an earlier commit: relative differences, and seconds for ten steps.

``python3 benchmarks/histories.py [--before 789e12d]`` runs both on 400 random sentences and prints markdown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from before import ROOT, earlier, served
from torch import Tensor

import pyrogram
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM

STEPS = 10
RULES = """
    S -> X Y [0.6] | Y X [0.4]
    X -> 'a' [0.5] | 'b' [0.3] | X Y [0.2]
    Y -> 'c' [0.5] | 'd' [0.3] | Y X [0.1] | 'a' [0.1]
"""
GRAMMARS: Mapping[str, Callable[[], Any]] = {
    "DMV": lambda: pyrogram.DMV(5),
    "DMV of three valences": lambda: pyrogram.DMV(5, num_valences=3),
    "HMM": lambda: pyrogram.HMM(3, 5),
    "CFG": lambda: pyrogram.CFG.from_string(RULES),
}
LOOPS: Mapping[str, Callable[..., Any]] = {
    "EM": EM,
    "VariationalEM": VariationalEM,
    "CollapsedVB": lambda model: CollapsedVB(model, seed=0),
    "TreeHastings": lambda model: TreeHastings(model, seed=0),
    "TreeGibbs": lambda model: TreeGibbs(model, seed=0),
}


def plain(words: Tensor, grammar: Any) -> None:
    """Dirichlets."""
    weights = {}
    for name, block in grammar.blocks.items():
        weights[name] = pyro.sample(name, dirichlet_prior(block, 1.25))
    observe(words, grammar, weights)


def tied(words: Tensor, grammar: Any) -> None:
    """Multinomials of the last block are one."""
    weights = {}
    for name, block in grammar.blocks.items():
        whole = dirichlet_prior(block, 1.25)
        if name == list(grammar.blocks)[-1] and len(block.shape) > 1:
            one = pyro.sample(name, dist.Dirichlet(torch.full(block.shape[-1:], 1.25)))
            weights[name] = one.expand(block.shape)
        else:
            weights[name] = pyro.sample(name, whole)
    observe(words, grammar, weights)


def learnt(words: Tensor, grammar: Any) -> None:
    """Concentrations are a parameter."""
    alpha = pyro.param("alpha", torch.tensor(1.25), constraint=dist.constraints.positive)
    observe(words, grammar, {n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in grammar.blocks.items()})


def observe(words: Tensor, grammar: Any, weights: Mapping[str, Tensor]) -> None:
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


PRIORS = {"Dirichlets": plain, "tied": tied, "learnt concentration": learnt}


def corpus(grammar: Any) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(grammar.num_words, (4000, 10), generator=generator)
    lengths = torch.randint(1, 11, (4000,), generator=generator)
    words = words.masked_fill(torch.arange(10) >= lengths[:, None], -1)
    logs = {n: b.uniform(torch.ones(())).log() for n, b in grammar.blocks.items()}
    return words[grammar.log_partition(logs, words).isfinite()][:400]


def histories() -> dict[str, tuple[list[float], float]]:
    by_title = {}
    for grammar_name, make in GRAMMARS.items():
        grammar = make()
        words = corpus(grammar)
        for prior, model in PRIORS.items():
            for name, loop in LOOPS.items():
                if prior == "learnt concentration" and name == "EM":
                    continue  # has no mode
                loop(model).run(words, grammar, num_steps=1, progress=False)  # compiles
                pyro.clear_param_store()
                pyro.set_rng_seed(0)
                fitted, start = loop(model), time.perf_counter()
                options: dict[str, Any] = {} if name.startswith("Tree") else {"tolerance": 0.0}
                fitted.run(words, grammar, num_steps=STEPS, progress=False, **options)
                by_title[f"{name} | {prior} | {grammar_name}"] = list(fitted.history), time.perf_counter() - start
    return by_title


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--before", default="789e12d")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        torch.set_default_dtype(torch.float64)
        print(json.dumps(histories()))
        return
    before, now = (served(__file__, folder) for folder in (earlier(chosen.before), ROOT))
    print("| loop | prior | grammar | relative difference | seconds before | now |\n" + "|---" * 6 + "|")
    for case, (history, seconds) in now.items():
        old, earlier_seconds = before[case]
        differences = [abs(x - y) / max(1.0, abs(y)) for x, y in zip(history, old, strict=True)]
        print(f"| {case} | {max(differences):.1e} | {earlier_seconds:.2f} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
