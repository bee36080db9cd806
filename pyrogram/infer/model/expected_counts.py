# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expected counts of the events of one site of sentences: the E-step of every loop."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.grammar import Weights

from .structure import SentenceSite


def expect(site: SentenceSite, log_weights: Weights) -> tuple[Tensor, Weights]:
    """log Z of each sentence of a site, and expected counts by block."""
    log_z, counts = site.grammar.expected_counts(log_weights, site.words)
    check_possible(site, log_z)
    return log_z, counts


def check_possible(site: SentenceSite, log_z: Tensor) -> None:
    """Raise a ValueError that names the first sentence without a derivation."""
    impossible = (log_z == -torch.inf).nonzero()
    if len(impossible):
        raise ValueError(
            f"sentence {int(impossible[0])} of site {site.name!r} has probability zero under the current weights; "
            "start from weights without zeros"
        )
