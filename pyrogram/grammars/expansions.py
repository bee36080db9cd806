# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars whose events are no context-free rules as symbols and right sides, and the structures of what is drawn."""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from pyrogram.draws import Draws, FlatRules, ancestral
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel

from .annotations_rules import AnnotationRules
from .attachments import Attachments

TINY = 1e-300  # of an end that is impossible: it is never drawn, but where a sentence is cut, it is taken


def dmv(
    tables: Sequence[Tensor],
    draws: Draws,
    widths: Sequence[int] = (),
    attachments: Attachments | None = None,
) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S n"]]:
    """Words and heads of trees, padded with -1; see :func:`.ancestral`.

    A head is said before its children, those on its left from the nearest outwards, and then those on its right::

        D[h, d, v] -> A[h, d, v] D[h, d, v + 1]     (continue)
        D[h, d, v] ->                               (stop)
        A[h, d, v] -> m D[m, 0, 0] D[m, 1, 0]       (the child m), and so the root

    :param tables: weights of the root, ``(G, V)``; of children, ``(G, V, 2, S, V)`` [head, direction, valence, child],
        or without valences, or packed, ``(G, R)``; and of decisions to stop, ``(G, V, 2, S, 2)``.
    :param widths: where classes of distances begin, in words, if the tables have these in the place of valences.
    :param attachments: the events of children, if these are packed.
    """
    root, attach, stop = (t.detach().double() for t in tables)
    V, S = stop.shape[1], stop.shape[3]
    if attachments is None:
        A = attach.shape[1:].numel() // (2 * V * V)
        sizes, children = np.full(2 * V * A, V), np.tile(np.arange(V, dtype=np.int32), 2 * V * A)
    else:
        A, children = attachments.num_valences, attachments.children_of_events
        sizes, children = np.repeat(attachments.sizes, A), np.where(children < 0, -attachments.outcomes, children)
    # Symbols are the sentence, A and D, in the order of their events; right sides are those of words and decisions.
    side, valence = np.arange(2 * V)[:, None], np.arange(S)  # [head and direction, valence]
    child = 1 + A * side + np.minimum(valence, A - 1)
    decision = 1 + 2 * V * A + S * side + valence
    later = decision[:, np.minimum(valence + 1, S - 1)]
    whole = np.stack([-1 - np.arange(V), decision[::2, 0], decision[1::2, 0]], -1)
    rules = FlatRules(
        start=0,
        first=np.cumsum(np.r_[0, V, sizes, np.full(2 * V * S, 2)]),
        right=np.r_[:V, children, V : V + 4 * V * S].astype(np.int32),
        offsets=np.cumsum(np.r_[0, np.full(V, 3), np.tile([2, 0], 2 * V * S)]),
        symbols=np.r_[whole.reshape(-1), np.stack([child, later], -1).reshape(-1)],
        widths=np.array(widths, np.int64),
        by_distance=int(decision[0, 0]),
    )
    stop = torch.cat([stop[..., :1], stop[..., 1:].clamp_min(TINY)], -1)
    said, events = ancestral([root, attach, stop], draws, rules)
    words, heads = torch.full_like(said, -1), torch.full_like(said, -1)
    _put_in_order(events.numpy(), said.numpy(), rules.first[decision[0, 0]], words.numpy(), heads.numpy())
    return words, heads


@kernel
def _put_in_order(events, said, first_stop, words, heads):
    """Words in their order, and heads, from those in the order of the stack and from the events."""
    n = said.shape[1]
    above, side, offset, position = np.zeros((4, n), np.int64)
    extent = np.zeros((n, 2), np.int64)  # how many words a subtree has so far on either side of its head
    for sample in range(len(events)):
        size, node = 0, -1
        for e in events[sample]:
            if e < 0:
                break
            if e < first_stop:  # a child of the node that goes on
                above[size], side[size], extent[size], node = node, 0, 0, size
                size += 1
            elif (e - first_stop) % 2 == 1:
                side[node] += 1
                if side[node] == 2:  # both sides are complete: how far it is from its head
                    h = above[node]
                    if h >= 0:
                        d = side[h]
                        offset[node] = (2 * d - 1) * (1 + extent[h, d] + extent[node, 1 - d])
                        extent[h, d] += 1 + extent[node, 0] + extent[node, 1]
                    node = h
        for node in range(size):
            position[node] = extent[0, 0] if node == 0 else position[above[node]] + offset[node]
            words[sample, position[node]] = said[sample, node]
            heads[sample, position[node]] = 0 if node == 0 else position[above[node]] + 1


def hmm(tables: Sequence[Tensor], draws: Draws) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S n"]]:
    """Words and states, padded with -1; see :func:`.ancestral`. State k is W[k], which says a word, and T[k].

    :param tables: weights of the first state, ``(G, K)``; of the next one, or the end, ``(G, K, K + 1)``; and of words,
        ``(G, K, V)``.
    """
    initial, transition, emission = (t.detach().double() for t in tables)
    K, V = emission.shape[1:]
    # Symbols are the sentence, T and W; right sides those of states, of the end, and of words.
    states = np.arange(1, 1 + K)
    rules = FlatRules(
        start=0,
        first=np.cumsum(np.r_[0, K, np.full(K, K + 1), np.full(K, V)]),
        right=np.r_[:K, np.tile(np.r_[: K + 1], K), np.tile(K + 1 + np.r_[:V], K)].astype(np.int32),
        offsets=np.cumsum(np.r_[0, np.full(K, 2), 0, np.ones(V, np.int64)]),
        symbols=np.r_[np.stack([K + states, states], -1).reshape(-1), -1 - np.arange(V)],
    )
    transition = torch.cat([transition[..., :K], transition[..., K:].clamp_min(TINY)], -1)
    words, events = ancestral([initial, transition, emission], draws, rules)
    said = events.numpy()[:, 1::2]  # after the first state, a word and the next state in turn
    states_said = np.full(words.shape, -1)
    states_said[:, : said.shape[1]] = np.where(said >= 0, (said - rules.first[K + 1]) // V, -1)
    return words, torch.from_numpy(states_said)


def annotated(weights: Tensor, rules: AnnotationRules, draws: Draws) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S n"]]:
    """Base rules and subtypes of trees of at most n = ``max_length`` nodes, padded with -1; see :func:`.ancestral`.

    :param weights: shape ``(G, R)``.
    """
    flat, base, subtype = _annotated(rules)
    words, events = ancestral([weights], draws, flat, ("tree", "node"))
    rows = pad(events, (0, draws.max_length - events.shape[1]), value=-1)
    trees, subtypes = (torch.where(rows >= 0, torch.from_numpy(x)[rows], -1) for x in (base, subtype))
    return trees, subtypes


@lru_cache(maxsize=8)
def _annotated(rules: AnnotationRules) -> tuple[FlatRules, Array, Array]:
    """A[a] -> node B[b] C[c], whose words are nodes, and the base rule and the parent's subtype of each event."""
    base = np.empty(rules.num_events, np.int64)
    for rule in range(len(rules.parent)):
        base[rules.events(rule)] = rule
    left, right = rules.left[base], rules.right[base]
    a, cell = np.divmod(np.arange(len(base)) - rules.offset[base], rules.stride[rules.parent[base]])
    b, c = np.divmod(cell, rules.right_subtypes[base])
    first = np.cumsum(rules.subtypes) - rules.subtypes  # of the symbols A[a]
    there = np.stack([base >= 0, left >= 0, right >= 0], -1)
    flat = FlatRules(
        start=int(first[rules.start]),
        first=np.cumsum(np.r_[0, np.repeat(rules.stride, rules.subtypes)]),
        right=np.arange(len(base), dtype=np.int32),
        offsets=np.cumsum(np.r_[0, there.sum(-1)]),
        symbols=np.stack([np.full_like(base, -1), first[left] + b, first[right] + c], -1)[there],
    )
    return flat, base, a
