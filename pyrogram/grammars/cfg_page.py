# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The recursion of context-free grammars: inside (Baker 1979), for rules with at most two symbols on the right.

Symbols are of two kinds. A *preterminal* T spans one word and has no rules; X are all others. So there are kinds of
rules, named by their symbols from the left side on, such as XXT. A start symbol that is on no right side is the goal Z,
and the kinds of its rules are ZX, ZXT and so on. The rules of a kind are a list, or a table if it has most of them.

For sums, a table of rules with one preterminal is summed over it once for each word, and not for each span that ends,
or begins, with the word: ``XXT_word[j - 1, j, A, B]`` are the rules XXT, given the word j. No derivation has them.
"""

from functools import cache
from typing import Any, NamedTuple

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.rules.rewrites import with_bonus
from pyrogram.recursion.run.on_tensors import TensorProgram

SIZES = {"X": "N", "T": "P"}  # how many symbols there are of a kind


class Form(NamedTuple):
    """The kinds of rules that a grammar has.

    :param kinds: of binary and unary rules, each with whether it is a table.
    :param word: the greatest number of matches that a preterminal has of one word; 0 if there are no preterminals.
    :param near: the same of X, if all their matches are of one word.
    :param span: the same of X and of any span, if some of their matches are of several words.
    :param for_sums: whether no derivations are wanted.
    """

    kinds: tuple[tuple[str, bool], ...]
    word: int
    near: int
    span: int
    for_sums: bool = False

    @property
    def has_x(self) -> bool:
        """Whether there are symbols of this kind."""
        names = [kind for kind, _ in self.kinds]
        matched = self.near + self.span > 0
        return matched or any("X" in kind for kind in names) or not any("Z" in kind for kind in names)


@cache
def grammar(form: Form) -> Recursion:
    """The recursion; one for each form."""
    return _grammar(form)


@recursion(first=0)
def _grammar(p: Any, form: Form) -> None:
    """X[i, j, A] is the weight of all derivations of words i + 1 .. j from A."""
    i, j, k = p.positions("i j k")
    symbols = {"X": p.symbols("A B C", "N"), "T": p.symbols("a b c", "P")}
    items = {kind: p.items(kind, size) for kind, size in SIZES.items()}
    X, T, Z = items["X"], items["T"], p.items("Z")
    if form.word:
        word, a = p.weights("word", "P", form.word), symbols["T"][0]
        for d in range(form.word):
            T[j - 1, j, a] += word[j, a, d]
    if form.near or form.span:
        m, A = p.symbols("m", "M"), p.columns("matched", "M")
        match = p.weights("match", "M", form.near or form.span)
        for d in range(form.near):
            X[j - 1, j, A[m]] += match[j, m, d]
        for d in range(form.span):
            X[i, j, A[m]] += match[i, j, m, d] * (i < j)

    def rule(kind: str, is_table: bool) -> tuple[list[Any], Any]:
        """Its symbols, of which Z has none, and its weight."""
        if is_table:
            rule_symbols = [None if x == "Z" else symbols[x][axis] for axis, x in enumerate(kind)]
            weight = p.weights(kind, *(SIZES[x] for x in kind if x != "Z"))
            return rule_symbols, weight[tuple(x for x in rule_symbols if x is not None)]
        r = p.symbols(f"r{kind}", f"R{kind}")
        rule_symbols = [None if x == "Z" else p.columns(f"{kind}{axis}", f"R{kind}")[r] for axis, x in enumerate(kind)]
        return rule_symbols, p.weights(kind, f"R{kind}")[r]

    for kind, is_table in form.kinds:
        (A, *below), product = rule(kind, is_table)
        first, last = (0, p.n) if kind[0] == "Z" else (j - 1, j) if kind == "XT" else (i, j)
        split = {"XX": k, "XT": last - 1}.get(kind[1:], first + 1)
        ends = [(first, last)] if len(below) == 1 else [(first, split), (split, last)]
        if form.for_sums and is_table and kind in ("XXT", "XTX"):
            phrase, tag = kind.index("X", 1) - 1, kind.index("T") - 1
            given_word, B, (start, end) = p.items(f"{kind}_word", "N", "N"), below[phrase], ends[phrase]
            given_word[j - 1, j, A, B] += product * T[j - 1, j, below[tag]]
            X[i, j, A] += given_word[ends[tag][0], ends[tag][1], A, B] * X[start, end, B]
            continue
        for x, B, (start, end) in zip(kind[1:], below, ends, strict=True):
            product = product * items[x][start, end, B]
        if kind[0] == "Z":
            Z[()] += product
        else:
            X[first, last, A] += product
    if all(kind[0] != "Z" for kind, _ in form.kinds):
        Z[()] += X[0, p.n, 0]


@cache
def program(form: Form, names: tuple[str, ...] = ()) -> TensorProgram:
    """The code for all grammars with these kinds of rules.

    :param names: of the items, X or T, that have a further factor.
    """
    return TensorProgram(with_bonus(grammar(form), names) if names else grammar(form))
