# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The events of a tree and a tree's score, once more and naively: what lexicalised trees are tested against."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

LEFT, RIGHT = 0, 1
Context = dict[str, Any]


def events_of(
    tags: Sequence[int], words: Sequence[int], cases: Sequence[int], heads: Sequence[int]
) -> Iterator[tuple[str, Context, Any]]:
    """(variable, features of its context, value), from the definition; "wall", "start", "stop" by name."""
    n = len(tags)
    for h in range(n + 1):
        parent = {"parent_tag": "wall", "parent_word": "wall", "parent_case": "wall"}
        if h:
            parent = {"parent_tag": tags[h - 1], "parent_word": words[h - 1], "parent_case": cases[h - 1]}
        for direction in (LEFT, RIGHT):
            if h == 0 and direction == LEFT:
                continue
            children = [m for m in range(1, n + 1) if heads[m - 1] == h and (m > h) == (direction == RIGHT)]
            children.sort(key=lambda m, h=h: abs(m - h))
            sibling: Any = "start"
            for m in children:
                tag, word = tags[m - 1], words[m - 1]
                yield "tags", {**parent, "direction": direction, "sibling_tag": sibling}, tag
                yield "words", {**parent, "direction": direction, "tag": tag}, word
                sibling = tag
            if h:
                yield "tags", {**parent, "direction": direction, "sibling_tag": sibling}, "stop"
    for tag, word, case in zip(tags, words, cases, strict=True):
        yield "cases", {"tag": tag, "word": word}, case


def tree_score(scores: Any, heads: Sequence[int]) -> Tensor:
    """The sum of the parts of a tree: the convention of SiblingDependencyTree, with loops."""
    n = len(heads)
    total = torch.zeros(())
    for h in range(n + 1):
        for side in (LEFT, RIGHT):
            last = h
            inside_out = range(h - 1, 0, -1) if side == LEFT else range(h + 1, n + 1)
            for m in inside_out:
                if heads[m - 1] == h:
                    total = total + scores.arcs[h, m] + scores.siblings[h, m, last]
                    last = m
            if h:
                total = total + scores.stops[h, side, last]
    return total
