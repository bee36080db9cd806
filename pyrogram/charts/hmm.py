# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hidden Markov chains that end: O(n K^2) time a sentence.

The weight of a state sequence is the product of its first state's, of all transitions', the last one into the end, and
of its emissions.
"""

from functools import cache
from typing import Any

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram


@recursion
def chain(p: Any, by_word: bool = True, evidence: bool = False) -> None:
    """State x emits the word w[t] or, where scores of words are given by position, word t.

    With evidence, each state of each word has a further weight of its own.
    """
    t, w = p.positions("t"), p.words("w")
    x, y = p.symbols("x y", "K")
    F, Z = p.items("F", "K"), p.items("Z")
    initial = p.weights("initial", "K")
    transition, end = p.weights("transition", "K", "K"), p.weights("end", "K", 1)
    emission = p.weights("emission", "K", "V") if by_word else p.weights("emission", "K")
    bonus = p.weights("bonus", "K") if evidence else None

    def emit(t: Any, x: Any) -> Any:
        emitted = emission[x, w[t]] if by_word else emission[t, x]
        return emitted if bonus is None else bonus[t, x] * emitted

    F[1, x] += initial[x] * emit(1, x)
    F[t, x] += F[t - 1, y] * transition[y, x] * emit(t, x)
    Z[()] += F[p.n, x] * end[x, 0]


@cache
def program(by_word: bool = True, evidence: bool = False) -> TensorProgram:
    """Chains, with emissions by word or by position, and perhaps evidence."""
    return TensorProgram(chain(by_word=by_word, evidence=evidence), "state sequence")
