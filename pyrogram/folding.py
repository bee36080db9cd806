# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of any depth, from the leaves upwards: Python's own recursion, which nltk's methods use, ends at a thousand.

Trees are ``nltk.Tree``, or anything with ``label()`` and children that are such trees or strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["fold", "leaves", "text_of"]

Result = TypeVar("Result")


def fold(tree: Any, leaf: Callable[[Any], Result], node: Callable[[Any, list[Result]], Result]) -> Result:
    """What ``node`` makes of the root and the results of its children, theirs likewise, and ``leaf`` of a leaf.

    Leaves come from left to right, a node right after its last child.

    :param tree: a node, or a leaf, which is what has no ``label``.
    """
    results: list[list[Result]] = [[]]
    agenda: list[tuple[Any, bool]] = [(tree, False)]
    while agenda:
        this, is_done = agenda.pop()
        if not hasattr(this, "label"):
            results[-1].append(leaf(this))
        elif is_done:
            children = results.pop()
            results[-1].append(node(this, children))
        else:
            results.append([])
            agenda.append((this, True))
            agenda.extend((child, False) for child in reversed(this))
    return results[0][0]


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, from left to right."""
    nodes: list[Any] = []

    def nothing(node: Any, children: Sequence[None]) -> None:
        pass

    fold(tree, nodes.append, nothing)
    return nodes


def text_of(tree: Any) -> str:
    """A tree in brackets, on one line."""
    return fold(tree, str, lambda node, children: f"({' '.join([str(node.label()), *children])})")
