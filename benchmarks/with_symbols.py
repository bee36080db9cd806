# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars compiled from their pages, against the charts of grammars, which are still by hand.

``python3 benchmarks/with_symbols.py`` prints the table: sentences/s of one thread.
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

from pyrogram.recursion import Program, Sentences, recursion

HEADER = ["", "n", "", "by hand", "from the page", "times faster"]


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
    """The same with lists of rules, one for each kind."""
    i, j, k = p.positions("i j k")
    b, w = p.symbols("b", "P"), p.words("w")
    X, T, Z = p.items("X", "N"), p.items("T", "P"), p.items("Z")
    word = p.weights("word", "P", "V")
    T[j - 1, j, b] += word[b, w[j]]

    def rules(kind: str) -> tuple[Any, ...]:
        r, weight = p.symbols(kind.lower(), f"R{kind}"), p.weights(kind, f"R{kind}")
        A, B, C = p.columns(f"parent{kind} left{kind} right{kind}", f"R{kind}")
        return A[r], B[r], C[r], weight[r]

    A, B, C, rule = rules("NN")
    X[i, j, A] += rule * X[i, k, B] * X[k, j, C]
    A, B, C, rule = rules("NP")
    X[i, j, A] += rule * X[i, j - 1, B] * T[j - 1, j, C]
    A, B, C, rule = rules("PN")
    X[i, j, A] += rule * T[i, i + 1, B] * X[i + 1, j, C]
    A, B, C, rule = rules("PP")
    X[i, j, A] += rule * T[i, i + 1, B] * T[i + 1, j, C]
    Z[()] += X[0, p.n, 0]


def grammars() -> Iterator[tuple[Task, dict[str, tuple[Work, Work]]]]:
    """Grammars of nonterminals and preterminals; by what is computed, the chart by hand and the page."""
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
            program, sizes, lists = programs["list"], {"N": N, "P": P, "V": WORDS}, {}
            weights = {"word": emissions[None]}
            for left, right in itertools.product((0, 1), (0, 1)):
                kind = "NP"[left] + "NP"[right]
                rows = ((rules[:, 1] >= N) == left) & ((rules[:, 2] >= N) == right)
                columns = (rules[rows] - [0, left * N, right * N]).T
                weights[kind], sizes[f"R{kind}"] = binary[None, rows], int(rows.sum())
                lists |= dict(zip((f"parent{kind}", f"left{kind}", f"right{kind}"), columns, strict=True))
        given = Sentences(np.full(task.batch, task.n), weights, {"w": words}, sizes, lists)
        chart = ByHand(task, torch.float64)
        works: dict[str, tuple[Work, Work]] = {
            "log Z": (chart.log_z, partial(program.log_counts, given, counts=False)),
            "log Z, counts": (chart.counts, partial(program.log_counts, given)),
            "draws": (chart.draws, partial(program.draw, given, 1, 0, {}, 1)),
        }
        assert np.allclose(chart.log_z().numpy(), program.log_counts(given)[0])
        yield task, works


def rows(seconds: float = 1.0) -> list[list[str]]:
    """Sentences/s of one thread, and medians over rounds of the ratio."""
    found = []
    for task, works in grammars():
        for what, (by_hand, page) in works.items():
            times = race({"by hand": by_hand, "page": page}, 1, seconds)
            rates = [f"{task.batch / times[x].median:,.0f}" for x in ("by hand", "page")]
            ratio = times["page"].times_faster_than(times["by hand"])
            found.append([task.name, str(task.n), what, *rates, f"{ratio:.2f}"])
            print(" | ".join(found[-1]), flush=True)
    return found


if __name__ == "__main__":
    print(" | ".join(HEADER))
    rows()
