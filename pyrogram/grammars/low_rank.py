# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars of many symbols: binary rules have low rank, for children are chosen one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import check_size
from pyrogram.draws import FlatRules
from pyrogram.grammar import Block
from pyrogram.printable import plural
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.rules.recursions import Recursion

from .low_rank_sums import RankSpaceSums, log_product
from .top_down import TopDownGrammar


@recursion(first=0)
def tensor_rules(p: Any) -> None:
    """M is a span below its rank; L and R are a span as the left, and as the right child of a rank."""
    i, j, k = p.positions("i j k")
    a, t, r = p.symbols("a", "N"), p.symbols("t", "P"), p.symbols("r", "R")
    phrase, tag = p.columns("phrase", "N"), p.columns("tag", "P")
    w = p.words("w")
    X, Z = p.items("X", "N"), p.items("Z")
    M, L, R = p.items("M L R", "R")
    root, rank = p.weights("root", "S"), p.weights("rank", "N", "R")
    left, right = p.weights("left right", "R", "S")
    emission = p.weights("emission", "P", "V")
    L[j - 1, j, r] += left[r, tag[t]] * emission[t, w[j]]
    R[j - 1, j, r] += right[r, tag[t]] * emission[t, w[j]]
    M[i, j, r] += L[i, k, r] * R[k, j, r]
    X[i, j, a] += rank[a, r] * M[i, j, r]
    L[i, j, r] += left[r, phrase[a]] * X[i, j, a]
    R[i, j, r] += right[r, phrase[a]] * X[i, j, a]
    Z[()] += root[phrase[a]] * X[0, p.n, a]
    Z[()] += root[tag[t]] * emission[t, w[1]] * (p.n <= 1)


@recursion(first=0)
def simple_rules(p: Any) -> None:
    """X is a span of a nonterminal; L and R are a span as the left, and as the right child of a nonterminal."""
    i, j, k = p.positions("i j k")
    a, b, t = p.symbols("a", "N"), p.symbols("b", "N"), p.symbols("t", "P")
    phrase, tag = p.columns("phrase", "N"), p.columns("tag", "P")
    w = p.words("w")
    X, L, R = p.items("X L R", "N")
    Z = p.items("Z")
    root, emission = p.weights("root", "S"), p.weights("emission", "P", "V")
    left, right = p.weights("left right", "N", "S")
    L[j - 1, j, a] += left[a, tag[t]] * emission[t, w[j]]
    R[j - 1, j, a] += right[a, tag[t]] * emission[t, w[j]]
    X[i, j, a] += L[i, k, a] * R[k, j, a]
    L[i, j, a] += left[a, phrase[b]] * X[i, j, b]
    R[i, j, a] += right[a, phrase[b]] * X[i, j, b]
    Z[()] += root[phrase[a]] * X[0, p.n, a]
    Z[()] += root[tag[t]] * emission[t, w[1]] * (p.n <= 1)


class LowRankPCFG(TopDownGrammar):
    """What grammars have in common whose nonterminals choose their left and their right child independently.

    Symbols are numbered: nonterminals 0 .. N - 1, which have two children, then preterminals N .. N + P - 1, each of
    which has one word. A derivation is the row of its events from the top down and from left to right.

    :param page: the recursion.
    :param shapes: of the blocks.
    """

    def __init__(self, page: Recursion, num_words: int, shapes: Mapping[str, tuple[int, ...]]):
        P, S = shapes["emission"][0], shapes["root"][0]
        lists = {"phrase": range(S - P), "tag": range(S - P, S)}
        blocks = {name: Block(torch.Size(shape)) for name, shape in shapes.items()}
        super().__init__(blocks, page, num_words, lists=lists)
        self.num_nonterminals, self.num_preterminals = S - P, P
        self._sums = RankSpaceSums(self.recursion, self._sums.fitted, self._rank_space)

    @staticmethod
    @abstractmethod
    def _rank_space(log_weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Log weights of :func:`.rank_rules`."""

    @property
    def symbols(self) -> list[str]:
        """Names of the nonterminals, ``N0``, ``N1``, .., and of the preterminals, ``T0``, ``T1``, .."""
        phrases, tags = range(self.num_nonterminals), range(self.num_preterminals)
        return [*(f"N{a}" for a in phrases), *(f"T{t}" for t in tags)]

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        symbols, N = self.symbols, self.num_nonterminals
        ranks = [str(r) for r in range(self.blocks["left"].shape[0])] if "rank" in self.blocks else symbols[:N]
        above = "rank" if "rank" in self.blocks else "nonterminal"
        words = [str(w) for w in range(self.num_words)]
        named = {
            "root": {"symbol": symbols},
            "rank": {"nonterminal": symbols[:N], "rank": ranks},
            "left": {above: ranks, "left_child": symbols},
            "right": {above: ranks, "right_child": symbols},
            "emission": {"preterminal": symbols[N:], "word": words},
        }
        return {name: named[name] for name in self.blocks}

    def longest(self, n: int) -> int:
        # The root; of n - 1 phrases their events, the emissions of n words.
        return 1 + (len(self.blocks) - 2) * (n - 1) + n

    # ------------------------------------------------------------------ trees

    def tree(self, words: Sequence[str] | None, derivation: Tensor) -> Any:
        """The tree of a derivation, an ``nltk.Tree`` whose labels are :attr:`symbols`.

        :param words: the leaves; None: the numbers of the derivation's own words.
        :param derivation: a row of events, shape ``(L,)``, padded with -1.
        :raises ValueError: if the row is no derivation, or one of another number of words.
        """
        from nltk.tree import Tree

        if derivation.dim() != 1:
            raise ValueError(f"the derivation must be one, of shape (L,), not {tuple(derivation.shape)}")
        events = [self.event(x) for x in derivation.long().tolist() if x >= 0]
        terminals = [str(index[1]) for name, index in events if name == "emission"]
        coming, symbols, N = iter(terminals if words is None else words), self.symbols, self.num_nonterminals
        top = Tree("", [])
        agenda: list[tuple[Any, str, tuple[int, ...]]] = [(top, "root", ())]  # nodes, and the multinomials to come
        for name, index in events:
            node, *multinomial = agenda.pop() if agenda else (top, "", ())
            if multinomial != [name, index[:-1]]:
                raise ValueError(f"the derivation has an event of {name}{list(index)} where none can be")
            chosen = index[-1]
            if name == "emission":
                node.append(next(coming, str(chosen)))
                continue
            if name != "rank":
                node.append(Tree(symbols[chosen], []))
                node = node[-1]
                if chosen >= N:
                    agenda.append((node, "emission", (chosen - N,)))
                    continue
                if "rank" in self.blocks:
                    agenda.append((node, "rank", (chosen,)))
                    continue
            agenda += [(node, "right", (chosen,)), (node, "left", (chosen,))]
        if agenda:
            raise ValueError(f"the derivation ends before an event of {agenda[-1][1]}")
        if words is not None and len(words) != len(terminals):
            raise ValueError(f"the derivation has {plural(len(terminals), 'word')}, not {len(words)}")
        return top[0]

    def _leftmost_rules(self) -> FlatRules:
        # Nonterminals are the sentence, nonterminals if they have events of their own, ranks as left and as right
        # children, and preterminals. A symbol that has none becomes what it expands to.
        N, P, V = self.num_nonterminals, self.num_preterminals, self.num_words
        R, has_rank = self.blocks["left"].shape[0], "rank" in self.blocks
        phrases, lefts = 1, 1 + (N if has_rank else 0)
        tags = lefts + 2 * R
        ranks = [np.array([lefts + r, lefts + R + r]) for r in range(R)]
        children = [np.array([phrases + a]) if has_rank else ranks[a] for a in range(N)]
        children += [np.array([tags + t]) for t in range(P)]
        rights = [*children, *(ranks * N if has_rank else []), *(children * (2 * R))]
        sizes = [*map(len, rights), *[1] * (P * V)]
        symbols = np.concatenate([*rights, np.tile(-1 - np.arange(V), P)]).astype(np.int64)
        per_side = [len(children), *([R] * N if has_rank else []), *([len(children)] * (2 * R)), *([V] * P)]
        first, offsets = np.cumsum([0, *per_side]), np.cumsum([0, *sizes])
        return FlatRules(0, first, np.arange(len(sizes), dtype=np.int32), offsets, symbols)


class TensorPCFG(LowRankPCFG):
    """A PCFG whose binary rules are a tensor of low rank (Cohen, Satta and Collins 2013; Yang, Zhao and Tu 2021).

        P(A -> B C) = sum_r rank[A, r] left[r, B] right[r, C]

    A nonterminal chooses one of R ranks, and the rank both children, independently of each other. Ranks are latent, so
    they are events of derivations. The blocks are

    * ``root`` (S,): the symbol of a sentence, of S = N + P symbols: nonterminals, then preterminals;
    * ``rank`` (N, R) [nonterminal, rank];
    * ``left`` and ``right`` (R, S) [rank, child];
    * ``emission`` (P, V) [preterminal, word].

    As in :meth:`.CFG.dense`, a preterminal may be a sentence of one word; the papers have none. The chart takes
    O(n^3 R + n^2 R (N + R)) time, never N^3. With one set of weights for all sentences, log Z and expected counts are
    found in rank space, in O(n^3 R + n^2 R^2) (Yang, Liu and Tu 2022): hundreds of symbols are trained on a CPU.

    >>> grammar = TensorPCFG(num_nonterminals=2, num_preterminals=3, rank=2, num_words=4)
    >>> words = torch.tensor([[0, 1, 2]])
    >>> weights = grammar.initial_weights(words, "random", seed=0)
    >>> best = grammar.derivation(weights, words).argmax()[0]
    >>> print(grammar.tree(["the", "old", "man"], best))
    (N0 (T2 the) (N1 (T0 old) (T2 man)))

    :param num_nonterminals: N.
    :param num_preterminals: P.
    :param rank: R.
    :param num_words: V, the size of the alphabet.
    """

    def __init__(self, num_nonterminals: int, num_preterminals: int, rank: int, num_words: int):
        N = check_size("num_nonterminals", num_nonterminals)
        P, V = check_size("num_preterminals", num_preterminals), check_size("num_words", num_words)
        R, S = check_size("rank", rank), N + P
        self.rank = R
        shapes = {"root": (S,), "rank": (N, R), "left": (R, S), "right": (R, S), "emission": (P, V)}
        super().__init__(tensor_rules(), V, shapes)

    def __repr__(self) -> str:
        return f"TensorPCFG({self.num_nonterminals}, {self.num_preterminals}, {self.rank}, {self.num_words})"

    @staticmethod
    def _rank_space(log_weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rank, N = log_weights["rank"], len(log_weights["rank"])
        ranks = {side: log_product(log_weights[side][:, :N], rank) for side in ("left", "right")}
        top = log_product(log_weights["root"][None, :N], rank)[0]
        return {"top": top, **ranks, **_words_in_rank_space(log_weights, N)}


class SimplePCFG(LowRankPCFG):
    """A PCFG whose nonterminals choose both children independently (Liu, Yang, Kim and Tu 2023).

        P(A -> B C) = left[A, B] right[A, C]

    It is a :class:`TensorPCFG` with a rank for each nonterminal. The blocks are

    * ``root`` (S,): the symbol of a sentence, of S = N + P symbols: nonterminals, then preterminals;
    * ``left`` and ``right`` (N, S) [nonterminal, child];
    * ``emission`` (P, V) [preterminal, word].

    As in :meth:`.CFG.dense`, a preterminal may be a sentence of one word; the paper has none. Time is
    O(n^3 N + n^2 N^2).

    :param num_nonterminals: N.
    :param num_preterminals: P.
    :param num_words: V, the size of the alphabet.
    """

    def __init__(self, num_nonterminals: int, num_preterminals: int, num_words: int):
        N = check_size("num_nonterminals", num_nonterminals)
        P, V = check_size("num_preterminals", num_preterminals), check_size("num_words", num_words)
        shapes = {"root": (N + P,), "left": (N, N + P), "right": (N, N + P), "emission": (P, V)}
        super().__init__(simple_rules(), V, shapes)

    def __repr__(self) -> str:
        return f"SimplePCFG({self.num_nonterminals}, {self.num_preterminals}, {self.num_words})"

    @staticmethod
    def _rank_space(log_weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        N = len(log_weights["left"])
        ranks = {side: log_weights[side][:, :N] for side in ("left", "right")}
        return {"top": log_weights["root"][:N], **ranks, **_words_in_rank_space(log_weights, N)}


def _words_in_rank_space(log_weights: Mapping[str, Tensor], N: int) -> dict[str, Tensor]:
    """Of words as children of ranks, and as sentences."""
    words = log_weights["emission"].mT
    sides = {f"{side}_word": log_product(words, log_weights[side][:, N:].mT) for side in ("left", "right")}
    return {**sides, "single": log_product(words, log_weights["root"][N:, None])[:, 0]}
