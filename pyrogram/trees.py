# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dependency trees as tensors of heads: what they are, how many, what they score.

A tree over words 1..n is a tensor of n integers, the head of each word, 0 for ROOT, -1 for padding.
"""

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "arc_valences",
    "check_heads",
    "has_cycle",
    "is_tree",
    "lengths_of",
    "nonprojective_trees",
    "over_valences",
    "projective_trees",
    "stop_valences",
]


def projective_trees(n: int, multiroot: bool = False) -> Int[Tensor, "T n"]:
    """All projective trees of n words, in lexicographic order of their heads.

    There are 1, 2, 7, 30, 143, 728 with a single root, and 1, 3, 12, 55, 273, 1428 with several
    (OEIS A006013 and A001764).

    :returns: heads, shape ``(T, n)``, the caller's own.
    """
    return _all_trees(n, multiroot).clone()


@lru_cache(maxsize=32)
def _all_trees(n: int, multiroot: bool) -> Tensor:
    rows = [heads for heads in _forests(1, n, 0) if multiroot or heads.count(0) == 1]
    return torch.tensor(sorted(rows), dtype=torch.long).reshape(len(rows), n)


@lru_cache(maxsize=4096)
def _forests(first: int, last: int, head: int) -> list[tuple[int, ...]]:
    """Heads of words first..last, all of which descend from ``head``, which lies outside the span."""
    if first > last:
        return [()]
    forests = []
    # The leftmost tree of the forest has root r and covers first..end.
    for end in range(first, last + 1):
        for r in range(first, end + 1):
            for left in _forests(first, r - 1, r):
                for right in _forests(r + 1, end, r):
                    for rest in _forests(end + 1, last, head):
                        forests.append((*left, head, *right, *rest))
    return forests


def nonprojective_trees(n: int, multiroot: bool = False) -> Int[Tensor, "T n"]:
    """All trees of n words, whether arcs cross or not, in lexicographic order of their heads.

    There are n^(n-1) with a single root, and (n+1)^(n-1) with several (Cayley's formula): 1, 2, 9, 64, 625, 7776 and
    1, 3, 16, 125, 1296, 16807. They are found among all (n+1)^n vectors of heads.

    :returns: heads, shape ``(T, n)``, the caller's own.
    """
    vectors = torch.cartesian_prod(*[torch.arange(n + 1)] * n).reshape(-1, n)
    return vectors[is_tree(vectors, multiroot, projective=False)]


def lengths_of(padded: Int[Tensor, "*batch n"]) -> Int[Tensor, "*batch"]:
    """Number of entries before the padding (the first -1)."""
    # Products of zeros and ones fit into a byte; as int64 they take five times as long, a tenth of a short E-step.
    return (padded >= 0).cumprod(-1, dtype=torch.uint8).sum(-1)


def check_heads(heads: Tensor, lengths: Int[Tensor, "*batch"]) -> None:
    """
    :param heads: of sentences of these lengths, shape ``(*batch, n)``; batches broadcast.
    :raises ValueError: with the first sentence in which a word has no head, or itself.
    """
    n = heads.shape[-1] if heads.dim() else 0
    position = torch.arange(1, n + 1, device=heads.device)
    lengths = lengths[..., None]
    if heads.dim() < 1 or heads.is_floating_point() or n < int(lengths.max() if lengths.numel() else 0):
        raise ValueError(f"heads must be integers of shape (..., n), not {heads.dtype} of shape {tuple(heads.shape)}")
    is_head = (heads >= 0) & (heads <= lengths) & (heads != position)
    right = torch.where(position <= lengths, is_head, heads == -1).all(-1)
    if not bool(right.all()):
        first = int((~right).flatten().nonzero()[0])
        row = heads.expand(*right.shape, n).reshape(-1, n)[first].tolist()
        raise ValueError(
            f"heads must be 0 or another word of the sentence for every word, and then -1, "
            f"but those of sentence {first} are {row}"
        )


def over_valences(values: Float[Tensor, "... V"]) -> Float[Tensor, "..."]:
    """The sum over the last dimension, a new tensor. Tables are added: torch sums so few ten times as slowly."""
    first, *others = values.unbind(-1)
    return sum(others, first) if others else first.clone()


def arc_valences(heads: Int[Tensor, "*batch n"], valences: int = 2) -> Int[Tensor, "*batch n"]:
    """Valence of each word as a child: how many children its head has nearer by there, at most ``valences`` - 1."""
    position = torch.arange(1, heads.shape[-1] + 1, device=heads.device)
    right = position > heads
    side = torch.where(right, heads.int(), -2 - heads.int())
    same = side[..., :, None] == side[..., None, :]
    before = (same & (position < position[:, None])).sum(-1, dtype=torch.int32)
    after = same.sum(-1, dtype=torch.int32) - 1 - before
    return torch.where(right, before, after).clamp_max(valences - 1).long()


def stop_valences(heads: Int[Tensor, "*batch n"], valences: int = 2) -> Int[Tensor, "*batch n+1 2"]:
    """For each position and direction, how many children it has there, ``valences`` - 1 at most."""
    n, heads = heads.shape[-1], heads.long()
    right = torch.arange(1, n + 1, device=heads.device) > heads
    sides = torch.where(heads < 0, 2 * n + 2, 2 * heads + right)
    children = sides.new_zeros(*heads.shape[:-1], 2 * n + 3).scatter_add_(-1, sides, torch.ones_like(sides))
    return children[..., :-1].reshape(*heads.shape[:-1], n + 1, 2).clamp_max(valences - 1)


def has_cycle(heads: Int[Tensor, "*batch n"]) -> Bool[Tensor, "*batch"]:
    """Whether some word's head, its head's head and so on never come to ROOT; heads in 0..n, -1 where padded."""
    ancestor = torch.nn.functional.pad(heads.clamp_min(0).long(), (1, 0))
    for _ in range(heads.shape[-1].bit_length()):  # twice as many steps at a time, n at least in all
        ancestor = ancestor.gather(-1, ancestor)
    return (ancestor > 0).any(-1)


def is_tree(
    heads: Int[Tensor, "*batch n"], multiroot: bool = False, *, projective: bool = True
) -> Bool[Tensor, "*batch"]:
    """Whether heads form a tree over the words before the padding.

    Checked: integers in range, padding on the right only, at least one word, no cycle, a single
    child of ROOT (unless ``multiroot``), no crossing arcs (if ``projective``).
    """
    n = heads.shape[-1]
    length = lengths_of(heads)
    position = torch.arange(1, n + 1, device=heads.device)
    real = position <= length[..., None]
    in_range = (heads >= 0) & (heads <= length[..., None])
    ok = torch.where(real, in_range, heads == -1).all(-1) & (length > 0)
    h = torch.where(real, heads, 0).clamp(0, n)
    roots = (real & (h == 0)).sum(-1)
    ok = ok & ((roots >= 1) if multiroot else (roots == 1))
    ok = ok & ~has_cycle(h)
    if not projective:
        return ok
    low, high = torch.minimum(h, position), torch.maximum(h, position)
    crossing = (
        (low[..., :, None] < low[..., None, :])
        & (low[..., None, :] < high[..., :, None])
        & (high[..., :, None] < high[..., None, :])
        & real[..., :, None]
        & real[..., None, :]
    )
    return ok & ~crossing.any(-1).any(-1)
