# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Labels of the parts of a structure that are independent of each other, given the structure.

Structures come as rows of the cells that are their parts, and go as rows of cells times the number of labels plus the
label; -1 stands for no part.
"""

from __future__ import annotations

import torch
from torch import Tensor


def with_drawn_labels(rows: Tensor, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Rows with a label for each cell, drawn in proportion to exp(score).

    :param rows: cells, shape ``(*front, B, parts)``.
    :param scores: shape ``(B, *cells, L)``.
    """
    probs = _scores_at(rows, scores).double().softmax(-1)
    labels = torch.multinomial(probs.flatten(0, -2), 1, generator=generator).reshape(rows.shape)
    return torch.where(rows >= 0, rows * scores.shape[-1] + labels, -1)


def with_best_labels(values: Tensor, rows: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The k best structures with labels, their values ``(k, B)`` and rows ``(k, B, parts)``, best first.

    They are among the k best structures with their k best labellings each: a structure that is not among the k best has
    k others before it, even with its best labels.

    :param values: of the k best structures with their best labels, best first, shape ``(k, B)``; -inf where there are
        fewer.
    :param rows: their cells, shape ``(k, B, parts)``.
    :param scores: shape ``(B, *cells, L)``.
    """
    k, L = len(values), scores.shape[-1]
    totals, labels = best_labellings(_scores_at(rows, scores), k)  # (k, B, k), (k, B, k, parts)
    totals = torch.where(values[..., None] > -torch.inf, totals.to(values), -torch.inf)
    values, chosen = totals.movedim(0, -2).flatten(-2).topk(k, -1)  # of each sentence
    labelled = torch.where(rows[..., None, :] >= 0, rows[..., None, :] * L + labels, -1)
    labelled = labelled.movedim(0, 1).flatten(1, 2)  # (B, k * k, parts)
    rows = labelled.gather(1, chosen[..., None].expand(*chosen.shape, labelled.shape[-1]))
    rows = torch.where(values[..., None] > -torch.inf, rows, -1)
    return values.movedim(-1, 0), rows.movedim(1, 0)


def best_labellings(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best ways to give one label to each part of a structure, best first.

    The k best of the parts up to one are among the k best of those before it, with its k best labels.

    :param scores: shape ``(*batch, parts, L)``.
    :returns: their scores, ``(*batch, k)``, -inf where there are fewer, and labels, ``(*batch, k, parts)``.
    """
    if k == 1:
        values, names = scores.max(-1)
        return values.sum(-1, keepdim=True), names[..., None, :]
    num_parts = scores.shape[-2]
    values, names = scores.topk(min(k, scores.shape[-1]), -1)
    total = scores.new_zeros(*scores.shape[:-2], 1)
    labels = names.new_zeros(*scores.shape[:-2], 1, 0)
    for part in range(num_parts):
        sums = (total[..., :, None] + values[..., part, None, :]).flatten(-2)
        total, chosen = sums.topk(min(k, sums.shape[-1]), -1)
        before, label = chosen // values.shape[-1], chosen % values.shape[-1]
        labels = torch.cat(
            [
                labels.gather(-2, before[..., None].expand(*before.shape, part)),
                names[..., part, :].gather(-1, label)[..., None],
            ],
            -1,
        )
    missing = k - total.shape[-1]
    total = torch.nn.functional.pad(total, (0, missing), value=-torch.inf)
    return total, torch.nn.functional.pad(labels, (0, 0, 0, missing))


def _scores_at(rows: Tensor, scores: Tensor) -> Tensor:
    """Scores of the labels of cells, shape ``(*front, B, parts, L)``; zero for the one label of what is no part."""
    flat, L = scores.flatten(1, -2), scores.shape[-1]
    values = flat.expand(*rows.shape[:-1], *flat.shape[1:]).gather(
        -2, rows.clamp_min(0)[..., None].expand(*rows.shape, L)
    )
    nothing = torch.full_like(values, -torch.inf)
    nothing[..., 0] = 0.0
    return torch.where((rows >= 0)[..., None], values, nothing)
