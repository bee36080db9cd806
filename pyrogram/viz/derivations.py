# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Phrase structure trees drawn as SVG: words in a row, labels above what they span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pyrogram.folding import fold, leaves, text_of
from pyrogram.printable import plural
from pyrogram.viz.arcs import CORRECT, WRONG, Style
from pyrogram.viz.svg import INK, element, label, number, picture, printable, text_width
from pyrogram.viz.trees import TreeDrawing

if TYPE_CHECKING:
    from nltk import Tree

# Pixels.
LABEL, WORD, SMALL = 13.0, 16.0, 10.0  # sizes of type
LEVEL = 40.0  # from one level of labels to the next
GAP, MARGIN = 14.0, 16.0
FAINTEST = 0.25  # a label of probability 0

Span = tuple[str, int, int]


@dataclass
class _Node:
    """A label or a word: what it spans, how high it stands above the words, and where."""

    text: str
    children: list[_Node]
    start: int
    end: int
    level: int
    width: float
    x: float = 0.0

    @property
    def is_word(self) -> bool:
        return self.level == 0

    @property
    def span(self) -> Span:
        return self.text, self.start, self.end

    def walk(self) -> Iterator[_Node]:
        agenda = [self]
        while agenda:
            node = agenda.pop()
            yield node
            agenda.extend(reversed(node.children))


def draw_derivation(
    tree: Tree,
    *,
    probabilities: Mapping[Span, float] | None = None,
    gold: Tree | None = None,
    title: str | None = None,
) -> TreeDrawing:
    """Draws a phrase structure tree, as :meth:`pyrogram.CFG.tree` gives it.

    :param tree: an ``nltk.Tree`` whose leaves are words.
    :param probabilities: posterior probabilities of labelled spans ``(label, i, k)`` of words i .. k - 1, counted from
        0: printed under the labels, which are the fainter the less probable they are. Spans without one are plain.
    :param gold: the right tree of the same words: labels of spans that it lacks are red, their lines dashed. Labels of
        single words count like all others.
    :param title: printed above.
    :raises ValueError: if the trees have no or other words, or a probability is none.
    """
    words = [str(leaf) for leaf in leaves(tree)]
    if not words:
        raise ValueError(f"the tree must have words at its leaves, but {text_of(tree)[:60]!r} has none")
    root = _node(tree)
    if gold is not None and [str(leaf) for leaf in leaves(gold)] != words:
        raise ValueError(
            f"gold must have the words of the tree, {' '.join(words)!r}, not {' '.join(map(str, leaves(gold)))!r}"
        )
    for span, p in (probabilities or {}).items():
        if not -1e-6 <= p <= 1 + 1e-6:
            raise ValueError(f"probabilities must lie between 0 and 1, but that of {span} is {p:g}")
    right = None if gold is None else Counter(n.span for n in _node(gold).walk() if not n.is_word)
    summary = f"{plural(len(words), 'word')}"
    if right is not None:
        spans = Counter(n.span for n in root.walk() if not n.is_word)
        summary += (
            f", {(spans & right).total()} of {plural(spans.total(), 'label')} right, {(right - spans).total()} missed"
        )
    svg = _svg(root, words, probabilities or {}, right, title)
    return TreeDrawing(svg, summary)


def _node(tree: Tree) -> _Node:
    number = count()

    def leaf(word: Any) -> _Node:
        i = next(number)
        return _Node(str(word), [], i, i + 1, 0, text_width(str(word), WORD))

    def node(above: Any, children: list[_Node]) -> _Node:
        start, end = (children[0].start, children[-1].end) if children else (0, 0)
        level = 1 + max((c.level for c in children), default=0)
        text = str(above.label())
        return _Node(text, children, start, end, level, max(text_width(text, LABEL), _row(children)))

    return fold(tree, leaf, node)


def _row(nodes: list[_Node]) -> float:
    """The width of nodes side by side."""
    return sum(node.width for node in nodes) + GAP * max(len(nodes) - 1, 0)


def _place(root: _Node, left: float) -> None:
    """Put every node over the middle of its children, and these side by side; the root begins at ``left``."""
    agenda, order = [(root, left)], []
    while agenda:
        node, at = agenda.pop()
        order.append(node)
        node.x = at + node.width / 2
        at += (node.width - _row(node.children)) / 2
        for child in node.children:
            agenda.append((child, at))
            at += child.width + GAP
    for node in reversed(order):  # children come after their parents
        if node.children:
            node.x = (node.children[0].x + node.children[-1].x) / 2


def _svg(
    root: _Node, words: list[str], probabilities: Mapping[Span, float], right: Counter[Span] | None, title: str | None
) -> str:
    width = max(root.width, text_width(title or "", WORD)) + 2 * MARGIN
    _place(root, (width - root.width) / 2)
    top = MARGIN + (28.0 if title else 0.0) + LABEL
    floor = top + LEVEL * root.level
    elements = []
    if title:
        elements.append(label(title, width / 2, MARGIN + 12.0, WORD, "title", font_weight="600"))
    unseen = None if right is None else Counter(right)
    for node in root.walk():
        style = CORRECT
        if unseen is not None and not node.is_word:
            style = CORRECT if unseen[node.span] > 0 else WRONG
            unseen[node.span] -= 1
        elements.append(element("g", *_parts(node, floor, probabilities.get(node.span), style), class_="node"))
    return picture(title or " ".join(words), width, floor + MARGIN, *elements)


def _parts(node: _Node, floor: float, probability: float | None, style: Style) -> Iterator[str]:
    """A label and the lines to what is under it; a word."""
    y = floor - LEVEL * node.level
    if node.is_word:
        yield label(node.text, node.x, y, WORD, "word")
        return
    shown = {} if probability is None else {"opacity": number(FAINTEST + (1 - FAINTEST) * probability)}
    printed = probability is not None and not node.children[0].is_word
    colour = INK if style is CORRECT else style.colour
    dash = {"stroke_dasharray": style.dash} if style.dash else {}
    bottom = y + (5.0 + SMALL if printed else 5.0)
    for child in node.children:
        end = floor - LEVEL * child.level - (WORD if child.is_word else LABEL) - 1.0
        path = f"M{number(node.x)} {number(bottom)}L{number(child.x)} {number(end)}"
        yield element("path", d=path, stroke="#8c959f", stroke_width=1.0, fill="none", **dash)
    what = f"{node.text}, words {node.start + 1} to {node.end}"
    if probability is not None:
        what += f", probability {probability:.3f}"
    yield element("title", printable(what))
    yield label(node.text, node.x, y, LABEL, "label", fill=colour, font_weight="600", **shown)
    if printed:
        yield label(f"{probability:.2f}", node.x, y + SMALL + 1.0, SMALL, "probability", fill="#656d76")
