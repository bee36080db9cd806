# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences and trees drawn from dependency models with valence, or with classes of distances."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.charts.attachments import Attachments
from pyrogram.charts.checks import broadcast_shapes, check_shape, check_size
from pyrogram.charts.dmv_sample import ancestral
from pyrogram.grammar import Grammar, TooLong, check_normalized, is_cut, num_tries


def draw_trees(
    grammar: Grammar,
    weights: Mapping[str, Tensor],
    sample_shape: Sequence[int],
    max_length: int,
    too_long: TooLong,
    widths: Sequence[int] = (),
    attachments: Attachments | None = None,
) -> tuple[Tensor, Tensor]:
    """Ancestral draws of words and heads, shapes ``(*sample_shape, max_length)``; see :meth:`.DMV.sample_trees`.

    :param grammar: with the blocks ``root``, ``attach`` and ``stop``.
    :param widths: where classes of distances begin, see :class:`.DistanceDMV`.
    :param attachments: the events of ``attach``, if it is packed.
    """
    sample_shape, max_length = check_shape("sample_shape", sample_shape), check_size("max_length", max_length)
    check_normalized(grammar, weights)
    tables = [weights[name] for name in ("root", "attach", "stop")]
    V, S = grammar.blocks["stop"].shape[0], grammar.blocks["stop"].shape[2]
    if attachments is None and len(grammar.blocks["attach"].shape) == 3:
        attach = tables[1].unsqueeze(-2)
        tables[1] = attach.expand(*attach.shape[:-2], S, V)
    dims = (1, 4 if attachments is None else 1, 4)
    batch = broadcast_shapes(*(t.shape[: t.dim() - k] for t, k in zip(tables, dims, strict=True)))
    root, attach, stop = (
        t.expand(*batch, *t.shape[t.dim() - k :]).reshape(-1, *t.shape[t.dim() - k :])
        for t, k in zip(tables, dims, strict=True)
    )
    full = broadcast_shapes(sample_shape, batch)
    model = torch.arange(batch.numel()).reshape(batch).expand(full).reshape(-1)
    own = (root, attach, stop, model, max_length, is_cut(too_long), num_tries(too_long))
    words, heads = (x.to(root.device) for x in ancestral(*own, widths, attachments))
    return words.reshape(*full, max_length), heads.reshape(*full, max_length)
