# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Small grammars that are their recursions."""

from typing import Any

import torch

from pyrogram.grammars import Block, PackedBlock, RecursiveGrammar
from pyrogram.infer.model.composed import TiedGrammar
from pyrogram.recursion import recursion


def tied(base: Any) -> TiedGrammar:
    """Two multinomials of a block that follow one another and have one size are one, the second one backwards."""
    sources, entries, total = {}, {}, 0
    for name, block in base.blocks.items():
        packed = isinstance(block, PackedBlock)
        sizes = block.sizes if packed else [block.shape[-1]] * block.shape[:-1].numel()
        kept: list[int] = []
        own: list[torch.Tensor] = []
        first: int | None = None  # of the multinomial before, if it is no pair yet
        for size in sizes:
            if first is not None and kept[-1] == size:
                own.append(first + torch.arange(size).flip(0))
                first = None
                continue
            first = total + sum(kept)
            own.append(first + torch.arange(size))
            kept.append(size)
        total += sum(kept)
        shape = torch.Size([sum(kept)] if packed else [len(kept), block.shape[-1]])
        sources[name] = PackedBlock(shape, tuple(kept)) if packed else Block(shape)
        entries[name] = torch.cat(own).reshape(block.shape)
    return TiedGrammar(base, sources, entries)


def binary_rules(words: int) -> list[tuple[str, tuple[str, ...]]]:
    """Most of the rules of a grammar in Chomsky normal form."""
    lexical = [(left, (str(w),)) for left in "AB" for w in range(words)]
    return [("S", ("A", "B")), ("S", ("A", "A")), ("A", ("A", "B")), ("B", ("B", "A")), *lexical]


def mixed_rules(words: int) -> list[tuple[str, tuple[str, ...]]]:
    """Rules of any form: recursive starts, chains of one, long right sides, terminals beside nonterminals."""
    lexical = [(left, (str(w),)) for left in "AB" for w in range(words)]
    long = [("S", ("0", "1")), ("S", ("A", "0", "B")), ("S", ("S", "A", "1"))]
    return [("S", ("A", "S")), ("S", ("A",)), *long, ("A", ("C", "C")), ("B", ("C",)), ("C", ("1",)), *lexical]


@recursion
def valences(p: Any, V: int = 2) -> None:
    """The DMV by split heads, whose heads know that they have 0, 1, ..., V - 1 or more children on a side."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, Z = p.items("RC LC Z")
    RO, LO, IR, IL = p.items("RO LO IR IL", V)
    root = p.weights("root", "T")
    attach = p.weights("attach", "T", 2, "T")
    stop = p.weights("stop", "T", 2, V, 2)
    w = p.words("w")
    LEFT, RIGHT, CONTINUE, STOP = 0, 1, 0, 1
    RO[i, i, 0] += 1
    LO[i, i, 0] += 1
    for v in range(V):
        more = min(v + 1, V - 1)
        IR[i, j, more] += attach[w[i], RIGHT, w[j]] * stop[w[i], RIGHT, v, CONTINUE] * RO[i, k, v] * LC[k + 1, j]
        IL[i, j, more] += attach[w[j], LEFT, w[i]] * stop[w[j], LEFT, v, CONTINUE] * RC[i, k - 1] * LO[k, j, v]
        RC[i, j] += stop[w[i], RIGHT, v, STOP] * RO[i, j, v]
        LC[i, j] += stop[w[j], LEFT, v, STOP] * LO[i, j, v]
    for v in range(1, V):
        RO[i, j, v] += IR[i, k, v] * RC[k, j]
        LO[i, j, v] += LC[i, k] * IL[k, j, v]
    Z[()] += root[w[r]] * LC[1, r] * RC[r, p.n]


@recursion
def chain(p: Any, K: int) -> None:
    """The forward pass of a hidden Markov model with K states; the next state K is the end."""
    t = p.positions("t")
    w = p.words("w")
    F = p.items("F", K)
    Z = p.items("Z")
    initial = p.weights("initial", K)
    transition = p.weights("transition", K, K + 1)
    emission = p.weights("emission", K, "W")
    for z in range(K):
        F[1, z] += initial[z] * emission[z, w[1]]
        for y in range(K):
            F[t, z] += F[t - 1, y] * transition[y, z] * emission[z, w[t]]
        Z[()] += F[p.n, z] * transition[z, K]


@recursion
def chomsky(p: Any) -> None:
    """A PCFG in Chomsky normal form: dense tables of rules, between fence posts."""
    i, j, k = p.positions("i j k")
    A, B, C = p.symbols("A B C", "S")
    X = p.items("X", "S")
    Z = p.items("Z")
    w = p.words("w")
    start = p.weights("start", "S")
    binary = p.weights("binary", "S", "S", "S")
    word = p.weights("word", "S", "W")
    X[j - 1, j, A] += word[A, w[j]]
    X[i, j, A] += binary[A, B, C] * X[i, k, B] * X[k, j, C]
    Z[()] += start[A] * X[0, p.n, A]


@recursion
def rules(p: Any) -> None:
    """The same with rules as a list, by row."""
    i, j, k = p.positions("i j k")
    a, r = p.symbols("a", "S"), p.symbols("r", "R")
    parent, left, right = p.columns("parent left right", "R")
    X = p.items("X", "S")
    Z = p.items("Z")
    w = p.words("w")
    rule = p.weights("rule", "R")
    word = p.weights("word", "S", "W")
    X[j - 1, j, a] += word[a, w[j]]
    X[i, j, parent[r]] += rule[r] * X[i, k, left[r]] * X[k, j, right[r]]
    Z[()] += X[0, p.n, 0]


def blocks(**shapes: tuple[int, ...]) -> dict[str, Block]:
    return {name: Block(torch.Size(shape)) for name, shape in shapes.items()}


def dmv(V: int, num_tags: int, **options: Any) -> RecursiveGrammar:
    T = num_tags
    return RecursiveGrammar(blocks(root=(T,), attach=(T, 2, T), stop=(T, 2, V, 2)), valences(V=V), T, **options)


def hmm(K: int, W: int) -> RecursiveGrammar:
    return RecursiveGrammar(blocks(initial=(K,), transition=(K, K + 1), emission=(K, W)), chain(K=K), W)


def cnf(S: int, W: int) -> RecursiveGrammar:
    return RecursiveGrammar(blocks(start=(S,), binary=(S, S, S), word=(S, W)), chomsky(first=0), W)


LISTS = {"parent": [0, 0, 1], "left": [0, 1, 0], "right": [1, 1, 0]}


def listed(W: int = 2) -> RecursiveGrammar:
    return RecursiveGrammar(blocks(rule=(3,), word=(2, W)), rules(first=0), W, lists=LISTS)


@recursion
def one_table(p: Any) -> None:
    """Trees whose arcs are events of one table, in which the wall is tag 1: a constant stands where words do."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, Z = p.items("RC LC IR IL Z")
    w = p.words("w")
    arc = p.weights("arc", "V", "V")
    RC[i, i] += 1
    LC[i, i] += 1
    IR[i, j] += arc[w[i], w[j]] * RC[i, k] * LC[k + 1, j]
    IL[i, j] += arc[w[j], w[i]] * RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]
    LC[i, j] += LC[i, k] * IL[k, j]
    Z[()] += arc[1, w[r]] * LC[1, r] * RC[r, p.n]


def one_table_grammar(V: int) -> RecursiveGrammar:
    """The grammar of :func:`one_table`."""
    return RecursiveGrammar({"arc": Block(torch.Size([V, V]))}, one_table(), V)


@recursion
def lengths(p: Any) -> None:
    """A chain that knows whether there is a second word, and whether a word is the third or a later one."""
    t, w = p.positions("t"), p.words("w")
    x, y = p.symbols("x y", "S")
    F, Z = p.items("F", "S"), p.items("Z")
    size, initial = p.weights("size", 2), p.weights("initial", "S")
    move, word = p.weights("move", "S", "S"), p.weights("word", "S", 2, "W")
    F[1, x] += initial[x] * word[x, 0, w[1]]
    F[t, x] += F[t - 1, y] * move[y, x] * word[x, 2 < t, w[t]]
    Z[()] += size[1 < p.n] * F[p.n, x]


def of_lengths(S: int, W: int) -> RecursiveGrammar:
    """The grammar of :func:`lengths`."""
    return RecursiveGrammar(blocks(size=(2,), initial=(S,), move=(S, S), word=(S, 2, W)), lengths(), W)


@recursion
def bigrams(p: Any) -> None:
    """A chain of states and words, of which items on both sides know the last one; and of the end of a sentence."""
    j = p.positions("j")
    x, y = p.symbols("x y", "S")
    w = p.words("w")
    A, E, Z = p.items("A", "S", "W"), p.items("E", "S"), p.items("Z")
    initial, move = p.weights("initial", "S", "W"), p.weights("move", "S", "S")
    word, last = p.weights("word", "S", "W", "W"), p.weights("last", "S")
    A[1, x, w[1]] += initial[x, w[1]]
    A[j, x, w[j]] += A[j - 1, y, w[j - 1]] * move[y, x] * word[x, w[j - 1], w[j]]
    E[x] += A[p.n, x, w[p.n]]
    Z[()] += E[x] * last[x]


def words_of_items(S: int, W: int) -> RecursiveGrammar:
    """The grammar of :func:`bigrams`."""
    return RecursiveGrammar(blocks(initial=(S, W), move=(S, S), word=(S, W, W), last=(S,)), bigrams(), W)
