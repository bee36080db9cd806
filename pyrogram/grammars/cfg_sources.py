# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where context-free grammars come from: text, nltk, treebanks, or all rules of some shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from pyrogram.printable import quoted

from .cfg_text import Rule, Word, read_rules, show
from .cfg_trees import TreeTransform, rules_of

if TYPE_CHECKING:
    from .cfg import CFG

#: How far the probabilities of a left-hand side may be from summing to one, for rounding as in 0.33.
ROUNDING = 0.02


def from_string(cls: type[CFG], text: str, start: str | None = None) -> CFG:
    """A grammar in nltk's notation: lines ``S -> NP VP [0.7] | 'word' [0.3]``, with or without probabilities.

    Quoted symbols are terminals, all others nonterminals; symbols are separated by spaces. The start symbol is that of
    a line ``%start S``, or else the first left side.

    :raises ValueError: if a line cannot be read, a nonterminal has no rules, or probabilities do not sum to one.
    """
    rules, probs, said = read_rules(text)
    return _from_rules(cls, rules, probs, start or said)


def from_nltk(cls: type[CFG], grammar: Any) -> CFG:
    """A grammar from an ``nltk.CFG`` or, with its probabilities, an ``nltk.PCFG``."""
    from nltk.grammar import Nonterminal

    rules: list[Rule] = []
    for production in grammar.productions():
        rhs = tuple(str(s) if isinstance(s, Nonterminal) else Word(s) for s in production.rhs())
        rules.append((str(production.lhs()), rhs))
    probs = [p.prob() for p in grammar.productions() if hasattr(p, "prob")]
    return _from_rules(cls, rules, probs if len(probs) == len(rules) else None, str(grammar.start()))


def _from_rules(cls: type[CFG], rules: list[Rule], probs: list[float] | None, start: str | None) -> CFG:
    """A grammar in which only a :class:`Word` is a terminal."""
    known = {lhs for lhs, _ in rules}
    for rule in rules:
        for s in rule[1]:
            if not isinstance(s, Word) and s not in known:
                raise ValueError(f"nonterminal {quoted(s)} in {show(rule)} has no rules; quote it if it is a terminal")
    grammar = cls(rules, start, weights=None if probs is None else torch.tensor(probs, dtype=torch.float64))
    if grammar.weights is not None:
        block, w = grammar.blocks["rules"], grammar.weights["rules"]
        totals = block.sums(w)
        worst = int((totals - 1).abs().argmax())
        if abs(float(totals[worst]) - 1) > ROUNDING:
            name = grammar.nonterminals[worst]
            raise ValueError(
                f"the probabilities of the rules of {quoted(name)} sum to {float(totals[worst]):.4g}, not 1"
            )
        grammar.weights = {"rules": block.normalize(w).to(torch.get_default_dtype())}
    return grammar


def from_trees(
    cls: type[CFG],
    trees: Iterable[Any],
    *,
    collapse_unary: bool = True,
    binarize: bool = False,
    markov_order: int | None = None,
    start: str | None = "ROOT",
) -> CFG:
    """The rules of a treebank, with maximum-likelihood weights, in :attr:`pyrogram.CFG.weights`.

    :meth:`CFG.derivation_of` takes trees of the treebank as they are, and :meth:`CFG.tree` gives such trees back.

    :param trees: trees of ``nltk.Tree``, without traces and empty nodes.
    :param collapse_unary: join a phrase whose only child is a phrase with it, ``S+VP``, so that no unary cycles arise;
        preterminals stay as they are.
    :param binarize: whether nodes have at most two children; see :class:`~.cfg_trees.TreeTransform`. Charts need it
        not, but with ``markov_order`` the grammar generates right sides that the treebank lacks.
    :param markov_order: how many children to come a binarised node remembers; None: all.
    :param start: symbol that is added above every tree, unless all trees have it on top; None adds none, and then all
        trees must have the same label on top.
    :raises ValueError: with the tree's number, if a tree has a node without children or a label that is in the way.
    """
    treebank = list(trees)
    if not treebank:
        raise ValueError("a treebank grammar needs at least one tree")
    tops = {str(tree.label()) for tree in treebank}
    if start is None:
        if len(tops) > 1:
            raise ValueError(f"trees have different labels on top, {sorted(tops)[:5]}; give start, a symbol above them")
        start = tops.pop()
        transform = TreeTransform(None, collapse_unary, binarize, markov_order)
    elif tops == {start}:
        transform = TreeTransform(None, collapse_unary, binarize, markov_order)
    else:
        transform = TreeTransform(start, collapse_unary, binarize, markov_order)
    counted: Counter[Rule] = Counter()
    for number, tree in enumerate(treebank):
        try:
            counted.update(rules_of(transform.apply(tree)))
        except ValueError as error:
            raise ValueError(f"tree {number} cannot be used: {error}") from None
    grammar = cls(
        counted, start, weights=torch.tensor(list(counted.values()), dtype=torch.float64), transform=transform
    )
    assert grammar.weights is not None
    normalized = grammar.blocks["rules"].normalize(grammar.weights["rules"])
    grammar.weights = {"rules": normalized.to(torch.get_default_dtype())}
    return grammar


def dense(cls: type[CFG], num_nonterminals: int, num_preterminals: int, num_words: int) -> CFG:
    """All rules over K nonterminals, P preterminals and V words.

    The start symbol ``S`` goes to any one of them (K + P rules), a nonterminal ``N0``, ``N1``, .. to any two
    (K (K + P)^2 rules), a preterminal ``T0``, ``T1``, .. to any word ``w0``, ``w1``, .. (P V rules).
    """
    if min(num_nonterminals, num_preterminals, num_words) < 1:
        raise ValueError(
            "num_nonterminals, num_preterminals and num_words must be at least 1, not "
            f"{num_nonterminals}, {num_preterminals}, {num_words}"
        )
    phrases = [f"N{k}" for k in range(num_nonterminals)]
    tags = [f"T{k}" for k in range(num_preterminals)]
    words = [Word(f"w{k}") for k in range(num_words)]
    both = phrases + tags
    rules: list[Rule] = [("S", (a,)) for a in both]
    rules += [(a, (b, c)) for a in phrases for b in both for c in both]
    rules += [(t, (w,)) for t in tags for w in words]
    return cls(rules, "S")
