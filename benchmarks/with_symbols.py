# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions with symbols, compiled from their pages, against the charts of chains and grammars that are still by hand.

``python3 benchmarks/with_symbols.py`` prints the table: sentences/s of one thread, log Z and expected counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from pcfg import WORDS, Task
from pcfg import Pyrogram as ByHand
from timing import Work, race

from pyrogram.charts import hmm as hmm_by_hand
from pyrogram.recursion import Program, Sentences, recursion

HEADER = ["", "n", "", "by hand", "from the page", "times faster"]
BATCH = 256


@recursion
def hmm(p: Any) -> None:
    """A chain of states that ends."""
    t = p.positions("t")
    x, y, w = *p.symbols("x y", "K"), p.words("w")
    F, Z = p.items("F", "K"), p.items("Z")
    initial, final = p.weights("initial final", "K")
    move, emit = p.weights("move", "K", "K"), p.weights("emit", "K", "V")
    F[1, x] += initial[x] * emit[x, w[1]]
    F[t, x] += F[t - 1, y] * move[y, x] * emit[x, w[t]]
    Z[()] += F[p.n, x] * final[x]


@recursion(first=0)
def dense(p: Any) -> None:
    """Nonterminals A with all rules, preterminals with all words; the first nonterminal starts."""
    i, j, k = p.positions("i j k")
    A, B, C = p.symbols("A B C", "N")
    b, c = p.symbols("b c", "P")
    w = p.words("w")
    X, T, Z = p.items("X", "N"), p.items("T", "P"), p.items("Z")
    word = p.weights("word", "P", "V")
    NN, NP, PN, PP = (
        p.weights("NN", "N", "N", "N"), p.weights("NP", "N", "N", "P"), p.weights("PN", "N", "P", "N"),
        p.weights("PP", "N", "P", "P"),
    )  # fmt: skip
    T[j - 1, j, b] += word[b, w[j]]
    X[i, j, A] += NN[A, B, C] * X[i, k, B] * X[k, j, C]
    X[i, j, A] += NP[A, B, c] * X[i, j - 1, B] * T[j - 1, j, c]
    X[i, j, A] += PN[A, b, C] * T[i, i + 1, b] * X[i + 1, j, C]
    X[i, j, A] += PP[A, b, c] * T[i, i + 1, b] * T[i + 1, j, c]
    Z[()] += X[0, p.n, 0]


@recursion(first=0)
def listed(p: Any) -> None:
    """The same with a list of rules."""
    i, j, k = p.positions("i j k")
    r, A = p.symbols("r", "R"), p.symbols("A", "S")
    parent, left, right = p.columns("parent left right", "R")
    w = p.words("w")
    X, Z = p.items("X", "S"), p.items("Z")
    rule, word = p.weights("rule", "R"), p.weights("word", "S", "V")
    X[j - 1, j, A] += word[A, w[j]]
    X[i, j, parent[r]] += rule[r] * X[i, k, left[r]] * X[k, j, right[r]]
    Z[()] += X[0, p.n, 0]


def chains() -> Iterator[tuple[str, int, int, Work, Work]]:
    """Hidden Markov chains: name, length, batch, and the two works."""
    program = Program(hmm())
    for K in (8, 20, 45):
        for n in (5, 10, 20, 40):
            torch.manual_seed(0)
            words = torch.randint(0, 1000, (BATCH, n))
            initial, moves, emit = (torch.randn(1, *s).double().log_softmax(-1) for s in ((K,), (K, K + 1), (K, 1000)))
            tables = {"initial": initial, "move": moves[..., :K], "final": moves[..., K], "emit": emit}
            given = Sentences(
                np.full(BATCH, n), {k: t.numpy() for k, t in tables.items()}, {"w": words.numpy()},
                {"K": K, "V": 1000}, {},
            )  # fmt: skip
            by_hand = partial(hmm_by_hand.expected_counts, initial[0], moves[0], emit[0], words)
            assert torch.allclose(by_hand()[0], torch.from_numpy(program.log_counts(given)[0]))
            yield f"HMM, {K} states", n, BATCH, by_hand, partial(program.log_counts, given)


def grammars() -> Iterator[tuple[str, int, int, Work, Work]]:
    """Grammars of nonterminals and preterminals."""
    programs = {"dense": Program(dense()), "list": Program(listed())}
    for task in (Task(5, 5, 10, 256, 0), Task(10, 10, 10, 256, 0), Task(10, 10, 20, 128, 0), Task(10, 10, 40, 32, 0),
                 Task(30, 30, 20, 32, 0), Task(30, 30, 10, 256, 0, 1000), Task(30, 30, 20, 128, 0, 1000)):  # fmt: skip
        binary, emissions = (t.double().numpy() for t in task.weights(torch.float64))
        rules, N = task.binary(), task.nonterminals
        P, words = task.preterminals, task.words(task.batch)
        if task.rules is None:
            table = binary.reshape(1, N, N + P, N + P)
            weights = {"word": emissions[None], "NN": table[:, :, :N, :N], "NP": table[:, :, :N, N:]}
            weights |= {"PN": table[:, :, N:, :N], "PP": table[:, :, N:, N:]}
            program, sizes, lists = programs["dense"], {"N": N, "P": P, "V": WORDS}, {}
        else:
            lexicon = np.full((1, N + P, WORDS), -np.inf)
            lexicon[0, N:] = emissions
            weights = {"rule": binary[None], "word": lexicon}
            program, sizes = programs["list"], {"R": len(rules), "S": N + P, "V": WORDS}
            lists = dict(zip(("parent", "left", "right"), rules.T, strict=True))
        given = Sentences(np.full(task.batch, task.n), weights, {"w": words}, sizes, lists)
        chart = ByHand(task, torch.float64)
        by_hand, page = chart.counts, partial(program.log_counts, given)
        assert np.allclose(by_hand()[0].numpy(), page()[0])
        yield task.name, task.n, task.batch, by_hand, page


def rows(seconds: float = 2.0) -> list[list[str]]:
    """Sentences/s of one thread, and medians over rounds of the ratio."""
    found = []
    for name, n, batch, by_hand, page in itertools.chain(chains(), grammars()):
        times = race({"by hand": by_hand, "page": page}, 1, seconds)
        rates = [f"{batch / times[x].median:,.0f}" for x in ("by hand", "page")]
        ratio = times["page"].times_faster_than(times["by hand"])
        found.append([name, str(n), "log Z, counts", *rates, f"{ratio:.2f}"])
        print(" | ".join(found[-1]), flush=True)
    return found


if __name__ == "__main__":
    print(" | ".join(HEADER))
    rows()
