# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order projective dependency trees over words whose tags are unknown: trees and tags together.

The chart of :mod:`.sibling_tree` with a tag of S at every head and child: an arc's score depends on the tags of head
and dependent, and each child's tag on the head, its tag and the tag of the child before it on that side. O(n^3 S^3)
time for n words, "computationally expensive" (Wallach, Sutton and McCallum 2008, footnote 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram


@dataclass(frozen=True)
class TaggedTreeScores:
    """Log probabilities of the parts of B sentences with their trees and tags, float64, in nats.

    Position 0 is ROOT, of which tag 0 alone is read, and no stops. Directions are 0 for left, 1 for right.

    :param arcs: (B, n+1, n+1, S, S) [head, dependent, head's tag, dependent's tag]: of the dependent's word.
    :param firsts: (B, n+1, 2, S, S) [head, direction, its tag, child's tag]: of a side's first tag.
    :param nexts: (B, n+1, 2, S, S, S) [head, direction, its tag, tag of the child before, child's tag]: of later ones.
    :param childless: (B, n+1, 2, S) [head, direction, its tag]: of STOP on a side without children.
    :param stops: (B, n+1, 2, S, S) [head, direction, its tag, last child's tag]: of STOP after children.
    :param leaves: (B, n+1, S) [word, its tag]: of what belongs to the word alone, its case.
    """

    arcs: Tensor
    firsts: Tensor
    nexts: Tensor
    childless: Tensor
    stops: Tensor
    leaves: Tensor


@recursion
def second_order_with_tags(p: Any) -> None:
    """The items of :func:`.sibling_tree.second_order`, each with the tags of the words that stand at its ends:

    IR, IL: an arc between i and j, from i in IR and from j in IL, and all between them;
    B: neighbouring children i and j of a head outside, and all between them;
    RC, LC: head i and all its descendants as far as j (RC), head j and all its descendants as far as i (LC).
    """
    i, j, k, r = p.positions("i j k r")
    a, b, c = p.symbols("a b c", "S")
    RC, LC, Z = p.items("RC", "S"), p.items("LC", "S"), p.items("Z")
    IR, IL, B = p.items("IR IL B", "S", "S")
    arc = p.weights("arc", "S", "S")
    first, last = p.weights("first last", 2, "S", "S")
    following = p.weights("following", 2, "S", "S", "S")
    childless = p.weights("childless", 2, "S")
    leaf = p.weights("leaf", "S")
    RC[i, i, a] += childless[i, 1, a] * leaf[i, a]
    LC[i, i, a] += childless[i, 0, a]
    IR[i, j, a, b] += arc[i, j, a, b] * first[i, 1, a, b] * leaf[i, a] * LC[i + 1, j, b]
    IR[i, j, a, b] += arc[i, j, a, b] * following[i, 1, a, c, b] * IR[i, k, a, c] * B[k, j, c, b]
    IL[i, j, a, b] += arc[j, i, b, a] * first[j, 0, b, a] * RC[i, j - 1, a]
    IL[i, j, a, b] += arc[j, i, b, a] * following[j, 0, b, c, a] * B[i, k, a, c] * IL[k, j, c, b]
    B[i, j, a, b] += RC[i, k, a] * LC[k + 1, j, b]
    RC[i, j, a] += last[i, 1, a, c] * IR[i, k, a, c] * RC[k, j, c]
    LC[i, j, b] += last[j, 0, b, c] * LC[i, k, c] * IL[k, j, c, b]
    Z[()] += arc[0, r, 0, b] * first[0, 1, 0, b] * LC[1, r, b] * RC[r, p.n, b]


def log_partition(scores: TaggedTreeScores, lengths: Tensor) -> Tensor:
    """The log of the sum over trees and tags, in nats, shape (B,)."""
    return _program().log_partition(_inputs(scores, lengths))


def marginals(scores: TaggedTreeScores, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log Z (B,), posterior probabilities of arcs (B, n+1, n+1) [head, dependent], and of tags (B, n, S)."""
    log_z, counts = _program().marginals(_inputs(scores, lengths))
    return log_z, counts["arc"].sum((-2, -1)), counts["arc"].sum((1, 3))[:, 1:]


def sample(
    scores: TaggedTreeScores, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Independent pairs of tags and heads, (num_samples, B, n) each, padded with -1."""
    n = scores.arcs.shape[1] - 1
    rows = _program().draw(_inputs(scores, lengths), num_samples, _numbers(scores), n, generator)
    return _tags_and_heads(rows, scores)


def best(scores: TaggedTreeScores, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The tags and heads that are most probable together, (B, n) each, padded with -1."""
    n = scores.arcs.shape[1] - 1
    rows = _program().best(_inputs(scores, lengths), 1, _numbers(scores), n)[1]
    tags, heads = _tags_and_heads(rows, scores)
    return tags[0], heads[0]


@cache
def _program() -> TensorProgram:
    return TensorProgram(second_order_with_tags(), "tree")


def _inputs(scores: TaggedTreeScores, lengths: Tensor) -> TensorInputs:
    weights = {"arc": scores.arcs, "first": scores.firsts, "last": scores.stops, "following": scores.nexts}
    weights |= {"childless": scores.childless, "leaf": scores.leaves}
    return TensorInputs(weights, lengths, sizes={"S": scores.leaves.shape[-1]})


def _numbers(scores: TaggedTreeScores) -> dict[str, tuple[int, ...]]:
    """Of an arc: its head, dependent and dependent's tag, as digits."""
    N, S = scores.leaves.shape[1:]
    return {"arc": (0, N * S, S, 0, 1)}


def _tags_and_heads(rows: Tensor, scores: TaggedTreeScores) -> tuple[Tensor, Tensor]:
    """From the numbers of a tree's arcs, in any order, padded with -1."""
    N, S = scores.leaves.shape[1:]
    place = torch.where(rows >= 0, rows // S % N, 0)  # padding goes to the place of ROOT, which is left out
    columns = []
    for values in (rows % S, rows // (N * S)):
        columns.append(torch.full((*rows.shape[:-1], N), -1).scatter(-1, place, values)[..., 1:])
    return columns[0], columns[1]
