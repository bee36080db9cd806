# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Ancestral sampling from the DMV: a tree grows from the wall down, then its words are read off in order."""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from pyrogram.charts.checks import TooLongError
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform

TRIES = 10_000


def ancestral(
    root: Float[Tensor, "M V"],
    attach: Float[Tensor, "M V 2 S V"],
    stop: Float[Tensor, "M V 2 S 2"],
    model: Int[Tensor, "N"],
    max_length: int,
    cut: bool = False,
    tries: int = TRIES,
    widths: Sequence[int] = (),
) -> tuple[Int[Tensor, "N n"], Int[Tensor, "N n"]]:
    """Words and heads of a sentence of each given model, of at most n = ``max_length`` words, padded with -1.

    :param root: probabilities, like the other tables; ``attach`` is [head, direction, valence, child].
    :param cut: let a sentence of ``max_length`` words grow no further, rather than draw it again.
    :param tries: how often a sentence is drawn again.
    :param widths: where classes of distances begin, in words, if the tables have these in the place of valences.
    :raises TooLongError: if so many in a row were too long.
    """
    words = np.full((len(model), max_length), -1, np.int64)
    heads = np.full((len(model), max_length), -1, np.int64)
    seed = int(torch.randint(2**63 - 1, ()))
    tables = [t.detach().to("cpu", torch.float64).cumsum(-1).numpy() for t in (root, attach, stop)]
    own, far = model.cpu().numpy(), np.array(widths, np.int64)
    if not _grow_all(tables[0], tables[1], tables[2], own, far, seed, words, heads, tries, cut):
        raise TooLongError(
            f"{tries} sampled sentences in a row had more than {max_length} words; "
            "raise max_length, stop more often, or say too_long='truncate'"
        )
    return torch.from_numpy(words), torch.from_numpy(heads)


@njit(nogil=True)
def _draw(cumulative, state):
    """An event of a multinomial from its cumulative probabilities."""
    u = uniform(state) * cumulative[-1]
    event = np.searchsorted(cumulative, u, side="right")
    return min(event, len(cumulative) - 1)


@kernel
def _grow_all(root, attach, stop, model, widths, seed, words, heads, tries, cut):
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
            if len(widths):
                size = _grow_by_distance(root[m], attach[m], stop[m], widths, state, tag, parent, first, following, cut)
            else:
                size = _grow(root[m], attach[m], stop[m], state, tag, parent, first, following, cut)
            if size > 0:
                break
        if size < 0:
            return False
        _read(size, tag, parent, first, following, words[sample], heads[sample])
    return True


@njit(nogil=True)
def _grow(root, attach, stop, state, tag, parent, first, following, cut):
    """Nodes in the order in which they are born; their number, or -1 if there is no room and they are not cut."""
    tag[0], parent[0], size = _draw(root, state), -1, 1
    node = 0
    while node < size:
        for d in range(2):
            first[node, d] = -1
            last, v = -1, 0
            while True:
                if _draw(stop[tag[node], d, v], state) == 1:
                    break
                if size == len(tag):
                    if cut:
                        break
                    return -1
                tag[size], parent[size], following[size] = _draw(attach[tag[node], d, v], state), node, -1
                if last < 0:
                    first[node, d] = size
                else:
                    following[last] = size
                last, v = size, min(v + 1, stop.shape[2] - 1)
                size += 1
        node += 1
    return size


@njit(nogil=True)
def _grow_by_distance(root, attach, stop, widths, state, tag, parent, first, following, cut):
    """The same where a head knows how many words it has on that side: a child's subtree comes before the next child."""
    side = np.zeros(len(tag), np.int64)
    last = np.full(len(tag), -1, np.int64)
    reached = np.zeros((len(tag), 2), np.int64)
    tag[0], parent[0], size = _draw(root, state), -1, 1
    first[0] = -1
    node = 0
    while node >= 0:
        d = side[node]
        c = np.searchsorted(widths, reached[node, d], side="right")
        stopped = _draw(stop[tag[node], d, c], state) == 1
        if not stopped and size == len(tag):
            if not cut:
                return -1
            stopped = True
        if not stopped:
            child = size
            tag[child], parent[child], following[child] = _draw(attach[tag[node], d, c], state), node, -1
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
