# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of weights given the counts of derivations."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.grammar import Block


def log_dirichlet(block: Block, concentration: Tensor, generator: torch.Generator) -> Tensor:
    """The logarithm of a draw of every multinomial, float64: small concentrations give weights that no float holds."""
    a = concentration.detach().to("cpu", torch.float64)
    gamma = torch._standard_gamma(a + 1, generator=generator)  # times U ** (1 / a) it is a draw for a
    log_gamma = gamma.log() + torch.log1p(-torch.rand(a.shape, generator=generator, dtype=torch.float64)) / a
    return block.log_softmax(log_gamma).to(concentration.device)
