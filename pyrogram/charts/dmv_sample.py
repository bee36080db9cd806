# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Ancestral sampling from the DMV: a tree grows from the wall down, then its words are read off in order."""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numba import njit
from torch import Tensor

from pyrogram.charts.attachments import Attachments, other_child
from pyrogram.charts.checks import too_long
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import draw_event, seed_stream, uniform

Numbers = Any  # a numpy array


def ancestral(
    tables: Sequence[Tensor],
    model: Int[Tensor, "N"],
    max_length: int,
    cut: bool = False,
    tries: int = 10_000,
    widths: Sequence[int] = (),
    attachments: Attachments | None = None,
) -> tuple[Int[Tensor, "N n"], Int[Tensor, "N n"]]:
    """Words and heads of a sentence of each given model, of at most n = ``max_length`` words, padded with -1.

    :param tables: probabilities of the root, ``(M, V)``; of children, ``(M, V, 2, S, V)`` [head, direction, valence,
        child], or without valences, or packed, ``(M, R)``; and of decisions to stop, ``(M, V, 2, S, 2)``.
    :param cut: let a sentence of ``max_length`` words grow no further, rather than draw it again.
    :param tries: how often a sentence is drawn again.
    :param widths: where classes of distances begin, in words, if the tables have these in the place of valences.
    :param attachments: the events of ``attach``, if it is packed.
    :raises TooLongError: if so many in a row were too long.
    """
    words = np.full((len(model), max_length), -1, np.int64)
    heads = np.full((len(model), max_length), -1, np.int64)
    seed = int(torch.randint(2**63 - 1, ()))
    root, attach, stop = (t.detach().to("cpu", torch.float64) for t in tables)
    sums, V, S = attach.cumsum(-1), stop.shape[1], stop.shape[3]
    if attachments is None:
        rows = _dense_rows(V, S)
        sums = (sums if sums.dim() == 5 else sums[..., None, :].expand(-1, -1, -1, S, -1)).flatten(1)
    else:  # cumulative from the beginning of each row
        rows, owners = _packed_rows(attachments, S), torch.from_numpy(attachments.owners)
        begin = torch.from_numpy(np.flatnonzero(np.diff(attachments.owners, prepend=-1)))
        sums = sums - (sums - attach)[:, begin][:, owners]
    root_, stop_ = root.cumsum(-1).numpy(), stop.cumsum(-1).numpy()
    models, far = model.cpu().numpy(), np.array(widths, np.int64)
    if not _grow_all(root_, (sums.numpy(), rows, stop_), models, far, seed, words, heads, tries, cut):
        raise too_long(tries, max_length)
    return torch.from_numpy(words), torch.from_numpy(heads)


class _Rows(NamedTuple):
    """Where the events of the row 2 S head + S direction + valence lie, and the child of each.

    :param firsts: the first event.
    :param sizes: how many there are.
    :param starts: the first of their children; empty, if events are children.
    :param ends: the end of these; where there is one more event, it stands for all other words.
    :param children: increasing within a row.
    """

    firsts: Numbers
    sizes: Numbers
    starts: Numbers
    ends: Numbers
    children: Numbers


def _dense_rows(V: int, S: int) -> _Rows:
    rows, none = np.arange(2 * V * S), np.empty(0, np.int64)
    return _Rows(rows * V, np.full(len(rows), V), none, none, np.empty(0, np.int32))


def _packed_rows(packed: Attachments, S: int) -> _Rows:
    """Of attachments that may know no valences, for S valences."""
    valence = np.arange(S) if packed.num_valences > 1 else np.zeros(S, np.int64)
    firsts = (packed.firsts[:-1, None] + valence * packed.sizes[:, None]).reshape(-1)
    sizes, starts, ends = (np.repeat(x, S) for x in (packed.sizes, packed.starts[:-1], packed.starts[1:]))
    return _Rows(firsts, sizes, starts, ends, packed.children)


@njit(nogil=True)
def _draw_child(attach, rows, row, num_words, state):
    """A child of a head, from the cumulative probabilities of all rows."""
    first = rows.firsts[row]
    child = draw_event(attach[first : first + rows.sizes[row]], state)
    if len(rows.starts) == 0:
        return child
    start, end = rows.starts[row], rows.ends[row]
    if child < end - start:
        return np.int64(rows.children[start + child])
    return other_child(rows.children, start, end, np.int64(uniform(state) * (num_words - (end - start))))


@kernel
def _grow_all(root, weights, model, widths, seed, words, heads, tries, cut):
    attach, rows, stop = weights
    max_length = words.shape[1]
    state = np.zeros(1, np.uint64)
    tag = np.zeros(max_length, np.int64)
    parent = np.zeros(max_length, np.int64)
    # The children of a node on one side, as a list from the nearest outwards.
    first = np.zeros((max_length, 2), np.int64)
    following = np.zeros(max_length, np.int64)
    for sample in range(len(words)):
        seed_stream(state, seed, sample)
        size = -1
        for _ in range(tries):
            m = model[sample]
            of_model = attach[m], rows, stop[m]
            if len(widths):
                size = _grow_by_distance(root[m], of_model, widths, state, tag, parent, first, following, cut)
            else:
                size = _grow(root[m], of_model, state, tag, parent, first, following, cut)
            if size > 0:
                break
        if size < 0:
            return False
        _read(size, tag, parent, first, following, words[sample], heads[sample])
    return True


@njit(nogil=True)
def _grow(root, weights, state, tag, parent, first, following, cut):
    """Nodes in the order in which they are born; their number, or -1 if there is no room and they are not cut."""
    attach, rows, stop = weights
    tag[0], parent[0], size = draw_event(root, state), -1, 1
    node = 0
    while node < size:
        for d in range(2):
            first[node, d] = -1
            last, v = -1, 0
            while True:
                if draw_event(stop[tag[node], d, v], state) == 1:
                    break
                if size == len(tag):
                    if cut:
                        break
                    return -1
                row = (tag[node] * 2 + d) * stop.shape[2] + v
                tag[size], parent[size], following[size] = _draw_child(attach, rows, row, len(stop), state), node, -1
                if last < 0:
                    first[node, d] = size
                else:
                    following[last] = size
                last, v = size, min(v + 1, stop.shape[2] - 1)
                size += 1
        node += 1
    return size


@njit(nogil=True)
def _grow_by_distance(root, weights, widths, state, tag, parent, first, following, cut):
    """The same where a head knows how many words it has on that side: a child's subtree comes before the next child."""
    attach, rows, stop = weights
    side = np.zeros(len(tag), np.int64)
    last = np.full(len(tag), -1, np.int64)
    reached = np.zeros((len(tag), 2), np.int64)
    tag[0], parent[0], size = draw_event(root, state), -1, 1
    first[0] = -1
    node = 0
    while node >= 0:
        d = side[node]
        c = np.searchsorted(widths, reached[node, d], side="right")
        stopped = draw_event(stop[tag[node], d, c], state) == 1
        if not stopped and size == len(tag):
            if not cut:
                return -1
            stopped = True
        if not stopped:
            child = size
            row = (tag[node] * 2 + d) * stop.shape[2] + c
            tag[child], parent[child], following[child] = _draw_child(attach, rows, row, len(stop), state), node, -1
            first[child], side[child], last[child], reached[child] = -1, 0, -1, 0
            if last[node] < 0:
                first[node, d] = child
            else:
                following[last[node]] = child
            last[node] = child
            size += 1
            node = child
        elif d == 0:
            side[node], last[node] = 1, -1
        else:
            up = parent[node]
            if up >= 0:
                reached[up, side[up]] += 1 + reached[node, 0] + reached[node, 1]
            node = up
    return size


@njit(nogil=True)
def _read(size, tag, parent, first, following, words, heads):
    """Positions: subtree sizes bottom up, then spans top down; nodes are born after their parents."""
    width = np.ones(size, np.int64)
    for node in range(size - 1, 0, -1):
        width[parent[node]] += width[node]
    start = np.zeros(size, np.int64)
    position = np.zeros(size, np.int64)
    for node in range(size):
        position[node] = start[node]
        child = first[node, 0]
        while child >= 0:
            position[node] += width[child]
            child = following[child]
        left = position[node]
        child = first[node, 0]
        while child >= 0:  # the nearest left child ends where its head begins
            left -= width[child]
            start[child] = left
            child = following[child]
        right = position[node] + 1
        child = first[node, 1]
        while child >= 0:
            start[child] = right
            right += width[child]
            child = following[child]
        words[position[node]] = tag[node]
        heads[position[node]] = 0 if parent[node] < 0 else position[parent[node]] + 1
