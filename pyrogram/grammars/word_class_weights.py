# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights of words from those of their classes: where a large vocabulary starts, or what its Dirichlets lean to."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pyrogram.grammar import Weights, check_blocks
from pyrogram.printable import plural

from .dmv import DMV
from .sparse_dmv import SparseDMV


def weights_of_classes(grammar: SparseDMV, weights: Mapping[str, Tensor], classes: Tensor, shares: Tensor) -> Weights:
    """The weights of a model that chooses the class of a child as a DMV does, and then a word of that class.

        attach[h, d, c] = attach'[k(h), d, k(c)] p(c | k(c)),    root[c] = root'[k(c)] p(c | k(c)),

    and heads stop as their classes do. They are the grammar's ``initial_weights``; or times a number the concentration
    of Dirichlets, by which words with few counts back off to their classes. Differentiable in ``weights``.

    >>> words = torch.tensor([[0, 1, 2], [2, 3, -1]])
    >>> grammar, classes = SparseDMV.of(words, 4), torch.tensor([0, 1, 0, 1])
    >>> of_classes = DMV(2).initial_weights(classes[words.clamp_min(0)], "uniform")
    >>> found = weights_of_classes(grammar, of_classes, classes, torch.tensor([0.5, 0.5, 0.5, 0.5]))
    >>> found["attach"].shape == grammar.blocks["attach"].shape, found["root"]
    (True, tensor([0.2500, 0.2500, 0.2500, 0.2500]))

    :param weights: of a :class:`.DMV` over K classes with the options of the grammar, by block.
    :param classes: the class of each word, 0 .. K - 1, shape ``(V,)``.
    :param shares: p(word | class) of each word, shape ``(V,)``; they sum to one in each class.
    :returns: by block of the grammar; the event other has what its words have together.
    :raises ValueError: if shapes do not fit, or a class is none.
    """
    V, S = grammar.num_tags, grammar.attachments.num_valences
    K = weights["root"].shape[-1] if "root" in weights else 1
    check_blocks(DMV(K, valence_attach=grammar.valence_attach, num_valences=grammar.num_valences), weights)
    if classes.shape != (V,) or shares.shape != (V,) or not bool(((classes >= 0) & (classes < K)).all()):
        raise ValueError(
            f"classes and shares must be one for each of {plural(V, 'word')}, and classes 0 to "
            f"{K - 1}, but have shapes "
            f"{tuple(classes.shape)} and {tuple(shares.shape)}"
        )
    block, shares = grammar.blocks["attach"], shares.to(weights["root"])
    events = grammar.attachments
    owner, child = torch.from_numpy(events.owners), torch.from_numpy(events.children_of_events)
    seen, row = child >= 0, owner // S
    place = (classes[row // 2], row % 2, *((owner % S,) if grammar.valence_attach else ()), classes[child])
    values = torch.where(seen, weights["attach"][place] * shares[child], 0.0)
    others = (1 - block.totals(values)).clamp_min(0)
    return {
        "root": weights["root"][classes] * shares,
        "attach": torch.where(seen, values, others),
        "stop": weights["stop"][classes],
    }
