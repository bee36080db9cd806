# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of a treebank to trees of a grammar without unary cycles and long rules, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyrogram.folding import fold

from .cfg_text import Rule, Word, show

JOIN = "+"
PART = "<"


@dataclass(frozen=True)
class TreeTransform:
    """How trees of a treebank are changed before rules are read off; :meth:`invert` undoes it exactly.

    :param start: a symbol that was added above every tree, or None.
    :param collapse_unary: a phrase whose only child is a phrase becomes one node, ``S+VP``. Phrases that have only a
        preterminal stay as they are, and so does the node on top, which is the start symbol.
    :param binarize: a node of more than two children keeps the first; the others hang on a new node ``NP<JJ NN>`` that
        names its parent and what is to come.
    :param markov_order: how many of the children to come that name says; None: all of them, and then probabilities
        of trees are those without binarisation.
    """

    start: str | None = None
    collapse_unary: bool = True
    binarize: bool = False
    markov_order: int | None = None

    def __post_init__(self) -> None:
        if self.markov_order is not None and self.markov_order < 0:
            raise ValueError(f"markov_order must be None or at least 0, not {self.markov_order}")
        if self.markov_order is not None and not self.binarize:
            raise ValueError("markov_order has no effect without binarize=True; say both")

    def apply(self, tree: Any) -> Any:
        """The tree of the grammar; the given one is not changed.

        :raises ValueError: if a label holds a sign that transformed labels are told by.
        """
        from nltk.tree import Tree

        def may_join(node: Any) -> bool:
            return self.start is not None or node is not tree

        def changed(node: Any, children: list[Any]) -> Any:
            label = self._checked(node)
            if self.collapse_unary and len(node) == 1 and _is_phrase(node[0]) and may_join(node):
                return [[label, *children[0][0]], children[0][1]]  # one node with its child
            return [[label], [c if isinstance(c, str) else self._node(c[0], c[1], Tree) for c in children]]

        labels, children = fold(tree, _itself, changed)
        top = self._node(labels, children, Tree)
        return top if self.start is None else Tree(self.start, [top])

    def _node(self, labels: Sequence[str], children: list[Any], make: Any) -> Any:
        """A node, or several if it is binarised."""
        label = JOIN.join(labels)
        if not self.binarize or len(children) <= 2:
            return make(label, children)
        last = children[-1]
        for i in range(len(children) - 2, 0, -1):
            coming = children[i:] if self.markov_order is None else children[i : i + self.markov_order]
            names = " ".join(repr(c) if isinstance(c, str) else c.label() for c in coming)
            last = make(f"{label}{PART}{names}>", [children[i], last])
        return make(label, [children[0], last])

    def _checked(self, tree: Any) -> str:
        label = str(tree.label())
        for sign, used in ((JOIN, self.collapse_unary), (PART, self.binarize)):
            if used and sign in label:
                option = "collapse_unary" if sign == JOIN else "binarize"
                raise ValueError(f"label {label!r} holds {sign!r}, which {option} needs; rename it, or do without")
        return label

    def invert(self, tree: Any) -> Any:
        """The treebank's tree of a tree of the grammar."""
        from nltk.tree import Tree

        def restored(node: Any, children: list[Any]) -> Any:
            if self.binarize and children and not isinstance(children[-1], str) and PART in children[-1].label():
                children[-1:] = list(children[-1])
            if self.binarize and PART in node.label():
                return Tree(node.label(), children)  # its parent takes the children
            first, *others = node.label().split(JOIN) if self.collapse_unary else [node.label()]
            for label in reversed(others):
                children = [Tree(label, children)]
            return Tree(first, children)

        return fold(tree[0] if self.start is not None else tree, _itself, restored)


def _itself(leaf: Any) -> Any:
    return leaf


def _is_phrase(child: Any) -> bool:
    """Whether a child is a node that is more than a tag over a word."""
    return not isinstance(child, str) and not (len(child) == 1 and isinstance(child[0], str))


def rules_of(tree: Any) -> list[Rule]:
    """The rules of a tree in leftmost order, which is that of its nodes from the root and the left.

    :raises ValueError: if a node has no children.
    """
    rules = []
    agenda = [tree]
    while agenda:
        node = agenda.pop()
        label = str(node.label())
        if len(node) == 0:
            raise ValueError(f"node {label!r} has no children; remove it, with what stands above it alone")
        rules.append((label, tuple(Word(c) if isinstance(c, str) else str(c.label()) for c in node)))
        agenda.extend(c for c in reversed(node) if not isinstance(c, str))
    return rules


def tree_of(rules: Sequence[Rule], leaves: Iterable[str] | None = None) -> Any:
    """The tree of a leftmost derivation, an ``nltk.Tree``.

    :param leaves: words to write in place of the rules' terminals.
    :raises ValueError: if rules do not follow upon each other.
    """
    from nltk.tree import Tree

    words = None if leaves is None else iter(leaves)
    coming = iter(rules)
    top: Any = Tree("", [])
    agenda: list[tuple[Any, str]] = [(top, rules[0][0])] if rules else []
    while agenda:
        parent, symbol = agenda.pop()
        if isinstance(symbol, Word):
            parent.append(str(symbol) if words is None else next(words, str(symbol)))
            continue
        rule = next(coming, None)
        if rule is None or rule[0] != symbol:
            raise ValueError(f"the derivation must rewrite {symbol!r}, but {'ends' if rule is None else show(rule)}")
        node = Tree(symbol, [])
        parent.append(node)
        agenda.extend((node, s) for s in reversed(rule[1]))
    extra = next(coming, None)
    if extra is not None or not rules:
        raise ValueError("the derivation is empty" if extra is None else f"the derivation is over before {show(extra)}")
    return top[0]
