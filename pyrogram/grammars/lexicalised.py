# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars whose phrases have heads: bilexical grammars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import check_size
from pyrogram.draws import FlatRules
from pyrogram.grammar import Block, Weights
from pyrogram.printable import plural
from pyrogram.recursion.rules.pages import recursion

from . import initial
from .dmv import DMV
from .top_down import TopDownGrammar


@recursion(first=0)
def lexicalised_rules(p: Any) -> None:
    """X is a span with its symbol and the tag of its head; D is a span as the dependent of a head h outside.

    Symbol 0 is a single word; the others are nonterminals.
    """
    i, j, k = p.positions("i j k")
    a, s, q = p.symbols("a", "N"), p.symbols("s", "S"), p.symbols("q", "Q")
    h, m, w = p.symbols("h", "T"), p.symbols("m", "T"), p.words("w")
    phrase, (head, other, left, right) = p.columns("phrase", "N"), p.columns("head other left right", "Q")
    X, D, Z = p.items("X", "S", "T"), p.items("D", 2, "S", "T"), p.items("Z")
    root, top = p.weights("root", "S"), p.weights("top", "S", "T")
    rule, attach = p.weights("rule", "N", "T", "R"), p.weights("attach", 2, "S", "T", "T")
    X[j - 1, j, 0, w[j]] += 1
    for side in (0, 1):
        D[i, j, side, s, h] += attach[side, s, h, m] * X[i, j, s, m]
    X[i, j, phrase[a], h] += rule[a, h, left[q]] * D[i, k, 0, other[q], h] * X[k, j, head[q], h]
    X[i, j, phrase[a], h] += rule[a, h, right[q]] * X[i, k, head[q], h] * D[k, j, 1, other[q], h]
    Z[()] += root[s] * top[s, h] * X[0, p.n, s, h]


class LexicalisedPCFG(TopDownGrammar):
    """A PCFG whose phrases have a head word: a bilexical grammar (Eisner and Satta 1999; Collins 2003).

        A[h] -> C[m] B[h]   or   A[h] -> B[h] C[m]

    A phrase has a nonterminal A and the tag h of its head. It hands the head down to one child, B, a nonterminal or the
    word itself; the other child C is a dependent with a head m of its own. So a tree is one of constituents and one of
    dependencies at once. The blocks are

    * ``root`` (S,) and ``top`` (S, T): the symbol of a sentence, and the tag of its head;
    * ``rule`` (N, T, 2 S^2) [nonterminal, head, children]: the side of the dependent, the symbol of the child that has
      the head and that of the dependent, the last varying fastest;
    * ``attach`` (2, S, T, T) [side, symbol of the dependent, head, dependent]: the dependent's head; side 0 is left.

    S = N + 1 symbols are a single word, which is 0, and the nonterminals. Words are tags, or classes of words: where
    each word has one class, P(word | class) is the same for all trees.

    Dependents are summed over their heads first, as by Eisner and Satta (1999, Section 4). Heads are told apart by tag
    and not by position. So time is O(n^3 T S^2 + n^2 S T (T + N S)), where theirs is O(n^4).

    >>> grammar = LexicalisedPCFG(num_nonterminals=1, num_tags=3)
    >>> words = torch.tensor([[0, 1, 2]])
    >>> derivation = grammar.derivation(grammar.initial_weights(words, "random", seed=0), words)
    >>> print(grammar.tree(["the", "man", "sleeps"], derivation.argmax()[0]))
    (N1[sleeps] (word the) (N1[sleeps] (word man) (word sleeps)))
    >>> grammar.heads(derivation.argmax())
    tensor([[3, 3, 0]])

    :param num_nonterminals: N.
    :param num_tags: T, the size of the alphabet.
    """

    def __init__(self, num_nonterminals: int, num_tags: int):
        self.num_nonterminals = N = check_size("num_nonterminals", num_nonterminals)
        self.num_tags = T = check_size("num_tags", num_tags)
        S = N + 1
        heads, others = np.divmod(np.arange(S * S), S)
        lists: dict[str, Any] = {"phrase": range(1, S), "head": heads, "other": others}
        lists |= {"left": np.arange(S * S), "right": np.arange(S * S, 2 * S * S)}
        shapes = {"root": (S,), "top": (S, T), "rule": (N, T, 2 * S * S), "attach": (2, S, T, T)}
        blocks = {name: Block(torch.Size(shape)) for name, shape in shapes.items()}
        super().__init__(blocks, lexicalised_rules(), T, lists=lists)

    def __repr__(self) -> str:
        return f"LexicalisedPCFG({self.num_nonterminals}, {self.num_tags})"

    @property
    def symbols(self) -> list[str]:
        """``word`` for a single word, and names of the nonterminals, ``N1``, ``N2``, .."""
        return ["word", *(f"N{a}" for a in range(1, self.num_nonterminals + 1))]

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        symbols, tags = self.symbols, [str(tag) for tag in range(self.num_tags)]
        children = [f"{c} {b}*" if side == 0 else f"{b}* {c}" for side in (0, 1) for b in symbols for c in symbols]
        return {
            "root": {"symbol": symbols},
            "top": {"symbol": symbols, "head": tags},
            "rule": {"nonterminal": symbols[1:], "head": tags, "children": children},
            "attach": {"side": ("left", "right"), "symbol": symbols, "head": tags, "dependent": tags},
        }

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return {**super().initialisers, "harmonic": harmonic}

    def longest(self, n: int) -> int:
        return 2 + 2 * (n - 1)  # the root and its head; a phrase and its dependent's head for every further word

    # ------------------------------------------------------------------ trees

    def heads(self, derivations: Tensor) -> Tensor:
        """The heads of words, shape ``(*batch, n)``: 1 .. n, 0 for the root, -1 where there is no word.

        :param derivations: rows of events, shape ``(*batch, L)``; a row of -1 alone is no tree, and has no words.
        :raises ValueError: if a row is no derivation.
        """
        rows = derivations.reshape(-1, derivations.shape[-1]).tolist()
        trees = [[] if row[0] < 0 else [word.governor for word in self._read(row)[1]] for row in rows]
        n = derivations.shape[-1] // 2
        padded = [[*heads, *[-1] * (n - len(heads))] for heads in trees]
        return torch.tensor(padded, device=derivations.device).reshape(*derivations.shape[:-1], n)

    def tree(self, words: Sequence[str] | None, derivation: Tensor) -> Any:
        """The tree of a derivation, an ``nltk.Tree`` with labels such as ``N1[sleeps]``, and ``word`` of single words.

        :param words: the leaves; None: the numbers of their tags.
        :param derivation: a row of events, shape ``(L,)``, padded with -1.
        :raises ValueError: if the row is no derivation, or one of another number of words.
        """
        from nltk.tree import Tree

        if derivation.dim() != 1:
            raise ValueError(f"the derivation must be one, of shape (L,), not {tuple(derivation.shape)}")
        top, heads = self._read(derivation.tolist())
        leaves = [str(word.tag) for word in heads] if words is None else words
        if len(leaves) != len(heads):
            raise ValueError(f"the derivation has {plural(len(heads), 'word')}, not {len(leaves)}")

        def built(node: _Node) -> Any:
            leaf = leaves[node.head.position - 1]
            if node.symbol == 0:
                return Tree("word", [leaf])
            return Tree(f"{self.symbols[node.symbol]}[{leaf}]", [built(child) for child in node.children])

        return built(top)

    def _read(self, row: Sequence[int]) -> tuple[_Node, list[_Head]]:
        """The tree of a row, and its words."""
        S = self.num_nonterminals + 1
        events = iter(self.event(x) for x in row if x >= 0)
        words: list[_Head] = []

        def next_of(block: str, context: tuple[int, ...]) -> int:
            name, index = next(events, ("nothing", ()))
            if (name, index[:-1]) != (block, context):
                raise ValueError(
                    f"the derivation has {name}{list(index)} after {plural(len(words), 'word')}, not a {block}"
                )
            return index[-1]

        symbol = next_of("root", ())
        top = _Node(symbol, _Head(next_of("top", (symbol,)), None))
        agenda = [(top, -1)]  # nodes to come, and on which side of its governor each is whose tag is unknown
        while agenda:
            node, side = agenda.pop()
            if side >= 0:
                assert node.head.above is not None
                node.head.tag = next_of("attach", (side, node.symbol, node.head.above.tag))
            if node.symbol == 0:
                words.append(node.head)
                node.head.position = len(words)
                continue
            side, children = divmod(next_of("rule", (node.symbol - 1, node.head.tag)), S * S)
            head, other = _Node(children // S, node.head), _Node(children % S, _Head(-1, node.head))
            node.children = [other, head] if side == 0 else [head, other]
            both = [(head, -1), (other, side)]
            agenda += both if side == 0 else reversed(both)
        if next(events, None) is not None:
            raise ValueError(f"the derivation goes on after its last word, word {len(words)}")
        return top, words

    def _leftmost_rules(self) -> FlatRules:
        # Nonterminals are the sentence; symbols without a head; nonterminals with one; and dependents by side, symbol
        # and head. A single word is its tag.
        N, S, T = self.num_nonterminals, self.num_nonterminals + 1, self.num_tags
        phrases, dependents = 1 + S, 1 + S + N * T

        def phrase(s: int, h: int) -> int:
            return -1 - h if s == 0 else phrases + (s - 1) * T + h

        def expansions() -> Iterator[tuple[int, list[int]]]:
            for s in range(S):
                yield 0, [1 + s]
            for s, h in np.ndindex(S, T):
                yield 1 + s, [phrase(s, h)]
            for a, h, side, b, c in np.ndindex(N, T, 2, S, S):
                both = [phrase(b, h), dependents + (side * S + c) * T + h]
                yield phrase(a + 1, h), both if side == 1 else both[::-1]
            for side, s, h, m in np.ndindex(2, S, T, T):
                yield dependents + (side * S + s) * T + h, [phrase(s, m)]

        lhs, rhs = zip(*expansions(), strict=True)
        return FlatRules.of(lhs, rhs, 0)


def harmonic(
    grammar: LexicalisedPCFG,
    words: Tensor,
    *,
    distance: float = 0.0,
    concentration: float = 10.0,
    seed: int | None = None,
) -> Weights:
    """Soft attachments that favour near heads, as in the start of that name of the :class:`.DMV`; rules at random.

    :param words: shape ``(N, n)``.
    :param distance: c in 1 / (|i - j| + c), greater than -1.
    :param concentration: of the symmetric Dirichlet from which symbols and rules are drawn.
    :param seed: of these draws; None: torch's global generator.
    """
    drawn = grammar.initial_weights(words, "random", concentration=concentration, seed=seed)
    near = initial.harmonic(DMV(grammar.num_tags), words, distance=distance, stops="half")
    top, attach = near["root"].expand_as(drawn["top"]), near["attach"].movedim(1, 0)[:, None]
    return {**drawn, "top": top.clone(), "attach": attach.expand_as(drawn["attach"]).clone()}


@dataclass
class _Head:
    """A word.

    :param tag: its tag, -1 while it is unknown.
    :param above: the word that it depends on; None for the root.
    :param position: from 1 on.
    """

    tag: int
    above: _Head | None
    position: int = 0

    @property
    def governor(self) -> int:
        """The position of the word above, 0 for the root."""
        return 0 if self.above is None else self.above.position


@dataclass
class _Node:
    """A span of a tree."""

    symbol: int
    head: _Head
    children: Sequence[_Node] = ()
