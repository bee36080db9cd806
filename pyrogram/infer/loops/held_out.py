# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The likelihood of held-out sentences, by which a run stops early."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.structure import TracedModel


def held_out_likelihood(
    traced: TracedModel, weights: Weights, held_out: Tensor | Mapping[str, Tensor], smoothing: float
) -> float:
    """The log-likelihood of sentences, in nats, under smoothed weights.

    :param weights: by source.
    :param held_out: sentences ``(N, n)`` of the only Sentence site, or by the name of a site.
    :param smoothing: weight of the uniform distribution that is mixed into every multinomial.
    """
    if isinstance(held_out, Tensor):
        held_out = {traced.site(None).name: held_out}
    total = 0.0
    for name, words in held_out.items():
        site = traced.site(name)
        log_weights = {}
        for block, source in site.source_of_block.items():
            w = weights[source]
            if w.dim() > len(site.grammar.blocks[block].shape):
                raise ValueError(
                    f"held_out needs weights that all sentences share, but those of block {block!r} of site {name!r} "
                    "are each sentence's own"
                )
            if not traced.weight_sources[source].is_constant:
                w = (1 - smoothing) * w + smoothing * site.grammar.blocks[block].uniform(w)
            log_weights[block] = safe_log(w)
        with torch.no_grad():
            total += float(site.grammar.log_partition(log_weights, words).sum(dtype=torch.float64))
    return total
