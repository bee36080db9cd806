# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Markov chains of any order, by scores of each position."""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


@recursion
def chain(p: Any, order: int = 2, by_word: bool = True) -> None:
    """Chains of order m: a state is scored together with the m states before it, at each word anew or everywhere alike.

    F: the last m states, a tuple of symbols; Fa: the first a of them, a < m. The scores of word a <= m, which has fewer
    states before it, are of the table ``start`` a. Where they are alike at all words, each word has a score ``word`` of
    its state alone. Those of word t are in row t - 1 of a table.
    """
    m = order
    t = p.positions("t")
    x = p.symbols(" ".join(f"x{a}" for a in range(m + 1)), "K")
    F, Z = p.items("F", *["K"] * m), p.items("Z")
    score = p.weights("score", *["K"] * (m + 1))
    word = None if by_word else p.weights("word", "K")
    before = None
    for a in range(1, m + 1):  # the first words
        here = F if a == m else p.items(f"F{a}", *["K"] * a)
        start, states = p.weights(f"start{a}", *["K"] * a), x[:a]
        cell, last = (a, *states), (p.n, *states)
        weight = start[states] if word is None else word[a - 1, states[-1]] * start[states]
        here[cell] += weight if before is None else before * weight
        if a < m:
            Z[()] += here[last]
        before = here[cell]
    previous, cell, last = (t - 1, *x[:-1]), (t, *x[1:]), (p.n, *x[:-1])
    step = (t - 1, *x)
    F[cell] += F[previous] * (score[step] if word is None else score[x] * word[t - 1, x[-1]])
    Z[()] += F[last]


@cache
def program(order: int, by_word: bool) -> TensorProgram:
    """The chains.

    Weights are ``score``, shape ``(B, n, K, .., K)``, or ``(1 or B, K, .., K)`` and ``word``, ``(B, n, K)``; and
    ``start1 .. startm``, ``(1 or B, K, .., K)``.
    """
    return TensorProgram(chain(order=order, by_word=by_word), "state sequence")
