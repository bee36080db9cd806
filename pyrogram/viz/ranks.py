# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Histograms of the ranks of simulation-based calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.printable import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_ranks(ranks: Mapping[str, Tensor], num_draws: int, *, num_bins: int = 8, columns: int = 4) -> Figure:
    """Histograms of ranks, a panel for each quantity and a line for each of its numbers; flat if inference is right.

    The band holds 99 % of the heights of a uniform bin. Heights at both ends above it say that the posterior is too
    narrow, in the middle too wide, on one side shifted.

    :param ranks: by quantity, shape ``(R, *shape)``, 0 .. L, as of :func:`.calibrate`.
    :param num_draws: L.
    :param num_bins: of a histogram; at most L + 1.
    :param columns: panels in a row.
    :raises ValueError: if ranks are none of L draws.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_ranks needs matplotlib: pip install pyro-grammar[plot]") from error

    for name, x in ranks.items():
        if not len(x) or int(x.min()) < 0 or int(x.max()) > num_draws:
            raise ValueError(f"ranks of {name!r} must be at least one, from 0 to num_draws={num_draws}.")
    num_bins = min(num_bins, num_draws + 1)
    columns = min(columns, max(len(ranks), 1))
    rows = math.ceil(len(ranks) / columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(2.6 * columns, 2.0 * rows), squeeze=False, sharex=True, layout="constrained"
    )
    bin_of = torch.arange(num_draws + 1) * num_bins // (num_draws + 1)
    widths = torch.bincount(bin_of, minlength=num_bins).double()
    edges = [0.0, *widths.cumsum(0).tolist()]
    for ax in axes.flat[len(ranks) :]:
        ax.set_visible(False)
    for number, (ax, (name, x)) in enumerate(zip(axes.flat, ranks.items(), strict=False)):
        heights = torch.nn.functional.one_hot(bin_of[x.reshape(len(x), -1).cpu()], num_bins).sum(0)
        band = [_interval(len(x), float(width) / (num_draws + 1)) for width in widths]
        ax.stairs([high for _, high in band], edges, baseline=[low for low, _ in band], fill=True, color="0.88")
        ax.stairs((len(x) * widths / (num_draws + 1)).tolist(), edges, color="0.6", linewidth=0.8)
        for line in heights.tolist():
            ax.stairs(line, edges, color="C0", linewidth=1.2, alpha=max(0.25, 1 / len(heights) ** 0.5))
        ax.set_title(name, fontsize=9)
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8, labelbottom=number + columns >= len(ranks))  # where no panel is below
    figure.supxlabel(f"rank among {plural(num_draws, 'draw')}", fontsize=9)
    return figure


def _interval(number: int, probability: float) -> tuple[int, int]:
    """What 99 % of binomial counts lie in, ends included."""
    k = torch.arange(number + 1, dtype=torch.float64)
    binomial = torch.distributions.Binomial(number, torch.tensor(probability, dtype=torch.float64))
    below = binomial.log_prob(k).exp().cumsum(0)
    return int((below < 0.005).sum()), int((below < 0.995).sum())
